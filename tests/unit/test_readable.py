# SPDX-License-Identifier: Apache-2.0
"""Safe text for people: secrets, invisible characters, long texts, and failed websites (``readable.py``)."""

from __future__ import annotations

import pytest

from airflow_provider_analytics.exceptions import BulkError, UnexpectedResponseError
from airflow_provider_analytics.readable import (
    EXCERPT_LENGTH,
    Redactor,
    code_span,
    counted,
    first_of,
    is_plain,
    readable,
)

SECRET = "k3y-with-a/slash&more"


@pytest.fixture
def redactor() -> Redactor:
    found = Redactor()
    found.add(SECRET)
    return found


def test_start_of_a_secret_is_masked_only_at_the_end_of_a_part(redactor: Redactor) -> None:
    assert redactor.secrets == (SECRET,)
    start = SECRET[:8]
    assert readable(f"key {start}") == f"key {start}"
    assert readable(f"key {start}", is_part=True) == "key ***"
    assert readable(f"key {start} and more", is_part=True) == f"key {start} and more"
    assert readable(f"key {SECRET[:3]}", is_part=True) == f"key {SECRET[:3]}"
    # A very long text is cut before it is masked.
    long = "x" * (16 * 1024 - 10)
    assert readable(long + SECRET, len(long + SECRET)) == f"{long}***"


@pytest.mark.parametrize(
    ("secret", "is_in_text", "is_in_data"), [("abc", False, False), ("abcd", True, False), ("abcdefgh", True, True)]
)
def test_short_secret_is_masked_in_text_and_ignored_in_data(secret: str, is_in_text: bool, is_in_data: bool) -> None:
    redactor = Redactor()
    redactor.add(secret)
    assert (redactor(f"a {secret}.") == "a ***.") is is_in_text
    assert redactor.finds(f"a {secret}.") is is_in_data
    assert redactor.might_be_in(f'"a {secret}."'.encode()) is is_in_data


def test_rejections_that_differ_only_in_the_request_are_one_reason() -> None:
    answers = {
        f"{n}.example (id {n})": str(
            UnexpectedResponseError("It is a web page.", 200, "PATCH", f"/api/v1/websites/{n}")
        )
        for n in range(20)
    }
    assert str(BulkError(answers)).splitlines()[1:] == [
        "Websites: 0.example (id 0), 1.example (id 1), 2.example (id 2), 3.example (id 3), 4.example (id 4), "
        "5.example (id 5), 6.example (id 6), 7.example (id 7), 8.example (id 8), 9.example (id 9) and 10 more."
    ]


def test_secret_that_contains_another_one_is_masked_as_a_whole() -> None:
    redactor = Redactor()
    redactor.add("tenant-12345")
    redactor.add("a-tenant-12345-b")
    assert redactor("a-tenant-12345-b, tenant-12345") == "***, ***"


def test_secret_of_text_only_is_not_found_in_data() -> None:
    redactor = Redactor()
    redactor.add("a-long-tenant-name", in_data=False)
    assert redactor("a-long-tenant-name") == "***"
    assert not redactor.finds("a-long-tenant-name")


def test_secret_is_forgotten_with_its_redactor() -> None:
    redactor = Redactor()
    redactor.add("short-lived-secret")
    assert readable("short-lived-secret") == "***"
    del redactor
    assert readable("short-lived-secret") == "short-lived-secret"


@pytest.mark.parametrize(
    ("text", "escaped", "folded", "kept"),
    [
        ("plain é", "plain é", "plain é", "plain é"),
        ("a\nb", "a\\nb", "a b", "a\nb"),
        ("a \t\r\n b", "a \\t\\r\\n b", "a b", "a \\t\\r\n b"),
        ("a\u200bb\x1b[0m", "a\\u200bb\\x1b[0m", "a\\u200bb\\x1b[0m", "a\\u200bb\\x1b[0m"),
        ("a\u3164b", "a\\u3164b", "a\\u3164b", "a\\u3164b"),
    ],
)
def test_invisible_characters_and_line_breaks_are_escaped(text: str, escaped: str, folded: str, kept: str) -> None:
    assert readable(text) == escaped
    assert readable(text.encode()) == escaped
    assert readable(text, breaks="fold") == folded
    assert readable(text, breaks="keep") == kept
    assert is_plain(text) is (text == escaped)


def test_bytes_that_are_not_text_are_replaced() -> None:
    assert readable(b"\xef\xbb\xbfa\xffb") == "a\ufffdb"


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("x" * EXCERPT_LENGTH, EXCERPT_LENGTH, "x" * EXCERPT_LENGTH),
        ("x" * (EXCERPT_LENGTH + 1), EXCERPT_LENGTH, "x" * (EXCERPT_LENGTH - 3) + "..."),
        ("one two three", 12, "one two..."),
        ("one twothree", 11, "one twot..."),
        ("one two three", None, "one two three"),
    ],
)
def test_long_text_is_cut_between_words(text: str, limit: int | None, shown: str) -> None:
    assert readable(text, limit) == shown


def test_numbers_and_lists_are_written_as_words() -> None:
    assert [counted(number, "website") for number in (0, 1, 2, 1000)] == [
        "0 websites", "1 website", "2 websites", "1,000 websites"
    ]  # fmt: skip
    assert [counted(2, noun) for noun in ("entry", "day", "query")] == ["2 entries", "2 days", "2 queries"]
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of(["a", "b", "c"], 2, "; ", show=str.upper) == "A; B and 1 more"


@pytest.mark.parametrize(
    ("text", "span"),
    [("a", "`a`"), ("a`b", "`` a`b ``"), ("``", "``` `` ```"), ("", "`  `"), ("<b>\n", "`<b>\\n`"), ("xyz" * 99, None)],
)
def test_code_span_has_no_effect_in_markdown(text: str, span: str | None) -> None:
    if span is None:
        assert code_span(text, 10) == "`xyzxyzx...`"
    else:
        assert code_span(text) == span


def test_websites_are_grouped_by_reason_and_ten_are_named() -> None:
    rejected = {
        f"{n}.example (id {n})": f"The service rejected a value. Request: PATCH /websites/{n}." for n in range(40)
    }
    differs = {f"x{n}.example (id {n})": f"Still differs: update x{n}.example (id {n}): privacy" for n in range(3)}
    lines = str(BulkError({**rejected, **differs}, done=1957, not_tried=differs.keys())).splitlines()
    assert lines[0] == "40 websites failed, 3 not tried, 1,957 succeeded. The service rejected a value."
    assert lines[1].startswith("Websites: 0.example (id 0), ")
    assert lines[1].endswith(" and 35 more.")
    assert lines[2] == "Still differs: update the website: privacy."
    assert lines[3].startswith("Websites: x0.example (id 0), x1.example")
    assert str(BulkError({"a.example": "no"})).startswith("1 website failed, 0 succeeded.")
    unclear = BulkError({"a.example": "Website 'a.example' might have been created. No answer."})
    assert "word...\nWebsites: a.example." in str(BulkError({"a.example": "word " * 300}))
    assert "0 succeeded. The website might have been created. No answer.\nWebsites: a.example." in str(unclear)


@pytest.mark.parametrize("character", ["a", "\u00fc", "\U0001f600"])
def test_message_is_shorter_than_4_kb(character: str) -> None:
    failures = {f"{number}.{character * 240}": f"{number} {character * 500}" for number in range(300)}
    error = BulkError(failures)
    error.where = "Service: https://stats.example.com/app, connection 'analytics_default'"
    assert len(str(error).encode()) < 4096
    assert "more reasons." in str(error)


def test_reason_of_websites_that_were_not_tried_is_last() -> None:
    failures = {"a.example": "Rejected.", "b.example": "Stopped.", "c.example": "Stopped."}
    error = BulkError(failures, not_tried=["b.example", "c.example"])
    assert str(error).index("Websites: a.example") < str(error).index("Websites: b.example, c.example")


def test_websites_that_were_not_tried_did_not_fail() -> None:
    error = BulkError({"1.example": "The key was rejected."}, not_tried=["1.example"])
    assert str(error).startswith("1 website not tried, 0 succeeded. The key was rejected.")


def test_reason_does_not_name_one_of_several_websites() -> None:
    reasons = {name: f"2 websites have the domain '{name}': ids 1, 2." for name in ("a.example", "b.example")}
    assert "2 websites have the same domain: ids 1, 2.\nWebsites: a.example, b.example." in str(BulkError(reasons))
