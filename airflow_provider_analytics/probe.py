# SPDX-License-Identifier: Apache-2.0
"""The probe: it finds out with reads only how the tasks work with a service, and which extras they need.

It reads the service with the client of the tasks: at most 50 requests, within a time limit, with other extras if
needed. A list counts only if :class:`Listing` proves it complete, as for a task.

A finding contains only counts, statuses, names of the interface and extras, and never a value of the service.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import filterfalse, islice
from threading import Timer
from typing import Any, Literal, Self, Unpack

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.dialect import Answer, Page, Record
from airflow_provider_analytics.api.domains import check_domain, domain_key
from airflow_provider_analytics.api.fields import LINE_FIELDS, RECORD_FIELDS, ListFilters, raw_lines
from airflow_provider_analytics.api.listing import DEFAULT_QUERY, WHY_COMPLETE, Proof
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.api.verification import has_value
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    IncompleteListError,
    StoppedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import counted, readable

MAX_REQUESTS = 50
#: Number of requests after which the list is read no further, so that some are left for the other checks.
MAX_LIST_REQUESTS = 34
MAX_SEARCH_REQUESTS = 8
#: Time limits for all requests in seconds. The connection test has a shorter one: a user and the API server wait.
MAX_SECONDS = 60.0
MAX_SECONDS_OF_A_TEST = 10.0
#: Seconds for one response.
TIMEOUT = 10.0
#: Names of the page parameter that are tried, if the service returns no cursor.
NUMBER_PARAMETERS = (dialect.PAGE_PARAMETER, "p", "offset", "page[number]", "page_number", "pageNumber", "page[offset]")
#: Names that are tried if it returns one.
CURSOR_PARAMETERS = (*dialect.CURSOR_PARAMETERS[:3], dialect.PAGE_PARAMETER, *dialect.CURSOR_PARAMETERS[3:])

Extras = dict[str, Any]
_NO_EXTRAS: Extras = {}


@dataclass
class Attempt:
    """One read of the list, possibly a filtered one.

    :param extras: extras that were tried, in addition to those that are known to be needed.
    :param rows: the records, as far as they were read.
    :param selected_by: query parameter that selected the pages after the first one; None if there were none.
    :param proof: why the list is complete; None without a proof.
    :param error: why the read ended early; None if it did not.
    """

    extras: Extras = field(default_factory=dict)
    rows: list[Record] = field(default_factory=list)
    selected_by: str | None = None
    proof: Proof | None = None
    error: AnalyticsError | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether a limit of the probe ended the read."""
        return isinstance(self.error, StoppedError)

    @property
    def is_rejected(self) -> bool:
        """Whether other extras can help."""
        if isinstance(self.error, AnalyticsApiError):
            return self.error.status in dialect.NO_SUCH_PAGE
        return isinstance(self.error, (IncompleteListError, UnexpectedResponseError))

    def is_better_than(self, other: Self) -> bool:
        """Return whether the list was read to its end, or further."""
        if self.is_stopped:
            return len(self.rows) > len(other.rows)
        return self.proof is not None


class LimitedTransport(Transport):
    """A transport that sends reads only, and no more than allowed."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._allowed = 0
        #: The last response; None if it was not a success.
        self.last: Answer | None = None
        #: Names of the headers of all responses.
        self.header_names: set[str] = set()

    def allow(self, allowed: int = MAX_REQUESTS) -> None:
        """Allow requests, up to this number of all requests."""
        self._allowed = min(allowed, MAX_REQUESTS)

    def once(self, method: str, path: str, **options: Any) -> Answer:
        """Send a read, unless the requests are used up."""
        if method != "GET":
            raise ValueError(f"The probe sends no {method}.")
        self.last = None
        if self.stats.requests >= self._allowed:
            raise StoppedError("Not sent, because the probe has sent all its requests.")
        answer = super().once(method, path, **options)
        self.header_names.update(answer.headers)
        self.last = answer
        return answer


class LimitedReader:
    """Reads a service within limits.

    :param settings: settings of the connection.
    :param seconds: time limit for all requests together.
    """

    def __init__(self, settings: Settings, *, seconds: float = MAX_SECONDS) -> None:
        self.settings = replace(
            settings,
            timeout=min(settings.timeout, TIMEOUT, seconds),
            max_retries=min(settings.max_retries, 1),
            parallel_requests=1,  # no page is read in vain
        )
        self.transport = LimitedTransport(self.settings)
        #: Extras that are needed in addition to the extras of the connection.
        self.extras = _NO_EXTRAS
        self.account: Record = {}
        #: The first page of the list.
        self.page = Page([])
        self._timer = Timer(seconds, self.transport.stop)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start the time limit."""
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._timer.cancel()
        self.transport.close()

    def client(self, extras: Extras = _NO_EXTRAS) -> AnalyticsClient:
        """Return a client with further extras; all clients share the limits.

        :raises AnalyticsConfigError: if an extra is invalid.
        """
        settings = replace(self.settings, **self.extras | extras)
        self.transport.settings = settings  # these extras do not concern the connection
        return AnalyticsClient(settings, self.transport)

    def start(self) -> None:
        """Fetch the account and the first page.

        :raises AnalyticsError: if the service rejects the key, or returns no account or no list.
        """
        try:
            self.transport.allow()
            self.account = self.client().get_account()
            self.page = self._first_page()
        except AnalyticsError as error:
            error.where = error.where or self.settings.where
            raise

    def _first_page(self) -> Page:
        try:
            return self.client().page(DEFAULT_QUERY)
        except UnexpectedResponseError:
            if self.transport.last is None:
                raise
            document = dialect.document(self.transport.last)
            keys = list(_list_keys(document))
            if len(keys) != 1:
                raise
        self.extras = {"list_key": keys[0]}
        return self.client().page(DEFAULT_QUERY)

    def summary(self) -> str:
        """Return the number of websites in words, with the extra that is needed."""
        text = f"{counted(len(self.page.rows), 'website')} on the first page, no total"
        if self.page.total is not None:
            text = counted(self.page.total, "website")
        if self.extras:
            text += f"; set the extra list_key to {self.extras['list_key']}"
        return text

    def read_list(self, **filters: Unpack[ListFilters]) -> Attempt:
        """Read the list; if that fails, with other page parameters."""
        self.transport.allow(MAX_LIST_REQUESTS)
        own = self.settings.page_parameter
        following = self.page.following
        usual: tuple[str, ...] = NUMBER_PARAMETERS
        if following is not None and following.value is not None and dialect.number(following.value) is None:
            usual = CURSOR_PARAMETERS
        others = [{"page_parameter": name} for name in usual if name != own]
        return self._first_working(partial(self._read, **filters), others)

    def read_favorites(self) -> Attempt:
        """Read the favorites; if that fails, with the other format of a boolean."""
        self.transport.allow()
        names = dialect.BOOLEAN_FORMATS.keys() - {self.settings.boolean_format or dialect.QUERY_FORMAT}
        others = [{"boolean_format": name} for name in names]
        return self._first_working(self._read_favorites, others)

    def read_website(self, website_id: int | str) -> Record:
        """Return the record of a website."""
        self.transport.allow()
        return self.client().get_website(website_id)

    def search(self, domain: str) -> Record | None:
        """Return the website that a search finds for a domain; None if a task would read the whole list."""
        sent = self.transport.stats.requests
        self.transport.allow(sent + MAX_SEARCH_REQUESTS)
        return self.client().search_website(domain)

    def _first_working(self, read: Callable[[Extras], Attempt], others: Iterable[Extras]) -> Attempt:
        """Read the list. If that fails, return the first attempt with other extras that works.

        A list that changes can fail once, so two attempts without these extras have to fail before, and one after.
        """
        attempt = read(_NO_EXTRAS)
        if attempt.is_rejected:
            attempt = read(_NO_EXTRAS)
        if not attempt.is_rejected:
            return attempt
        for extras in others:
            found = read(extras)
            if found.is_better_than(attempt):
                break
        else:
            return attempt
        again = read(_NO_EXTRAS)
        if again.proof:
            return again
        self.extras = self.extras | found.extras
        return found

    def _read(self, extras: Extras, at_most: int | None = None, **filters: Unpack[ListFilters]) -> Attempt:
        """Read the list once.

        :param at_most: number of records after which the read ends, without a proof; None: read them all.
        """
        attempt = Attempt(extras)
        try:
            listing = self.client(extras).iter_websites(**filters)
            attempt.rows.extend(islice(listing, at_most))
            attempt.proof = listing.proof
            attempt.selected_by = listing.selected_by
        except AnalyticsError as error:
            attempt.error = error
        return attempt

    def _read_favorites(self, extras: Extras) -> Attempt:
        # The first page of the other websites is enough to see whether they contradict the filter.
        others = self._read(extras, at_most=1, favorite=False)
        if others.error:
            return others
        return self._read(extras, favorite=True)


def _list_keys(document: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted path of each list of websites in a document."""
    if isinstance(document, dict):
        for key, inner in document.items():
            yield from _list_keys(inner, f"{path}.{key}".lstrip("."))
    elif path and isinstance(document, list) and any(map(_is_website, document)):
        yield path


def _is_website(row: Any) -> bool:
    return isinstance(row, dict) and "domain" in row


#: ``FAILS``: lists or lookups fail. ``SET``: works with extras. ``note``: some functions fail, or cost more. ``ok``: as
#: expected. ``?``: unknown without writes.
Mark = Literal["FAILS", "SET", "note", "ok", "?"]
#: A mark and a text: the observation, and its consequence. None: there is nothing to report.
Result = tuple[Mark, str] | None

#: Rows per page that split even a short list into pages.
SMALL_PAGE = 10
#: Headers that announce a rate limit.
LIMIT_HEADERS = ("RateLimit", "RateLimit-Policy", *dialect.LIMIT_HEADERS)

_NO_WEBSITES: Result = ("?", "there are no websites")
_NOT_READ: Result = ("?", "not read to its end within the limits of the probe")


@dataclass(frozen=True)
class ProbeFinding:
    """The result of a check.

    :param name: name of the check.
    :param mark: consequence for the tasks.
    :param text: observation and its consequence, as a phrase.
    """

    name: str
    mark: Mark
    text: str


class Probe:
    """The checks of one service.

    :param reader: reads the service.
    :raises AnalyticsError: if the service rejects the key, or returns no account or no list.
    """

    def __init__(self, reader: LimitedReader) -> None:
        self.reader = reader
        self.findings: list[ProbeFinding] = []
        #: Extras to set: lists were proven complete with them.
        self.extras: Extras = {}
        try:
            reader.start()
        except UnexpectedResponseError as error:
            error.excerpt = ""  # it can contain values of websites
            raise
        self._rows = dialect.not_deleted(reader.page.rows)
        self._attempt = Attempt()

    def run(self, on_finding: Callable[[ProbeFinding], None] | None = None) -> None:
        """Do all checks.

        :param on_finding: called with each finding as soon as it is known.
        """
        for name, check in CHECKS.items():
            try:
                result = check(self)
            except StoppedError:
                result = _NOT_READ
            except (AnalyticsError, ValueError) as error:  # an id that cannot be part of a path
                result = "FAILS", _reason(error)
            if result:
                finding = ProbeFinding(name, *result)
                self.findings.append(finding)
                if on_finding:
                    on_finding(finding)

    def check_account(self) -> Result:
        """Check whether plans can be tied to the account."""
        if dialect.account_id(self.reader.account) is None:
            return "note", "it has no id, so approvals are bound to the base URL only"
        return "ok", "the key is accepted, and the account has an id"

    def check_list(self) -> Result:
        """Read the list as a task does."""
        self._attempt = self.reader.read_list()
        self._rows = self._attempt.rows or self._rows
        return self._completeness(self._attempt)

    def _completeness(self, attempt: Attempt) -> Result:
        extras = self.reader.extras
        needed = _with(extras)
        count = counted(len(attempt.rows), "website")
        if attempt.proof:
            self.extras |= extras
            pages = ""
            if attempt.selected_by:
                pages = f", pages by `{attempt.selected_by}`"
            return _works(extras), f"{count}{pages}, complete{needed}: {WHY_COMPLETE[attempt.proof.method]}"
        if attempt.is_stopped:
            text = f"{count} of {self.reader.page.total or 'an unknown number'}{needed}, not read to its end"
            if extras:
                return "FAILS", f"{text}; set it, and run the probe again"
            return "note", text
        if attempt.is_rejected:
            return "FAILS", f"{_reason(attempt.error)}; the usual page parameters do not help"
        return "FAILS", _reason(attempt.error)

    def check_pages(self) -> Result:
        """Read a list that fits on one page in small pages, because it can grow."""
        has_pages = len(self._rows) > len(self.reader.page.rows)
        if has_pages or not self._attempt.proof:
            return None
        if len(self._rows) <= SMALL_PAGE:
            return "?", "all websites are on one page"
        return self._completeness(self.reader.read_list(per_page=SMALL_PAGE))

    def check_total(self) -> Result:
        """Check whether a list is read once."""
        proof = self._attempt.proof
        if proof is None or proof.method != "both directions":
            return None
        if proof.total is None:
            return "note", "there is no field total, so each list is read twice"
        return "note", "the ids do not descend, so each list is read twice"

    def check_per_page(self) -> Result:
        """Check whether pages are as large as requested."""
        size = len(self.reader.page.rows)
        if size < min(int(DEFAULT_QUERY["per_page"]), len(self._rows)):
            return "note", f"a page has at most {size} rows, so lists take more requests"
        return None

    def check_fields(self) -> Result:
        """Compare the rows of a list with the record of a website."""
        if not self._rows:
            return _NO_WEBSITES
        record = self.reader.read_website(self._rows[0]["id"])
        in_each_row = set(self._rows[0]).intersection(*self._rows)
        in_a_row = set().union(*self._rows)
        if "domain" not in in_each_row:
            return "note", "rows lack domain, so lookups of a domain fail"
        missing = _fields(record.keys() - in_a_row)
        if missing:
            return "note", f"rows lack {', '.join(missing)}, so websites are fetched one by one"
        omitted = _fields(in_a_row - in_each_row)
        if omitted:
            return "note", f"rows omit {', '.join(omitted)} if empty, so a missing field means empty, false, or zero"
        unknown = _fields(set(RECORD_FIELDS) - record.keys())
        if unknown:
            return "note", f"records lack {', '.join(unknown)}, so changes of it are not verified"
        return "ok", "rows have all fields"

    def check_search(self) -> Result:
        """Look a website up."""
        for domain, count in Counter(map(domain_key, self._domains)).items():
            if count == 1 and _is_domain(domain):
                break
        else:
            return _NO_WEBSITES
        if self.reader.search(domain):
            return "ok", "it finds a website by its domain"
        return "note", "it does not find a website by its domain, so each lookup reads the whole list"

    def check_favorite(self) -> Result:
        """Read the favorites."""
        if not self._rows:
            return _NO_WEBSITES
        attempt = self.reader.read_favorites()
        if attempt.is_rejected:
            return "note", f"lists of favorites fail: {_reason(attempt.error)}"
        if attempt.error:
            raise attempt.error
        self.extras |= attempt.extras
        return _works(attempt.extras), f"the filter works{_with(attempt.extras)}"

    def check_entries(self) -> Result:
        """Check whether exclusion lists can be read."""
        lists = unknown = several = 0
        for row in self._rows:
            for name in filter(row.get, LINE_FIELDS):
                lists += 1
                if not has_value(name, row):
                    unknown += 1
                elif len(raw_lines(name, row[name]) or ()) > 1:
                    several += 1
        if lists == 0:
            return "?", "no website has a list"
        if unknown and not several:
            return "FAILS", "no list has an entry per line: this form is not supported, and no list is changed"
        if unknown:
            return "note", f"{unknown} of {lists} lists do not have an entry per line, and are not changed"
        return "ok", f"{counted(lists, 'list')} can be read"

    def check_domains(self) -> Result:
        """Check whether domains are unique, and written as in files."""
        counts = Counter(map(domain_key, self._domains))
        repeated = [domain for domain, count in counts.items() if count > 1]
        if repeated:
            return "note", f"{counted(len(repeated), 'domain')} with several websites, which can be changed only by id"
        others = list(filterfalse(_is_domain, self._domains))
        if others:
            return "note", f"{counted(len(others), 'domain')} with a scheme, port, or path, which files must omit"
        with_www = [domain for domain in counts if domain.startswith("www.")]
        return "ok", f"{counted(len(counts), 'domain')}, {len(with_www)} of them with www: write them so in files"

    @property
    def _domains(self) -> list[str]:
        return [row["domain"] for row in self._rows if isinstance(row.get("domain"), str)]

    def check_secrets(self) -> Result:
        """Check whether records contain secrets."""
        records = [self.reader.account, *self._rows]
        names: set[str] = set()
        for record, safe in zip(records, self.reader.client().for_output(records), strict=True):
            names.update(name for name, value in record.items() if name not in safe or safe[name] != value)
        if names:
            return "note", f"results and snapshots omit secrets in {readable(', '.join(sorted(names)))}"
        return "ok", "records contain none"

    def check_limit(self) -> Result:
        """Check whether a rate limit was announced or reached."""
        advice = "if tasks are slowed down, set requests_per_minute"
        repeated = self.reader.transport.stats.retries
        if repeated:
            return "note", f"{counted(repeated, 'request')} had to be repeated; {advice}"
        names = set(map(str.lower, self.reader.transport.header_names))
        announced = [name for name in LIMIT_HEADERS if name.lower() in names]
        if announced:
            return "note", f"announced by {', '.join(announced)}; {advice}"
        return "?", "no header announces one"


#: The checks by name, in the order in which they are done.
CHECKS: Mapping[str, Callable[[Probe], Result]] = {
    "account": Probe.check_account,
    "list": Probe.check_list,
    "pages": Probe.check_pages,
    "total": Probe.check_total,
    "per_page": Probe.check_per_page,
    "fields": Probe.check_fields,
    "search": Probe.check_search,
    "favorite": Probe.check_favorite,
    "entries": Probe.check_entries,
    "domains": Probe.check_domains,
    "secrets": Probe.check_secrets,
    "limit": Probe.check_limit,
}


def _works(extras: Extras) -> Mark:
    """Return the mark of a function that works, possibly only with extras."""
    if extras:
        return "SET"
    return "ok"


def _with(extras: Extras) -> str:
    if not extras:
        return ""
    return f" with {json.dumps(extras)}"


def _fields(names: AbstractSet[str]) -> list[str]:
    """Return the names that are fields of a website, in their order."""
    return list(filter(names.__contains__, RECORD_FIELDS))


def _reason(error: Exception | None) -> str:
    """Return a description of an error without values of the service."""
    if isinstance(error, IncompleteListError):
        return f"not proven complete (check {error.check!r})"
    if isinstance(error, UnexpectedResponseError):
        return f"an unexpected response with status {error.status}"
    if isinstance(error, AnalyticsApiError):
        return f"status {error.status}"
    return type(error).__name__


def _is_domain(text: str) -> bool:
    try:
        check_domain(text)
    except ValueError:
        return False
    return True
