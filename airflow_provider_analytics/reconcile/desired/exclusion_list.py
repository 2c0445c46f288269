# SPDX-License-Identifier: Apache-2.0
"""One list for many websites, as the source of their desired state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.domains import is_pattern
from airflow_provider_analytics.api.fields import by_id
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, merge_lists
from airflow_provider_analytics.reconcile.desired.selection import (
    Selectors,
    raise_unless_found,
    raise_unmatched,
    select,
    similar_domain,
)
from airflow_provider_analytics.reconcile.desired.tables import EVERYWHERE, Rows, scope_of
from airflow_provider_analytics.reconcile.service_websites import Websites, read_websites


@dataclass(frozen=True)
class ExclusionList:
    """A list of entries, and the websites that get it.

    For example, the arguments ``exclude_ips=["192.0.2.1"]`` and ``except_websites=["*.example.org"]`` become
    ``ExclusionList("exclude_ips", "merge", EntryList.of(("192.0.2.1",)), except_websites=("*.example.org",))``.

    :param name: field of the website that contains the list.
    :param mode: ``merge``, ``replace``, or ``managed``, see :func:`changes.reconcile`.
    :param entries: the list for all websites.
    :param websites: selectors of the websites; None for all.
    :param except_websites: selectors of websites that are left as they are.
    :param per_website: selector to an additional list for the websites that it matches.
    :param unmanage_websites: selectors of websites to stop managing: the entries of the list are removed.
    :param filters: filters of the list request, instead of ``websites``.
    :param allow_no_match: allow selectors that match no website.
    :param is_part: whether mapped tasks of the same run use the list for other websites.
    """

    name: str
    mode: str
    entries: EntryList
    websites: Selectors | None = None
    except_websites: Selectors = ()
    per_website: Mapping[str, EntryList] = field(default_factory=dict)
    unmanage_websites: Selectors = ()
    filters: Mapping[str, Any] = field(default_factory=dict)
    allow_no_match: bool = False
    is_part: bool = False

    @property
    def managed(self) -> Sequence[str]:
        """List fields that need a table."""
        return [self.name] if self.mode == "managed" else []

    @property
    def scopes(self) -> Rows:
        """List field to scope to the entries of this run, such as ``{"exclude_ips": {"*": {"192.0.2.1": source}}}``.

        Mapped tasks share a scope, and so do websites that are selected by id: all websites.
        """
        selectors: Selectors = (EVERYWHERE,)
        if self.websites and not self.is_part and not any(map(str.isdigit, self.websites)):
            selectors = self.websites
        exceptions = (*self.except_websites, *self.unmanage_websites)
        lists: dict[str, EntryList] = {}
        for selector in selectors:
            lists[scope_of(selector, exceptions)] = self.entries
        for selector, additional in self.per_website.items():
            scope = scope_of(selector, exceptions)
            lists[scope] = merge_lists([lists[scope], additional]) if scope in lists else additional
        return {self.name: {scope: entry_list.sources for scope, entry_list in lists.items()}}

    @property
    def parts(self) -> Mapping[str, Sequence[EntryList]]:
        """The list for all websites, and the lists for some of them."""
        return {self.name: [self.entries, *self.per_website.values()]}

    def read(self, client: AnalyticsClient) -> Websites:
        """Read the websites, with the fewest requests."""
        if not self.filters:
            selectors = (*(self.websites or ()), *self.except_websites, *self.unmanage_websites)
            needs_all = self.websites is None or any(map(is_pattern, selectors))
            return read_websites(client, None if needs_all else selectors)
        records = client.list_websites(**self.filters)
        if self.filters.get("search"):
            raise_unless_found(records, str(self.filters["search"]))
        if not records and not self.allow_no_match:
            raise_unmatched([f"websites: {dict(self.filters)!r}"])
        return Websites(client, records, complete=False)

    def resolve(self, records: Sequence[Record]) -> DesiredState:
        """Return the desired state of each website.

        :raises GuardError: if a selector matches no website, or ``websites`` is empty, unless ``allow_no_match``.
        """
        arguments: dict[str, Selectors] = {
            "websites": self.websites or (),
            "unmanage_websites": self.unmanage_websites,
            "except_websites": self.except_websites,
        }
        unmatched: list[str] = []
        if self.websites == ():
            unmatched.append("websites: an empty list")
        selected: dict[str, set[str]] = {}
        for argument, selectors in arguments.items():
            selected[argument], without_website = select(records, selectors)
            unmatched += [
                f"{argument}: {selector!r}{similar_domain(selector, records)}" for selector in without_website
            ]
        managed = selected["websites"]
        if self.websites is None:
            managed = set(by_id(records))
        released = selected["unmanage_websites"]
        managed -= released | selected["except_websites"]
        # Website id to the lists of `per_website` that it gets.
        additional: dict[str, list[EntryList]] = {}
        candidates = [record for record in records if str(record["id"]) in managed]
        for selector, entry_list in self.per_website.items():
            ids, without_website = select(candidates, (selector.strip(),))
            if without_website:
                unmatched.append(f"per_website: {selector.strip()!r}{similar_domain(selector.strip(), records)}")
            for website_id in ids:
                additional.setdefault(website_id, []).append(entry_list)
        if not self.allow_no_match:
            raise_unmatched(unmatched)
        websites = dict.fromkeys(managed, self._website([self.entries]))
        for website_id, lists in additional.items():
            websites[website_id] = self._website([self.entries, *lists])
        websites |= dict.fromkeys(released, self._website([]))
        return DesiredState(by_id=websites, modes={self.name: self.mode})

    def _website(self, lists: Sequence[EntryList]) -> DesiredWebsite:
        return DesiredWebsite(lists={self.name: merge_lists(lists)})
