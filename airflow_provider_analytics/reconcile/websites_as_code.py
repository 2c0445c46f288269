"""Websites as code: a file as the source of the desired state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_analytics.api.checks import refused_together
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.domains import domain_key, matches, may_become
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.reconcile.desired import Desired
from airflow_provider_analytics.reconcile.lists import Rows
from airflow_provider_analytics.reconcile.maintained import Listed
from airflow_provider_analytics.reconcile.plan import website_name, website_of
from airflow_provider_analytics.reconcile.websites import Websites
from airflow_provider_analytics.reconcile.websites_file import WebsitesFile, check_key
from airflow_provider_analytics.reconcile.yaml_values import Place, Problem, ProblemsError

_NOWHERE = Place("the websites")


@dataclass(frozen=True)
class WebsitesAsCode:
    """A file, and how to handle websites that are not in it.

    :param file: the file.
    :param prune: also delete the websites that are not in the file, unless they are protected.
    :param only_missing: only create websites, and leave existing ones unchanged.
    """

    file: WebsitesFile
    prune: bool = False
    only_missing: bool = False

    def __post_init__(self) -> None:
        if self.prune and self.only_missing:
            raise refused_together("one of the two", prune=True, only_missing=True)

    @property
    def managed(self) -> Sequence[str]:
        """List fields that need a table."""
        return self.file.managed

    @property
    def scopes(self) -> Rows:
        """List field to domain to the entries of this run; none for a field that is not managed, or not any more."""
        return {
            name: {
                key: website.listed[name].sources
                for key, website in self.file.by_domain.items()
                if name in self.managed and name in website.listed
            }
            for name in LINE_FIELDS
        }

    @property
    def parts(self) -> Mapping[str, Sequence[Listed]]:
        """List field to the lists of defaults, groups and websites."""
        return self.file.parts

    @property
    def fields(self) -> Sequence[str]:
        """Fields that a record must contain."""
        return self.file.fields

    def read(self, client: AnalyticsClient) -> Websites:
        """Read the complete list."""
        return Websites(client, client.list_websites(), complete=True)

    def resolve(self, records: Sequence[Mapping[str, Any]], *, again: bool = False) -> Desired:
        """Return the desired state of each website."""
        by_domain = self.file.by_domain
        found: dict[str, list[str]] = {}
        doomed, spared, nameless = set(), [], []
        for record in records:
            domain, website_id = website_of(record)
            if not domain:
                nameless.append(website_id)
            if domain_key(domain) in by_domain:
                found.setdefault(domain_key(domain), []).append(website_id)
                continue
            why = self._protected(domain) if self.prune else None
            if why:
                spared.append(f"{website_name(domain, website_id)}: {why}")
            elif self.prune:
                doomed.add(website_id)
        created = [website for key, website in by_domain.items() if key not in found]
        others = {domain_key(website_of(record)[0]): record for record in records}
        problems: list[Problem] = [
            (
                by_domain[key].place,
                f"several websites have the domain {by_domain[key].domain}: ids {', '.join(ids)}. Delete all but one",
            )
            for key, ids in found.items()
            if len(ids) > 1 and not self.only_missing
        ]
        for website in created:
            # A service that drops "www." would create the same website in each run.
            variants = may_become(website.domain) & others.keys() - by_domain.keys()
            problems += [(website.place, _seems_to_exist(website.domain, others[key])) for key in sorted(variants)]
        if created:
            problems += [
                (_NOWHERE, f"the record of website {one} has no domain: it may be one that would be created")
                for one in nameless
            ]
        names = [website_of(record)[0] for record in records]
        idle = [one for one in self.file.protected if not any(matches(one, name) for name in names)]
        return Desired(
            ProblemsError,
            by_domain={domain_key(one.domain): one for one in created} if self.only_missing else by_domain,
            created=created,
            doomed=frozenset(doomed),
            spared=spared,
            warnings=[f"{one} is protected, but no website matches it" for one in idle],
            problems=problems,
            modes=self.file.modes,
        )

    def _protected(self, domain: str) -> str | None:
        """Return why a website that is not in the file is not deleted; None if it may be deleted."""
        try:
            check_key(domain)
        except ValueError:
            return "its domain is not allowed in a file"
        found = next((one for one in self.file.protected if matches(one, domain)), None)
        return f"{found} is protected" if found else None


def _seems_to_exist(domain: str, record: Mapping[str, Any]) -> str:
    shown, website_id = website_of(record)
    return (
        f"{domain} does not exist, but {shown} (id {website_id}) does: the service may write the domain in this way. "
        "Use its spelling; if these are two websites, list both"
    )
