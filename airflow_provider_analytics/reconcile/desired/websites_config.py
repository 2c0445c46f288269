# SPDX-License-Identifier: Apache-2.0
"""Websites as code: files as the source of the desired state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_analytics.api.checks import invalid_together
from airflow_provider_analytics.api.domains import check_domain, domain_key, is_near, matches, may_become
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, EntrySource
from airflow_provider_analytics.reconcile.desired.tables import Rows
from airflow_provider_analytics.reconcile.desired.yaml_values import Problem
from airflow_provider_analytics.reconcile.records import website_name, website_of

if TYPE_CHECKING:
    from airflow_provider_analytics.api.client import AnalyticsClient
    from airflow_provider_analytics.reconcile.service_websites import Websites


def check_key(domain: str) -> None:
    """Raise :class:`ValueError` if a website of this domain is not allowed in a file."""
    check_domain(domain)
    if is_pattern(domain):
        raise ValueError(f"domain={domain!r} is a pattern in a file. Allowed: a domain name without * and ?")


def is_pattern(domain: str) -> bool:
    """Return whether a key of a file is a pattern."""
    return "*" in domain or "?" in domain


@dataclass
class WebsitesAsCode:
    """The content of one or several files, and how to handle websites that are not in it.

    For example, the file ``websites: {www.example.com: {privacy: private}}`` has
    ``by_domain={"www.example.com": DesiredWebsite({"privacy": "private"}, domain="www.example.com")}``.

    :param by_domain: domain key (:func:`domains.domain_key`) to website, with defaults and groups applied.
    :param modes: list field to its mode: ``merge``, ``replace``, or ``managed``, see :func:`changes.reconcile`.
    :param protected: domains, or patterns, of websites that are never deleted.
    :param parts: list field to the lists of defaults, groups and websites.
    :param prune: also delete the websites that are not in the file, unless they are protected.
    :param create_only: only create websites, and leave existing ones unchanged.
    """

    by_domain: dict[str, DesiredWebsite] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    protected: list[str] = field(default_factory=list)
    parts: dict[str, list[EntryList]] = field(default_factory=dict)
    prune: bool = False
    create_only: bool = False

    def __post_init__(self) -> None:
        if self.prune and self.create_only:
            raise invalid_together("one of the two", prune=True, create_only=True)

    @property
    def protected_patterns(self) -> list[str]:
        """The protected patterns, without the protected websites of the file, which are not deleted anyway."""
        return list(filter(is_pattern, self.protected))

    @property
    def websites(self) -> list[DesiredWebsite]:
        """The websites, in the order of the files."""
        return list(self.by_domain.values())

    @property
    def managed(self) -> list[str]:
        """List fields that need a table: those that a website sets, in mode ``managed``."""
        return [name for name, mode in self.modes.items() if mode == "managed" and name in self.parts]

    @property
    def scopes(self) -> Rows:
        """List field to domain to the entries of this run; none for a field that is not managed, or not any more."""
        rows: dict[str, dict[str, Mapping[str, EntrySource]]] = {name: {} for name in LINE_FIELDS}
        for name in self.managed:
            for key, website in self.by_domain.items():
                if name in website.lists:
                    rows[name][key] = website.lists[name].sources
        return rows

    def read(self, client: AnalyticsClient) -> Websites:
        """Read the complete list."""
        from airflow_provider_analytics.reconcile.service_websites import (
            Websites,  # slow, and not needed to check files
        )

        return Websites(client, client.list_websites(), complete=True)

    def resolve(self, records: Sequence[Record]) -> DesiredState:
        """Return the desired state of each website."""
        ids: dict[str, list[str]] = {}  # domain key to the ids of its websites
        not_in_the_files = []
        for record in records:
            domain, website_id = website_of(record)
            key = domain_key(domain)
            ids.setdefault(key, []).append(website_id)
            if key not in self.by_domain:
                not_in_the_files.append(record)
        created = {key: website for key, website in self.by_domain.items() if key not in ids}
        deleted_ids, protected = self._prune(not_in_the_files)
        return DesiredState(
            by_domain=created if self.create_only else self.by_domain,
            created=list(created.values()),
            deleted_ids=deleted_ids,
            protected=protected,
            warnings=self._unused_protections(records),
            problems=list(self._problems(ids)),
            modes=self.modes,
        )

    def _prune(self, not_in_the_files: Sequence[Record]) -> tuple[frozenset[str], list[str]]:
        """Return the ids of the websites to delete, and the websites that are protected, each with the reason."""
        deleted_ids: set[str] = set()
        protected: list[str] = []
        if not self.prune:
            return frozenset(), protected
        patterns = self.protected_patterns
        for record in not_in_the_files:
            domain, website_id = website_of(record)
            why = _why_protected(domain, patterns)
            if why is None:
                deleted_ids.add(website_id)
            else:
                protected.append(f"{website_name(domain, website_id)}: {why}")
        return frozenset(deleted_ids), protected

    def _unused_protections(self, records: Sequence[Record]) -> list[str]:
        """Return a warning for each protected domain or pattern that matches no website."""
        domains = [domain for domain, _website_id in map(website_of, records)]
        keys = set(map(domain_key, domains))
        warnings = []
        for name in self.protected:
            is_used = domain_key(name) in keys
            if is_pattern(name):
                is_used = any(matches(name, domain) for domain in domains)
            if not is_used:
                warnings.append(f"{name} is protected, but no website matches it")
        return warnings

    def _problems(self, ids: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
        """Yield why websites cannot be planned.

        :param ids: domain key to the ids of its websites; the empty key for websites without a domain.
        """
        for key, website in self.by_domain.items():
            if key in ids:
                if len(ids[key]) > 1 and not self.create_only:
                    problem = (
                        f"several websites have the domain {website.domain}: ids {', '.join(ids[key])}. Delete all "
                        "but one"
                    )
                    yield website.place, problem
                continue
            # A service that drops "www." would create the same website in each run.
            for other in sorted(may_become(website.domain) & ids.keys() - self.by_domain.keys()):
                advice = "Use its spelling; if these are two websites, list both"
                if is_near(website.domain, other):
                    advice = "A file cannot name such a domain: create the website with the hook, or rename it"
                yield (
                    website.place,
                    f"{website.domain} does not exist, but {other} (id {ids[other][0]}) does: the service might write "
                    f"the domain in this way. {advice}",
                )
            for website_id in ids.get("", ()):
                yield website.place, f"the record of website {website_id} has no domain: it might be {website.domain}"


def _why_protected(domain: str, patterns: Iterable[str]) -> str | None:
    """Return why a website that is not in the file is not deleted; None if it can be deleted.

    :param patterns: the protected patterns.
    """
    try:
        check_key(domain)
    except ValueError:
        return "its domain is not allowed in a file"
    for pattern in patterns:
        if matches(pattern, domain):
            return f"{pattern} is protected"
    return None
