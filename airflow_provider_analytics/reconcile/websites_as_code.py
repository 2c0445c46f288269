"""Websites as code: plan the changes that make the websites match a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.reconcile.exclusions import reconcile
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, website_of
from airflow_provider_analytics.reconcile.websites_file import (
    PASSWORD_FROM,
    SETTABLE_FIELDS,
    DesiredWebsite,
    WebsitesFile,
    raise_problems,
)


def plan_websites(websites_file: WebsitesFile, records: Sequence[Mapping[str, Any]], *, prune: bool) -> Plan:
    """Return the plan that makes the websites match the file.

    A password is sent on create, and when ``privacy`` becomes ``password``: records do not show passwords, so a changed
    one cannot be detected. A field that a record does not show is sent.

    :param records: the complete list.
    :param prune: also delete the websites that are not in the file.
    :raises ValueError: with every website that cannot be planned: duplicates, records without a domain, and new
        websites without privacy or password.
    """
    by_domain: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        domain, website_id = website_of(record)
        by_domain.setdefault(domain_key(domain), []).append(record)
    problems = [
        (1, f"the record of website {record['id']} has no domain, so it cannot be matched with the file")
        for record in by_domain.pop("", [])
    ]
    changes, compared = [], []
    for website in websites_file.websites:
        found = by_domain.pop(domain_key(website.domain), [])
        if len(found) > 1:
            ids = ", ".join(str(record["id"]) for record in found)
            problems.append(
                (website.line, f"several websites have the domain {website.domain}: ids {ids}. Delete all but one")
            )
            continue
        compared += found
        change = _update(website, found[0], problems) if found else _create(website, problems)
        if change.fields or not found:
            changes.append(change)
    if prune:
        for record in (record for group in by_domain.values() for record in group):
            compared.append(record)
            domain, website_id = website_of(record)
            shown = tuple(
                FieldChange(name, normalise(name, record[name]), None) for name in SETTABLE_FIELDS if name in record
            )
            changes.append(Change("delete", domain, website_id, shown))
    raise_problems(websites_file.source, problems)
    return Plan.of(changes, compared)


def relevant_records(
    websites_file: WebsitesFile, records: Iterable[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Split the records into websites that are in the file and all others."""
    named = {domain_key(website.domain) for website in websites_file.websites}
    parts: tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]] = ([], [])
    for record in records:
        parts[domain_key(website_of(record)[0]) not in named].append(record)
    return parts


def _update(website: DesiredWebsite, record: Mapping[str, Any], problems: list[tuple[int, str]]) -> Change:
    domain, website_id = website_of(record)
    changes = []
    for field, wanted in website.settings.items():
        if field == PASSWORD_FROM:
            continue
        before = normalise(field, record[field]) if field in record else None
        after = wanted
        if field in LINE_FIELDS and isinstance(before, tuple):
            after, _ = reconcile(field, before, wanted, "replace")
        if field not in record or before != after:
            changes.append(FieldChange(field, before, after))
    if any(change.field == "privacy" and change.after == "password" for change in changes):
        changes += _password(website, problems)
    return Change("update", domain, website_id, tuple(changes))


def _create(website: DesiredWebsite, problems: list[tuple[int, str]]) -> Change:
    privacy = website.settings.get("privacy")
    if privacy is None:
        problems.append(
            (
                website.line,
                f"{website.domain} is new and has no privacy: set it here, in a group or in defaults; the default of "
                "the service is a public statistics page",
            )
        )
    changes = [
        FieldChange(field, None, value)
        for field, value in website.settings.items()
        # Omit what a new website has by default: an empty list, and a False that a create cannot set.
        if field != PASSWORD_FROM and value != () and (value or FIELDS[field].on_create)
    ]
    if privacy == "password":
        changes += _password(website, problems)
    return Change("create", website.domain, None, tuple(changes))


def _password(website: DesiredWebsite, problems: list[tuple[int, str]]) -> list[FieldChange]:
    reference = website.settings.get(PASSWORD_FROM)
    if reference is None:
        problems.append(
            (
                website.line,
                f"{website.domain} gets privacy: password but has no {PASSWORD_FROM}: set it to connection:NAME or "
                "variable:NAME, or use privacy: private",
            )
        )
        return []
    return [FieldChange(PASSWORD_FROM, None, reference)]
