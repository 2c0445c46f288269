"""Exceptions, divided by what the caller does about them.

::

    AnalyticsError                    catch this for all of the following
        AnalyticsConfigError          correct the connection; nothing was sent
        AnalyticsApiError             any other error status: read ``status``, ``message`` and ``errors``
            AuthenticationError       401: correct the API key
            PermissionDeniedError     403: use a key with the permission
            NotFoundError             404: check the website id and the base URL
            ValidationError           422: correct the fields named in ``errors``
            RateLimitError            429: retry after ``retry_after`` seconds, or set ``requests_per_minute``
            ServerError               5xx: retry later
        AnalyticsConnectionError      check host, proxy and TLS; retry later if ``transient``
            AnalyticsTimeoutError     retry later, or increase the extra ``timeout``
        UnexpectedResponseError       check the base URL and what responds there, such as a login page
        IncompleteListError           discard the records; read again if ``moved``, else follow the hint in the message
        AmbiguousWriteError           look the domain up before creating it again
        DuplicateWebsiteError         give a website id, or remove the duplicates
        UnsafePlanError               review what would change, then follow the message
        BulkError                     retry the websites in ``failures``
        SnapshotError                 correct the storage or the manifest; a published snapshot is intact

A bad argument raises :class:`ValueError` before anything is sent. All exceptions can be pickled. None contains an API
key or a website password: text from the service is redacted before it is passed to an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_HINTS = {
    401: "The service did not accept the API key: check the password field of {source}.",
    403: "The API key of {source} is valid but lacks the permission.",
    404: "Check the website id, or the base URL in {source}.",
    429: "The service limits the rate of requests: set requests_per_minute in {source}.",
}


class AnalyticsError(Exception):
    """Base class of all exceptions of this package, except for bad arguments (:class:`ValueError`)."""

    #: Errors of the attempts before the last one, if the request was retried.
    earlier: tuple[AnalyticsError, ...] = ()


class AnalyticsConfigError(AnalyticsError):
    """Invalid settings of a connection; no request was sent.

    :param problems: all problems found, one sentence each.
    :param source: origin of the settings, such as ``connection 'analytics_default'``.
    """

    def __init__(self, problems: Sequence[str], source: str = "the connection") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(self.problems, source)

    def __str__(self) -> str:
        return f"{self.source} cannot be used: " + " ".join(
            f"({number}) {problem}" if len(self.problems) > 1 else problem
            for number, problem in enumerate(self.problems, start=1)
        )


class AnalyticsApiError(AnalyticsError):
    """A response with an error status.

    :param status: HTTP status of the response.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL, such as ``/api/v1/websites/7``.
    :param message: message of the service, redacted and truncated.
    :param errors: field name to messages, if the service names fields.
    :param source: origin of the settings; the hint in the message names it.
    """

    def __init__(
        self,
        status: int,
        method: str,
        path: str,
        message: str,
        errors: Mapping[str, Sequence[str]] | None = None,
        source: str = "the connection",
    ) -> None:
        self.status = status
        self.method = method
        self.path = path
        self.message = message
        self.errors = {field: list(messages) for field, messages in (errors or {}).items()}
        self.source = source
        super().__init__(status, method, path, message, self.errors, source)

    def __str__(self) -> str:
        text = f"{self.method} {self.path} returned status {self.status}: {self.message}"
        if self.errors:
            fields = "; ".join(f"{field}: {' '.join(said)}" for field, said in sorted(self.errors.items()))
            text = f"{text} [{fields}]"
        hint = _HINTS.get(self.status)
        return f"{text.rstrip('.')}. {hint.format(source=self.source)}" if hint else text


class AuthenticationError(AnalyticsApiError):
    """Status 401: the key is missing, wrong or expired. A retry does not help."""


class PermissionDeniedError(AnalyticsApiError):
    """Status 403: the key lacks the permission. A retry does not help."""


class NotFoundError(AnalyticsApiError):
    """Status 404: the website does not exist, or the service is not at this base URL."""


class ValidationError(AnalyticsApiError):
    """Status 422: the service rejected a value; ``errors`` names the fields. A retry does not help."""


class RateLimitError(AnalyticsApiError):
    """Status 429 after all retries, or with a ``Retry-After`` that is too long to wait for."""

    #: Seconds of ``Retry-After``; None if the service did not send it.
    retry_after: float | None = None


class ServerError(AnalyticsApiError):
    """Status 5xx after all retries, or 503 with a ``Retry-After`` that is too long to wait for."""

    #: Seconds of ``Retry-After``; None if the service did not send it.
    retry_after: float | None = None


class AnalyticsConnectionError(AnalyticsError):
    """No complete response: the service could not be reached, or the response was cut off.

    :param message: what failed, redacted.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL.
    :param status: HTTP status; None if no response headers arrived.
    :param excerpt: beginning of the body: redacted, then cut to 200 characters.
    """

    #: False if the service certainly did not receive the request.
    sent = True
    #: False if a retry cannot help.
    transient = True

    def __init__(
        self, message: str, method: str = "", path: str = "", status: int | None = None, excerpt: str = ""
    ) -> None:
        self.message = message
        self.method = method
        self.path = path
        self.status = status
        self.excerpt = excerpt
        super().__init__(message, method, path, status, excerpt)

    def __str__(self) -> str:
        seen = f" (status {self.status})" if self.status is not None else ""
        tail = f" The response begins: {self.excerpt!r}" if self.excerpt else ""
        return f"{self.method} {self.path}{seen}: {self.message}{tail}".strip()


class AnalyticsTimeoutError(AnalyticsConnectionError):
    """The service did not accept the connection, or did not respond, within ``timeout`` seconds."""


class UnexpectedResponseError(AnalyticsError):
    """A response that cannot be accepted as a success: a redirect, not JSON, or JSON of another structure.

    :param message: what is wrong with the response.
    :param status: HTTP status of the response.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL.
    :param excerpt: beginning of the body: redacted, then cut to 200 characters.
    """

    def __init__(self, message: str, status: int, method: str, path: str, excerpt: str = "") -> None:
        self.message = message
        self.status = status
        self.method = method
        self.path = path
        self.excerpt = excerpt
        super().__init__(message, status, method, path, excerpt)

    def __str__(self) -> str:
        tail = f" The response begins: {self.excerpt!r}" if self.excerpt else ""
        return f"{self.method} {self.path} (status {self.status}): {self.message}{tail}"


class IncompleteListError(AnalyticsError):
    """A list that cannot be proven complete; none of its records may be published.

    :param check: name of the failed check, such as ``total`` or ``page number``.
    :param seen: what was observed, and which setting may help.
    :param moved: True if the list changed while it was read: reading it again may succeed.
    """

    def __init__(self, check: str, seen: str, moved: bool = False) -> None:
        self.check = check
        self.seen = seen
        self.moved = moved
        super().__init__(check, seen, moved)

    def __str__(self) -> str:
        return f"The list of websites is not proven complete; check {self.check!r} failed: {self.seen}"


class AmbiguousWriteError(AnalyticsError):
    """A create whose outcome is unknown: it may have been applied, so it was not sent again.

    Look the domain up before a retry; ``CreateWebsiteOperator`` does so by itself.

    :param message: why the outcome is unknown.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL.
    :param domain: domain of the website.
    """

    def __init__(self, message: str, method: str = "", path: str = "", domain: str = "") -> None:
        self.message = message
        self.method = method
        self.path = path
        self.domain = domain
        super().__init__(message, method, path, domain)

    def __str__(self) -> str:
        return f"{self.method} {self.path} for domain {self.domain!r}: {self.message}"


class DuplicateWebsiteError(AnalyticsError):
    """Several websites have the domain that was looked up, so none of them can be chosen.

    :param domain: domain that was looked up.
    :param website_ids: ids of the websites.
    """

    def __init__(self, domain: str, website_ids: Sequence[str]) -> None:
        self.domain = domain
        self.website_ids = tuple(website_ids)
        super().__init__(domain, self.website_ids)

    def __str__(self) -> str:
        return (
            f"{len(self.website_ids)} websites have the domain {self.domain!r}: ids "
            f"{', '.join(self.website_ids)}. Give website_id, or delete all but one of them."
        )


class UnsafePlanError(AnalyticsError):
    """A change that a guard refuses, such as one that removes too much; nothing was sent or published."""


class BulkError(AnalyticsError):
    """An operation on many websites that failed for at least one of them.

    :param failures: website (domain or id) to its error.
    :param done: number of websites for which it succeeded.
    """

    def __init__(self, failures: Mapping[str, str], done: int = 0) -> None:
        self.failures = dict(failures)
        self.done = done
        super().__init__(self.failures, done)

    def __str__(self) -> str:
        listed = "; ".join(f"{website}: {why}" for website, why in sorted(self.failures.items()))
        return f"{len(self.failures)} websites failed, {self.done} succeeded. {listed}"


class SnapshotError(AnalyticsError):
    """A snapshot or another stored file that cannot be written or read.

    The storage fails, or a manifest is corrupt or too new. A snapshot that was to be replaced is untouched.
    """
