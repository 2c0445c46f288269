"""Read websites after their changes, and compare them with the expected records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.verification import COMPARED, Comparison, Expected, shows
from airflow_provider_analytics.exceptions import (
    AnalyticsError,
    AuthenticationError,
    DuplicateWebsiteError,
    StoppedError,
)
from airflow_provider_analytics.reconcile.plan import website_of
from airflow_provider_analytics.reconcile.sending import Site
from airflow_provider_analytics.reconcile.websites import Read, Websites


@dataclass(frozen=True)
class Shown:
    """The state of a website after its change.

    :param comparison: its record compared with the expected record; None if there is nothing to compare.
    :param record: its record.
    :param why: the problem, if it is not in the comparison.
    :param is_stale: whether the record is the same as before, as if nothing had been sent.
    :param is_unread: whether the website could not be read.
    :param is_row: whether the record is a row of the list.
    """

    comparison: Comparison | None = None
    record: Mapping[str, Any] | None = None
    why: str = ""
    is_stale: bool = False
    is_unread: bool = False
    is_row: bool = False

    @property
    def holds(self) -> bool:
        """Whether the website is as expected."""
        return not self.why and (self.comparison is None or self.comparison.holds)

    @property
    def by_others(self) -> bool:
        """Whether another process changed it, too."""
        return self.comparison is not None and self.comparison.by_others

    @property
    def may_become_right(self) -> bool:
        """Whether a later read may return the expected record without another change."""
        return not self.holds and (self.is_stale or self.is_unread or bool(self.comparison and self.comparison.besides))

    @property
    def differences(self) -> dict[str, str]:
        """Field to a phrase, for fields that are not as expected."""
        if self.comparison is None:
            return {"website": self.why} if self.why else {}
        return {**self.comparison.lacking, **self.comparison.besides}


class Looking:
    """Reads websites after their changes.

    :param websites: the websites as they were listed.
    :param ignore_gone: do not count a website that no longer exists as a failure.
    """

    def __init__(self, websites: Websites, *, ignore_gone: bool) -> None:
        self._websites = websites
        self._client = websites.client
        self._ignore_gone = ignore_gone

    def at(self, sites: Sequence[Site], *, first: float = 0.0) -> dict[str, Shown]:
        """Return the states of websites after their changes; wait while the service may not return them yet.

        :param first: seconds to wait before the first read.
        """
        self._client.wait(first)
        looks = self._read(sites)
        # Rows of the list may have fewer fields or be stale. Then the record of the single website decides.
        left = [site for site in sites if not looks[site.name].holds and looks[site.name].is_row]
        if left:
            looks |= self._read(left, one_by_one=True)
        for seconds in api_client.CONFIRM_WAITS:
            left = [site for site in sites if looks[site.name].may_become_right]
            if not left:
                break
            self._client.wait(seconds)
            looks |= self._read(left, one_by_one=True)
        return looks

    def _read(self, sites: Sequence[Site], *, one_by_one: bool = False) -> dict[str, Shown]:
        """Read websites, and return their states.

        :param one_by_one: read each website, never the list.
        """
        known = {site.name: str(site.sent.website_id) for site in sites if site.sent and site.sent.website_id}
        # All fields that the previous record contained are compared again.
        fields = {
            name
            for site in sites
            if site.expected
            for name in COMPARED
            if name in site.expected.sent or shows(name, site.expected.before)
        }
        try:
            read = self._websites.read_again(list(known.values()), fields, one_by_one=one_by_one)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:  # the sent changes must still be reported
            read = Read({}, dict.fromkeys(known.values(), error.text))
        created = [site for site in sites if site.todo.action == "create" and site.name in known]
        duplicates = self._duplicates(created, read)
        read = self._with_deleted(sites, known, read)
        looks = {}
        for site in sites:
            if site.name not in known:
                looks[site.name] = Shown(why="its id is not known", is_unread=True)
            elif site.name in duplicates:
                looks[site.name] = duplicates[site.name]
            else:
                look = self._compare(site, known[site.name], read)
                looks[site.name] = replace(look, is_row=read.listed is not None)
        return looks

    def _with_deleted(self, sites: Sequence[Site], known: Mapping[str, str], read: Read) -> Read:
        """Return the records, completed from the list for deleted websites that could not be read one by one."""
        deleted = [known[site.name] for site in sites if site.todo.action == "delete" and site.name in known]
        unclear = [website_id for website_id in deleted if website_id in read.failures]
        if not unclear:
            return read
        try:
            listed = {str(record["id"]): record for record in self._client.list_websites()}
        except AnalyticsError:
            return read
        failures = {website_id: why for website_id, why in read.failures.items() if website_id not in unclear}
        return Read({**read.found, **{one: listed[one] for one in unclear if one in listed}}, failures, read.listed)

    def _compare(self, site: Site, website_id: str, read: Read) -> Shown:
        if website_id in read.failures:
            return Shown(why=f"Changed, but not verified: {read.failures[website_id]}", is_unread=True)
        record = read.found.get(website_id)
        domain = website_of(record)[0] if record else ""
        is_other = bool(domain and site.todo.domain and not same_domain(domain, site.todo.domain))
        if site.todo.action == "delete":
            stays = record is not None and not is_other
            return Shown(record=record, why="still exists after it was deleted" if stays else "", is_stale=stays)
        if record is None:
            if site.todo.action == "update" and not self._client.is_gone(website_id):
                return Shown(why="Changed, but not verified: it was not found once.", is_unread=True)
            if self._ignore_gone and site.todo.action == "update":
                return Shown()
            return Shown(why="It does not exist: another process deleted it.", is_stale=site.todo.action == "create")
        if is_other:
            return Shown(
                why=f"The id {website_id} belongs to {domain!r} now, which may have got its change.", record=record
            )
        if site.expected is None:
            return Shown(record=record)
        comparison = site.expected.compare(record)
        is_stale = Expected(site.expected.before, {}).compare(record).holds
        return Shown(comparison, record, is_stale=is_stale and not comparison.holds)

    def _duplicates(self, created: Sequence[Site], read: Read) -> dict[str, Shown]:
        """Return the created websites whose domain is not unique, or which are missing in the list."""
        if not created:
            return {}
        try:
            rows = read.listed if read.listed is not None else self._client.newest_websites(self._websites.newest)
        except AnalyticsError as error:
            why = f"Created, but not verified that it is the only one: {error.text}"
            return {site.name: Shown(why=why, is_unread=True) for site in created}
        ids: dict[str, list[str]] = {}
        for record in rows:
            domain, website_id = website_of(record)
            ids.setdefault(domain_key(domain), []).append(website_id)
        wrong = {}
        for site in created:
            own = str(site.sent.website_id) if site.sent else ""
            ids_of_domain = ids.get(domain_key(site.todo.domain), [])
            if len({*ids_of_domain, own}) > 1:
                duplicates = DuplicateWebsiteError(
                    site.todo.domain, sorted({*ids_of_domain, own}, key=lambda one: (len(one), one))
                )
                wrong[site.name] = Shown(why=f"Created, but: {duplicates.text}")
            elif own not in ids_of_domain:
                wrong[site.name] = Shown(why=f"Created with the id {own}, but it is missing in the list", is_stale=True)
        return wrong
