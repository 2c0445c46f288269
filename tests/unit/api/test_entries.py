# SPDX-License-Identifier: Apache-2.0
"""Entries of exclusion lists: addresses, networks, and parameters (``api/entries.py``)."""

from __future__ import annotations

import re

import pytest

from airflow_provider_analytics.api.entries import (
    EXPAND_LIMIT,
    Addresses,
    Entries,
    EntryType,
    Parameters,
    internal_addresses,
)
from airflow_provider_analytics.reconcile.desired.list_lines import read_list


def parse(entry_type: EntryType, argument: str, value: object, networks: str = "reject") -> Entries:
    """Return the entries of a list, or of a text with one entry per line, without duplicates."""
    return read_list(argument, value, entry_type, networks=networks).entries


@pytest.mark.parametrize(
    ("given_", "canonical"),
    [
        pytest.param("203.0.113.7", "203.0.113.7", id="IPv4"),
        pytest.param("2001:DB8:0:0::1", "2001:db8::1", id="IPv6 compressed"),
        pytest.param("::ffff:203.0.113.7", "203.0.113.7", id="IPv4-mapped"),
        pytest.param("203.0.113.7/32", "203.0.113.7", id="one address as a network"),
        pytest.param("2001:db8::1/128", "2001:db8::1", id="one IPv6 address as a network"),
        pytest.param("  203.0.113.7 \t# office", "203.0.113.7", id="padded, with a comment"),
    ],
)
def test_addresses_are_canonical(given_: str, canonical: str) -> None:
    assert parse(Addresses(), "exclude_ips", given_) == (canonical,)
    assert parse(Addresses(), "exclude_ips", [given_]) == (canonical,)


@pytest.mark.parametrize(
    ("number", "ending"), [(10, "line 10: "), (11, " and 1 more\nAllowed: "), (12, " and 2 more\n")]
)
def test_error_lists_at_most_ten_unusable_entries(number: int, ending: str) -> None:
    with pytest.raises(ValueError, match=rf"has unusable entries \({number}\):\n") as raised:
        parse(Addresses(), "exclude_ips", "\n".join(["nonsense"] * number))
    assert str(raised.value).count("nonsense") == 10
    assert ending in str(raised.value)


def test_text_can_contain_comments_and_repetitions_and_every_unusable_entry_is_named() -> None:
    text = "# offices\r\n203.0.113.7\r\n\r\n203.0.113.8 # Lyon\n::ffff:203.0.113.7\n"
    assert parse(Addresses(), "exclude_ips", text) == ("203.0.113.7", "203.0.113.8")
    text = "203.0.113.7\nnonsense\n# fine\n300.1.1.1\n01.2.3.4\n"
    with pytest.raises(ValueError, match=r"exclude_ips has unusable entries \(3\)") as raised:
        parse(Addresses(), "exclude_ips", text)
    for place in ("line 2: 'nonsense'", "line 4: '300.1.1.1'", "line 5: '01.2.3.4'"):
        assert place in str(raised.value)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        pytest.param("0.0.0.0", "unspecified", id="0.0.0.0"),
        pytest.param("::", "unspecified", id="::"),
        pytest.param("::ffff:0:0", "unspecified", id="0.0.0.0, mapped"),
        pytest.param("0.0.0.0/0", "4,294,967,296 addresses", id="all of IPv4"),
        pytest.param("::ffff:0:0/96", "4,294,967,296 addresses", id="all of IPv4, mapped"),
        pytest.param("128.0.0.0/1", "2,147,483,648 addresses", id="half of IPv4"),
        pytest.param("::/0", "widest network allowed is /16", id="all of IPv6"),
        pytest.param("2000::/3", "widest network allowed is /16", id="all public IPv6"),
        pytest.param("None # what a template made", "missing value", id="empty template"),
        pytest.param("NaN # a missing cell", "missing value", id="missing value of pandas"),
    ],
)
@pytest.mark.parametrize("networks", ["reject", "expand", "as_is"])
def test_very_wide_networks_are_rejected_by_every_policy(entry: str, reason: str, networks: str) -> None:
    with pytest.raises(ValueError, match="line 1") as raised:
        parse(Addresses(), "exclude_ips", entry, networks)
    assert reason in str(raised.value)


UNUSUAL = [
    pytest.param("203.0.113.7/24", "the network is 203.0.113.0/24", id="bits behind the prefix"),
    pytest.param("203.0.113.*", "is not an IP address", id="wildcard"),
    pytest.param("203.0.113.1-20", "is not an IP address", id="range"),
    pytest.param("10/8", "is not an IP address", id="short network"),
    pytest.param(r"^10\.[0-9]{1,3}\.", "is not an IP address", id="pattern"),
    pytest.param("[0-9a-f:]+", "is not an IP address", id="pattern in brackets"),
]


@pytest.mark.parametrize(("entry", "reason"), UNUSUAL)
def test_unusual_entries_are_sent_only_unchanged(entry: str, reason: str) -> None:
    for networks in ("reject", "expand"):
        with pytest.raises(ValueError, match=reason):
            parse(Addresses(), "exclude_ips", entry, networks)
    assert parse(Addresses(), "exclude_ips", entry, "as_is") == (entry,)


SEVERAL = ["192.0.2.1,192.0.2.2", "192.0.2.1; 192.0.2.2", "192.0.2.1 office"]
NO_NETWORKS = [
    "203.0.113.7,203.0.113.8", "203.0.113.7 203.0.113.8", "203.0.113.300", "203.0.113.0/33", "AS64500",
    '"203.0.113.0/24","DE"', "[203.0.113.7,203.0.113.8]", "fe80::1%eth0", "office", "a - b", "*", "10",
    "\N{FULLWIDTH DIGIT ONE}.2.3.4", "[2001:db8::1]", "10.0.0.0/8 ; headquarters", "allow 192.0.2.1;", *SEVERAL,
]  # fmt: skip


@pytest.mark.parametrize("entry", NO_NETWORKS)
@pytest.mark.parametrize("networks", ["reject", "expand", "as_is"])
def test_text_that_cannot_be_a_network_is_rejected_by_every_policy(entry: str, networks: str) -> None:
    with pytest.raises(ValueError, match=r"line 2: ") as raised:
        parse(Addresses(), "exclude_ips", f"192.0.2.1\n{entry}", networks)
    assert entry not in SEVERAL or "; write one entry per line" in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        *("${PARAMS}", "$(PARAMS)", "{{ params }}", "{{params}}", "%(params)s", "[[params]]", "{params}"),
        *("$PARAMS", "%PARAMS%", "%{params}", "%s", "@PARAMS@"),
    ],
)
def test_placeholders_of_other_tools_are_no_parameters(name: str) -> None:
    with pytest.raises(ValueError, match=r"line 2: .*(placeholder|white space)"):
        parse(Parameters(), "exclude_params", f"gclid\n{name}")


@pytest.mark.parametrize("name", ["$filter", "@type", "ids[]", "filter[price]", "utm~x", "50%off"])
def test_unusual_names_of_parameters_are_sent(name: str) -> None:
    assert parse(Parameters(), "exclude_params", name) == (name,)


@pytest.mark.parametrize("entry", ["0.0.0.1/0", "11.0.0.0/7", "2001::/15", "::ffff:1.2.3.4/97"])
def test_host_bits_do_not_hide_a_very_wide_network(entry: str) -> None:
    for networks in ("reject", "expand"):
        with pytest.raises(ValueError, match="has host bits set"):
            parse(Addresses(), "exclude_ips", entry, networks)
    with pytest.raises(ValueError, match=r"covers .* the widest network allowed is"):
        parse(Addresses(), "exclude_ips", entry, "as_is")


@pytest.mark.parametrize("entry", ["a\x00b", "10.0.0.1\u200b", "a\x1b[31m"])
def test_entries_with_invisible_characters_are_never_sent(entry: str) -> None:
    with pytest.raises(ValueError, match="contains invisible characters"):
        parse(Addresses(), "exclude_ips", [entry], "as_is")


def test_networks_are_rejected_expanded_or_sent() -> None:
    with pytest.raises(ValueError, match="is a network, but the service documents single addresses only"):
        parse(Addresses(), "exclude_ips", "203.0.113.0/30")
    assert parse(Addresses(), "exclude_ips", "203.0.113.0/30", "expand") == tuple(f"203.0.113.{n}" for n in range(4))
    assert parse(Addresses(), "exclude_ips", "203.0.113.0/30", "as_is") == ("203.0.113.0/30",)
    with pytest.raises(ValueError, match="The closest is 'reject'"):
        parse(Addresses(), "exclude_ips", "", "rejekt")


def test_expansion_is_limited_over_the_whole_list() -> None:
    assert len(parse(Addresses(), "exclude_ips", ["10.0.0.0/23", "10.1.0.0/23"], "expand")) == EXPAND_LIMIT
    with pytest.raises(ValueError, match="entry 3"):
        parse(Addresses(), "exclude_ips", ["10.0.0.0/23", "10.1.0.0/23", "10.2.0.0/31"], "expand")
    with pytest.raises(ValueError, match="can expand to 1,024"):
        parse(Addresses(), "exclude_ips", "2001:db8::/32", "expand")


def test_parameters_keep_their_case() -> None:
    assert parse(Parameters(), "exclude_params", "utm_source\nGCLID # ads\n\n#x\nutm_source") == ("utm_source", "GCLID")
    with pytest.raises(ValueError, match="line 2: 'a b' contains white space"):
        parse(Parameters(), "exclude_params", "a\na b")
    with pytest.raises(ValueError, match=r"exclude_params='None' is not allowed.*tojson"):
        parse(Parameters(), "exclude_params", "None")


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("203.0.113.7 # typed by Ann", "203.0.113.7"),
        ("::FFFF:203.0.113.7", "203.0.113.7"),
        ("203.0.113.0/24", "203.0.113.0/24"),
        ("203.0.113.7/24", "203.0.113.7/24"),
        ("anything", "anything"),
        ("# only a comment", ""),
    ],
)
def test_entries_of_the_service_are_compared_by_key(line: str, key: str) -> None:
    assert Addresses().key(line) == key


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("?gclid", "gclid"),
        ("&fbclid", "fbclid"),
        ("utm_source=news", "utm_source"),
        ("?a=1&b=2", "a"),
        ("=", "the name"),
    ],
)
def test_part_of_a_url_is_rejected_as_a_parameter_and_the_right_name_given(entry: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"line 1: '{re.escape(entry)}' is a part of an address.*write '{name}'"):
        parse(Parameters(), "exclude_params", entry)


def test_internal_addresses_are_found() -> None:
    internal = ["10.1.2.3", "127.0.0.1", "169.254.1.1", "172.31.255.255", "192.168.0.7", "192.168.0.0/24"]
    internal += ["::1", "fd00::1"]
    public = ["203.0.113.7", "192.0.2.1", "172.32.0.1", "8.8.8.8", "2001:db8::1", "192.0.0.0/8", "office"]
    assert internal_addresses([*public, *internal]) == internal
