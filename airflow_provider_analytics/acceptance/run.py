# SPDX-License-Identifier: Apache-2.0
"""The acceptance run: it creates one website, changes it field by field, and deletes it.

All fields get other values first (the first round), and then their first values again (the second round). So each
field is sent alone while every other field has a value that an update could reset: a value that differs from its
default. Each update is repeated; the repeated one finds nothing to change, and must send no write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from airflow_provider_analytics.acceptance.disposable import (
    PREFIX,
    Created,
    CreatedWebsites,
    is_disposable,
    is_domain_of,
    new_domain,
)
from airflow_provider_analytics.acceptance.statements import REPEATED, STATEMENTS, Extras, Finding, Mark
from airflow_provider_analytics.acceptance.transport import MAX_REQUESTS, GuardedTransport, RequestLimitError
from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.dialect import Page, Record
from airflow_provider_analytics.api.domains import check_domain, same_domain
from airflow_provider_analytics.api.fields import (
    FIELDS,
    UPDATE_FIELDS,
    ListFilters,
    check_update,
    list_query,
    same_setting,
)
from airflow_provider_analytics.api.listing import DEFAULT_QUERY
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.verification import Comparison, Expected
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    DomainError,
    IncompleteListError,
    NotAppliedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import counted, readable

#: Seconds for one response, and maximum number of retries.
TIMEOUT = 10.0
MAX_RETRIES = 2
#: Maximum number of requests to read the list at the beginning.
MAX_LIST_REQUESTS = 16
#: Maximum number of leftovers that are removed in one run.
MAX_LEFTOVERS = 5
#: Rows per page that split even a short list into pages, and number of rows that are read with it.
SMALL_PAGE = 10
SMALL_PAGE_ROWS = 25
#: Longest time in seconds to wait before a website is read after an update.
MAX_DELAY = 8.0

_METHODS = ("PATCH", "PUT")
#: Statuses of a rejected create.
_REJECTED = frozenset({400, 409, 422})
_LISTS = ("exclude_params", "exclude_ips")
_WITH_EXTRA = "work if the extra is set"
_PAGE_PASSWORD = "acceptance-page-password"  # noqa: S105 - of the disposable website
#: Field to the settings that are sent in the first round. A password needs the privacy *password*.
FIRST_ROUND: Mapping[str, Mapping[str, Any]] = {
    "privacy": {"privacy": "private"},
    "password": {"privacy": "password", "password": _PAGE_PASSWORD},
    "email": {"email": True},
    "exclude_bots": {"exclude_bots": False},
    "exclude_params": {"exclude_params": ["acceptance_a", "acceptance_b"]},
    "exclude_ips": {"exclude_ips": ["192.0.2.1", "2001:db8::1"]},
    "favorite": {"favorite": True},
}
#: The same of the second round: the defaults, and a network.
SECOND_ROUND: Mapping[str, Mapping[str, Any]] = {
    "privacy": {"privacy": "public"},
    "password": {"password": f"{_PAGE_PASSWORD}-2"},
    "email": {"email": False},
    "exclude_bots": {"exclude_bots": True},
    "exclude_params": {"exclude_params": []},
    "exclude_ips": {"exclude_ips": ["192.0.2.1", "198.51.100.0/24"]},
    "favorite": {"favorite": False},
}
#: Settings that are sent with the other update method between the rounds.
OTHER_METHOD: Mapping[str, Any] = {"privacy": "private"}


class LeftoverError(AnalyticsError):
    """A website of this tool that could not be removed."""


@dataclass
class Update:
    """The result of an update and of its repetition.

    :param sent: the settings.
    :param is_sent: whether the update was sent.
    :param error: why the service rejected it; None if it did not.
    :param at_risk: number of fields that were not sent, and had another value than the default.
    :param comparison: the website after it; empty after an error.
    :param repeated_writes: number of writes that the repetition sent.
    """

    sent: Mapping[str, Any]
    is_sent: bool = False
    at_risk: int = 0
    error: AnalyticsError | None = None
    comparison: Comparison = field(default_factory=Comparison)
    repeated_writes: int = 0

    @property
    def works(self) -> bool:
        """Whether the service accepted and stored all values, as far as it returns them."""
        return self.error is None and not self.comparison.not_applied

    @property
    def problem(self) -> str:
        """Description of what does not work."""
        if self.error:
            return f"The update failed: {reason(self.error).removesuffix('.')}"
        return "; ".join(f"{name} {how}" for name, how in self.comparison.not_applied.items())


class AcceptanceRun:
    """An acceptance run on one service.

    :param settings: settings of the connection.
    :param domain: domain of the website; None: a random one, which every later run recognizes.
    :param created: records a website whose domain was given.
    :param progress: called before each request with its number and the name of the step.
    :raises ValueError: if the domain is invalid.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        domain: str | None = None,
        created: CreatedWebsites | None = None,
        progress: Callable[[int, str], None] | None = None,
    ) -> None:
        self.settings = replace(
            settings,
            timeout=min(settings.timeout, TIMEOUT),
            max_retries=min(settings.max_retries, MAX_RETRIES),
            parallel_requests=1,  # no page is read in vain
        )
        self.is_given = domain is not None
        self.domain = new_domain() if domain is None else check_domain(domain)
        self.findings: dict[str, Finding] = {}
        #: Extras to set.
        self.extras: Extras = {}
        #: Number of leftovers of earlier runs that were removed.
        self.leftovers = 0
        #: Id of the website, as long as it exists.
        self.website_id = ""
        self._created = created or CreatedWebsites(None)
        self._is_create_sent = False
        self._step = ""
        self._progress = progress
        self.transport = GuardedTransport(self.settings, self.domain, self._report_request)
        self._client = AnalyticsClient(self.settings, self.transport)
        #: Domain as the service writes it.
        self._stored_domain = self.domain
        self._page = Page([])
        #: Whether the whole list was read at the beginning.
        self._is_complete = False
        #: Why the website could not be removed; None if it was.
        self.not_removed: LeftoverError | None = None
        self._delay = 0.0
        self._updates: list[tuple[str, Update]] = []
        #: Whether all updates were sent.
        self._has_all_updates = False

    def _report_request(self, number: int) -> None:
        if self._progress:
            self._progress(number, self._step)

    # Clients and reads

    def client(self, extras: Extras | None = None) -> AnalyticsClient:
        """Return the client, from now on with the extras found so far, and with further ones.

        It is always the same client, because it knows which fields the service omits if they are empty.
        """
        self._client.settings = replace(self.settings, **self.extras | (extras or {}))
        return self._client

    def _newest(self, **filters: Any) -> Page:
        """Return the first page, newest first."""
        client = self.client()
        return client.page(DEFAULT_QUERY | list_query(boolean_texts=client.settings.boolean_texts, **filters))

    def _own_rows(self, page: Page) -> list[Record]:
        return [row for row in dialect.not_deleted(page.rows) if str(row["id"]) == self.website_id]

    # The run

    def run(self) -> None:
        """Do all steps, and remove the website.

        If the website cannot be removed, :attr:`not_removed` says why.

        :raises AnalyticsError: if the run cannot begin, or is interrupted by an error of the connection.
        :raises LeftoverError: if a website of an earlier run cannot be removed.
        :raises ValueError: if the given domain has a website, or if the service rejects the domain.
        """
        try:
            self._begin()
            self._run_steps()
        except RequestLimitError as error:
            if not self.website_id:
                raise
            self._conclude_updates()
            self.transport.limit = MAX_REQUESTS
            self._delete()
            self._add_missing(error.problem)
        finally:
            self.remove()
        self._add_missing("Not tested.")

    def _begin(self) -> None:
        self._created.check_writable()
        self._step = "the account"
        account = self._client.get_account()
        has_id = dialect.account_id(account) is not None
        seen = "The account has an id." if has_id else "The account has no id."
        tasks = "bind approvals to the account" if has_id else "bind approvals to the base URL only"
        self._add("operation-account", "ok" if has_id else "note", seen, tasks)
        self._step = "leftovers of earlier runs"
        rows = self._read_list()
        self._remove_leftovers(rows)
        existing = [row for row in rows if is_domain_of(row, self.domain)]
        if self.is_given and not self._is_complete:
            existing += [row for row in self._search(self.domain) if is_domain_of(row, self.domain)]
        if existing:
            raise ValueError(
                f"--domain {self.domain!r} has a website already (id {existing[0]['id']}). Give a domain that no "
                "website has. No changes were sent."
            )

    def _read_list(self) -> list[Record]:
        """Read the list within limits, and return its rows."""
        rows: list[Record] = []
        with self._limited(MAX_LIST_REQUESTS):
            self._page = self._newest()
            try:
                rows.extend(self._client.iter_websites())
                self._is_complete = True
            except RequestLimitError:
                self._add(
                    "operation-list", "?", "The list is too long to read it to its end here.", "read all of its pages"
                )
            except (IncompleteListError, UnexpectedResponseError, AnalyticsApiError) as error:
                tasks = "fail if they need the list; run the command probe, which looks for the extra that helps"
                self._add("operation-list", "FAILS", f"The list cannot be read: {reason(error)}", tasks)
        if self._is_complete:
            self._add("operation-list", "ok", "The list is complete.", "read it with a proof that it is complete")
            return rows
        # The newest websites, and those that a search finds, are the most likely leftovers.
        return [*rows, *self._page.rows, *self._search(PREFIX)]

    @contextmanager
    def _limited(self, requests: int) -> Iterator[None]:
        """Allow only this number of further requests inside the block."""
        limit = self.transport.limit
        self.transport.limit = min(limit, self.transport.stats.requests + requests)
        try:
            yield
        finally:
            self.transport.limit = limit

    def _search(self, text: str) -> list[Record]:
        """Return the websites on the first page that a search finds; none if the search fails."""
        try:
            return dialect.not_deleted(self._newest(search=text, search_by="domain").rows)
        except (AnalyticsApiError, UnexpectedResponseError):
            return []

    # Leftovers and removal

    def _remove_leftovers(self, rows: list[Record]) -> None:
        """Remove websites of earlier runs that were killed."""
        leftovers = {str(row["id"]): "" for row in rows if is_disposable(row.get("domain"))}
        for created in self._created.of(self.settings.base_url):
            if created.website_id:
                leftovers[created.website_id] = created.domain
            else:
                self._check_unknown(created, rows)
        for website_id, domain in list(leftovers.items())[:MAX_LEFTOVERS]:
            self._remove_leftover(website_id, domain)

    def _check_unknown(self, created: Created, rows: list[Record]) -> None:
        """Forget a create that left no website; otherwise, raise an error: the website may be anybody's."""
        same = [row for row in [*rows, *self._search(created.domain)] if is_domain_of(row, created.domain)]
        if same:
            raise LeftoverError(
                f"A run was killed while it created {created.domain}, and website {same[0]['id']} has this domain.",
                f"If it is the leftover, delete it in the service. Then remove {self._created.path}, and run the "
                "command again. No changes were sent.",
            )
        self._created.remove(created)

    def _remove_leftover(self, website_id: str, domain: str) -> None:
        """Remove a website, if its record says that this tool created it.

        :param domain: recorded domain; empty: the domain itself must say it.
        """
        record = self._client.website_or_none(website_id)
        if record is not None:
            is_own = is_domain_of(record, domain) if domain else is_disposable(record.get("domain"))
            if is_own:
                self._delete_leftover(website_id)
        if domain:
            self._created.remove(Created(self.settings.base_url, domain))

    def _delete_leftover(self, website_id: str) -> None:
        self.transport.allow_writes(website_id)
        try:
            self._client.delete_website(website_id)
        except (NotAppliedError, AnalyticsApiError, UnexpectedResponseError) as error:
            raise LeftoverError(
                f"Website {website_id} of an earlier run cannot be deleted: {reason(error)}",
                "Delete it in the service, and run the command again. No website was created.",
            ) from None
        self.leftovers += 1

    def remove(self) -> None:
        """Remove the website, if it exists; report it otherwise."""
        if not self._is_create_sent:
            return
        self._step = "the removal of the website"
        self.transport.limit = MAX_REQUESTS
        try:
            if not self.website_id:
                # The response to the create was lost, or contained no id.
                rows = [*self._newest().rows, *self._search(self.domain)]
                found = [row for row in rows if is_domain_of(row, self.domain)]
                self.website_id = str(found[0]["id"]) if found else ""
            if self.website_id and self._client.website_or_none(self.website_id) is not None:
                self.transport.allow_writes(self.website_id)
                self._client.delete_website(self.website_id)
        except (AnalyticsError, ValueError) as error:
            where = f"Website {self.website_id}" if self.website_id else f"A website {self.domain}"
            self.not_removed = LeftoverError(
                f"{where} of this run may still exist, because it cannot be deleted: {reason(error)}",
                "Delete it in the service. The next run also tries to delete it.",
            )
            return
        self._forget()

    def _forget(self) -> None:
        self.website_id = ""
        self._is_create_sent = False
        if self.is_given:
            self._created.remove(Created(self.settings.base_url, self.domain))

    # Findings

    def _add(self, name: str, mark: Mark, seen: str, tasks: str, extras: Extras | None = None) -> None:
        """Add a finding, unless there is one for the statement."""
        self.findings.setdefault(name, Finding(name, mark, seen, tasks, extras or {}))
        if extras:
            self.extras |= extras

    def _add_missing(self, seen: str) -> None:
        for name in STATEMENTS:
            self._add(name, "?", seen, "verify it themselves, as far as they depend on it")

    @contextmanager
    def _as_finding(self, name: str, tasks: str) -> Iterator[None]:
        """Turn errors of the service inside the block into a finding."""
        try:
            yield
        except (AnalyticsApiError, UnexpectedResponseError, IncompleteListError, NotAppliedError) as error:
            self._add(name, "FAILS", reason(error), tasks)

    # Steps

    def _run_steps(self) -> None:
        self._step = "create"
        self._create()
        for name, settings in FIRST_ROUND.items():
            self._step = f"update {name}"
            self._update_field(name, settings)
        for name, read in READS.items():
            self._step = name
            with self._as_finding(name, _IF_READ_FAILS[name]):
                read(self)
        self._step = "the other update method"
        self._update_with_other_method()
        for name, settings in SECOND_ROUND.items():
            self._step = f"update {name} again"
            self._update_field(name, settings)
        self._has_all_updates = True
        self._conclude_updates()
        self._delete()

    def _create(self) -> None:
        """Create the website with the defaults, verify it, and repeat that."""
        if self.is_given:
            self._created.add(Created(self.settings.base_url, self.domain))
        self._is_create_sent = True
        # A create that is sure to be the only one of its domain takes the complete list.
        create = self._client.ensure_website if self._is_complete else self._client.create_website
        try:
            record = create(self.domain).record
            self.website_id = str(record["id"])
        except DomainError as error:
            if not error.created:
                raise
            record = self._client.get_website(error.created)
            if not is_domain_of(record, self.domain):
                raise
            self.website_id = error.created
            self._stored_domain = str(record["domain"])
        except AnalyticsApiError as error:
            if error.created or error.status not in _REJECTED:
                raise
            raise ValueError(
                f"The service rejected the domain {self.domain!r}: {reason(error)} Give another one with --domain."
            ) from None
        if not is_domain_of(record, self.domain):
            record = self._client.get_website(self.website_id)
        if "domain" in record and not is_domain_of(record, self.domain):
            self.website_id = ""
            raise DomainError(
                "The response to the create has the id of another website.", (), "No further changes were sent."
            )
        if self.is_given:
            self._created.add(Created(self.settings.base_url, self.domain, self.website_id))
        self.transport.allow_writes(self.website_id)
        self._conclude_create(record)

    def _conclude_create(self, record: Record) -> None:
        if self._stored_domain != self.domain and not same_domain(self._stored_domain, self.domain):
            seen = "The service stores the domain in another form."
            self._add("operation-create", "FAILS", seen, "fail, unless the DAG writes the domain in this form")
        else:
            self._repeat_create()
        changed = Expected.of_new(self.domain, {}).compare(record)
        if changed.unsent:
            names = ", ".join(changed.unsent)
            self._add("rule-defaults", "note", f"Other defaults: {names}.", "send the fields that they need")
        else:
            self._add("rule-defaults", "ok", "As documented.", "omit fields that have their default")

    def _repeat_create(self) -> None:
        sent = self.transport.writes
        if self._is_complete:
            self._client.ensure_website(self.domain)
            seen = "Created, and not created again."
        else:
            seen = "Created."
        mark: Mark = "ok" if self.transport.writes == sent else "FAILS"
        self._add("operation-create", mark, seen, "look for the domain before a create, and never create it twice")

    # Updates

    def _update(self, settings: Mapping[str, Any], extras: Extras | None = None) -> Update:
        """Send an update, verify it, and repeat it."""
        client = self.client(extras)
        checked = check_update(**settings)
        update = Update(checked)
        expected: list[Expected] = []

        def work_out(record: Record) -> Mapping[str, Any] | None:
            # As AnalyticsClient.update_website: an update that changes nothing is not sent.
            expected.append(Expected(record, checked, self._stored_domain))
            return None if expected[-1].compare(record).is_verified else checked

        sent = self.transport.writes
        try:
            client.change_website(self.website_id, work_out)
            update.is_sent = self.transport.writes > sent
            if update.is_sent:
                update.at_risk = _at_risk(expected[0].before, checked)
                update.comparison = self._read_after(client, expected[0])
            if update.works and update.is_sent:
                sent = self.transport.writes
                client.change_website(self.website_id, work_out)
                update.repeated_writes = self.transport.writes - sent
        except (AnalyticsApiError, UnexpectedResponseError) as error:
            update.error = error
        self._updates.append((client.settings.update_method, update))
        return update

    def _read_after(self, client: AnalyticsClient, expected: Expected) -> Comparison:
        """Read the website after an update. A service that was late before gets that time at once."""
        client.wait(self._delay)
        if self._reset_fields(client.settings.update_method):
            # Waiting does not help: an earlier update was read again and again.
            comparison = expected.compare(client.read_website(self.website_id))
            if comparison.is_applied:
                return comparison
        waited = client.stats.waited
        comparison = client.read_until(self.website_id, expected)
        if comparison.is_as_expected:
            self._delay = min(MAX_DELAY, self._delay + client.stats.waited - waited)
        return comparison

    def _update_field(self, name: str, settings: Mapping[str, Any]) -> None:
        row = f"{name}-values"
        if row in self.findings and self.findings[row].mark == "FAILS":
            return
        update = self._update(settings)
        if not update.works:
            for extras in self._alternatives(name):
                other = self._update(settings, extras)
                if other.works:
                    # The update method concerns all fields.
                    place = "update-methods" if "update_method" in extras else row
                    seen = f"{update.problem}. It works with the extra."
                    self._replace(Finding(place, "SET", seen, _WITH_EXTRA, extras))
                    self._add_stored(name, other)
                    return
            self._replace(Finding(row, "FAILS", f"{update.problem}.", f"fail if they change {name}"))
        else:
            self._add_stored(name, update)

    def _add_stored(self, name: str, update: Update) -> None:
        """Add the finding for a stored field."""
        row = f"{name}-values"
        if not update.is_sent:
            return
        if name in update.comparison.unverified:
            seen = "Accepted, but not returned."
            self._add(row, "ok" if name == "password" else "note", seen, "send it in each run, and cannot verify it")
        elif name in FIELDS and name in update.comparison.record:
            self._add(row, "ok", f"Stored, and returned as {_form(update.comparison.record[name])}.", "verify it")

    def _replace(self, finding: Finding) -> None:
        """Add a finding of the second round in place of one of the first round."""
        self.findings[finding.name] = finding
        self.extras |= finding.extras

    def _alternatives(self, name: str) -> Iterator[Extras]:
        """Yield extras that may help if a field is rejected or not stored."""
        current = self.client().settings
        if name == "favorite":
            for boolean_format in dialect.BOOLEAN_FORMATS:
                if boolean_format != current.boolean_format:
                    yield {"boolean_format": boolean_format}
        has_worked = any(update.works for _, update in self._updates)
        if not has_worked:
            for method in _METHODS:
                if method != current.update_method:
                    yield {"update_method": method}

    def _update_with_other_method(self) -> None:
        """Send one update with the other method, while all other fields could be reset."""
        if "update-methods" in self.findings:
            return
        current = self.client().settings.update_method
        method = next(method for method in _METHODS if method != current)
        update = self._update(OTHER_METHOD, {"update_method": method})
        if not update.works:
            self._add("update-methods", "note", f"{method} does not work: {update.problem}.", f"use {current}")

    def _conclude_updates(self) -> None:
        """Add the findings about all updates."""
        method = self.client().settings.update_method
        other_method = next(name for name in _METHODS if name != method)
        reset = self._reset_fields(method)
        reset_by_other = self._reset_fields(other_method)
        other_works = any(update.works for name, update in self._updates if name == other_method)
        other_is_safe = any(update.at_risk for name, update in self._updates if name == other_method and update.works)
        stop = "stop after two websites, restore them, and fail; with a single website, fail without restoring it"
        if not reset and not self._has_all_updates:
            seen = f"{method} kept them in {counted(len(self._updates), 'update')}; not all were sent."
            self._add("update-no-defaults", "?", seen, "change single websites first, to find out")
        elif not reset:
            seen = f"{method} keeps them. Each field was sent alone while all others could be reset."
            self._add("update-no-defaults", "ok", seen, "send only the fields that change")
        elif other_is_safe and not reset_by_other:
            seen = f"{method} resets {', '.join(reset)}, {other_method} keeps them."
            self._add("update-no-defaults", "SET", seen, _WITH_EXTRA, {"update_method": other_method})
        else:
            self._add("update-no-defaults", "FAILS", f"{method} resets {', '.join(reset)}.", stop)
        if reset_by_other and not reset:
            seen = f"{other_method} resets {', '.join(reset_by_other)}, {method} keeps them."
            self._add("update-methods", "note", seen, f"use {method}; do not set the extra update_method")
        elif other_works:
            self._add("update-methods", "ok", "Both work.", f"use {method}")
        self._conclude_records()
        self._conclude_repetitions()
        self._conclude_lines()

    def _conclude_records(self) -> None:
        hidden = {name for _, update in self._updates for name in update.comparison.unverified if FIELDS[name].column}
        if hidden:
            seen = f"Records lack {', '.join(sorted(hidden))}."
            self._add("operation-show", "note", seen, "send these fields in each run, and cannot verify them")
        elif any(update.is_sent for _, update in self._updates):
            self._add("operation-show", "ok", "Records have all fields.", "verify each change with it")

    def _reset_fields(self, method: str) -> list[str]:
        """Return the fields that updates with a method changed although they did not send them."""
        names = {
            name
            for used, update in self._updates
            if used == method and update.is_sent
            for name in update.comparison.unsent
        }
        return [name for name in UPDATE_FIELDS if name in names]

    def _conclude_repetitions(self) -> None:
        again = [update for _, update in self._updates if update.repeated_writes]
        hidden = {name for update in again for name in update.comparison.unverified}
        if not [update for _, update in self._updates if update.works]:
            return
        if all(set(update.comparison.unverified) for update in again):
            seen = "No write was sent again"
            if hidden:
                seen += f", except for {', '.join(sorted(hidden))}, which the service does not return"
            self._add(REPEATED, "ok", f"{seen}.", "send nothing if nothing differs")
        else:
            self._add(REPEATED, "FAILS", "Writes were sent again.", "send the same values in each run")

    def _conclude_lines(self) -> None:
        for _, update in self._updates:
            record = update.comparison.record
            shown = [record[name] for name in _LISTS if name in update.sent and record.get(name)]
            if update.works and shown:
                seen = f"Returned as {_form_of_lines(shown[0])}."
                self._add("rule-lines", "ok", seen, "compare them as sets of entries")
        failed = [finding.name for finding in self.findings.values() if finding.mark == "FAILS"]
        if {f"{name}-values" for name in _LISTS}.intersection(failed):
            self._add("rule-lines", "FAILS", "See the rows of the two lists.", "fail if they change these lists")

    # Reads

    def _check_order_of_ids(self) -> None:
        page = self._newest()
        is_first = bool(page.rows) and str(page.rows[0]["id"]) == self.website_id
        if is_first:
            self._add("id-sorts", "ok", "The new website is the first of the list.", "read a list once, newest first")
        elif self._own_rows(page):
            self._add("id-sorts", "note", "The new website is not the first of the list.", "read each list twice")
        else:
            seen = "The new website is not on the first page of the list."
            self._add("id-sorts", "note", seen, "read the whole list after a create")

    def _check_search(self) -> None:
        if not same_domain(self._stored_domain, self.domain):
            self._add("search", "?", "The service stores the domain in another form.", "look domains up in the list")
            return
        found = self.client().search_website(self.domain)
        if self._own_rows(self._newest(search=new_domain(), search_by="domain")):
            self._add("search", "note", "It finds websites of other domains.", "look domains up in the list")
        elif found is not None and str(found["id"]) == self.website_id:
            self._add("search", "ok", "It finds the website.", "look domains up with it")
        else:
            self._add("search", "note", "It does not find the website.", "read the whole list to look a domain up")

    def _check_favorite_filter(self) -> None:
        # The last update sent it.
        if not self._updates[-1][1].works:
            self._add("favorite-filter", "?", "The website is no favorite.", "check each record against the filter")
            return
        others: list[Extras] = [
            {"boolean_format": name}
            for name in dialect.BOOLEAN_FORMATS
            if name != self.client().settings.boolean_format
        ]
        if self._filters({}):
            self._add("favorite-filter", "ok", "It selects the favorites.", "list favorites with it")
            return
        for extras in others:
            if self._filters(extras):
                self._add("favorite-filter", "SET", "It works only with the extra.", _WITH_EXTRA, extras)
                return
        self._add("favorite-filter", "note", "It does not select the favorites.", "fail if they list favorites")

    def _filters(self, extras: Extras) -> bool:
        """Return whether the newest favorites contain the website, and the newest other websites do not."""
        client = self.client(extras)
        texts = client.settings.boolean_texts
        try:
            favorites = client.page(DEFAULT_QUERY | list_query(boolean_texts=texts, favorite=True))
            others = client.page(DEFAULT_QUERY | list_query(boolean_texts=texts, favorite=False))
        except AnalyticsApiError as error:
            if error.status in dialect.NO_SUCH_PAGE:
                return False
            raise
        return bool(self._own_rows(favorites)) and not self._own_rows(others)

    def _check_sort(self) -> None:
        newest = self._first_id(sort_by="id", sort="desc")
        oldest = self._first_id(sort_by="id", sort="asc")
        self._add_order("sort", newest, oldest)

    def _check_sort_by(self) -> None:
        last = self._first_id(sort_by="domain", sort="desc")
        first = self._first_id(sort_by="domain", sort="asc")
        self._add_order("sort-by", last, first)

    def _first_id(self, **filters: Any) -> str:
        page = self._newest(per_page=SMALL_PAGE, **filters)
        return str(page.rows[0]["id"]) if page.rows else ""

    def _add_order(self, name: str, last: str, first: str) -> None:
        if len(self._page.rows) == 0:
            self._add(name, "?", "There is no other website.", "check the order of each list")
        elif last != first:
            self._add(name, "ok", "Both directions work.", "read lists in both directions")
        else:
            self._add(name, "FAILS", "Both directions begin with the same website.", "fail if they need the list")

    def _check_per_page(self) -> None:
        expected = [str(row["id"]) for row in self._newest().rows]
        page = self._newest(per_page=SMALL_PAGE)
        if len(expected) <= SMALL_PAGE:
            self._add("per-page", "?", "All websites are on one page of ten.", "check that pages are selected")
            return
        if len(page.rows) > SMALL_PAGE:
            seen = f"A page has {counted(len(page.rows), 'row')} instead of {SMALL_PAGE}."
            self._add("per-page", "note", seen, "read pages of any size")
            return
        filters: ListFilters = {"per_page": SMALL_PAGE}
        rows = list(islice(self.client().iter_websites(**filters), SMALL_PAGE_ROWS))
        found = [str(row["id"]) for row in rows]
        if found[: len(expected)] == expected[: len(found)]:
            self._add("per-page", "ok", f"{counted(len(found), 'website')} in pages of ten.", "read page by page")
        else:
            seen = "Pages of ten have other websites than a large page."
            self._add("per-page", "note", seen, "read the list again if it changes, and fail if it is incomplete")

    # Delete

    def _delete(self) -> None:
        """Delete the website, and verify that it is gone."""
        self._step = "delete"
        with self._as_finding("operation-delete", "fail if they delete"):
            self._delete_twice()

    def _delete_twice(self) -> None:
        """Delete the website; a repeated delete finds no website, and sends nothing."""
        self._client.delete_website(self.website_id)
        sent = self.transport.writes
        is_gone = self._client.website_or_none(self.website_id) is None
        is_listed = bool(self._own_rows(self._newest()))
        if not is_gone or is_listed:
            where = "in the list" if is_gone else "by its id"
            raise NotAppliedError(self.website_id, {"website": f"still exists {where} after it was deleted"})
        if self.transport.writes == sent:
            self._add("operation-delete", "ok", "The website is gone.", "delete it once, and verify that it is gone")
        self._forget()


#: Statement to the step that reads it, in the order in which they are done.
READS: Mapping[str, Callable[[AcceptanceRun], None]] = {
    "id-sorts": AcceptanceRun._check_order_of_ids,
    "search": AcceptanceRun._check_search,
    "favorite-filter": AcceptanceRun._check_favorite_filter,
    "sort": AcceptanceRun._check_sort,
    "sort-by": AcceptanceRun._check_sort_by,
    "per-page": AcceptanceRun._check_per_page,
}
_IF_READ_FAILS: Mapping[str, str] = {
    "id-sorts": "fail if they need the list",
    "search": "read the whole list to look a domain up",
    "favorite-filter": "fail if they list favorites",
    "sort": "fail if they need the list",
    "sort-by": "fail if they sort by domain",
    "per-page": "fail if the list has several pages",
}


def reason(error: Exception) -> str:
    """Return a description of an error without values of other websites."""
    if isinstance(error, IncompleteListError):
        return f"the list was not proven complete, by the check {error.check!r}."
    if isinstance(error, UnexpectedResponseError):
        return f"an unexpected response with status {error.status}."
    if isinstance(error, AnalyticsApiError):
        fields = [name for name in FIELDS if name in error.errors]
        about = f" about {', '.join(fields)}" if fields else ""
        return f"status {error.status}{about}."
    if isinstance(error, (NotAppliedError, RequestLimitError)):
        return readable(error.problem)
    if isinstance(error, AnalyticsConnectionError):
        return "the service did not respond."
    return f"{type(error).__name__}."


def _at_risk(record: Mapping[str, Any], sent: Mapping[str, Any]) -> int:
    """Return how many fields that are not sent have another value than the default."""
    others = [name for name in UPDATE_FIELDS if FIELDS[name].column and name in record and name not in sent]
    return sum(not same_setting(name, record[name], FIELDS[name].default) for name in others)


def _form(value: object) -> str:
    """Return how a value is written in JSON."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "an array"
    return "null"


def _form_of_lines(value: object) -> str:
    """Return how a list is written in JSON."""
    if isinstance(value, str) and "\r\n" in value:
        return "text with a carriage return and a line feed after each entry"
    if isinstance(value, str):
        return "text with a line feed after each entry"
    return _form(value)
