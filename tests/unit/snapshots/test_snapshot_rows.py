from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.snapshots.rows import COLUMNS, FieldReport, typed_columns


def rows(
    *records: dict[str, Any], exclude_ips_as: str = "keep", secrets: Redactor | None = None
) -> tuple[list[dict[str, Any]], FieldReport]:
    report = FieldReport()
    made = typed_columns(
        records,
        snapshot_date="2026-11-20",
        observed_at="2026-11-20T00:00:00.000000+00:00",
        exclude_ips_as=exclude_ips_as,
        report=report,
        secrets=secrets,
    )
    return [
        dict(zip(block, values, strict=True)) for block in made for values in zip(*block.values(), strict=True)
    ], report


def test_a_row_has_all_columns_in_order_whatever_the_service_returns() -> None:
    (bare, full), report = rows(
        {"id": 1},
        {
            "id": "2",
            "domain": "a.example",
            "privacy": "2",
            "email": True,
            "exclude_bots": "0",
            "exclude_params": ["a", "b"],
            "exclude_ips": " 192.0.2.1 \r\n192.0.2.2",
            "favorite": 1,
            "colour": "red",
        },
    )
    assert list(bare) == list(full) == list(COLUMNS)
    assert [bare[name] for name in list(COLUMNS)[:8]] == ["1", None, None, None, None, None, None, None]
    assert full["privacy"] == 2
    assert (full["email"], full["exclude_bots"], full["favorite"]) == (1, 0, True)
    assert type(full["email"]) is int
    assert full["exclude_params"] == "a\nb"
    assert full["exclude_ips"] == "192.0.2.1\n192.0.2.2"
    assert (report.new, report.missing, dict(report.misfits)) == (["colour"], [], {})


def test_missing_fields_and_values_that_do_not_fit_are_reported_and_null() -> None:
    (row,), report = rows({"id": 1, "domain": ["a.example"], "privacy": True, "favorite": "maybe"})
    assert (row["domain"], row["privacy"], row["favorite"]) == (None, None, None)
    assert json.loads(row["record"])["favorite"] == "maybe"
    assert report.missing == ["email", "exclude_bots", "exclude_params", "exclude_ips"]
    assert dict(report.misfits) == {"domain": 1, "privacy": 1, "favorite": 1}


@pytest.mark.parametrize("value", [0, 0.0, False, {}, 1, [7]])
def test_a_list_that_is_no_list_is_null_and_reported(value: Any) -> None:
    (row,), report = rows({"id": 1, "exclude_ips": value})
    assert row["exclude_ips"] is None
    assert dict(report.misfits) == {"exclude_ips": 1}


def test_equal_values_of_different_types_are_different_cells() -> None:
    made, report = rows(*({"id": number, "email": value} for number, value in enumerate([1, True, "1", 1.0] * 9)))
    assert [row["email"] for row in made] == [1, 1, 1, None] * 9
    assert {type(row["email"]) for row in made} == {int, type(None)}
    assert dict(report.misfits) == {"email": 9}


def test_a_privacy_that_does_not_exist_yet_is_a_number_all_the_same() -> None:
    assert rows({"id": 1, "privacy": 9})[0][0]["privacy"] == 9


def test_an_empty_list_misses_no_fields() -> None:
    assert rows()[1].missing == []


def test_passwords_are_dropped_at_any_depth() -> None:
    (row,), report = rows(
        {"id": 1, "password": "hunter2", "share": {"Password_hash": "hunter2", "links": [{"password": "hunter2"}]}}
    )
    assert "hunter2" not in json.dumps(row)
    assert json.loads(row["record"]) == {"id": 1, "share": {"links": [{}]}}
    assert report.new == ["share"]


@pytest.mark.parametrize("exclude_ips_as", ["keep", "hash", "drop"])
@pytest.mark.parametrize("shown", ["{}", "https://stats.example.com/?key={}", "\ud800 {}"])
def test_a_given_secret_is_masked_in_every_column(shown: str, exclude_ips_as: str) -> None:
    redact = Redactor()
    redact.add("k3y-of-the-service")
    text = shown.format("k3y-of-the-service")
    website = {"id": 1, "domain": "a.example", "exclude_params": f"a\n{text}", "more": [{"deep": text}], text: 1}
    (row,), report = rows(website, exclude_ips_as=exclude_ips_as, secrets=redact)
    assert "k3y-of-the-service" not in json.dumps(row)
    assert row["domain"] == "a.example"
    assert row["exclude_params"] == "***"
    assert json.loads(row["record"]).get("more") == ([{"deep": "***"}] if exclude_ips_as == "keep" else None)
    assert not any("k3y-of-the-service" in name for name in report.new)


@pytest.mark.parametrize("value", ["192.0.2.1\n192.0.2.2", ["192.0.2.1", "192.0.2.2"], {"first": "192.0.2.1"}])
@pytest.mark.parametrize("mode", ["hash", "drop"])
def test_addresses_can_be_kept_out(mode: str, value: Any) -> None:
    (row,), report = rows({"id": 1, "exclude_ips": value, "more": {"exclude_ips": value}}, exclude_ips_as=mode)
    assert "192.0.2" not in json.dumps(row)
    assert "exclude_ips" not in report.missing
    if mode == "drop":
        assert row["exclude_ips"] is None
        assert "exclude_ips" not in row["record"]
    elif not isinstance(value, dict):
        first = hashlib.sha256(b"192.0.2.1").hexdigest()
        assert row["exclude_ips"].split("\n")[0] == f"sha256:{first}"


def test_the_hash_is_of_the_record_without_its_order() -> None:
    (one, other, third), _ = rows({"id": 1, "b": 2, "a": 1}, {"a": 1, "b": 2, "id": 1}, {"a": 1, "b": 3, "id": 1})
    assert one == other
    assert one["record_hash"] != third["record_hash"]
    assert one["record_hash"] == hashlib.sha256(one["record"].encode()).hexdigest()


def test_half_a_surrogate_pair_does_not_break_a_file() -> None:
    (row,), _ = rows({"id": 1, "domain": "a\ud800.example", "exclude_params": "\ud800"})
    assert row["domain"] == "a?.example"
    json.dumps(row, ensure_ascii=False).encode()


@pytest.mark.parametrize("website_id", [None, "", True, 1.5])
def test_a_website_needs_an_id(website_id: Any) -> None:
    with pytest.raises(StorageError, match="no usable id"):
        rows({"id": website_id})
