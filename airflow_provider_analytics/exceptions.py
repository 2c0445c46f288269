"""Exceptions, divided by what the caller does about them.

::

    AnalyticsError                    catch this for all of the following
        AnalyticsConfigError          correct the connection; nothing was sent
        AnalyticsApiError             any other error status: read ``status``, ``message`` and ``errors``
            AuthenticationError       401: correct the API key
            PermissionDeniedError     403: use a key with the permission
            BlockedError              401 or 403 of something in front of the service: set ``headers``; retry later
            NotFoundError             404: check the website id and the base URL
            ValidationError           422: correct the fields named in ``errors``
            RateLimitError            429: retry after ``retry_after`` seconds, or set ``requests_per_minute``
            ServerError               5xx: retry later
        AnalyticsConnectionError      check host, proxy and TLS; retry later if ``transient``
            AnalyticsTimeoutError     retry later, or increase the extra ``timeout``
        UnexpectedResponseError       check the base URL and what responds there, such as a login page
        IncompleteListError           discard the records; read again if ``moved``, else follow the hint in the message
        DomainNotFoundError           check the domain; the complete list does not have it
        DuplicateWebsiteError         give a website id, or remove the duplicates
        AmbiguousWriteError           look the domain up before creating it again
        OtherDomainError              write the domain as the service does
        NotAppliedError               find out why the service accepts a value and does not take it
        UnsafePlanError               review what would change, then follow the message
        StoppedError                  retry: the task was stopped, and the next try does the rest
        BulkError                     retry the websites in ``failures``
        SnapshotError                 correct the storage or the manifest; a published snapshot is intact

A bad argument raises :class:`ValueError` before anything is sent. All exceptions can be pickled. None contains an API
key or a website password: text from the service is redacted before it is passed to an exception.

A message begins with what is wrong or what to do. What else there is to know, such as service and connection, stands on
lines of its own: the logs of Airflow cut long lines at the edge of the screen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus

#: Limits of what a message lists: fields or websites, messages of a field, characters of a reason and of a website.
_SHOWN = 10
_SHOWN_MESSAGES = 3
_LENGTH_OF_A_REASON = 250
_LENGTH_OF_A_NAME = 80
#: Bytes; with service and connection, a message stays below 4 KB.
_SIZE_OF_A_MESSAGE = 3500


class AnalyticsError(Exception):
    """Base class of all exceptions of this package, except for bad arguments (:class:`ValueError`)."""

    #: Errors of the attempts before the last one, if the request was retried.
    earlier: tuple[AnalyticsError, ...] = ()
    #: Service and connection, such as ``https://stats.example.com/app, connection 'analytics_default'``; set by the
    #: client.
    where: str = ""

    def problem(self) -> str:
        """Return the message without service and connection."""
        return super().__str__()

    @property
    def _attempts(self) -> str:
        return f"{len(self.earlier) + 1} attempts failed. " if self.earlier else ""

    def __str__(self) -> str:
        return f"{self.problem()}\n{self._attempts}Service: {self.where}." if self.where else self.problem()


class AnalyticsConfigError(AnalyticsError):
    """Invalid settings of a connection; no request was sent.

    :param problems: all problems found, one sentence each.
    :param source: origin of the settings, such as ``connection 'analytics_default'``.
    """

    def __init__(self, problems: Sequence[str], source: str = "the connection") -> None:
        self.problems = tuple(problems)
        self.source = source
        super().__init__(self.problems, source)

    def problem(self) -> str:
        """Return all problems."""
        ended = [problem if problem.endswith(".") else f"{problem}." for problem in self.problems]
        listed = " ".join(
            f"({number}) {problem}" if len(ended) > 1 else problem for number, problem in enumerate(ended, start=1)
        )
        return f"{listed} Correct {self.source}."


class AnalyticsApiError(AnalyticsError):
    """A response with an error status.

    :param status: HTTP status of the response.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL, such as ``/api/v1/websites/7``.
    :param message: message of the service, redacted and truncated.
    :param errors: field name to messages, if the service names fields.
    :param facts: what else the response told, such as ``Retry-After 42 s``.
    """

    def __init__(
        self,
        status: int,
        method: str,
        path: str,
        message: str,
        errors: Mapping[str, Sequence[str]] | None = None,
        facts: Sequence[str] = (),
    ) -> None:
        self.status = status
        self.method = method
        self.path = path
        self.message = message
        self.errors = {field: list(messages) for field, messages in (errors or {}).items()}
        self.facts = tuple(facts)
        super().__init__(status, method, path, message, self.errors, self.facts)

    def summary(self) -> str:
        """Return what is wrong and what to do, as half a sentence."""
        if self.status == HTTPStatus.METHOD_NOT_ALLOWED and self.method in ("PATCH", "PUT"):
            other = "PUT" if self.method == "PATCH" else "PATCH"
            return f"The service does not accept {self.method}: set the extra update_method to {other}"
        if self.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            return "The proxy asks for a user name and a password: correct the extra proxies"
        return "The service refused the request"

    def problem(self) -> str:
        """Return what is wrong, what the service says, and the request."""
        status = _status_text(self.status)
        facts = ", ".join((status, *self.facts))
        said = f" The service says: {self.message}" if self.message and self.message not in status else ""
        shown = sorted(self.errors.items())[:_SHOWN]
        fields = "; ".join(f"{field}: {' '.join(messages[:_SHOWN_MESSAGES])}" for field, messages in shown)
        if len(self.errors) > _SHOWN:
            fields += f"; and {len(self.errors) - _SHOWN} more"
        listed = f" [{fields}]" if fields else ""
        text = f"{self.summary()} ({facts}).{said}{listed}".rstrip(".")
        hint = (
            " The extra boolean_format sets how favorite is written: true/false or 1/0."
            if "favorite" in self.errors
            else ""
        )
        return f"{text}.{hint} Request: {self.method} {self.path}."


class AuthenticationError(AnalyticsApiError):
    """Status 401: the key is missing, wrong or expired. A retry does not help."""

    def summary(self) -> str:
        """Return what to correct."""
        return "The API key was not accepted: correct the API key of the connection"


class PermissionDeniedError(AnalyticsApiError):
    """Status 403: the key lacks the permission. A retry does not help."""

    def summary(self) -> str:
        """Return what is missing."""
        return "The API key lacks the permission for this request"


class BlockedError(AnalyticsApiError):
    """Status 401 or 403 as an HTML page: a proxy, firewall or login in front of the service blocked the request."""

    def summary(self) -> str:
        """Return who refused, and what may help."""
        return "A web page refused the request: a wrong key, or a firewall, see the extra 'headers'"


class NotFoundError(AnalyticsApiError):
    """Status 404 or 410: the website does not exist, or the service is not at this base URL."""

    def summary(self) -> str:
        """Return what to check."""
        website_id = self.path.partition("/websites/")[2]
        return f"Not found: check {f'website id {website_id}, or ' if website_id else ''}the Base URL"


class ValidationError(AnalyticsApiError):
    """Status 422: the service rejected a value; ``errors`` names the fields. A retry does not help."""

    def summary(self) -> str:
        """Return what was rejected."""
        return f"The service rejected {', '.join(sorted(self.errors)) or 'a value'}"


class RateLimitError(AnalyticsApiError):
    """Status 429 after all retries, or with a ``Retry-After`` that is too long to wait for within a task."""

    #: Seconds of ``Retry-After``; None if the service did not send it.
    retry_after: float | None = None

    def summary(self) -> str:
        """Return what to set."""
        return "The service limits the rate of requests: set the extra requests_per_minute"


class ServerError(AnalyticsApiError):
    """Status 5xx after all retries, or 503 with a ``Retry-After`` that is too long to wait for."""

    #: Seconds of ``Retry-After``; None if the service did not send it.
    retry_after: float | None = None

    def summary(self) -> str:
        """Return who failed."""
        return "The service failed"


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

    def problem(self) -> str:
        """Return what failed, and the request."""
        return _with_request(self.message, self.status, self.method, self.path, self.excerpt)


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

    def problem(self) -> str:
        """Return what is wrong, and the request."""
        return _with_request(self.message, self.status, self.method, self.path, self.excerpt)


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

    def problem(self) -> str:
        """Return which check failed, and what was observed."""
        return f"The list may be incomplete, by the check {self.check!r}: {self.seen}"


class DomainNotFoundError(AnalyticsError):
    """No website of the complete list has the domain.

    :param domain: domain that was looked up.
    """

    def __init__(self, domain: str) -> None:
        self.domain = domain
        super().__init__(domain)

    def problem(self) -> str:
        """Return the domain."""
        return f"No website has the domain {self.domain!r}; the complete list was read."


class DuplicateWebsiteError(AnalyticsError):
    """Several websites have the domain that was looked up, so none of them can be chosen.

    :param domain: domain that was looked up.
    :param website_ids: ids of the websites.
    """

    def __init__(self, domain: str, website_ids: Sequence[str]) -> None:
        self.domain = domain
        self.website_ids = tuple(website_ids)
        super().__init__(domain, self.website_ids)

    def problem(self) -> str:
        """Return the ids, and what to do."""
        return (
            f"{len(self.website_ids)} websites have the domain {self.domain!r}: ids "
            f"{', '.join(self.website_ids)}. Give website_id, or delete all but one of them."
        )


class AmbiguousWriteError(AnalyticsError):
    """A create whose outcome is unknown: it may have been applied, so it was not sent again.

    Look the domain up before a retry; ``CreateWebsiteOperator`` does so by itself.

    :param message: why the outcome is unknown.
    :param domain: domain of the website.
    """

    def __init__(self, message: str, domain: str) -> None:
        self.message = message
        self.domain = domain
        super().__init__(message, domain)

    @property
    def _attempts(self) -> str:
        return ""  # of the earlier errors one is of the create itself, and the others of the look-up

    def problem(self) -> str:
        """Return why the outcome is unknown."""
        return f"It is not known whether the website {self.domain!r} was created: {self.message}"


class OtherDomainError(AnalyticsError):
    """A website that has another domain than the one that was sent, as the service writes it. A retry does not help.

    :param domain: domain that was sent.
    :param shown: domain in the response.
    :param website_id: id in the response.
    :param advice: what to write instead, if the service may write the domain so.
    """

    def __init__(self, domain: str, shown: str, website_id: str, advice: str = "") -> None:
        self.domain = domain
        self.shown = shown
        self.website_id = website_id
        self.advice = advice
        super().__init__(domain, shown, website_id, advice)

    def problem(self) -> str:
        """Return both domains, and what to write."""
        said = f"Website id {self.website_id} has the domain {self.shown!r}, not {self.domain!r}."
        return f"{said} {self.advice}" if self.advice else said


class NotAppliedError(AnalyticsError):
    """A write that the service accepted without taking all values: it shows others.

    :param website_id: id of the website.
    :param fields: field to a sentence with the value shown and the value sent.
    """

    def __init__(self, website_id: str, fields: Mapping[str, str]) -> None:
        self.website_id = website_id
        self.fields = dict(fields)
        super().__init__(website_id, self.fields)

    def problem(self) -> str:
        """Return the fields."""
        listed = "; ".join(f"{field} {difference}" for field, difference in self.fields.items())
        return f"The service accepted the write, but website {self.website_id} shows something else: {listed}."


class UnsafePlanError(AnalyticsError):
    """A change that a guard refuses, such as one that removes too much; nothing was sent or published."""


class StoppedError(AnalyticsError):
    """The task was stopped, so nothing more is sent. A retry does what is left.

    :param message: how far it came.
    :param website_id: id of a website that was created, and could not be checked any more; None if there is none.
    """

    def __init__(self, message: str, website_id: str | None = None) -> None:
        self.message = message
        self.website_id = website_id
        super().__init__(message, website_id)

    def problem(self) -> str:
        """Return how far it came."""
        return self.message


class BulkError(AnalyticsError):
    """An operation on many websites that failed for at least one of them.

    :param failures: website (domain or id) to its error, also of the websites that were not tried.
    :param done: number of websites for which it succeeded.
    :param not_tried: how many of ``failures`` were not tried, because the service is down.
    :param permanent: whether the service refused all of them for a reason that stays: a retry does not help.
    """

    def __init__(self, failures: Mapping[str, str], done: int = 0, not_tried: int = 0, permanent: bool = False) -> None:
        self.failures = dict(failures)
        self.done = done
        self.not_tried = not_tried
        self.permanent = permanent
        super().__init__(self.failures, done, not_tried, permanent)

    def problem(self) -> str:
        """Return the failures by reason, with the first websites of each: less than 4 KB."""
        by_reason: dict[str, list[str]] = {}
        for website, why in self.failures.items():
            # The same reason on another website differs in the path of the request, and in the website it names.
            reason = re.sub(r" Request: \S+ \S+\.", "", why).replace(website, "the website")
            by_reason.setdefault(reason, []).append(website)
        not_tried = f"{self.not_tried:,} were not tried, " if self.not_tried else ""
        failed = len(self.failures) - self.not_tried
        lines = [f"{failed:,} website{'' if failed == 1 else 's'} failed, {not_tried}{self.done:,} succeeded."]
        named = max(1, _SHOWN // max(1, len(by_reason)))
        # Most first; that some were not tried is no reason why others failed.
        for why, websites in sorted(
            by_reason.items(), key=lambda item: (item[0].startswith("Not tried"), -len(item[1]))
        ):
            more = f" and {len(websites) - named:,} more" if len(websites) > named else ""
            listed = ", ".join(website[:_LENGTH_OF_A_NAME] for website in websites[:named])
            line = f"{why[:_LENGTH_OF_A_REASON].rstrip('.')}: {listed}{more}."
            if len(lines) > _SHOWN or len("\n".join([*lines, line]).encode()) > _SIZE_OF_A_MESSAGE:
                lines.append(f"And {len(by_reason) - len(lines) + 1:,} more reasons.")
                break
            lines.append(line)
        # The first line is what an alert quotes: it holds a reason.
        return "\n".join([" ".join(lines[:2]), *lines[2:]])


class SnapshotError(AnalyticsError):
    """A snapshot or another stored file that cannot be written or read.

    The storage fails, or a manifest is corrupt or too new. A snapshot that was to be replaced is untouched.
    """


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _with_request(message: str, status: int | None, method: str, path: str, excerpt: str) -> str:
    request = " ".join(filter(None, (method, path)))
    seen = ", ".join(filter(None, (request, _status_text(status) if status is not None else "")))
    tail = f" The response begins: {excerpt!r}." if excerpt else ""
    return f"{message}{f' Request: {seen}.' if seen else ''}{tail}"
