# SPDX-License-Identifier: Apache-2.0
"""File formats of snapshots (``snapshots/formats.py``)."""

from __future__ import annotations

import hashlib
import importlib
from types import ModuleType

import pytest
import time_machine
from shelf import HOUR, NIGHT, NOON, Shelf, websites

from airflow_provider_analytics.exceptions import MissingPackageError, StorageError
from airflow_provider_analytics.snapshots.formats import FORMATS, utc_text

ENDINGS = {None: "", "gzip": ".gz"}
EACH_FORMAT = pytest.mark.parametrize("file_format", FORMATS)
COMPRESSIONS = pytest.mark.parametrize("compression", ENDINGS)


@EACH_FORMAT
@COMPRESSIONS
@pytest.mark.parametrize("count", [0, 250])
def test_every_format_reads_back_unchanged(shelf: Shelf, count: int, file_format: str, compression: str | None) -> None:
    expected = list(Shelf(shelf.base / "plain").take(count).rows())
    shelf.take(count, format=file_format, compression=compression)
    read = shelf.read()
    assert read is not None
    assert list(read.rows()) == expected
    assert len(expected) == count
    stored = [shelf.fs.cat_file(path.path) for path in read.files]
    found = [(file.rows, file.bytes, file.sha256) for file in read.manifest.files]
    assert found == [(count, len(content), hashlib.sha256(content).hexdigest()) for content in stored]
    suffix = ".parquet" if file_format == "parquet" else f".{file_format}{ENDINGS[compression]}"
    assert [file.name.endswith(suffix) for file in read.manifest.files] == [True] * bool(count)


@EACH_FORMAT
@COMPRESSIONS
def test_unchanged_list_gives_the_same_bytes_at_any_time(
    local: Shelf, file_format: str, compression: str | None
) -> None:
    found = []
    for written in (NOON, NOON + HOUR):
        with time_machine.travel(written, tick=False):
            found += local.take(250, format=file_format, compression=compression).manifest.files
    assert found[0].sha256 == found[1].sha256


@EACH_FORMAT
def test_list_that_is_too_large_to_be_read_again_is_not_published(
    shelf: Shelf, file_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.snapshots.take.MAX_DATA_BYTES", 1000)
    with pytest.raises(StorageError, match="1,000 are allowed"):
        shelf.take(250, format=file_format)
    assert shelf.read() is None


def test_row_groups_of_long_rows_are_small_enough_to_be_read_again(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.snapshots.formats.MAX_GROUP_BYTES", 1_000_000)
    # Blocks of a hundred rows: the first one is a bit smaller than a fourth of the limit.
    records = websites(200)
    for number, record in enumerate(records):
        record["note"] = "x" * (2_000 if number < 100 else 7_500)
    snapshot = shelf.take(records, format="parquet")
    assert len(list(snapshot.rows())) == 200


def remove_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the import of pyarrow fail."""

    def import_other(name: str) -> ModuleType:
        if name == "pyarrow":
            raise ImportError(name)
        return importlib.import_module(name)

    monkeypatch.setattr("airflow_provider_analytics.snapshots.formats.import_module", import_other)


def test_snapshot_fails_before_the_list_is_read_if_an_extra_is_missing(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove_pyarrow(monkeypatch)
    with pytest.raises(MissingPackageError, match="pip install pyarrow"):
        shelf.take(lambda: pytest.fail("the list was read"), format="parquet")


def test_snapshot_is_not_compared_if_the_previous_file_needs_a_missing_extra(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = shelf.take(3, format="parquet")
    remove_pyarrow(monkeypatch)
    second = shelf.take(4, NIGHT)
    assert (second.manifest.count, second.manifest.previous, second.manifest.is_first) == (4, None, False)
    assert "pip install pyarrow" in caplog.text
    with pytest.raises(MissingPackageError, match="reading websites-"):
        list(first.rows())


@pytest.mark.usefixtures("time_zone")
def test_observed_at_of_a_row_is_utc() -> None:
    assert utc_text(NOON) == "2026-11-20T12:00:00.000000+00:00"
