"""Report what ledgers of managed lists own, and their problems, without a run. Pure functions."""

from __future__ import annotations

import ipaddress
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.reconcile.ledger import Identity, Ledger, Owned, OwnedWebsite
from airflow_provider_analytics.reconcile.maintained import Source
from airflow_provider_analytics.reconcile.plan import website_of

#: Columns of the rows that :func:`why` returns.
COLUMNS = ("entry", "list", "websites", "owner", "since", "until", "host name", "reason")


@dataclass(frozen=True)
class Service:
    """The current state of a service.

    :param address: its base URL.
    :param account: id of the account.
    :param records: records of all its websites.
    """

    address: str
    account: str | None
    records: Iterable[Mapping[str, Any]]


def read_ledger(text: str, path: str) -> Ledger:
    """Parse a ledger of any service and list.

    :raises ValueError: if the text is not a ledger, or has another version.
    """
    try:
        data = json.loads(text)
        identity = Identity(data["service"], data["account"], data["list"])
    except (ValueError, KeyError, TypeError):
        identity = Identity("", None, "")  # parsing the ledger raises the detailed error
    return Ledger.parse(text, identity, path)


def describe(ledger: Ledger) -> str:
    """Return one line: the list, and the number of entries that it owns."""
    owned = [website.owned for website in ledger.websites.values()]
    numbers = Counter(dict.fromkeys(ledger.lists, 0))
    for one in owned:
        numbers.update({name: len(entries) for name, entries in one.items()})
    entries = "; ".join(f"{name}: {number:,} entries" for name, number in sorted(numbers.items())) or "no entries"
    number = sum(any(one.values()) for one in owned)
    websites = "1 website" if number == 1 else f"{number:,} websites"
    identity = ledger.identity
    account = "" if identity.account is None else f", account {identity.account}"
    return readable(f"list {identity.list!r} of {identity.service}{account} owns on {websites}: {entries}", None)


def check(ledgers: Mapping[str, Ledger], service: Service | None = None) -> dict[str, list[str]]:
    """Return the problems of each ledger, by path.

    :param ledgers: path to ledger.
    :param service: service to compare with; None checks only the ledgers themselves and against each other.
    """
    found = {path: list(_check_alone(ledger)) for path, ledger in ledgers.items()}
    if service:
        ids = {website_of(record)[1]: record for record in service.records}
        domains = {domain_key(website_of(record)[0]): record for record in ids.values()}
        for path, ledger in ledgers.items():
            belongs = (ledger.identity.service, ledger.identity.account)
            if belongs == (service.address, service.account):
                found[path] += _check_against_service(ledger, ids, domains)
            else:
                here = f"{service.address}, account {service.account}"
                found[path].append(f"not compared with the websites: the connection is for {here}")
    for path, text in _check_overlaps(ledgers):
        found[path].append(text)
    return {path: [readable(text, None) for text in texts] for path, texts in found.items()}


def why(ledgers: Iterable[Ledger], entry: str | None, service: Service | None = None) -> list[list[str]]:
    """Return a row per entry and list: entry, list, number of websites, and source (:data:`COLUMNS`).

    :param entry: an entry of any list, or an address in a listed network; None for all entries.
    :param service: service whose websites are searched for entries that no ledger owns.
    """
    rows: list[list[str]] = []
    owned: dict[tuple[str, str], set[str]] = defaultdict(set)
    for ledger in ledgers:
        belongs = service is None or (ledger.identity.service, ledger.identity.account) == (
            service.address,
            service.account,
        )
        found: Counter[tuple[str, str]] = Counter()
        for key, website in ledger.websites.items():
            for name, entries in website.owned.items():
                for one in entries:
                    found[name, one] += 1
                    if belongs:
                        owned[name, one].add(key)
        found.update({(name, one): 0 for name, entries in ledger.lists.items() for one in entries})
        for (name, one), number in sorted(found.items()):
            names = ledger.sources.get(name, {}).get(one, Source()).names
            if entry is None or entry.lower() in names or _matches(name, entry, one):
                source = ledger.sources.get(name, {}).get(one, Source())
                gone = _has_left(one, ledger.lists.get(name), ledger.sources.get(name, {}))
                since = f" since {source.left}" if source.left else ""
                reason = ", ".join(filter(None, (f"no longer on the list{since}" if gone else "", source.reason)))
                until = str(source.until or "")
                source_cells = [source.owner, source.since, until, ", ".join(source.names), reason]
                rows.append([one, f"{ledger.identity.list} ({name})", f"{number:,}", *source_cells])
    manual: Counter[tuple[str, str]] = Counter()
    for record in service.records if service else ():
        website_id = website_of(record)[1]
        for name in LINE_FIELDS:
            lines = normalise(name, record.get(name))
            keys = {LINE_FIELDS[name].key(line) for line in lines} if isinstance(lines, tuple) else set()
            manual.update((name, one) for one in keys - {""} if website_id not in owned[name, one])
    for (name, one), number in sorted(manual.items()):
        if entry is None or _matches(name, entry, one):
            rows.append([one, f"added manually ({name})", f"{number:,}", "", "", "", "", ""])
    return [[readable(cell) for cell in row] for row in rows]


def _has_left(entry: str, listed: Collection[str] | None, sources: Mapping[str, Source]) -> bool:
    """Return whether an owned entry is no longer on the list."""
    if entry in sources:
        return bool(sources[entry].left)
    return listed is not None and entry not in listed


def _matches(name: str, requested: str, entry: str) -> bool:
    """Return whether an entry of a list is the requested one, or shares addresses with it."""
    if LINE_FIELDS[name].key(requested) == entry:
        return True
    try:
        one, other = (ipaddress.ip_network(text, strict=False) for text in (requested, entry))
        return one.version == other.version and one.overlaps(other)
    except ValueError:
        return False


def _check_alone(ledger: Ledger) -> Iterator[str]:
    if ledger.is_open and ledger.owner:
        yield f"{ledger.owner} took the ledger at {ledger.owner.since} and has not finished: it runs, or was killed"
    for key, website in ledger.websites.items():
        for name, entries in _entries(website.claimed, website.carried):
            yield f"{_name(key, website)}: {name}: outcome unknown until the next run: {', '.join(entries)}"
        for name, owned in website.owned.items():
            listed = ledger.lists.get(name)
            sources = ledger.sources.get(name, {})
            dropped = [entry for entry in owned if _has_left(entry, listed, sources)]
            if dropped:
                yield f"{_name(key, website)}: {name}: no longer on the list, but owned: {', '.join(dropped)}"


def _check_against_service(
    ledger: Ledger, ids: Mapping[str, Mapping[str, Any]], domains: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    for key, website in ledger.websites.items():
        name = _name(key, website)
        record = ids.get(key) or (domains.get(key) if key == domain_key(website.domain) else None)
        now = domains.get(domain_key(website.domain))
        elsewhere = f"; {website.domain} now has id {now['id']}" if now else ""
        if record is None:
            yield f"{name}: stale: the service has no such website{elsewhere}"
        elif not same_domain(website_of(record)[0], website.domain):
            yield f"{name}: stale: the id now belongs to {website_of(record)[0] or 'no domain'}{elsewhere}"
        else:
            for field, missing in ledger.missing(record).items():
                if field in record:
                    yield f"{name}: {field}: stale: owned, but not on the website: {', '.join(missing)}"


def _check_overlaps(ledgers: Mapping[str, Ledger]) -> Iterator[tuple[str, str]]:
    """Yield the path of a ledger and its conflict with an earlier ledger."""
    first: dict[tuple[Any, ...], str] = {}
    domains: dict[tuple[Any, ...], tuple[str, str]] = {}
    for path, ledger in ledgers.items():
        service = (ledger.identity.service, ledger.identity.account)
        for key, website in ledger.websites.items():
            domain, where = domains.setdefault((*service, key), (website.domain, path))
            if not same_domain(domain, website.domain):
                yield path, f"{_name(key, website)}: in {where} this id is {domain}: one of the two is stale"
                continue
            shared_entries: dict[tuple[str, str], list[str]] = defaultdict(list)
            for name, entries in website.owned.items():
                for entry in entries:
                    other = first.setdefault((*service, key, name, entry), path)
                    if other != path:
                        shared_entries[name, other].append(entry)
            for (name, other), shared in shared_entries.items():
                yield path, f"{_name(key, website)}: {name}: {other} also owns: {', '.join(shared)}"


def _entries(*parts: Owned) -> Iterator[tuple[str, list[str]]]:
    """Yield each list field that has entries, with the entries of all parts."""
    for name in dict.fromkeys(name for part in parts for name in part):
        entries = list(dict.fromkeys(entry for part in parts for entry in part.get(name, ())))
        if entries:
            yield name, entries


def _name(key: str, website: OwnedWebsite) -> str:
    return f"{website.domain} (new, no id yet)" if key == website.domain else f"{website.domain} (id {key})"
