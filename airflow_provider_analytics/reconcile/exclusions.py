"""One list for many websites, as the source of their desired state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.reconcile.desired import Desired, Wanted
from airflow_provider_analytics.reconcile.lists import EVERYWHERE, Rows, scope_of
from airflow_provider_analytics.reconcile.maintained import Listed, together
from airflow_provider_analytics.reconcile.selection import (
    Selectors,
    choose,
    exact_selectors,
    further_lists,
    raise_unless_found,
    raise_unmatched,
)
from airflow_provider_analytics.reconcile.websites import Websites, read_websites
from airflow_provider_analytics.reconcile.yaml_values import Problem

_MAX_NAMED = 20


@dataclass(frozen=True)
class ExclusionList:
    """A list of entries, and the websites that get it.

    :param name: field of the website that contains the list.
    :param mode: see :func:`desired.reconcile`.
    :param entries: the list for all websites.
    :param websites: selectors of the websites; None for all.
    :param except_websites: selectors of websites that are left as they are.
    :param per_website: selector to an additional list for the websites that it matches.
    :param release: selectors of websites to stop managing: the entries of the list are removed.
    :param filters: filters of the list request, instead of ``websites``.
    :param allow_no_match: allow selectors that match no website.
    :param is_part: whether mapped tasks of the same run have the list for other websites.
    """

    name: str
    mode: str
    entries: Listed
    websites: Selectors | None = None
    except_websites: Selectors = ()
    per_website: Mapping[str, Listed] = field(default_factory=dict)
    release: Selectors = ()
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
        if self.is_part or any(one.isdigit() for one in selected):
            selected = (EVERYWHERE,)
        exceptions = (*self.except_websites, *self.release)
        scopes: dict[str, Listed] = {scope_of(one, exceptions): self.entries for one in selected}
        for selector, listed in self.per_website.items():
            scope = scope_of(selector, exceptions)
            scopes[scope] = together([scopes[scope], listed]) if scope in scopes else listed
        return {self.name: {scope: listed.sources for scope, listed in scopes.items()}}

    @property
    def parts(self) -> Mapping[str, Sequence[Listed]]:
        """The list for all websites, and those for some of them."""
        return {self.name: [self.entries, *self.per_website.values()]}

    @property
    def fields(self) -> Sequence[str]:
        """Fields that a record must contain."""
        return [self.name]

    def read(self, client: AnalyticsClient) -> Websites:
        """Read the websites, with the fewest requests."""
        if self.filters:
            records = client.list_websites(**self.filters)
            if self.filters.get("search"):
                raise_unless_found(records, str(self.filters["search"]))
            raise_unmatched(
                [] if records else [f"websites: {dict(self.filters)!r}"], allow_no_match=self.allow_no_match
            )
            return Websites(client, records, complete=False)
        part = None if self.websites is None else exact_selectors(self.websites, self.except_websites, self.release)
        return read_websites(client, part)

    def resolve(self, records: Sequence[Mapping[str, Any]], *, again: bool = False) -> Desired:
        """Return the desired state of each website.

        :param again: whether the selectors were checked before; websites may have been deleted since.
        :raises ValueError: if a selector matches no website, unless ``allow_no_match``.
        """
        allow_no_match = self.allow_no_match or again
        chosen = choose(records, self.websites, self.except_websites, allow_no_match=allow_no_match)
        released: set[str] = set()
        if self.release:
            given_back = choose(records, self.release, (), allow_no_match=allow_no_match, argument="release")
            released = {str(record["id"]) for record in given_back}
        chosen = [record for record in chosen if str(record["id"]) not in released]
        extra = further_lists(chosen, self.per_website, allow_no_match=allow_no_match)
        common = self._wanted([self.entries])
        wanted = {
            website_id: self._wanted([self.entries, *extra[website_id]]) if website_id in extra else common
            for website_id in (str(record["id"]) for record in chosen)
        }
        nothing = Wanted({self.name: ()})
        return Desired(
            self._refusal,
            by_id={**wanted, **dict.fromkeys(released, nothing)},
            modes={self.name: self.mode},
        )

    def _wanted(self, lists: Sequence[Listed]) -> Wanted:
        listed = together(lists)
        return Wanted({self.name: listed.entries}, listed={self.name: listed})

    def _refusal(self, problems: Sequence[Problem]) -> GuardError:
        by_reason: dict[str, list[str]] = {}
        for place, problem in problems:
            by_reason.setdefault(problem, []).append(place.text)
        lines = []
        for reason, names in by_reason.items():
            more = ", ..." if len(names) > _MAX_NAMED else ""
            lines.append(f"{len(names):,} websites: {reason}: {', '.join(names[:_MAX_NAMED])}{more}.")
        remedy = "Nothing was sent. Exclude these websites with except_websites, or use mode='replace'."
        return GuardError("\n".join(lines), remedy)
