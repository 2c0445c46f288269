# SPDX-License-Identifier: Apache-2.0
"""Readers of snapshots: pandas, Polars, DuckDB, and others without any option, also while a writer is killed.

Several nights of each format, by plain folder and by pattern, with all files beside the data: manifests, markers,
reports, changes, comparisons, and the pointer to the newest snapshot.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from shelf import NIGHT, Record, Shelf, websites

from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.diff import diff_snapshots

# The libraries are imported at their use: together they take seconds, and DuckDB warns at exit.


def pyarrow(folder: str, _: str, kind: str, **options: Any) -> Any:
    kind = kind.replace("jsonl", "json")
    return import_module("pyarrow.dataset").dataset(folder, format=kind, **options).to_table().to_pylist()


def pandas(_: str, pattern: str, kind: str) -> Any:
    library, options = import_module("pandas"), {"lines": True} if kind == "jsonl" else {}
    read = partial(getattr(library, f"read_{kind.replace('jsonl', 'json')}"), **options)
    return library.concat(map(read, sorted(Path("/").glob(pattern[1:])))).to_dict("records")


def polars(how: str, kind: str, where: str) -> Any:
    return getattr(import_module("polars"), f"{how}_{kind.replace('jsonl', 'ndjson')}")(where)


def duckdb(_: str, pattern: str, kind: str) -> list[Record]:
    files = f"read_{kind.replace('jsonl', 'json')}('{pattern}')"
    with import_module("duckdb").connect() as connection:
        found = connection.execute(f"SELECT * REPLACE (observed_at::VARCHAR AS observed_at) FROM {files}")
        return [dict(zip((item[0] for item in found.description), row, strict=True)) for row in found.fetchall()]


ALL = ("jsonl", "csv", "parquet")
#: Reader to a function of the folder, the pattern of its files, and their format; and the supported formats.
READERS: dict[str, tuple[Callable[[str, str, str], Any], tuple[str, ...]]] = {
    "pyarrow, folder": (pyarrow, ALL),
    "pyarrow, folder with partitions": (partial(pyarrow, partitioning="hive"), ALL),
    "pandas, folder": (lambda where, *_: import_module("pandas").read_parquet(where).to_dict("records"), ("parquet",)),
    "pandas, files of a glob": (pandas, ALL),
    "polars, folder": (lambda folder, _, kind: polars("scan", kind, folder).collect().to_dicts(), ALL),
    "polars, glob": (lambda _, pattern, kind: polars("read", kind, pattern).to_dicts(), ALL),
    "DuckDB, glob": (duckdb, ALL),
}
#: Each reader with each of its formats.
KNOWN = [(name, file_format) for name, (_, formats) in READERS.items() for file_format in formats]
ENDINGS = {None: "", "gzip": ".gz"}


def read(name: str, base: Path, file_format: str, compression: str | None = None) -> Any:
    folder, ending = f"{base}/websites", "" if file_format == "parquet" else ENDINGS[compression]
    return READERS[name][0](folder, f"{folder}/*/*.{file_format}{ending}", file_format)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str | None], Path]:
    """Write three nights in a format, once; the second night has no websites."""
    written: dict[tuple[str, str | None], Path] = {}

    def write(file_format: str, compression: str | None) -> Path:
        if (file_format, compression) not in written:
            base = written[file_format, compression] = tmp_path_factory.mktemp("readers")
            shelf = Shelf(str(base))
            for night, records in enumerate([websites(30, exclude_ips="192.0.2.1\n# office"), [], websites(31)]):
                options = {"format": file_format, "compression": compression, "html_report": True}
                shelf.take(records, night * NIGHT, override_guards={"fewer_websites"}, **options)  # type: ignore[arg-type]
            diff_snapshots(shelf.series)
        return written[file_format, compression]

    return write


@pytest.mark.parametrize("compression", ENDINGS)
@pytest.mark.parametrize(("name", "file_format"), KNOWN)
def test_folder_is_a_dataset_for_every_reader(
    nights: Callable[..., Path], name: str, file_format: str, compression: str | None
) -> None:
    base = nights(file_format, compression)
    found: Counter[str] = Counter()
    for row in read(name, base, file_format, compression):
        day = str(row["snapshot_date"])[:10]
        found[day] += 1
        assert str(row.get("dt") or day)[:10] == day  # the name of the folder, if a reader adds a column for it
        assert row["domain"].endswith(".example.com")
    assert found == {"2026-11-20": 30, "2026-11-22": 31}


@pytest.mark.parametrize("name", READERS)
def test_column_that_starts_with_nulls_keeps_its_type(tmp_path: Path, name: str) -> None:
    """In the first night, no website has an exclusion list or a privacy; text formats have no types."""
    nulls: Record = {"privacy": None, "exclude_params": None, "exclude_ips": None}
    values: Record = {"privacy": 1, "exclude_params": "utm_id", "exclude_ips": "192.0.2.1\n192.0.2.2"}
    for night, fields in enumerate((nulls, values)):
        Shelf(str(tmp_path)).take(websites(1, **fields), night * NIGHT, format="parquet")
    first, second = sorted(read(name, tmp_path, "parquet"), key=lambda row: str(row["snapshot_date"]))
    assert first["exclude_params"] in (None, "") or first["exclude_params"] != first["exclude_params"]
    assert (second["exclude_params"], second["privacy"]) == ("utm_id", 1)


@pytest.mark.parametrize(
    "path", ["../secret.jsonl", "/{base}/secret.jsonl", "websites/../secret.jsonl", "secret.jsonl"]
)
def test_sql_of_the_page_reads_no_file_outside_the_folders_of_the_snapshots(tmp_path: Path, path: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "loading.md").read_text(encoding="utf-8")
    [sql] = [item for item in re.findall(r"```sql\n(.*?)```", page, re.DOTALL) if "_manifest.json" in item]
    base = tmp_path / "analytics"
    shelf = Shelf(str(base))
    shelf.take(3)
    forged = shelf.take(4, NIGHT).partition.manifest
    stored = json.loads(Path(forged.path).read_text())
    stored["files"][0]["path"] = path.format(base=base)
    Path(forged.path).write_text(json.dumps(stored))
    secret = '{"snapshot_date": "1999-01-01", "privacy": 0}\n'
    for place in (tmp_path / "secret.jsonl", base / "secret.jsonl"):
        place.write_text(secret)
    with import_module("duckdb").connect() as database:
        found = database.execute(sql.replace("/data/analytics", str(base))).fetchall()
    assert [str(row[0]) for row in found] == ["2026-11-20"]


KILLS = 60
#: Steps between the kills of two rounds; a snapshot has about a hundred.
STEPS = 4

#: For each number on its input, starts a process that takes snapshots until it kills itself at that step, which is an
#: opened file or connection, or a changed folder. Prints each publication and each end.
WRITER = """
import os, signal, sys
from datetime import timedelta
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from shelf import NOON, Shelf


def take_until(left, now):
    def step(event, args):
        nonlocal left
        if event == "open" or event.startswith(("os.", "socket.")):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with AnalyticsClient(Settings(base_url=sys.argv[1], api_key=sys.argv[2])) as client:
        sys.addaudithook(step)
        while True:
            Shelf(sys.argv[3]).take(client.iter_websites, now, max_loss_fraction=1)
            now += timedelta(seconds=1)
            print("published", flush=True)


for number, line in enumerate(sys.stdin):
    child = os.fork()
    if child == 0:
        take_until(int(line), NOON + timedelta(minutes=number))
    print("ended", os.waitpid(child, 0)[1], flush=True)
"""


def read_as_documented(base: Path) -> str | None:
    """Follow the documented rule with only the standard library; return when the list was read."""
    about = base / "_websites" / "dt=2026-11-20"
    for _ in range(100):
        if not (about / "_SUCCESS").exists():
            return None
        manifest = json.loads((about / "_manifest.json").read_bytes())
        try:
            contents = [(base / file["path"]).read_bytes() for file in manifest["files"]]
        except FileNotFoundError:
            continue  # replaced in the meantime: read the manifest again
        assert [hashlib.sha256(content).hexdigest() for content in contents] == [
            item["sha256"] for item in manifest["files"]
        ]
        rows = [json.loads(line) for content in contents for line in content.splitlines()]
        assert len(rows) == len({row["id"] for row in rows}) == manifest["count"]
        [moment] = {str(row["observed_at"]) for row in rows}
        return moment
    raise AssertionError("the files of every manifest were gone")


def until_ended(lines: Iterable[str] | None) -> Iterator[str]:
    for line in lines or ():
        yield line
        if line.startswith("ended"):
            return


@pytest.mark.kill
def test_readers_never_see_a_partial_snapshot_after_sixty_kills(
    analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    analytics_sandbox.seed(120)
    seen: list[str | None] = []
    published = 0
    command = [sys.executable, "-c", WRITER, analytics_sandbox.url, analytics_sandbox.api_key, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "support")}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, bufsize=1, env=environment) as writer:  # type: ignore[call-overload]
        for kill in range(KILLS):
            writer.stdin.write(f"{1 + kill * STEPS}\n")
            said: list[str] = []
            reader = threading.Thread(target=said.extend, args=(until_ended(writer.stdout),))
            reader.start()
            while reader.is_alive():
                seen.append(read_as_documented(tmp_path))
            seen.append(read_as_documented(tmp_path))
            published += "published\n" in said
            assert said[-1] == f"ended {signal.SIGKILL:d}\n"
            analytics_sandbox.add_website(f"after-{kill}.example.com")
        writer.stdin.close()
    moments = [found for found in seen if found]
    assert moments == sorted(moments), "a reader saw an older snapshot after a newer one"
    assert None not in seen[seen.index(moments[0]) :]
    assert 0 < published < KILLS, "adapt STEPS: some kills have to come before the first publication, and some after it"
