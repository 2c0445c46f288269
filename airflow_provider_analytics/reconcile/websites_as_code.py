"""Websites as code: plan the changes that make the websites match a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_analytics.api.domains import domain_key, matches
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.reconcile.exclusions import reconcile
from airflow_provider_analytics.reconcile.ledger import Ledger, Owned
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, website_of
from airflow_provider_analytics.reconcile.websites_file import (
    PASSWORD_FROM,
    SETTABLE_FIELDS,
    DesiredWebsite,
    Place,
    Problem,
    WebsitesFile,
    check_key,
    raise_problems,
)


@dataclass(frozen=True)
class Split:
    """The websites of the service, by what a file says of them.

    :param named: websites that the file names.
    :param doomed: websites to delete.
    :param spared: websites that would be deleted if they were not protected, as text for people.
    :param others: websites that are not touched.
    """

    named: list[Mapping[str, Any]]
    doomed: list[Mapping[str, Any]]
    spared: list[str]
    others: list[Mapping[str, Any]]


class WebsitesAsCode:
    """Works out the changes that make the websites match a file.

    A password is sent on create, and when ``privacy`` becomes ``password``: records do not show passwords, so a changed
    one cannot be detected. A field that a record does not show is sent.

    :param websites_file: the file.
    :param prune: also delete the websites that are not in the file, unless they are protected.
    :param ledger: what managed lists own.
    """

    def __init__(self, websites_file: WebsitesFile, *, prune: bool, ledger: Ledger | None = None) -> None:
        self.file = websites_file
        self.prune = prune
        self.ledger = ledger
        self._desired = {domain_key(website.domain): website for website in websites_file.websites}

    def split(self, records: Sequence[Mapping[str, Any]]) -> Split:
        """Split the complete list of websites."""
        parts = Split([], [], [], [])
        for record in records:
            domain, website_id = website_of(record)
            if domain_key(domain) in self._desired:
                parts.named.append(record)
                continue
            why = self._protected(domain) if self.prune else None
            if why:
                parts.spared.append(f"{domain} (id {website_id}): {why}" if domain else f"id {website_id}: {why}")
            (parts.doomed if self.prune and not why else parts.others).append(record)
        return parts

    def plan(self, records: Sequence[Mapping[str, Any]], scope: Mapping[str, Any] | None = None) -> Plan:
        """Return the plan.

        :param records: the complete list.
        :param scope: what the plan is bound to.
        :raises ValueError: with every website that cannot be planned: duplicates, records without a domain, new
            websites without privacy or password, records that do not show a list to merge into.
        """
        parts = self.split(records)
        problems: list[Problem] = []
        by_domain: dict[str, list[Mapping[str, Any]]] = {}
        for record in parts.named:
            by_domain.setdefault(domain_key(website_of(record)[0]), []).append(record)
        changes, compared = [], []
        for website in self.file.websites:
            found = by_domain.get(domain_key(website.domain), [])
            if len(found) > 1:
                ids = ", ".join(str(record["id"]) for record in found)
                problems.append(
                    (website.place, f"several websites have the domain {website.domain}: ids {ids}. Delete all but one")
                )
                continue
            compared += found
            change = self._update(website, found[0], problems) if found else self._create(website, problems)
            if change.fields or not found:
                changes.append(change)
        for record in parts.doomed:
            domain, website_id = website_of(record)
            shown = (name for name in SETTABLE_FIELDS if name in record)
            fields = tuple(FieldChange(name, normalise(name, record[name]), None) for name in shown)
            changes.append(Change("delete", domain, website_id, fields))
        if any(change.action == "create" for change in changes):
            problems += [
                (_NOWHERE, f"the record of website {record['id']} has no domain: it may be one that would be created")
                for record in records
                if not website_of(record)[0]
            ]
        raise_problems(problems)
        names = [website_of(record)[0] for record in records]
        idle = [one for one in self.file.protected if not any(matches(one, name) for name in names)]
        warnings = [f"{one} is protected, but no website matches it" for one in idle]
        return Plan.of(changes, [*compared, *parts.doomed], parts.spared, scope, warnings)

    def change(self, record: Mapping[str, Any]) -> Change | None:
        """Return the change of an existing website, or None if it matches the file or the file does not name it.

        :raises ValueError: if it cannot be worked out.
        """
        website = self._desired.get(domain_key(website_of(record)[0]))
        if website is None:
            return None
        problems: list[Problem] = []
        change = self._update(website, record, problems)
        raise_problems(problems)
        return change if change.fields else None

    def desired_lists(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Owned]:
        """Return the desired entries of managed lists, by website id and list field."""
        found: dict[str, Owned] = {}
        for record in records:
            domain, website_id = website_of(record)
            website = self._desired.get(domain_key(domain))
            if website:
                found[website_id] = {
                    name: website.settings[name] for name in self.file.managed if name in website.settings
                }
        return found

    def _protected(self, domain: str) -> str | None:
        """Return why a website that the file does not name is not deleted."""
        try:
            check_key(domain)
        except ValueError:
            return "a file cannot name it"
        matching = (one for one in self.file.protected if matches(one, domain))
        found = next(matching, None)
        return f"{found} is protected" if found else None

    def _update(self, website: DesiredWebsite, record: Mapping[str, Any], problems: list[Problem]) -> Change:
        domain, website_id = website_of(record)
        changes = []
        for name, wanted in website.settings.items():
            if name == PASSWORD_FROM or name in website.ignored:
                continue
            before = normalise(name, record[name]) if name in record else None
            after = wanted
            if name in LINE_FIELDS:
                mode = self.file.modes.get(name, "replace")
                if isinstance(before, tuple):
                    owned = self.ledger.owned(record).get(name, ()) if self.ledger else ()
                    after = reconcile(name, before, wanted, mode, owned)
                elif mode != "replace":
                    problems.append(
                        (website.place, f"the record of {domain} does not show {name}, so mode {mode} would lose it")
                    )
                    continue
            if name not in record or before != after:
                changes.append(FieldChange(name, before, after))
        if any(change.field == "privacy" and change.after == "password" for change in changes):
            changes += _password(website, problems)
        return Change("update", domain, website_id, tuple(changes))

    def _create(self, website: DesiredWebsite, problems: list[Problem]) -> Change:
        privacy = website.settings.get("privacy")
        if privacy is None:
            problems.append(
                (
                    website.place,
                    f"{website.domain} is new and has no privacy: set it here, in a group or in defaults; the default "
                    "of the service is a public statistics page",
                )
            )
        changes = [
            FieldChange(name, None, value)
            for name, value in website.settings.items()
            # Omit what a new website has by default: an empty list, and a False that a create cannot set.
            if name != PASSWORD_FROM and value != () and (value or FIELDS[name].on_create)
        ]
        if privacy == "password":
            changes += _password(website, problems)
        return Change("create", website.domain, None, tuple(changes))


_NOWHERE = Place(0, "the websites")


def _password(website: DesiredWebsite, problems: list[Problem]) -> list[FieldChange]:
    reference = website.settings.get(PASSWORD_FROM)
    if reference is None:
        problems.append(
            (
                website.place,
                f"{website.domain} gets privacy: password but has no {PASSWORD_FROM}: set it to connection:NAME or "
                "variable:NAME, or use privacy: private",
            )
        )
        return []
    return [FieldChange(PASSWORD_FROM, None, reference)]
