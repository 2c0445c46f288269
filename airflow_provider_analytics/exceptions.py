"""Exceptions, one class for each way to handle them.

::

    AnalyticsError                    catch this for all of the following
        AnalyticsConfigError          correct the connection; no request was sent
        AnalyticsApiError             any other error status: read ``status``, ``message`` and ``errors``
            AuthenticationError       401: correct the API key
            PermissionDeniedError     403: use a key with the permission
            BlockedError              401 or 403 by a proxy, firewall or login page: set ``headers``; retry later
            NotFoundError             404: check the website id and the base URL
            ValidationError           422: correct the fields named in ``errors``
            RateLimitError            429: retry after ``retry_after`` seconds, or set ``requests_per_minute``
            ServerError               5xx: retry later
        AnalyticsConnectionError      check host, proxy and TLS; retry later if ``transient``
            AnalyticsTimeoutError     retry later, or increase the extra ``timeout``
        UnexpectedResponseError       check the base URL: a login page or a proxy may respond there
        IncompleteListError           discard the records; read again if ``moved``, otherwise follow the message
        DomainNotFoundError           check the domain; the complete list does not contain it
        DuplicateWebsiteError         give a website id, or delete the duplicates
        AmbiguousWriteError           look up the domain before you create it again
        OtherDomainError              use the service's spelling of the domain
        NotAppliedError               find out why the service accepts a value and does not store it
        GuardError                    review what would change, then follow the message
        StoppedError                  retry: the task was stopped, and the next try completes the work
        BulkError                     retry the websites in ``failures``
        UnresolvedError               retry, or correct the host name in the list
        StorageError                  correct the storage or the file; published snapshots are intact

A bad argument raises :class:`ValueError` before any request is sent.

Each error has a ``problem`` (what happened) and a ``remedy`` (what to do; may be empty), both as whole sentences.
``str(error)`` contains the problem, the remedy, further details, the service and the connection. The last two are on
separate lines, because Airflow's logs cut long lines at the edge of the screen. All errors can be pickled. No error
contains an API key or a website password. Text of the service is made :func:`readable` before it is passed to an
exception, and so is the whole message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, ClassVar

from airflow_provider_analytics.readable import counted, readable

#: Limits of a message: number of fields or websites, messages per field, characters of a reason and of a website.
_MAX_LISTED = 10
_MAX_LISTED_MESSAGES = 3
_MAX_REASON_LENGTH = 250
_MAX_NAME_LENGTH = 80
#: Bytes; with service and connection, a message stays below 4 KB.
_MAX_MESSAGE_BYTES = 3500
#: Characters of any message.
MAX_MESSAGE = 10_000


class AnalyticsError(Exception):
    """Base class of all exceptions of this package, except for bad arguments (:class:`ValueError`)."""

    #: Description of the error.
    problem: str
    #: Recommended action.
    remedy: str = ""
    #: Action needed before a retry of the task can succeed; empty if a retry alone may succeed.
    before_retry: str = ""
    #: Id of the website that the failed call created; empty if none is known.
    created: str = ""
    #: Progress of the task before the error, as a sentence.
    so_far: str = ""
    #: Errors of the attempts before the last one, if the request was retried.
    earlier: tuple[AnalyticsError, ...] = ()
    #: Service and connection, such as ``https://stats.example.com/app, connection 'analytics_default'``; set by the
    #: client.
    where: str = ""
    _separator: ClassVar[str] = " "

    def __init__(self, problem: str = "", remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the function and the data that rebuild the error in another process."""
        return _rebuilt, (type(self), self.__dict__)

    @property
    def detail(self) -> str:
        """Facts that follow the remedy, such as the request."""
        return ""

    @property
    def text(self) -> str:
        """Message without service and connection."""
        text = self._separator.join(filter(None, (self.problem, self.remedy, self.so_far, self.detail)))
        return readable(text, MAX_MESSAGE, breaks="keep")

    @property
    def _attempts(self) -> str:
        return f"{len(self.earlier) + 1} attempts failed. " if self.earlier else ""

    def __str__(self) -> str:
        return f"{self.text}\n{self._attempts}Service: {self.where}." if self.where else self.text


def _rebuilt(kind: type[AnalyticsError], state: dict[str, Any]) -> AnalyticsError:
    error = kind.__new__(kind)
    error.__dict__.update(state)
    return error


@dataclass(eq=False)
class AnalyticsConfigError(AnalyticsError):
    """Invalid settings of a connection; no request was sent.

    :param problems: all problems, one sentence each.
    :param source: origin of the settings, such as ``connection 'analytics_default'``.
    """

    problems: Sequence[str]
    source: str = "the connection"

    before_retry = "correct the connection first"

    def __post_init__(self) -> None:
        self.problems = tuple(self.problems)

    @property
    def problem(self) -> str:  # type: ignore[override]
        """All problems."""
        ended = [problem if problem.endswith(".") else f"{problem}." for problem in self.problems]
        return " ".join(f"({n}) {one}" if len(ended) > 1 else one for n, one in enumerate(ended, start=1))

    @property
    def remedy(self) -> str:  # type: ignore[override]
        """Advice to correct the connection."""
        return f"Correct {self.source}."


@dataclass(eq=False)
class AnalyticsApiError(AnalyticsError):
    """A response with an error status.

    :param status: HTTP status of the response.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL, such as ``/api/v1/websites/7``.
    :param message: message of the service, readable.
    :param errors: field name to messages, if the response contains fields.
    :param facts: further facts of the response, such as ``Retry-After 42 s``.
    """

    status: int
    method: str
    path: str
    message: str
    errors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    facts: Sequence[str] = ()

    #: Description of the error, as a clause.
    happened: ClassVar[str] = "The service refused the request"
    #: Recommended action, as whole sentences.
    advice: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.errors = {name: list(messages) for name, messages in self.errors.items()}
        self.facts = tuple(self.facts)

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Description of the error, with the status."""
        return f"{self._happened} ({', '.join((_status_text(self.status), *self.facts))})."

    @property
    def _happened(self) -> str:
        return f"The service does not accept {self.method}" if self._is_refused_method else self.happened

    @property
    def _is_refused_method(self) -> bool:
        return self.status == HTTPStatus.METHOD_NOT_ALLOWED and self.method in ("PATCH", "PUT")

    @property
    def remedy(self) -> str:  # type: ignore[override]
        """Recommended action."""
        if self._is_refused_method:
            return f"Set the extra update_method to {'PUT' if self.method == 'PATCH' else 'PATCH'}."
        if self.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            return "The proxy requires a user name and a password. Correct the extra proxies."
        if "favorite" in self.errors:
            return "Set the extra boolean_format to the format of favorite: true/false or 1/0."
        return self.advice

    @property
    def detail(self) -> str:
        """The message of the service, its messages by field, and the request."""
        message = f"The service says: {self.message}" if self.message and self.message not in self.problem else ""
        errors = sorted(self.errors.items())
        fields = "; ".join(
            f"{name}: {' '.join(messages[:_MAX_LISTED_MESSAGES])}" for name, messages in errors[:_MAX_LISTED]
        )
        if len(errors) > _MAX_LISTED:
            fields += f"; and {len(errors) - _MAX_LISTED} more"
        parts = f"{message} [{fields}]".strip() if fields else message
        request = f"Request: {self.method} {self.path}."
        return f"{parts.rstrip('.')}. {request}" if parts else request


class AuthenticationError(AnalyticsApiError):
    """Status 401: the key is missing, wrong or expired. A retry does not help."""

    happened = "API key rejected"
    advice = "Correct the API key of the connection."
    before_retry = "correct the API key first"


class PermissionDeniedError(AnalyticsApiError):
    """Status 403: the key does not have the permission. A retry does not help."""

    happened = "The API key does not have the permission for this request"
    advice = "Use the key of an account that has it."
    before_retry = "change the permissions of the key first"


class BlockedError(AnalyticsApiError):
    """Status 401 or 403 as an HTML page: a proxy, firewall or login in front of the service blocked the request."""

    happened = "A web page refused the request"
    advice = "Check the key and the firewall, see the extra 'headers'."


class NotFoundError(AnalyticsApiError):
    """Status 404 or 410: the website does not exist, or the service is not at this base URL."""

    happened = "Not found"

    @property
    def remedy(self) -> str:  # type: ignore[override]
        """Advice to check the id and the base URL."""
        website_id = self.path.partition("/websites/")[2]
        return f"Check {f'website id {website_id} and ' if website_id else ''}the Base URL."


class ValidationError(AnalyticsApiError):
    """Status 422: the service rejected a value; see the fields in ``errors``. A retry does not help."""

    before_retry = "correct the value first"

    @property
    def _happened(self) -> str:
        return f"The service rejected {', '.join(sorted(self.errors)) or 'a value'}"


class RateLimitError(AnalyticsApiError):
    """Status 429 after all retries, or with a ``Retry-After`` that is too long to wait for within a task."""

    #: Seconds of ``Retry-After``; None if the service did not send it.
    retry_after: float | None = None

    happened = "The service limits the rate of requests"
    advice = "Set the extra requests_per_minute."


class ServerError(AnalyticsApiError):
    """Status 5xx after all retries, or 503 with a ``Retry-After`` that is too long to wait for."""

    #: Seconds of ``Retry-After``; None if the service did not send it.
    retry_after: float | None = None

    happened = "The service failed"


@dataclass(eq=False)
class AnalyticsConnectionError(AnalyticsError):
    """No complete response: the service could not be reached, or the response was cut off.

    :param problem: what failed, readable.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL.
    :param status: HTTP status; None without response headers.
    :param excerpt: beginning of the body, readable.
    """

    problem: str
    method: str = ""
    path: str = ""
    status: int | None = None
    excerpt: str = ""

    #: False if the service certainly did not receive the request.
    sent = True
    #: False if a retry cannot help.
    transient = True

    @property
    def detail(self) -> str:
        """The request, and the beginning of the response."""
        return _request(self.method, self.path, self.status, self.excerpt)

    @property
    def before_retry(self) -> str:  # type: ignore[override]
        """Action needed before a retry."""
        return "" if self.transient else "correct the connection first"


class AnalyticsTimeoutError(AnalyticsConnectionError):
    """The service did not accept the connection, or did not respond, within ``timeout`` seconds."""


@dataclass(eq=False)
class UnexpectedResponseError(AnalyticsError):
    """A response that cannot be accepted as a success: a redirect, not JSON, or JSON of another structure.

    :param problem: what is wrong with the response.
    :param status: HTTP status of the response.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL.
    :param excerpt: beginning of the body, readable.
    """

    problem: str
    status: int
    method: str
    path: str
    excerpt: str = ""

    @property
    def detail(self) -> str:
        """The request, and the beginning of the response."""
        return _request(self.method, self.path, self.status, self.excerpt)


@dataclass(eq=False)
class IncompleteListError(AnalyticsError):
    """A list that cannot be proven complete; none of its records may be published.

    :param check: name of the failed check, such as ``total`` or ``page number``.
    :param seen: observation, and the setting that may help.
    :param moved: True if the list changed during the reading. Reading it again may succeed.
    """

    check: str
    seen: str
    moved: bool = False

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Failed check and observation."""
        return f"The list may be incomplete, by the check {self.check!r}: {self.seen}"


@dataclass(eq=False)
class DomainNotFoundError(AnalyticsError):
    """No website of the complete list has the domain.

    :param domain: domain that was looked up.
    """

    domain: str

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Problem, with the domain."""
        return f"No website has the domain {self.domain!r}. The complete list was read."


@dataclass(eq=False)
class DuplicateWebsiteError(AnalyticsError):
    """Several websites have the domain that was looked up, so none of them can be chosen.

    :param domain: domain that was looked up.
    :param website_ids: ids of the websites.
    """

    domain: str
    website_ids: Sequence[str]

    remedy = "Give website_id, or delete all but one of them."
    before_retry = "resolve the duplicates first"

    def __post_init__(self) -> None:
        self.website_ids = tuple(self.website_ids)

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Problem, with the domain and the ids."""
        ids = ", ".join(self.website_ids)
        return f"{len(self.website_ids)} websites have the domain {self.domain!r}: ids {ids}."


@dataclass(eq=False)
class AmbiguousWriteError(AnalyticsError):
    """A create whose outcome is unknown: it may have been applied, so it was not sent again.

    Look up the domain before a retry. ``CreateWebsiteOperator`` does this automatically.

    :param reason: why the outcome is unknown.
    :param domain: domain of the website.
    """

    reason: str
    domain: str

    @property
    def _attempts(self) -> str:
        return ""  # the earlier errors belong to different requests: the create and the lookup

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Problem, with the reason why the outcome is unknown."""
        return f"Website {self.domain!r} may or may not have been created: {self.reason}"


@dataclass(eq=False)
class OtherDomainError(AnalyticsError):
    """A website whose domain in the response differs from the one sent. A retry does not help.

    :param domain: domain that was sent.
    :param shown: domain in the response.
    :param website_id: id in the response.
    :param remedy: domain to use instead, if it may be the service's spelling.
    """

    domain: str
    shown: str
    website_id: str
    remedy: str = ""

    before_retry = "correct the domain first"

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Problem, with both domains."""
        return f"Website id {self.website_id} has the domain {self.shown!r}, not {self.domain!r}."


@dataclass(eq=False)
class NotAppliedError(AnalyticsError):
    """A write that the service accepted without storing all values: it returns others.

    :param website_id: id of the website.
    :param fields: field to a phrase with the returned value and the expected value.
    :param remedy: action taken, and recommended action.
    :param permanent: whether this affects every website, so that a retry would only damage others.
    """

    website_id: str
    fields: Mapping[str, str]
    remedy: str = ""
    permanent: bool = False

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Problem, with the fields."""
        listed = "; ".join(f"{name} {difference}" for name, difference in self.fields.items())
        return f"The service accepted the write, but website {self.website_id} is not as it should be: {listed}."

    @property
    def before_retry(self) -> str:  # type: ignore[override]
        """Action needed before a retry."""
        return "find out what the service does with updates first" if self.permanent else ""


@dataclass(eq=False)
class GuardError(AnalyticsError):
    """A change or a list that a guard refused, such as one that removes too much. Nothing was sent or published.

    :param problem: finding of the guard.
    :param remedy: recommended action if the finding is expected.
    :param guard: name of the guard, to override it; empty if it cannot be overridden.
    """

    problem: str
    remedy: str = ""
    guard: str = ""

    before_retry = "someone has to review it first"
    #: The remedy is on a separate line, because logs cut long lines.
    _separator = "\n"


class StoppedError(AnalyticsError):
    """The task was stopped and sends no further requests. A retry completes the work."""


@dataclass(eq=False)
class BulkError(AnalyticsError):
    """An operation on many websites that failed for at least one of them.

    :param failures: website (domain or id) to its error, including the websites that were not tried.
    :param done: number of websites for which the operation succeeded.
    :param not_tried: number of websites in ``failures`` that were not tried.
    :param permanent: whether a retry cannot help: the service refused all websites for a permanent reason, or changed
        values that were not sent.
    :param besides: websites that were changed as planned, and values on them that others may have changed.
    """

    failures: Mapping[str, str]
    done: int = 0
    not_tried: int = 0
    permanent: bool = False
    besides: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.failures = dict(self.failures)

    @property
    def before_retry(self) -> str:  # type: ignore[override]
        """Action needed before a retry."""
        return "review these websites first" if self.permanent else ""

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Failures by reason, with the first websites of each, in less than 4 KB."""
        by_reason: dict[str, list[str]] = {}
        for website, why in self.failures.items():
            # For the same reason, messages differ in the path of the request and in the website.
            reason = re.sub(r" Request: \S+ \S+\.", "", why).replace(website, "the website")
            by_reason.setdefault(reason, []).append(website)
        not_tried = f"{self.not_tried:,} were not tried, " if self.not_tried else ""
        failed = len(self.failures) - self.not_tried
        lines = [f"{counted(failed, 'website')} failed, {not_tried}{self.done:,} succeeded."]
        named = max(1, _MAX_LISTED // max(1, len(by_reason)))
        # The most frequent reason first. Websites that were not tried are last, because they are not failures.
        for why, websites in sorted(
            by_reason.items(), key=lambda item: (item[0].startswith("Not tried"), -len(item[1]))
        ):
            more = f" and {len(websites) - named:,} more" if len(websites) > named else ""
            listed = ", ".join(readable(website, _MAX_NAME_LENGTH) for website in websites[:named])
            line = f"{readable(why, _MAX_REASON_LENGTH, breaks='fold').rstrip('.')}: {listed}{more}."
            if len(lines) > _MAX_LISTED or len("\n".join([*lines, line]).encode()) > _MAX_MESSAGE_BYTES:
                lines.append(f"And {len(by_reason) - len(lines) + 1:,} more reasons.")
                break
            lines.append(line)
        if self.besides:
            text = readable("; ".join(self.besides), _MAX_REASON_LENGTH, breaks="fold")
            lines.append(f"On other websites, another process may have changed values: {text}.")
        # Alerts quote the first line, so it must contain a reason.
        return "\n".join([" ".join(lines[:2]), *lines[2:]])


class UnresolvedError(AnalyticsError):
    """A host name of a list does not resolve, and no earlier result is still valid. Nothing was sent."""


class StorageError(AnalyticsError):
    """A file that cannot be written or read: a snapshot, a ledger, a plan, an audit trail.

    The storage failed, or the file is damaged, too new, or changed by another process. Published snapshots are intact.
    """


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _request(method: str, path: str, status: int | None, excerpt: str) -> str:
    request = " ".join(filter(None, (method, path)))
    seen = ", ".join(filter(None, (request, _status_text(status) if status is not None else "")))
    tail = f"The response begins: '{excerpt}'." if excerpt else ""
    return " ".join(filter(None, (f"Request: {seen}." if seen else "", tail)))
