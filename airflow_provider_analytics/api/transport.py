# SPDX-License-Identifier: Apache-2.0
"""The only module that sends requests: it returns a complete response or raises a typed exception."""

from __future__ import annotations

import base64
import functools
import http.client
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
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
from airflow_provider_analytics.api.connection_errors import Way, describe
from airflow_provider_analytics.api.laravel import Answer
from airflow_provider_analytics.api.rejections import is_rate_limit, may_be_repeated, patience, status_error
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
    StoppedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.randomness import RANDOM
from airflow_provider_analytics.readable import MIN_IN_DATA, Redactor, is_secret_key

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
#: Seconds for which a request is repeated at most, whatever else is accepted.
MAX_REJECTED_SECONDS = 3600.0

_CHUNK = 64 * 1024
#: Shortest value of a header that counts as a secret in data, unless Airflow masks the name of the header. A shorter
#: value might be the name of a tenant, which is a part of its domains.
MIN_UNNAMED_SECRET = 16
#: Headers with the name of a host or a program, in lower case. Websites might have the same name.
_PLAIN_HEADERS = frozenset({"accept-language", "host", "origin", "referer", "user-agent", "x-forwarded-host"})
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
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
        self._way = Way(settings, self._proxies, self._verify)
        self._timeout = urllib3.Timeout(connect=settings.timeout, read=settings.timeout)
        self._limit = settings.timeout * MAX_TIMEOUTS
        self._headers = _headers(settings)
        for secret in _secrets(settings, self._proxies):
            self.redact.add(secret)
        for value in settings.headers.values():
            for part in _parts_of_header(value, settings):
                self.redact.add(part, in_data=False)
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
        error = status_error(answer, follows_success=self._has_succeeded)
        pause = error.retry_after or 0.0
        if pause > MAX_WAIT:
            error.remedy = (
                f"The service asks for a pause of {pause:.0f} s, but a task waits at most {MAX_WAIT:g} s. "
                f"Set retry_delay to {pause:.0f} s or more."
            )
        if is_rate_limit(error) and pause <= MAX_WAIT:
            reason = f"Rejected requests are repeated for up to {patience(error) / 60:.0f} minutes. {error.text}"
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
            is_limited = is_rate_limit(last)
            if is_limited:
                rejected_since = min(rejected_since, self._clock())
                end = self._patient_until(last, rejected_since)
                is_last = self._clock() >= end or self.settings.max_retries == 0
            else:
                failures += 1
                is_last = failures > self.settings.max_retries
            if is_last or self._is_unwanted(unwanted) or not may_be_repeated(last, method):
                last.earlier = tuple(earlier)
                # Raised here, without the frames of the attempts below.
                raise last.with_traceback(None)
            earlier.append(last)
            self.stats.count("retries")
            if is_limited:  # the rate limiter delays it
                self._report_rejection(last, rejected_since, end)
            else:
                self._wait_to_retry(last, failures, unwanted)

    def _patient_until(self, error: AnalyticsError, rejected_since: float) -> float:
        """Return until when to repeat a request that the service rejects because of a rate limit."""
        accepted_at = self._accepted_at["read"]
        if isinstance(error, AnalyticsApiError):
            accepted_at = self._accepted_at[_kind(error.method)]
        return min(max(rejected_since, accepted_at) + patience(error), rejected_since + MAX_REJECTED_SECONDS)

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
            why = f"The response was cut off: {describe(error)}."
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

    @property
    def _has_succeeded(self) -> bool:
        return max(self._accepted_at.values()) > -math.inf

    def _connection_error(self, error: Exception, request: _Request, *, sent: bool) -> AnalyticsConnectionError:
        return self._way.error(error, request.method, request.path, sent=sent, follows_success=self._has_succeeded)

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
