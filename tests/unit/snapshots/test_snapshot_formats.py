# SPDX-License-Identifier: Apache-2.0
"""Rows and files of snapshots: columns, types, secrets, hashes, and memory (``snapshots/formats.py``)."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet
import pytest
import time_machine
from shelf import HOUR, NIGHT, NOON, Record, Shelf, rows, websites

from airflow_provider_analytics.api.fields import RECORD_FIELDS
from airflow_provider_analytics.exceptions import MissingPackageError, StorageError
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.snapshots.formats import COLUMNS, FORMATS, utc_text

ENDINGS = {None: "", "gzip": ".gz"}
EACH_FORMAT = pytest.mark.parametrize("file_format", FORMATS)
COMPRESSIONS = pytest.mark.parametrize("compression", ENDINGS)


@pytest.mark.parametrize(("compression", "codec"), [(None, "SNAPPY"), ("gzip", "GZIP")])
def test_parquet_has_the_given_compression(local: Shelf, compression: str | None, codec: str) -> None:
    taken = local.take(5, format="parquet", compression=compression)
    metadata = pyarrow.parquet.read_metadata(taken.files[0].path)
    assert {metadata.row_group(0).column(number).compression for number in range(metadata.num_columns)} == {codec}


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


def test_row_has_all_columns_in_order_for_any_record() -> None:
    (bare, full), report = rows(
        {"id": 1},
        {
            **websites(1)[0],
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
    assert [bare[name] for name in ("id", *RECORD_FIELDS)] == ["1", *[None] * len(RECORD_FIELDS)]
    cells = {
        "id": "2",
        "domain": "a.example",
        "privacy": 2,
        "email": 1,
        "exclude_bots": 0,
        "exclude_params": "a\nb",
        "exclude_ips": "192.0.2.1\n192.0.2.2",
        "favorite": True,
    }
    assert {name: full[name] for name in cells} == cells
    assert (type(full["email"]), type(full["favorite"])) == (int, bool)
    assert (report.new, report.missing, dict(report.invalid_values)) == (["colour"], [], {})
    assert rows()[1].missing == []


NO_LISTS: list[Any] = [0, 0.0, False, {}, 1, [7]]


@pytest.mark.parametrize(
    ("record", "cells"),
    [
        ({"domain": ["a.example"], "privacy": True, "favorite": "maybe"}, {}),
        *(({"exclude_ips": value}, {}) for value in NO_LISTS),
        ({"email": 1.0}, {}),
        ({"privacy": 9}, {"privacy": 9}),  # a snapshot that does not exist yet
    ],
)
def test_values_that_do_not_fit_are_null_and_reported(record: Record, cells: Record) -> None:
    (row,), report = rows({"id": 1} | record)
    json.dumps(row, ensure_ascii=False).encode()
    assert {name: row[name] for name in record} == dict.fromkeys(record) | cells
    assert dict(report.invalid_values) == dict.fromkeys(record.keys() - cells, 1)
    assert report.missing == [name for name in RECORD_FIELDS if name not in record]
    if not cells:
        assert json.loads(row["record"]) == {"id": 1} | record


def test_passwords_are_dropped_at_any_depth() -> None:
    (row,), report = rows(
        {"id": 1, "password": "hunter2", "share": {"Password_hash": "hunter2", "links": [{"password": "hunter2"}]}}
    )
    assert "hunter2" not in json.dumps(row)
    assert json.loads(row["record"]) == {"id": 1, "share": {"links": [{}]}}
    assert report.new == ["share"]


@pytest.mark.parametrize("exclude_ips_as", ["keep", "hash", "drop"])
@pytest.mark.parametrize("shown", ["{}", "https://stats.example.com/?key={}"])
def test_given_secret_is_masked_in_every_column(shown: str, exclude_ips_as: str) -> None:
    redact = Redactor()
    redact.add("k3y-of-the-service")
    text = shown.format("k3y-of-the-service")
    website = {"id": 1, "domain": "a.example", "exclude_params": f"a\n{text}", "more": [{"deep": text}], text: 1}
    (row,), report = rows(website, exclude_ips_as=exclude_ips_as, secrets=redact)
    assert "k3y-of-the-service" not in json.dumps([row, report.new])
    assert (row["domain"], row["exclude_params"]) == ("a.example", "***")
    assert json.loads(row["record"]).get("more") == ([{"deep": "***"}] if exclude_ips_as == "keep" else None)


#: A reader of a snapshot sees no address that ``exclude_ips_as`` omits.
WITH_ADDRESSES: Record = {
    "id": 1,
    "domain": "192.0.2.99",  # a website can be an address
    "exclude_ips": "192.0.2.1\n2001:DB8::1",
    "exclude_params": "utm_source",
    "last_seen_from": "192.0.2.2",
    "note": "Office: 192.0.2.3, 2001:db8::3 and http://192.0.2.4:8080/. At 12:30:45 on v1.2.",
    "visits": {"192.0.2.5": 7, "others": [{"exclude_ips": "192.0.2.6"}, "192.0.2.7/24", "a"]},
    "count": 7,
}


@pytest.mark.parametrize("value", [WITH_ADDRESSES["exclude_ips"], ["192.0.2.1", "2001:DB8::1"], {"of": "192.0.2.1"}])
@pytest.mark.parametrize("how", ["hash", "drop"])
def test_addresses_of_a_record_are_not_in_files(local: Shelf, how: str, value: Any) -> None:
    taken = local.take([WITH_ADDRESSES | {"exclude_ips": value}], exclude_ips_as=how, html_report=True)
    files = [path for path in Path(local.base.path).rglob("*") if path.is_file()]
    text = "".join(path.read_text() for path in files).replace("192.0.2.99", "").lower()
    assert not re.findall(r"192\.0\.2\.\d|2001:db8::", text)
    assert "exclude_ips" not in taken.manifest.fields.missing
    [row] = taken.rows()
    whole = (json.dumps(value),) if isinstance(value, dict) else ("192.0.2.1", "2001:DB8::1")
    hashed = "\n".join(f"sha256:{hashlib.sha256(item.encode()).hexdigest()}" for item in whole)
    written = {"exclude_ips": hashed} if how == "hash" else {}
    assert row["exclude_ips"] == written.get("exclude_ips")
    assert json.loads(row["record"]) == {"id": 1, "domain": "192.0.2.99", "exclude_params": "utm_source", **written}


def test_hash_does_not_depend_on_the_order_of_the_record() -> None:
    (element, other, third), _ = rows({"id": 1, "b": 2, "a": 1}, {"a": 1, "b": 2, "id": 1}, {"a": 1, "b": 3, "id": 1})
    assert element == other
    assert element["record_hash"] != third["record_hash"]
    assert element["record_hash"] == hashlib.sha256(element["record"].encode()).hexdigest()


def test_cells_do_not_depend_on_equal_values_of_another_type() -> None:
    """1 and True are equal in Python, but not in a file."""
    values: list[Any] = [1, True, 0, False, "1", 1.0] * 4
    for odd in ([1, True] * 6, [0, False] * 6, values):
        records = [{"id": number, **dict.fromkeys(RECORD_FIELDS, value)} for number, value in enumerate(odd)]
        together = rows(*records)[0]
        alone = [rows(record)[0][0] for record in records]
        assert list(map(repr, together)) == list(map(repr, alone))


TWO_NIGHTS = """
import sys
from pathlib import Path
from types import SimpleNamespace
from shelf import NIGHT, Shelf

base, file_format, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Listing:
    proof = None

    def __iter__(self):
        for number in range(count, 0, -1):
            yield {"id": number, "domain": f"site-{number}.example.com", "privacy": number % 3}
        self.proof = SimpleNamespace(websites=count, method="one page", total=count, pages=1)

for night in range(2):
    Shelf(base).take(Listing, night * NIGHT, format=file_format)
# The peak of this program alone: what getrusage returns begins with that of the process that started it.
print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def kilobytes(base: Path, file_format: str, count: int) -> int:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "support")}
    command = [sys.executable, "-c", TWO_NIGHTS, str(base / str(count)), file_format, str(count)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


@pytest.mark.slow  # a hundred thousand websites, twice
@pytest.mark.parametrize(("file_format", "growth"), [("jsonl", 1.1), ("csv", 1.1), ("parquet", 1.5)])
@pytest.mark.chosen(1)
@pytest.mark.long
def test_ten_times_as_many_websites_take_the_same_memory(tmp_path: Path, file_format: str, growth: float) -> None:
    assert kilobytes(tmp_path, file_format, 100_000) < growth * kilobytes(tmp_path, file_format, 10_000)
