# SPDX-License-Identifier: Apache-2.0
"""Manifests of snapshots (``snapshots/manifest.py``)."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from shelf import HOUR, NIGHT, NOON, Shelf, websites

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api import listing
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.operators.snapshots import MAX_FIELDS, describe
from airflow_provider_analytics.snapshots.catalog import Snapshot
from airflow_provider_analytics.snapshots.take import what_changed

SCHEMA = json.loads((files("airflow_provider_analytics.snapshots") / "manifest.schema.json").read_text())
WHAT_CHANGED = ("removed", "privacy_changed", "changed", "added")


def stored(snapshot: Snapshot) -> Any:
    """Return a manifest as it is stored, after its validation by the schema."""
    manifest = json.loads(snapshot.partition.about.fs.cat_file(snapshot.partition.manifest.path))
    jsonschema.validate(manifest, SCHEMA, format_checker=jsonschema.FormatChecker())
    return manifest


def test_schema_file_is_valid_and_names_each_proof() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    described = SCHEMA["$defs"]["Completeness"]["description"]
    assert set(re.findall(r"``(.+?)``", described)) == set(listing.WHY_COMPLETE)


def test_manifest_describes_its_content_and_the_proof_of_completeness(shelf: Shelf) -> None:
    manifest = stored(shelf.take(websites(250, colour="red")))
    expected = {
        "count": 250,
        "proof": {"method": "closed reading", "total": 250, "pages": 5},
        "requests": 3,
        "retries": 1,
        "snapshot_date": "2026-11-20",
        "observed_at": "2026-11-20T12:00:00Z",
        "source": {"url": "https://stats.example.com", "account_id": "1"},
        "provider_version": __version__,
        "fields": {"new": ["colour"], "missing": [], "invalid_values": {}, "partial": []},
        "is_first": True,
        "previous": None,
        "changes_path": None,
        "late": False,
    }
    assert {name: manifest[name] for name in expected} == expected
    assert {"name": "privacy", "type": "integer"} in manifest["columns"]


def test_manifest_names_the_previous_snapshot_and_counts_changes(shelf: Shelf) -> None:
    records = websites(20)
    first = shelf.take(records)
    second = stored(shelf.take([records[0] | {"id": 99}, records[1] | {"privacy": 1}, *records[2:-2]], 3 * NIGHT))
    before = {"snapshot_date": "2026-11-20", "observed_at": "2026-11-20T12:00:00Z", "count": 20, "digest": first.digest}
    assert second["previous"] == before | dict(zip(WHAT_CHANGED, (3, 1, 1, 1), strict=True))
    assert second["is_first"] is False


def test_snapshot_is_compared_with_the_snapshot_that_it_replaces(shelf: Shelf) -> None:
    records = websites(60)
    first = shelf.take(records)
    second = shelf.take([*records[1:], {"id": 99, "domain": "new"}], HOUR)
    manifest = stored(second)
    assert [manifest["replaced_snapshot"][name] for name in ("digest", "count", *WHAT_CHANGED)] == [
        first.digest,
        60,
        1,
        0,
        0,
        1,
    ]
    assert manifest["previous"] is None
    assert what_changed(second.manifest) == (
        "It replaces the snapshot of 12:00 UTC (60 websites):\n1 removed, 0 changed, 1 added."
    )
    assert [change["change"] for change in second.changes()] == ["removed", "added"]
    assert shelf.take(records, NIGHT).manifest.replaced_snapshot is None
    third = shelf.take(records[:-2], NIGHT + HOUR)
    assert stored(third)["replaced_snapshot"]["removed"] == 2
    assert what_changed(third.manifest) == (
        "It replaces the snapshot of 12:00 UTC (60 websites):\n2 removed, 0 changed, 0 added. "
        "Since 2026-11-20: 3 removed, 0 changed, 1 added."
    )


def test_manifest_of_a_newer_version_stops_the_next_run(shelf: Shelf) -> None:
    path, content = shelf.take(3).partition.manifest.path, b'{"version": 2, "files": {}}'
    shelf.fs.pipe_file(path, content)
    for later in (NOON, NIGHT):
        with pytest.raises(GuardError, match=r"(?s)newer airflow-provider-analytics wrote it"):
            shelf.take(3, later)
    assert shelf.fs.cat_file(path) == content
    second = shelf.take(3, NIGHT, override_guards={"newer_version"})
    assert (second.manifest.is_first, second.manifest.previous) == (False, None)


def test_manifest_with_another_key_and_without_a_later_one_is_read(shelf: Shelf) -> None:
    first = shelf.take(3)
    manifest = stored(first) | {"novelty": 1}
    del manifest["fields"]["partial"]
    shelf.fs.pipe_file(first.partition.manifest.path, json.dumps(manifest).encode())
    assert shelf.read().manifest == first.manifest  # type: ignore[union-attr]


def test_clock_that_went_backwards_is_noticed(shelf: Shelf) -> None:
    first = shelf.take(3)
    with pytest.raises(GuardError, match="clock"):
        shelf.take(3, -HOUR)
    assert shelf.read() == first
    shelf.take(3, -HOUR / 15)


def test_result_of_the_operator_has_a_bounded_number_of_undocumented_fields(shelf: Shelf) -> None:
    new = {f"field_{number:03}": 1 for number in range(MAX_FIELDS + 10)}
    snapshot = shelf.take(websites(1, **new))
    assert snapshot.manifest.fields.new == list(new)
    assert describe(snapshot)["fields"]["new"] == list(new)[:MAX_FIELDS]
