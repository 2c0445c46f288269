# SPDX-License-Identifier: Apache-2.0
"""One list for many websites, as the source of their desired state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.checks import id_of, invalid, nearest, short_repr, text_list
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.domains import (
    MAX_PATTERNS,
    domain_key,
    is_pattern,
    matches,
    spellings,
)
from airflow_provider_analytics.api.entries import without_comment
from airflow_provider_analytics.api.fields import by_id, website_of
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import first_of, readable
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, merge_lists
from airflow_provider_analytics.reconcile.desired.tables import EVERYWHERE, Rows, scope_of
from airflow_provider_analytics.reconcile.service_websites import Websites, read_websites

_MAX_NAMED = 20
#: Domains, patterns such as ``*.example.com``, or ids.
Selectors = tuple[str, ...]


def is_record(value: object) -> bool:
    """Return whether a value is the record of a website, or the result of an operator, not a filter of the list."""
    return id_of(value) is not value


def parse_selectors(field: str, value: Any) -> Selectors:
    """Parse selectors: domains, patterns such as ``*.example.com``, or ids.

    A record of a website, such as those that :class:`ListWebsitesOperator` returns, selects its id, and so does the
    result of an operator such as :class:`CreateWebsiteOperator`.

    :param field: name of the argument, for messages.
    :param value: a list, text with one selector per line, or a single id or record.
    :raises ValueError: if the value is none of these, or a selector is blank or neither text nor a number.
    """
    if isinstance(value, str):
        listed = text_list(field, value)
        value = list(filter(None, map(without_comment, value.splitlines()))) if listed is None else listed
    elif isinstance(value, int) or is_record(value):
        value = [value]
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise invalid(field, value, "a list of domains, patterns, and ids")
    selectors = []
    for given in value:
        selector = id_of(given)
        if isinstance(selector, bool) or not isinstance(selector, (str, int)) or not str(selector).strip():
            raise invalid(field, selector, "a domain, a pattern such as *.example.com, an id")
        selectors.append(str(selector).strip())
    number = sum(map(is_pattern, selectors))
    if number > MAX_PATTERNS:
        raise ValueError(f"{field} has {number:,} patterns. Allowed: at most {MAX_PATTERNS:,}")
    return tuple(selectors)


def select(records: Iterable[Record], selectors: Iterable[str]) -> tuple[set[str], list[str]]:
    """Return the ids of the websites that match any selector, and the selectors that match no website.

    For example, ``select([{"id": 7, "domain": "www.example.com"}], ["*.example.com", "9"])`` returns
    ``({"7"}, ["9"])``.

    :raises ValueError: if a record without a domain can match a selector.
    """
    ids: set[str] = set()
    by_domain: dict[str, set[str]] = {}
    nameless = ""
    for record in records:
        domain, website_id = website_of(record)
        ids.add(website_id)
        if domain:
            by_domain.setdefault(domain_key(domain), set()).add(website_id)
        else:
            nameless = nameless or website_id
    chosen: set[str] = set()
    unmatched = []
    for selector in selectors:
        found = set(by_domain.get(domain_key(selector), ()))
        if selector in ids:
            found.add(selector)
        if is_pattern(selector):
            for domain, same_domain in by_domain.items():
                if matches(selector, domain):
                    found |= same_domain
        if nameless and not selector.isdigit() and (not found or is_pattern(selector)):
            raise ValueError(
                f"website {nameless} has no domain, so it is unknown whether {selector!r} means it. Allowed: ids"
            )
        chosen |= found
        if not found:
            unmatched.append(selector)
    return chosen, unmatched


def raise_unless_found(records: Sequence[Record], text: str) -> None:
    """Raise :class:`ValueError` if a search found a website whose domain does not contain the text.

    It is not documented how the search matches, and a service can ignore it. Then all websites would be changed.
    """
    for record in records:
        domain, website_id = website_of(record)
        if not any(text.casefold() in spelling.casefold() for spelling in spellings(domain)):
            raise ValueError(
                f"search={text!r} found {short_repr(domain)} (id {website_id}), whose domain does not contain it: "
                f"the service might ignore the search. Use a pattern instead: websites=['*{text}*']"
            )


def similar_domain(selector: str, records: Sequence[Record]) -> str:
    """Return the website whose domain is most similar to a selector, as the end of a text; empty if none is similar."""
    near = nearest(selector, [website_of(record)[0] for record in records], cutoff=0.8)
    if near is None:
        return ""
    return f" (similar: {readable(near)})"


def raise_unmatched(unmatched: Sequence[str], guard: str = "") -> None:
    """Raise :class:`GuardError` with the selectors that match no website, if there are any.

    Otherwise a typing error in ``except_websites`` would change the website that it should exclude.

    :param guard: the guard to override; empty if there is none.
    """
    if unmatched:
        named = first_of(unmatched, _MAX_NAMED, "; ", show=readable)
        remedy = "Correct the domain, pattern, or id."
        if any("://" in name for name in unmatched):
            remedy = "Write the domain without https:// and path."
        raise GuardError(f"No website matches {named}.", f"{remedy} No changes were sent.", guard)


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
        return {self.name: {scope: entry_list.recorded for scope, entry_list in lists.items()}}

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
            raise_unmatched(unmatched, "no_match")
        websites = dict.fromkeys(managed, self._website([self.entries]))
        for website_id, lists in additional.items():
            websites[website_id] = self._website([self.entries, *lists])
        websites |= dict.fromkeys(released, self._website([]))
        return DesiredState(by_id=websites, modes={self.name: self.mode})

    def _website(self, lists: Sequence[EntryList]) -> DesiredWebsite:
        return DesiredWebsite(lists={self.name: merge_lists(lists)})
