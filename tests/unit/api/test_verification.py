# SPDX-License-Identifier: Apache-2.0
"""Verification of writes: sent values are stored and other documented values remain (``api/verification.py``)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.api.verification import COMPARED, ExpectedRecord, cause_of, with_omitted

LINES = {"exclude_ips": ("10.0.0.1", "10.0.0.2 # Ann", "10.1.0.0/16"), "exclude_params": ("utm_source", "gclid # ads")}
#: Field to the forms in which a service might return its values; the values of a row mean the same.
SHOWN: dict[str, list[list[Any]]] = {
    "privacy": [[0, "0"], [1, "1", "private"], [2]],
    "exclude_bots": [[0, "0", False], [1, "1", True]],
    "email": [[0, "0", False], [1, "1", True]],
    "favorite": [[False, None, 0], [True, 1, "1"]],
}
FLAGS = sorted(name for name in COMPARED if name in SHOWN)


def lists(name: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(LINES[name]), unique=True, max_size=3)


def lines_as(lines: list[str]) -> st.SearchStrategy[Any]:
    """A list in a form that a service might return."""
    return st.sampled_from(
        ["\n".join(lines), "\r\n".join(lines), [*lines], "\n".join(lines) + "\n", *([None] * (not lines))]
    )


@st.composite
def histories(draw: st.DrawFn) -> dict[str, Any]:
    """A website before a write, the sent values, and the later values, each with its meaning."""
    before: dict[str, Any] = {}
    meant: dict[str, Any] = {}
    sent: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    wrong: set[str] = set()
    hidden: set[str] = set()
    for name in [*FLAGS, *LINES]:
        is_list = name in LINES
        was = draw(lists(name)) if is_list else draw(st.sampled_from(SHOWN[name]))
        wanted = was
        if draw(st.booleans()):
            wanted = draw(lists(name)) if is_list else draw(st.sampled_from(SHOWN[name]))
            sent[name] = tuple(wanted) if is_list else wanted[0]
        fate = draw(st.sampled_from(["as expected", "as expected", "another", "hidden"]))
        now = wanted
        if fate == "another":
            now = draw(lists(name)) if is_list else draw(st.sampled_from(SHOWN[name]))
        before[name] = draw(lines_as(was)) if is_list else draw(st.sampled_from(was))
        if fate == "hidden":
            hidden.add(name)
        else:
            shown[name] = draw(lines_as(now)) if is_list else draw(st.sampled_from(now))
            if is_list:
                # Other users might add to a list that was not sent.
                differs = set(now) != set(wanted) if name in sent else not set(wanted) <= set(now)
            else:
                differs = now != wanted
            if differs:
                wrong.add(name)
        meant[name] = wanted
    return {"before": before, "sent": sent, "shown": shown, "wrong": wrong, "hidden": hidden}


@given(histories())
def test_comparison_reports_every_unexpected_value(history: dict[str, Any]) -> None:
    comparison = ExpectedRecord(history["before"], history["sent"]).compare(history["shown"])
    assert set(comparison.not_applied) == history["wrong"] & history["sent"].keys()
    assert set(comparison.unsent) == history["wrong"] - history["sent"].keys()
    assert history["hidden"] <= set(comparison.unverified)
    assert comparison.is_as_expected == (not comparison.not_applied and not comparison.unsent)
    if comparison.is_verified:
        assert not history["wrong"]
        assert not history["hidden"]


ADDRESSES = ("10.0.0.1", "10.0.0.2")
UNKNOWN_LISTS: list[Any] = [
    "10.0.0.1, 10.0.0.2", "10.0.0.1 10.0.0.2", '["10.0.0.1"]', "10.0.0.1\n10.0.…", 7, {}, [{"value": "10.0.0.1"}],
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "sent", "shown"),
    [
        ("privacy", "private", {"value": 1, "label": "Private"}),
        ("favorite", True, [True]),
        *(("exclude_ips", ADDRESSES, shown) for shown in UNKNOWN_LISTS),
    ],
)
def test_value_in_an_unknown_form_is_not_applied_and_its_form_is_the_cause(
    name: str, sent: object, shown: object
) -> None:
    expected = ExpectedRecord({}, {name: sent})
    assert "is returned in an unknown form" in expected.compare({name: shown}).not_applied[name]
    assert f"This form of {name} is not supported. Supported forms: http" in cause_of(expected, {name: shown})
    unsent = ExpectedRecord({"exclude_ips": "\n".join(ADDRESSES)}, {"email": 1}).compare({name: shown, "email": 1})
    assert name != "exclude_ips" or set(unsent.unsent) == {"exclude_ips"}


def test_secret_is_never_verified() -> None:
    comparison = ExpectedRecord({}, {"password": "s3cret-page"}).compare({"password": "s3cret-page"})
    assert comparison.is_as_expected
    assert not comparison.is_verified
    assert "password" in comparison.unverified


@pytest.mark.parametrize("earlier_sent", [{"email": 0}, {"exclude_ips": ("10.0.0.1 # Ann", "192.0.2.1")}])
def test_entry_that_is_sent_again_does_not_hide_a_lost_line_of_another_user(earlier_sent: dict[str, Any]) -> None:
    """The later write is computed from a record that lacks the line already."""
    shared = frozenset({"exclude_ips"})
    before = {"exclude_ips": "10.0.0.1 # Ann\n192.0.2.1"}
    earlier = ExpectedRecord(before, earlier_sent, shared=shared)
    again = ExpectedRecord({"exclude_ips": None}, {"exclude_ips": ("192.0.2.1",)}, shared=shared).following(earlier)
    assert again.compare({"exclude_ips": "192.0.2.1", "email": 0}).missing == {"exclude_ips": {"10.0.0.1 # Ann"}}
    assert again.compare({"exclude_ips": before["exclude_ips"], "email": 0}).is_as_expected


def test_line_that_a_later_write_removes_is_not_expected_any_more() -> None:
    shared = frozenset({"exclude_ips"})
    earlier = ExpectedRecord({"exclude_ips": "10.0.0.1\n10.0.0.2"}, {"email": 0}, shared=shared)
    removal = ExpectedRecord({"exclude_ips": "10.0.0.1\n10.0.0.2"}, {"exclude_ips": ("10.0.0.1",)}, shared=shared)
    assert removal.following(earlier).compare({"exclude_ips": "10.0.0.1", "email": 0}).is_as_expected


def test_other_domain_is_reported_except_for_case_and_trailing_dot() -> None:
    expected = ExpectedRecord({}, {"privacy": 1}, "a.example")
    assert expected.compare({"privacy": 1, "domain": "A.example."}).is_as_expected
    assert expected.compare({"privacy": 1, "domain": "b.example"}).other_domain == "b.example"


@pytest.mark.parametrize(
    ("before", "now", "missing"),
    [
        pytest.param("10.0.0.1", "192.0.2.9", "10.0.0.1", id="all lines of others"),
        pytest.param("10.0.0.1\n10.0.0.2", "10.0.0.1\n192.0.2.9", "10.0.0.2", id="one of two lines"),
        pytest.param("10.0.0.1", "10.0.0.7\n192.0.2.9", "10.0.0.1", id="a line that others replaced"),
        pytest.param("10.0.0.1 # Ann", "10.0.0.1\n192.0.2.9", "10.0.0.1 # Ann", id="a comment"),
        pytest.param("10.0.0.1", "10.0.0.1\n10.0.0.7\n192.0.2.9", "", id="no line, others added one"),
    ],
)
def test_missing_line_of_another_user_is_an_unsent_change_of_a_sent_list(before: str, now: str, missing: str) -> None:
    sent = (*before.splitlines(), "192.0.2.9")
    expected = ExpectedRecord({"exclude_ips": before}, {"exclude_ips": sent}, shared=frozenset({"exclude_ips"}))
    comparison = expected.compare({"exclude_ips": now})
    assert comparison.unsent == ({"exclude_ips": f"lacks {missing}"} if missing else {})
    assert comparison.is_applied


@pytest.mark.parametrize(
    ("record", "known", "completed"),
    [
        ({"id": 1}, {"exclude_bots", "exclude_ips"}, {"id": 1, "exclude_bots": 0, "exclude_ips": ""}),
        ({"id": 1, "privacy": None}, {"privacy"}, {"id": 1, "privacy": 0}),
        ({"id": 1, "exclude_ips": None, "favorite": None}, {"exclude_ips", "favorite"}, None),
        ({"id": 1}, set(), None),
    ],
)
def test_omitted_field_is_empty_if_other_records_have_it(
    record: dict[str, Any], known: set[str], completed: dict[str, Any] | None
) -> None:
    assert with_omitted(record, known) == (completed or record)
