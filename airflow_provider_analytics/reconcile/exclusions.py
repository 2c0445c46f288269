"""Exclusion lists: reading what is wanted, choosing websites, and bringing a website's list to it.

The service holds a list as one text, one entry per line (interface.md, part 4, rule 2). What it promises about
the entries is little: IP addresses in ``exclude_ips``, URL query parameters in ``exclude_params``.
"""

from __future__ import annotations

import difflib
import fnmatch
import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from airflow_provider_analytics.api.fields import canonical, domain_key
from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, website_of

Mode = Literal["merge", "replace", "managed"]
Networks = Literal["reject", "expand", "send"]
Entries = tuple[str, ...]

MODES = ("merge", "replace", "managed")
NETWORKS = ("reject", "expand", "send")
#: Most addresses that the networks of one list may expand to.
EXPAND_LIMIT = 1024

# No list of visitors to leave out needs half of the address space; a typing error in a prefix length does.
_SHORTEST_PREFIX = {4: 8, 6: 16}
_MAPPED_BITS = 96
_COMMENT = re.compile(r"(?:^|\s)#.*")
_GLOB = re.compile(r"[*?\[]")
_SHOWN_WEBSITES = 20


class UnusableEntriesError(ValueError):
    """Entries of a list that cannot be used.

    :param problems: number of the entry (or of the line, in a text), from 1, and what is wrong with it.
    """

    def __init__(self, field: str, place: str, problems: Sequence[tuple[int, str]]) -> None:
        self.field = field
        self.place = place
        self.problems = tuple(problems)
        super().__init__(field, place, self.problems)

    def __str__(self) -> str:
        listed = "; ".join(f"{self.place} {number}: {problem}" for number, problem in self.problems)
        return f"{self.field} has {len(self.problems)} unusable entries: {listed}"


def parse_ips(field: str, value: Iterable[str] | str, networks: str = "reject") -> Entries:
    """Return the addresses that a list, or a text with an entry per line, holds: in canonical form, each once.

    ``#`` begins a comment; blank lines are allowed in a text. IPv4 addresses written inside IPv6 come out as
    IPv4, IPv6 ones compressed and in lower case.

    :param field: name of the argument, for messages.
    :param networks: the interface promises addresses only. ``"reject"`` refuses networks, ``"expand"`` gives
        all their addresses (:data:`EXPAND_LIMIT` in all), ``"send"`` keeps them as networks.
    :raises UnusableEntriesError: lists every entry that is not an address, each with its line.
    """
    check_choice("networks", networks, NETWORKS)
    room = EXPAND_LIMIT

    def parse(entry: str) -> Entries:
        nonlocal room
        network = _network(entry)
        if network.num_addresses == 1:
            return (str(network.network_address),)
        if networks == "reject":
            raise ValueError(
                "is a network; the service promises addresses only (networks='expand' gives each of its addresses, "
                "networks='send' sends it as it is)"
            )
        if networks == "send":
            return (str(network),)
        room -= network.num_addresses
        if room < 0:
            raise ValueError(
                f"has {network.num_addresses:,} addresses; all networks together may expand to {EXPAND_LIMIT:,}"
            )
        return tuple(str(address) for address in network)

    return _parse(field, value, parse)


def parse_params(field: str, value: Iterable[str] | str) -> Entries:
    """Return the query parameters that a list, or a text with an entry per line, holds, each once.

    ``#`` at the beginning of a line or after white space begins a comment. Letter case counts.

    :raises UnusableEntriesError: lists every entry that holds white space, each with its line.
    """

    def parse(entry: str) -> Entries:
        if len(entry.split()) != 1:
            raise ValueError("holds white space; write one parameter per line")
        return (entry,)

    return _parse(field, value, parse)


def entry_key(field: str, line: str) -> str:
    """Return the form under which equal entries of a list are equal; empty for a comment."""
    entry = _COMMENT.sub("", line).strip()
    if field != "exclude_ips":
        return entry
    try:
        network = ipaddress.ip_network(entry)
    except ValueError:  # whatever somebody typed is itself
        return entry
    network = _unmapped(network)
    return str(network.network_address if network.num_addresses == 1 else network)


def reconcile(
    field: str, current: Entries, desired: Entries, mode: str, owned: Iterable[str] = ()
) -> tuple[Entries, Entries]:
    """Return the list as it should be, and the entries in it that this list of ours has added.

    Lines that stay keep their text, comment and place; new entries follow. Lists compare as sets: if nothing
    is to be added or removed, ``current`` comes back.

    :param current: the website's list, line by line.
    :param desired: entries as :func:`parse_ips` or :func:`parse_params` return them.
    :param mode: ``"merge"`` adds; ``"replace"`` makes it exactly ``desired``; ``"managed"`` adds, and removes
        those ``owned`` that are no longer desired.
    :param owned: entries that an earlier run added.
    """
    keys = [entry_key(field, line) for line in current]
    present = set(keys)
    if mode == "replace":
        unwanted = present - set(desired) - {""}
    elif mode == "managed":
        unwanted = (present & set(owned)) - set(desired)
    else:
        unwanted = set()
    kept = tuple(line for line, key in zip(current, keys, strict=True) if key not in unwanted)
    new = tuple(entry for entry in desired if entry not in present)
    after = kept + new
    if not any(entry_key(field, line) for line in after):
        # Comments alone would be read as entries by a service that knows no comments; a list of comments
        # that nobody changes is left as it is.
        after = () if unwanted else current
    wanted = set(desired)
    return after, tuple(dict.fromkeys([*(key for key in owned if key in wanted), *new]))


def plan_exclusions(
    field: str,
    records: Iterable[Mapping[str, Any]],
    desired: Callable[[Mapping[str, Any]], Entries],
    *,
    mode: str,
    owned: Mapping[str, Entries] | None = None,
) -> tuple[Plan, dict[str, Entries]]:
    """Return the plan for one list of these websites, and per website id the entries owned after it.

    :param desired: gives the entries wanted for a record.
    :param owned: website id to the entries that earlier runs added (mode ``managed``).
    :raises UnsafePlanError: in modes merge and managed, if records do not show the field: what is there
        would be lost.
    """
    check_choice("mode", mode, MODES)
    changes, unseen, owned_after, compared = [], [], {}, []
    for record in records:
        domain, website_id = website_of(record)
        lines = canonical(field, record[field]) if field in record else None
        known = isinstance(lines, tuple)
        if not known and mode != "replace":
            unseen.append(domain or website_id)
            continue
        current: Entries = lines if isinstance(lines, tuple) else ()
        after, owned_after[website_id] = reconcile(
            field, current, desired(record), mode, (owned or {}).get(website_id, ())
        )
        compared.append(record)
        if after != current or not known:
            change = FieldChange(field, current if known else None, after)
            changes.append(Change("update", domain, website_id, (change,)))
    if unseen:
        listed = ", ".join(unseen[:_SHOWN_WEBSITES]) + (", ..." if len(unseen) > _SHOWN_WEBSITES else "")
        raise UnsafePlanError(
            f"the records of {len(unseen):,} websites do not show {field}, so mode={mode!r} cannot keep what is there: "
            f"{listed}. Leave them out with except_websites, or use mode='replace'. Nothing was sent."
        )
    return Plan.of(changes, compared), owned_after


def parse_selectors(field: str, value: Iterable[str | int] | str | int) -> list[str]:
    """Return the selectors in a list, or in a text with one per line: domains, globs such as ``*.example.com``, ids.

    :raises ValueError: if there is none, or one is not text or a number.
    """
    if isinstance(value, str):
        value = [line for line in (_COMMENT.sub("", line).strip() for line in value.splitlines()) if line]
    elif isinstance(value, int):
        value = [value]
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"{field}={value!r} is not allowed; allowed: a list of domains, globs and ids")
    selectors = []
    for one in value:
        if isinstance(one, bool) or not isinstance(one, (str, int)) or not str(one).strip():
            raise ValueError(f"{field}: {one!r} is not allowed; allowed: a domain, a glob such as *.example.com, an id")
        selectors.append(str(one).strip())
    return selectors


def select(records: Sequence[Mapping[str, Any]], selectors: Sequence[str]) -> tuple[set[str], list[str]]:
    """Return the ids of the websites that any of the selectors means, and the selectors that mean none."""
    by_name: dict[str, set[str]] = {}
    by_domain: dict[str, set[str]] = {}
    for record in records:
        domain, website_id = website_of(record)
        by_name.setdefault(website_id, set()).add(website_id)
        if domain:
            by_domain.setdefault(domain_key(domain), set()).add(website_id)
    chosen: set[str] = set()
    unmatched = []
    for selector in selectors:
        pattern = domain_key(selector)
        found = by_name.get(selector, set()) | by_domain.get(pattern, set())
        if _GLOB.search(pattern):
            found = found.union(*(by_domain[domain] for domain in fnmatch.filter(by_domain, pattern)))
        chosen |= found
        if not found:
            unmatched.append(selector)
    return chosen, unmatched


def choose(
    records: Sequence[Mapping[str, Any]],
    websites: Iterable[str | int] | str | int | None,
    except_websites: Iterable[str | int] | str | int,
    *,
    allow_no_match: bool = False,
) -> list[Mapping[str, Any]]:
    """Return the records that ``websites`` means (None: all of them), without those that ``except_websites`` means.

    :raises ValueError: if a selector means no website, or there is none at all, unless that is allowed: a
        typing error in an exception would touch the very website that it is to spare.
    """
    chosen = {website_of(record)[1] for record in records}
    unmatched = []
    if websites is not None:
        selectors = parse_selectors("websites", websites)
        chosen, missing = select(records, selectors)
        unmatched += [f"websites: {one!r}" for one in missing] or ([] if selectors else ["websites: an empty list"])
    spared, missing = select(records, parse_selectors("except_websites", except_websites))
    unmatched += [f"except_websites: {one!r}" for one in missing]
    raise_unmatched(unmatched, allow_no_match=allow_no_match)
    return [record for record in records if website_of(record)[1] in chosen - spared]


def extra_entries(
    records: Sequence[Mapping[str, Any]], per_website: Mapping[str, Entries], *, allow_no_match: bool = False
) -> dict[str, Entries]:
    """Return per website id the entries that ``per_website`` (selector to entries) adds to the common ones.

    :raises ValueError: if a selector means none of the records, unless that is allowed.
    """
    extra: dict[str, Entries] = {}
    unmatched = []
    for selector, entries in per_website.items():
        found, missing = select(records, parse_selectors("per_website", [selector]))
        unmatched += [f"per_website: {one!r}" for one in missing]
        for website_id in found:
            extra[website_id] = (*extra.get(website_id, ()), *entries)
    raise_unmatched(unmatched, allow_no_match=allow_no_match)
    return extra


def raise_unmatched(unmatched: Sequence[str], *, allow_no_match: bool) -> None:
    """Raise :class:`ValueError` that lists the selectors which mean no website, unless that is allowed."""
    if unmatched and not allow_no_match:
        raise ValueError(f"no website matches {'; '.join(unmatched)}. allow_no_match=True goes on without them")


def check_choice(field: str, value: object, allowed: Sequence[str]) -> None:
    """Raise :class:`ValueError`, naming the nearest allowed value, if the value is not one of them."""
    if value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"{field}={value!r} is not allowed; allowed: {', '.join(allowed)}{hint}")


def _parse(field: str, value: Iterable[str] | str, parse: Callable[[str], Entries]) -> Entries:
    place = "line" if isinstance(value, str) else "entry"
    if isinstance(value, str):
        value = value.splitlines()
    elif isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(f"{field}={value!r} is not allowed; allowed: a list, or a text with one entry per line")
    entries: list[str] = []
    problems = []
    for number, line in enumerate(value, start=1):
        try:
            entry = _entry(line)
            entries.extend(parse(entry) if entry else ())
        except ValueError as error:
            problems.append((number, f"{line!r} {error}"))
    if problems:
        raise UnusableEntriesError(field, place, problems)
    return tuple(dict.fromkeys(entries))


def _entry(line: object) -> str:
    if not isinstance(line, str):
        raise ValueError("is not text")
    if len(line.splitlines()) > 1:
        raise ValueError("holds a line break")
    entry = _COMMENT.sub("", line).strip()
    if entry == "None" or (entry.startswith("[") and entry.endswith("]")):
        raise ValueError("is what a template makes of an empty value or a list; give the list itself")
    return entry


def _network(entry: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    if "%" in entry:
        raise ValueError("has a scope, which means something on one machine only")
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        raise ValueError("is not an IP address") from None
    if "/" in entry and ipaddress.ip_address(entry.partition("/")[0]) != network.network_address:
        raise ValueError(f"has bits behind its prefix length; the network is {network}")
    network = _unmapped(network)
    if network.num_addresses == 1 and network.network_address.is_unspecified:
        raise ValueError("is the unspecified address, which no visitor has")
    if network.prefixlen < _SHORTEST_PREFIX[network.version]:
        raise ValueError(
            f"covers {network.num_addresses:,} addresses; the widest network allowed is "
            f"/{_SHORTEST_PREFIX[network.version]} for IPv{network.version}"
        )
    return network


def _unmapped(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network,
) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return the IPv4 network that an IPv6 network of the form ::ffff:a.b.c.d/n stands for."""
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))
    return network
