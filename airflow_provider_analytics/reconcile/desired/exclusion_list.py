# SPDX-License-Identifier: Apache-2.0
"""One list for many websites, as the source of their desired state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.domains import is_pattern
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.reconcile.desired.desired_state import Desired, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, together
from airflow_provider_analytics.reconcile.desired.selection import (
    Selectors,
    near_equals,
    raise_unless_found,
    raise_unmatched,
    select,
)
from airflow_provider_analytics.reconcile.desired.tables import EVERYWHERE, Rows, scope_of
from airflow_provider_analytics.reconcile.service_websites import Websites, read_websites


@dataclass(frozen=True)
class ExclusionList:
    """A list of entries, and the websites that get it.

    :param name: field of the website that contains the list.
    :param mode: see :func:`desired.reconcile`.
    :param entries: the list for all websites.
    :param websites: selectors of the websites; None for all.
    :param except_websites: selectors of websites that are left as they are.
    :param per_website: selector to an additional list for the websites that it matches.
    :param unmanage_websites: selectors of websites to stop managing: the entries of the list are removed.
    :param filters: filters of the list request, instead of ``websites``.
    :param allow_no_match: allow selectors that match no website.
    :param is_part: whether mapped tasks of the same run have the list for other websites.
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
        """List field to scope to the entries of this run.

        Mapped tasks share a scope, and so do websites that are selected by id: all websites.
        """
        selected = self.websites or (EVERYWHERE,)
        if self.is_part or any(item.isdigit() for item in selected):
            selected = (EVERYWHERE,)
        exceptions = (*self.except_websites, *self.unmanage_websites)
        scopes: dict[str, EntryList] = {scope_of(item, exceptions): self.entries for item in selected}
        for selector, listed in self.per_website.items():
            scope = scope_of(selector, exceptions)
            scopes[scope] = together([scopes[scope], listed]) if scope in scopes else listed
        return {self.name: {scope: listed.sources for scope, listed in scopes.items()}}

    @property
    def parts(self) -> Mapping[str, Sequence[EntryList]]:
        """The list for all websites, and those for some of them."""
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
        if not self.allow_no_match:
            raise_unmatched([] if records else [f"websites: {dict(self.filters)!r}"])
        return Websites(client, records, complete=False)

    def resolve(self, records: Sequence[Record]) -> Desired:
        """Return the desired state of each website.

        :raises GuardError: if a selector matches no website, or ``websites`` is empty, unless ``allow_no_match``.
        """
        unmatched = [] if self.websites is None or self.websites else ["websites: an empty list"]
        selected: dict[str, set[str]] = {}

        def find(argument: str, selectors: Selectors, among: Sequence[Record]) -> set[str]:
            found, missing = select(among, selectors)
            unmatched.extend(f"{argument}: {item!r}" for item in missing)
            selected.setdefault(argument, set()).update(found)
            return found

        chosen = {str(record["id"]) for record in records}
        if self.websites is not None:
            chosen = find("websites", self.websites, records)
        released = find("unmanage_websites", self.unmanage_websites, records)
        chosen -= find("except_websites", self.except_websites, records) | released
        remaining = [record for record in records if str(record["id"]) in chosen]
        extra: dict[str, list[EntryList]] = {}
        for selector, listed in self.per_website.items():
            for website_id in find("per_website", (selector.strip(),), remaining):
                extra.setdefault(website_id, []).append(listed)
        if not self.allow_no_match:
            raise_unmatched(unmatched)
        warnings: list[str] = []
        for argument, ids in selected.items():
            selectors = getattr(self, argument)
            near = near_equals(records, selectors, ids)
            warnings.extend(f"{argument}: {warning}. To select one of them, list its id" for warning in near)
        wanted = dict.fromkeys(chosen, self._wanted([self.entries]))
        wanted |= {website_id: self._wanted([self.entries, *lists]) for website_id, lists in extra.items()}
        wanted |= dict.fromkeys(released, self._wanted([]))
        return Desired(by_id=wanted, modes={self.name: self.mode}, warnings=warnings)

    def _wanted(self, lists: Sequence[EntryList]) -> DesiredWebsite:
        listed = together(lists)
        return DesiredWebsite({self.name: listed.entries}, listed={self.name: listed})
