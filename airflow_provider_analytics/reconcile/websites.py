"""Read the websites of the service with the fewest requests, and read some of them again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.domains import domain_key, spellings
from airflow_provider_analytics.api.listing import requests_of_a_list
from airflow_provider_analytics.exceptions import NotFoundError
from airflow_provider_analytics.reconcile.plan import website_name, website_of
from airflow_provider_analytics.reconcile.workers import NOT_TRIED, Progress, each, reason

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Read:
    """Websites that were read one by one, or with the list.

    :param found: website id to current record, without websites that no longer exist.
    :param failures: website id to why it cannot be read.
    :param listed: the complete list, if it was read.
    """

    found: Mapping[str, Mapping[str, Any]]
    failures: Mapping[str, str] = field(default_factory=dict)
    listed: Sequence[Mapping[str, Any]] | None = None


class Websites:
    """The listed websites of the service; reads some of them again with the fewest requests.

    :param records: the complete list, or the requested part.
    :param complete: whether this is the list of all websites.
    """

    def __init__(self, client: AnalyticsClient, records: Sequence[Mapping[str, Any]], *, complete: bool) -> None:
        self.client = client
        self.records = records
        self.complete = complete

    @property
    def newest(self) -> str | None:
        """Id of the newest listed website; None if the list is empty."""
        numbers = [website_id for record in self.records if (website_id := str(record["id"])).isdecimal()]
        return max(numbers, key=int, default=None)

    def with_fields(
        self,
        records: Sequence[Mapping[str, Any]],
        fields: Collection[str],
        doubts: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
        """Return these records with all of ``fields``, and failures by website; see :func:`complete_records`."""
        return complete_records(self.client, records, fields, doubts)

    def read_again(self, ids: Sequence[str], fields: Collection[str], *, one_by_one: bool = False) -> Read:
        """Return current records of these websites.

        The list is read if its rows contain the fields and it takes fewer requests than reading one by one.

        :param fields: fields that the records must contain.
        :param one_by_one: do not read the list.
        """
        rows_show = all(name in record for record in self.records for name in fields)
        if not one_by_one and self.complete and rows_show and len(ids) > requests_of_a_list(len(self.records)):
            wanted = set(ids)
            listed = self.client.list_websites()
            return Read({str(one["id"]): one for one in listed if str(one["id"]) in wanted}, listed=listed)
        read = show_each(self.client, ids, "Checking")
        if len(read.found) + len(read.failures) < len(ids):
            self.client.get_account()  # with a wrong base URL, everything is "not found"
        return read


def show_each(client: AnalyticsClient, ids: Sequence[str], verb: str) -> Read:
    """Read websites one by one, and return their records."""

    def work(website_id: str) -> Mapping[str, Any] | None:
        try:
            return client.get_website(website_id)
        except NotFoundError:
            return None

    done = list(each(client, ids, work, progress=Progress(len(ids), verb)))
    failures = {one.item: reason(one.error) for one in done if one.error}
    failures |= dict.fromkeys(set(ids) - {one.item for one in done}, NOT_TRIED)
    return Read({one.item: one.result for one in done if one.result is not None}, failures)


def read_websites(client: AnalyticsClient, selectors: Sequence[str] | None) -> Websites:
    """Return all websites of the service, or at least the selected ones, with the fewest requests.

    Selected websites are read one by one or with the complete list, whichever takes fewer requests. The first page of
    the list contains its length. Domains are looked up by search; if that is not conclusive, the list is read.

    :param selectors: ids and domains, no globs; None for all websites.
    :raises IncompleteListError: if the list cannot be proven complete.
    """
    listed: Sequence[Mapping[str, Any]] | None = None
    if selectors is not None:
        selectors = list(dict.fromkeys(selectors))
        requests = sum(1 if _is_an_id(one) else len(spellings(one)) + 1 for one in selectors)
        if len(selectors) > 1:
            listed = client.list_websites_within(requests)
        if listed is None:
            found = _look_up(client, selectors)
            if found is not None:
                return Websites(client, found, complete=False)
    if listed is None:
        listed = client.list_websites()
    return Websites(client, listed, complete=True)


def _look_up(client: AnalyticsClient, selectors: Sequence[str]) -> list[Mapping[str, Any]] | None:
    """Return the websites of ids and domains; None if the complete list is needed to find them."""
    unknown: list[str] = []

    def work(selector: str) -> list[Mapping[str, Any]]:
        if not _is_an_id(selector):
            found = client.search_website(selector)
            if found is None:
                unknown.append(selector)
            return [found] if found else []
        found = client.website_or_none(selector)
        return [found] if found else []

    looked_up = list(each(client, selectors, work, progress=Progress(len(selectors), "Looking up")))
    if unknown or len(looked_up) < len(selectors) or any(one.error for one in looked_up):
        return None
    found = [record for one in looked_up for record in one.result or ()]
    if not all(one.result for one in looked_up):
        client.get_account()  # with a wrong base URL, everything is "not found"
    return list({str(record["id"]): record for record in found}.values())


def _is_an_id(selector: str) -> bool:
    return selector.isascii() and selector.isdigit()


def complete_records(
    client: AnalyticsClient,
    records: Sequence[Mapping[str, Any]],
    fields: Collection[str],
    doubts: Callable[[Mapping[str, Any]], bool] | None = None,
) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Return the records with all of ``fields``, and failures by website.

    Each website whose record has a missing field is fetched. Websites that were deleted since the list was read, and
    websites that failed, are left out.

    :param doubts: returns whether a record may be stale; then the website is fetched, too.
    """
    incomplete = [
        record for record in records if any(name not in record for name in fields) or (doubts and doubts(record))
    ]
    if not incomplete:
        return list(records), {}
    log.info(
        "Fetching %s of %s websites one by one: their list rows are missing fields, or may be stale.",
        f"{len(incomplete):,}",
        f"{len(records):,}",
    )

    def work(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        fetched = client.website_or_none(str(record["id"]))
        if fetched is None:
            return None
        listed, current = website_of(record)[0], website_of(fetched)[0]
        if listed and current and domain_key(listed) != domain_key(current):
            raise ValueError(f"its domain is {listed!r} in the list, but {current!r} in its record")
        return {**record, **fetched}

    progress = Progress(len(incomplete), "Fetching")
    done = list(each(client, incomplete, work, progress=progress))
    progress.log()
    names = {str(record["id"]): website_name(*website_of(record)) for record in incomplete}
    fetched = {str(one.item["id"]): one for one in done}
    failures = {names[key]: reason(one.error) for key, one in fetched.items() if one.error}
    failures |= {name: NOT_TRIED for key, name in names.items() if key not in fetched}
    completed = [
        (fetched[str(record["id"])].result if str(record["id"]) in fetched else None)
        if str(record["id"]) in names
        else record
        for record in records
    ]
    return [record for record in completed if record is not None], failures
