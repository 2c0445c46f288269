"""What a warehouse user meets first: a folder of snapshots, given to a reader without any option.

Several nights of each format, by plain folder and by glob, with everything that is written beside the data: manifests,
markers, reports, changes, comparisons and the pointer to the newest.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.snapshots.catalog import dataset_of
from airflow_provider_analytics.snapshots.diff import diff_snapshots
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, take_snapshot

NIGHTS = [datetime(2031, 5, 14, 0, 2, tzinfo=UTC) + timedelta(days=night) for night in range(3)]
#: Websites per night; the second night has none.
COUNTS = {date(2031, 5, 14): 30, date(2031, 5, 16): 31}
FORMATS = [
    ("jsonl", None, "jsonl"),
    ("jsonl", "gzip", "jsonl.gz"),
    ("jsonl", "zstd", "jsonl.zst"),
    ("csv", None, "csv"),
    ("csv", "gzip", "csv.gz"),
    ("csv", "zstd", "csv.zst"),
    ("parquet", None, "parquet"),
    ("parquet", "zstd", "parquet"),
]


def pyarrow_folder(folder: str, pattern: str, file_format: str) -> Any:
    from pyarrow import dataset

    return dataset.dataset(folder, format=file_format.replace("jsonl", "json")).to_table().to_pylist()


def pyarrow_hive(folder: str, pattern: str, file_format: str) -> Any:
    from pyarrow import dataset

    found = dataset.dataset(folder, format=file_format.replace("jsonl", "json"), partitioning="hive")
    return found.to_table().to_pylist()


def pyarrow_read_table(folder: str, pattern: str, file_format: str) -> Any:
    from pyarrow import parquet

    return parquet.read_table(folder).to_pylist()


def pandas_folder(folder: str, pattern: str, file_format: str) -> Any:
    import pandas

    return pandas.read_parquet(folder).to_dict("records")


def pandas_glob(folder: str, pattern: str, file_format: str) -> Any:
    import pandas

    read: dict[str, Callable[[Path], Any]] = {
        "jsonl": lambda path: pandas.read_json(path, lines=True),
        "csv": pandas.read_csv,
        "parquet": pandas.read_parquet,
    }
    return pandas.concat([read[file_format](path) for path in sorted(Path("/").glob(pattern.lstrip("/")))]).to_dict(
        "records"
    )


def polars_folder(folder: str, pattern: str, file_format: str) -> Any:
    import polars

    scan: dict[str, Any] = {"jsonl": polars.scan_ndjson, "csv": polars.scan_csv, "parquet": polars.scan_parquet}
    return scan[file_format](folder).collect().to_dicts()


def polars_glob(folder: str, pattern: str, file_format: str) -> Any:
    import polars

    read: dict[str, Any] = {"jsonl": polars.read_ndjson, "csv": polars.read_csv, "parquet": polars.read_parquet}
    return read[file_format](pattern).to_dicts()


def duckdb_glob(folder: str, pattern: str, file_format: str) -> Any:
    import duckdb

    read = {"jsonl": "read_json", "csv": "read_csv", "parquet": "read_parquet"}[file_format]
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT * REPLACE (observed_at::VARCHAR AS observed_at) FROM {read}('{pattern}')")
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def duckdb_folder(folder: str, pattern: str, file_format: str) -> Any:
    return duckdb_glob(folder, f"{folder}/*/*", file_format)


READERS = {
    "pyarrow, folder": (pyarrow_folder, ("jsonl", "csv", "parquet")),
    "pyarrow, folder with partitions": (pyarrow_hive, ("jsonl", "csv", "parquet")),
    "pyarrow read_table, folder": (pyarrow_read_table, ("parquet",)),
    "pandas, folder": (pandas_folder, ("parquet",)),
    "pandas, files of a glob": (pandas_glob, ("jsonl", "csv", "parquet")),
    "polars, folder": (polars_folder, ("jsonl", "csv", "parquet")),
    "polars, glob": (polars_glob, ("jsonl", "csv", "parquet")),
    "DuckDB, every file of the folder": (duckdb_folder, ("jsonl", "csv", "parquet")),
    "DuckDB, glob": (duckdb_glob, ("jsonl", "csv", "parquet")),
}
CASES = [
    pytest.param(read, *written, id=f"{name} {written[2]} {written[1]}")
    for name, (read, formats) in READERS.items()
    for written in FORMATS
    if written[0] in formats and not (read in (pyarrow_folder, pyarrow_hive) and written[2].endswith(".zst"))
]


def later(moment: datetime) -> datetime:
    return moment + timedelta(minutes=1)


@pytest.fixture(scope="module")
def nights(_analytics_sandbox_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Write three nights in a format, once."""
    sandbox = _analytics_sandbox_server
    written: dict[tuple[str, str | None], Path] = {}

    def write(file_format: str, compression: str | None) -> Path:
        if (file_format, compression) in written:
            return written[file_format, compression]
        base = tmp_path_factory.mktemp("readers")
        dataset = dataset_of(str(base))
        sandbox.reset()
        sandbox.seed(30)
        settings = Settings(base_url=sandbox.url, api_key=sandbox.api_key)
        options = SnapshotOptions(
            format=file_format,
            compression=compression,
            report=True,
            accept=frozenset({"count"}),
            max_loss_fraction=1,
        )
        with AnalyticsClient(settings) as client:
            source = ListSource(url=sandbox.url, account_id=None)
            for night in NIGHTS:
                search = "no such website" if night == NIGHTS[1] else None
                origin = Origin(partial(client.iter_websites, search=search), source, client.stats)
                take_snapshot(dataset, night.date(), origin, now=night, clock=partial(later, night), options=options)
                if night == NIGHTS[1]:
                    sandbox.add_website("new.example.com")
        diff_snapshots(dataset)
        written[file_format, compression] = base
        return base

    return write


@pytest.mark.parametrize(("read", "file_format", "compression", "suffix"), CASES)
def test_a_folder_is_a_dataset_for_every_reader(
    nights: Callable[..., Path], read: Any, file_format: str, compression: str | None, suffix: str
) -> None:
    base = nights(file_format, compression)
    rows = read(f"{base}/websites", f"{base}/websites/*/*.{suffix}", file_format)
    found: dict[date, int] = {}
    for row in rows:
        day = row["snapshot_date"]
        day = date.fromisoformat(day[:10]) if isinstance(day, str) else day
        day = day.date() if isinstance(day, datetime) else day
        found[day] = found.get(day, 0) + 1
        if row.get("dt") is not None:  # the name of the folder, where a reader makes a column of it
            assert str(row["dt"])[:10] == str(day)
        assert str(row["domain"]).endswith((".example.com", ".example", ".test", ".org", ".net", ".com"))
    assert found == COUNTS


def test_a_base_path_is_a_dataset_for_readers_that_skip_hidden_names(nights: Callable[..., Path]) -> None:
    from pyarrow import parquet

    assert parquet.read_table(str(nights("parquet", None))).num_rows == 61


#: Readers that take the types of a column from the first night, in which it is null.
CANNOT = {
    ("pyarrow, folder", "jsonl"),
    ("pyarrow, folder", "csv"),
    ("pyarrow, folder with partitions", "jsonl"),
    ("pyarrow, folder with partitions", "csv"),
    ("polars, folder", "jsonl"),
    ("polars, glob", "jsonl"),
}


@pytest.fixture(scope="module")
def null_nights(_analytics_sandbox_server: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two nights in each format without compression: in the first, no website has an exclusion list."""
    sandbox = _analytics_sandbox_server
    written = {}
    for file_format in ("jsonl", "csv", "parquet"):
        base = written[file_format] = tmp_path_factory.mktemp("nulls")
        sandbox.reset()
        website = sandbox.add_website("a.example.com")
        with AnalyticsClient(Settings(base_url=sandbox.url, api_key=sandbox.api_key)) as client:
            origin = Origin(client.iter_websites, ListSource(url=sandbox.url, account_id=None), client.stats)
            for night in NIGHTS[:2]:
                options = SnapshotOptions(format=file_format)
                take_snapshot(dataset_of(str(base)), night.date(), origin, now=night, options=options)
                sandbox.change_website(website["id"], exclude_params="utm_id", exclude_ips="192.0.2.1\n192.0.2.2")
    return written


@pytest.mark.parametrize(
    ("name", "file_format"),
    [(name, file_format) for name, (_, formats) in READERS.items() for file_format in formats],
)
def test_a_column_that_begins_with_nulls(null_nights: dict[str, Path], name: str, file_format: str) -> None:
    folder = f"{null_nights[file_format]}/websites"

    def read() -> list[Any]:
        rows = READERS[name][0](folder, f"{folder}/*/*.{file_format}", file_format)
        return sorted(str(row["exclude_params"]) for row in rows)

    if (name, file_format) in CANNOT:
        with pytest.raises(Exception, match=r"(?i)null|pars|type|cast|convert"):
            read()
    else:
        assert read()[-1] == "utm_id"
        assert len(read()) == 2


@pytest.mark.parametrize("read", [pyarrow_folder, pyarrow_hive])
@pytest.mark.parametrize("file_format", ["jsonl", "csv"])
def test_pyarrow_has_no_reader_for_the_ending_of_zstd(
    nights: Callable[..., Path], read: Callable[..., Any], file_format: str
) -> None:
    with pytest.raises(Exception, match=r"Could not read schema from .*\.zst"):
        read(f"{nights(file_format, 'zstd')}/websites", "", file_format)


class WithoutPrivacy:
    """A list of websites whose field ``privacy`` is null."""

    def __init__(self, listing: Any) -> None:
        self._listing = listing

    def __iter__(self) -> Any:
        return ({**record, "privacy": None} for record in self._listing)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listing, name)


def test_polars_reads_numbers_of_csv_as_text_if_the_first_night_has_none(
    tmp_path: Path, analytics_sandbox: Any
) -> None:
    sandbox = analytics_sandbox
    sandbox.add_website("a.example.com", privacy=1)
    with AnalyticsClient(Settings(base_url=sandbox.url, api_key=sandbox.api_key)) as client:
        origins: list[Any] = [lambda: WithoutPrivacy(client.iter_websites()), client.iter_websites]
        for night, websites in zip(NIGHTS[:2], origins, strict=True):
            origin = Origin(websites, ListSource(url=sandbox.url, account_id=None), client.stats)
            options = SnapshotOptions(format="csv")
            take_snapshot(dataset_of(str(tmp_path)), night.date(), origin, now=night, options=options)
    folder = f"{tmp_path}/websites"
    for name in ("polars, folder", "polars, glob"):
        assert [row["privacy"] for row in READERS[name][0](folder, f"{folder}/*/*.csv", "csv")] == [None, "1"]


def test_pyarrow_reads_the_day_of_json_as_a_timestamp(null_nights: dict[str, Path]) -> None:
    from pyarrow import dataset, types

    def day(file_format: str) -> Any:
        [first, _] = sorted((null_nights[file_format] / "websites").glob(f"*/*.{file_format}"))
        kind = {"jsonl": "json"}.get(file_format, file_format)
        return dataset.dataset(str(first), format=kind).schema.field("snapshot_date").type

    assert types.is_timestamp(day("jsonl"))
    assert types.is_date(day("csv"))
    assert types.is_date(day("parquet"))
