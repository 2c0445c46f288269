"""The only module that sends requests: it returns a complete response or raises a typed exception."""

from __future__ import annotations

import base64
import functools
import http.client
import io
import logging
import os
import random
import re
import socket
import ssl
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import Any, TypeVar
from urllib.parse import unquote, urlencode, urlsplit

import requests
import requests.adapters
import requests.structures
import requests.utils
import urllib3
import urllib3.connection
import urllib3.exceptions

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.dialect import Answer
from airflow_provider_analytics.api.rate_limiter import ANNOUNCED_FROM, RateLimiter, until
from airflow_provider_analytics.api.settings import MAX_PARALLEL, Settings, is_loopback
from airflow_provider_analytics.api.stats import Listener, Stats
from airflow_provider_analytics.api.stopping import LOOK_SECONDS, Look, Stopping
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AnalyticsTimeoutError,
    AuthenticationError,
    BlockedError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    StoppedError,
    UnexpectedResponseError,
    ValidationError,
)
from airflow_provider_analytics.readable import MIN_IN_DATA, Redactor, readable

#: Maximum size of a response body.
MAX_BODY_BYTES = 50 * 1024 * 1024
#: Maximum duration of a response, headers included, as a multiple of ``timeout``, which limits each single read.
MAX_TIMEOUTS = 10
#: Longest wait, in seconds, that the service can request; a longer one fails the request immediately.
MAX_WAIT = 60.0
#: Upper bound of the first backoff, in seconds; it doubles with every attempt, up to MAX_BACKOFF.
FIRST_BACKOFF = 1.0
MAX_BACKOFF = 30.0

#: CDNs use 520 to 530 in addition to the standard 5xx.
_RETRIED_STATUSES = frozenset({408, 500, 502, 503, 504, *range(520, 531)})
_ERRORS: dict[int, type[AnalyticsApiError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    410: NotFoundError,
    422: ValidationError,
    429: RateLimitError,
}
_CHUNK = 64 * 1024
#: Maximum number of members of a gzip stream: each has a fixed cost, whatever its size.
_MAX_MEMBERS = 1000
#: Maximum length of the reason of a connection error.
_MAX_REASON = 1000
#: Responses of servers that expect TLS to plain http; the bytes are a TLS alert.
_TLS_EXPECTED = ("https server", "https port", "\\x15\\x03", "\x15\x03")

Returned = TypeVar("Returned")

log = logging.getLogger(__name__)


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
        paths = settings.client_cert_paths
        self._cert = (paths[0], paths[1]) if len(paths) > 1 else paths[0] if paths else None
        self.redact.add(settings.api_key)
        for value in settings.headers.values():
            # A short value, such as a tenant name or a version, is no secret, and occurs in many texts.
            scheme, _, credentials = value.rpartition(" ")
            for secret in (value, credentials) if scheme else (value,):
                if len(secret) >= MIN_IN_DATA:
                    self.redact.add(secret)
        for proxy in self._proxies.values():
            name, password = (unquote(part or "") for part in (urlsplit(proxy).username, urlsplit(proxy).password))
            if password:
                self.redact.add(password)
                self.redact.add(base64.b64encode(f"{name}:{password}".encode()).decode())
        self._timeout = urllib3.Timeout(connect=settings.timeout, read=settings.timeout)
        self._headers = _headers(settings)
        self._form_headers = _headers(settings, {"Content-Type": "application/x-www-form-urlencoded"})
        self._root: str | None = None
        self._open()
        _transports.add(self)

    def _open(self) -> None:
        """Create what processes must not share: connections, and locks that a thread may hold."""
        # An adapter without a session. A session computes the target of a redirect even if it does not follow it. It
        # also keeps cookies, and reads proxies and certificates from the environment for each request.
        self._adapter = _Adapter(self._stopping, pool_connections=1, pool_maxsize=MAX_PARALLEL)
        self._limiter = RateLimiter(self.settings.requests_per_minute, self.wait, self._clock)
        self.stats.forget_threads()

    def close(self) -> None:
        """Close the connections."""
        self._adapter.close()

    def stop(self) -> None:
        """Send no further requests, cancel those under way, and stop waiting; safe in a signal handler.

        A read raises :class:`StoppedError` at once. A write under way has two seconds to finish. After that it
        raises an error that says that it may have been applied. A write that was waiting for a retry raises the error
        of its last attempt.
        """
        self._stopping.set()

    def watch(self, look: Look) -> None:
        """Check before requests, at most every second, whether to continue; stop if ``look`` returns a reason."""
        self._stopping.watch(look)

    @property
    def stopped(self) -> bool:
        """Whether the transport sends no further requests."""
        return self._stopping.is_set

    @property
    def stopped_because(self) -> str:
        """Why the transport sends no further requests."""
        return self._stopping.why

    def wait(self, seconds: float, unwanted: threading.Event | None = None) -> None:
        """Wait for a number of seconds, until :meth:`stop`, or until ``unwanted`` is set."""
        began = self._clock()
        try:
            self._stopping.wait(seconds, unwanted)
        finally:
            self.stats.count("waited", self._clock() - began)

    def url(self, path: str) -> str:
        """Return the URL of a path below ``/api/v1``.

        :raises AnalyticsConnectionError: if no request can be sent to the base URL.
        """
        if self._root is None:
            try:
                prepared = requests.Request("GET", f"{self.settings.base_url}{dialect.API_PREFIX}/").prepare()
            except requests.RequestException as error:
                raise self._connection_error(error, "GET", dialect.API_PREFIX) from None
            self._root = str(prepared.url).removesuffix("/")
        return self._root + path

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        unwanted: threading.Event | None = None,
    ) -> Answer:
        """Send a request, retry it if that is safe, and return a response with a success status.

        A POST is retried only after 429, or if the previous attempt cannot have reached the service. All other methods
        of the interface are safe to repeat. The attribute ``earlier`` of the raised error lists the errors of the
        previous attempts.

        :param method: HTTP method.
        :param path: path below ``/api/v1``.
        :param query: query parameters.
        :param form: form fields, sent as ``application/x-www-form-urlencoded``.
        :param unwanted: set when the response is no longer needed: the request is neither sent nor retried.
        :raises AnalyticsApiError: for an error status; a subclass for each that a caller can act on.
        :raises AnalyticsConnectionError: if no complete response arrived.
        :raises UnexpectedResponseError: for a redirect, and any other status that is neither success nor error.
        :raises StoppedError: because of :meth:`stop`, :meth:`watch` or ``unwanted``. If it was a write, it was not
            sent.
        """
        prepared = self._prepare(method, path, query, form)

        def attempt() -> Answer:
            self._limiter.wait(unwanted=unwanted)
            if unwanted is not None and unwanted.is_set():
                raise StoppedError(f"Canceled before sending: {method} {path}.")
            return self._attempt(prepared, method, f"{dialect.API_PREFIX}{path}")

        return self._repeat(attempt, method, unwanted)

    def answer(self, path: str, query: Mapping[str, str] | None = None) -> Answer:
        """Send a GET without retries, and return the complete response, whatever its status.

        :raises AnalyticsConnectionError: if no complete response arrived.
        :raises StoppedError: because of :meth:`stop`.
        """
        self._limiter.wait()
        return self._answer(self._prepare("GET", path, query, None), "GET", f"{dialect.API_PREFIX}{path}")

    def once(self, method: str, path: str, *, form: Mapping[str, str] | None = None) -> Answer:
        """Send a request without retries and without waiting for the rate limit, within :meth:`together`."""
        try:
            return self._attempt(self._prepare(method, path, None, form), method, f"{dialect.API_PREFIX}{path}")
        except AnalyticsError as error:
            error.where = self.settings.where
            raise

    def together(self, attempt: Callable[[], Returned]) -> Returned:
        """Call ``attempt``, which sends two requests by :meth:`once` without a pause; repeat both if one fails.

        All waiting, for the rate limit and before a retry, comes before the first request.
        """

        def attempt_when_allowed() -> Returned:
            self._limiter.wait(2)
            return attempt()

        return self._repeat(attempt_when_allowed, self.settings.update_method)

    def _repeat(
        self, attempt: Callable[[], Returned], method: str, unwanted: threading.Event | None = None
    ) -> Returned:
        earlier: list[AnalyticsError] = []
        while True:
            try:
                return attempt()
            except AnalyticsError as error:
                # The previous attempt may have been applied. This one was not sent.
                is_unclear = isinstance(error, StoppedError) and method != "GET" and earlier
                last = earlier.pop() if is_unclear else error
                last.earlier = tuple(earlier)
                last.where = self.settings.where
            is_last = len(earlier) == self.settings.max_retries or (unwanted is not None and unwanted.is_set())
            is_last = is_last or self.stopped
            if is_last or not _may_be_repeated(last, method):
                # Raised here, without the frames of the attempts below.
                raise last.with_traceback(None)
            earlier.append(last)
            self._wait_to_retry(last, len(earlier), unwanted)

    def _wait_to_retry(self, error: AnalyticsError, attempts: int, unwanted: threading.Event | None) -> None:
        delay = getattr(error, "retry_after", None)
        seconds = random.uniform(0, min(MAX_BACKOFF, FIRST_BACKOFF * 2 ** (attempts - 1))) if delay is None else delay  # noqa: S311
        when = f", at {until(seconds)}" if seconds > ANNOUNCED_FROM else ""
        reason = " ".join(str(error).splitlines())  # one line of the log
        log.warning(
            "Retrying in %.1f s%s (attempt %d of %d failed): %s",
            seconds, when, attempts, self.settings.max_retries + 1, reason,
        )  # fmt: skip
        self.stats.count("retries")
        self.wait(seconds, unwanted)

    def _prepare(
        self, method: str, path: str, query: Mapping[str, str] | None, form: Mapping[str, str] | None
    ) -> requests.PreparedRequest:
        prepared = requests.PreparedRequest()
        prepared.method = method
        prepared.url = f"{self.url(path)}?{urlencode(query)}" if query else self.url(path)
        prepared.hooks = {}
        if form is None:
            # Shared by all requests: the adapter does not change them.
            prepared.headers = self._headers
        else:
            prepared.body = urlencode(form).encode("ascii")
            prepared.headers = self._form_headers.copy()
            prepared.headers["Content-Length"] = str(len(prepared.body))
        return prepared

    def _attempt(self, prepared: requests.PreparedRequest, method: str, path: str) -> Answer:
        answer = self._answer(prepared, method, path)
        if answer.status in dialect.SUCCESS:
            return answer
        raise self._status_error(answer)

    def _answer(self, prepared: requests.PreparedRequest, method: str, path: str) -> Answer:
        self._stopping.check()
        if self.stopped:
            raise self._stop_error(method, path, sent=False)
        self.stats.count("requests")
        started = self._clock()
        try:
            answer = self._exchange(prepared, method, path, started)
        except _CanceledError as canceled:
            raise self._stop_error(method, path, sent=canceled.sent) from None
        log.debug("%s %s: status %d in %.3f s", method, path, answer.status, self._clock() - started)
        self._limiter.pause(min(dialect.pause(answer.headers), MAX_WAIT), "the rate limit of the service is used up")
        return answer

    def _exchange(self, prepared: requests.PreparedRequest, method: str, path: str, started: float) -> Answer:
        try:
            response = self._adapter.send(
                prepared,
                stream=True,
                timeout=self._timeout,  # type: ignore[arg-type] # documented by requests, missing in its stubs
                verify=self._verify,
                cert=self._cert,
                proxies=self._proxies,
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise self._connection_error(error, method, path, self._clock() - started) from None
        with closing(response):
            return self._read(response, method, path, started)

    def _stop_error(self, method: str, path: str, *, sent: bool) -> AnalyticsError:
        """Return the typed error for a request that was canceled by a stop."""
        stopped = f"Stopped: {self.stopped_because}"
        if not sent:
            return StoppedError(f"{stopped}, so this was not sent: {method} {path}.")
        if method == "GET":
            return StoppedError(f"{stopped}, before the service responded: {method} {path}.")
        return AnalyticsConnectionError(
            f"{stopped}, before the service responded. The request may have been applied.", method, path
        )

    def _read(self, response: requests.Response, method: str, path: str, started: float) -> Answer:
        """Read the whole body within the limits of size and time."""
        deadline = started + self.settings.timeout * (MAX_TIMEOUTS + 1)
        status, headers = response.status_code, response.headers
        body = bytearray()
        received = 0

        def so_far() -> Answer:
            return Answer(method, path, status, headers, bytes(body), self.settings.api_key)

        def broken(why: str, kind: type[AnalyticsConnectionError] = AnalyticsConnectionError) -> AnalyticsError:
            return kind(why, method, path, status, so_far().excerpt())

        encoding = headers.get("Content-Encoding", "identity").strip()
        if status < 200:
            # The final response follows, so this connection must not be reused: it is closed unread.
            raise so_far().unexpected("The status means neither success nor an error.")
        if encoding.lower() not in ("identity", "gzip", ""):
            if status >= 400:
                return so_far()
            name = readable(encoding, 40, is_part=True)
            raise so_far().unexpected(f"The response has the encoding '{name}', which was not requested.")
        unzip = _Gunzip() if encoding.lower() == "gzip" else None
        try:
            # read1 returns the bytes that have arrived; read would wait for a full chunk of a slow body.
            while chunk := response.raw.read1(_CHUNK, decode_content=False):
                received += len(chunk)
                body += unzip.decompress(chunk, MAX_BODY_BYTES + 1 - len(body)) if unzip else chunk
                if max(len(body), received) > MAX_BODY_BYTES:
                    raise so_far().unexpected(f"The response is larger than {MAX_BODY_BYTES} bytes.")
                if self._clock() > deadline:
                    raise broken(
                        f"The response did not end within {self._clock() - started:.0f} s.", AnalyticsTimeoutError
                    )
        except urllib3.exceptions.ReadTimeoutError:
            timeout, seconds = self.settings.timeout, self._clock() - started
            why = f"The response stalled for {timeout:g} s."
            if seconds > 2 * timeout:
                why = f"The response did not end within {seconds:.0f} s."
            raise broken(why, AnalyticsTimeoutError) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise broken(f"The response was cut off: {_describe(error)}.") from None
        except zlib.error:
            raise broken("The response is corrupt: its gzip stream cannot be read.") from None
        if unzip and not unzip.is_complete and received:
            raise broken("The response was cut off within its gzip stream.")
        return so_far()

    def _connection_error(
        self, error: Exception, method: str, path: str, seconds: float = 0.0
    ) -> AnalyticsConnectionError:
        """Return the typed error for an exception of requests, with ``sent`` and ``transient`` set.

        :param seconds: duration of the attempt.
        """
        host, timeout = self.settings.host, self.settings.timeout
        cause = _cause(error)
        kind: type[AnalyticsConnectionError] = AnalyticsConnectionError
        transient, sent = True, True
        if isinstance(error, requests.ConnectTimeout):
            kind, sent = AnalyticsTimeoutError, False
            why = f"{host} did not accept the connection within {timeout:g} s."
        elif isinstance(error, requests.ReadTimeout):
            kind = AnalyticsTimeoutError
            why = f"{host} did not respond within {timeout:g} s."
            if seconds > 2 * timeout:
                why = f"{host} did not finish its response within {seconds:.0f} s."
        elif isinstance(error, requests.exceptions.SSLError):
            transient, sent = False, not isinstance(cause, ssl.SSLCertVerificationError)
            why = self._describe_tls_error(cause)
        elif isinstance(error, requests.exceptions.ProxyError):
            # requests reports a proxy that accepted the request and then disconnected as one that was not reached.
            inner = getattr(cause, "original_error", cause)
            is_refused = "Tunnel" in str(inner)
            sent = not isinstance(inner, urllib3.exceptions.NewConnectionError) and not is_refused
            transient = not re.search("Tunnel connection failed: 4", str(inner))
            why = f"The proxy {self._proxy_name()} did not pass the request on to {host}: {_describe(inner)}."
            if is_refused:
                why += " See the extra proxies."
        elif isinstance(cause, urllib3.exceptions.NewConnectionError):
            sent, why = False, f"{host} cannot be reached: {_describe(cause)}."
        elif isinstance(cause, (requests.exceptions.InvalidURL, urllib3.exceptions.LocationValueError)):
            transient, sent = False, False
            why = f"{host} is not a valid address: {cause}."
        elif not isinstance(error, (requests.RequestException, urllib3.exceptions.HTTPError)):
            # An exception that requests does not wrap is raised before it connects: a CA or client certificate.
            transient, sent = False, False
            why = f"The request to {host} cannot be sent: {error}."
        elif self._is_plain and any(sign in repr(cause) for sign in _TLS_EXPECTED):
            transient, why = False, _HTTPS_REQUIRED.format(host)
        else:
            hint = " If it speaks https on this port, write https:// in the Base URL." if self._is_plain else ""
            why = f"{host} broke the connection off before it responded: {_describe(cause)}.{hint}"
        raised = kind(readable(why, _MAX_REASON), method, path)
        raised.transient, raised.sent = transient, sent
        return raised

    @property
    def _is_plain(self) -> bool:
        return self.settings.base_url.startswith("http://")

    def _proxy_name(self) -> str:
        """Return the address of the proxy, without credentials."""
        chosen = requests.utils.select_proxy(self.settings.base_url, self._proxies) or ""
        return chosen.rpartition("@")[2].rpartition("://")[2]

    def _describe_tls_error(self, cause: BaseException) -> str:
        host, text = self.settings.host, str(cause)
        if isinstance(cause, ssl.SSLCertVerificationError):
            reason = cause.verify_message
            if "expired" in reason:
                return f"The certificate of {host} has expired: the service has to renew it."
            if "mismatch" in reason or "not valid for" in reason:
                return f"The certificate of {host} is for another host: check the Base URL. ({reason.rstrip('.')})"
            bundle = self._verify if isinstance(self._verify, str) else None
            remedy = f"the CA bundle {bundle} did not sign it" if bundle else "set the extra verify to the CA bundle"
            return f"The certificate of {host} is not trusted: {remedy}. ({reason.rstrip('.')})"
        if any(sign in text for sign in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")):
            return f"{host} does not speak https on this port: write http://, or the port of https."
        if "CERTIFICATE_REQUIRED" in text.upper().replace(" ", "_") or "HANDSHAKE_FAILURE" in text.upper():
            has = " another" if self.settings.client_cert else " a"
            return f"{host} seems to require{has} client certificate: see the extra client_cert. ({_describe(cause)})"
        hint = " It may require a client certificate: see the extra client_cert." if "EOF" in text else ""
        return f"TLS to {host} failed: {_describe(cause)}.{hint}"

    def _status_error(self, answer: Answer) -> AnalyticsError:
        """Return the typed error for a status that does not mean success."""
        if answer.status < 400:
            target = answer.headers.get("Location", "")
            if target:
                return answer.unexpected(
                    f"The service redirects to '{readable(target, is_part=True)}', which is not followed. "
                    "If the service has moved there, change the Base URL."
                )
            return answer.unexpected("The status means neither success nor an error.")
        if self._is_plain and answer.status == 400:
            excerpt = answer.excerpt().lower()
            if any(sign in excerpt for sign in _TLS_EXPECTED):
                return answer.unexpected(_HTTPS_REQUIRED.format(self.settings.host))
        message, errors = dialect.error_details(answer)
        facts = dialect.error_facts(answer)
        kind = _ERRORS.get(answer.status, ServerError if answer.status >= 500 else AnalyticsApiError)
        if answer.status in (401, 403) and dialect.is_html(answer):
            kind, message = BlockedError, ""
            facts.insert(0, f"page '{dialect.page_title(answer) or answer.excerpt(60)}'")
        error = kind(answer.status, answer.method, answer.path, message, errors, facts)
        if isinstance(error, (RateLimitError, ServerError)):
            error.retry_after = dialect.retry_after(answer.headers)
            # The other threads of the client wait as well.
            if error.retry_after is not None and error.retry_after <= MAX_WAIT:
                self._limiter.pause(error.retry_after, f"requested by the service with status {answer.status}")
        return error


_HTTPS_REQUIRED = "{} speaks https, and the Base URL says http: write https://."


def may_have_been_applied(error: BaseException) -> bool:
    """Return whether the service may have applied the request that failed with this error.

    Only two cases prove that it has not: the request never left this machine, or the service refused it with a 4xx
    other than 408. A 5xx proves nothing, with or without ``Retry-After``: a proxy may return it after forwarding the
    request.
    """
    if isinstance(error, AnalyticsConnectionError):
        return error.sent
    if isinstance(error, AnalyticsApiError):
        return error.status >= 500 or error.status == 408
    return isinstance(error, UnexpectedResponseError)


def _may_be_repeated(error: AnalyticsError, method: str) -> bool:
    return _is_transient(error) and (method != "POST" or not may_have_been_applied(error))


def _is_transient(error: AnalyticsError) -> bool:
    if isinstance(error, AnalyticsConnectionError):
        return error.transient
    if isinstance(error, RateLimitError):
        return error.retry_after is None or error.retry_after <= MAX_WAIT
    if isinstance(error, AnalyticsApiError):
        return error.status in _RETRIED_STATUSES and (getattr(error, "retry_after", None) or 0.0) <= MAX_WAIT
    return False


def _cause(error: BaseException) -> BaseException:
    """Return the innermost exception that urllib3 wrapped."""
    inner = error
    while True:
        parts = (getattr(inner, "reason", None), *inner.args)
        reason = next((part for part in parts if isinstance(part, BaseException)), None)
        if reason is None:
            return inner
        inner = reason


def _describe(error: BaseException) -> str:
    """Return a description of an exception of requests, urllib3 or Python, without object names."""
    inner = _cause(error)
    if isinstance(inner, http.client.RemoteDisconnected):
        return "connection closed without a response"
    if isinstance(inner, urllib3.exceptions.IncompleteRead):
        return f"{inner.partial} of {inner.partial + inner.expected} bytes arrived"
    if isinstance(inner, http.client.BadStatusLine):
        return f"it is no HTTP response: {readable(str(inner), 60, is_part=True)}"
    text = inner.strerror if isinstance(inner, OSError) and inner.strerror else str(inner)
    text = re.sub(r"^.*?\): (?=Failed to)", "", text).removeprefix("Failed to establish a new connection: ")
    text = readable(re.sub(r"^\[Errno -?\d+\] ", "", text), 160, is_part=True)
    return text.rstrip(".") or type(inner).__name__


class _Gunzip:
    """Decompressor of a gzip stream, which may have several members; ignores data after the last member."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._members = 1
        self._is_over = False

    @property
    def is_complete(self) -> bool:
        """Whether the last member ended."""
        return self._member.eof

    def decompress(self, data: bytes, room: int) -> bytes:
        """Decompress further bytes; return at most ``room`` bytes, after which the stream ends.

        :raises zlib.error: if the bytes are not a gzip stream.
        """
        parts = []
        while data and room > 0 and not self._is_over:
            if self._member.eof:
                if data[0] != 0x1F:  # not the beginning of a member: padding or other data
                    self._is_over = True
                    break
                self._members += 1
                if self._members > _MAX_MEMBERS:
                    raise zlib.error(f"more than {_MAX_MEMBERS} members")
                self._member = zlib.decompressobj(wbits=31)
            parts.append(self._member.decompress(data, room))
            room -= len(parts[-1])
            data = self._member.unused_data
        return b"".join(parts)


def _headers(settings: Settings, more: Mapping[str, str] | None = None) -> requests.structures.CaseInsensitiveDict[str]:
    return requests.structures.CaseInsensitiveDict(
        {
            "Accept": "application/json",
            # Only gzip: its end proves that a body is complete.
            "Accept-Encoding": "gzip",
            # A page from the cache of a proxy may belong to an older list.
            "Cache-Control": "no-cache",
            "Connection": "keep-alive",
            "User-Agent": f"airflow-provider-analytics/{__version__}",
            **settings.headers,
            # Set last, so that neither a header of the settings nor an entry of a ~/.netrc file replaces it.
            "Authorization": f"Bearer {settings.api_key}",
            **(more or {}),
        }
    )


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


# Connections belong to the process that opened them. A child that used the connections of its parent would read the
# responses to the parent's requests.
_transports: weakref.WeakSet[Transport] = weakref.WeakSet()


def _after_fork() -> None:
    for transport in list(_transports):
        transport._open()


os.register_at_fork(after_in_child=_after_fork)


class _CanceledError(Exception):
    """The client was stopped during a request.

    :param sent: whether the service may have received the request.
    """

    def __init__(self, *, sent: bool) -> None:
        self.sent = sent


# Each byte restarts the timeout of a socket, so a response that arrives byte by byte would never time out.
class _TimedReader(io.RawIOBase):
    """Raw stream of a response. It raises TimeoutError at a deadline, and stops if the client is stopped.

    :param stream: stream of the socket; closed together with this one.
    :param connection: the socket.
    :param timeout: seconds for one read.
    :param is_canceled: whether the response is no longer needed.
    """

    def __init__(
        self, stream: io.RawIOBase, connection: socket.socket, timeout: float, is_canceled: Callable[[], bool]
    ) -> None:
        self._stream = stream
        self._connection = connection
        self._timeout = timeout
        self._is_canceled = is_canceled
        self._deadline = time.monotonic() + timeout * MAX_TIMEOUTS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        end = min(time.monotonic() + self._timeout, self._deadline)
        while (left := end - time.monotonic()) > 0:
            if self._is_canceled():
                raise _CanceledError(sent=True)
            # After a timeout, the socket can be read again, but the stream cannot.
            self._connection.settimeout(min(left, LOOK_SECONDS))
            with suppress(TimeoutError):
                return self._connection.recv_into(buffer)
        raise TimeoutError("the response did not end in time")

    def close(self) -> None:
        self._stream.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    def __init__(
        self, sock: socket.socket, debuglevel: int = 0, method: str = "", *, timeout: Any, stopping: Stopping
    ) -> None:
        super().__init__(sock, debuglevel, method)
        is_canceled = functools.partial(stopping.gives_up, method)
        self.fp = io.BufferedReader(_TimedReader(self.fp.detach(), sock, timeout, is_canceled))

    def begin(self) -> None:
        super().begin()
        # Drop lines that are not headers: urllib3 would log them unredacted.
        self.msg.set_payload("")
        self.msg.defects.clear()


class _Connection(urllib3.connection.HTTPConnection):
    """A connection, with or without a proxy, that stops connecting and waiting for a response after a stop.

    If the service does not read the request body, sending it still blocks for ``timeout`` seconds.
    """

    stopping: Stopping

    def connect(self) -> None:
        # In a thread, because a host name lookup or a TLS handshake cannot be interrupted.
        ended = threading.Event()
        failed: list[BaseException] = []
        is_canceled = False

        def connect() -> None:
            try:
                super(_Connection, self).connect()
            except BaseException as error:
                failed.append(error)
            ended.set()
            if is_canceled:
                self.close()

        threading.Thread(target=connect, name="analytics-connect", daemon=True).start()
        try:
            while not (ended.wait(LOOK_SECONDS) or self.stopping.is_set):
                pass
        finally:
            is_canceled = not ended.is_set()
        if self.stopping.is_set:
            raise _CanceledError(sent=False)
        if failed:
            raise failed.pop()

    def getresponse(self) -> Any:
        self.response_class = functools.partial(  # type: ignore[assignment]
            _TimedResponse, timeout=self.timeout, stopping=self.stopping
        )
        return super().getresponse()


class _Response(requests.Response):
    """A response with only the attributes that are read: parsing cookies would take as long as the rest.

    :param raw: the response of urllib3.
    """

    def __init__(self, raw: Any) -> None:
        self._content_consumed = False
        self.status_code = raw.status
        self.headers = raw.headers  # case-insensitive, like the dictionary of requests
        self.raw = raw


class _Adapter(requests.adapters.HTTPAdapter):
    """Adapter of requests for one service; its connections time out and can be stopped."""

    _pool: Any = None

    def __init__(self, stopping: Stopping, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._stopping = stopping

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        # Created once: address, proxy and certificates are the same for every request.
        pool: Any = self._pool
        if pool is None:
            pool = super().get_connection_with_tls_context(*args, **kwargs)
            # Several threads may run this with the same pool.
            bases = (_Connection, type(pool).ConnectionCls)
            pool.ConnectionCls = type("_Connection", bases, {"stopping": self._stopping})
            self._pool = pool
        return pool

    def close(self) -> None:
        super().close()
        self._pool = None  # its connections are closed

    def request_url(self, request: requests.PreparedRequest, proxies: Any) -> str:
        # Without a proxy: the part after the host.
        return super().request_url(request, proxies) if proxies else f"/{str(request.url).split('/', 3)[3]}"

    def build_response(self, req: requests.PreparedRequest, resp: Any) -> requests.Response:
        return _Response(resp)
