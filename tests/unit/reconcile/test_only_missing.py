from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_analytics.reconcile.websites_file import parse_websites


def test_only_missing_and_prune_are_not_allowed_together() -> None:
    file = parse_websites({"websites": {"a.example": {}}})
    with pytest.raises(ValueError, match="prune=True and only_missing=True are not allowed together"):
        replace(file, prune=True, only_missing=True)


def test_websites_that_exist_are_left_as_they_are_however_often() -> None:
    file = parse_websites({"websites": {"a.example": {"privacy": "private"}, "b.example": {}}})
    records = [{"id": 1, "domain": "A.example.", "privacy": 0}, {"id": 2, "domain": "a.example", "privacy": 0}]
    desired = replace(file, only_missing=True).resolve(records)
    assert [website.domain for website in desired.created] == ["b.example"]
    assert all(desired.of(record) is None for record in records)
