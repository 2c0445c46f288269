# SPDX-License-Identifier: Apache-2.0
"""Export the current websites as a file for websites as code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from airflow_provider_analytics.api.checks import short_repr
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import AS_IS, EntryType, entry_of, line_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, PASSWORD_FROM, normalise, raw_lines
from airflow_provider_analytics.api.verification import Record, has_value
from airflow_provider_analytics.readable import MASK, is_plain, readable
from airflow_provider_analytics.reconcile.desired.desired_state import SETTABLE_FIELDS
from airflow_provider_analytics.reconcile.desired.websites_config import check_key
from airflow_provider_analytics.reconcile.plan.plan import website_of


def export_websites(records: Iterable[Record], *, origin: str, restore: bool = False) -> tuple[str, list[str]]:
    """Return the text of a file that describes the records, and the websites and settings that it omits.

    Planned against the same records, the file changes nothing. A list with a line that is not allowed in a file is
    therefore omitted; with ``restore``, only the line is omitted. A comment is sent when its entry is added.

    The top of the file lists what is omitted: lines, missing fields, fields with a value that is not allowed, and
    passwords, which no record contains. A plan never deletes a website whose domain is not allowed in a file.

    :param origin: source of the records, for the first line.
    :param restore: whether the records are historical, such as those of a snapshot.
    :raises ValueError: if several records have the same domain.
    """
    websites: dict[str, dict[str, Any]] = {}
    omitted: list[str] = []
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
            omitted.append(f"id {website_id}: omitted, and never deleted by a plan, {error}")
            continue
        websites[domain], lost = _settings(record, restore=restore)
        omitted += [f"{domain}: {item}" for item in lost]
    passwords = [domain for domain, settings in websites.items() if settings.get("privacy") == "password"]
    notes = list(omitted)
    if passwords:
        notes.append(
            f"Passwords of {len(passwords):,}: set {PASSWORD_FROM} before they are created again, such as 'defaults: "
            f"{{{PASSWORD_FROM}: variable:page_password_NAME}}' for all of them: {', '.join(passwords)}"
        )
    head = [
        f"# Websites of {origin}.",
        "# Not included, and not restored by this file: ids, statistics, passwords.",
        *(f"# {readable(note, None)}" for note in notes),
    ]
    entries = [
        (LINE_FIELDS[name], item["entry"] if isinstance(item, dict) else item)
        for settings in websites.values()
        for name in LINE_FIELDS
        for item in settings.get(name, ())
        if not isinstance(item, dict) or "entry" in item
    ]
    needs_as_is = any(not _is_allowed(entry_type, entry) for entry_type, entry in set(entries))
    data: dict[str, Any] = {"networks": AS_IS} if needs_as_is else {}
    if restore:  # entries that came later go
        data["modes"] = dict.fromkeys(LINE_FIELDS, "replace")
    data["websites"] = websites
    body: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join(head) + "\n" + body, omitted


def _settings(record: Record, *, restore: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a website as written in the file, and what the file omits."""
    settings: dict[str, Any] = {}
    omitted: list[str] = []
    for field in SETTABLE_FIELDS:
        lines = raw_lines(field, record.get(field)) if field in LINE_FIELDS else None
        if field not in record:
            omitted.append(f"{field} omitted, the record does not contain it")
        elif lines and not has_value(field, record):
            omitted.append(f"{field} omitted, {short_repr(lines[-1])} holds several entries or is cut off")
        elif lines is not None:
            items, lost = _items(LINE_FIELDS[field], lines)
            if not lost or (restore and items):
                settings[field] = items
                omitted += [f"{field}: {item}" for item in lost]
            else:
                problem = f"{len(lost):,} of its {len(lines):,} lines are not usable: {lost[0]}"
                omitted.append(f"{field} omitted, {problem}")
        else:
            value = normalise(field, record[field])
            try:
                settings[field] = FIELDS[field].parse(value)
            except ValueError:
                omitted.append(f"{field} omitted, its value {short_repr(value)} is not documented")
    return settings, omitted


def _items(entry_type: EntryType, lines: Iterable[str]) -> tuple[list[Any], list[str]]:
    """Return the lines of a list as written in the file, and those that the file omits."""
    items: dict[str | int, Any] = {}
    lost = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = _entry(entry_type, line)
        except ValueError as error:
            lost.append(f"line {number} omitted: {short_repr(line)} {error}")
            continue
        comment = line_key(line, entry_type.key)[1].removeprefix("#").strip()
        named = {name: text for name, text in (("entry", entry), ("comment", comment)) if text}
        if named:
            items.setdefault(entry or number, named if comment else entry)
    return list(items.values()), lost


def _entry(entry_type: EntryType, line: str) -> str:
    """Return the entry of a line; empty for a comment line."""
    if line == MASK:
        raise ValueError("contains a secret of the connection")
    if not is_plain(line):  # a file is reviewed by people
        raise ValueError("contains invisible characters")
    entry = entry_type.key(line)
    if not entry or _is_allowed(entry_type, entry):
        return entry
    text = entry_of(line)
    entry_type.parser(AS_IS)(text)
    return text


def _is_allowed(entry_type: EntryType, entry: str) -> bool:
    """Return whether a file can contain an entry without ``networks: as_is``."""
    try:
        entry_type.parser("reject")(entry)
    except ValueError:
        return False
    return True
