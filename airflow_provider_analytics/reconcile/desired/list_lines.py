# SPDX-License-Identifier: Apache-2.0
"""Parse the lines of a user's list: entries, host names, owners, reasons, and expiration dates. Pure functions.

For example, the line ``192.0.2.1  # office, owner=it@example.com, until=2027-01-31`` becomes the entry ``192.0.2.1``
with ``EntrySource(owner="it@example.com", until=date(2027, 1, 31), reason="office")``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, NamedTuple, Self

import msgspec

from airflow_provider_analytics.api.checks import nearest, one_of
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import (
    ALLOW,
    AS_IS,
    EXPAND_LIMIT,
    NETWORKS,
    Addresses,
    Entries,
    EntryType,
    each_line,
    entry_of,
    stripped,
)
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.readable import readable

#: Maximum number of host names in one list, and of addresses of one name.
MAX_NAMES, MAX_ANSWERS = 100, 64
#: Number of days before its expiration date from which on an entry is reported as expiring.
EXPIRING_DAYS = 30
#: Days for which a host name that does not resolve keeps its last addresses.
KEEP_UNRESOLVED_DAYS = 7

#: Keys of a line that is a dict.
_KEYS = ("entry", "owner", "until", "reason", "comment")
#: Separates the parts of a comment without runs of blanks; people forget the comma before a key.
_SEPARATOR = re.compile(r",| (?=(?:owner|until) ?=)", re.IGNORECASE)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
#: Last label of a text that is not a host name: of an address as the resolver accepts it, such as 0x7f.1 or 127.1, or
#: of a range of addresses.
_NUMERIC = re.compile(r"[\d-]+|0x[0-9a-f]*")
#: A setting in a comment: a word before an equals sign, unlike in ``https://wiki.example.com/?page=7``.
_SETTING = re.compile(r"(?:^| )([a-z_][\w-]*) ?=", re.IGNORECASE)
#: A date. In a comment, it is meant as an expiration date, or needs another form.
_DATE = re.compile(r"(?<![\w/.=-])(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4})(?![\d/-])")
#: Other words for the settings of a comment, for suggestions.
_SYNONYMS = {
    "until": ("expires", "expire", "expiry", "expiration", "exp", "end", "ends", "valid", "till", "to", "bis"),
    "owner": ("contact", "by", "from", "requester", "responsible", "who"),
}
_DAY_ALLOWED = "until=YYYY-MM-DD, such as until=2027-01-31"


#: A time with a time zone.
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a stored list table. The stored keys, by default the names of the fields, do not change."""


class EntrySource(Stored, frozen=True, rename={"removed_on": "left"}):
    """The source of a list entry.

    :param owner: who requested it; empty if unknown.
    :param until: its expiration date, the last day (UTC) on which it is valid; None if it does not expire.
    :param reason: the rest of its comment.
    :param names: host names that resolve to it.
    :param since: since when it is on the list, as ISO date; empty if unknown.
    :param removed_on: since when it is no longer on the list, as ISO date; empty if it is on the list. Its stored key
        is ``left``.
    """

    owner: str = ""
    until: date | None = None
    reason: str = ""
    names: Entries = ()
    since: str = ""
    removed_on: str = ""

    @property
    def text(self) -> str:
        """The source as text for people, such as ``until 2027-01-31, owner it@example.com, office Berlin``."""
        parts = []
        if self.until is not None and str(self.until) < self.removed_on:
            parts.append(f"expired, until {self.until}")
        elif self.until is not None:
            parts.append(f"until {self.until}")
        if self.owner:
            parts.append(f"owner {self.owner}")
        if self.reason:
            parts.append(self.reason)
        if self.names:
            parts.append(f"from {', '.join(self.names)}")
        return ", ".join(parts)

    def combine(self, other: EntrySource) -> EntrySource:
        """Return the source of an entry that is on the list twice; it expires only if both do."""
        until = None
        if self.until and other.until:
            until = max(self.until, other.until)
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return EntrySource(self.owner or other.owner, until, self.reason or other.reason, names)


class Resolution(Stored, frozen=True):
    """The last resolution of a host name.

    :param addresses: its addresses.
    :param at: when it was resolved.
    """

    addresses: Entries
    at: Moment


@dataclass(frozen=True)
class EntryList:
    """A list without its expired entries.

    For example, the list ``["192.0.2.1 # office", "vpn.example.com"]`` becomes
    ``EntryList(sources={"192.0.2.1": EntrySource(reason="office")}, names={"vpn.example.com": EntrySource()})``.

    :param sources: normalized entry to its source, in the order of the list.
    :param names: host name to its source.
    :param expired: expired entry or host name to its source.
    :param lines: entry to the lines to send for it, if these are not only the entry: its comment lines, then its own
        line, such as ``{"192.0.2.1": ("# Berlin", "192.0.2.1 # office")}``. The empty string maps to the comment lines
        at the end.
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

    @functools.cached_property
    def recorded(self) -> Mapping[str, EntrySource]:
        """The sources for the list table: those of its entries, and those of its expired entries, as removed ones."""
        recorded = dict(self.sources)
        for entry, source in self.expired.items():
            if source.until is not None:
                first_day_without = source.until + timedelta(days=1)
                recorded[entry] = msgspec.structs.replace(source, removed_on=str(first_day_without))
        return recorded

    def with_answers(self, resolved: Mapping[str, Resolution]) -> EntryList:
        """Return the list with the addresses of its host names."""
        lists = [self]
        for name, source in self.names.items():
            lists.append(
                EntryList(dict.fromkeys(resolved[name].addresses, msgspec.structs.replace(source, names=(name,))))
            )
        return merge_lists(lists)

    @property
    def size(self) -> int:
        """Number of its entries and of its comment lines at the end, the expired entries included."""
        return len(self.sources) + len(self.expired) + len(self.lines.get("", ()))

    def new_lines(self, entries: Entries) -> Entries:
        """Return the lines of a new list with these entries, with comment lines in their original places."""
        lines: list[str] = []
        for entry in entries:
            lines.extend(self.lines.get(entry, (entry,)))
        return (*lines, *self.lines.get("", ()))

    def expiring(self, today: date) -> dict[str, EntrySource]:
        """Return the entries and host names that expire soon."""
        limit = today + timedelta(days=EXPIRING_DAYS)
        found = {}
        for entry, source in (*self.sources.items(), *self.names.items()):
            # The addresses of a host name expire with it, so only the name is reported.
            is_address_of_a_name = bool(source.names)
            if source.until and source.until <= limit and not is_address_of_a_name:
                found[entry] = source
        return found


def merge_lists(lists: Sequence[EntryList]) -> EntryList:
    """Merge several lists; an entry has expired only if it has expired in all of them."""
    if len(lists) == 1:
        return lists[0]  # shared by many websites
    sources: dict[str, EntrySource] = {}
    names: dict[str, EntrySource] = {}
    expired: dict[str, EntrySource] = {}
    lines: dict[str, Entries] = {}
    last_comments: list[str] = []
    for entry_list in lists:
        _add_sources(sources, entry_list.sources)
        _add_sources(names, entry_list.names)
        _add_sources(expired, entry_list.expired)
        lines.update(entry_list.lines)
        last_comments += entry_list.lines.get("", ())
    for entry in expired.keys() & (sources.keys() | names.keys()):
        del expired[entry]
    if last_comments:
        lines[""] = tuple(last_comments)
    return EntryList(sources, names, expired, lines)


def _add_sources(found: dict[str, EntrySource], sources: Mapping[str, EntrySource]) -> None:
    for entry, source in sources.items():
        if entry in found:
            found[entry] = source.combine(found[entry])
        else:
            found[entry] = source


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

    A line is an entry or a host name. A comment can follow after ``#``. Its parts are separated by commas; the parts
    ``owner=...`` and ``until=YYYY-MM-DD`` have a meaning. Instead of a line, a list can contain a dict with ``entry``,
    ``owner``, ``until``, ``reason``, and ``comment``. The comment is sent with the entry when the entry is added.

    :param argument: name of the argument, for messages.
    :param value: a list, its JSON text, or a text with one entry per line.
    :param entry_type: type of its entries.
    :param networks: see :meth:`EntryType.parse`; all networks together can expand to at most :data:`EXPAND_LIMIT`.
    :param managed: whether the mode is managed: entries can then have an expiration date, because only a managed list
        can remove the entries that it added, but no comment to send.
    :param host_names: whether host names are allowed.
    :param is_for_one: whether the list is sent once, to one website: networks, expiration dates, and comments are
        allowed.
    :raises ValueError: if it is neither a list nor a text.
    :raises UnusableEntriesError: if lines cannot be read; the message lists them with their numbers.
    """
    networks = ALLOW if is_for_one else one_of("networks", networks, NETWORKS)

    left = EXPAND_LIMIT

    def read(value: object) -> _Line:
        nonlocal left
        line = _parse_line(value)
        if line.source.until and not managed and not is_for_one:
            raise ValueError(
                "has an expiration date: until needs the mode managed, which records the entries that it adds. Set "
                "state_path, or the mode (in a file: modes)"
            )
        if line.comment and managed and not is_for_one:
            raise ValueError("has a comment, which the mode managed does not allow; use reason")
        entries, is_name = _entries(line.text, entry_type, networks, left, host_names=host_names)
        if len(entries) > 1:
            left -= len(entries)
        return line._replace(entries=entries, is_name=is_name)

    alternatives = [entry_type.allowed]
    if networks == "reject" and entry_type.networks_allowed:
        alternatives.append(entry_type.networks_allowed)
    if host_names:
        alternatives.append("one host name")
    allowed = ", or ".join(alternatives)
    today = now().date()
    found: list[EntryList] = []
    comments: list[str] = []  # the comment lines above the next entry
    for line in each_line(argument, value, read, allowed):
        sources = dict.fromkeys(line.entries, line.source)
        is_expired = line.source.until is not None and line.source.until < today
        if line.entries and not is_expired and not line.is_name:
            found.append(EntryList(sources, lines=_lines_to_send(line, comments, is_as_is=networks == AS_IS)))
            comments = []
            continue
        if line.comment:
            comments.append(line.comment)
        if is_expired:
            found.append(EntryList(expired=sources))
        elif line.is_name:
            found.append(EntryList(names=sources))
    if comments:
        found.append(EntryList(lines={"": tuple(comments)}))
    entry_list = merge_lists(found)
    if len(entry_list.names) > MAX_NAMES:
        raise ValueError(f"{argument} has {len(entry_list.names):,} host names. Allowed: at most {MAX_NAMES}")
    return entry_list


class _Line(NamedTuple):
    """A line of a list.

    :param text: its entry, as written; empty for a comment line.
    :param source: the source of its entries.
    :param comment: the comment to send, such as ``# Berlin``; empty if there is none.
    :param entries: its normalized entries, or its host name. A network can be expanded to many addresses.
    :param is_name: whether it has a host name.
    """

    text: str
    source: EntrySource
    comment: str = ""
    entries: Entries = ()
    is_name: bool = False


def _lines_to_send(line: _Line, comments: Sequence[str], *, is_as_is: bool) -> dict[str, Entries]:
    """Return the lines to send for the entries of a line, see :class:`EntryList`.

    :param comments: the comment lines above it; the first entry gets them.
    :param is_as_is: whether the entry is sent as it is written.
    """
    lines: dict[str, Entries] = {}
    for entry in line.entries:
        written = line.text if is_as_is else entry
        sent = f"{written} {line.comment}".strip()
        if comments or sent != entry:
            lines[entry] = (*comments, sent)
        comments = ()
    return lines


def _entries(text: str, entry_type: EntryType, networks: str, limit: int, *, host_names: bool) -> tuple[Entries, bool]:
    """Return the entries of a line, or its host name, and whether it is a host name."""
    if not text:
        return (), False
    name = _host_name(text)
    if name is not None and host_names:
        return (name,), True
    try:
        return entry_type.parse(text, networks, limit), False
    except ValueError:
        if name is None or not isinstance(entry_type, Addresses):
            raise
        raise ValueError(
            "is not an IP address; only SyncExcludedIpsOperator resolves host names, with resolve_names=True and "
            "mode='managed'"
        ) from None


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
            problem = f"{name} {error}"
        before = last.get(name)
        if before is None:
            unresolved.append(f"{problem}; there is no last answer")
            continue
        until = before.at + timedelta(days=KEEP_UNRESOLVED_DAYS)
        answer = f"its last answer, of {before.at:%Y-%m-%d}"
        if until < at:
            unresolved.append(f"{problem}; {answer}, is older than {KEEP_UNRESOLVED_DAYS} days")
            continue
        found[name] = before
        kept = f"Its last answer of {before.at:%Y-%m-%d} is used until {until:%Y-%m-%d}"
        warnings.append(f"{problem}. {kept}: {', '.join(before.addresses)}")
    if unresolved:
        raise AnalyticsError(
            f"{'; '.join(unresolved)}.", "No changes were sent. Correct the host name, or remove it from the list."
        )
    return found, warnings


def _parse_line(line: object) -> _Line:
    """Return a line of a list, without its entries."""
    if isinstance(line, Mapping):
        return _parse_keys(line)
    text = entry_of(line)
    if not text:
        return _Line("", EntrySource())
    comment = stripped(str(line)).removeprefix(text).strip().lstrip("#")
    return _Line(text, _parse_comment(comment))


def _parse_keys(keys: Mapping[Any, Any]) -> _Line:
    """Return a line that is a dict, such as ``{"entry": "192.0.2.1", "owner": "it@example.com"}``."""
    allowed = f"Allowed: {', '.join(_KEYS)}"
    unknown = sorted(map(str, keys.keys() - set(_KEYS)))
    if unknown:
        raise ValueError(f"cannot be read: {unknown[0]} is not known. {allowed}")
    if "entry" not in keys and "comment" not in keys:
        raise ValueError(f"cannot be read: entry is missing. {allowed}")
    texts = {}
    for name in ("owner", "reason", "comment"):
        text = keys.get(name) or ""
        if not isinstance(text, str) or len(text.splitlines()) > 1:
            raise ValueError(f"cannot be read: {name} is not a text of one line")
        texts[name] = text
    until = None
    if keys.get("until") is not None:
        until = _parse_day(str(keys["until"]))
    comment = texts["comment"]
    if comment:
        # A further # is a part of the comment.
        comment = f"#{comment}" if comment.startswith("#") else f"# {comment}"
    return _Line(entry_of(keys.get("entry", "")), EntrySource(texts["owner"], until, texts["reason"]), comment)


def _parse_comment(comment: str) -> EntrySource:
    """Return the source in a comment. Only ``owner=`` and ``until=`` have a meaning; the rest is the reason.

    A misspelled setting would become the reason, and the entry would never expire, so it is rejected.

    For example, ``office, owner=it@example.com``.
    """
    owners, days, reasons = [], set(), []
    # Each part is searched a fixed number of times, however many blanks it has.
    for part in _SEPARATOR.split(" ".join(comment.split())):
        key, is_setting, value = map(str.strip, part.partition("="))
        if is_setting and key.lower() == "owner":
            owners.append(value)
        elif is_setting and key.lower() == "until":
            days.add(_parse_day(value))
        elif part.strip():
            _check_reason(part.strip())
            reasons.append(part.strip())
    if len(days) > 1:
        raise ValueError(f"has several expiration dates. Allowed: one {_DAY_ALLOWED}")
    return EntrySource(", ".join(owners), next(iter(days), None), ", ".join(reasons))


def _check_reason(text: str) -> None:
    """Check a part of a comment without a meaning.

    :raises ValueError: if it looks like a misspelled setting: the entry would never expire.
    """
    setting = _SETTING.search(text)
    if setting:
        word = setting[1].lower()
        near = nearest(word, ("owner", "until"), cutoff=0.5)
        for name, synonyms in _SYNONYMS.items():
            if word in synonyms:
                near = name
        hint = f"The closest is {near}=" if near else "Allowed: owner= and until="
        raise ValueError(f"has {readable(setting[1])}= in its comment, which has no meaning. {hint}")
    day = _DATE.search(text)
    if day:
        raise ValueError(
            f"has the date {day[0]} in its comment. The closest is until=. If it does not expire then, write the date "
            "in another form, such as 31 January 2027"
        )


def _parse_day(text: str) -> date:
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        raise ValueError(f"has the expiration date {text!r}, which cannot be read. Allowed: {_DAY_ALLOWED}") from None


def _host_name(text: str) -> str | None:
    """Return a host name in A-labels and lower case; None if the text is not a host name."""
    if ":" in text or "/" in text:
        return None
    name = domain_key(text)
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)) or _NUMERIC.fullmatch(labels[-1]):
        return None
    return name


def _addresses(result: object) -> Entries:
    """Return the addresses of a host name as entries, or raise why there are none."""
    if not isinstance(result, (list, tuple)) or not result:
        raise ValueError(f"does not resolve: {result or 'no address'}")
    if len(set(result)) > MAX_ANSWERS:
        raise ValueError(f"resolves to {len(set(result)):,} addresses. Allowed: at most {MAX_ANSWERS}")
    addresses: list[str] = []
    for address in sorted(set(result)):
        try:
            addresses += Addresses().parse(address, "reject")
        except ValueError as error:
            raise ValueError(f"resolves to {address!r}, which {error}") from None
    return tuple(dict.fromkeys(addresses))
