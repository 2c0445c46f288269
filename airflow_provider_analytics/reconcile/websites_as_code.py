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
from airflow_provider_analytics.reconcile.yaml_values import Problem


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

    def resolve(self, records: Sequence[Mapping[str, Any]]) -> Desired:
        """Return the desired state of each website."""
        file = self.file
        found: dict[str, list[str]] = {}
        for record in records:
            domain, website_id = website_of(record)
            found.setdefault(domain_key(domain), []).append(website_id)
        created = {key: website for key, website in file.by_domain.items() if key not in found}
        problems: list[Problem] = [
            (
                website.place,
                f"several websites have the domain {website.domain}: ids {', '.join(found[key])}. Delete all but one",
            )
            for key, website in file.by_domain.items()
            if len(found.get(key, ())) > 1 and not self.only_missing
        ]
        for website in created.values():
            problems += [
                (
                    website.place,
                    f"{website.domain} does not exist, but {key} (id {found[key][0]}) does: the service may write the "
                    "domain in this way. Use its spelling; if these are two websites, list both",
                )
                # A service that drops "www." would create the same website in each run.
                for key in sorted(may_become(website.domain) & found.keys() - file.by_domain.keys())
            ]
            problems += [
                (website.place, f"the record of website {one} has no domain: it may be {website.domain}")
                for one in found.get("", ())
            ]
        doomed, spared = set(), []
        for record in records if self.prune else ():
            domain, website_id = website_of(record)
            if domain_key(domain) not in file.by_domain:
                if why := self._protected(domain):
                    spared.append(f"{website_name(domain, website_id)}: {why}")
                else:
                    doomed.add(website_id)
        names = [website_of(record)[0] for record in records]
        idle = [one for one in file.protected if not any(matches(one, name) for name in names)]
        return Desired(
            by_domain=created if self.only_missing else file.by_domain,
            created=list(created.values()),
            doomed=frozenset(doomed),
            spared=spared,
            warnings=[f"{one} is protected, but no website matches it" for one in idle],
            problems=problems,
            modes=file.modes,
        )

    def _protected(self, domain: str) -> str | None:
        """Return why a website that is not in the file is not deleted; None if it may be deleted."""
        try:
            check_key(domain)
        except ValueError:
            return "its domain is not allowed in a file"
        found = next((one for one in self.file.protected if matches(one, domain)), None)
        return f"{found} is protected" if found else None
