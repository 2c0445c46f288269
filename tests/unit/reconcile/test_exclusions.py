from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.reconcile.exclusions import (
    EXPAND_LIMIT,
    entry_key,
    parse_ips,
    parse_params,
    parse_selectors,
    plan_exclusions,
    reconcile,
    select,
)

ADDRESSES = st.ip_addresses().map(str).filter(lambda text: text not in ("0.0.0.0", "::", "::ffff:0:0"))


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
def test_addresses_come_out_canonical(given_: str, canonical: str) -> None:
    assert parse_ips("excluded_ips", given_) == (canonical,)
    assert parse_ips("excluded_ips", [given_]) == (canonical,)


def test_text_may_hold_comments_blank_lines_and_repetitions() -> None:
    text = "# offices\r\n203.0.113.7\r\n\r\n203.0.113.8 # Lyon\n::ffff:203.0.113.7\n"
    assert parse_ips("excluded_ips", text) == ("203.0.113.7", "203.0.113.8")


def test_every_unusable_entry_is_named_with_its_line() -> None:
    text = "203.0.113.7\nnonsense\n# fine\n300.1.1.1\n01.2.3.4\n"
    with pytest.raises(ValueError, match="excluded_ips has 3 unusable") as raised:
        parse_ips("excluded_ips", text)
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
        pytest.param("203.0.113.7/24", "the network is 203.0.113.0/24", id="bits behind the prefix"),
        pytest.param("fe80::1%eth0", "scope", id="scope"),
        pytest.param("203.0.113.*", "is not an IP address", id="wildcard"),
        pytest.param("None", "template", id="empty template"),
        pytest.param("['203.0.113.7']", "template", id="list as text"),
    ],
)
@pytest.mark.parametrize("networks", ["reject", "expand", "send"])
def test_entries_that_no_policy_allows(entry: str, reason: str, networks: str) -> None:
    with pytest.raises(ValueError, match="line 1") as raised:
        parse_ips("excluded_ips", entry, networks)
    assert reason in str(raised.value)


@pytest.mark.parametrize("value", [[7], [None], [["203.0.113.7"]], ["203.0.113.7\n203.0.113.8"]])
def test_list_items_that_are_not_one_line_of_text(value: list[object]) -> None:
    with pytest.raises(ValueError, match="entry 1"):
        parse_ips("excluded_ips", value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [None, 7, b"203.0.113.7", {"203.0.113.7": 1}])
def test_values_that_are_no_list(value: object) -> None:
    with pytest.raises(ValueError, match="allowed: a list"):
        parse_ips("excluded_ips", value)  # type: ignore[arg-type]


def test_networks_are_refused_expanded_or_sent() -> None:
    with pytest.raises(ValueError, match="is a network; the service promises addresses only"):
        parse_ips("excluded_ips", "203.0.113.0/30")
    assert parse_ips("excluded_ips", "203.0.113.0/30", "expand") == tuple(f"203.0.113.{n}" for n in range(4))
    assert parse_ips("excluded_ips", "203.0.113.0/30", "send") == ("203.0.113.0/30",)
    with pytest.raises(ValueError, match="did you mean reject"):
        parse_ips("excluded_ips", "", "rejekt")


def test_expansion_is_limited_over_the_whole_list() -> None:
    assert len(parse_ips("excluded_ips", ["10.0.0.0/23", "10.1.0.0/23"], "expand")) == EXPAND_LIMIT
    with pytest.raises(ValueError, match="entry 3"):
        parse_ips("excluded_ips", ["10.0.0.0/23", "10.1.0.0/23", "10.2.0.0/31"], "expand")
    with pytest.raises(ValueError, match="may expand to 1,024"):
        parse_ips("excluded_ips", "2001:db8::/32", "expand")


def test_params_keep_their_case() -> None:
    assert parse_params("excluded_params", "utm_source\nGCLID # ads\n\n#x\nutm_source") == ("utm_source", "GCLID")
    with pytest.raises(ValueError, match="line 2: 'a b' holds white space"):
        parse_params("excluded_params", "a\na b")
    with pytest.raises(ValueError, match="line 1: 'None'"):
        parse_params("excluded_params", "None")


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
    assert entry_key("exclude_ips", line) == key


@pytest.mark.parametrize(
    ("mode", "desired", "owned", "after", "owned_after"),
    [
        pytest.param(
            "merge", ("1.1.1.1", "9.9.9.9"), (), "# Ann\n1.1.1.1 # home\n2.2.2.2\n9.9.9.9", None, id="merge adds"
        ),
        pytest.param("merge", ("2.2.2.2",), (), None, None, id="merge never removes"),
        pytest.param("replace", ("9.9.9.9", "1.1.1.1"), (), "# Ann\n1.1.1.1 # home\n9.9.9.9", None, id="replace"),
        pytest.param("replace", ("2.2.2.2", "1.1.1.1"), (), None, None, id="replace by the same set"),
        pytest.param("replace", (), (), "", None, id="replace by nothing drops comments too"),
        pytest.param(
            "managed", ("9.9.9.9",), ("2.2.2.2",), "# Ann\n1.1.1.1 # home\n9.9.9.9", ("9.9.9.9",), id="managed"
        ),
        pytest.param("managed", ("1.1.1.1",), (), None, (), id="what was typed by hand is not owned"),
        pytest.param("managed", ("2.2.2.2",), ("2.2.2.2",), None, ("2.2.2.2",), id="owned stays owned"),
        pytest.param("managed", (), ("8.8.8.8",), None, (), id="owned, but gone already"),
        pytest.param(
            "managed",
            ("8.8.8.8",),
            ("8.8.8.8",),
            "# Ann\n1.1.1.1 # home\n2.2.2.2\n8.8.8.8",
            ("8.8.8.8",),
            id="added again",
        ),
    ],
)
def test_modes(
    mode: str, desired: tuple[str, ...], owned: tuple[str, ...], after: str | None, owned_after: tuple[str, ...] | None
) -> None:
    current = ("# Ann", "1.1.1.1 # home", "2.2.2.2")
    lines, entries = reconcile("exclude_ips", current, desired, mode, owned)
    assert lines == (current if after is None else tuple(after.splitlines()))
    if owned_after is not None:
        assert entries == owned_after


LINES = st.lists(ADDRESSES, max_size=6).map(tuple)


@settings(deadline=None)
@given(current=LINES, desired=LINES, owned=LINES, mode=st.sampled_from(["merge", "replace", "managed"]))
def test_a_list_reaches_what_is_wanted_and_stays_there(
    current: tuple[str, ...], desired: tuple[str, ...], owned: tuple[str, ...], mode: str
) -> None:
    wanted = parse_ips("excluded_ips", desired)
    after, owned_after = reconcile("exclude_ips", current, wanted, mode, owned)
    keys = {entry_key("exclude_ips", line) for line in after}
    before = {entry_key("exclude_ips", line) for line in current}
    expected = {
        "merge": before | set(wanted),
        "replace": set(wanted),
        "managed": (before - set(owned)) | set(wanted),
    }
    assert keys == expected[mode]
    assert reconcile("exclude_ips", after, wanted, mode, owned_after)[0] == after


@settings(deadline=None)
@given(versions=st.lists(LINES, min_size=1, max_size=4), typed=LINES)
def test_managed_versions_leave_what_was_typed_and_the_last_version(
    versions: list[tuple[str, ...]], typed: tuple[str, ...]
) -> None:
    lines, owned = typed, ()
    for version in versions:
        lines, owned = reconcile("exclude_ips", lines, parse_ips("x", version), "managed", owned)
    assert set(lines) >= set(typed)
    assert {entry_key("exclude_ips", line) for line in lines} == {
        entry_key("exclude_ips", line) for line in (*typed, *versions[-1])
    }


@pytest.mark.parametrize(
    "text", ["1.1.1.1\r\n2.2.2.2\r\n", "  1.1.1.1  \n\n 2.2.2.2", "2.2.2.2\n1.1.1.1", ["1.1.1.1", "2.2.2.2"]]
)
def test_line_ends_padding_and_order_make_no_difference(text: object) -> None:
    record = {"id": 1, "domain": "a.example", "exclude_ips": text}
    plan, _ = plan_exclusions("exclude_ips", [record], lambda _: ("1.1.1.1", "2.2.2.2"), mode="replace")
    assert plan.changes == ()


@pytest.mark.parametrize("empty", [None, "", " \n", []])
def test_an_empty_list_of_the_service_is_no_list(empty: object) -> None:
    record = {"id": 1, "domain": "a.example", "exclude_ips": empty}
    plan, owned = plan_exclusions("exclude_ips", [record], lambda _: ("1.1.1.1",), mode="managed")
    assert plan.changes[0].settings == {"exclude_ips": ["1.1.1.1"]}
    assert owned == {"1": ("1.1.1.1",)}


@pytest.mark.parametrize("record", [{"id": 1}, {"id": 1, "exclude_ips": 7}, {"id": 1, "exclude_ips": {"a": 1}}])
def test_a_list_that_is_not_shown_is_not_merged_into(record: dict[str, object]) -> None:
    for mode in ("merge", "managed"):
        with pytest.raises(UnsafePlanError, match="do not show exclude_ips"):
            plan_exclusions("exclude_ips", [record], lambda _: ("1.1.1.1",), mode=mode)
    plan, _ = plan_exclusions("exclude_ips", [record], lambda _: ("1.1.1.1",), mode="replace")
    assert plan.changes[0].settings == {"exclude_ips": ["1.1.1.1"]}


WEBSITES = [
    {"id": 1, "domain": "www.example.com"},
    {"id": 2, "domain": "Shop.Example.com"},
    {"id": 3, "domain": "example.org"},
    {"id": 4, "domain": "shop.example.com."},
    {"id": 5},
]


@pytest.mark.parametrize(
    ("selector", "ids"),
    [
        ("WWW.example.com.", {"1"}),
        ("shop.example.com", {"2", "4"}),
        ("*.example.com", {"1", "2", "4"}),
        ("*", {"1", "2", "3", "4"}),
        ("3", {"3"}),
        (5, {"5"}),
        ("example.?rg", {"3"}),
    ],
)
def test_selectors(selector: str | int, ids: set[str]) -> None:
    assert select(WEBSITES, parse_selectors("websites", [selector])) == (ids, [])


def test_selectors_that_mean_nothing_are_named() -> None:
    assert select(WEBSITES, ["www.example.com", "nope.example", "9", "*.nope"]) == (
        {"1"},
        ["nope.example", "9", "*.nope"],
    )


def test_selectors_may_come_as_text() -> None:
    assert parse_selectors("websites", "a.example # main\n\n# no\n17") == ["a.example", "17"]
    for bad in ([None], [True], [""], {"a": 1}, None):
        with pytest.raises(ValueError, match="websites"):
            parse_selectors("websites", bad)  # type: ignore[arg-type]
