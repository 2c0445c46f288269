"""One list that is kept on many websites: the source of what is wanted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.reconcile.desired import Desired, Problem, Wanted
from airflow_provider_analytics.reconcile.ledger import Owned
from airflow_provider_analytics.reconcile.maintained import Listed
from airflow_provider_analytics.reconcile.selection import (
    Selectors,
    choose,
    exact_selectors,
    extra_entries,
    raise_unless_found,
    raise_unmatched,
)
from airflow_provider_analytics.reconcile.websites import Websites, read_websites

_SHOWN_WEBSITES = 20


@dataclass(frozen=True)
class ExclusionList:
    """A list of entries, and the websites that get it.

    :param name: field of the website that holds the list.
    :param mode: see :func:`desired.reconcile`.
    :param entries: entries for all websites.
    :param websites: selectors of the websites; None for all.
    :param except_websites: selectors of websites that are left as they are.
    :param per_website: selector to further entries of the websites that it matches.
    :param release: selectors of websites that get their own list back: what earlier runs added is removed.
    :param filters: filters of the list request, in place of ``websites``.
    :param allow_no_match: allow selectors that match no website.
    :param listed: the field to all of these entries, with where they come from.
    """

    name: str
    mode: str
    entries: Entries
    websites: Selectors | None = None
    except_websites: Selectors = ()
    per_website: Mapping[str, Entries] = field(default_factory=dict)
    release: Selectors = ()
    filters: Mapping[str, Any] = field(default_factory=dict)
    allow_no_match: bool = False
    listed: Mapping[str, Listed] = field(default_factory=dict)

    @property
    def managed(self) -> Sequence[str]:
        """List fields that need a ledger."""
        return [self.name] if self.mode == "managed" else []

    @property
    def lists(self) -> Owned:
        """List field to the list of this run."""
        return {self.name: self.entries}

    @property
    def fields(self) -> Sequence[str]:
        """Fields that a record has to show."""
        return [self.name]

    def read(self, client: AnalyticsClient, workers: int) -> Websites:
        """Read the websites, with the fewest requests."""
        if self.filters:
            records = client.list_websites(**self.filters)
            if self.filters.get("search"):
                raise_unless_found(records, str(self.filters["search"]))
            raise_unmatched(
                [] if records else [f"websites: {dict(self.filters)!r}"], allow_no_match=self.allow_no_match
            )
            return Websites(client, records, complete=False, workers=workers)
        part = None if self.websites is None else exact_selectors(self.websites, self.except_websites, self.release)
        return read_websites(client, part, workers=workers)

    def resolve(self, records: Sequence[Mapping[str, Any]], *, again: bool = False) -> Desired:
        """Return what is wanted of each website.

        :param again: the selectors were checked before: websites may be gone since.
        :raises ValueError: if a selector matches no website, unless ``allow_no_match``.
        """
        allow_no_match = self.allow_no_match or again
        chosen = choose(records, self.websites, self.except_websites, allow_no_match=allow_no_match)
        released: set[str] = set()
        if self.release:
            given_back = choose(records, self.release, (), allow_no_match=allow_no_match, argument="release")
            released = {str(record["id"]) for record in given_back}
        chosen = [record for record in chosen if str(record["id"]) not in released]
        extra = extra_entries(chosen, self.per_website, allow_no_match=allow_no_match)
        common = Wanted({self.name: self.entries})
        wanted = {
            website_id: Wanted({self.name: tuple(dict.fromkeys((*self.entries, *extra[website_id])))})
            if website_id in extra
            else common
            for website_id in (str(record["id"]) for record in chosen)
        }
        nothing = Wanted({self.name: ()})
        return Desired(
            self._refusal,
            by_id={**wanted, **dict.fromkeys(released, nothing)},
            modes={self.name: self.mode},
        )

    def _refusal(self, problems: Sequence[Problem]) -> GuardError:
        by_reason: dict[str, list[str]] = {}
        for place, problem in problems:
            by_reason.setdefault(problem, []).append(place.text)
        lines = []
        for reason, names in by_reason.items():
            more = ", ..." if len(names) > _SHOWN_WEBSITES else ""
            lines.append(f"{len(names):,} websites: {reason}: {', '.join(names[:_SHOWN_WEBSITES])}{more}.")
        remedy = "Nothing was sent. Exclude these websites with except_websites, or use mode='replace'."
        return GuardError("\n".join(lines), remedy)
