"""Which websites of a plan are changed first: those that tell most about the service. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.api.verification import COMPARED, shows
from airflow_provider_analytics.reconcile.sending import Site

#: Number of lines above which a service may cut the lists of a website.
LONG_LIST = 10


def kinds_of(planned: Sequence[Site]) -> Iterator[list[Site]]:
    """Yield the websites of each kind of which there are several; deletions come last.

    Where no two updates are of the same kind, all updates are one: what a service does to fields that were not sent
    shows with each of them.
    """
    kinds: dict[tuple[str, ...], list[Site]] = {}
    for site in planned:
        names = [one.field for one in site.todo.fields] if site.todo.action == "update" else []
        kinds.setdefault((site.todo.action, *names), []).append(site)
    updates = [sites for kind, sites in kinds.items() if kind[0] == "update"]
    if updates and max(map(len, updates)) == 1:
        updates = [[site for sites in updates for site in sites]]
    others = [kinds[kind,] for kind in ("create", "delete") if (kind,) in kinds]
    yield from (sites for sites in (*sorted(updates, key=len, reverse=True), *others) if len(sites) > 1)


class Telling(NamedTuple):
    """What a website has that a service may change besides.

    :param values: fields whose values are no defaults.
    :param lines: kinds of lines in its lists: services that drop lines drop those of a kind, or those behind the first.
    :param length: number of lines.
    """

    values: frozenset[str]
    lines: frozenset[str]
    length: int


def telling_of(sites: Sequence[Site], records: Mapping[str, Mapping[str, Any]]) -> dict[str, Telling]:
    """Return what each website would tell, by its name."""
    found = {}
    for site in sites:
        record = records.get(str(site.todo.website_id), {})
        values = {name: normalise(name, record[name]) for name in COMPARED if shows(name, record)}
        lines = [line for name in LINE_FIELDS for line in values.get(name, ())]
        named = frozenset(name for name, value in values.items() if value not in (FIELDS[name].default, False, ()))
        kinds = frozenset(sign for sign in ("#", "/", "*") if any(sign in line for line in lines))
        found[site.name] = Telling(named, kinds, len(lines))
    longest = max(found, key=lambda name: found[name].length)
    if found[longest].length > LONG_LIST:
        found[longest] = found[longest]._replace(lines=found[longest].lines | {"many"})
    return found


def most_telling(
    sites: Sequence[Site], telling: Mapping[str, Telling], covered: set[str], doubted: Site | None
) -> Site:
    """Return the website that tells most; after a doubt, the one that has most of what the doubted one has."""

    def key(site: Site) -> tuple[int, int, int]:
        own = telling[site.name]
        if doubted is not None:
            like = telling[doubted.name]
            return len(own.lines & like.lines), len(own.values & like.values), own.length
        return len(own.lines - covered), len(own.values), own.length

    return max(sites, key=key)
