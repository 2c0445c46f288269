"""The ledger of managed lists: the entries that a list added to each website. Pure functions on text.

The service cannot store who added an entry, so a separate file does. An entry that is not in the ledger is treated as
manual and is never removed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import LINE_FIELDS, normalise
from airflow_provider_analytics.reconcile.maintained import Resolved, Source
from airflow_provider_analytics.reconcile.plan import Change, website_of

_VERSION = 1

#: List field to entries.
Owned = Mapping[str, Entries]


@dataclass(frozen=True)
class Identity:
    """What a ledger belongs to; its ids and entries are valid only there.

    :param service: base URL of the service.
    :param account: id of the account; None if the account record has none.
    :param list: name of the list.
    """

    service: str
    account: str | None
    list: str


@dataclass(frozen=True)
class Try:
    """A try of a task; only this try writes the ledger, until another one takes it over.

    :param task: ``<dag id>.<task id>``, with ``[<map index>]`` if it is mapped.
    :param run: id of the DAG run.
    :param number: number of the try.
    :param token: unique, because the same try may run in two processes.
    :param since: when it took the ledger over, as ISO 8601.
    :param settled: since when no claims are outstanding; None while changes are sent. It stays None if the try is
        killed during that time.
    """

    task: str
    run: str
    number: int
    token: str
    since: str
    settled: str | None = None

    def __str__(self) -> str:
        return f"try {self.number} of {self.task} in run {self.run}"

    def replaces(self, other: Try, began: str) -> bool:
        """Return whether this try is later than another try of the same task and run.

        The number alone is not enough: it restarts if a run is deleted and created again.

        :param began: when the other try began, as ISO 8601.
        """
        return (self.task, self.run) == (other.task, other.run) and self.number > other.number and self.since > began


@dataclass(frozen=True)
class OwnedWebsite:
    """The entries that are owned on a website.

    :param domain: domain of the website.
    :param entries: list field to entries that existed when a try ended.
    :param claimed: list field to entries that the last try may have added. They are written before it sends them, and
        kept at its end if the outcome is unknown.
    :param carried: list field to entries that the previous try may still add, because its request may arrive late.
    """

    domain: str
    entries: Owned = field(default_factory=dict)
    claimed: Owned = field(default_factory=dict)
    carried: Owned = field(default_factory=dict)

    @property
    def owned(self) -> Owned:
        """All entries that are owned."""
        return _union(self.entries, self.claimed, self.carried)


@dataclass(frozen=True)
class Ledger:
    """The entries that a list owns on each website, and the list of the last run.

    :param identity: what it belongs to.
    :param lists: list field to the list of the last run.
    :param websites: website id to the owned entries; the key is the domain while the website is being created.
    :param owner: the try that may write it; None if it was never written.
    :param sources: list field to entry to its source, for entries on the list and entries still owned.
    :param names: host name on the list to its last resolution.
    :param kept: the host names of ``names`` that were on the list before, too; not written.
    """

    identity: Identity
    lists: Owned = field(default_factory=dict)
    websites: Mapping[str, OwnedWebsite] = field(default_factory=dict)
    owner: Try | None = None
    sources: Mapping[str, Mapping[str, Source]] = field(default_factory=dict)
    names: Mapping[str, Resolved] = field(default_factory=dict)
    kept: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def parse(cls, text: str, identity: Identity, path: str = "") -> Self:
        """Parse a ledger.

        :param identity: what it must belong to.
        :param path: path of the ledger, for messages.
        :raises ValueError: if the text is not a ledger, has another version, or belongs to something else.
        """
        try:
            data = json.loads(text)
            version, found = data["version"], {name: data[name] for name in asdict(identity)}
            lists = _entries(data["lists"])
            websites = {website_id: _website(website) for website_id, website in data["websites"].items()}
            owner = data.get("owner") and _try(data["owner"])
            sources = {
                name: {_text(entry): Source.from_dict(one) for entry, one in by_entry.items()}
                for name, by_entry in data.get("sources", {}).items()
            }
            names = {name: _resolved(one) for name, one in data.get("names", {}).items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"The ledger cannot be read: restore its last good version, or delete it. Without a ledger, existing "
                f"entries are treated as manual, and none is removed. ({error!r}) Ledger: {path}"
            ) from error
        if version != _VERSION:
            raise ValueError(
                f"The ledger has version {version!r}; supported: {_VERSION}. Upgrade airflow-provider-analytics. "
                f"Ledger: {path}"
            )
        differing = [name for name, value in asdict(identity).items() if found[name] != value]
        if differing:
            details = "; ".join(
                f"{name} is {found[name]!r}, here it is {getattr(identity, name)!r}" for name in differing
            )
            instead = f", such as {_sibling_path(path, identity)}" if path else ""
            same = {
                "list": f" If it is the same list under another name, set list_name={found['list']!r}, or write the "
                "new name into the ledger.",
                "service": " If the service has moved there, write the new address into the ledger.",
            }.get(differing[0] if len(differing) == 1 else "", "")
            raise ValueError(
                f"The ledger belongs to another {' and '.join(differing)}: {details}. Check the connection; give each "
                f"list a ledger_path of its own{instead}.{same} Ledger: {path}"
            )
        return cls(identity, lists, websites, owner, sources, names)

    @property
    def is_open(self) -> bool:
        """Whether changes are outstanding: the last owner was killed while sending them, or is still running."""
        return self.owner is not None and self.owner.settled is None

    @property
    def moving(self) -> dict[str, frozenset[str]]:
        """List field to the old and new addresses of host names that were and still are on the list."""
        return {
            name: frozenset(entry for entry, source in sources.items() if not self.kept.isdisjoint(source.names))
            for name, sources in self.sources.items()
        }

    def noting(self, sources: Mapping[str, Mapping[str, Source]], names: Mapping[str, Resolved], today: str) -> Self:
        """Return the ledger with the sources of the entries of this run.

        Entries that are still owned keep their source.

        :param sources: list field to entry to its source.
        :param names: host name on the list to its last resolution.
        :param today: the day, as ISO date.
        """
        noted = {}
        for name, now in sources.items():
            before = self.sources.get(name, {})
            owned = {entry for website in self.websites.values() for entry in website.owned.get(name, ())}
            known = owned | set(self.lists.get(name, ()))
            kept = {entry: replace(one, left=one.left or today) for entry, one in before.items() if entry in owned}
            since = {
                entry: before[entry].since if entry in before else "" if entry in known else today for entry in now
            }
            noted[name] = {**kept, **{entry: replace(one, since=since[entry]) for entry, one in now.items()}}
        return replace(self, sources=noted, names=names, kept=frozenset(self.names.keys() & names.keys()))

    def owned(self, record: Mapping[str, Any]) -> Owned:
        """Return the owned entries; a website whose id now belongs to another domain owns none."""
        website = self._website(*website_of(record))
        return website.owned if website else {}

    def _website(self, domain: str, website_id: str | None) -> OwnedWebsite | None:
        website = self.websites.get(website_id or domain_key(domain)) or self.websites.get(domain_key(domain))
        # A row without a domain is known by its id.
        is_same = website and (same_domain(website.domain, domain) or not (domain and website.domain))
        return website if is_same else None

    def missing(self, record: Mapping[str, Any]) -> Owned:
        """Return the owned entries that are missing in a record, by list field."""
        missing = {
            name: tuple(entry for entry in entries if entry not in _entries_of(name, record))
            for name, entries in self.owned(record).items()
        }
        return {name: entries for name, entries in missing.items() if entries}

    def doubts(self, record: Mapping[str, Any]) -> bool:
        """Return whether an owned entry is missing in a record: the record is stale, or the entry was removed."""
        return bool(self.missing(record))

    def adopt(self, records: Iterable[Mapping[str, Any]], desired: Mapping[str, Owned]) -> Self:
        """Return the ledger that also owns the entries that the list and the websites have in common.

        :param desired: website id to the desired entries by list field.
        """
        websites = dict(self.websites)
        for record in records:
            domain, website_id = website_of(record)
            common = {
                name: [entry for entry in entries if entry in _entries_of(name, record)]
                for name, entries in desired.get(website_id, {}).items()
            }
            website = self._website(domain, website_id) or OwnedWebsite(domain)
            websites[website_id] = replace(website, entries=_union(website.entries, common))
        return replace(self, websites=websites)

    def claim(self, changes: Iterable[Change], fields: Collection[str]) -> Self:
        """Return the ledger to write before changes are sent; it also owns the entries that they add.

        Therefore an entry that was added by a killed task is recorded.

        :param fields: the list fields that are managed.
        """
        websites = dict(self.websites)
        for change in changes:
            website = self._website(change.domain, change.website_id) or OwnedWebsite(change.domain)
            claimed = _union(website.claimed, _added(change, fields))
            websites[key_of(change)] = replace(website, claimed=claimed)
        return replace(self, websites=websites)

    def covers(self, change: Change, fields: Collection[str]) -> bool:
        """Return whether all entries that a change adds are owned, even if its outcome stays unknown."""
        website = self._website(change.domain, change.website_id) or OwnedWebsite(change.domain)
        owned = _union(website.entries, website.claimed)
        return all(set(added) <= set(owned.get(name, ())) for name, added in _added(change, fields).items())

    def settle(
        self,
        records: Iterable[Mapping[str, Any]],
        sent: Iterable[Change],
        lists: Owned,
        *,
        claimed: Ledger | None = None,
        unclear: Collection[str] = (),
        after: Iterable[Mapping[str, Any]] = (),
        fields: Collection[str],
    ) -> Self:
        """Return the ledger to write at the end; ``self`` is the ledger that was read at the beginning.

        :param records: records of the compared websites, as they were planned.
        :param sent: the changes that were applied, in this order.
        :param lists: list field to the list of this run.
        :param claimed: the ledger with the claims of this try.
        :param unclear: :func:`key_of` the websites that may or may not have been changed; they keep the claims of this
            try.
        :param after: last records of the changed websites; entries that they do not contain are not owned.
        :param fields: the list fields that are managed.
        """
        websites = dict(self.websites)
        for record in records:
            domain, website_id = website_of(record)
            known = self._website(domain, website_id)
            owned = known.owned if known else {}
            websites.pop(domain_key(domain), None)
            websites[website_id] = OwnedWebsite(
                domain or (known.domain if known else ""), {**owned, **_still_present(owned, record, fields)}
            )
        for change in sent:
            before = websites.pop(key_of(change), None) or websites.pop(domain_key(change.domain), None)
            if change.action != "delete":
                owned = _owned_after(before.owned if before else {}, change, fields)
                domain = change.domain or (before.domain if before else "")
                websites[key_of(change)] = OwnedWebsite(domain, owned)
        for record in after:
            website = websites.get(str(record["id"]))
            if website:
                entries = {**website.entries, **_still_present(website.entries, record, fields)}
                websites[str(record["id"])] = replace(website, entries=entries)
        for key in unclear:
            claim = claimed.websites.get(key) if claimed else None
            if claim:
                now = websites.get(key) or OwnedWebsite(claim.domain)
                websites[key] = replace(now, claimed=claim.claimed)
        # A request of the previous try may still arrive, so its claims stay owned until the next run.
        ids = {one: key for key, website in websites.items() if key != (one := domain_key(website.domain))}
        for key, website in self.websites.items() if self.is_open else ():
            now_key = ids.get(key, key) if key == domain_key(website.domain) else key
            now = websites.get(now_key) or OwnedWebsite(website.domain)
            if same_domain(now.domain, website.domain) and any(website.claimed.values()):
                websites[now_key] = replace(now, carried=website.claimed)
        return replace(self, lists={**self.lists, **lists}, websites=websites)

    def with_that_of(self, other: Ledger) -> Self:
        """Return the ledger that owns the entries of both ledgers."""
        websites = dict(self.websites)
        for key, website in other.websites.items():
            mine = websites.get(key)
            if mine is not None and same_domain(mine.domain, website.domain):
                website = replace(
                    website,
                    entries=_union(mine.entries, website.entries),
                    claimed=_union(mine.claimed, website.claimed),
                    carried=_union(mine.carried, website.carried),
                )
            websites[key] = website
        return replace(self, websites=websites)

    def render(self) -> str:
        """Return the ledger as JSON text."""
        websites = {
            website_id: {
                "domain": website.domain,
                "entries": _sorted(website.entries),
                **({"claimed": _sorted(website.claimed)} if any(website.claimed.values()) else {}),
                **({"carried": _sorted(website.carried)} if any(website.carried.values()) else {}),
            }
            for website_id, website in sorted(self.websites.items())
            if any(website.owned.values())
        }
        owner = {"owner": asdict(self.owner)} if self.owner else {}
        data = {"version": _VERSION, **asdict(self.identity), **owner, "lists": _sorted(self.lists)}
        sources = {
            name: {entry: source.to_dict() for entry, source in sorted(self.sources[name].items())}
            for name in sorted(self.sources)
            if self.sources[name]
        }
        data |= {"sources": sources} if sources else {}
        data |= {"names": {name: asdict(one) for name, one in sorted(self.names.items())}} if self.names else {}
        data["websites"] = websites
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def key_of(change: Change) -> str:
    """Return the key of a website in the ledger: its id, or its domain while it is being created."""
    return change.website_id or domain_key(change.domain)


def _owned_after(owned: Owned, change: Change, fields: Collection[str]) -> Owned:
    """Return the entries that are owned after a change: the added ones, and the owned ones that still exist."""
    entries = dict(owned)
    for one in change.fields:
        if one.field in fields and isinstance(one.after, tuple):
            key = LINE_FIELDS[one.field].key
            there, before = {key(line) for line in one.after}, {key(line) for line in one.before or ()}
            # If one of two lines with the same entry was removed, the other line belongs to someone else.
            removed = {key(line) for line in one.before or () if line not in one.after}
            kept = [entry for entry in owned.get(one.field, ()) if entry in there and entry not in removed]
            entries[one.field] = tuple(dict.fromkeys([*kept, *sorted(there - before - {""})]))
    return entries


def _added(change: Change, fields: Collection[str]) -> Owned:
    return {
        one.field: tuple(map(LINE_FIELDS[one.field].key, one.added)) for one in change.fields if one.field in fields
    }


def _still_present(owned: Owned, record: Mapping[str, Any], fields: Collection[str]) -> Owned:
    """Return the owned entries that a record contains."""
    return {name: tuple(one for one in owned.get(name, ()) if one in _entries_of(name, record)) for name in fields}


def _website(value: Any) -> OwnedWebsite:
    parts = {name: _entries(value.get(name, {})) for name in ("claimed", "carried")}
    return OwnedWebsite(_text(value["domain"]), _entries(value["entries"]), **parts)


def _entries_of(name: str, record: Mapping[str, Any]) -> set[str]:
    lines = normalise(name, record.get(name))
    return {LINE_FIELDS[name].key(line) for line in lines} if isinstance(lines, tuple) else set()


def _union(*parts: Mapping[str, Iterable[str]]) -> Owned:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: tuple(dict.fromkeys(one for part in parts for one in part.get(name, ()))) for name in names}


def _sorted(entries: Owned) -> dict[str, list[str]]:
    return {name: sorted(entries[name]) for name in sorted(entries) if entries[name]}


def _entries(value: Any) -> Owned:
    unknown = set(value) - set(LINE_FIELDS)
    if unknown:
        raise ValueError(f"{sorted(unknown)} are no lists")
    return {name: tuple(map(_text, entries)) for name, entries in value.items()}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _resolved(value: Any) -> Resolved:
    return Resolved(tuple(map(_text, value["addresses"])), _moment(value["at"]))


def _moment(value: Any) -> str:
    """Return a time as ISO 8601; a time without a zone, as people write it, is in UTC."""
    moment = datetime.fromisoformat(_text(value))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _try(value: Any) -> Try:
    number, settled = value["number"], value["settled"]
    if not isinstance(number, int):
        raise TypeError(f"{number!r} is no number")
    texts = {name: _text(value[name]) for name in ("task", "run", "token")}
    return Try(
        **texts, since=_moment(value["since"]), number=number, settled=None if settled is None else _text(settled)
    )


def _sibling_path(path: str, identity: Identity) -> str:
    """Return a path for the ledger of this list, in the same folder as the other ledger."""
    folder, _, name = path.rpartition("/")
    suffix = "".join(one if one.isalnum() or one in "-_." else "_" for one in identity.list)
    return f"{folder}/{name.removesuffix('.json')}-{suffix}.json"
