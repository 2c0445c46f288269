from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.snapshots.catalog import read_snapshot
from airflow_provider_analytics.storage import StoragePath

Make = Callable[..., Any]
FORMATS = [
    ("jsonl", None, ".jsonl"),
    ("jsonl", "gzip", ".jsonl.gz"),
    ("jsonl", "zstd", ".jsonl.zst"),
    ("csv", None, ".csv"),
    ("csv", "gzip", ".csv.gz"),
    ("csv", "zstd", ".csv.zst"),
    ("parquet", None, ".parquet"),
    ("parquet", "gzip", ".parquet"),
    ("parquet", "zstd", ".parquet"),
]
ODD = {
    "domain": "b\u00fccher.example",
    "exclude_params": 'quote"d\ncomma,d\n=1+1',
    "exclude_ips": "192.0.2.1\n2001:db8::1",
    "favorite": True,
    "note": "line\u2028separator\r\nand \x00 nul \U0001f600",
}


@pytest.mark.parametrize(("file_format", "compression", "suffix"), FORMATS)
@pytest.mark.parametrize("count", [0, 1, 250])
def test_every_format_reads_back_as_it_was_written(
    take: Make, make_websites: Make, base: StoragePath, count: int, file_format: str, compression: str, suffix: str
) -> None:
    records = make_websites(count)
    if records:
        records[0].update(ODD)
    expected = list(take(base / "plain", records).rows())
    taken = take(base, records, format=file_format, compression=compression)
    read = read_snapshot(base, taken.manifest.snapshot_date)
    assert read is not None
    assert list(read.rows()) == expected
    assert len(expected) == count
    if not count:
        assert read.manifest.files == []
        return
    (file,) = read.manifest.files
    assert file.name.endswith(suffix)
    stored = base.fs.cat_file(read.files[0].path)
    assert (file.rows, file.bytes, file.sha256) == (count, len(stored), hashlib.sha256(stored).hexdigest())


@pytest.mark.parametrize(("file_format", "compression", "suffix"), FORMATS)
def test_an_unchanged_list_gives_the_same_bytes_but_for_the_moment(
    take: Make, make_websites: Make, local_base: StoragePath, file_format: str, compression: str, suffix: str
) -> None:
    options = {"format": file_format, "compression": compression}
    one = take(local_base / "one", make_websites(250), **options).manifest.files[0]
    other = take(local_base / "other", make_websites(250), **options).manifest.files[0]
    assert (one.bytes, one.sha256) == (other.bytes, other.sha256)


def test_a_later_reading_differs_in_observed_at_only(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(20))
    before = list(first.rows())
    second = take(base, make_websites(20), first.manifest.observed_at + timedelta(hours=1))
    after = list(second.rows())
    assert len({row["observed_at"] for row in after}) == 1
    assert before[0]["observed_at"] != after[0]["observed_at"]
    assert [row | {"observed_at": None} for row in before] == [row | {"observed_at": None} for row in after]


@pytest.mark.parametrize(
    ("options", "module", "extra"),
    [
        ({"format": "parquet"}, "pyarrow", "parquet"),
        ({"compression": "zstd"}, "zstandard", "zstd"),
    ],
)
def test_a_missing_extra_is_named_before_anything_is_read(
    take: Make,
    base: StoragePath,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    module: str,
    extra: str,
) -> None:
    def without(name: str) -> ModuleType:
        if name == module:
            raise ImportError(name)
        return importlib.import_module(name)

    monkeypatch.setattr("airflow_provider_analytics.snapshots.formats.import_module", without)
    with pytest.raises(ValueError, match=rf"airflow-provider-analytics\[{extra}\]"):
        take(base, "a listing that would fail", **options)


def test_a_file_that_lost_rows_is_noticed(take: Make, make_websites: Make, local_base: StoragePath) -> None:
    taken = take(local_base, make_websites(3))
    path = Path(taken.files[0].path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(StorageError, match="is damaged: its SHA-256 is"):
        list(taken.rows())
    path.unlink()
    with pytest.raises(StorageError, match="cannot read"):
        list(taken.rows())
