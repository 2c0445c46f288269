"""Export the current websites as a file for websites as code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from airflow_provider_analytics.api.checks import refused, short_repr
from airflow_provider_analytics.api.domains import domain_key, matches
from airflow_provider_analytics.api.entries import Addresses, EntryType, line_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, PASSWORD_FROM, normalise, raw_lines
from airflow_provider_analytics.readable import MASK, is_plain, readable
from airflow_provider_analytics.reconcile.desired import SETTABLE_FIELDS
from airflow_provider_analytics.reconcile.plan import website_of
from airflow_provider_analytics.reconcile.websites_file import check_key

_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
#: Name of the file for websites that are in no group.
_REST = "websites"


def export_websites(
    records: Iterable[Mapping[str, Any]], *, origin: str, restore: bool = False
) -> tuple[str, list[str]]:
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
    passwords: list[str] = []
    left_out: list[str] = []
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
            lines = raw_lines(field, record.get(field))
            value = normalise(field, record.get(field)) if lines is None else lines
            try:
                settings[field], network, lost = _export_value(field, value, shown=field in record, restore=restore)
                networks |= network
                left_out += [f"{domain}: {field}: {line}" for line in lost]
            except ValueError as error:
                left_out.append(f"{domain}: {field} omitted, {error}")
        if settings.get("privacy") == "password":
            passwords.append(domain)
    notes = []
    if passwords:
        notes.append(
            f"Passwords of {len(passwords):,}: set {PASSWORD_FROM} before they are created again, such as 'defaults: "
            f"{{{PASSWORD_FROM}: variable:page_password_NAME}}' for all of them: {', '.join(passwords)}"
        )
    head = [
        f"# Websites of {origin}.",
        "# Not included, and not restored by this file: ids, statistics, passwords.",
        *(f"# {readable(note, None)}" for note in (*left_out, *notes)),
    ]
    data: dict[str, Any] = {"networks": "send"} if networks else {}
    if restore:  # entries that came later go
        data["modes"] = dict.fromkeys(LINE_FIELDS, "replace")
    data["websites"] = websites
    body: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)
    return "\n".join(head) + "\n" + body, left_out


def export_folder(
    records: Iterable[Mapping[str, Any]], groups: Mapping[str, Sequence[str]], *, origin: str, restore: bool = False
) -> tuple[dict[str, str], list[str]]:
    """Return the text of each file of a folder that describes the records, and what the folder omits.

    :param groups: name of a file without ``.yaml`` to the domains, or patterns, of its websites. The first group that
        matches gets the website; ``websites.yaml`` gets the websites that no group matches.
    :param origin: source of the records, for the first line of each file.
    :raises ValueError: if the groups are not such a mapping, or several records have the same domain.
    """
    if not isinstance(groups, Mapping) or not groups:
        raise refused("groups", groups, "a dict of names of files to lists of domains and patterns")
    for name, patterns in groups.items():
        if not isinstance(name, str) or not _GROUP.fullmatch(name) or name == _REST:
            raise refused("groups", name, f"names of letters, digits, - and _, which become files; not {_REST}")
        if isinstance(patterns, str) or not all(isinstance(one, str) and one for one in patterns):
            raise refused(f"groups[{name!r}]", patterns, "a list of domains and patterns such as *.customer.example")
    parts: dict[str, list[Mapping[str, Any]]] = {name: [] for name in (*groups, _REST)}
    for record in records:
        domain = website_of(record)[0]
        found = (name for name, patterns in groups.items() if any(matches(one, domain) for one in patterns))
        parts[next(found, _REST)].append(record)
    texts, left_out = {}, []
    for name, part in parts.items():
        texts[f"{name}.yaml"], missing = export_websites(part, origin=origin, restore=restore)
        left_out += missing
    return texts, left_out


def _export_value(field: str, value: Any, *, shown: bool, restore: bool) -> tuple[Any, bool, list[str]]:
    """Return a value as written in the file, whether it contains a network, and the lines that the file omits."""
    if not shown:
        raise ValueError("the record does not contain it")
    if field not in LINE_FIELDS:
        try:
            return FIELDS[field].parse(value), False, []
        except ValueError:
            raise ValueError(f"its value {short_repr(value)} is not documented") from None
    if not isinstance(value, tuple):
        raise ValueError("its value is not a list")
    entry_type = LINE_FIELDS[field]
    items: dict[tuple[str, int], Any] = {}
    networks = False
    lost = []
    for number, line in enumerate(value, start=1):
        try:
            entry = _entry(entry_type, line)
            comment = line_key(line, entry_type.key)[1].removeprefix("#").strip()
            if entry or comment:
                named = {"entry": entry} if entry else {}
                items.setdefault((entry, 0 if entry else number), {**named, "comment": comment} if comment else entry)
            networks |= isinstance(entry_type, Addresses) and "/" in entry
        except ValueError as error:
            lost.append(f"line {number} omitted: {short_repr(line)} {error}")
    if lost and not (restore and items):
        raise ValueError(f"{len(lost):,} of its {len(value):,} lines are not usable: {lost[0]}")
    return list(items.values()), networks, lost


def _entry(entry_type: EntryType, line: str) -> str:
    """Return the entry of a line; empty for a comment line."""
    if line == MASK:
        raise ValueError("contains a secret of the connection")
    if not is_plain(line):  # a file is reviewed by people
        raise ValueError("contains invisible characters")
    entry = entry_type.key(line)
    return entry_type.check_line(entry) if entry else ""
