"""Entries of the exclusion lists: IP addresses and query parameters, as users write them and as the service shows them.

The service holds such a list as one text, one entry per line (docs/interface.md, Rules). What it promises about the
entries is little: IP addresses in one list, URL query parameters in the other.
"""

from __future__ import annotations

import ipaddress
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from airflow_provider_analytics.api.checks import one_of, refused

Entries = tuple[str, ...]

#: What becomes of a network where single addresses are promised only.
NETWORKS = ("reject", "expand", "send")
#: Most addresses that the networks of one list may expand to.
EXPAND_LIMIT = 1024

# No list of excluded visitors needs half of the address space; a typing error in a prefix length does.
_SHORTEST_PREFIX = {4: 8, 6: 16}
_MAPPED_BITS = 96
_COMMENT = re.compile(r"(?:^|\s)#.*")


class UnusableEntriesError(ValueError):
    """Entries of a list that cannot be used.

    :param argument: name of the argument that holds the list.
    :param place: ``line`` or ``entry``, what the numbers count.
    :param problems: number of the line or entry, from 1, and what is wrong with it.
    """

    def __init__(self, argument: str, place: str, problems: Sequence[tuple[int, str]]) -> None:
        self.argument = argument
        self.place = place
        self.problems = tuple(problems)
        super().__init__(argument, place, self.problems)

    def __str__(self) -> str:
        listed = "; ".join(f"{self.place} {number}: {problem}" for number, problem in self.problems)
        return f"{self.argument} has {len(self.problems)} unusable entries: {listed}"


class EntryType(ABC):
    """What the entries of a list are: how a wanted one is read, and when two are equal."""

    def parse(self, argument: str, value: Iterable[str] | str, networks: str = "reject") -> Entries:
        """Return the entries of a list, or of a text with one per line, normalised, each once.

        ``#`` at the beginning of a line or after white space begins a comment; a text may hold blank lines.

        :param argument: name of the argument, for messages.
        :param networks: for addresses: ``"reject"`` refuses networks, ``"expand"`` gives all their addresses
            (:data:`EXPAND_LIMIT` in all), ``"send"`` keeps them as networks.
        :raises UnusableEntriesError: names every entry that cannot be used, with its line.
        """
        place = "line" if isinstance(value, str) else "entry"
        if isinstance(value, str):
            value = value.splitlines()
        elif isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
            raise refused(argument, value, "a list, or a text with one entry per line")
        parse = self._parser(networks)
        entries: list[str] = []
        problems = []
        for number, line in enumerate(value, start=1):
            try:
                entry = _entry(line)
                entries.extend(parse(entry) if entry else ())
            except ValueError as error:
                problems.append((number, f"{line!r} {error}"))
        if problems:
            raise UnusableEntriesError(argument, place, problems)
        return tuple(dict.fromkeys(entries))

    @abstractmethod
    def key(self, line: str) -> str:
        """Normalise a line so that equal entries compare equal; a comment alone becomes an empty text."""

    @abstractmethod
    def _parser(self, networks: str) -> Callable[[str], Entries]:
        """Return what reads one entry after the other; it raises :class:`ValueError` with what is wrong."""


class Addresses(EntryType):
    """IP addresses. IPv6 is compressed and in lower case; IPv4 written inside IPv6 is IPv4."""

    def key(self, line: str) -> str:
        """Normalise an address or a network; what is neither is compared as it is."""
        entry = without_comment(line)
        try:
            network = _unmapped(ipaddress.ip_network(entry))
        except ValueError:
            return entry
        return str(network.network_address if network.num_addresses == 1 else network)

    def _parser(self, networks: str) -> Callable[[str], Entries]:
        one_of("networks", networks, NETWORKS)
        left = EXPAND_LIMIT

        def parse(entry: str) -> Entries:
            nonlocal left
            network = _network(entry)
            if network.num_addresses == 1:
                return (str(network.network_address),)
            if networks == "reject":
                raise ValueError(
                    "is a network; the service promises addresses only (networks='expand' gives each of its "
                    "addresses, networks='send' sends it as it is)"
                )
            if networks == "send":
                return (str(network),)
            left -= network.num_addresses
            if left < 0:
                raise ValueError(
                    f"has {network.num_addresses:,} addresses; all networks together may expand to {EXPAND_LIMIT:,}"
                )
            return tuple(str(address) for address in network)

        return parse


class Words(EntryType):
    """Single words such as query parameters; letter case counts."""

    def key(self, line: str) -> str:
        """Return the word itself."""
        return without_comment(line)

    def _parser(self, networks: str) -> Callable[[str], Entries]:
        def parse(entry: str) -> Entries:
            if len(entry.split()) != 1:
                raise ValueError("holds white space; write one parameter per line")
            return (entry,)

        return parse


def without_comment(line: str) -> str:
    """Return what a line says before its comment."""
    return _COMMENT.sub("", line).strip()


def _entry(line: object) -> str:
    if not isinstance(line, str):
        raise ValueError("is not text")
    if len(line.splitlines()) > 1:
        raise ValueError("holds a line break")
    entry = without_comment(line)
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
