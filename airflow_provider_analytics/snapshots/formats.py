"""Rows to a file and back: JSON Lines, CSV and Parquet.

A file is written locally and in one pass; the same rows give the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots.manifest import File
from airflow_provider_analytics.snapshots.rows import COLUMNS, Row

FORMATS = ("jsonl", "csv", "parquet")
COMPRESSIONS = {"gzip": ".gz", "zstd": ".zst"}
#: Rows that Parquet holds in memory at a time.
_ROW_GROUP = 5_000


def check_format(file_format: str, compression: str | None) -> None:
    """Raise :class:`ValueError` for a format that does not exist or whose extra is not installed."""
    if file_format not in FORMATS:
        raise ValueError(f"format={file_format!r} is not allowed; allowed: {', '.join(FORMATS)}")
    if compression not in (None, *COMPRESSIONS):
        raise ValueError(f"compression={compression!r} is not allowed; allowed: None, {', '.join(COMPRESSIONS)}")
    if file_format == "parquet":
        need_extra("pyarrow", "parquet", "format='parquet'")
    elif compression == "zstd":
        need_extra("zstandard", "zstd", "compression='zstd'")


def need_extra(module: str, extra: str, setting: str) -> None:
    """Raise :class:`ValueError` where the library behind a setting is not installed."""
    try:
        import_module(module)
    except ImportError as error:
        raise ValueError(f"{setting} needs: pip install 'airflow-provider-analytics[{extra}]'") from error


def file_name(token: str, file_format: str, compression: str | None) -> str:
    """Return the name of a data file. Parquet compresses inside, so that its name does not say how."""
    suffix = COMPRESSIONS[compression] if compression and file_format != "parquet" else ""
    return f"websites-{token}.{file_format}{suffix}"


def write_rows(rows: Iterable[Row], path: Path, file_format: str, compression: str | None) -> File:
    """Write rows to a local file and return what a manifest says of it."""
    if file_format == "parquet":
        count = _write_parquet(rows, path, compression)
    else:
        with _compressed(path) as file:
            count = (_write_jsonl if file_format == "jsonl" else _write_csv)(rows, file)
    with path.open("rb") as stored:
        sha256 = hashlib.file_digest(stored, "sha256").hexdigest()
    return File(name=path.name, rows=count, bytes=path.stat().st_size, sha256=sha256)


def read_rows(file: IO[bytes], name: str) -> Iterator[Row]:
    """Yield the rows of a file that :func:`write_rows` wrote; the name tells the format."""
    stem, _, suffix = name.rpartition(".")
    if f".{suffix}" == COMPRESSIONS["gzip"]:
        yield from read_rows(cast("IO[bytes]", gzip.GzipFile(fileobj=file)), stem)
    elif f".{suffix}" == COMPRESSIONS["zstd"]:
        need_extra("zstandard", "zstd", f"reading {name}")
        yield from read_rows(import_module("zstandard").ZstdDecompressor().stream_reader(file), stem)
    elif suffix == "parquet":
        yield from _read_parquet(file, name)
    elif suffix == "csv":
        yield from _read_csv(file)
    elif suffix == "jsonl":
        with _text(file, "\n") as lines:
            yield from map(json.loads, lines)
    else:
        raise SnapshotError(f"{name} has no known format; known: {', '.join(FORMATS)}")


@contextmanager
def _text(file: IO[bytes], newline: str) -> Iterator[io.TextIOWrapper]:
    """Give the text of a file that somebody else closes."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline=newline)
    try:
        yield text
    finally:
        text.detach()


@contextmanager
def _compressed(path: Path) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("wb"))
        if path.suffix == COMPRESSIONS["gzip"]:
            # Neither name nor time in the header: the same rows give the same bytes.
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
            file = cast("IO[bytes]", stack.enter_context(packed))
        elif path.suffix == COMPRESSIONS["zstd"]:
            file = stack.enter_context(import_module("zstandard").ZstdCompressor().stream_writer(file, closefd=False))
        yield file


def _write_jsonl(rows: Iterable[Row], file: IO[bytes]) -> int:
    count = 0
    for count, row in enumerate(rows, start=1):  # noqa: B007 - the last number is the count
        file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return count


def _write_csv(rows: Iterable[Row], file: IO[bytes]) -> int:
    count = 0
    line = io.StringIO(newline="")
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(COLUMNS)
    for count, row in enumerate(rows, start=1):  # noqa: B007 - the last number is the count
        writer.writerow([str(value).lower() if isinstance(value, bool) else value for value in row.values()])
        file.write(line.getvalue().encode())
        line.seek(0)
        line.truncate()
    file.write(line.getvalue().encode())  # the header of a file without rows
    return count


def _read_csv(file: IO[bytes]) -> Iterator[Row]:
    csv.field_size_limit(sys.maxsize)  # the default stops at records of 128 KiB
    with _text(file, "") as lines:
        for row in csv.DictReader(lines):
            yield {name: _from_csv(COLUMNS.get(name, "string"), value) for name, value in row.items()}


def _from_csv(kind: str, value: str) -> Any:
    if value == "":
        return None  # CSV has no way to tell no text from empty text
    if kind == "boolean":
        return value == "true"
    return int(value) if kind == "integer" else value


def _arrow_schema() -> Any:
    pyarrow = import_module("pyarrow")
    kinds = {
        "string": pyarrow.string(),
        "integer": pyarrow.int64(),
        "boolean": pyarrow.bool_(),
        "date": pyarrow.date32(),
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
    }
    return pyarrow.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])


def _write_parquet(rows: Iterable[Row], path: Path, compression: str | None) -> int:
    table, parquet = import_module("pyarrow").Table, import_module("pyarrow.parquet")
    schema = _arrow_schema()
    typed = (
        row
        | {
            "snapshot_date": date.fromisoformat(row["snapshot_date"]),
            "observed_at": datetime.fromisoformat(row["observed_at"]),
        }
        for row in rows
    )
    count = 0
    with parquet.ParquetWriter(path, schema, compression=compression or "snappy") as writer:
        while group := list(islice(typed, _ROW_GROUP)):
            writer.write_table(table.from_pylist(group, schema=schema))
            count += len(group)
    return count


def _read_parquet(file: IO[bytes], name: str) -> Iterator[Row]:
    need_extra("pyarrow", "parquet", f"reading {name}")
    for batch in import_module("pyarrow.parquet").ParquetFile(file).iter_batches(batch_size=_ROW_GROUP):
        for row in batch.to_pylist():
            yield row | {
                "snapshot_date": row["snapshot_date"].isoformat(),
                "observed_at": utc_text(row["observed_at"]),
            }


def utc_text(moment: datetime) -> str:
    """Return a moment in UTC as rows carry it: ISO 8601 with microseconds and ``+00:00``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")
