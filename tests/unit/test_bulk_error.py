# SPDX-License-Identifier: Apache-2.0
"""The error that names the failed websites in a task log (``exceptions.py``)."""

from __future__ import annotations

import pytest

from airflow_provider_analytics.exceptions import BulkError


def test_websites_are_grouped_by_reason_and_ten_are_named() -> None:
    rejected = {
        f"{n}.example (id {n})": f"The service rejected a value. Request: PATCH /websites/{n}." for n in range(40)
    }
    differs = {f"x{n}.example (id {n})": f"Still differs: update x{n}.example (id {n}): privacy" for n in range(3)}
    lines = str(BulkError({**rejected, **differs}, done=1957, not_tried=differs.keys())).splitlines()
    assert lines[0] == "40 websites failed, 3 were not tried, 1,957 succeeded. The service rejected a value."
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
