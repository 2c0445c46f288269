# SPDX-License-Identifier: Apache-2.0
"""File formats, which write columns to a file and read rows from it. Each format is a class in :data:`FORMATS`.

Files are written locally in one pass, a block of rows at a time. Equal rows produce equal bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain, starmap
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import msgspec

from airflow_provider_analytics.api.checks import one_of
from airflow_provider_analytics.exceptions import MissingPackageError, StorageError
from airflow_provider_analytics.snapshots.rows import COLUMNS, Columns, Row
from airflow_provider_analytics.storage import (
    MAX_BLOCK_BYTES,
    MAX_EXPANDED_BYTES,
    MAX_GROUP_BYTES,
    MAX_ROW_BYTES,
    MAX_ROWS,
)

#: Compression to file suffix.
COMPRESSIONS = {"gzip": ".gz"}
#: Columns with a distinct value in each row: dictionary encoding would make a Parquet file larger.
_UNIQUE = {"id", "domain", "record", "record_hash"}
#: Minimum number of rows in a Parquet row group, which is kept in memory until it is written.
_ROW_GROUP = 5_000
#: Encodings in Parquet files of this package. Others can store a long text in few bytes, again and again.
_ENCODINGS = {"PLAIN", "RLE", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}


class Format(ABC):
    """A file format."""

    #: Value of the argument ``format``, also used as the file suffix.
    name: ClassVar[str]
    #: Module that the format needs, installed by the extra with the name of the format; None without one.
    library: ClassVar[str | None] = None

    def check(self, setting: str) -> None:
        """Raise :class:`MissingPackageError` if the library of the format is not installed.

        :param setting: the setting that needs it, for the message.
        """
        if self.library is None:
            return
        try:
            import_module(self.library)
        except ImportError as error:
            raise MissingPackageError(
                f"{setting} needs the package {self.library}. Run on the workers: pip install {self.library}"
            ) from error

    def suffix(self, compression: str | None) -> str:
        """Return the suffix of a file name."""
        if compression is None:
            return f".{self.name}"
        return f".{self.name}{COMPRESSIONS[compression]}"

    @abstractmethod
    def write(self, blocks: Iterable[Columns], path: Path, compression: str | None) -> int:
        """Write the rows of all blocks to a local file, and return the number of rows."""

    @abstractmethod
    def read(self, file: IO[bytes]) -> Iterator[Row]:
        """Yield the rows of an uncompressed file."""


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

    def read(self, file: IO[bytes]) -> Iterator[Row]:
        """Yield one row per line."""
        with _text(file, "\n") as text:
            lines = _Lines(text)
            for line in lines:
                yield json.loads(line)
                lines.begin_row()


class Csv(Format):
    """Comma-separated values with a header; null and empty text are the same."""

    name = "csv"

    def write(self, blocks: Iterable[Columns], path: Path, compression: str | None) -> int:
        """Write a header and one record per row."""
        line = io.StringIO(newline="")
        # The writer quotes only characters of its line terminator. Both are needed: most readers end a line at a lone
        # carriage return, too.
        writer = csv.writer(line, lineterminator="\r\n")

        def encoded(values: Iterable[Any]) -> bytes:
            line.seek(0)
            line.truncate()
            writer.writerow(values)
            return (line.getvalue().removesuffix("\r\n") + "\n").encode()

        count = 0
        with _compressed(path, compression) as file:
            file.write(encoded(COLUMNS))
            for row in chain.from_iterable(map(_rows_of, blocks)):
                file.write(encoded(map(_to_csv, row)))
                count += 1
        return count

    def read(self, file: IO[bytes]) -> Iterator[Row]:
        """Yield one row per record."""
        csv.field_size_limit(MAX_ROW_BYTES)  # the default limit is 128 KiB per field
        with _text(file, "") as text:
            lines = _Lines(text)
            for row in csv.DictReader(lines):
                yield {name: _from_csv(COLUMNS.get(name, "string"), value) for name, value in row.items()}
                lines.begin_row()


class Parquet(Format):
    """Apache Parquet. It compresses internally, so the suffix does not depend on the compression."""

    name = "parquet"
    library = "pyarrow"

    def suffix(self, compression: str | None) -> str:
        """Return the suffix of a file name."""
        return ".parquet"

    def write(self, blocks: Iterable[Columns], path: Path, compression: str | None) -> int:
        """Write row groups of about :data:`_ROW_GROUP` rows, or of fewer long ones."""
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        schema = _arrow_schema()
        group = schema.empty_table()
        count = 0
        repeated = list(COLUMNS.keys() - _UNIQUE)
        with parquet.ParquetWriter(
            path, schema, compression=compression or "snappy", use_dictionary=repeated
        ) as writer:
            for block in blocks:
                group = pyarrow.concat_tables([group, pyarrow.table(block).cast(schema)])
                if group.num_rows >= _ROW_GROUP or group.nbytes >= MAX_GROUP_BYTES // 8:
                    writer.write_table(group)
                    group = schema.empty_table()
                count += len(block["id"])
            if group.num_rows:
                writer.write_table(group)
        return count

    def read(self, file: IO[bytes]) -> Iterator[Row]:
        """Yield the rows, a block at a time. Its size is computed from the metadata, before any data is read."""
        stored = import_module("pyarrow.parquet").ParquetFile(file)
        for batch in stored.iter_batches(batch_size=_rows_in_a_block(stored.metadata), columns=list(COLUMNS)):
            for row in batch.to_pylist():
                yield row | {
                    "snapshot_date": row["snapshot_date"].isoformat(),
                    "observed_at": utc_text(row["observed_at"]),
                }


FORMATS: dict[str, Format] = {found.name: found for found in (JsonLines(), Csv(), Parquet())}


#: What each line counts in addition to its characters: a file of blank lines takes long to read, too.
_LINE = 100


class _Lines(Iterator[str]):
    """The lines of a text, up to the limits of a row and of a file."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text
        self._in_file = 0
        self.begin_row()

    def begin_row(self) -> None:
        """Count the characters of the next row."""
        self._in_row = 0

    def __next__(self) -> str:
        """Return the next line.

        :raises ValueError: if the row or the file is too large.
        """
        line = self._text.readline(MAX_ROW_BYTES + 1)
        if not line:
            raise StopIteration
        self._in_row += len(line) + _LINE
        self._in_file += len(line) + _LINE
        _check("a row has {:,} characters or more. Allowed: {:,}", self._in_row, MAX_ROW_BYTES)
        _check("its text has {:,} characters or more. Allowed: {:,}", self._in_file, MAX_EXPANDED_BYTES)
        return line


def _check(problem: str, found: int, limit: int) -> None:
    if found > limit:
        raise ValueError(problem.format(found, limit))


def _rows_in_a_block(metadata: Any) -> int:
    """Return how many rows of a Parquet file are read at a time.

    A text of a dictionary is stored once, and read as often as rows have it. So few rows are read of a column with a
    large dictionary.

    :raises ValueError: if the file is too large, or was not written by this package.
    """
    _check("it has {:,} rows. Allowed: {:,}", metadata.num_rows, MAX_ROWS)
    if any(column.max_repetition_level for column in map(metadata.schema.column, range(metadata.num_columns))):
        raise ValueError("a column contains lists")
    largest = 1
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        _check("a row group has {:,} bytes. Allowed: {:,}", group.total_byte_size, MAX_GROUP_BYTES)
        for chunk in map(group.column, range(group.num_columns)):
            if not _ENCODINGS.issuperset(chunk.encodings):
                raise ValueError(f"a column has the encodings {', '.join(chunk.encodings)}")
            if chunk.has_dictionary_page:
                largest = max(largest, chunk.total_uncompressed_size)
    return max(1, min(_ROW_GROUP, MAX_BLOCK_BYTES // largest))


def check_format(file_format: str, compression: str | None) -> None:
    """Check a format and a compression.

    :raises ValueError: if one is unknown.
    :raises MissingPackageError: if the extra of the format is not installed.
    """
    one_of("format", file_format, FORMATS)
    one_of("compression", compression, (None, *COMPRESSIONS))
    FORMATS[file_format].check(f"format={file_format!r}")


def file_name(token: str, file_format: str, compression: str | None) -> str:
    """Return the name of a data file; it does not depend on the snapshot name."""
    return f"websites-{token}{FORMATS[file_format].suffix(compression)}"


def read_rows(file: IO[bytes], name: str) -> Generator[Row, None, None]:
    """Yield the rows of a file of one of the :data:`FORMATS`; the name determines the format.

    :raises StorageError: if the format is unknown.
    :raises MissingPackageError: if the extra of the format is not installed.
    """
    stem = name.removesuffix(COMPRESSIONS["gzip"])
    if stem != name:
        file = cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    file_format = FORMATS.get(stem.rpartition(".")[2])
    if file_format is None:
        raise StorageError(f"{name} has no known format; known: {', '.join(FORMATS)}")
    file_format.check(f"reading {name}")
    yield from file_format.read(file)


def utc_text(moment: datetime) -> str:
    """Return a time in the form used in rows: ISO 8601 in UTC, with microseconds and ``+00:00``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


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


@contextmanager
def _compressed(path: Path, compression: str | None) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if compression is None:
            yield file
            return
        # No name and no time in the header, so that equal rows produce equal bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
            yield cast("IO[bytes]", packed)


def _to_csv(cell: Any) -> Any:
    """Return a cell with booleans in the spelling of most readers."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return cell


def _from_csv(kind: str, value: str) -> Any:
    if value == "":
        return None  # CSV does not distinguish null from empty text
    if kind == "boolean":
        return value == "true"
    if kind == "integer":
        return int(value)
    return value


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
