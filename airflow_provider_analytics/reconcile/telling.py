"""Which websites of a plan are changed first: those that tell most about the service. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.api.verification import COMPARED, shows
from airflow_provider_analytics.reconcile.sending import Site

#: Number of lines above which a service may cut the lists of a website.
LONG_LIST = 10


def kinds_of(planned: Sequence[Site]) -> Iterator[list[Site]]:
    """Yield the websites of each kind of which there are several; deletions come last.

    Updates that are the only ones of their kind are one kind together: what a service does to fields that were not sent
    shows with each of them.
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
    """What a website shows of a service, once it was changed.

    :param values: fields whose values are no defaults, and those that are sent.
    :param lines: kinds of lines in its lists: services that drop lines drop those of a kind, or those behind the first.
    :param length: number of lines.
    """

    values: frozenset[str]
    lines: frozenset[str]
    length: int

    @property
    def all(self) -> frozenset[str]:
        """All kinds of what it has."""
        return self.values | self.lines


def telling_of(sites: Sequence[Site], records: Mapping[str, Mapping[str, Any]]) -> dict[str, Telling]:
    """Return what each website would tell, by its name."""
    found = {}
    for site in sites:
        record = records.get(str(site.todo.website_id), {})
        values = {name: normalise(name, record[name]) for name in COMPARED if shows(name, record)}
        sent_fields = {one.field for one in site.todo.fields}
        lists = {name: values.get(name, ()) for name in LINE_FIELDS}
        signs = frozenset(_sign(one, name in sent_fields) for name in lists for one in _kinds(name, lists[name]))
        named = frozenset(name for name, value in values.items() if value not in (FIELDS[name].default or False, ()))
        sent = frozenset(f"{name} is sent" for name in sent_fields)
        found[site.name] = Telling(named | sent, signs, sum(map(len, lists.values())))
    longest = max(found, key=lambda name: found[name].length)
    if found[longest].length > LONG_LIST:
        found[longest] = found[longest]._replace(lines=found[longest].lines | {"many"})
    return found


def _kinds(name: str, lines: Iterable[str]) -> frozenset[str]:
    return frozenset(f"{name} {sign}" for line in lines for sign in ("#", "/", "*") if sign in line)


def _sign(kind: str, is_sent: bool) -> str:
    """Return what tells a kind of lines in a list that is sent from the same kind in one that is not."""
    return kind if is_sent else f"{kind}, not sent"


def _lost(name: str, before: Mapping[str, Any], shown: Mapping[str, Any]) -> list[str]:
    """Return the lines of a list that are not shown any more."""
    if not shows(name, before) or not shows(name, shown):
        return []
    return [line for line in normalise(name, before[name]) if line not in normalise(name, shown[name])]


def _is_sent(name: str, site: Site) -> bool:
    return any(one.field == name for sent in site.result.sent for one in sent.fields)


def kept_nowhere_else(site: Site, changed: Sequence[Site]) -> bool:
    """Return whether what a website shows besides may be the doing of the service.

    A person is the likely cause only if another changed website kept what the service could have changed, too: a value
    that was not sent, and is another one than this website shows now; or lines of the kind that this website lost. Of
    a list, it has to be sent on both websites, or on none.
    """
    shown = site.result.record or {}
    others = [other for other in changed if other is not site and other.before is not None and other.result.sent]

    def kept(name: str, other: Site) -> bool:
        before = other.before or {}
        if _is_sent(name, other) != _is_sent(name, site):  # it was treated in another way
            return False
        if name in other.result.besides or not shows(name, before) or name not in shown:
            return False
        if name in LINE_FIELDS:
            lines = normalise(name, before[name])
            kinds = _kinds(name, _lost(name, site.before or {}, shown))
            return kinds <= _kinds(name, lines) if kinds else len(lines) > 1
        return bool(normalise(name, before[name]) != normalise(name, shown[name]))

    return not any(kept(name, other) for name in site.result.besides for other in others)


def altered(site: Site) -> bool:
    """Return whether a line that is gone is shown in another form, such as cut or in capitals: nobody else does so."""
    shown, sent = site.result.record or {}, site.result.sent[-1].settings if site.result.sent else {}

    def is_new(name: str, line: str) -> bool:
        return line not in normalise(name, (site.before or {})[name]) and line not in sent.get(name, ())

    return any(
        is_new(name, line) and (lost.startswith(line) or lost.casefold() == line.casefold())
        for name in site.result.besides.keys() & LINE_FIELDS.keys()
        for lost in _lost(name, site.before or {}, shown)
        for line in normalise(name, shown[name])
    )


def most_telling(
    sites: Sequence[Site],
    telling: Mapping[str, Telling],
    covered: set[str],
    doubted: tuple[Site, Mapping[str, Any], Collection[str]] | None,
) -> Site:
    """Return the website that tells most; after a doubt, the one that has most of what the doubted one has lost.

    :param doubted: a website that is not as expected, its record, and the fields that differ.
    """
    lost: frozenset[str] = frozenset()
    if doubted is not None:
        site, shown, _ = doubted
        lost = frozenset(
            _sign(one, _is_sent(name, site))
            for name in LINE_FIELDS
            for one in _kinds(name, _lost(name, site.before or {}, shown))
        )

    def key(site: Site) -> tuple[int, int, int]:
        own = telling[site.name]
        if doubted is not None:
            return len(own.lines & lost), len(own.values & set(doubted[2])), len(own.all - covered)
        return len(own.lines - covered), len(own.values - covered), own.length

    return max(sites, key=key)
