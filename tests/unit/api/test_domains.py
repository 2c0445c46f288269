# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: RUF001 - the tests need these characters
"""Comparison and validation of domains (``api/domains.py``)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_analytics.api.domains import check_domain, domain_key, same_domain


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
