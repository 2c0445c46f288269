# SPDX-License-Identifier: Apache-2.0
"""The attributes of list entries: host names, owners, reasons and last days. Pure functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import AS_IS, Addresses, Entries, EntryType, each_line, entry_of, stripped
from airflow_provider_analytics.exceptions import AnalyticsError

#: Maximum number of host names in one list, and of addresses of one name.
MAX_NAMES, MAX_ANSWERS = 100, 64
#: Number of days before its last day from which on an entry is reported as expiring.
EXPIRING_DAYS = 30
#: Days for which a host name that does not resolve keeps its last addresses.
KEEP_UNRESOLVED_DAYS = 7

_KEYS = ("owner", "until")
_ITEM_KEYS = ("entry", *_KEYS, "reason", "comment")
#: Separates the parts of a comment without runs of blanks; people forget the comma before a key.
_SEPARATOR = re.compile(r",| (?=(?:owner|until) ?=)", re.IGNORECASE)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
#: Last label of a text that is not a host name: of an address as the resolver accepts it, such as 0x7f.1 or 127.1, or
#: of a range of addresses.
_NUMERIC = re.compile(r"[\d-]+|0x[0-9a-f]*")
_DAY_ALLOWED = "until=YYYY-MM-DD, such as until=2027-01-31"


@dataclass(frozen=True)
class EntrySource:
    """The source of a list entry.

    :param owner: who requested it; empty if unknown.
    :param until: its last day (UTC); None if it does not expire.
    :param reason: the rest of its comment.
    :param names: host names that resolve to it.
    :param since: since when it is on the list, as ISO date; empty if unknown.
    :param left: since when it is no longer on the list, as ISO date; empty if it is on the list.
    """

    owner: str = ""
    until: date | None = None
    reason: str = ""
    names: Entries = ()
    since: str = ""
    left: str = ""

    @property
    def text(self) -> str:
        """The source as text for people, such as ``until 2027-01-31, owner it@example.com, office Berlin``."""
        is_expired = self.until is not None and str(self.until) < self.left
        until = f"{'expired, ' if is_expired else ''}until {self.until}" if self.until else ""
        owner = f"owner {self.owner}" if self.owner else ""
        names = f"from {', '.join(self.names)}" if self.names else ""
        return ", ".join(filter(None, (until, owner, self.reason, names)))

    def beside(self, other: EntrySource | None) -> EntrySource:
        """Return the combined source of an entry that is on the list twice."""
        if other is None:
            return self
        until = max(self.until, other.until) if self.until and other.until else None
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return EntrySource(self.owner or other.owner, until, self.reason or other.reason, names)


@dataclass(frozen=True)
class Resolution:
    """The last resolution of a host name.

    :param addresses: its addresses.
    :param at: when it was resolved.
    """

    addresses: Entries
    at: datetime


@dataclass(frozen=True)
class EntryList:
    """A list without its expired entries.

    :param sources: normalized entry to its source, in the order of the list.
    :param names: host name to its source.
    :param expired: expired entry or host name to its source.
    :param lines: entry to the comment lines before it and its own line, if that is not only the entry: it has a
        comment, or is sent as it is. The empty string maps to the comment lines at the end.
    """

    sources: Mapping[str, EntrySource] = field(default_factory=dict)
    names: Mapping[str, EntrySource] = field(default_factory=dict)
    expired: Mapping[str, EntrySource] = field(default_factory=dict)
    lines: Mapping[str, Entries] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Entries) -> Self:
        """Return a list of entries without sources."""
        return cls(dict.fromkeys(entries, EntrySource()))

    # Cached, because many websites share a list.
    @functools.cached_property
    def entries(self) -> Entries:
        """The entries, normalized and without duplicates."""
        return tuple(self.sources)

    def with_answers(self, resolved: Mapping[str, Resolution]) -> EntryList:
        """Return the list with the addresses of its host names."""
        answers = [
            EntryList(dict.fromkeys(resolved[name].addresses, replace(source, names=(name,))))
            for name, source in self.names.items()
        ]
        return together([self, *answers])

    @property
    def size(self) -> int:
        """Number of its entries and of its comment lines at the end, the expired entries included."""
        return len(self.sources) + len(self.expired) + len(self.lines.get("", ()))

    def new_lines(self, entries: Entries) -> Entries:
        """Return the lines of a new list with these entries, with comment lines in their original places."""
        return tuple(line for entry in entries for line in self.lines.get(entry, (entry,))) + self.lines.get("", ())

    def expiring(self, today: date) -> dict[str, EntrySource]:
        """Return the entries and host names whose last day is near."""
        last = today + timedelta(days=EXPIRING_DAYS)
        # The addresses of a host name expire with it, so report only the name.
        own = {name: source for name, source in self.sources.items() if not source.names}
        return {name: source for name, source in {**own, **self.names}.items() if source.until and source.until <= last}


def together(lists: Sequence[EntryList]) -> EntryList:
    """Merge several lists; an entry has expired only if it has expired in all of them."""
    if len(lists) == 1:
        return lists[0]  # shared by many websites
    parts: dict[str, dict[str, EntrySource]] = {"sources": {}, "names": {}, "expired": {}}
    lines: dict[str, Entries] = {}
    last: list[str] = []
    for item in lists:
        lines |= item.lines
        last += item.lines.get("", ())
        for part, found in parts.items():
            for key, source in getattr(item, part).items():
                found[key] = source.beside(found.get(key))
    sources, names, expired = parts.values()
    gone = {name: source for name, source in expired.items() if name not in sources and name not in names}
    return EntryList(sources, names, gone, {**lines, "": tuple(last)} if last else lines)


def now() -> datetime:
    """Return the current time, for the expiry of entries and resolutions."""
    return datetime.now(UTC)


def read_list(
    argument: str,
    value: Any,
    entry_type: EntryType,
    *,
    networks: str = "reject",
    managed: bool = True,
    host_names: bool = False,
    is_for_one: bool = False,
) -> EntryList:
    """Parse a list, and separate its expired entries.

    A line is an entry or a host name. A comment may follow after ``#``. Its parts are separated by commas; the parts
    ``owner=...`` and ``until=YYYY-MM-DD`` have a meaning. Instead of a line, a list may contain a dict with ``entry``,
    ``owner``, ``until``, ``reason`` and ``comment``. The comment is sent with the entry when the entry is added.

    :param argument: name of the argument, for messages.
    :param value: a list, its JSON text, or a text with one entry per line.
    :param entry_type: type of its entries.
    :param networks: see :meth:`EntryType.parser`.
    :param managed: whether the mode is managed: entries may then have a last day, because only a managed list can
        remove the entries that it added, but no comment to send.
    :param host_names: whether host names are allowed.
    :param is_for_one: whether the list is sent once, to one website: networks, last days and comments are allowed.
    :raises ValueError: if it is neither a list nor a text.
    :raises UnusableEntriesError: if lines cannot be read; the message lists them with their numbers.
    """
    parse = entry_type.entries_of if is_for_one else entry_type.parser(networks)
    today = now().date()

    def read(line: object) -> tuple[EntryList, str, str]:
        text, source, comment = _line(line)
        if source.until and not managed and not is_for_one:
            raise ValueError("has a last day: until needs mode='managed', which records the entries that it adds")
        if comment and managed and not is_for_one:
            raise ValueError("has a comment, but in mode managed, lines with a comment belong to people; use reason")
        entries, is_name = _entries(text, parse, host_names=host_names)
        found = dict.fromkeys(entries, source)
        if source.until is not None and source.until < today:
            return EntryList(expired=found), comment, text
        return EntryList(names=found) if is_name else EntryList(found), comment, text

    allowed = f"{entry_type.allowed}, or one host name" if host_names else entry_type.allowed
    found: list[EntryList] = []
    above: list[str] = []
    for line, comment, text in each_line(argument, value, read, allowed):
        written = f"#{'' if comment.startswith('#') else ' '}{comment}" if comment else ""
        if written and not line.sources:
            above.append(written)
        lines = {}
        for entry in line.sources:
            sent = text if networks == AS_IS else entry
            if above or written or sent != entry:
                lines[entry] = (*above, f"{sent} {written}".strip())
            above.clear()
        found.append(replace(line, lines=lines))
    listed = together([*found, EntryList(lines={"": tuple(above)} if above else {})])
    if len(listed.names) > MAX_NAMES:
        raise ValueError(f"{argument} has {len(listed.names):,} host names; allowed: at most {MAX_NAMES}")
    return listed


def _entries(text: str, parse: Callable[[str], Entries], *, host_names: bool) -> tuple[Entries, bool]:
    """Return the entries of a line, or its host name, and whether it is one."""
    if not text:
        return (), False
    name = _host_name(text)
    if name is not None and host_names:
        return (name,), True
    try:
        return parse(text), False
    except ValueError:
        if name is None:
            raise
        raise ValueError("is not an IP address; a host name needs resolve_names=True and mode='managed'") from None


def resolve(
    names: Mapping[str, object], last: Mapping[str, Resolution], at: datetime
) -> tuple[dict[str, Resolution], list[str]]:
    """Return the resolutions to use for host names, and warnings.

    A name that does not resolve to usable addresses keeps its last resolution for :data:`KEEP_UNRESOLVED_DAYS`.

    :param names: host name to its addresses, or to the reason why it does not resolve.
    :param last: the last resolutions.
    :param at: the current time.
    :raises AnalyticsError: if a name does not resolve and its last resolution is missing or too old.
    """
    found: dict[str, Resolution] = {}
    unresolved, warnings = [], []
    for name, result in names.items():
        try:
            found[name] = Resolution(_addresses(result), at)
            continue
        except ValueError as error:
            why = f"{name} {error}"
        before = last.get(name)
        until = before.at + timedelta(days=KEEP_UNRESOLVED_DAYS) if before else at
        if before is None:
            unresolved.append(f"{why}; there is no last answer")
        elif until < at:
            unresolved.append(
                f"{why}; its last answer, of {before.at:%Y-%m-%d}, is older than {KEEP_UNRESOLVED_DAYS} days"
            )
        else:
            found[name] = before
            kept = f"Its last answer of {before.at:%Y-%m-%d} stays until {until:%Y-%m-%d}"
            warnings.append(f"{why}. {kept}: {', '.join(before.addresses)}")
    if unresolved:
        raise AnalyticsError(
            f"{'; '.join(unresolved)}.", "Nothing was sent. Correct the host name, or remove it from the list."
        )
    return found, warnings


def _line(line: object) -> tuple[str, EntrySource, str]:
    """Return the entry of a line, its source, and the comment to send."""
    sent = ""
    if isinstance(line, Mapping):
        text, source, sent = _item(line)
    else:
        text = entry_of(line)
        comment = stripped(str(line)).removeprefix(text).strip().lstrip("#") if text else ""
        source = _comment(comment) if comment else EntrySource()
    return text, source, sent


def _item(item: Mapping[Any, Any]) -> tuple[str, EntrySource, str]:
    unknown = sorted(map(str, item.keys() - set(_ITEM_KEYS)))
    if unknown or item.keys().isdisjoint(("entry", "comment")):
        problem = f"{unknown[0]} is not known" if unknown else "entry is missing"
        raise ValueError(f"cannot be read: {problem}; allowed: {', '.join(_ITEM_KEYS)}")
    texts = {name: item.get(name) or "" for name in ("owner", "reason", "comment")}
    for name, value in texts.items():
        if not isinstance(value, str) or len(value.splitlines()) > 1:
            raise ValueError(f"cannot be read: {name} is not a text of one line")
    until = item.get("until")
    source = EntrySource(texts["owner"], None if until is None else _day(str(until)), texts["reason"])
    return entry_of(item.get("entry", "")), source, texts["comment"]


def _comment(comment: str) -> EntrySource:
    """Return the source in a comment. Only ``owner=`` and ``until=`` have a meaning; the rest is the reason."""
    settings: dict[str, list[str]] = {}
    rest = []
    # Each part is searched a fixed number of times, however many blanks it has.
    for part in _SEPARATOR.split(" ".join(comment.split())):
        key, is_setting, value = (piece.strip() for piece in part.partition("="))
        if is_setting and key.lower() in _KEYS:
            settings.setdefault(key.lower(), []).append(value)
        elif part.strip():
            rest.append(part.strip())
    days = {_day(text) for text in settings.get("until", ())}
    if len(days) > 1:
        raise ValueError(f"has several last days; allowed: one {_DAY_ALLOWED}")
    until = next(iter(days), None)
    return EntrySource(", ".join(settings.get("owner", ())), until, ", ".join(rest))


def _day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise ValueError(f"has the last day {text!r}, which cannot be read; allowed: {_DAY_ALLOWED}") from None


def _host_name(text: str) -> str | None:
    """Return a host name in A-labels and lower case; None if the text is not a host name."""
    name = "" if ":" in text or "/" in text else domain_key(text)
    labels = name.split(".")
    is_name = len(name) < 254 and all(map(_LABEL.fullmatch, labels)) and not _NUMERIC.fullmatch(labels[-1])
    return name if is_name else None


def _addresses(result: object) -> Entries:
    """Return the addresses of a host name as entries, or raise why there are none."""
    if not isinstance(result, (list, tuple)) or not result:
        raise ValueError(f"does not resolve: {result or 'no address'}")
    if len(set(result)) > MAX_ANSWERS:
        raise ValueError(f"resolves to {len(set(result)):,} addresses; allowed: at most {MAX_ANSWERS}")
    parse = Addresses().parser("reject")
    addresses: list[str] = []
    for address in sorted(set(result)):
        try:
            addresses += parse(address)
        except ValueError as error:
            raise ValueError(f"resolves to {address!r}, which {error}") from None
    return tuple(dict.fromkeys(addresses))
