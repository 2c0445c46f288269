from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_analytics import __version__
from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots.manifest import json_schema
from airflow_provider_analytics.snapshots.reader import latest_day, read_manifest
from airflow_provider_analytics.storage import StoragePath

Make = Callable[..., Any]
SCHEMA = json.loads((files("airflow_provider_analytics.snapshots") / "manifest.schema.json").read_text())
NIGHT = timedelta(days=1)


def stored(snapshot: Any) -> Any:
    return json.loads(snapshot.partition.fs.cat_file((snapshot.partition / "manifest.json").path))


def test_the_schema_in_the_package_is_that_of_the_code() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json_schema() == SCHEMA


def test_a_manifest_says_what_it_holds_and_why_it_is_whole(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(250, colour="red"))
    manifest = stored(first)
    jsonschema.validate(manifest, SCHEMA, format_checker=jsonschema.FormatChecker())
    assert manifest["count"] == 250
    assert manifest["proof"] == {"method": "closed reading", "total": 250, "pages": 5}
    assert (manifest["requests"], manifest["retries"]) == (3, 1)
    assert (manifest["snapshot_date"], manifest["observed_at"]) == ("2026-11-20", "2026-11-20T12:00:00Z")
    assert manifest["source"] == {"host": "stats.example.com", "account_id": "1"}
    assert manifest["provider_version"] == __version__
    assert manifest["fields"] == {"new": ["colour"], "missing": [], "misfits": {}}
    assert {"name": "privacy", "type": "integer"} in manifest["columns"]
    assert manifest["previous"] is None
    assert manifest["late"] is False


def test_it_points_at_the_snapshot_before_and_counts_what_changed(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    records = make_websites(20)
    first = take(base, records)
    changed = [records[0] | {"id": 99}, records[1] | {"privacy": 1}, *records[2:-2]]
    second = take(base, changed, first.manifest.observed_at + 3 * NIGHT)
    jsonschema.validate(stored(second), SCHEMA)
    assert stored(second)["previous"] == {
        "snapshot_date": "2026-11-20",
        "digest": first.digest,
        "added": 1,
        "removed": 3,
        "changed": 1,
    }


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"", "corrupt"),
        (b"{", "corrupt"),
        (b"[]", "corrupt"),
        (b'{"version": 1}', "corrupt"),
        (b'{"version": "one"}', "corrupt"),
        (b'{"version": 2, "files": {}}', "newer airflow-provider-analytics wrote it"),
    ],
)
def test_a_manifest_that_cannot_be_read_stops_the_next_run(
    take: Make, make_websites: Make, base: StoragePath, content: bytes, match: str
) -> None:
    first = take(base, make_websites(3))
    base.fs.pipe_file((first.partition / "manifest.json").path, content)
    for later in (timedelta(0), NIGHT):
        with pytest.raises(SnapshotError, match=f"(?s){match}.*force=True"):
            take(base, make_websites(3), first.manifest.observed_at + later)
    assert base.fs.cat_file((first.partition / "manifest.json").path) == content
    second = take(base, make_websites(3), first.manifest.observed_at + NIGHT, force=True)
    assert second.manifest.previous is None
    assert take(base, make_websites(3), force=True).manifest.count == 3


def test_a_newer_manifest_of_the_same_version_may_know_more(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    path = (first.partition / "manifest.json").path
    base.fs.pipe_file(path, json.dumps(stored(first) | {"novelty": 1}).encode())
    assert read_manifest(first.partition) == first.manifest


def test_a_folder_without_success_is_not_published(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    second = take(base, make_websites(3), first.manifest.observed_at + NIGHT)
    base.fs.rm_file((second.partition / "_SUCCESS").path)
    assert read_manifest(second.partition) is None
    assert latest_day(base) == first.manifest.snapshot_date
    assert latest_day(base, before=first.manifest.snapshot_date) is None


def test_a_clock_that_went_backwards_is_noticed(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    with pytest.raises(SnapshotError, match="clock"):
        take(base, make_websites(3), datetime(2026, 11, 20, 11, tzinfo=UTC))
    kept = read_manifest(first.partition)
    assert kept == first.manifest
    take(base, make_websites(3), datetime(2026, 11, 20, 11, 56, tzinfo=UTC))


def test_the_schema_travels_in_the_package() -> None:
    assert Path(str(files("airflow_provider_analytics.snapshots") / "report.html.j2")).exists()
