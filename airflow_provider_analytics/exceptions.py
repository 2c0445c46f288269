# SPDX-License-Identifier: Apache-2.0
"""Exceptions, one class for each way to handle them.

::

    AnalyticsError                    catch this for all of the following
        AnalyticsConfigError          correct the connection; no request was sent
        AnalyticsApiError             any error status: read ``status``, ``message``, and ``errors``
            AuthenticationError       401: correct the API key
            NotFoundError             404 or 410: check the website id and the base URL
        AnalyticsConnectionError      check host, proxy, and TLS; retry later if ``transient``
        UnexpectedResponseError       check the base URL: a login page or a proxy might respond there
        IncompleteListError           discard the records; read again if ``moved``, otherwise follow the message
        DomainError                   the domain does not select one website: see ``website_ids``
        AmbiguousWriteError           look up the domain before you create it again
        NotAppliedError               find out why the service accepts a value and does not store it
        GuardError                    review the plan or the list, then follow the message
        StoppedError                  retry: the task was stopped, and the next try completes the work
        BulkError                     retry the websites in ``failures``
        StorageError                  correct the storage or the file; published snapshots are intact
            MissingSnapshotError      choose a day with a snapshot, or take one first
        MissingPackageError           install the package on the workers

A bad argument raises :class:`ValueError` before any request is sent.

Each error has these attributes:

* ``problem``: what happened.
* ``remedy``: what to do; can be empty.
* ``permanent``: true if a retry cannot help before someone acts.
* ``before_retry``: what to do first, if it is permanent.
* ``retry_after``: number of seconds that the service asks to wait, or None.

``str(error)`` also contains further details, the service, and the connection, but no API key and no website password.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar, NamedTuple

from airflow_provider_analytics.readable import counted, first_of, readable

#: Limits of a message: number of fields or websites, messages per field, characters of a reason and of a website.
_MAX_LISTED = 10
_MAX_LISTED_MESSAGES = 3
_MAX_REASON_LENGTH = 500
_MAX_NAME_LENGTH = 80
#: Bytes; with service and connection, a message remains below 4 KB.
_MAX_MESSAGE_BYTES = 3500
#: Characters of any message.
MAX_MESSAGE = 10_000
#: Characters of a line of a message, if it can be broken: on a screen of 1,400 pixels, Airflow cuts longer lines.
_MAX_LINE = 90


class AnalyticsError(Exception):
    """Base class of all exceptions of this package, except for bad arguments (:class:`ValueError`)."""

    #: Description of the error.
    problem: str
    #: Recommended action.
    remedy: str = ""
    #: Whether a retry of the task cannot succeed before someone acts. Operators then fail without a retry.
    permanent: bool = False
    #: Recommended action before a retry, for people; empty if a retry alone can succeed.
    before_retry: str = ""
    #: Id of the website that the failed call created; empty if none is known.
    created: str = ""
    #: Progress of the task before the error, as a sentence.
    so_far: str = ""
    #: Errors of the attempts before the last one, if the request was retried.
    earlier: tuple[AnalyticsError, ...] = ()
    #: Seconds after which the service allows the next request, from ``Retry-After``; None without it.
    retry_after: float | None = None
    #: Service and connection, such as ``https://stats.example.com/app, connection 'analytics_default'``; set by the
    #: client.
    where: str = ""
    _separator: ClassVar[str] = " "

    def __init__(self, problem: str = "", remedy: str = "") -> None:
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what rebuilds the error in another process, without a call of ``__init__``."""
        return copyreg.__newobj__, (type(self),), self.__dict__  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    @property
    def detail(self) -> str:
        """Facts that follow the remedy, such as the request."""
        return ""

    @property
    def text(self) -> str:
        """Message without service and connection, for a line of a log: only a guard and a list of websites break it."""
        text = self._separator.join(filter(None, (self.problem, self.remedy, self.so_far, self.detail)))
        return readable(text, MAX_MESSAGE, breaks="keep")

    @property
    def _blocks(self) -> list[list[str]]:
        """Parts of the message; each block starts a line."""
        return [[self.problem, self.remedy, self.so_far, self.detail]]

    @property
    def _attempts(self) -> str:
        if not self.earlier:
            return ""
        return f"{len(self.earlier) + 1} attempts failed. "

    def __str__(self) -> str:
        lines: list[str] = []
        for block in self._blocks:
            lines.extend(_lines(block, self._separator))
        text = readable("\n".join(lines), MAX_MESSAGE, breaks="keep")
        if not self.where:
            return text
        return f"{text}\n{self._attempts}{self.where}."


def _lines(parts: Iterable[str], separator: str) -> list[str]:
    """Return the lines of a message: a part that does not fit into a line starts the next one."""
    lines: list[str] = []
    for part in filter(None, parts):
        joined = part
        if lines:
            joined = f"{lines[-1]}{separator}{part}"
        if lines and len(joined.rpartition("\n")[2]) <= _MAX_LINE:
            lines[-1] = joined
        else:
            lines.append(part)
    return lines


@dataclass(eq=False, repr=False)
class AnalyticsConfigError(AnalyticsError):
    """Invalid settings of a connection; no request was sent.

    :param problems: all problems, one sentence each.
    :param source: origin of the settings, such as ``connection 'analytics_default'``.
    """

    problems: Sequence[str]
    source: str = "the connection"
    permanent = True
    before_retry = "correct the connection first"

    def __post_init__(self) -> None:
        self.problems = tuple(self.problems)
        sentences = []
        for number, problem in enumerate(self.problems, start=1):
            sentence = f"{problem.removesuffix('.')}."
            if len(self.problems) > 1:
                sentence = f"({number}) {sentence}"
            sentences.append(sentence)
        # Each problem says what to do.
        self.problem = f"{self.source[:1].upper()}{self.source[1:]}: {' '.join(sentences)}"


_RATE = (
    "set the extra requests_per_minute, and parallel_requests if the limit is per second. "
    "If many tasks run at the same time, give them an Airflow pool."
)

_CHECK_BOTH = "Check the logs of the service and of the proxy in front of it."


class _Meaning(NamedTuple):
    """Meaning of an error status.

    :param problem: what happened.
    :param remedy: the recommended action.
    :param permanent: whether a retry cannot succeed.
    :param before_retry: the action needed before a retry.
    """

    problem: str
    remedy: str = ""
    permanent: bool = False
    before_retry: str = ""


_MEANINGS: Mapping[int, _Meaning] = {
    401: _Meaning(
        "API key rejected",
        "Correct the API key of the connection.",
        permanent=True,
        before_retry="correct the API key first",
    ),
    403: _Meaning(
        "The API key does not have the permission for this request",
        "Use the key of an account that has it.",
        permanent=True,
        before_retry="use a key with this permission first",
    ),
    407: _Meaning("The proxy requires a user name and a password", "Correct the extra proxies."),
    413: _Meaning(
        "The service, or a proxy before it, rejected the size of the request",
        "Shorten the list, or raise the limit, which is client_max_body_size in nginx.",
        permanent=True,
        before_retry="shorten the list or raise the limit first",
    ),
    419: _Meaning(
        "The service requires a CSRF token for writes, which only a browser has",
        "In the service, except api/* from the check of CSRF tokens.",
        permanent=True,
        before_retry="change the service first",
    ),
    422: _Meaning("The service rejected {fields}", permanent=True, before_retry="correct the value first"),
    429: _Meaning("The service limits the rate of requests", f"S{_RATE[1:]}"),
    502: _Meaning("The service failed", _CHECK_BOTH),
    503: _Meaning("The service is unavailable", "Check that it runs and is not in maintenance."),
    504: _Meaning("The service failed", _CHECK_BOTH),
}
#: Messages about a domain that a website has already.
_IS_TAKEN = r"(?i)\b(taken|exists?|unique|used|duplicate)\b"
#: Statuses with which services reject a request for a reason of their own, and messages of frameworks about the key.
_ABOUT_THE_REQUEST = frozenset({403, 422})
_IS_ABOUT_THE_KEY = r"(?i)forbidden|unauthori[sz]ed|permission|abilit|denied|not allowed|scope"
_IS_ABOUT_ANOTHER_CAUSE = r"(?i)\b(ips?|address(es)?|network|country|plan|quota|suspended|verif\w+|two.factor)\b"
#: Statuses of CDNs such as Cloudflare: the request did not reach the service, or its response did not reach the CDN.
_OF_A_CDN = range(520, 531)
#: Update method to the other one.
OTHER_METHODS = {"PATCH": "PUT", "PUT": "PATCH"}
#: Statuses with which services and firewalls reject an update method.
_METHOD_REJECTED = frozenset({403, 405, 501})


@dataclass(eq=False, repr=False)
class AnalyticsApiError(AnalyticsError):
    """A response with an error status.

    :param status: HTTP status of the response.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL, such as ``/api/v1/websites/7``.
    :param message: message of the service, readable.
    :param errors: field name to messages, if the response contains fields.
    :param facts: further facts of the response, such as ``Retry-After 42 s``.
    :param is_blocked: whether it is a web page: a proxy, a firewall, or a login blocked the request, not the service.
    :param is_limited: whether a rate limit rejected the request: status 429, or 503 of nginx. It was not applied.
    :param is_invalid: whether the service rejected a value: status 422, or 400 with JSON in response to a write.
    :param follows_success: whether a request of the same client succeeded before.
    """

    status: int
    method: str
    path: str
    message: str
    errors: Mapping[str, Sequence[str]] = None  # type: ignore[assignment] # a dict after __post_init__
    facts: Sequence[str] = ()
    is_blocked: bool = False
    is_limited: bool = False
    is_invalid: bool = False
    follows_success: bool = False

    def __post_init__(self) -> None:
        self.errors = {name: list(messages) for name, messages in (self.errors or {}).items()}
        self.facts = tuple(self.facts)
        self.is_limited = self.is_limited or self.status == HTTPStatus.TOO_MANY_REQUESTS
        happened, self.remedy, self.permanent, self.before_retry = self._meaning()
        self.problem = f"{happened} ({', '.join((_status_text(self.status), *self.facts))})."

    @property
    def is_rejected_method(self) -> bool:
        """Whether the status can mean that the update method is not allowed; with 403, the key might be the cause."""
        return self.method in OTHER_METHODS and self.status in _METHOD_REJECTED and not self.is_limited

    def _meaning(self) -> _Meaning:
        if self.is_rejected_method and (self.is_blocked or self.status != HTTPStatus.FORBIDDEN):
            other = OTHER_METHODS[self.method]
            remedy = (
                f"Allow {self.method} in the proxy or firewall, or set the extra update_method to {other} if {other} "
                "keeps unsent fields. The sample DAG try_your_service.py finds out."
            )
            return _Meaning(f"The service, or a proxy before it, does not accept {self.method}", remedy)
        if self.is_blocked:
            return _Meaning(
                "A web page blocked the request",
                "Check the key and the firewall. A proxy might need the extra headers.",
            )
        status = self.status
        if self.is_limited and status != HTTPStatus.SERVICE_UNAVAILABLE:
            status = HTTPStatus.TOO_MANY_REQUESTS
        elif self.is_invalid:
            status = HTTPStatus.UNPROCESSABLE_ENTITY
        meaning = _Meaning("The service rejected the request")
        if status in _MEANINGS:
            meaning = _MEANINGS[status]
        elif status in _OF_A_CDN:
            meaning = _Meaning("A CDN got no valid response from the service", "Check that the service runs.")
        elif status >= 500:
            meaning = _Meaning("The service failed", "Check the log of the service.")
        if status == HTTPStatus.SERVICE_UNAVAILABLE and self.follows_success:
            # Before any success, the service is more likely to be down.
            meaning = meaning._replace(remedy=f"Check that it runs. If it limits the rate of requests, {_RATE}")
        if status == HTTPStatus.UNPROCESSABLE_ENTITY and not self.errors:
            meaning = meaning._replace(remedy="The response names no field. Check the log, or send fields one by one.")
        elif self.method == "POST" and re.search(_IS_TAKEN, " ".join(self.errors.get("domain", ()))):
            meaning = meaning._replace(
                remedy="A deleted website, or one of another account, might have this domain.",
                before_retry="find the website with this domain first",
            )
        if status in _ABOUT_THE_REQUEST and self.message and not self.errors and not self._is_about_the_key:
            # Such as the limit of a plan: only the service knows what to do.
            problem = f"The service rejected the request: {self.message.removesuffix('.')}"
            return meaning._replace(problem=problem, remedy="", before_retry="follow the message of the service first")
        fields = ", ".join(sorted(self.errors)) or "a value"
        return meaning._replace(problem=meaning.problem.format(fields=fields))

    @property
    def _is_about_the_key(self) -> bool:
        has_another_cause = re.search(_IS_ABOUT_ANOTHER_CAUSE, self.message) is not None
        return re.search(_IS_ABOUT_THE_KEY, self.message) is not None and not has_another_cause

    @property
    def detail(self) -> str:
        """The message of the service, its messages by field, and the request."""
        return " ".join(filter(None, (self._service_message, self._request)))

    @property
    def _blocks(self) -> list[list[str]]:
        if not self._service_message:
            return super()._blocks
        return [[self.problem, self.remedy, self.so_far], [self._service_message], [self._request]]

    @property
    def _request(self) -> str:
        return f"Request: {self.method} {self.path}."

    @property
    def _service_message(self) -> str:
        parts = []
        if self.message and self.message not in self.problem:
            parts.append(f"The service says: {self.message}")
        errors = []
        for name, messages in sorted(self.errors.items()):
            errors.append(f"{name}: {' '.join(messages[:_MAX_LISTED_MESSAGES])}")
        if errors:
            parts.append(first_of(errors, _MAX_LISTED, "; "))
        if not parts:
            return ""
        return f"{' '.join(parts).rstrip('.')}."


class AuthenticationError(AnalyticsApiError):
    """Status 401: the key is missing, wrong, or expired. A retry does not help."""


class NotFoundError(AnalyticsApiError):
    """Status 404 or 410: the website does not exist, or the service is not at this base URL."""

    def _meaning(self) -> _Meaning:
        website_id = self.path.partition("/websites/")[2].partition("/")[0]
        if not website_id:
            return _Meaning("Not found", "Check the Base URL.")
        return _Meaning(f"No website has the id {website_id}, or the Base URL is wrong")


@dataclass(eq=False, repr=False)
class AnalyticsConnectionError(AnalyticsError):
    """No complete response: the service could not be reached, or the response was cut off.

    :param problem: what failed, readable.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL.
    :param status: HTTP status; None without response headers.
    :param excerpt: start of the body, readable.
    :param sent: False if the service certainly did not receive the request.
    :param transient: False if a retry cannot help.
    """

    problem: str
    method: str = ""
    path: str = ""
    status: int | None = None
    excerpt: str = ""
    sent: bool = True
    transient: bool = True

    def __post_init__(self) -> None:
        self.permanent = not self.transient
        if self.permanent:
            self.before_retry = "correct the connection first"

    @property
    def detail(self) -> str:
        """The request, and the start of the response."""
        return _request(self.method, self.path, self.status, self.excerpt)


@dataclass(eq=False, repr=False)
class UnexpectedResponseError(AnalyticsError):
    """A response that cannot be accepted as a success: a redirect, not JSON, or JSON of another structure.

    :param problem: problem of the response.
    :param status: HTTP status of the response.
    :param method: HTTP method of the request.
    :param path: path of the request below the base URL.
    :param excerpt: start of the body, readable.
    :param is_garbled: whether it is not JSON, such as a web page. A read is repeated then.
    """

    problem: str
    status: int
    method: str
    path: str
    excerpt: str = ""
    is_garbled: bool = False

    @property
    def detail(self) -> str:
        """The request, and the start of the response."""
        return _request(self.method, self.path, self.status, self.excerpt)


@dataclass(eq=False, repr=False)
class IncompleteListError(AnalyticsError):
    """A list that cannot be proven complete; do not publish any of its records.

    :param check: name of the failed check, such as ``total`` or ``page number``.
    :param seen: observation, and the setting that might help.
    :param moved: True if the list changed while it was read. Reading it again might succeed.
    """

    remedy = (
        "No part of the list was published or used. If this persists, ask the operator of the service how it returns "
        "lists."
    )

    check: str
    seen: str
    moved: bool = False

    def __post_init__(self) -> None:
        self.problem = f"The list might be incomplete (check {self.check!r}): {self.seen}"


@dataclass(eq=False, repr=False)
class DomainError(AnalyticsError):
    """A domain that does not select one website: none has it, several have it, or the website has another domain.

    :param problem: the finding.
    :param website_ids: ids of the websites; empty if the complete list has none of the domain.
    :param remedy: recommended action.
    :param permanent: whether a retry cannot succeed.
    :param before_retry: action needed before a retry.
    """

    problem: str
    website_ids: Iterable[str] = ()
    remedy: str = ""
    permanent: bool = False
    before_retry: str = ""

    def __post_init__(self) -> None:
        self.website_ids = tuple(self.website_ids)


@dataclass(eq=False, repr=False)
class AmbiguousWriteError(AnalyticsError):
    """A create whose outcome is unclear: it might have been applied, so it was not sent again.

    Look up the domain before a retry. ``CreateWebsiteOperator`` does this automatically.

    :param reason: why the outcome is unclear.
    :param domain: domain of the website.
    :param request: the request of the create, and the start of its response, as sentences.
    """

    reason: str
    domain: str
    request: str = ""

    def __post_init__(self) -> None:
        self._outcome = f"Website {self.domain!r} might have been created."
        self.problem = f"{self._outcome} {self.reason}"

    @property
    def detail(self) -> str:
        """The request, and the start of the response."""
        return self.request

    @property
    def _blocks(self) -> list[list[str]]:
        return [[self._outcome], [self.reason], [self.remedy, self.so_far], [self.request]]

    @property
    def _attempts(self) -> str:
        return ""  # the earlier errors belong to different requests: the create and the lookup


@dataclass(eq=False, repr=False)
class NotAppliedError(AnalyticsError):
    """A write that the service accepted without storing all values, or with which it changed others.

    :param website_id: id of the website.
    :param fields: field to a phrase with the returned value and the expected or the previous value.
    :param remedy: action taken, and recommended action.
    :param permanent: whether a retry cannot help, or would hide values that were lost.
    :param problem: what happened, as a sentence; by default, the differences of the website.
    :param waited: seconds for which the client waited after a response with status 202, which means that the service
        applies the write later; None after another status.
    """

    website_id: str
    fields: Mapping[str, str]
    remedy: str = "Check the website in the service. Another client might have changed it at the same time."
    permanent: bool = False
    problem: str = ""
    waited: float | None = None

    def __post_init__(self) -> None:
        listed = "; ".join(f"{name} {difference}" for name, difference in self.fields.items())
        if not self.problem and self.waited is None:
            self.problem = f"Website {self.website_id} is not as expected after the write: {listed}."
        elif not self.problem:
            self.problem = (
                f"The service accepted the write of website {self.website_id} (202), but it is not in effect after "
                f"{self.waited:g} s: {listed}."
            )
        if self.permanent:
            self.before_retry = "find out what the service does with updates first"


@dataclass(eq=False, repr=False)
class GuardError(AnalyticsError):
    """A plan or a list that a guard blocked, for example because too many entries would be removed.

    No changes were sent, and no snapshot was published.

    :param problem: finding of the guard.
    :param remedy: recommended action if the finding is expected.
    :param guard: name of the guard, to override it; empty if it cannot be overridden.
    """

    problem: str
    remedy: str = ""
    guard: str = ""
    permanent = True
    before_retry = "someone has to review it first"
    #: The remedy is on a separate line, because logs cut long lines.
    _separator = "\n"


class StoppedError(AnalyticsError):
    """The task was stopped and sends no further requests. A retry completes the work."""


@dataclass(eq=False, repr=False)
class BulkError(AnalyticsError):
    """An operation on many websites that failed for at least one of them.

    :param failures: website (domain or id) to its error, including the websites that were not tried.
    :param done: number of websites for which the operation succeeded.
    :param not_tried: the websites in ``failures`` that were not tried.
    :param permanent: whether a retry cannot help: the service rejected all websites for a permanent reason, or values
        were lost that were not sent.
    """

    failures: Mapping[str, str]
    done: int = 0
    not_tried: Collection[str] = ()
    permanent: bool = False

    def __post_init__(self) -> None:
        self.failures = dict(self.failures)
        self.not_tried = frozenset(self.not_tried)
        lines = [self._summary(), *reasons_of(self.failures, self.not_tried)]
        # Alerts quote the first line, so it contains a reason.
        self.problem = "\n".join([" ".join(lines[:2]), *lines[2:]])
        if self.permanent:
            self.before_retry = "correct the reasons first"

    def _summary(self) -> str:
        failed, not_tried = len(self.failures) - len(self.not_tried), len(self.not_tried)
        parts = []
        if failed:
            parts.append(f"{counted(failed, 'website')} failed")
        if not_tried and failed:
            parts.append(f"{not_tried:,} not tried")
        elif not_tried:
            parts.append(f"{counted(not_tried, 'website')} not tried")
        parts.append(f"{self.done:,} succeeded")
        return f"{', '.join(parts)}."


class StorageError(AnalyticsError):
    """A file that cannot be written or read: a snapshot, a list table, a plan, or an audit trail.

    The storage failed, or the file is damaged, too new, or changed by another process. Published snapshots are intact.
    """


class MissingSnapshotError(StorageError):
    """No snapshot is published for a day."""

    permanent = True
    before_retry = "choose a day with a snapshot, or take one first"


class MissingPackageError(AnalyticsError):
    """A package, which the message names, is not installed on the worker."""

    permanent = True
    before_retry = "install the package first"


def reasons_of(failures: Mapping[str, str], not_tried: Collection[str] = ()) -> list[str]:
    """Return each reason with its first websites, the most frequent reason first, in less than 4 KB.

    :param failures: website to its reason.
    :param not_tried: the websites that were not tried; their reasons come last.
    """
    websites_by_reason: dict[str, list[str]] = {}
    for website, why in failures.items():
        # For the same reason, messages differ in the path of the request and in the website.
        reason = re.sub(r" Request: \S+ [^\s,]+(, \d[^.]*)?\.", "", why)
        reason = re.sub(rf"the domain '{re.escape(website)}'", "the same domain", reason)
        reason = re.sub(rf"^Website '?{re.escape(website)}'?", "The website", reason)
        reason = re.sub(rf"(Website )?'?{re.escape(website)}'?", "the website", reason)
        websites_by_reason.setdefault(reason, []).append(website)

    def order(reason: str) -> tuple[bool, int]:
        websites = websites_by_reason[reason]
        return set(websites) <= set(not_tried), -len(websites)

    lines: list[str] = []
    limit = max(1, _MAX_LISTED // max(1, len(websites_by_reason)))
    for reason in sorted(websites_by_reason, key=order):
        websites = first_of(websites_by_reason[reason], limit, show=_short_name)
        text = readable(reason, _MAX_REASON_LENGTH, breaks="fold").removesuffix(".")
        line = f"{text}.\nWebsites: {websites}."
        if len(lines) >= _MAX_LISTED or len("\n".join([*lines, line]).encode()) > _MAX_MESSAGE_BYTES:
            lines.append(f"And {len(websites_by_reason) - len(lines):,} more reasons.")
            break
        lines.append(line)
    return lines


def _short_name(website: str) -> str:
    return readable(website, _MAX_NAME_LENGTH)


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _request(method: str, path: str, status: int | None, excerpt: str) -> str:
    """Return the request and its response, as sentences."""
    facts = [f"{method} {path}".strip()]
    if status is not None:
        facts.append(_status_text(status))
    sentences = []
    if any(facts):
        sentences.append(f"Request: {', '.join(filter(None, facts))}.")
    if excerpt:
        sentences.append(f"The response starts with '{excerpt}'.")
    return " ".join(sentences)
