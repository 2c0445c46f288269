"""Write the file of websites as code from the websites as they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from airflow_provider_analytics.api.checks import short_repr
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import Addresses
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.api.kinds import PASSWORD_FROM
from airflow_provider_analytics.readable import MASK, is_plain, readable
from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS
from airflow_provider_analytics.reconcile.plan import website_of
from airflow_provider_analytics.reconcile.websites_file import check_key


def export_websites(records: Iterable[Mapping[str, Any]], *, origin: str) -> tuple[str, list[str]]:
    """Return the text of a file that describes the records, and the websites and settings that it lacks.

    Planned against the same records, the file changes nothing. Comments at the top list what is missing: fields that a
    record does not show or whose value is not allowed in a file, and passwords, which no record shows. A website whose
    domain a file cannot hold is never deleted by a plan.

    :param origin: source of the records, for the first line.
    :raises ValueError: if several records have the same domain.
    """
    websites: dict[str, dict[str, Any]] = {}
    notes, left_out = [], []
    networks = False
    seen: dict[str, str] = {}
    for record in sorted(records, key=lambda record: domain_key(website_of(record)[0])):
        domain, website_id = website_of(record)
        if domain_key(domain) in seen:
            raise ValueError(
                f"several websites have the domain {readable(domain)}: ids {seen[domain_key(domain)]}, {website_id}. A "
                "file can hold a domain only once: delete all but one"
            )
        seen[domain_key(domain)] = website_id
        try:
            check_key(domain)
        except ValueError as error:
            left_out.append(f"id {website_id}: omitted, and never deleted by a plan, {error}")
            continue
        settings = websites[domain] = {}
        for field in SETTABLE_FIELDS:
            value = normalise(field, record.get(field))
            try:
                settings[field], network = _exported(field, value, shown=field in record)
                networks |= network
            except ValueError as error:
                left_out.append(f"{domain}: {field} omitted, {error}")
        if settings.get("privacy") == "password":
            notes.append(f"{domain}: set {PASSWORD_FROM} before it is created again")
    head = [
        f"# Websites of {origin}.",
        "# Not included, and not restored by this file: ids, statistics, passwords.",
        *(f"# {readable(note, None)}" for note in (*left_out, *notes)),
    ]
    data = {**({"networks": "send"} if networks else {}), "websites": websites}
    body: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join(head) + "\n" + body, left_out


def _exported(field: str, value: Any, *, shown: bool) -> tuple[Any, bool]:
    """Return a value as written in the file, and whether it contains a network."""
    if not shown:
        raise ValueError("the record does not show it")
    if field not in LINE_FIELDS:
        try:
            return FIELDS[field].kind.parse(field, value), False
        except ValueError:
            raise ValueError(f"its value {short_repr(value)} is not documented") from None
    if not isinstance(value, tuple):
        raise ValueError("its value is not a list")
    if MASK in value:
        raise ValueError("its value contains a secret of the connection")
    if not all(map(is_plain, value)):  # a file is reviewed by people
        raise ValueError("its value contains characters that do not show")
    entry_type = LINE_FIELDS[field]
    entries = tuple(dict.fromkeys(key for key in map(entry_type.key, value) if key))
    entry_type.parse(field, entries, "send")
    return list(entries), isinstance(entry_type, Addresses) and any("/" in entry for entry in entries)
