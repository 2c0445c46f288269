"""The errors of this package, cut by what a caller can do about them.

Bad arguments are plain :class:`ValueError`, raised before anything is sent. Everything else is an
:class:`AnalyticsError`. Every error survives pickling, and none of them ever holds an API key or a website
password: texts that came from the service are redacted before they get here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_HINTS = {
    401: "The service did not accept the API key: check the password field of {source}.",
    403: "The API key of {source} is known but may not do this.",
    404: "The service knows no such address: check the website id, or the base URL in {source}.",
    429: "The service limits the number of requests: set requests_per_minute in {source}.",
}


class AnalyticsError(Exception):
    """Base of every error that this package raises on purpose, except for bad arguments (ValueError).

    ``earlier`` holds the errors of the attempts before the last one, where a request was repeated.
    """

    earlier: tuple[AnalyticsError, ...] = ()


class AnalyticsConfigError(AnalyticsError):
    """The connection cannot be used as it is written; no request was sent.

    :param problems: every problem found, one sentence each.
    :param source: where the settings come from, such as ``connection 'analytics_default'``.
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
    """The service answered a request with an error status.

    :param status: HTTP status of the answer.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL, such as ``/api/v1/websites/7``.
    :param message: what the service said, redacted and cut.
    :param errors: field name to messages, where the service names fields.
    :param source: where the settings come from; the hint on what to do next names it.
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
        text = f"{self.method} {self.path} was answered with status {self.status}: {self.message}"
        if self.errors:
            fields = "; ".join(f"{field}: {' '.join(said)}" for field, said in sorted(self.errors.items()))
            text = f"{text} [{fields}]"
        hint = _HINTS.get(self.status)
        return f"{text} {hint.format(source=self.source)}" if hint else text


class AuthenticationError(AnalyticsApiError):
    """Status 401: the key is missing, wrong or expired. Trying again does not help."""


class PermissionDeniedError(AnalyticsApiError):
    """Status 403: the key may not do this. Trying again does not help."""


class NotFoundError(AnalyticsApiError):
    """Status 404: there is no such website (or no service at this base URL)."""


class ValidationError(AnalyticsApiError):
    """Status 422: the service refused a value; ``errors`` names the fields. Trying again does not help."""


class RateLimitError(AnalyticsApiError):
    """Status 429 after all retries, or with a ``Retry-After`` that is too long to wait for.

    ``retry_after`` holds the seconds that the service asked for, or None.
    """

    retry_after: float | None = None


class ServerError(AnalyticsApiError):
    """Status 5xx after all retries, or 503 with a ``Retry-After`` that is too long to wait for."""

    retry_after: float | None = None


class AnalyticsConnectionError(AnalyticsError):
    """No whole answer arrived: the service could not be reached, or the answer broke off.

    ``status`` is the HTTP status where the head of an answer was seen, else None. ``sent`` is False where the
    request surely never arrived, ``transient`` False where trying again cannot help.
    """

    sent = True
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
        tail = f" It began: {self.excerpt!r}" if self.excerpt else ""
        return f"{self.method} {self.path}{seen}: {self.message}{tail}".strip()


class AnalyticsTimeoutError(AnalyticsConnectionError):
    """The service did not accept the connection, or did not answer, within ``timeout`` seconds."""


class UnexpectedResponseError(AnalyticsError):
    """An answer that this package cannot take for a success: a redirect, no JSON, JSON of another shape.

    :param excerpt: the beginning of the answer: redacted, then cut to 200 characters.
    """

    def __init__(self, message: str, status: int, method: str, path: str, excerpt: str = "") -> None:
        self.message = message
        self.status = status
        self.method = method
        self.path = path
        self.excerpt = excerpt
        super().__init__(message, status, method, path, excerpt)

    def __str__(self) -> str:
        tail = f" It began: {self.excerpt!r}" if self.excerpt else ""
        return f"{self.method} {self.path} (status {self.status}): {self.message}{tail}"


class IncompleteListError(AnalyticsError):
    """The list that was read cannot be proven whole; nothing that was read may be published.

    :param check: name of the check that failed, such as ``total`` or ``page number``.
    :param seen: what was seen, and which setting may help.
    :param moved: True where the list changed while it was read: reading it again may succeed.
    """

    def __init__(self, check: str, seen: str, moved: bool = False) -> None:
        self.check = check
        self.seen = seen
        self.moved = moved
        super().__init__(check, seen, moved)

    def __str__(self) -> str:
        return f"The list of websites is not proven complete, check {self.check!r} failed: {self.seen}"


class AmbiguousWriteError(AnalyticsError):
    """A create whose outcome is unknown: it may have been applied, and was therefore not sent again.

    Look the domain up before trying again; ``CreateWebsiteOperator`` does so by itself.
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
    """Several websites have the domain that was looked up, so that none of them can be chosen."""

    def __init__(self, domain: str, website_ids: Sequence[str]) -> None:
        self.domain = domain
        self.website_ids = tuple(website_ids)
        super().__init__(domain, self.website_ids)

    def __str__(self) -> str:
        return (
            f"{len(self.website_ids)} websites have the domain {self.domain!r}: ids "
            f"{', '.join(self.website_ids)}. Give the website_id, or remove all but one of them."
        )


class UnsafePlanError(AnalyticsError):
    """A plan changes or removes more than its guards allow; nothing was sent."""


class BulkError(AnalyticsError):
    """Some of many websites failed; the others were done.

    :param failures: website (domain or id) to what went wrong with it.
    :param done: how many websites were done.
    """

    def __init__(self, failures: Mapping[str, str], done: int = 0) -> None:
        self.failures = dict(failures)
        self.done = done
        super().__init__(self.failures, done)

    def __str__(self) -> str:
        listed = "; ".join(f"{website}: {why}" for website, why in sorted(self.failures.items()))
        return f"{len(self.failures)} websites failed, {self.done} were done. {listed}"


class SnapshotError(AnalyticsError):
    """A snapshot cannot be written or read: storage that refuses, a manifest that is corrupt or too new.

    Where a snapshot was to be replaced, the one that was there is untouched.
    """
