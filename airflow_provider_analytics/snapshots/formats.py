# SPDX-License-Identifier: Apache-2.0
"""Typed rows of website records, and the file formats that store them. Each format is a class in :data:`FORMATS`.

Rows contain the fields of interface.md, Fields, with fixed names and types. A value that is missing or does not fit
its type is null. ``record`` contains the complete record as JSON text, without secrets.

Files are written locally in one pass, a block of rows at a time. Equal rows produce equal bytes.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from itertools import chain, islice, starmap
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import msgspec

from airflow_provider_analytics.api.checks import one_of
from airflow_provider_analytics.api.fields import FIELDS, RECORD_FIELDS, normalize
from airflow_provider_analytics.exceptions import MissingPackageError, StorageError
from airflow_provider_analytics.readable import Redactor, without_secrets
from airflow_provider_analytics.snapshots.manifest import Fields
from airflow_provider_analytics.storage import (
    MAX_BLOCK_BYTES,
    MAX_EXPANDED_BYTES,
    MAX_GROUP_BYTES,
    MAX_ROW_BYTES,
    MAX_ROWS,
)

Row = dict[str, Any]
#: A block of rows as columns: column name to values, in the order of :data:`COLUMNS`.
Columns = dict[str, list[Any]]

#: Column name to type, in the order of the files. Ids are text, because the service can use text.
COLUMNS = {
    "id": "string",
    **{name: str(FIELDS[name].column) for name in RECORD_FIELDS},
    "record": "string",
    "record_hash": "string",
    "snapshot_date": "date",
    "observed_at": "timestamp",
}
#: Meaning of the columns that are not website fields.
MEANINGS = {
    "id": "id of the website, as text even if it is a number",
    "record": "the complete record as JSON, keys sorted",
    "record_hash": "SHA-256 of `record`",
    "snapshot_date": "day of the snapshot",
    "observed_at": "start of the read, in UTC; the same in all rows",
}
#: Ways to write the field ``exclude_ips``: unchanged, each entry as its SHA-256, or not at all.
EXCLUDE_IPS_AS = ("keep", "hash", "drop")

#: Number of records that are converted to columns at once.
_BLOCK = 100
#: Equal records produce equal text.
_RECORD = msgspec.json.Encoder(order="sorted")


@dataclass
class FieldReport:
    """Differences between the records and interface.md, Fields.

    :param websites: number of records.
    :param seen: fields that any record had.
    :param lacking: documented fields that any record lacked.
    :param invalid_values: documented field to the number of values that do not fit its type.
    """

    websites: int = 0
    seen: set[str] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)
    invalid_values: Counter[str] = field(default_factory=Counter)

    def add(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Count records and their fields."""
        self.websites += len(records)
        self.seen.update(*records)
        self.lacking.update(set(RECORD_FIELDS).difference(set(RECORD_FIELDS).intersection(*records)))

    def fields(self) -> Fields:
        """Return the differences of all records."""
        missing = []
        if self.websites:
            missing = [name for name in RECORD_FIELDS if name not in self.seen]
        return Fields(
            new=sorted(self.seen - {"id", *RECORD_FIELDS}),
            missing=missing,
            invalid_values=dict(self.invalid_values),
            partial=[name for name in RECORD_FIELDS if name in self.seen and name in self.lacking],
        )


def typed_columns(
    records: Iterable[dict[str, Any]],
    *,
    snapshot_date: str,
    observed_at: str,
    exclude_ips_as: str,
    report: FieldReport,
    secrets: Redactor | None = None,
) -> Iterator[Columns]:
    """Yield the columns of blocks of records, in the same order, and update ``report``.

    :param snapshot_date: YYYY-MM-DD.
    :param observed_at: start time of the read, ISO 8601 in UTC.
    :param exclude_ips_as: ``keep``, ``hash`` (SHA-256 of each entry), or ``drop``.
    :param secrets: secrets of the connection; a value that contains one is replaced, see :func:`without_secrets`.
    """
    left = iter(records)
    # Blocks save time: each lookup and each search runs once per block.
    while block := list(islice(left, _BLOCK)):
        block = without_secrets(block, secrets)
        report.add(block)
        if exclude_ips_as != "keep":
            block = [without_addresses(record, exclude_ips_as) for record in block]
        columns = _columns(block, report.invalid_values)
        columns += [[snapshot_date] * len(block), [observed_at] * len(block)]
        yield dict(zip(COLUMNS, columns, strict=True))


def _columns(records: list[dict[str, Any]], invalid_values: Counter[str]) -> list[list[Any]]:
    """Return the columns that depend on the record, for records without secrets."""
    ids = [str(record["id"]) for record in records]
    lines = _RECORD.encode_lines(records)
    fields = []
    for name in RECORD_FIELDS:
        values = [record.get(name) for record in records]
        fields.append(_cells(name, values, invalid_values))
    documents = lines.splitlines()  # JSON escapes line breaks within values
    hashes = [hashlib.sha256(document).hexdigest() for document in documents]
    return [ids, *fields, lines.decode().split("\n")[:-1], hashes]


def _cells(name: str, values: list[Any], invalid_values: Counter[str]) -> list[Any]:
    to_column = FIELDS[name].to_column
    cells = [None if value is None else to_column(value) for value in values]
    lost = cells.count(None) - values.count(None)
    if lost:
        invalid_values[name] += lost
    return cells


def without_addresses(record: Mapping[str, Any], how: str) -> dict[str, Any]:
    """Return a record with ``exclude_ips`` hashed or dropped, see :data:`EXCLUDE_IPS_AS`.

    It has only documented fields, because any other field can contain addresses.
    """
    kept = {name: record[name] for name in ("id", *RECORD_FIELDS) if name in record}
    if "exclude_ips" in kept:
        kept["exclude_ips"] = _hashed(kept["exclude_ips"])
    if how == "drop":
        kept.pop("exclude_ips", None)
    return kept


def _sha256(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()}"


def _hashed(value: Any) -> Any:
    """Return the entries of a list as ``sha256:<hex>``, one per line like the list itself."""
    if value is None or value == "":
        return value
    entries = normalize("exclude_ips", value)
    # A value that is not a list is hashed as a whole, since it can contain an address.
    texts = entries if isinstance(entries, tuple) else (json.dumps(value, sort_keys=True),)
    return "\n".join(map(_sha256, texts))


#: Compression to file suffix.
COMPRESSIONS = {"gzip": ".gz"}
#: Columns with a distinct value in each row: dictionary encoding would make a Parquet file larger.
_UNIQUE = {"id", "domain", "record", "record_hash"}
#: Minimum number of rows in a Parquet row group, which is kept in memory until it is written.
_ROW_GROUP = 5_000


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
                lines.start_row()


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
                lines.start_row()


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
        self.start_row()

    def start_row(self) -> None:
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
        raise StorageError(f"{name} has no known format. Allowed: {', '.join(FORMATS)}.")
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
