"""Choose the websites of a plan to change first: those that reveal most about the service. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_analytics.api.entries import line_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.api.verification import COMPARED, shows
from airflow_provider_analytics.reconcile.sending import Site

#: Number of lines above which a service may cut the lists of a website.
LONG_LIST = 10


def kinds_of(planned: Sequence[Site]) -> Iterator[list[Site]]:
    """Yield the websites of each kind of change with several websites; deletions come last.

    Updates that are the only ones of their kind form one kind together. Each of them reveals what a service does to
    fields that were not sent.
    """
    kinds: dict[tuple[str, ...], list[Site]] = {}
    for site in planned:
        names = [one.field for one in site.todo.fields] if site.todo.action == "update" else []
        kinds.setdefault((site.todo.action, *names), []).append(site)
    updates = [sites for kind, sites in kinds.items() if kind[0] == "update"]
    alone = [site for sites in updates if len(sites) == 1 for site in sites]
    updates = [*(sites for sites in updates if len(sites) > 1), alone]
    others = [kinds[kind,] for kind in ("create", "delete") if (kind,) in kinds]
    yield from (sites for sites in (*sorted(updates, key=len, reverse=True), *others) if len(sites) > 1)


class Telling(NamedTuple):
    """What a change of a website can reveal about the service.

    :param values: fields whose values are not the defaults, and fields that are sent.
    :param lines: kinds of lines in its lists. Services that drop lines drop one kind, or all lines but the first.
    :param length: number of lines.
    """

    values: frozenset[str]
    lines: frozenset[str]
    length: int

    @property
    def all(self) -> frozenset[str]:
        """All features of the website."""
        return self.values | self.lines


def telling_of(sites: Sequence[Site], records: Mapping[str, Mapping[str, Any]]) -> dict[str, Telling]:
    """Return what each website can reveal, by its name."""
    found = {}
    for site in sites:
        record = records.get(str(site.todo.website_id), {})
        values = {name: normalise(name, record[name]) for name in COMPARED if shows(name, record)}
        sent_fields = {one.field for one in site.todo.fields}
        lists = {name: values.get(name, ()) for name in LINE_FIELDS}
        features = frozenset(
            _feature(one, name in sent_fields) for name in lists for one in _line_kinds(name, lists[name])
        )
        named = frozenset(name for name, value in values.items() if value not in (FIELDS[name].default or False, ()))
        sent = frozenset(f"{name} is sent" for name in sent_fields)
        found[site.name] = Telling(named | sent, features, sum(map(len, lists.values())))
    longest = max(found, key=lambda name: found[name].length)
    if found[longest].length > LONG_LIST:
        found[longest] = found[longest]._replace(lines=found[longest].lines | {"many"})
    return found


def _line_kinds(name: str, lines: Iterable[str]) -> frozenset[str]:
    """Return the kinds of lines that a service may drop or write in another way."""
    key = LINE_FIELDS[name].key

    def signs(line: str) -> Iterator[str]:
        yield from (sign for sign in ("#", "/", "*") if sign in line)
        for case, other in (("lower case", line.upper()), ("upper case", line.lower())):
            if line_key(other, key) != line_key(line, key):
                yield case

    return frozenset(f"{name} {sign}" for line in lines for sign in signs(line))


def _feature(kind: str, is_sent: bool) -> str:
    """Return a label that distinguishes a kind of lines in a sent list from the same kind in other lists."""
    return kind if is_sent else f"{kind}, not sent"


def _lost_lines(name: str, before: Mapping[str, Any], record: Mapping[str, Any]) -> list[str]:
    """Return the lines of a list that are missing in the new record."""
    if not shows(name, before) or not shows(name, record):
        return []
    return [line for line in normalise(name, before[name]) if line not in normalise(name, record[name])]


def _is_sent(name: str, site: Site) -> bool:
    return any(one.field == name for sent in site.result.sent for one in sent.fields)


def kept_nowhere_else(site: Site, changed: Sequence[Site]) -> bool:
    """Return whether the service may have caused the additional changes on a website.

    A person is the likely cause only if another changed website kept something that the service could have changed:

    * a value that was not sent and differs from the current value on this website; or
    * lines of the kind that this website lost.

    A list must be sent on both websites or on neither.
    """
    record = site.result.record or {}
    others = [other for other in changed if other is not site and other.before is not None and other.result.sent]

    def kept(name: str, other: Site) -> bool:
        before = other.before or {}
        if _is_sent(name, other) != _is_sent(name, site):
            return False
        if name in other.result.besides or not shows(name, before) or name not in record:
            return False
        if name in LINE_FIELDS:
            lines = normalise(name, before[name])
            kinds = _line_kinds(name, _lost_lines(name, site.before or {}, record))
            return kinds <= _line_kinds(name, lines) if kinds else len(lines) > 1
        return bool(normalise(name, before[name]) != normalise(name, record[name]))

    return not any(kept(name, other) for name in site.result.besides for other in others)


def altered(site: Site) -> bool:
    """Return whether a missing line returned in another form, such as truncated or in capitals.

    Only the service does this.
    """
    record, sent = site.result.record or {}, site.result.sent[-1].settings if site.result.sent else {}

    def is_new(name: str, line: str) -> bool:
        return line not in normalise(name, (site.before or {})[name]) and line not in sent.get(name, ())

    return any(
        is_new(name, line) and (lost.startswith(line) or lost.casefold() == line.casefold())
        for name in site.result.besides.keys() & LINE_FIELDS.keys()
        for lost in _lost_lines(name, site.before or {}, record)
        for line in normalise(name, record[name])
    )


def most_telling(
    sites: Sequence[Site],
    telling: Mapping[str, Telling],
    covered: set[str],
    doubted: tuple[Site, Mapping[str, Any], Collection[str]] | None,
) -> Site:
    """Return the website that reveals most.

    If another website is not as expected, return the one with most of the features that the other one lost.

    :param doubted: a website that is not as expected, its record, and the fields that differ.
    """
    lost: frozenset[str] = frozenset()
    if doubted is not None:
        site, record, _ = doubted
        lost = frozenset(
            _feature(one, _is_sent(name, site))
            for name in LINE_FIELDS
            for one in _line_kinds(name, _lost_lines(name, site.before or {}, record))
        )

    def key(site: Site) -> tuple[int, int, int]:
        own = telling[site.name]
        if doubted is not None:
            return len(own.lines & lost), len(own.values & set(doubted[2])), own.length
        return len(own.lines - covered), len(own.values - covered), own.length

    return max(sites, key=key)
