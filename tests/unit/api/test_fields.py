# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001 - the tests need these characters
"""Values of website fields, such as domains and lists (``api/fields.py``, ``api/domains.py``, ``api/entries.py``)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_analytics.api.domains import check_domain, domain_key, same_domain
from airflow_provider_analytics.api.entries import (
    EXPAND_LIMIT,
    Addresses,
    Entries,
    EntryType,
    Parameters,
    internal_addresses,
)
from airflow_provider_analytics.api.fields import Boolean, Domain, Field, Flag, Lines, PrivacyFlag, Secret
from airflow_provider_analytics.reconcile.desired.list_lines import read_list

TEXT = Field("note", "a note")
PRIVACY = PrivacyFlag("privacy", "who sees it")
FLAG = Flag("email", "reports")
BOOLEAN = Boolean("favorite", "a mark")
PARAMS = Lines("exclude_params", "parameters", entries=Parameters())
ADDRESSES = Lines("exclude_ips", "addresses", entries=Addresses())


def test_text_of_a_user_and_of_the_service_is_kept() -> None:
    """No field of the table is a plain text; tests/contract tests the fields of the table."""
    assert TEXT.from_user("Berlin office") == TEXT.to_form("Berlin office", ("no", "yes")) == "Berlin office"
    assert TEXT.from_service("Berlin") == TEXT.to_column("Berlin") == "Berlin"
    for value in (1, None):
        with pytest.raises(ValueError, match="note"):
            TEXT.from_user(value)


@pytest.mark.parametrize(
    ("field", "returned", "stored"),
    [
        (TEXT, 1, None),
        (PRIVACY, 7, 7),
        (FLAG, "perhaps", None),
        (FLAG, 10**18 - 1, 10**18 - 1),
        (FLAG, 10**18, None),
        (FLAG, -(10**18), None),
        (BOOLEAN, "perhaps", None),
        (PARAMS, 5, None),
        (PARAMS, ["a", 5], None),
        (ADDRESSES, "not an address", "not an address"),
    ],
)
def test_unknown_value_of_the_service_is_stored_only_if_it_fits_the_column(
    field: Field, returned: Any, stored: Any
) -> None:
    assert field.to_column(returned) == stored


@pytest.mark.parametrize(
    ("field", "omitted", "null"),
    [
        (TEXT, "", ""),
        (FLAG, False, None),
        (PRIVACY, "public", None),
        (BOOLEAN, False, False),
        (Lines("paths", "paths", entries=EntryType()), (), ()),
    ],
)
def test_omitted_value_and_null_of_the_service_are_empty_values_of_some_types(
    field: Field, omitted: Any, null: Any
) -> None:
    assert field.from_service(field.omitted) == omitted
    assert (field.from_service(None), type(field.from_service(None))) == (null, type(null))


def test_null_of_the_service_is_no_value_of_a_domain_or_a_secret() -> None:
    assert Domain("domain", "a domain").from_service(None) is None
    assert Secret("token", "a secret").from_service(None) is None


# Domains


@pytest.mark.parametrize(
    ("item", "other"),
    [
        pytest.param("www.example.com", "WWW.Example.COM.", id="letter case and trailing dot"),
        pytest.param("bücher.example", "xn--bcher-kva.example", id="U-label and A-label"),
        pytest.param("BÜCHER.example", "bücher.example", id="letter case beyond ASCII"),
        pytest.param("bu\u0308cher.example", "bücher.example", id="composed and decomposed"),
        pytest.param("straße.example", "xn--strae-oqa.example", id="sharp s stays"),
        pytest.param("ドメイン。example", "ドメイン.example", id="ideographic full stop"),
        pytest.param("_dmarc.BÜCHER.example", "_dmarc.xn--bcher-kva.example", id="one label that IDNA rejects"),
        pytest.param("Under_Score.example", "under_score.example", id="underscore"),
        pytest.param("βόλος.example", "xn--nxasmm1c.example", id="final sigma stays"),
        pytest.param("i❤.example", "xn--i-7iq.example", id="emoji"),
        pytest.param("I❤\ufe0f.example", "xn--i-7iq.example", id="emoji with a variation selector"),
        pytest.param("👍🏽.example", "xn--on8h5e.example", id="emoji with a skin tone"),
        pytest.param("bücher.example/blog", "xn--bcher-kva.example/blog", id="punycode before a path"),
    ],
)
def test_spellings_of_a_domain_are_equal(item: str, other: str) -> None:
    assert same_domain(item, other)


@pytest.mark.parametrize(
    ("item", "other"),
    [
        ("straße.example", "strasse.example"),
        ("www.example.com", "example.com"),
        ("bücher.example", "bucher.example"),
        ("βόλος.example", "βόλοσ.example"),
        ("example.com", "example.com.evil.example"),
        ("example.com", "example.com/blog"),
        ("example.com", "example.com/"),
        ("example.com", "example.com:8080"),
        ("example.com", "https://example.com"),
        ("http://example.com", "https://example.com"),
    ],
)
def test_different_domains_are_not_equal(item: str, other: str) -> None:
    assert not same_domain(item, other)


@given(st.text(max_size=30))
@example("..")
def test_domain_key_is_its_own_key(text: str) -> None:
    key = domain_key(text)
    assert domain_key(key) == key or not key.isascii()
    assert isinstance(key, str)


@pytest.mark.parametrize("item", "\n\r\t\x1b\x00\x7f\xad\u200b\u200e\u202e\u2028\u2066\ufeff\u034f\u3164\ufe0f\u2800")
def test_domain_with_an_invisible_character_is_rejected(item: str) -> None:
    with pytest.raises(ValueError, match="domain") as caught:
        check_domain(f"a{item}b.example")
    assert item not in str(caught.value)


@pytest.mark.parametrize(
    "domain",
    [
        "ドメイン。example",
        "l·l.example",
        "a・b.example",
        "i❤.example",
        "x-y.example",
        "192.0.2.7",
        "1.example",
        f"{'a' * 63}.a--b.example.com.",
    ],
)
def test_domain_with_an_unusual_character_is_accepted(domain: str) -> None:
    assert check_domain(domain) == domain


TYPOGRAPHIC = [
    "“shop.example”", "‘shop’.example", "„shop“.example", "«shop».example", "shop–berlin.example",
    "shop—berlin.example", "shop−berlin.example", "shop‐berlin.example", "shop…example", "shop′s.example",
    "＂shop＂.example", "【shop】.example",
]  # fmt: skip
#: Full-width separators, and empty parts.
MALFORMED = ["shop．example：8080", "shop.example／blog", "a＠shop.example", "shop..example", ".shop.example"]


@pytest.mark.parametrize(
    ("domain", "problem"),
    [
        *((domain, "a typographic quote, dash, or bracket") for domain in TYPOGRAPHIC),
        *((domain, "is not allowed") for domain in MALFORMED),
        *((number, "A number selects a website by its id") for number in ("123", "7", "１２")),
        ("*.example.com", "write example.com"),
        ("shop*.example.com", "A pattern is not a website"),
        (f"{'a' * 64}.example.com", "A part between two dots has at most 63 characters"),
        (f"{'ü' * 60}.example.com", "A part between two dots has at most 63 characters"),
        ("-a.example.com", "write a.example.com"),
        ("a.-b-.example.com", "write a.b.example.com"),
    ],
)
def test_domain_that_no_website_can_have_is_rejected_with_the_reason(domain: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_domain(domain)


# Entries of exclusion lists


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
    "203.0.113.7,203.0.113.8", "203.0.113.7 203.0.113.8", "203.0.113.300", "203.0.113.0/33", "AS64500", "10.0.0.1-::1",
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


@pytest.mark.parametrize(
    "entry",
    ["0.0.0.0-255.255.255.255", "10.0.0.0 - 11.0.0.0", "0-255.*.*.*", "1-2.0-255.*", "1-9.", "::-ffff::"],
)
def test_very_wide_range_is_rejected(entry: str) -> None:
    with pytest.raises(ValueError, match=r"covers .* the widest network allowed is"):
        parse(Addresses(), "exclude_ips", entry, "as_is")


@pytest.mark.parametrize(
    "entry", ["10.0.0.0-10.255.255.255", "10.*.*.*", "10.", "1-2.0-127.*", "2001:db8::-2001:db8::f"]
)
def test_range_as_wide_as_the_widest_network_is_sent(entry: str) -> None:
    assert parse(Addresses(), "exclude_ips", entry, "as_is") == (entry,)


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
