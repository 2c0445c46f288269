# SPDX-License-Identifier: Apache-2.0
"""The only module that sends requests: it returns a complete response or raises a typed exception."""

from __future__ import annotations

import base64
import functools
import http.client
import logging
import math
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from threading import Event
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import requests
import requests.adapters
import requests.utils
import urllib3
import urllib3.connection
from urllib3 import exceptions

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api import laravel
from airflow_provider_analytics.api.laravel import Answer
from airflow_provider_analytics.api.settings import MAX_PARALLEL, Settings, is_loopback
from airflow_provider_analytics.api.waiting import (
    MAX_WAIT,
    REPORT_SECONDS,
    STOPPED,
    Flight,
    Listener,
    RateLimiter,
    Stats,
    Stopping,
    until,
)
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    NotFoundError,
    StoppedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import MIN_IN_DATA, Redactor, is_secret_key, readable

#: Maximum size of a response body.
MAX_BODY_BYTES = 50 * 1024 * 1024
#: Maximum size, and number of values, of a body that is read at the same time as others: all but a page of a list. A
#: page that is larger is read again alone. Together, the bodies read at once take at most some hundred MB.
MAX_SHARED_BYTES = 4 * 1024 * 1024
MAX_SHARED_VALUES = 100_000
#: Maximum duration of a request, as a multiple of ``timeout``, which limits each single read.
MAX_TIMEOUTS = 10
#: Upper bound of the first backoff, in seconds; it doubles with every attempt, up to MAX_BACKOFF. A service that is
#: deployed returns 502 for some seconds.
FIRST_BACKOFF = 2.0
MAX_BACKOFF = 30.0
#: Seconds for which a request is repeated while the service rejects it because of a rate limit, unless ``max_retries``
#: is 0. They start again with each request of the same kind (read or write) that the service accepts. Limits such as
#: the one of Laravel count per minute, and other tasks can use up the next minute, too.
REJECTED_SECONDS = 180.0
#: The same for a 429 with the time of the reset: then other tasks of the key used up the time since.
ANNOUNCED_SECONDS = 1800.0
#: Seconds for which a request is repeated at most, whatever else is accepted.
MAX_REJECTED_SECONDS = 3600.0

#: CDNs use 520 to 530 in addition to the standard 5xx.
_RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504, *range(520, 531)})
_ERRORS: dict[int, type[AnalyticsApiError]] = {401: AuthenticationError, 404: NotFoundError, 410: NotFoundError}
_CHUNK = 64 * 1024
#: Shortest value of a header that counts as a secret in data, unless Airflow masks the name of the header. A shorter
#: value might be the name of a tenant, which is a part of its domains.
MIN_UNNAMED_SECRET = 16
#: Headers with the name of a host or a program, in lower case. Websites might have the same name.
_PLAIN_HEADERS = frozenset({"accept-language", "host", "origin", "referer", "user-agent", "x-forwarded-host"})
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
#: Maximum length of the reason of a connection error.
_MAX_REASON = 1000

_PROXY = "The proxy {proxy} did not pass the request on to {host}: {cause}. Check the extra proxies."
_TIMED_OUT = "{host} did not {missing} within {seconds:g} s."
_CLOSED = (
    "{host} closed the connection before it responded: {cause}. If a retry also fails, check the log of the service."
    "{https}"
)
_BAD_ADDRESS = "{host} is not a valid address: {cause}."
_TLS_FAILED = "TLS to {host} failed: {cause}."
_OTHER_HOST = "The certificate of {host} is for another host ({cause}). Check the Base URL."
#: Checks of certificates that Python 3.13 enables (VERIFY_X509_STRICT); earlier versions accept such certificates.
_STRICT = "Missing (Authority|Subject) Key|Basic Constraints of CA|key usage extension|Empty Subject|X509v3"
_NOT_STRICT = (
    "The certificate of {host}, or its CA, does not fulfill RFC 5280, as Python 3.13 requires ({cause}). "
    "Renew this certificate. Other CA files in the extra verify do not help."
)
#: OpenSSL does not find the CA among the trusted ones.
_UNKNOWN_CA = "self.signed certificate|unable to get (local )?issuer certificate|unable to verify the first certificate"
_CLIENT_CERT = f"{_TLS_FAILED} It might require a client certificate, or another one. Check the extra client_cert."
#: Errors before a response: an exception of requests or urllib3, a pattern of its innermost cause, its description, and
#: whether a retry can help. The first match counts.
_CONNECTION_ERRORS: tuple[tuple[type[Exception], str, str, bool], ...] = (
    (exceptions.ProxyError, "Tunnel connection failed: 4", _PROXY, False),
    (exceptions.ProxyError, "", _PROXY, True),
    (
        exceptions.NewConnectionError,
        "",
        "{host} cannot be reached: {cause}. Check the host and the port of the connection, and that the service runs.",
        True,
    ),
    (exceptions.TimeoutError, "", _TIMED_OUT, True),
    (
        exceptions.SSLError,
        "has expired",
        "The certificate of {host}, or of its CA, has expired. The service has to renew it, unless the clock of the "
        "worker is wrong.",
        True,
    ),
    (
        exceptions.SSLError,
        "not yet valid",
        "The certificate of {host}, or of its CA, is not valid yet. Check the clock of the worker, and the start date "
        "of the certificate.",
        True,
    ),
    (exceptions.SSLError, "mismatch", _OTHER_HOST, False),
    (exceptions.SSLError, _STRICT, _NOT_STRICT, False),
    (
        exceptions.SSLError,
        "too weak",
        "The certificate of {host}, or of its CA, has a weak key or signature ({cause}). Replace it by a certificate "
        "with a key of 2,048 bits or more and SHA-256. Another CA file in the extra verify does not help.",
        False,
    ),
    (
        exceptions.SSLError,
        "revoked",
        "The certificate of {host}, or of its CA, was revoked. The service has to replace it.",
        False,
    ),
    (exceptions.SSLError, _UNKNOWN_CA, "The certificate of {host} is not trusted ({cause}). {trust}", False),
    (exceptions.SSLError, "VERIFY_FAILED", "The certificate of {host} was rejected: {cause}.", False),
    (
        exceptions.SSLError,
        "WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE",
        "{host} does not speak https on this port. Write http:// in the Base URL, or the port of https.",
        False,
    ),
    (exceptions.SSLError, "CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE|EOF", _CLIENT_CERT, False),
    (exceptions.SSLError, "", _TLS_FAILED, False),
    (exceptions.LocationValueError, "", _BAD_ADDRESS, False),
    # The response to plain http is a TLS alert.
    (
        exceptions.HTTPError,
        r"\\x15\\x03",
        "{host} speaks https, not http. Write https:// in the Base URL.",
        False,
    ),
    (exceptions.HTTPError, "", _CLOSED, True),
    (requests.exceptions.InvalidURL, "", _BAD_ADDRESS, False),
    # Before the connection is opened.
    (
        Exception,
        "CA certificate bundle",
        "The request to {host} cannot be sent: {cause}. Check the environment variables REQUESTS_CA_BUNDLE and "
        "CURL_CA_BUNDLE, or set the extra verify.",
        False,
    ),
    (Exception, "", "The request to {host} cannot be sent: {cause}.", False),
)

Returned = TypeVar("Returned")
#: Query parameters, or form fields.
Texts = Mapping[str, str]

log = logging.getLogger(__name__)


class BodyTooLargeError(UnexpectedResponseError):
    """A response that exceeds a limit."""


@dataclass(frozen=True)
class _Request:
    """A request, with the path below the base URL; alone if no other response is read at the same time."""

    method: str
    path: str
    query: Texts | None = None
    form: Texts | None = None
    is_alone: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Transport:
    """Sender of requests to one service over one connection pool; thread-safe, and safe to use after a fork.

    :param settings: base URL, API key and options.
    :param sleep: waits for a number of seconds; tests replace it. None waits until :meth:`stop` at most.
    :param clock: returns the seconds of a monotonic clock; tests replace it.
    :param listener: receives the counts (:class:`Stats`).
    """

    def __init__(
        self,
        settings: Settings,
        *,
        listener: Listener | None = None,
        sleep: Callable[[float], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.redact = Redactor()
        self.stats = Stats(listener=listener)
        self._stopping = Stopping(sleep)
        self._clock = clock
        self._proxies = dict(settings.proxies) or _environment_proxies(settings)
        self._verify = _verify(settings.verify)
        self._timeout = urllib3.Timeout(connect=settings.timeout, read=settings.timeout)
        self._limit = settings.timeout * MAX_TIMEOUTS
        self._headers = _headers(settings)
        for secret in _secrets(settings, self._proxies):
            self.redact.add(secret)
        for secret in _unnamed_headers(settings):
            self.redact.add(secret, in_data=False)
        self._open()

    def _open(self) -> None:
        """Create what processes must not share: connections, and locks that a thread can hold.

        A forked process that used the connections of its parent would read the responses to the parent's requests.
        """
        self._process = os.getpid()
        self._pool: Any = None
        self._adapter = requests.adapters.HTTPAdapter(pool_connections=1, pool_maxsize=MAX_PARALLEL)
        self._stopping.forget_threads()
        self._limiter = RateLimiter(self.settings.requests_per_minute, self.wait, self._clock)
        #: When the service accepted the last read, and the last write.
        self._accepted_at = {"read": -math.inf, "write": -math.inf}
        self.stats.forget_threads()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._adapter.close()
        self._pool = None  # its connections are closed

    def stop(self) -> None:
        """Send no further requests, cancel those under way, and stop waiting; safe in a signal handler.

        A read raises :class:`StoppedError` at once. A write under way has two seconds to finish. After that it
        raises an error that says that it might have been applied. A write that was waiting for a retry raises the error
        of its last attempt.
        """
        self._stopping.set()

    @property
    def stopped(self) -> bool:
        """Whether the transport sends no further requests."""
        return self._stopping.is_set

    def wait(self, seconds: float, unwanted: Event | None = None) -> None:
        """Wait for a number of seconds, until :meth:`stop`, or until ``unwanted`` is set."""
        start = self._clock()
        try:
            self._stopping.wait(seconds, unwanted)
        finally:
            self.stats.count("waited", self._clock() - start)

    def announce(self, message: str, seconds: float) -> None:
        """Log the reason of a wait, unless the log explains these seconds already. See :meth:`RateLimiter.report`."""
        self._limiter.report(logging.INFO, message, seconds)

    @functools.cached_property
    def _root(self) -> requests.PreparedRequest:
        try:
            return requests.Request("GET", f"{self.settings.base_url}{laravel.API_PREFIX}").prepare()
        except requests.RequestException as error:
            raise self._connection_error(error, _Request("GET", laravel.API_PREFIX), sent=False) from None

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Texts | None = None,
        form: Texts | None = None,
        unwanted: Event | None = None,
        is_alone: bool = False,
    ) -> Answer:
        """Send a request, retry it if that is safe, and return a response with a success status.

        A POST is retried only after 429, or if the previous attempt cannot have reached the service. All other methods
        of the interface are safe to repeat. A GET is also retried if the response is not JSON. The attribute
        ``earlier`` of the raised error lists the errors of the previous attempts.

        :param method: HTTP method.
        :param path: path below ``/api/v1``.
        :param query: query parameters.
        :param form: form fields, sent as ``application/x-www-form-urlencoded``.
        :param unwanted: set when the response is no longer needed: the request is neither sent nor retried.
        :param is_alone: whether no other response is read at the same time, so that this one can be large.
        :raises AnalyticsApiError: for an error status; a subclass for each that a caller can act on.
        :raises AnalyticsConnectionError: if no complete response arrived.
        :raises UnexpectedResponseError: for a redirect, and any other status that is neither success nor error.
        :raises StoppedError: because of :meth:`stop` or ``unwanted``. If it was a write, it was not sent.
        """
        return self.retried(
            lambda: self.once(method, path, query=query, form=form, is_alone=is_alone), method, unwanted=unwanted
        )

    def once(
        self,
        method: str,
        path: str,
        *,
        query: Texts | None = None,
        form: Texts | None = None,
        is_alone: bool = False,
    ) -> Answer:
        """Send a request without retries, as within :meth:`retried`; it waits only for the pace of the service."""
        self._limiter.take_turn(is_write=method != "GET")
        start = self._clock()
        answer = self._answer(_Request(method, laravel.API_PREFIX + path, query, form, is_alone))
        if laravel.is_success(answer):
            self._limiter.speed_up(is_write=method != "GET")
            self._accepted_at[_kind(method)] = self._clock()
            if method == "GET":
                laravel.document(answer)  # a web page or a garbled body can be repeated, as a 502
            return answer
        error = _status_error(answer, follows_success=max(self._accepted_at.values()) > -math.inf)
        pause = error.retry_after or 0.0
        if pause > MAX_WAIT:
            asked = f"The service asks to wait {pause:.0f} s, but a task waits at most {MAX_WAIT:g} s."
            error.remedy = f"{asked} Retry after {pause:.0f} s."
        if _is_rate_limit(error) and pause <= MAX_WAIT:
            reason = f"Rejected requests are repeated for up to {_patience(error) / 60:.0f} minutes. {error.text}"
            self._limiter.slow_down(start, pause, reason, is_write=method != "GET")
        raise error

    def retried(
        self, attempt: Callable[[], Returned], method: str, *, number: int = 1, unwanted: Event | None = None
    ) -> Returned:
        """Call ``attempt``, which sends requests by :meth:`once`; repeat it if one fails and that is safe.

        All waiting comes before the first request, except for the interval of :meth:`RateLimiter.take_turn`.

        :param method: HTTP method of its write, or GET.
        :param number: how many requests it sends.
        :param unwanted: see :meth:`request`.
        """
        if self._process != os.getpid():
            self._open()
        earlier: list[AnalyticsError] = []
        failures = 0
        rejected_since = math.inf
        while True:
            try:
                self._await_turn(number, unwanted)
                return attempt()
            except AnalyticsError as error:
                last = error
            if earlier and method != "GET" and isinstance(last, StoppedError):
                # The previous attempt might have been applied. This one was not sent.
                last = earlier.pop()
            is_rate_limit = _is_rate_limit(last)
            if is_rate_limit:
                rejected_since = min(rejected_since, self._clock())
                end = self._patient_until(last, rejected_since)
                is_last = self._clock() >= end or self.settings.max_retries == 0
            else:
                failures += 1
                is_last = failures > self.settings.max_retries
            if is_last or self._is_unwanted(unwanted) or not _may_be_repeated(last, method):
                last.earlier = tuple(earlier)
                # Raised here, without the frames of the attempts below.
                raise last.with_traceback(None)
            earlier.append(last)
            self.stats.count("retries")
            if is_rate_limit:  # the rate limiter delays it
                self._report_rejection(last, rejected_since, end)
            else:
                self._wait_to_retry(last, failures, unwanted)

    def _patient_until(self, error: AnalyticsError, rejected_since: float) -> float:
        """Return until when to repeat a request that the service rejects because of a rate limit."""
        accepted_at = self._accepted_at["read"]
        if isinstance(error, AnalyticsApiError):
            accepted_at = self._accepted_at[_kind(error.method)]
        return min(max(rejected_since, accepted_at) + _patience(error), rejected_since + MAX_REJECTED_SECONDS)

    def _report_rejection(self, error: AnalyticsError, since: float, end: float) -> None:
        """Log that the service still rejects a request, and until when it is repeated."""
        now = self._clock()
        if now - since >= REPORT_SECONDS:
            rejected = f"Still rejected after {now - since:.0f} s, giving up at {until(end - now)}"
            self._limiter.report(logging.INFO, f"{rejected}: {_request_of(error)}. {error.problem}")

    def _await_turn(self, number: int, unwanted: Event | None) -> None:
        self._limiter.wait(number, unwanted)
        if self._is_unwanted(unwanted) and not self.stopped:
            raise StoppedError("Canceled before sending, because the response is no longer needed.")

    def _is_unwanted(self, unwanted: Event | None) -> bool:
        return self.stopped or (unwanted is not None and unwanted.is_set())

    def _wait_to_retry(self, error: AnalyticsError, attempts: int, unwanted: Event | None) -> None:
        bound = min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** (attempts - 1))
        seconds = RANDOM.uniform(bound / 2, bound)
        number = f"Attempt {attempts} of {self.settings.max_retries + 1} failed, retrying in {seconds:.1f} s"
        self.announce(f"{number}: {_request_of(error)}. {error.problem} {error.remedy}".rstrip(), seconds)
        self.wait(seconds, unwanted)

    def _answer(self, request: _Request) -> Answer:
        if self.stopped:
            raise self._ended_error(request, sent=False)
        self.stats.count("requests")
        start = self._clock()
        with self._stopping.watch(request.method, self._limit) as flight:
            try:
                answer = self._exchange(request, flight)
            except AnalyticsError:
                if not flight.is_ended:
                    raise
            if flight.is_ended:
                raise self._ended_error(request, sent=flight.sent)
        log.debug("%s: status %d in %.3f s", request, answer.status, self._clock() - start)
        return answer

    def _exchange(self, request: _Request, flight: Flight) -> Answer:
        path = request.path
        if request.query:
            path += f"?{urlencode(request.query)}"
        body = None
        headers = self._headers
        if request.form is not None:
            body = urlencode(request.form).encode("ascii")
            headers = headers | _FORM
        try:
            pool = self._connections()
            response = pool.urlopen(
                request.method,
                self._target + path,
                body,
                headers,
                timeout=self._timeout,
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
            )
        except (requests.RequestException, exceptions.HTTPError, OSError) as error:
            raise self._connection_error(error, request, sent=flight.sent) from None
        with closing(response):
            return self._read(response, request)

    def _connections(self) -> Any:
        """Return the connection pool; several threads can open it at the same time.

        The adapter of requests knows certificates and proxies. It sends no request itself: a session computes the
        target of a redirect even if it does not follow it, keeps cookies, and reads the environment for each request.
        """
        pool: Any = self._pool
        if pool is None:
            cert = self.settings.client_cert_paths
            pool = self._adapter.get_connection_with_tls_context(self._root, self._verify, self._proxies, cert)
            self._adapter.cert_verify(pool, self._root.url, self._verify, cert)  # type: ignore[no-untyped-call]
            bases = (_Connection, type(pool).ConnectionCls)
            pool.ConnectionCls = type("_Connection", bases, {"stopping": self._stopping})
            # With a proxy, the whole URL.
            self._target = self._adapter.request_url(self._root, self._proxies).removesuffix(laravel.API_PREFIX)
            self._pool = pool
        return pool

    def _read(self, response: urllib3.HTTPResponse, request: _Request) -> Answer:
        """Read the whole body within the limits of size and time."""
        status = response.status
        if status < 200:
            # The final response follows, so this connection must not be reused: it is closed unread.
            unread = Answer(request.method, request.path, status, response.headers, b"", self.redact)
            raise unread.unexpected("The status means neither success nor an error.")
        limit = MAX_BODY_BYTES
        if not request.is_alone:
            limit = min(MAX_BODY_BYTES, MAX_SHARED_BYTES)
        body = bytearray()
        why = ""
        try:
            # read1 returns the bytes that have arrived; read would wait for a full chunk of a slow body.
            while len(body) <= limit and (chunk := response.read1(_CHUNK)):
                body += chunk
        except exceptions.ReadTimeoutError:
            why = f"The response stalled for {self.settings.timeout:g} s."
        except exceptions.DecodeError:
            why = "The response is corrupt: its gzip stream cannot be read."
        except (exceptions.HTTPError, OSError) as error:
            why = f"The response was cut off: {_describe(error)}."
        answer = Answer(request.method, request.path, status, response.headers, bytes(body), self.redact)
        too_large = ""
        if len(body) > limit:
            too_large = f"The response is larger than {limit} bytes."
        elif not request.is_alone and status < 400 and laravel.count_values(body) > MAX_SHARED_VALUES:
            too_large = f"The response has more than {MAX_SHARED_VALUES:,} values."
        if too_large:
            raise BodyTooLargeError(too_large, status, request.method, request.path, answer.excerpt())
        if why:
            raise AnalyticsConnectionError(why, request.method, request.path, status, answer.excerpt())
        return answer

    # Errors

    def _ended_error(self, request: _Request, *, sent: bool) -> AnalyticsError:
        """Return the typed error for a request that a stop or the watchdog ended."""
        if self.stopped and not sent:
            return StoppedError(f"{STOPPED} before {request} was sent.")
        if self.stopped and request.method == "GET":
            return StoppedError(f"{STOPPED} before the service responded to {request}.")
        if self.stopped:
            why = f"{STOPPED} before the service responded. The request might have been applied."
            return AnalyticsConnectionError(why, request.method, request.path)
        missing = "accept the connection"
        if sent:
            missing = "finish its response"
        why = f"{self.settings.host} did not {missing} within {self._limit:g} s."
        return AnalyticsConnectionError(why, request.method, request.path, sent=sent)

    def _how_to_trust(self) -> str:
        """Return what to do about a certificate of an unknown CA."""
        if isinstance(self.settings.verify, str):
            return f"No CA of the extra verify ({self.settings.verify}) signed it. Add the CA to this file."
        remedy = "Set the extra verify to the CA bundle that signed it."
        if isinstance(self._verify, str):
            return f"No CA of the file in the environment ({self._verify}) signed it. {remedy}"
        return remedy

    def _connection_error(self, error: Exception, request: _Request, *, sent: bool) -> AnalyticsConnectionError:
        """Return the typed error for an exception of requests or urllib3, with ``sent`` and ``transient`` set."""
        proxy = requests.utils.select_proxy(self.settings.base_url, self._proxies) or ""
        is_unconnected = isinstance(error, (exceptions.NewConnectionError, exceptions.ConnectTimeoutError))
        if is_unconnected and proxy.startswith("socks"):
            # With PySocks, urllib3 raises the errors of a connection without a proxy and omits the cause.
            cause: Any = error.__context__ or error
            error = exceptions.ProxyError("", getattr(cause, "socket_err", None) or cause)
        text, is_transient = _connection_problem(error)
        missing = "accept the connection"
        if sent:
            missing = "respond"
        https = ""
        has_succeeded = max(self._accepted_at.values()) > -math.inf
        if self.settings.base_url.startswith("http://") and not has_succeeded:
            https = " If it speaks https on this port, write https:// in the Base URL."
        why = text.format(
            host=self.settings.host,
            cause=_describe(error),
            seconds=self.settings.timeout,
            proxy=proxy.rpartition("@")[2].rpartition("://")[2],
            missing=missing,
            https=https,
            trust=self._how_to_trust(),
        )
        problem, has_remedy, remedy = readable(why, _MAX_REASON).partition(". ")
        if has_remedy:
            problem += "."
        found = AnalyticsConnectionError(problem, request.method, request.path, sent=sent, transient=is_transient)
        found.remedy = remedy
        return found


def _connection_problem(error: Exception) -> tuple[str, bool]:
    """Return the description of an exception of requests or urllib3, and whether a retry can help."""
    cause = repr(_cause(error))
    for kind, pattern, text, is_transient in _CONNECTION_ERRORS:
        if isinstance(error, kind) and re.search(pattern, cause):
            return text, is_transient
    raise error


def _status_error(answer: Answer, *, follows_success: bool) -> AnalyticsError:
    """Return the typed error for a status that does not mean success.

    :param follows_success: whether a request of this client succeeded before.
    """
    status = answer.status
    if status < 400:
        target = readable(answer.headers.get("Location", ""), is_part=True)
        if not target:
            return answer.unexpected("The status means neither success nor an error.")
        base_url = laravel.base_url_of_redirect(answer)
        if base_url:
            return answer.unexpected(
                f"The service redirects to '{target}'. Redirects are not followed. Set the Base URL to '{base_url}'."
            )
        return answer.unexpected(
            f"The service redirects to '{target}'. Redirects are not followed. If the service has moved, change the "
            f"Base URL. If this is a sign-in page, allow {laravel.API_PREFIX} without it."
        )
    message, errors = laravel.error_details(answer)
    facts = laravel.error_facts(answer)
    kind = _ERRORS.get(status, AnalyticsApiError)
    is_limited = laravel.is_limited(answer)
    is_denied = status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    is_blocked = is_denied and not is_limited and laravel.is_html(answer)
    if is_blocked:
        kind, message = AnalyticsApiError, ""
        facts.insert(0, f"page '{laravel.page_title(answer) or answer.excerpt(60)}'")
    is_invalid = status == HTTPStatus.UNPROCESSABLE_ENTITY
    if status == HTTPStatus.BAD_REQUEST and answer.method != "GET":
        is_invalid = laravel.error_object(answer) is not None
    error = kind(
        status,
        answer.method,
        answer.path,
        message,
        errors,
        facts,
        is_blocked,
        is_limited,
        is_invalid,
        follows_success,
    )
    if is_limited or status >= 500:
        error.retry_after = laravel.retry_after(answer.headers)
    return error


def might_have_been_applied(error: BaseException) -> bool:
    """Return whether the service might have applied the request that failed with this error.

    Only three cases prove that it has not: the request never left this machine, the service rejected it with a 4xx
    other than 408, or nginx rejected it with its own page. Any other 5xx proves nothing, with or without
    ``Retry-After``: a proxy can return it after forwarding the request.
    """
    if isinstance(error, AnalyticsConnectionError):
        return error.sent
    if isinstance(error, AnalyticsApiError):
        return (error.status >= 500 and not error.is_limited) or error.status == 408
    return isinstance(error, UnexpectedResponseError)


def _is_rate_limit(error: AnalyticsError) -> bool:
    """Return whether the service asks to slow down, with or without ``Retry-After``."""
    if error.retry_after is not None:
        return True
    return isinstance(error, AnalyticsApiError) and (error.is_limited or error.status == 503)


def _patience(error: AnalyticsError) -> float:
    """Return for how many seconds to repeat a request that the service rejects."""
    is_limit = isinstance(error, AnalyticsApiError) and error.status < 500
    if is_limit and error.retry_after is not None:
        return ANNOUNCED_SECONDS
    return REJECTED_SECONDS


def _request_of(error: AnalyticsError) -> str:
    """Return the method and the path of a request that failed, such as ``GET /api/v1/account``."""
    if isinstance(error, (AnalyticsApiError, AnalyticsConnectionError, UnexpectedResponseError)):
        return f"{error.method} {error.path}"
    return "a request"


def _kind(method: str) -> str:
    """Return the key of ``_accepted_at`` for a request."""
    if method == "GET":
        return "read"
    return "write"


def _may_be_repeated(error: AnalyticsError, method: str) -> bool:
    if method == "POST" and might_have_been_applied(error):
        return False
    if isinstance(error, AnalyticsApiError):
        is_passing = error.is_limited or error.status in _RETRIED_STATUSES
        return is_passing and (error.retry_after or 0.0) <= MAX_WAIT
    if isinstance(error, UnexpectedResponseError):
        return error.is_garbled and error.method == "GET"
    return isinstance(error, AnalyticsConnectionError) and error.transient


def _cause(error: BaseException) -> BaseException:
    """Return the innermost exception that urllib3 wrapped."""
    while True:
        inner = error.__cause__
        for argument in error.args:
            if isinstance(argument, BaseException):
                inner = argument
                break
        if inner is None:
            return error
        error = inner


def _describe(error: BaseException) -> str:
    """Return a description of an exception of requests, urllib3 or Python, without object names."""
    inner = _cause(error)
    if isinstance(inner, ssl.SSLCertVerificationError):
        return inner.verify_message.rstrip(".")
    if type(inner) is http.client.BadStatusLine:
        return f"it is not an HTTP response: {readable(str(inner), 60, is_part=True)}"
    text = str(inner)
    if isinstance(inner, OSError) and inner.strerror:
        text = inner.strerror
    return readable(text, 160, is_part=True).rstrip(".") or type(inner).__name__


def _headers(settings: Settings) -> dict[str, str]:
    headers = urllib3.HTTPHeaderDict(
        {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            # A page from the cache of a proxy can belong to an older list.
            "Cache-Control": "no-cache",
            "User-Agent": f"airflow-provider-analytics/{__version__}",
        }
    )
    headers.update(settings.headers)
    # Set last, so that no header of the settings replaces it.
    headers["Authorization"] = f"Bearer {settings.api_key}"
    return dict(headers)


def _secrets(settings: Settings, proxies: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets of the settings and of the proxies, as they might be repeated in a text."""
    yield settings.api_key
    for name, value in settings.headers.items():
        if is_secret_key(name) or (len(value) >= MIN_UNNAMED_SECRET and name.lower() not in _PLAIN_HEADERS):
            yield from _parts_of_header(value, settings)
    for proxy in proxies.values():
        name, password = requests.utils.get_auth_from_url(proxy)
        if password:
            yield from (password, base64.b64encode(f"{name}:{password}".encode()).decode())


def _unnamed_headers(settings: Settings) -> Iterator[str]:
    """Yield the values of all headers, which are masked in text even if they might not be secrets."""
    for value in settings.headers.values():
        yield from _parts_of_header(value, settings)


def _parts_of_header(value: str, settings: Settings) -> Iterator[str]:
    """Yield the parts of a header that might be repeated in a text: its value, and the credentials in it."""
    for part in (value, value.rpartition(" ")[2]):
        # A short value, such as a tenant name, is not a secret, and occurs in many texts. So does the base URL.
        if len(part) >= MIN_IN_DATA and part not in settings.base_url:
            yield part


def _environment_proxies(settings: Settings) -> dict[str, str]:
    # To a proxy, loopback is another machine, which would receive the key over plain http.
    if is_loopback(urlsplit(settings.base_url).hostname or ""):
        return {}
    return requests.utils.get_environ_proxies(settings.base_url)


def _verify(setting: bool | str) -> bool | str:
    """Return the value of requests' parameter ``verify``. Without a session, requests does not read these variables."""
    if setting is not True:
        return setting
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True


class _Head(http.client.HTTPResponse):
    """A response without the lines that are not headers: urllib3 would log them unredacted."""

    def begin(self) -> None:
        super().begin()
        self.msg.set_payload("")
        self.msg.defects.clear()


class _Connection(urllib3.connection.HTTPConnection):
    """A connection, with or without a proxy, that the watchdog can shut from the first byte on.

    A host name lookup and the TCP connect cannot be interrupted; they end at their own timeouts.
    """

    response_class = _Head
    stopping: Stopping

    @property
    def is_connected(self) -> bool:
        """Whether the pool can use the connection again; otherwise, it opens a new one.

        The service might be about to close an idle connection. Other requests are repeated then, but not a create.
        """
        return super().is_connected and self.stopping.method != "POST"

    def _new_conn(self) -> socket.socket:
        connection = super()._new_conn()
        self.stopping.hold(connection)
        return connection

    def request(self, *args: Any, **kwargs: Any) -> None:
        if self.is_closed:
            self.connect()
        self.stopping.start_sending(self.sock)
        super().request(*args, **kwargs)
