# SPDX-License-Identifier: Apache-2.0
"""The checks of the probe: what the tasks will do on a service, which extras it needs, and what fails or costs more.

A finding contains only counts, statuses, names of the interface and extras, and never a value of the service.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.domains import check_domain, domain_key
from airflow_provider_analytics.api.fields import LINE_FIELDS, RECORD_FIELDS
from airflow_provider_analytics.api.listing import DEFAULT_QUERY, WHY_COMPLETE
from airflow_provider_analytics.api.verification import has_value
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    IncompleteListError,
    StoppedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.probe.reading import Attempt, Extras, LimitedReader
from airflow_provider_analytics.readable import counted

#: ``FAILS``: lists or lookups fail. ``SET``: works with extras. ``note``: some functions fail, or cost more. ``ok``: as
#: expected. ``?``: reads cannot tell.
Mark = Literal["FAILS", "SET", "note", "ok", "?"]
#: A mark and a text: what was found, and its consequence. None: there is nothing to say.
Outcome = tuple[Mark, str] | None

#: Rows per page that split even a short list into pages.
SMALL_PAGE = 10
#: Headers that announce a rate limit.
LIMIT_HEADERS = ("RateLimit", "RateLimit-Policy", *dialect.LIMIT_HEADERS)

_NO_WEBSITES: Outcome = ("?", "there are no websites")
_NOT_READ: Outcome = ("?", "not read to its end within the limits of the probe")


@dataclass(frozen=True)
class Finding:
    """The result of a check.

    :param name: name of the check.
    :param mark: what it means for the tasks.
    :param text: what was found, and its consequence.
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
        self.findings: list[Finding] = []
        #: Extras to set: lists were proven complete with them.
        self.extras: Extras = {}
        try:
            reader.begin()
        except UnexpectedResponseError as error:
            error.excerpt = ""  # it may contain values of websites
            raise
        self._rows = dialect.not_deleted(reader.page.rows)
        self._attempt = Attempt()

    def run(self) -> None:
        """Do all checks."""
        for name, check in CHECKS.items():
            try:
                outcome = check(self)
            except StoppedError:
                outcome = _NOT_READ
            except (AnalyticsError, ValueError) as error:  # an id that cannot be part of a path
                outcome = "FAILS", _reason(error)
            if outcome:
                self.findings.append(Finding(name, *outcome))

    def check_account(self) -> Outcome:
        """Check whether plans can be tied to the account."""
        if dialect.account_id(self.reader.account) is None:
            return "note", "it has no id, so approvals are bound to the base URL only"
        return "ok", "the key is accepted, and the account has an id"

    def check_list(self) -> Outcome:
        """Read the list as a task does."""
        self._attempt = self.reader.read_list()
        self._rows = self._attempt.rows or self._rows
        return self._completeness(self._attempt)

    def _completeness(self, attempt: Attempt) -> Outcome:
        extras = self.reader.extras
        needed = _with(extras)
        count = counted(len(attempt.rows), "website")
        if attempt.proof:
            self.extras |= extras
            why = WHY_COMPLETE[attempt.proof.method]
            pages = f", pages by `{attempt.selected_by}`" if attempt.selected_by else ""
            return "SET" if extras else "ok", f"{count}{pages}, complete{needed}: {why}"
        if attempt.is_stopped:
            text = f"{count} of {self.reader.page.total or 'an unknown number'}{needed}, not read to its end"
            return ("FAILS", f"{text}; set it, and run the probe again") if extras else ("note", text)
        if attempt.is_refused:
            return "FAILS", f"{_reason(attempt.error)}; the usual page parameters do not help"
        return "FAILS", _reason(attempt.error)

    def check_pages(self) -> Outcome:
        """Read a list that fits on one page in small pages, because it may grow."""
        has_pages = len(self._rows) > len(self.reader.page.rows)
        if has_pages or not self._attempt.proof:
            return None
        if len(self._rows) <= SMALL_PAGE:
            return "?", "all websites are on one page"
        return self._completeness(self.reader.read_list(per_page=SMALL_PAGE))

    def check_total(self) -> Outcome:
        """Check whether a list is read once."""
        proof = self._attempt.proof
        if proof is None or proof.method != "both directions":
            return None
        why = "there is no total" if proof.total is None else "the ids do not descend"
        return "note", f"{why}, so each list is read twice"

    def check_per_page(self) -> Outcome:
        """Check whether pages are as large as requested."""
        size = len(self.reader.page.rows)
        if size < min(int(DEFAULT_QUERY["per_page"]), len(self._rows)):
            return "note", f"a page has at most {size} rows, so lists take more requests"
        return None

    def check_fields(self) -> Outcome:
        """Compare the rows of a list with the record of a website."""
        if not self._rows:
            return _NO_WEBSITES
        record = self.reader.read_website(self._rows[0]["id"])
        in_each_row, in_a_row = set(self._rows[0]).intersection(*self._rows), set().union(*self._rows)
        if "domain" not in in_each_row:
            return "note", "rows lack domain, so lookups of a domain fail"
        missing = [name for name in RECORD_FIELDS if name in record and name not in in_a_row]
        if missing:
            return "note", f"rows lack {', '.join(missing)}, so websites are fetched one by one"
        omitted = [name for name in RECORD_FIELDS if name in in_a_row and name not in in_each_row]
        if omitted:
            return "note", f"rows omit {', '.join(omitted)} if empty, so a missing field means empty, false, or zero"
        unknown = [name for name in RECORD_FIELDS if name not in record]
        if unknown:
            return "note", f"records lack {', '.join(unknown)}, so changes of it are not verified"
        return "ok", "rows have all fields"

    def check_search(self) -> Outcome:
        """Look a website up."""
        counts = Counter(map(domain_key, self._domains))
        unique = (domain for domain, count in counts.items() if count == 1)
        domain = next(filter(_is_domain, unique), None)
        if domain is None:
            return _NO_WEBSITES
        if self.reader.search(domain):
            return "ok", "it finds a website by its domain"
        return "note", "it does not find a website by its domain, so each lookup reads the whole list"

    def check_favorite(self) -> Outcome:
        """Read the favorites."""
        if not self._rows:
            return _NO_WEBSITES
        attempt = self.reader.read_favorites()
        if attempt.is_refused:
            return "note", f"lists of favorites fail: {_reason(attempt.error)}"
        if attempt.error:
            raise attempt.error
        self.extras |= attempt.extras
        needed = _with(attempt.extras)
        return "SET" if needed else "ok", f"the filter works{needed}"

    def check_entries(self) -> Outcome:
        """Check whether exclusion lists can be read."""
        lists = [(name, row) for row in self._rows for name in LINE_FIELDS if row.get(name)]
        if not lists:
            return "?", "no website has a list"
        unknown = sum(not has_value(name, row) for name, row in lists)
        if unknown:
            return "note", f"{unknown} of {len(lists)} lists do not have an entry per line, and are not changed"
        return "ok", f"{counted(len(lists), 'list')} can be read"

    def check_domains(self) -> Outcome:
        """Check whether domains are unique, and written as in files."""
        counts = Counter(map(domain_key, self._domains))
        repeated = sum(count > 1 for count in counts.values())
        if repeated:
            return "note", f"{counted(repeated, 'domain')} with several websites, which can be changed only by id"
        others = sum(not _is_domain(domain) for domain in self._domains)
        if others:
            return "note", f"{counted(others, 'domain')} with a scheme, port or path, which files must omit"
        with_www = sum(domain.startswith("www.") for domain in counts)
        return "ok", f"{counted(len(counts), 'domain')}, {with_www} of them with www, as files must have them"

    @property
    def _domains(self) -> list[str]:
        domains = [row.get("domain") for row in self._rows]
        return [domain for domain in domains if isinstance(domain, str)]

    def check_secrets(self) -> Outcome:
        """Check whether records contain secrets."""
        records = [self.reader.account, *self._rows]
        if self.reader.client().for_output(records) != records:
            return "note", "records contain secrets, which results and snapshots omit"
        return "ok", "records contain none"

    def check_limit(self) -> Outcome:
        """Check whether a rate limit was announced or reached."""
        advice = "if tasks are slowed down, set requests_per_minute"
        repeated = self.reader.transport.stats.retries
        if repeated:
            return "note", f"{counted(repeated, 'request')} had to be repeated; {advice}"
        names = {name.lower() for name in self.reader.transport.header_names}
        announced = [name for name in LIMIT_HEADERS if name.lower() in names]
        if announced:
            return "note", f"announced by {', '.join(announced)}; {advice}"
        return "?", "no header announces one"


#: The checks by name, in the order in which they are done.
CHECKS: Mapping[str, Callable[[Probe], Outcome]] = {
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


def _with(extras: Extras) -> str:
    return f" with {json.dumps(extras)}" if extras else ""


def _reason(error: Exception | None) -> str:
    """Return a description of an error without values of the service."""
    if isinstance(error, IncompleteListError):
        return f"not proven complete, by the check {error.check!r}"
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
