"""HTTP transport, the only module that sends requests: returns a complete response or raises a typed error."""

from __future__ import annotations

import logging
import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import requests
import requests.adapters
import requests.auth
import requests.utils
import urllib3.exceptions
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.dialect import Answer
from airflow_provider_analytics.api.redaction import Redactor
from airflow_provider_analytics.api.settings import Settings, is_loopback
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AnalyticsTimeoutError,
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    UnexpectedResponseError,
    ValidationError,
)

#: Maximum size of a decompressed body.
MAX_BODY_BYTES = 50 * 1024 * 1024
#: Maximum time for a whole body, in multiples of ``timeout``.
MAX_BODY_TIMEOUTS = 10
#: Maximum ``Retry-After`` in seconds; with a longer one the request fails at once.
MAX_WAIT = 60.0
#: Upper bound of the first backoff in seconds; it doubles with every attempt, up to :data:`MAX_BACKOFF`.
FIRST_BACKOFF = 1.0
MAX_BACKOFF = 30.0
#: Size of the connection pool: one connection per thread of a bulk operation.
POOL_SIZE = 8

_RETRIED_STATUSES = frozenset({500, 502, 503, 504})
_ERRORS: dict[int, type[AnalyticsApiError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    422: ValidationError,
    429: RateLimitError,
}
_CHUNK = 64 * 1024

log = logging.getLogger(__name__)


@dataclass
class Stats:
    """Number of requests that a client has sent so far, and of retries among them."""

    requests: int = 0
    retries: int = 0


class BearerAuth(requests.auth.AuthBase):
    """Authentication with the API key. As an auth object, it takes precedence over ``~/.netrc``."""

    def __init__(self, api_key: str) -> None:
        self._api_key = api_key

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with the header ``Authorization`` (docs/interface.md, Authentication)."""
        request.headers["Authorization"] = f"Bearer {self._api_key}"
        return request


class RateLimiter:
    """At most ``per_minute`` requests in any 60 s, shared by all threads.

    :param per_minute: the limit; None for no limit except :meth:`pause`.
    :param sleep: waits for a number of seconds.
    :param clock: returns the seconds of a monotonic clock.
    """

    def __init__(self, per_minute: int | None, sleep: Callable[[float], None], clock: Callable[[], float]) -> None:
        self._passed: deque[float] = deque(maxlen=per_minute or 0)
        self._sleep = sleep
        self._clock = clock
        self._not_before = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait until the next request may be sent."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._not_before)
            if self._passed.maxlen:
                if len(self._passed) == self._passed.maxlen:
                    turn = max(turn, self._passed[0] + 60.0)
                self._passed.append(turn)
        if turn > now:
            self._sleep(turn - now)

    def pause(self, seconds: float) -> None:
        """Delay all requests until ``seconds`` from now."""
        with self._lock:
            self._not_before = max(self._not_before, self._clock() + seconds)


class Transport:
    """Sender of requests to one service over one connection pool; thread-safe.

    :param settings: base URL, API key and options.
    :param sleep: waits for a number of seconds; tests replace it.
    :param clock: returns the seconds of a monotonic clock; tests replace it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.redact = Redactor()
        self.stats = Stats()
        self._sleep = sleep
        self._clock = clock
        self._limiter = RateLimiter(settings.requests_per_minute, sleep, clock)
        self._stats_lock = threading.Lock()
        self._auth = BearerAuth(settings.api_key)
        # An adapter without a session: a session computes the target of a redirect even if it does not follow it,
        # keeps cookies, and reads proxies and certificates from the environment for each request.
        self._adapter = requests.adapters.HTTPAdapter(pool_connections=1, pool_maxsize=POOL_SIZE)
        self._proxies = dict(settings.proxies) or _environment_proxies(settings)
        self._verify = _verify(settings.verify)
        self.redact.add(settings.api_key)
        for proxy in self._proxies.values():
            self.redact.add(unquote(urlsplit(proxy).password or ""))

    def close(self) -> None:
        """Close the connections."""
        self._adapter.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, retry it if that is safe, and return a response with a success status.

        A POST is retried only if the previous attempt cannot have been applied; all other methods of the interface may
        be repeated. The attribute ``earlier`` of the raised error lists the errors of the previous attempts.

        :param method: HTTP method.
        :param path: path below ``/api/v1``.
        :param query: query parameters.
        :param form: form fields, sent as ``application/x-www-form-urlencoded``.
        :raises AnalyticsApiError: for an error status; a subclass for each that a caller can act on.
        :raises AnalyticsConnectionError: if no complete response arrived.
        :raises UnexpectedResponseError: for a redirect, and any other status that is neither success nor error.
        """
        path = f"{dialect.API_PREFIX}{path}"
        prepared = self._prepare(method, path, query, form)
        earlier: list[AnalyticsError] = []

        def may_repeat(error: BaseException) -> bool:
            return _is_transient(error) and (method != "POST" or not may_have_been_applied(error))

        def note(state: RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            if isinstance(error, AnalyticsError):
                earlier.append(error)
            seconds = state.next_action.sleep if state.next_action else 0.0
            log.warning(
                "Attempt %d of %d failed, retrying in %.1f s: %s",
                state.attempt_number, self.settings.max_retries + 1, seconds, error,
            )  # fmt: skip
            with self._stats_lock:
                self.stats.retries += 1

        retrying = Retrying(
            stop=stop_after_attempt(self.settings.max_retries + 1),
            retry=retry_if_exception(may_repeat),
            wait=_seconds_to_wait,
            before_sleep=note,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(self._attempt, prepared, method, path)
        except AnalyticsError as error:
            error.earlier = tuple(earlier)
            raise

    def _prepare(
        self, method: str, path: str, query: Mapping[str, str] | None, form: Mapping[str, str] | None
    ) -> requests.PreparedRequest:
        headers = {
            "Accept": "application/json",
            # Nothing but gzip: its end shows whether a body is complete.
            "Accept-Encoding": "gzip",
            "Connection": "keep-alive",
            "User-Agent": f"airflow-provider-analytics/{__version__}",
        }
        body = None
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form).encode("ascii")
        url = f"{self.settings.base_url}{path}"
        if query:
            url = f"{url}?{urlencode(query)}"
        try:
            return requests.Request(method, url, headers=headers, data=body, auth=self._auth).prepare()
        except requests.RequestException as error:
            raise self._connection_error(error, method, path) from None

    def _attempt(self, prepared: requests.PreparedRequest, method: str, path: str) -> Answer:
        self._limiter.wait()
        with self._stats_lock:
            self.stats.requests += 1
        started = self._clock()
        try:
            response = self._adapter.send(
                prepared,
                stream=True,
                timeout=(self.settings.timeout, self.settings.timeout),
                verify=self._verify,
                proxies=self._proxies,
            )
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise self._connection_error(error, method, path) from None
        with closing(response):
            answer = self._read(response, method, path)
        log.debug("%s %s: status %d in %.3f s", method, path, answer.status, self._clock() - started)
        self._limiter.pause(min(dialect.pause(answer.headers), MAX_WAIT))
        if answer.status in dialect.SUCCESS:
            return answer
        raise self._status_error(answer)

    def _read(self, response: requests.Response, method: str, path: str) -> Answer:
        """Read the whole body, within the limits of size and time."""
        deadline = self._clock() + self.settings.timeout * MAX_BODY_TIMEOUTS
        head = Answer(method, path, response.status_code, response.headers, b"", self.redact)
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if response.status_code < 200:
            # The final response follows, so this connection must not be reused: it is closed unread.
            raise head.unexpected("The status means neither success nor an error.")
        if encoding not in ("identity", "gzip", ""):
            if response.status_code >= 400:
                return head
            raise head.unexpected(f"The response has the encoding {encoding[:40]!r}, which was not requested.")
        unzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        body = bytearray()
        received = 0

        def broken(why: str, kind: type[AnalyticsConnectionError] = AnalyticsConnectionError) -> AnalyticsError:
            excerpt = Answer(method, path, head.status, head.headers, bytes(body), self.redact).excerpt()
            return kind(why, method, path, head.status, excerpt)

        try:
            # read1 returns the bytes that have arrived; read would wait for a full chunk of a slow body.
            while chunk := response.raw.read1(_CHUNK, decode_content=False):
                received += len(chunk)
                body += unzip.decompress(chunk, MAX_BODY_BYTES + 1 - len(body)) if unzip else chunk
                if len(body) > MAX_BODY_BYTES:
                    too_large = Answer(method, path, head.status, head.headers, bytes(body), self.redact)
                    raise too_large.unexpected(f"The response is larger than {MAX_BODY_BYTES} bytes.")
                if self._clock() > deadline:
                    raise broken("The response did not end in time.", AnalyticsTimeoutError)
        except urllib3.exceptions.ReadTimeoutError:
            timeout = self.settings.timeout
            raise broken(f"The response stalled for {timeout:g} s.", AnalyticsTimeoutError) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise broken(f"The response was cut off ({_kind(error)}).") from None
        except zlib.error:
            raise broken("The response is corrupt: its gzip stream cannot be read.") from None
        if unzip and not unzip.eof and received:
            raise broken("The response was cut off within its gzip stream.")
        return Answer(method, path, head.status, head.headers, bytes(body), self.redact)

    def _connection_error(self, error: Exception, method: str, path: str) -> AnalyticsConnectionError:
        """Return the typed error for an exception of requests, with ``sent`` and ``transient`` set."""
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
        elif isinstance(error, requests.exceptions.SSLError):
            transient, sent = False, "CERTIFICATE_VERIFY_FAILED" not in str(error)
            why = f"TLS to {host} failed: {error}. For a private CA, set the extra verify to its CA bundle."
        elif isinstance(error, requests.exceptions.ProxyError):
            # requests reports a proxy that accepted the request and then disconnected as one that was not reached.
            inner = getattr(cause, "original_error", cause)
            sent = not isinstance(inner, urllib3.exceptions.NewConnectionError) and "Tunnel" not in str(inner)
            why = f"The proxy to {host} failed: {_kind(inner)}."
        elif isinstance(cause, urllib3.exceptions.NewConnectionError):
            sent, why = False, f"{host} cannot be reached: {cause}."
        elif isinstance(cause, (requests.exceptions.InvalidURL, urllib3.exceptions.LocationValueError)):
            transient, sent = False, False
            why = f"{host} is not a valid address: {cause}."
        elif not isinstance(error, (requests.RequestException, urllib3.exceptions.HTTPError)):
            # An exception that requests does not wrap is raised before it connects: the CA bundle cannot be read.
            transient, sent = False, False
            why = f"The request to {host} cannot be sent: {error}."
        else:
            why = f"The connection to {host} was lost before a response arrived ({_kind(cause)})."
        raised = kind(self.redact(why), method, path)
        raised.transient, raised.sent = transient, sent
        return raised

    def _status_error(self, answer: Answer) -> AnalyticsError:
        """Return the typed error for a status other than success."""
        if answer.status < 400:
            target = answer.headers.get("Location", "")
            if target:
                return answer.unexpected(
                    f"The service redirects to {target[:200]!r}; redirects are not followed. "
                    "If the service has moved there, change the base URL."
                )
            return answer.unexpected("The status means neither success nor an error.")
        message, errors = dialect.error_details(answer)
        kind = _ERRORS.get(answer.status, ServerError if answer.status >= 500 else AnalyticsApiError)
        error = kind(answer.status, answer.method, answer.path, message, errors, self.settings.source)
        if isinstance(error, (RateLimitError, ServerError)):
            error.retry_after = dialect.retry_after(answer.headers)
            # All threads of the client wait.
            if error.retry_after is not None and error.retry_after <= MAX_WAIT:
                self._limiter.pause(error.retry_after)
        return error


def may_have_been_applied(error: BaseException) -> bool:
    """Return whether the service may have applied the request that failed with this error.

    It cannot have if the request was not sent, was rate-limited (429), was deferred (503 with ``Retry-After``) or was
    rejected (any other 4xx).
    """
    if isinstance(error, AnalyticsConnectionError):
        return error.sent
    if isinstance(error, ServerError):
        return error.status != 503 or error.retry_after is None
    return isinstance(error, UnexpectedResponseError)


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, AnalyticsConnectionError):
        return error.transient
    if isinstance(error, RateLimitError):
        return error.retry_after is None or error.retry_after <= MAX_WAIT
    if isinstance(error, ServerError):
        return error.status in _RETRIED_STATUSES and (error.retry_after or 0.0) <= MAX_WAIT
    return False


_backoff = wait_random_exponential(multiplier=FIRST_BACKOFF, max=MAX_BACKOFF)


def _seconds_to_wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = getattr(error, "retry_after", None)
    return float(_backoff(state) if asked is None else asked)


def _cause(error: BaseException) -> BaseException:
    """Return the innermost exception of urllib3 that requests has wrapped."""
    inner: Any = error
    while True:
        reason = getattr(inner, "reason", None) or (inner.args[0] if getattr(inner, "args", None) else None)
        if not isinstance(reason, BaseException):
            return inner  # type: ignore[no-any-return]
        inner = reason


def _kind(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:160]


def _environment_proxies(settings: Settings) -> dict[str, str]:
    # To a proxy on another machine, loopback is that machine: the proxy would get the key in clear text over http.
    if is_loopback(urlsplit(settings.base_url).hostname or ""):
        return {}
    return requests.utils.get_environ_proxies(settings.base_url)


def _verify(setting: bool | str) -> bool | str:
    """Return the ``verify`` for requests, which reads these environment variables only within a session."""
    if setting is not True:
        return setting
    return os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
