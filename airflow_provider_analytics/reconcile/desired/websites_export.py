# SPDX-License-Identifier: Apache-2.0
"""Export the current websites as a file for websites as code."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from airflow_provider_analytics.api.checks import short_repr
from airflow_provider_analytics.api.domains import check_domain, domain_key
from airflow_provider_analytics.api.entries import AS_IS, EntryType, entry_of, line_key
from airflow_provider_analytics.api.fields import (
    FIELDS,
    LINE_FIELDS,
    PASSWORD_FROM,
    SETTABLE_FIELDS,
    normalize,
    raw_lines,
    website_of,
)
from airflow_provider_analytics.api.verification import Record, has_value
from airflow_provider_analytics.exceptions import DomainError
from airflow_provider_analytics.readable import MASK, is_plain, readable


def export_websites(records: Iterable[Record], *, origin: str, restore: bool = False) -> tuple[str, int, list[str]]:
    """Return the text of a file that describes the records, its number of websites, and what it omits.

    Planned against the same records, the file changes nothing. A list with a line that is not allowed in a file is
    therefore omitted; with ``restore``, only the line is omitted. A comment is sent when its entry is added.

    The top of the file lists the omitted parts: lines, missing fields, fields with a value that is not allowed, and
    passwords, which no record contains. A plan never deletes a website whose domain is not allowed in a file.

    :param origin: source of the records, for the first line.
    :param restore: whether the records are historical, such as the records of a snapshot.
    :raises DomainError: if a domain has several records.
    """
    websites: dict[str, dict[str, Any]] = {}
    omitted: list[str] = []
    ids: dict[str, str] = {}  # domain key to website id
    for record in sorted(records, key=lambda record: domain_key(website_of(record)[0])):
        domain, website_id = website_of(record)
        key = domain_key(domain)
        if key in ids:
            raise DomainError(
                f"Several websites have the domain {readable(domain)}: ids {ids[key]}, {website_id}.",
                [ids[key], website_id],
                "A file can have a domain only once: delete all but one of them.",
                permanent=True,
                before_retry="resolve the duplicates first",
            )
        ids[key] = website_id
        try:
            check_domain(domain)
        except ValueError as error:
            omitted.append(f"id {website_id}: omitted, and never deleted by a plan, {error}")
            continue
        websites[domain], lost = _settings(record, restore=restore)
        omitted += [f"{domain}: {problem}" for problem in lost]
    notes = list(omitted)
    passwords = [domain for domain, settings in websites.items() if settings.get("privacy") == "password"]
    if passwords:
        notes.append(
            f"Passwords of {len(passwords):,}: set {PASSWORD_FROM} before they are created again, such as 'defaults: "
            f"{{{PASSWORD_FROM}: variable:page_password_NAME}}' for all of them: {', '.join(passwords)}"
        )
    lines = [
        f"# Websites of {origin}.",
        "# Not included, and not restored by this file: ids, statistics, passwords.",
        *(f"# {readable(note, None)}" for note in notes),
    ]
    data: dict[str, Any] = {}
    if any(map(_needs_as_is, websites.values())):
        data["networks"] = AS_IS
    if restore:  # entries that came later are removed
        data["modes"] = dict.fromkeys(LINE_FIELDS, "replace")
    data["websites"] = websites
    body: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join(lines) + "\n" + body, len(websites), omitted


def _needs_as_is(settings: Mapping[str, Any]) -> bool:
    """Return whether a list of a website has an entry that a file can contain only with ``networks: as_is``."""
    for name in LINE_FIELDS:
        for value in settings.get(name, ()):
            entry = value.get("entry") if isinstance(value, dict) else value
            if entry is not None and not _is_allowed(LINE_FIELDS[name], entry):
                return True
    return False


def _settings(record: Record, *, restore: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a website as written in the file, and the problems of omitted settings."""
    settings: dict[str, Any] = {}
    omitted: list[str] = []
    for field in SETTABLE_FIELDS:
        if field not in record:
            omitted.append(f"{field} omitted, the record does not contain it")
            continue
        lines = raw_lines(field, record[field]) if field in LINE_FIELDS else None
        if lines is None:
            value = normalize(field, record[field])
            try:
                settings[field] = FIELDS[field].from_user(value)
            except ValueError:
                omitted.append(f"{field} omitted, its value {short_repr(value)} is not documented")
            continue
        if lines and not has_value(field, record):
            omitted.append(f"{field} omitted, {short_repr(lines[-1])} has several entries or is cut off")
            continue
        entries, lost = _file_entries(LINE_FIELDS[field], lines)
        if not lost or (restore and entries):
            settings[field] = entries
            omitted += [f"{field}: {problem}" for problem in lost]
        else:
            omitted.append(f"{field} omitted, {len(lost):,} of its {len(lines):,} lines are not usable: {lost[0]}")
    return settings, omitted


def _file_entries(entry_type: EntryType, lines: Iterable[str]) -> tuple[list[Any], list[str]]:
    """Return the lines of a list as written in the file, and the problems of lines that the file omits.

    For example, ``["192.0.2.1", {"entry": "192.0.2.2", "comment": "Berlin"}]``.
    """
    found: dict[str | int, Any] = {}
    problems = []
    for number, line in enumerate(lines, start=1):
        try:
            entry = _entry(entry_type, line)
        except ValueError as error:
            problems.append(f"line {number} omitted: {short_repr(line)} {error}")
            continue
        comment = line_key(line, entry_type.key)[1].removeprefix("#").strip()
        if entry and comment:
            found.setdefault(entry, {"entry": entry, "comment": comment})
        elif entry:
            found.setdefault(entry, entry)
        elif comment:
            found[number] = {"comment": comment}
    return list(found.values()), problems


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
    entry_type.parse(text, AS_IS)
    return text


# Cached, because many websites have the same entries.
@functools.lru_cache(maxsize=1 << 16)
def _is_allowed(entry_type: EntryType, entry: str) -> bool:
    """Return whether a file can contain an entry without ``networks: as_is``."""
    try:
        entry_type.parse(entry, "reject")
    except ValueError:
        return False
    return True
