from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api import listing
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.snapshots.catalog import Dataset, newest_snapshot
from airflow_provider_analytics.snapshots.manifest import json_schema
from airflow_provider_analytics.snapshots.take import what_changed
from airflow_provider_analytics.storage import StoragePath

Make = Callable[..., Any]
SCHEMA = json.loads((files("airflow_provider_analytics.snapshots") / "manifest.schema.json").read_text())
NIGHT = timedelta(days=1)


def stored(snapshot: Any) -> Any:
    return json.loads(snapshot.partition.about.fs.cat_file(snapshot.partition.manifest.path))


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
    assert manifest["source"] == {"url": "https://stats.example.com", "account_id": "1"}
    assert manifest["provider_version"] == __version__
    assert manifest["fields"] == {"new": ["colour"], "missing": [], "misfits": {}}
    assert {"name": "privacy", "type": "integer"} in manifest["columns"]
    assert (manifest["first"], manifest["previous"], manifest["changes"]) == (True, None, None)
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
        "observed_at": "2026-11-20T12:00:00Z",
        "count": 20,
        "digest": first.digest,
        "removed": 3,
        "privacy_changed": 1,
        "changed": 1,
        "added": 1,
    }
    assert stored(second)["first"] is False


def test_the_words_for_the_proof_are_those_of_the_code() -> None:
    described = SCHEMA["$defs"]["Completeness"]["description"]
    assert set(re.findall(r"``(.+?)``", described)) == set(listing.WHY_COMPLETE)


def test_several_snapshots_a_day_are_compared_with_the_one_they_replace(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    records = make_websites(60)
    first = take(base, records)
    second = take(base, [*records[1:], {"id": 99, "domain": "new"}], first.manifest.observed_at + timedelta(hours=1))
    replaced = stored(second)["replaced"]
    assert (replaced["count"], replaced["removed"], replaced["added"]) == (60, 1, 1)
    assert replaced["digest"] == first.digest
    assert stored(second)["previous"] is None
    assert what_changed(second.manifest) == (
        "replaces the snapshot of 12:00 UTC (60 websites): 1 removed, 0 changed, 1 added"
    )
    changes = base.fs.cat_file((second.partition.about / second.manifest.changes).path).splitlines()
    assert [json.loads(line)["change"] for line in changes] == ["removed", "added"]
    night = take(base, records, first.manifest.observed_at + NIGHT)
    third = take(base, records[:-2], first.manifest.observed_at + NIGHT + timedelta(hours=1))
    assert night.manifest.replaced is None
    assert what_changed(third.manifest) == (
        "replaces the snapshot of 12:00 UTC (60 websites): 2 removed, 0 changed, 0 added; "
        "since 2026-11-20: 3 removed, 0 changed, 1 added"
    )
    jsonschema.validate(stored(third), SCHEMA, format_checker=jsonschema.FormatChecker())


def test_a_manifest_of_a_newer_version_stops_the_next_run(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    content = b'{"version": 2, "files": {}}'
    base.fs.pipe_file(first.partition.manifest.path, content)
    for later in (timedelta(0), NIGHT):
        with pytest.raises(GuardError, match=r"(?s)newer airflow-provider-analytics wrote it"):
            take(base, make_websites(3), first.manifest.observed_at + later)
    assert base.fs.cat_file(first.partition.manifest.path) == content
    accept = frozenset({"version"})
    second = take(base, make_websites(3), first.manifest.observed_at + NIGHT, accept=accept)
    assert (second.manifest.first, second.manifest.previous) == (False, None)


def test_a_newer_manifest_of_the_same_version_may_know_more(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    path = first.partition.manifest.path
    base.fs.pipe_file(path, json.dumps(stored(first) | {"novelty": 1}).encode())
    read = first.partition.read()
    assert read is not None
    assert read.manifest == first.manifest


def test_a_folder_without_success_is_not_published(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    second = take(base, make_websites(3), first.manifest.observed_at + NIGHT)
    base.fs.rm_file(second.partition.success.path)
    assert second.partition.read() is None
    assert newest_snapshot(base) == first
    assert list(Dataset(base).published(before=first.manifest.snapshot_date)) == []


def test_a_clock_that_went_backwards_is_noticed(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    with pytest.raises(GuardError, match="clock"):
        take(base, make_websites(3), datetime(2026, 11, 20, 11, tzinfo=UTC))
    assert first.partition.read() == first
    take(base, make_websites(3), datetime(2026, 11, 20, 11, 56, tzinfo=UTC))


def test_the_schema_travels_in_the_package() -> None:
    assert Path(str(files("airflow_provider_analytics.snapshots") / "report.html.j2")).exists()
