# SPDX-License-Identifier: Apache-2.0
"""File formats, which write columns to a file and read rows from it. Each format is a class in :data:`FORMATS`.

Files are written locally in one pass, a block of rows at a time. Equal rows produce equal bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from itertools import chain, starmap
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import msgspec

from airflow_provider_analytics.api.checks import one_of
from airflow_provider_analytics.exceptions import MissingPackageError, StorageError
from airflow_provider_analytics.snapshots.rows import COLUMNS, Columns, Row

#: Compression to file suffix.
COMPRESSIONS = {"gzip": ".gz", "zstd": ".zst"}
#: Columns with a distinct value in each row: dictionary encoding would make a Parquet file larger.
_UNIQUE = ("id", "domain", "record", "record_hash")
#: Minimum number of rows in a Parquet row group, which is kept in memory until it is written.
_ROW_GROUP = 5_000


class Format(ABC):
    """A file format."""

    #: Value of the argument ``format``, also used as the file suffix.
    name: ClassVar[str]

    def check(self, compression: str | None) -> None:
        """Raise :class:`MissingPackageError` if a required extra is not installed."""
        if compression == "zstd":
            need_extra("zstandard", "zstd", "compression='zstd'")

    def suffix(self, compression: str | None) -> str:
        """Return the suffix of a file name."""
        return f".{self.name}{COMPRESSIONS[compression] if compression else ''}"

    @abstractmethod
    def write(self, blocks: Iterable[Columns], path: Path, compression: str | None) -> int:
        """Write the rows of all blocks to a local file, and return the number of rows."""

    @abstractmethod
    def read(self, file: IO[bytes], name: str) -> Iterator[Row]:
        """Yield the rows of an uncompressed file; ``name`` is used in messages."""


class JsonLines(Format):
    """One JSON object per line."""

    name = "jsonl"

    def write(self, blocks: Iterable[Columns], path: Path, compression: str | None) -> int:
        """Write one line per row."""
        count = 0
        line = msgspec.defstruct("Line", list(COLUMNS))
        encoder = msgspec.json.Encoder()
        with _compressed(path, compression) as file:
            for block in blocks:
                lines = list(starmap(line, _rows_of(block)))
                file.write(encoder.encode_lines(lines))
                count += len(lines)
        return count

    def read(self, file: IO[bytes], name: str) -> Iterator[Row]:
        """Yield one row per line."""
        with _text(file, "\n") as lines:
            yield from map(json.loads, lines)


class Csv(Format):
    """Comma-separated values with a header; null and empty text are the same."""

    name = "csv"

    def write(self, blocks: Iterable[Columns], path: Path, compression: str | None) -> int:
        """Write a header and one record per row."""
        count = 0
        line = io.StringIO(newline="")
        # The writer quotes only characters of its line terminator. Both are needed: most readers end a line at a lone
        # carriage return, too.
        writer = csv.writer(line, lineterminator="\r\n")

        def encoded(values: Iterable[Any]) -> bytes:
            line.seek(0)
            line.truncate()
            writer.writerow(values)
            return (line.getvalue().removesuffix("\r\n") + "\n").encode()

        with _compressed(path, compression) as file:
            file.write(encoded(COLUMNS))
            for count, row in enumerate(chain.from_iterable(map(_rows_of, blocks)), start=1):  # noqa: B007 - the last number is the count
                file.write(encoded(str(cell).lower() if isinstance(cell, bool) else cell for cell in row))
        return count

    def read(self, file: IO[bytes], name: str) -> Iterator[Row]:
        """Yield one row per record."""
        csv.field_size_limit(sys.maxsize)  # the default limit is 128 KiB per field
        with _text(file, "") as lines:
            for row in csv.DictReader(lines):
                yield {name: _from_csv(COLUMNS.get(name, "string"), value) for name, value in row.items()}


class Parquet(Format):
    """Apache Parquet. It compresses internally, so the suffix does not depend on the compression."""

    name = "parquet"

    def check(self, compression: str | None) -> None:
        """Raise :class:`ValueError` if pyarrow is not installed; pyarrow includes zstd."""
        need_extra("pyarrow", "parquet", "format='parquet'")

    def suffix(self, compression: str | None) -> str:
        """Return the suffix of a file name."""
        return ".parquet"

    def write(self, blocks: Iterable[Columns], path: Path, compression: str | None) -> int:
        """Write row groups of about :data:`_ROW_GROUP` rows."""
        table, parquet = import_module("pyarrow").Table, import_module("pyarrow.parquet")
        schema = _arrow_schema()
        count = 0
        repeated = [name for name in COLUMNS if name not in _UNIQUE]
        with parquet.ParquetWriter(
            path, schema, compression=compression or "snappy", use_dictionary=repeated
        ) as writer:
            for group in _row_groups(blocks):
                group["snapshot_date"] = _parse_all(date.fromisoformat, group["snapshot_date"])
                group["observed_at"] = _parse_all(_microseconds, group["observed_at"])
                writer.write_table(table.from_pydict(group, schema=schema))
                count += len(group["id"])
        return count

    def read(self, file: IO[bytes], name: str) -> Iterator[Row]:
        """Yield the rows, one row group at a time."""
        for batch in import_module("pyarrow.parquet").ParquetFile(file).iter_batches(batch_size=_ROW_GROUP):
            for row in batch.to_pylist():
                yield row | {
                    "snapshot_date": row["snapshot_date"].isoformat(),
                    "observed_at": utc_text(row["observed_at"]),
                }


FORMATS: dict[str, Format] = {found.name: found for found in (JsonLines(), Csv(), Parquet())}


def check_format(file_format: str, compression: str | None) -> None:
    """Check a format and a compression.

    :raises ValueError: if one is unknown.
    :raises MissingPackageError: if its extra is not installed.
    """
    one_of("format", file_format, FORMATS)
    one_of("compression", compression, (None, *COMPRESSIONS))
    FORMATS[file_format].check(compression)


def need_extra(module: str, extra: str, setting: str) -> None:
    """Raise :class:`MissingPackageError` if a library is not installed.

    :param module: module to import.
    :param extra: extra of this package that installs it.
    :param setting: the setting that needs it, for the message.
    """
    try:
        import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"{setting} needs: pip install 'airflow-provider-analytics[{extra}]'") from error


def file_name(token: str, file_format: str, compression: str | None) -> str:
    """Return the name of a data file; it does not depend on the snapshot name."""
    return f"websites-{token}{FORMATS[file_format].suffix(compression)}"


def write_columns(blocks: Iterable[Columns], path: Path, file_format: str, compression: str | None) -> int:
    """Write the rows of all blocks to a local file, and return the number of rows."""
    return FORMATS[file_format].write(blocks, path, compression)


def check_readable(name: str) -> None:
    """Raise :class:`ValueError` if reading a file needs an extra that is not installed.

    :param name: name of the file.
    """
    suffixes = name.split(".")[1:]
    if "zst" in suffixes:
        need_extra("zstandard", "zstd", f"reading {name}")
    if Parquet.name in suffixes:
        need_extra("pyarrow", "parquet", f"reading {name}")


def read_rows(file: IO[bytes], name: str) -> Generator[Row, None, None]:
    """Yield the rows of a file written by :func:`write_columns`; the name determines the format.

    :raises StorageError: if the format is unknown.
    """
    stem, _, suffix = name.rpartition(".")
    if f".{suffix}" == COMPRESSIONS["gzip"]:
        yield from read_rows(cast("IO[bytes]", gzip.GzipFile(fileobj=file)), stem)
    elif f".{suffix}" == COMPRESSIONS["zstd"]:
        yield from read_rows(import_module("zstandard").ZstdDecompressor().stream_reader(file), stem)
    elif suffix in FORMATS:
        yield from FORMATS[suffix].read(file, name)
    else:
        raise StorageError(f"{name} has no known format; known: {', '.join(FORMATS)}")


def utc_text(moment: datetime) -> str:
    """Return a time in the form used in rows: ISO 8601 in UTC, with microseconds and ``+00:00``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _microseconds(text: str) -> int:
    """Return a time as Parquet stores it; pyarrow is many times slower for a time with a zone."""
    return (datetime.fromisoformat(text) - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


@contextmanager
def _text(file: IO[bytes], newline: str) -> Iterator[io.TextIOWrapper]:
    """Yield the text of a file, and leave the file open."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline=newline)
    try:
        yield text
    finally:
        text.detach()


def _rows_of(block: Columns) -> Iterator[tuple[Any, ...]]:
    return zip(*block.values(), strict=True)


def _row_groups(blocks: Iterable[Columns]) -> Iterator[Columns]:
    """Combine blocks into row groups."""
    group: Columns = {name: [] for name in COLUMNS}
    for block in blocks:
        for name, values in block.items():
            group[name] += values
        if len(group["id"]) >= _ROW_GROUP:
            yield group
            group = {name: [] for name in COLUMNS}
    if group["id"]:
        yield group


def _parse_all(parse: Callable[[str], Any], texts: Sequence[str]) -> list[Any]:
    """Parse texts, nearly all of which are equal."""
    parsed = {text: parse(text) for text in set(texts)}
    return [parsed[text] for text in texts]


@contextmanager
def _compressed(path: Path, compression: str | None) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        file: IO[bytes] = stack.enter_context(path.open("wb"))
        if compression == "gzip":
            # No name and no time in the header, so that equal rows produce equal bytes.
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
            file = cast("IO[bytes]", stack.enter_context(packed))
        elif compression == "zstd":
            file = stack.enter_context(import_module("zstandard").ZstdCompressor().stream_writer(file, closefd=False))
        yield file


def _from_csv(kind: str, value: str) -> Any:
    if value == "":
        return None  # CSV does not distinguish null from empty text
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
