"""The websites of the service: read them with the fewest requests, and read some of them again."""

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
from airflow_provider_analytics.reconcile.workers import Progress, Work, each

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Read:
    """Websites that were read one by one, or with the list.

    :param found: current records by id, without websites that no longer exist.
    :param failures: id to why a website cannot be read.
    :param listed: the complete list, if it was read.
    """

    found: Mapping[str, Mapping[str, Any]]
    failures: Mapping[str, str] = field(default_factory=dict)
    listed: Sequence[Mapping[str, Any]] | None = None


class Websites:
    """The websites of the service as they were listed, and how to read some of them again with the fewest requests.

    :param records: the complete list, or the part that was asked for.
    :param complete: whether this is the list of all websites.
    :param workers: maximum number of concurrent requests.
    """

    def __init__(
        self, client: AnalyticsClient, records: Sequence[Mapping[str, Any]], *, complete: bool, workers: int
    ) -> None:
        self.client = client
        self.records = records
        self.complete = complete
        self.workers = workers

    @property
    def newest(self) -> str | None:
        """Id of the newest website that was listed; None if none was."""
        numbers = [website_id for record in self.records if (website_id := str(record["id"])).isdecimal()]
        return max(numbers, key=int, default=None)

    def with_fields(
        self,
        records: Sequence[Mapping[str, Any]],
        fields: Collection[str],
        doubts: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
        """Return these records with all of ``fields``, and failures by website; see :func:`complete_records`."""
        return complete_records(self.client, records, fields, doubts, workers=self.workers)

    def read_again(self, ids: Sequence[str], fields: Collection[str], *, one_by_one: bool = False) -> Read:
        """Return current records of these websites.

        The list is read if its rows show the fields, and if it takes fewer requests than reading one by one.

        :param fields: fields that the records are needed for.
        :param one_by_one: do not read the list.
        """
        rows_show = all(name in record for record in self.records for name in fields)
        if not one_by_one and self.complete and rows_show and len(ids) > requests_of_a_list(len(self.records)):
            wanted = set(ids)
            listed = self.client.list_websites()
            return Read({str(one["id"]): one for one in listed if str(one["id"]) in wanted}, listed=listed)
        read = show_each(self.client, ids, self.workers, "Checking")
        if len(read.found) + len(read.failures) < len(ids):
            self.client.get_account()  # with a wrong base URL, everything is "not found"
        return read


def show_each(client: AnalyticsClient, ids: Sequence[str], workers: int, verb: str) -> Read:
    """Return the records of these websites, which are read one by one."""

    def work(website_id: str) -> Mapping[str, Any] | None:
        try:
            return client.get_website(website_id)
        except NotFoundError:
            return None

    failures: dict[str, str] = {}
    shown = each(client, Work(ids, work, str, failures), Progress(len(ids), verb), workers)
    return Read({website_id: record for website_id, record in shown if record is not None}, failures)


def read_websites(client: AnalyticsClient, selectors: Sequence[str] | None, *, workers: int) -> Websites:
    """Return the websites of the service, or at least those of a part, with the fewest requests.

    A part is read website by website, or the complete list, whichever takes fewer requests: the first page of the list
    tells how long it is. A domain is searched for; where only the list can tell, the list is read.

    :param selectors: ids and domains, no globs; None for all websites.
    :param workers: maximum number of concurrent requests.
    :raises IncompleteListError: if the list cannot be proven complete.
    """
    listed: Sequence[Mapping[str, Any]] | None = None
    if selectors is not None:
        selectors = list(dict.fromkeys(selectors))
        requests = sum(1 if _is_an_id(one) else len(spellings(one)) for one in selectors)
        if requests > 1:
            listed = client.list_websites_within(requests)
        if listed is None:
            found = _look_up(client, selectors, workers)
            if found is not None:
                return Websites(client, found, complete=False, workers=workers)
    if listed is None:
        listed = client.list_websites()
    return Websites(client, listed, complete=True, workers=workers)


def _look_up(client: AnalyticsClient, selectors: Sequence[str], workers: int) -> list[Mapping[str, Any]] | None:
    """Return the websites of ids and domains; None if only the complete list can tell which they are."""
    unknown: list[str] = []

    def work(selector: str) -> list[Mapping[str, Any]]:
        if not _is_an_id(selector):
            found = client.search_website(selector)
            if found is None:
                unknown.append(selector)
            return [found] if found else []
        found = client.website_or_none(selector)
        return [found] if found else []

    failures: dict[str, str] = {}
    work_items = Work(selectors, work, str, failures)
    looked_up = each(client, work_items, Progress(len(selectors), "Looking up"), workers)
    if failures or unknown:
        return None
    if not all(records for _, records in looked_up):
        client.get_account()  # with a wrong base URL, everything is "not found"
    return list({str(record["id"]): record for _, records in looked_up for record in records}.values())


def _is_an_id(selector: str) -> bool:
    return selector.isascii() and selector.isdigit()


def complete_records(
    client: AnalyticsClient,
    records: Sequence[Mapping[str, Any]],
    fields: Collection[str],
    doubts: Callable[[Mapping[str, Any]], bool] | None = None,
    *,
    workers: int,
) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Return the records with all of ``fields``, and failures by website; fetch each website whose record lacks one.

    Websites deleted since the list was read, and websites that failed, are left out.

    :param doubts: whether the record may be stale: then the website is fetched, too.
    :param workers: maximum number of concurrent requests.
    """
    lacking = [
        record for record in records if any(name not in record for name in fields) or (doubts and doubts(record))
    ]
    if not lacking:
        return list(records), {}
    log.info(
        "Fetching %s of %s websites one by one: their list rows are missing fields, or may be stale.",
        f"{len(lacking):,}",
        f"{len(records):,}",
    )

    def work(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        fetched = client.website_or_none(str(record["id"]))
        if fetched is None:
            return None
        row, shown = website_of(record)[0], website_of(fetched)[0]
        if row and shown and domain_key(row) != domain_key(shown):
            raise ValueError(f"the list says that its domain is {row!r}, its record says {shown!r}")
        return {**record, **fetched}

    failures: dict[str, str] = {}
    fetched = each(
        client,
        Work(lacking, work, lambda record: website_name(*website_of(record)), failures),
        Progress(len(lacking), "Fetching"),
        workers,
    )
    answers = {str(record["id"]): answer for record, answer in fetched}
    asked = {str(record["id"]) for record in lacking}
    whole = [answers.get(str(record["id"])) if str(record["id"]) in asked else record for record in records]
    return [record for record in whole if record is not None], failures
