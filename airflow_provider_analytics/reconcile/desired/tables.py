# SPDX-License-Identifier: Apache-2.0
"""The tables of managed lists: the entries of a list, and the entries removed from it. Pure functions on text.

A managed list changes its own entries only, even those that a person typed first; lines with comments belong to people.
The service cannot store this, so each list has a small file, its table. A run writes it before it sends the first
change. Nothing depends on the changes that follow: after a killed task, a lost response, or a late request, the next
run completes the work.

An entry is removed from a website if the table has it for that website, the list no longer has it, and no other list in
the same folder has it. A removed entry remains in the table for :data:`KEPT_DAYS`, so that it is removed
again if a late request adds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import Any, Self

import msgspec

from airflow_provider_analytics.api.domains import MAX_PATTERNS, domain_key, is_pattern, matches
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import LINE_FIELDS, normalize, website_of
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import counted, readable
from airflow_provider_analytics.reconcile.desired.list_lines import EntrySource, Moment, Resolution, Stored

VERSION = 2
_NOTHING_SENT = "No changes were sent."
#: Scope of the entries for all websites. The other scopes are domains, patterns, and ids, with or without exceptions,
#: such as ``www.example.com``, ``7``, and ``*.example.com except shop.example.com``.
EVERYWHERE = "*"
_EXCEPT = " except "
#: Maximum number of results that are kept for websites in the same scopes: each can have all entries of a table.
_MAX_SETTLED = 256
#: Days for which an entry remains in the table after it was removed from the list.
KEPT_DAYS = 90
#: Days after its last run for which a list protects its entries from other lists.
SPARING_DAYS = 30

#: Scope to entry to its source, such as ``{"*": {"192.0.2.1": EntrySource(owner="it@example.com")}}``.
Scopes = Mapping[str, Mapping[str, EntrySource]]
#: List field to scopes, such as ``{"exclude_ips": scopes}``.
Rows = Mapping[str, Scopes]


def digest_of(rows: Rows) -> str:
    """Return a digest of the entries of a list; equal for equal entries in equal scopes."""
    entries: dict[str, dict[str, list[str]]] = {}
    for name, scopes in rows.items():
        entries[name] = {scope: sorted(sources) for scope, sources in scopes.items()}
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()[:16]


def scope_of(selector: str, exceptions: Iterable[str] = ()) -> str:
    """Return the scope of a selector, without the websites that the exceptions match."""
    scope = selector if is_pattern(selector) or selector.isdigit() else domain_key(selector)
    named = ", ".join(sorted(exceptions))
    return f"{scope}{_EXCEPT}{named}" if named else scope


@lru_cache(maxsize=10_000)
def _exceptions_of(scope: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the exceptions of a scope: the keys of domains and ids, and the patterns."""
    named = [selector for selector in scope.partition(_EXCEPT)[2].split(", ") if selector]
    exact = frozenset(domain_key(selector) for selector in named if not is_pattern(selector))
    return exact, tuple(filter(is_pattern, named))


def _is_excepted(scope: str, domain: str, website_id: str) -> bool:
    """Return whether a website is an exception of a scope."""
    exact, patterns = _exceptions_of(scope)
    if website_id in exact or domain_key(domain) in exact:
        return True
    return any(matches(pattern, domain) for pattern in patterns)


@dataclass(frozen=True)
class Identity:
    """The owner of a table; its domains and ids are valid only there.

    :param service: base URL of the service.
    :param account: id of the account; None if the account record has none.
    :param list: name of the list.
    """

    service: str
    account: str | None
    list: str


class Run(Stored, frozen=True):
    """The run that wrote a table.

    :param name: ``<dag id>/<run id>``.
    :param task: task id.
    :param began: start of the try.
    :param map_index: number of the mapped task; -1 without a mapping.
    :param entries: digest of the entries of the list in this run, for mapped tasks that share it.
    """

    name: str
    task: str
    began: Moment
    map_index: int = -1
    entries: str = ""

    def is_other_part(self, other: Run) -> bool:
        """Return whether another mapped task of the same task and run has other entries."""
        is_same_task = (self.name, self.task) == (other.name, other.task)
        return is_same_task and self.map_index != other.map_index and self.entries != other.entries


class _StoredGroup(Stored, frozen=True):
    """Scopes with equal rows.

    :param entries: entry to the number of its source.
    """

    scopes: tuple[str, ...]
    entries: dict[str, int]


class _StoredTable(Stored, frozen=True):
    """A stored :class:`Table`. It contains equal sources, and scopes with equal rows, only once."""

    version: int
    service: str
    account: str | None
    list: str
    run: Run | None
    names: dict[str, Resolution]
    sources: tuple[EntrySource, ...]
    rows: dict[str, tuple[_StoredGroup, ...]]


class _StoredVersion(msgspec.Struct):
    version: Any


@dataclass(frozen=True)
class Table:
    """The entries of a list, and the entries removed from it in the last :data:`KEPT_DAYS`.

    For example, the rows ``{"exclude_ips": {"*": {"192.0.2.1": EntrySource(since="2026-11-24")}}}``.

    :param identity: the list, and its service and account.
    :param rows: list field to scope to entry to its source.
    :param names: host name on the list to its last resolution.
    :param run: the run that wrote it last; None if it was never written.
    """

    identity: Identity
    rows: Rows = field(default_factory=dict)
    names: Mapping[str, Resolution] = field(default_factory=dict)
    run: Run | None = None

    @classmethod
    def parse(cls, text: str, path: str) -> Self:
        """Parse a table.

        :param path: path of the file, for messages.
        :raises GuardError: if the text is not a table, or has another version.
        """
        try:
            version = msgspec.json.decode(text, type=_StoredVersion).version
            if version != VERSION:
                problem = f"The list table has version {version!r}, but this package supports {VERSION}. File: {path}."
                remedy = "Upgrade airflow-provider-analytics, or delete the file: the list manages its entries again."
                raise GuardError(problem, f"{_NOTHING_SENT} {remedy}")
            stored = msgspec.json.decode(text, type=_StoredTable)
            rows = _rows_of(stored)
            _check_patterns(rows)
        except (ValueError, IndexError, RecursionError) as error:
            raise GuardError(
                f"This is not a list table: {path} ({error!r}).",
                f"{_NOTHING_SENT} Restore its last good version, or delete it. Without a table, the list manages its "
                "entries again, and entries that were removed before remain on the websites.",
            ) from error
        return cls(Identity(stored.service, stored.account, stored.list), rows, stored.names, stored.run)

    def checked(self, identity: Identity, path: str) -> Self:
        """Return the table, if it belongs to a service, an account and a list.

        :raises GuardError: if it belongs to something else.
        """
        mine, its = asdict(identity), asdict(self.identity)
        differing = [f"{name} is {its[name]!r}, here it is {mine[name]!r}" for name in mine if its[name] != mine[name]]
        if differing:
            problem = (
                f"The list table belongs to another service, account, or list: {'; '.join(differing)}. File: {path}."
            )
            remedy = "If only the URL changed, correct service in the file. Otherwise, move it out of the state folder."
            raise GuardError(problem, f"{_NOTHING_SENT} {remedy}")
        return self

    def render(self) -> str:
        """Return the table as JSON text."""
        numbers: dict[EntrySource, int] = {}
        rows: dict[str, tuple[_StoredGroup, ...]] = {}
        for name, scopes in sorted(self.rows.items()):
            rows[name] = _groups_of(scopes, numbers)
        stored = _StoredTable(
            VERSION, **asdict(self.identity), run=self.run, names=dict(self.names), sources=tuple(numbers), rows=rows
        )
        return msgspec.json.format(msgspec.json.encode(stored), indent=1).decode() + "\n"

    def with_run(
        self, scopes: Rows, names: Mapping[str, Resolution], run: Run, today: date, *, only_announced: bool = False
    ) -> Self:
        """Return the table to write before changes are sent.

        :param scopes: the entries that the list has now. All entries of a missing scope were removed.
        :param names: host name on the list to its last resolution.
        :param only_announced: note the entries of the list, but no removed ones yet: a guard can still block
            the plan.
        """
        removal_day = "" if only_announced else today.isoformat()
        rows = dict(self.rows)
        for name, now in scopes.items():
            before = self.rows.get(name, {})
            rows[name] = _combined(before, now, lambda mine, listed: _updated_rows(mine, listed, today, removal_day))
        return replace(self, rows=rows, names=names, run=run)

    def with_rows_of(self, other: Self) -> Self:
        """Return the table with the rows of another one, too; another task wrote it at the same time."""
        rows: dict[str, Scopes] = {}
        for name in dict.fromkeys((*self.rows, *other.rows)):
            rows[name] = _combined(self.rows.get(name, {}), other.rows.get(name, {}), _with_rows)
        return replace(self, rows=rows, run=other.run)

    def scopes_of(self, name: str, record: Record) -> tuple[str, ...]:
        """Return the scopes of a list field that a website is in, such as ``("*", "www.example.com")``."""
        domain, website_id = website_of(record)
        by_selector = self._by_selector.get(name, {})
        # There might be thousands of domains, which are not compared one by one.
        selectors = [EVERYWHERE, domain_key(domain), website_id]
        selectors += [pattern for pattern in self._patterns.get(name, ()) if matches(pattern, domain)]
        scopes: list[str] = []
        for selector in dict.fromkeys(selectors):
            for scope in by_selector.get(selector, ()):
                if not _is_excepted(scope, domain, website_id):
                    scopes.append(scope)
        return tuple(scopes)

    @cached_property
    def _by_selector(self) -> dict[str, dict[str, list[str]]]:
        """List field to selector to its scopes, with and without exceptions."""
        found: dict[str, dict[str, list[str]]] = {}
        for name, scopes in self.rows.items():
            by_selector: dict[str, list[str]] = {}
            for scope in scopes:
                by_selector.setdefault(scope.partition(_EXCEPT)[0], []).append(scope)
            found[name] = by_selector
        return found

    @cached_property
    def _patterns(self) -> dict[str, list[str]]:
        """List field to the patterns that are compared with each website."""
        return {name: list(filter(is_pattern, by_selector)) for name, by_selector in self._by_selector.items()}

    def entries_in(self, name: str, scopes: Iterable[str]) -> Mapping[str, EntrySource]:
        """Return the rows of some scopes of a list field; an entry was removed if it was removed from all."""
        distinct = _distinct({scope: self.rows[name][scope] for scope in scopes})
        if len(distinct) == 1:
            return distinct[0]
        found: dict[str, EntrySource] = {}
        for rows in distinct:
            for entry, source in rows.items():
                if entry not in found or not source.removed_on:
                    found[entry] = source
        return found

    def entries_of(self, name: str, record: Record) -> Mapping[str, EntrySource]:
        """Return the rows of a list field for a website, including removed entries."""
        return self.entries_in(name, self.scopes_of(name, record))

    def items(self, name: str) -> dict[str, EntrySource]:
        """Return the entries that the list has, in all scopes, with host names in place of their addresses."""
        found: dict[str, EntrySource] = {}
        for sources in _distinct(self.rows.get(name, {})):
            for entry, source in sources.items():
                if not source.removed_on:
                    found |= dict.fromkeys(source.names or (entry,), source)
        return found

    def protects(self, today: date) -> bool:
        """Return whether other lists keep the entries of this one, because it ran in the last :data:`SPARING_DAYS`."""
        return self.run is not None and today - self.run.began.date() <= timedelta(days=SPARING_DAYS)


def _with_rows(mine: Mapping[str, EntrySource], others: Mapping[str, EntrySource]) -> Mapping[str, EntrySource]:
    return mine if mine is others else {**mine, **others}


def _distinct(scopes: Scopes) -> list[Mapping[str, EntrySource]]:
    """Return the rows of scopes. Thousands of scopes can share the same rows."""
    return list({id(rows): rows for rows in scopes.values()}.values())


def _combined(
    first: Scopes,
    other: Scopes,
    combine: Callable[[Mapping[str, EntrySource], Mapping[str, EntrySource]], Mapping[str, EntrySource]],
) -> Scopes:
    """Combine the rows of each scope; scopes that share their rows do so afterwards, too."""
    nothing: Mapping[str, EntrySource] = {}
    done: dict[tuple[int, int], Mapping[str, EntrySource]] = {}
    combined = {}
    for scope in dict.fromkeys((*first, *other)):
        rows = first.get(scope, nothing), other.get(scope, nothing)
        key = id(rows[0]), id(rows[1])
        if key not in done:
            done[key] = combine(*rows)
        combined[scope] = done[key]
    return combined


def _rows_of(stored: _StoredTable) -> Rows:
    """Return the rows of a stored table.

    :raises IndexError: if the number of a source is too high.
    """
    rows: dict[str, Scopes] = {}
    for name, groups in stored.rows.items():
        scopes: dict[str, Mapping[str, EntrySource]] = {}
        for group in groups:
            entries = {entry: stored.sources[number] for entry, number in group.entries.items()}
            scopes.update(dict.fromkeys(group.scopes, entries))
        rows[name] = scopes
    return rows


def _check_patterns(rows: Rows) -> None:
    """Raise :class:`ValueError` if each website would be compared with too many patterns."""
    for name, scopes in rows.items():
        count = 0
        for scope in filter(is_pattern, scopes):
            _exact, patterns = _exceptions_of(scope)
            count += 1 + len(patterns)
        if count > MAX_PATTERNS:
            raise ValueError(f"{name} has {counted(count, 'pattern')}. Allowed: at most {MAX_PATTERNS:,}")


def _groups_of(scopes: Scopes, numbers: dict[EntrySource, int]) -> tuple[_StoredGroup, ...]:
    """Return the scopes of a list field, with equal rows together.

    :param numbers: source to its number; new sources are added.
    """
    groups: dict[tuple[tuple[str, int], ...], list[str]] = {}
    known: dict[int, list[str]] = {}
    for scope, sources in sorted(scopes.items()):
        if id(sources) not in known:
            entries = tuple(
                (entry, numbers.setdefault(source, len(numbers))) for entry, source in sorted(sources.items())
            )
            known[id(sources)] = groups.setdefault(entries, []) if entries else []
        known[id(sources)].append(scope)
    return tuple(_StoredGroup(tuple(group), dict(entries)) for entries, group in groups.items())


@dataclass(eq=False)
class ListTables:
    """The table of the list of a run, and the tables of the other lists in its folder.

    :param before: the table as it was read.
    :param others: the other tables, as they were read last.
    :param run: this run.
    :param today: the day (UTC).
    :param scopes: the entries that the list has now.
    :param names: host name on the list to its resolution.
    """

    before: Table
    others: Sequence[Table]
    run: Run
    today: date
    scopes: Rows
    names: Mapping[str, Resolution] = field(default_factory=dict)
    # Cached, because most websites are in the same scopes.
    _settled: dict[Any, tuple[Entries, Mapping[str, str]]] = field(default_factory=dict, init=False)

    @cached_property
    def table(self) -> Table:
        """The table with this run; written before changes are sent."""
        return self.before.with_run(self.scopes, self.names, self.run, self.today)

    def read_others(self, others: Sequence[Table]) -> None:
        """Take over the other tables as they are now."""
        self.others = others
        self._settled.clear()

    def owned(self, name: str, record: Record) -> Entries:
        """Return the entries that the list can remove from a website."""
        owned, _kept = self._settle(name, record)
        return owned

    def kept(self, name: str, record: Record) -> Mapping[str, str]:
        """Return the entries that the list must not remove, because other lists have them: entry to name of list."""
        _owned, kept = self._settle(name, record)
        return kept

    def _settle(self, name: str, record: Record) -> tuple[Entries, Mapping[str, str]]:
        scopes = self.table.scopes_of(name, record)
        protecting = [(other, other.scopes_of(name, record)) for other in self.others if other.protects(self.today)]
        key = (name, scopes, tuple(their_scopes for _, their_scopes in protecting))
        if key not in self._settled:
            if len(self._settled) >= _MAX_SETTLED:
                self._settled.clear()
            list_of: dict[str, str] = {}
            for other, their_scopes in protecting:
                theirs = other.entries_in(name, their_scopes)
                list_of |= {entry: other.identity.list for entry, source in theirs.items() if not source.removed_on}
            owned: list[str] = []
            kept: dict[str, str] = {}
            for entry in self.table.entries_in(name, scopes):
                if entry in list_of:
                    kept[entry] = list_of[entry]
                else:
                    owned.append(entry)
            self._settled[key] = tuple(owned), kept
        return self._settled[key]

    def doubts(self, record: Record) -> bool:
        """Return whether an entry that this run removes is missing in a record, which can be stale or shortened."""
        for name in self.before.rows:
            now = self.table.entries_of(name, record)
            present = entries_of(name, record)
            for entry, source in self.before.entries_of(name, record).items():
                is_removed_now = not source.removed_on and now[entry].removed_on
                if is_removed_now and entry not in present:
                    return True
        return False


def _updated_rows(
    before: Mapping[str, EntrySource], now: Mapping[str, EntrySource], today: date, removal_day: str
) -> dict[str, EntrySource]:
    """Return the rows of a scope after this run.

    :param before: its rows before.
    :param now: the entries that the list has now. Expired entries are in it as removed ones.
    :param removal_day: the day to note for removed entries; empty to note none.
    """
    forgotten = (today - timedelta(days=KEPT_DAYS)).isoformat()
    rows: dict[str, EntrySource] = {}
    known: dict[int, EntrySource] = {}  # thousands of entries can share a source
    for entry, source in before.items():
        is_listed = entry in now and not now[entry].removed_on
        removed_on = source.removed_on or removal_day
        is_forgotten = bool(removed_on) and removed_on < forgotten
        if is_listed or is_forgotten:
            continue
        if entry in now:  # expired: its date might have been edited
            rows[entry] = _row(now[entry], source.since, removed_on)
        else:
            rows[entry] = known.setdefault(id(source), msgspec.structs.replace(source, removed_on=removed_on))
    for entry, source in now.items():
        if source.removed_on:
            continue
        since = today.isoformat()
        if entry in before and not before[entry].removed_on:
            since = before[entry].since
        rows[entry] = _row(source, since, "")
    return rows


def _row(source: EntrySource, since: str, removed_on: str) -> EntrySource:
    """Return the row of an entry. A comment can contain anything, even a key."""
    owner, reason = readable(source.owner), readable(source.reason)
    return msgspec.structs.replace(source, owner=owner, reason=reason, since=since, removed_on=removed_on)


def entries_of(name: str, record: Record, *, plain: bool = False) -> set[str]:
    """Return the entries of a website's list; none if the record does not contain it.

    :param plain: only the entries of lines without a comment.
    """
    lines = normalize(name, record.get(name))
    if not isinstance(lines, tuple):
        return set()
    if plain:
        lines = [line for line in lines if "#" not in line]
    return set(map(LINE_FIELDS[name].key, lines)) - {""}
