# SPDX-License-Identifier: Apache-2.0
"""Entries of the exclusion lists, IP addresses and query parameters, from users and from the service.

The service stores such a list as one text, one entry per line (interface.md, Rules). The interface does not
define the format of an entry: one list contains IP addresses, the other URL query parameters.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from airflow_provider_analytics.api.checks import invalid, short_repr, text_list
from airflow_provider_analytics.readable import first_of, is_plain, readable

Entries = tuple[str, ...]
Parsed = TypeVar("Parsed")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Ways to handle a network: the interface documents single addresses only. With the last one, ranges and patterns are
#: allowed, too.
AS_IS = "as_is"
NETWORKS = ("reject", "expand", AS_IS)
#: How a list of a single website handles a network: it is allowed, and other texts are not.
ALLOW = "allow"
#: Maximum number of addresses that the networks of one list can expand to.
EXPAND_LIMIT = 1024

#: Networks of visitors that a service on the internet never sees. Addresses of the documentation are not among them.
_INTERNAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "10.0.0.0/8",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "::1",
            "fc00::/7",
            "fe80::/10",
        ),
    )
)
# An exclusion list never needs half of the address space. A typing error in a prefix length can cover it.
_SHORTEST_PREFIX = {4: 8, 6: 16}
_MAPPED_BITS = 96
_MAX_LISTED = 10
_COMMENT = re.compile(r"(?:^|\s)#.*")
#: Characters that are not part of a word: separators, quotes, tags, and the marks of a cut text.
_NOT_IN_A_WORD = re.compile(r"[\s,;<>\"']|\.\.\.$|\u2026")
#: Characters around a parameter in an address: ``?utm_source=news&gclid=1``.
_PART_OF_A_QUERY = re.compile(r"[?&=]")
_FILE_NAME = re.compile(r"[./~]\S*|\S+://\S*|\S+\.txt")
_CUT = re.compile(r"\.\.\.$|\u2026$")
#: A JSON array, an array of PostgreSQL, or a list as Python prints it.
_IN_BRACKETS = re.compile(r"\[.*\]|\{.*\}|\(.*\)")
#: Separators that a service can write between entries in place of a line break.
_SEPARATOR = re.compile(r"[\s,;]+|<br ?/?>|\\n", re.IGNORECASE)
_PLAIN_WORD = re.compile(r"[\w%~+-]*\w[\w.%~+-]*")
_OCTET = re.compile(r"25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9]")
#: An IPv4 address of which the last numbers are missing, or of which any number is a range or a wildcard.
_NUMBER = rf"(?:\*|(?:{_OCTET.pattern})(?:-(?:{_OCTET.pattern}))?)"
_WILDCARD = re.compile(rf"(?=.*[0-9])(?:{_NUMBER}(?:\.{_NUMBER}){{3}}|(?:{_NUMBER}\.){{1,3}}\*?)")
#: A network without its last numbers, such as ``10/8``.
_SHORT_NETWORK = re.compile(rf"(?:{_OCTET.pattern})(?:\.(?:{_OCTET.pattern})){{0,2}}/(?:[89]|[12][0-9]|3[0-2])")
#: A pattern of addresses, as a wildcard or a regular expression: ``2001:db8:*``, ``^10\\.[0-9]{1,3}\\.``
_PATTERN = re.compile(r"(?=.*[0-9])(?=.*[\[\]()^$|?+*\\])(?:[0-9A-Fa-f.:\-\[\]()^$|?+*\\]|\{\d*,?\d*\})+")
#: A name that another tool was to replace: ``${PARAM}``, ``$PARAM``, ``%PARAM%``, ``%(param)s``, ``%{param}``, ``%s``,
#: ``{{ param }}``, ``[[param]]``, ``{param}``, ``@param@``. Names of OData such as ``$filter`` are none.
_PLACEHOLDER = re.compile(
    r".*(?:[$%][{(]|\{\{|\{%|#\{|\[\[|@@).*|\{.*\}|\$[A-Z_][A-Z0-9_]*|%[A-Z_][A-Z0-9_]*%|%[sd]|@\w+@"
)
#: Texts of a missing value: of Python and Jinja, of JSON by Python, and of pandas.
_MISSING_ENTRIES = ("None", "NaN", "nan", "<NA>")
#: A list that Jinja has rendered without ``tojson``; unlike ``[0-9]`` in a pattern.
_RENDERED_LIST = re.compile(r"\[(.*['\",].*)?\]")


@dataclass(eq=False)
class UnusableEntriesError(ValueError):
    """Invalid entries of a list.

    :param argument: name of the argument with the list.
    :param place: unit of the numbers: ``line`` or ``entry``.
    :param problems: number of the line or entry, from 1, and its problem.
    :param allowed: allowed entries.
    """

    argument: str
    place: str
    problems: Sequence[tuple[int, str]]
    allowed: str

    def __str__(self) -> str:
        listed = [f"{self.place} {number}: {problem}" for number, problem in self.problems]
        problems = first_of(listed, _MAX_LISTED, "\n")
        return f"{self.argument} has unusable entries ({len(self.problems):,}):\n{problems}\nAllowed: {self.allowed}."


class EntryType:
    """Type of the entries of a list: how to parse and compare them. This class is for any words, case-sensitive.

    A line of the service that is not such an entry is *opaque*: it is kept, and compared as text. The client never
    sends such a line unless it comes from the service, or the user allows any text.
    """

    #: Allowed entries, for messages.
    allowed: ClassVar[str] = "one word per line or entry"
    #: Networks that are allowed with another value of the argument ``networks``, for messages; empty if there are none.
    networks_allowed: ClassVar[str] = ""
    #: Two valid entries, for documents and tests.
    examples: ClassVar[tuple[str, str]] = ("first", "second")
    #: A text that is the name of a file by mistake; None if entries can look like this, such as ``/admin``.
    file_name: ClassVar[re.Pattern[str] | None] = None

    def parse(self, entry: str, networks: str = ALLOW, limit: int = EXPAND_LIMIT) -> Entries:
        """Return the normalized entries of an entry of a user.

        :param networks: for addresses: :data:`ALLOW` keeps networks, ``"reject"`` rejects them, ``"expand"`` replaces
            them by their addresses, and ``"as_is"`` keeps them. With ``"as_is"``, ranges and patterns are allowed,
            too, such as ``192.0.2.1-192.0.2.9`` and ``192.0.2.*``.
        :param limit: maximum number of addresses of a network that is expanded.
        :raises ValueError: if it is invalid; the message is the problem.
        """
        if not is_plain(entry):
            raise ValueError("contains invisible characters")
        if networks != AS_IS:
            self._check_word(entry)
        return (entry,)

    def _check_word(self, entry: str) -> None:
        if _NOT_IN_A_WORD.search(entry):
            raise ValueError("contains white space, a separator, or a quote; write one entry per line")

    def is_in_another_form(self, lines: Sequence[str]) -> bool:
        """Return whether a list of the service is not written as interface.md documents it.

        It is if its only line contains several entries, is in brackets like JSON or an array of a database, or if its
        end was cut off. Sending such a text back would replace the real entries. If there are several lines, the
        service separates entries by line breaks.
        """
        if lines and _CUT.search(lines[-1]):
            return True
        if len(lines) != 1:
            return False
        if _IN_BRACKETS.fullmatch(lines[0]):
            return True
        entry = without_comment(lines[0])
        parts = list(filter(None, _SEPARATOR.split(entry)))
        return len(parts) > 1 and all(map(self.is_usual, parts))

    def is_usual(self, text: str) -> bool:
        """Return whether a text looks like one entry."""
        return _PLAIN_WORD.fullmatch(text) is not None

    def key(self, line: str) -> str:
        """Normalize a line, so that equal entries compare equal. A line with only a comment becomes empty text."""
        return without_comment(line)

    def check_line(self, line: str) -> str:
        """Return a line of a user's list: an entry, with or without a comment, or only a comment.

        Networks are allowed.

        :raises ValueError: if the entry is invalid; the message is the problem.
        """
        entry = entry_of(line)
        if entry:
            self.parse(entry)
        elif not stripped(line):
            raise ValueError("is blank")
        return stripped(line)


class Parameters(EntryType):
    """Names of query parameters."""

    allowed = "one query parameter per line or entry"
    file_name = _FILE_NAME

    def parse(self, entry: str, networks: str = ALLOW, limit: int = EXPAND_LIMIT) -> Entries:
        """Return a name."""
        if _PLACEHOLDER.fullmatch(entry):
            raise ValueError("is a placeholder that was not replaced; write the name itself")
        return super().parse(entry, networks, limit)

    def _check_word(self, entry: str) -> None:
        super()._check_word(entry)
        if _PART_OF_A_QUERY.search(entry):
            name = _PART_OF_A_QUERY.split(entry.lstrip("?&"))
            raise ValueError(f"is a part of an address and matches no parameter; write {name[0] or 'the name'!r}")


class Addresses(EntryType):
    """IP addresses. IPv6 is compressed and in lower case; an IPv4-mapped address becomes IPv4."""

    allowed = "one IP address per line or entry"
    networks_allowed = "a network with networks='expand' (sends each address) or networks='as_is'"
    examples = ("192.0.2.1", "2001:db8::1")
    file_name = _FILE_NAME

    def parse(self, entry: str, networks: str = ALLOW, limit: int = EXPAND_LIMIT) -> Entries:
        """Return an address, a network, or the addresses of a network."""
        if networks == AS_IS and not _is_network(entry):
            (text,) = super().parse(entry, networks)
            _check_several_addresses(text)
            return (text,)
        network = _check_network(entry)
        if network.num_addresses == 1:
            return (str(network.network_address),)
        if networks == "reject":
            raise ValueError("is a network, but the service documents single addresses only")
        if networks != "expand":
            return (str(network),)
        if network.num_addresses > limit:
            raise ValueError(
                f"has {network.num_addresses:,} addresses; all networks together can expand to {EXPAND_LIMIT:,}"
            )
        return tuple(map(str, network))

    def is_in_another_form(self, lines: Sequence[str]) -> bool:
        """Return whether a list of the service is not written as documented; addresses after a comma are entries."""
        if super().is_in_another_form(lines):
            return True
        if len(lines) != 1:
            return False
        after_commas = lines[0].split(",")[1:]
        return any(self.is_usual(without_comment(text)) for text in after_commas)

    def is_usual(self, text: str) -> bool:
        """Return whether a text is an address or a network."""
        return _is_network(text)

    def key(self, line: str) -> str:
        """Normalize an address or a network; return any other text unchanged."""
        return _address_key(line)


def each_line(argument: str, value: Any, read: Callable[[Any], Parsed], allowed: str) -> list[Parsed]:
    """Return the result of a function for each line of a list, or of a text with one entry per line.

    :param argument: name of the argument, for messages.
    :param value: a list, its JSON text, or a text with one entry per line.
    :param read: reads a line or entry; its :class:`ValueError` describes the problem.
    :param allowed: allowed entries, for messages.
    :raises ValueError: if it is neither a list nor a text.
    :raises UnusableEntriesError: if lines cannot be read; the message lists them with their numbers.
    """
    place = "entry"
    if isinstance(value, str):
        lines = value.splitlines()
        value = text_list(argument, value)
        if value is None:
            value = lines
            place = "line"
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise invalid(argument, value, "a list, or a text with one entry per line")
    found = []
    problems = []
    for number, line in enumerate(value, start=1):
        try:
            found.append(read(line))
        except ValueError as error:
            text = short_repr(line)
            if isinstance(line, Mapping):
                # It can contain a date, whose repr is Python.
                text = readable(json.dumps(line, default=str))
            problems.append((number, f"{text} {error}"))
    if problems:
        raise UnusableEntriesError(argument, place, problems, allowed)
    return found


def line_key(line: str, key: Callable[[str], str]) -> tuple[str, str]:
    """Return the key of a line: its entry, normalized by ``key``, and its comment."""
    entry = without_comment(line)
    return key(line), " ".join(stripped(line).removeprefix(entry).split())


# Each list is read several times.
@functools.lru_cache(maxsize=1 << 16)
def without_comment(line: str) -> str:
    """Return the part of a line before its comment."""
    return stripped(_COMMENT.sub("", stripped(line)))


def stripped(line: str) -> str:
    """Return a line without surrounding white space, and without a byte order mark."""
    return line.strip().strip("\ufeff").strip()


def entry_of(line: object) -> str:
    """Return the entry of a line of a user's list, without its comment; empty text without an entry.

    :raises ValueError: if it cannot be a line; the message is the problem.
    """
    if not isinstance(line, str):
        raise ValueError("is not text")
    if len(line.splitlines()) > 1:
        raise ValueError("contains a line break")
    entry = without_comment(line)
    if entry in _MISSING_ENTRIES or _RENDERED_LIST.fullmatch(entry):
        raise ValueError("is the text of a missing value, or of a list; give the entries themselves")
    return entry


def internal_addresses(entries: Iterable[str]) -> list[str]:
    """Return the private and loopback addresses and networks among the entries of a list."""
    found = []
    for entry in entries:
        if not _is_network(entry):
            continue
        network = _network(entry, strict=False)
        same_version = [internal for internal in _INTERNAL if internal.version == network.version]
        if any(map(network.subnet_of, same_version)):  # type: ignore[arg-type]  # the versions are equal
            found.append(entry)
    return found


def _network(entry: str, *, strict: bool = True) -> Network:
    """Return the network of an address or network; of an IPv4-mapped one (::ffff:a.b.c.d/n), the IPv4 network."""
    network = ipaddress.ip_network(entry, strict=strict)
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= _MAPPED_BITS:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))
    return network


def _check_network(entry: str) -> Network:
    """Return the network of an entry of a user.

    :raises ValueError: if it is not an address or a network, or too wide.
    """
    if "%" in entry:
        raise ValueError("has a scope id, which is valid on one machine only")
    try:
        network = _network(entry, strict=False)
    except ValueError:
        raise ValueError(f"is not an IP address{_one_per_line(entry)}") from None
    if "/" in entry and _network(entry.partition("/")[0]).network_address != network.network_address:
        raise ValueError(f"has host bits set; the network is {network}")
    _check_size(network)
    return network


def _check_several_addresses(text: str) -> None:
    """Check a text that means several addresses: a range, a pattern, or a network whose address has host bits.

    :raises ValueError: for any other text, and for a network that is too wide, such as ``0.0.0.1/0``.
    """
    first, is_range, last = map(str.strip, text.partition("-"))
    if is_range and _is_address(first) and _OCTET.fullmatch(last):
        return
    if is_range and _is_address(first) and _is_address(last):
        start, end = ipaddress.ip_address(first), ipaddress.ip_address(last)
        if start.version == end.version:
            _check_count(abs(int(end) - int(start)) + 1, start.version)
            return
    if _is_address(text.removeprefix("[").removesuffix("]")) and text.startswith("["):
        raise ValueError("is an address of a URL; write it without brackets")
    if _WILDCARD.fullmatch(text):
        _check_count(_count_of_wildcard(text), 4)
        return
    if any(form.fullmatch(text) for form in (_SHORT_NETWORK, _PATTERN)):
        return
    try:
        network = _network(text, strict=False)
    except ValueError:
        network = None
    if network is None or "%" in text:
        raise ValueError(f"is neither an address nor a network, a range, or a pattern{_one_per_line(text)}")
    _check_size(network)


def _one_per_line(text: str) -> str:
    """Return a hint for a text with separators, as the end of a message."""
    if _SEPARATOR.search(text):
        return "; write one entry per line"
    return ""


def _is_address(text: str) -> bool:
    return "/" not in text and _is_network(text)


def _check_size(network: Network) -> None:
    """Raise :class:`ValueError` for the unspecified address, and for a network that is too wide."""
    if network.num_addresses == 1 and network.network_address.is_unspecified:
        raise ValueError("is the unspecified address, which no visitor has")
    _check_count(network.num_addresses, network.version)


def _check_count(addresses: int, version: int) -> None:
    """Raise :class:`ValueError` for more addresses than those of the widest network."""
    shortest = _SHORTEST_PREFIX[version]
    bits = {4: ipaddress.IPV4LENGTH, 6: ipaddress.IPV6LENGTH}[version]
    if addresses > 2 ** (bits - shortest):
        raise ValueError(f"covers {addresses:,} addresses; the widest network allowed is /{shortest} for IPv{version}")


def _count_of_wildcard(text: str) -> int:
    """Return the number of IPv4 addresses of a text such as ``192.0.2.*`` or ``192.0.2-3.*``."""
    numbers = text.removesuffix(".").split(".")
    count: int = 256 ** (4 - len(numbers))
    for number in numbers:
        low, is_range, high = number.partition("-")
        if number == "*":
            count *= 256
        elif is_range:
            count *= abs(int(high) - int(low)) + 1
    return count


# Thousands of websites have the same few addresses.
@functools.lru_cache(maxsize=1 << 16)
def _is_network(entry: str) -> bool:
    """Return whether a text is an address, or a network without host bits."""
    try:
        _network(entry)
    except ValueError:
        return False
    return "%" not in entry


@functools.lru_cache(maxsize=1 << 16)
def _address_key(line: str) -> str:
    entry = without_comment(line)
    try:
        network = _network(entry)
    except ValueError:
        return entry
    if network.num_addresses == 1:
        return str(network.network_address)
    return str(network)
