# SPDX-License-Identifier: Apache-2.0
"""Limits of stored files (``storage.py``): each hostile file ends with an error, in little time and memory."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import resource
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from wire_client import Time

from airflow_provider_analytics import storage
from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.storage import SharedFile, StoragePath, read_texts, storage_errors

MEMORY = 300_000_000
SECONDS = 60

HEAD = """
import gzip, json, os, sys
from datetime import UTC, date, datetime
from airflow_provider_analytics.reconcile.desired.tables import ListTables, Run, Table
from airflow_provider_analytics.snapshots.formats import read_rows
from airflow_provider_analytics.storage import SharedFile, StoragePath, open_verified, read_bytes, read_text
folder = sys.argv[1]
file = StoragePath.of(f"{folder}/file")

def write(content, times=1):
    with open(file.path, "wb") as stored:
        for _ in range(times):
            stored.write(content)

def rows(name):
    with open(file.path, "rb") as stored:
        for row in read_rows(stored, name):
            pass

def parquet(texts, **options):
    import pyarrow, pyarrow.parquet
    pyarrow.parquet.write_table(pyarrow.table({"id": texts}), file.path, **options)
"""
SPARSE = "write(b''); os.truncate(file.path, 40 << 30)"
#: Hostile file to the code that writes it, the code that reads it, and the error.
CASES = {
    "sparse table": (SPARSE, "SharedFile(file, 'state_path')", "file is too large.*16,000,000"),
    "sparse text": (SPARSE, "read_text(file, 'config_path')", "file.*too large.*4,000,000"),
    "sparse data file": (
        SPARSE,
        "with open_verified(file, ''): pass",
        "file is too large: it has 42,949,672,960 bytes.*2,147,483,648",
    ),
    "values": ("write(b'[' + b'[],' * 5_000_000 + b'[]]')", "read_bytes(file)", "file.*10,000,002 values.*1,000,000"),
    "one line of 8 GB": ("write(gzip.compress(bytes(1 << 20)), 8192)", "rows('a.jsonl.gz')", "a row .*16,000,000"),
    "blank lines": ("write(gzip.compress(b'\\n' * (1 << 20)), 8192)", "rows('a.csv.gz')", "a row .*16,000,000"),
    "cell of many lines": (
        "write(gzip.compress(b'\"' + b'b\\n' * (1 << 19)) + gzip.compress(b'b\\n' * (1 << 19)) * 8192)",
        "rows('a.csv.gz')",
        "a row .*16,000,000",
    ),
    "Parquet dictionary": (
        "import pyarrow\nparquet(pyarrow.DictionaryArray.from_arrays([0] * 5000, ['x' * 700_000]), store_schema=False)",
        "rows('a.parquet')",
        "KeyError",
    ),
    "Parquet page": ("parquet(['x' * 10_000_000] * 13, use_dictionary=False)", "rows('a.parquet')", "128,000,000"),
    "Parquet lists": ("parquet([['x'] * 1_000_000] * 2)", "rows('a.parquet')", "lists"),
    # 100 KB, but 10,000,000 rows: they are not stored for each scope.
    "product of entries and scopes": (
        """
        group = {"scopes": [str(n) for n in range(2500)], "entries": {f"192.0.2.{n}": 0 for n in range(4000)}}
        write(json.dumps({"version": 2, "service": "s", "account": None, "list": "l", "run": None, "names": {},
                          "sources": [{}], "rows": {"exclude_ips": [group]}}).encode())
        """,
        """
        table = Table.parse(SharedFile(file, "state_path").text, file.path)
        run = Run("d/r", "t", datetime.now(UTC))
        table = table.with_rows_of(table).with_run({"exclude_ips": {}}, {}, run, date(2026, 1, 1))
        assert len(table.render()) < 500_000
        for n in range(2500):
            assert len(table.entries_of("exclude_ips", {"id": n, "domain": f"{n}.example"})) == 4000
        """,
        "^$",
    ),
    # 600 KB, but 100,000,000 entries of all websites.
    "product of entries and websites": (
        """
        groups = [{"scopes": ["*"], "entries": {f"10.0.{n >> 8}.{n & 255}": 0 for n in range(10_000)}}]
        groups += [{"scopes": [str(n)], "entries": {f"198.51.100.{n}": 0}} for n in range(4000)]
        write(json.dumps({"version": 2, "service": "s", "account": None, "list": "l", "run": None, "names": {},
                          "sources": [{}], "rows": {"exclude_ips": groups}}).encode())
        """,
        """
        table = Table.parse(SharedFile(file, "state_path").text, file.path)
        lists = ListTables(table, [], Run("d/r", "t", datetime.now(UTC)), date(2026, 1, 1), {})
        for n in range(4000):
            assert len(lists.owned("exclude_ips", {"id": n, "domain": f"{n}.example"})) == 10_001
        """,
        "^$",
    ),
    "patterns of a table": (
        """
        group = {"scopes": [f"*{n}* except *a{n}*" for n in range(501)], "entries": {"192.0.2.1": 0}}
        write(json.dumps({"version": 2, "service": "s", "account": None, "list": "l", "run": None, "names": {},
                          "sources": [{}], "rows": {"exclude_ips": [group]}}).encode())
        """,
        "Table.parse(SharedFile(file, 'state_path').text, file.path)",
        r"exclude_ips has 1,002 patterns. Allowed: at most 1,000",
    ),
}


def error_of(code: str, folder: Path, memory: int) -> str:
    """Run code in a process with a limit of its memory; return the end of its error."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + textwrap.dedent(code), str(folder)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (memory, memory)),
        env={"OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return " ".join(done.stderr.splitlines()[-4:])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.chosen(9)
def test_hostile_file_ends_with_an_error_in_little_memory(case: str, tmp_path: Path) -> None:
    written, read, expected = CASES[case]
    assert error_of(written, tmp_path, resource.RLIM_INFINITY) == ""
    error = error_of(read, tmp_path, MEMORY)
    assert re.search(expected, error), error


def test_table_that_could_not_be_read_again_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SharedFile(StoragePath.of(str(tmp_path / "file")), "state_path")
    monkeypatch.setattr(storage, "MAX_STATE_BYTES", 10)
    with pytest.raises(StorageError, match=r"file is too large: it has 11 bytes or more, and 10 are allowed"):
        file.write("12345678901")
    assert list(tmp_path.iterdir()) == []


def test_new_file_on_a_disk_without_hard_links_and_locks_is_written_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(os, "link", unsupported)
    monkeypatch.setattr(fcntl, "flock", unsupported)
    file = SharedFile(StoragePath.of(str(tmp_path / "file")), "state_path")
    assert file.write("text")
    [warning] = [record.getMessage() for record in caplog.records]
    assert warning.startswith(f"The disk of {tmp_path / 'file'} has neither hard links nor locks.")


def test_write_waits_with_a_log_line_and_ends_if_another_process_keeps_the_file_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    file = SharedFile(StoragePath.of(str(path)), "state_path")
    time = Time()
    monkeypatch.setattr(storage, "time", SimpleNamespace(monotonic=time.clock, sleep=time.sleep))
    with path.open("rb") as other, caplog.at_level("INFO"):
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match=f"^Another process has locked {path} for 60 s"):
            file.write("after")
    assert caplog.messages == [f"Waiting up to 60 s, because another process has locked {path}."]
    assert file.write("after")


def test_file_is_locked_until_its_replacement_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    file = SharedFile(StoragePath.of(str(path)), "state_path")
    sync = os.fsync
    locked = []

    def look(descriptor: int) -> None:
        with path.open("rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                locked.append(path.read_text())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    assert file.write("after")
    assert locked == ["before"]  # the new file is not locked while its folder is synced


def test_file_that_another_process_replaces_while_this_one_waits_for_its_lock_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    file = SharedFile(StoragePath.of(str(path)), "state_path")
    lock = fcntl.flock

    def lock_after_another_process(stream: int, flags: int) -> None:
        (tmp_path / "new").write_text("of another process")
        (tmp_path / "new").replace(path)
        lock(stream, flags)

    monkeypatch.setattr(fcntl, "flock", lock_after_another_process)
    assert not file.write("after")
    assert path.read_text() == "of another process"


@pytest.mark.parametrize(
    ("number", "fails"), [(errno.EIO, True), (errno.EINVAL, False), (errno.EBADF, False), (errno.ENOTSUP, False)]
)
def test_file_is_written_if_its_disk_cannot_sync_folders(
    number: int, fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def reject(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", reject)
    file = SharedFile(StoragePath.of(str(tmp_path / "file")), "state_path")
    with pytest.raises(StorageError, match="Input/output error") if fails else nullcontext():
        assert file.write("text")


class ConditionalStore(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Object storage in memory with the conditional writes of S3."""

    cachable = False

    def __init__(self, protocol: str) -> None:
        super().__init__()
        self.protocol = protocol
        self.store: dict[str, Any] = {}
        self.pseudo_dirs = ["", "/bucket"]
        #: Called after each read of a file.
        self.after_read: Callable[[], object] = lambda: None

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        found = super().info(path)
        return {**found, "ETag": hashlib.sha256(super().cat_file(path)).hexdigest()}

    def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
        content: bytes = super().cat_file(path, start, end)
        self.after_read()
        return content

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", IfMatch: str | None = None) -> None:  # noqa: N803
        is_there = self.exists(path)
        if (mode == "create" and is_there) or (IfMatch and (not is_there or self.info(path)["ETag"] != IfMatch)):
            raise OSError(errno.EEXIST, "precondition failed")
        super().pipe_file(path, value)


@pytest.mark.parametrize("protocol", ["s3", "s3a"])
def test_object_is_written_only_if_it_is_as_it_was_read(protocol: str) -> None:
    store = ConditionalStore(protocol)
    place = StoragePath(store, "/bucket/file", f"{protocol}://bucket/file")
    first, second = SharedFile(place, "state_path"), SharedFile(place, "state_path")
    assert [first.write("first"), second.write("second")] == [True, False]
    second.read()
    assert second.text == "first"
    assert [second.write("third"), first.write("fourth")] == [True, False]

    def write_of_another_process() -> None:
        store.after_read = lambda: None
        store.pipe_file("/bucket/file", b"of another process")

    store.after_read = write_of_another_process
    first.read()
    assert not first.write("fifth")
    second.read()
    store.after_read = write_of_another_process
    second.write("sixth")  # it is compared by the storage, not read before
    assert store.cat_file("/bucket/file") == b"of another process"


@pytest.mark.parametrize("method", ["info", "pipe_file"])
def test_object_is_kept_if_the_storage_denies_a_request(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object, **options: object) -> None:
        if method == "info" or options:
            raise PermissionError(errno.EACCES, "Access Denied")
        pytest.fail("The object was written without a condition.")

    store = ConditionalStore("s3")
    place = StoragePath(store, "/bucket/file", "s3://bucket/file")
    file = SharedFile(place, "state_path")
    monkeypatch.setattr(store, method, deny)
    with pytest.raises(StorageError, match="Access Denied"):
        file.read() if method == "info" else file.write("text")


def test_empty_object_is_read_although_the_storage_rejects_a_range_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ConditionalStore("s3")
    for name, content in (("empty", b""), ("full", b"text")):
        store.pipe_file(f"/bucket/{name}", content)

    def reject(*_: object, **__: object) -> None:
        raise OSError(errno.EINVAL, "The requested range is not satisfiable")

    monkeypatch.setattr(store, "cat_file", reject)
    assert storage.read_bytes(StoragePath(store, "/bucket/empty", "s3://bucket/empty")) == b""
    with pytest.raises(OSError, match="not satisfiable"):
        storage.read_bytes(StoragePath(store, "/bucket/full", "s3://bucket/full"))


def test_only_the_allowed_part_of_a_large_object_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ConditionalStore("s3")
    store.pipe_file("/bucket/file", b"text")
    monkeypatch.setattr(storage, "MAX_STATE_BYTES", 2)
    read = store.cat_file
    received: list[bytes] = []

    def cat_file(*arguments: Any, **options: Any) -> bytes:
        received.append(read(*arguments, **options))
        return received[-1]

    monkeypatch.setattr(store, "cat_file", cat_file)
    with pytest.raises(StorageError, match="2"):
        storage.read_bytes(StoragePath(store, "/bucket/file", "s3://bucket/file"))
    assert received == [b"tex"]


@pytest.mark.parametrize(
    "look", [storage.read_bytes, storage.size_of, lambda place: storage.names(place.parent)], ids=["read", "size", "ls"]
)
def test_file_is_not_missing_if_the_storage_denies_a_look(
    look: Callable[[StoragePath], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Access Denied")

    store = ConditionalStore("s3")
    for method in ("cat_file", "size", "ls"):
        monkeypatch.setattr(store, method, deny)
    with pytest.raises(PermissionError):
        look(StoragePath(store, "/bucket/file", "s3://bucket/file"))


def test_folder_of_an_object_store_is_not_created_because_a_mistyped_bucket_would_be() -> None:
    store = ConditionalStore("s3")
    storage.make_directory(StoragePath(store, "/mistyped/analytics", "s3://mistyped/analytics"))
    assert store.pseudo_dirs == ["", "/bucket"]


class KeepingStore(ConditionalStore):
    """Object storage that lists the same files until its cache is invalidated, like S3."""

    listed: frozenset[str] = frozenset()

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listed = frozenset(self.store)

    def exists(self, path: str, **_: Any) -> bool:
        return path in self.listed

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[dict[str, Any]]:
        return [{"name": name, "type": "file"} for name in self.listed]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        if path not in self.listed:
            raise FileNotFoundError(path)
        return super().info(path)


@pytest.mark.parametrize(
    "look",
    [
        storage.exists,
        storage.size_of,
        lambda place: storage.names(place.parent),
        lambda place: SharedFile(place, "state_path")._stored[1],
    ],
    ids=["exists", "size", "names", "version"],
)
def test_file_of_another_process_is_seen_although_the_storage_keeps_listings(
    look: Callable[[StoragePath], object],
) -> None:
    store = KeepingStore("s3")
    place = StoragePath(store, "/bucket/file", "s3://bucket/file")
    before = look(place)
    MemoryFileSystem.pipe_file(store, "/bucket/file", b"of another process")
    assert look(place) != before


@pytest.mark.usefixtures("time_zone")
def test_unique_name_contains_the_time_in_utc() -> None:
    moment = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert storage.new_token(moment).startswith("20261120T120000Z-")
    assert storage.token_age(storage.new_token(moment), moment) == timedelta(0)


class _WithoutListing(MemoryFileSystem):  # type: ignore[misc]
    """A storage whose role can read objects, and not list them."""

    protocol = "s3"

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        raise PermissionError("Access Denied: s3:ListBucket")

    def info(self, path: str, **options: Any) -> Any:
        raise PermissionError("Access Denied: s3:ListBucket")


def test_file_is_read_by_a_role_that_cannot_list_its_bucket() -> None:
    MemoryFileSystem().pipe_file("/b/w.yaml", b"websites: {}")
    place = StoragePath(_WithoutListing(), "/b/w.yaml", "s3://b/w.yaml")
    assert read_texts(place, "config_path", lambda _folder, names: names) == {"w.yaml": "websites: {}"}


def test_error_of_a_storage_library_is_cut_after_its_first_line(monkeypatch: pytest.MonkeyPatch) -> None:
    response = "The specified container does not exist.\nRequestId:1\nContent: <?xml version='1.0'?>\n<Error></Error>"

    def fail(*_arguments: Any, **_options: Any) -> Any:
        raise RuntimeError(response)

    file_system = MemoryFileSystem()
    monkeypatch.setattr(file_system, "cat_file", fail)
    with pytest.raises(StorageError) as caught:
        SharedFile(StoragePath(file_system, "/c/table.json", "abfs://c/table.json"), "state_path")
    assert "The specified container does not exist. File: abfs://c/table.json" in str(caught.value)
    assert "xml" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (FileNotFoundError("no such bucket"), "Check that the bucket or folder exists."),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory"), "A part of this path is a file. Choose another folder."),
        (PermissionError("Access Denied"), "Check the permissions of the folder or bucket"),
        (OSError(errno.EPERM, "Operation not permitted"), "Check the permissions of the folder or bucket"),
        (OSError(errno.ENOSPC, "No space left on device"), "Free space there."),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Free space there."),
        (OSError(errno.EROFS, "Read-only file system"), "The file system is read-only."),
        (OSError(errno.EIO, "Input/output error"), ""),
        (RuntimeError("SlowDown"), ""),
    ],
)
def test_remedy_of_a_storage_error_fits_its_cause(error: Exception, remedy: str) -> None:
    with pytest.raises(StorageError) as caught, storage_errors("write"):
        raise error
    assert caught.value.remedy.startswith(remedy)
    assert bool(caught.value.remedy) is bool(remedy)
