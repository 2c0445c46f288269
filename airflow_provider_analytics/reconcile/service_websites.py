# SPDX-License-Identifier: Apache-2.0
"""Read the websites of the service with the fewest requests, and read some of them again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.domains import spellings
from airflow_provider_analytics.api.fields import by_id, website_name, website_of
from airflow_provider_analytics.api.listing import requests_of_a_list
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import NotFoundError
from airflow_provider_analytics.readable import counted
from airflow_provider_analytics.reconcile.workers import Breaker, each, reason_of

#: Why a website was skipped.
NOT_READ = "it was not read, because reading other websites failed"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReadResult:
    """Websites that were read one by one, or with the list.

    :param found: id, or selector, to current record, without websites that no longer exist.
    :param failures: id, or selector, to why it cannot be read.
    :param listed: the complete list, if it was read.
    """

    found: Mapping[str, Record]
    failures: Mapping[str, str] = field(default_factory=dict)
    listed: Sequence[Record] | None = None


@dataclass(frozen=True)
class Websites:
    """The listed websites of the service.

    :param records: the complete list, or the requested part.
    :param complete: whether this is the list of all websites.
    """

    client: AnalyticsClient
    records: Sequence[Record]
    complete: bool

    @property
    def newest(self) -> str | None:
        """Id of the newest listed website; None if the list is empty."""
        return max(filter(str.isdecimal, by_id(self.records)), key=int, default=None)

    def read_again(self, ids: Sequence[str], fields: Collection[str], *, one_by_one: bool = False) -> ReadResult:
        """Return current records of these websites.

        The list is read if its rows contain the fields and it takes fewer requests than reading one by one.

        :param fields: fields that the records must contain.
        :param one_by_one: do not read the list.
        """
        is_list_cheaper = self.complete and len(ids) > requests_of_a_list(len(self.records))
        if is_list_cheaper and not one_by_one and self._rows_contain(fields):
            listed = self.client.complete_rows(self.client.list_websites())
            rows = by_id(listed)
            return ReadResult({website_id: rows[website_id] for website_id in ids if website_id in rows}, listed=listed)
        read = _show_each(self.client, ids, "Checking", self.client.read_website)
        if len(read.found) + len(read.failures) < len(ids):
            self.client.get_account()  # with a wrong base URL, everything is "not found"
        return read

    def _rows_contain(self, fields: Collection[str]) -> bool:
        """Return whether the row of each website in the list contains these fields."""
        names = set(fields)
        return all(record.keys() >= names for record in self.records)


def _show_each(
    client: AnalyticsClient, ids: Sequence[str], verb: str, show: Callable[[str], Record | None]
) -> ReadResult:
    """Read websites one by one.

    :param show: returns the record of an id or selector; None, or :class:`NotFoundError`, if there is none.
    """

    def work(website_id: str) -> Record | None:
        try:
            return show(website_id)
        except NotFoundError:
            return None

    found: dict[str, Record] = {}
    failures: dict[str, str] = {}
    not_tried = set(ids)
    for website_id, record, error in each(client, ids, work, verb, Breaker()):
        not_tried.remove(website_id)
        if error is not None:
            failures[website_id] = reason_of(error)
        elif record is not None:
            found[website_id] = record
    failures |= dict.fromkeys(not_tried, NOT_READ)
    return ReadResult(found, failures)


def read_websites(client: AnalyticsClient, selectors: Sequence[str] | None) -> Websites:
    """Return all websites of the service, or at least the selected ones, with the fewest requests.

    Selected websites are read one by one or with the complete list, whichever takes fewer requests. The first page of
    the list contains its length. Domains are looked up by search; if that is not conclusive, the list is read.

    :param selectors: ids and domains, no patterns; None for all websites.
    :raises IncompleteListError: if the list cannot be proven complete.
    """
    if selectors is None:
        return Websites(client, client.complete_rows(client.list_websites()), complete=True)
    selectors = list(dict.fromkeys(selectors))
    listed: Sequence[Record] | None = None
    if len(selectors) > 1:
        listed = client.list_websites_within(sum(map(_requests_to_look_up, selectors)))
    if listed is None:
        found = _look_up(client, selectors)
        if found is not None:
            return Websites(client, found, complete=False)
        listed = client.list_websites()
    return Websites(client, client.complete_rows(listed), complete=True)


def _requests_to_look_up(selector: str) -> int:
    """Return the largest number of requests that find the website of an id or a domain."""
    if _is_an_id(selector):
        return 1
    return len(spellings(selector)) + 1


def _look_up(client: AnalyticsClient, selectors: Sequence[str]) -> list[Record] | None:
    """Return the websites of ids and domains; None if the complete list is needed to find them."""

    def show(selector: str) -> Record | None:
        if _is_an_id(selector):
            return client.website_or_none(selector)
        return client.search_website(selector)

    read = _show_each(client, selectors, "Looking up", show)
    missing = set(selectors) - read.found.keys()
    if read.failures or not all(map(_is_an_id, missing)):
        return None
    if missing:
        client.get_account()  # with a wrong base URL, everything is "not found"
    return list(by_id(read.found.values()).values())


def _is_an_id(selector: str) -> bool:
    return selector.isascii() and selector.isdigit()


def complete_records(
    client: AnalyticsClient,
    records: Sequence[Record],
    missing_fields: Callable[[Record], AbstractSet[str]],
    is_doubtful: Callable[[Record], bool] = lambda _: False,
) -> tuple[list[Record], dict[str, str]]:
    """Return the records with all fields, and failures by website.

    Websites that were deleted since the list was read, and websites that failed, are left out.

    :param missing_fields: returns the names of the fields that a record lacks. Then the website is fetched.
    :param is_doubtful: returns whether a record might be stale. Then the website is fetched, too.
    """
    lacking = [record for record in records if missing_fields(record)]
    if lacking:
        log.info(
            "Fetching %s of %s one by one, because list rows lack %s.",
            f"{len(lacking):,}",
            counted(len(records), "website"),
            ", ".join(sorted(set().union(*map(missing_fields, lacking)))),
        )
    incomplete = by_id([*lacking, *filter(is_doubtful, records)])
    if not incomplete:
        return list(records), {}
    read = _show_each(client, list(incomplete), "Fetching", client.website_or_none)
    completed: list[Record] = []
    for record in records:
        website_id = str(record["id"])
        if website_id not in incomplete:
            completed.append(record)
        elif website_id in read.found:
            fetched = read.found[website_id]
            # The plan is for the domain in the list. Before a change, the domain is checked.
            completed.append({**record, **fetched, "domain": record.get("domain") or fetched.get("domain")})
    failures = {}
    for website_id, why in read.failures.items():
        failures[website_name(*website_of(incomplete[website_id]))] = why
    return completed, failures
