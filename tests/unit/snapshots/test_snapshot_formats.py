# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import importlib
from types import ModuleType
from typing import Any

import pytest
import time_machine
from shelf import HOUR, NOON, Shelf

from airflow_provider_analytics.exceptions import MissingPackageError
from airflow_provider_analytics.snapshots.formats import FORMATS

ENDINGS = {None: "", "gzip": ".gz", "zstd": ".zst"}
EACH_FORMAT = pytest.mark.parametrize("file_format", FORMATS)
COMPRESSIONS = pytest.mark.parametrize("compression", ENDINGS)


@EACH_FORMAT
@COMPRESSIONS
@pytest.mark.parametrize("count", [0, 250])
def test_every_format_reads_back_as_it_was_written(
    shelf: Shelf, count: int, file_format: str, compression: str | None
) -> None:
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
def test_an_unchanged_list_gives_the_same_bytes_whenever_it_is_written(
    local: Shelf, file_format: str, compression: str | None
) -> None:
    found = []
    for written in (NOON, NOON + HOUR):
        with time_machine.travel(written, tick=False):
            found += local.take(250, format=file_format, compression=compression).manifest.files
    assert found[0].sha256 == found[1].sha256


@pytest.mark.parametrize(
    ("options", "module", "extra"),
    [({"format": "parquet"}, "pyarrow", "parquet"), ({"compression": "zstd"}, "zstandard", "zstd")],
)
def test_a_missing_extra_is_named_before_anything_is_read(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], module: str, extra: str
) -> None:
    def without(name: str) -> ModuleType:
        if name == module:
            raise ImportError(name)
        return importlib.import_module(name)

    monkeypatch.setattr("airflow_provider_analytics.snapshots.formats.import_module", without)
    with pytest.raises(MissingPackageError, match=rf"airflow-provider-analytics\[{extra}\]"):
        shelf.take(lambda: pytest.fail("the list was read"), **options)
