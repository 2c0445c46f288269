"""Two tries of one task at once: an orphan of a worker that was killed, or a process that hung and comes back."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fsspec
import pytest
from airflow_versions import attach
from distortion import Distortion
from fixture_types import Execute
from task_process import TaskProcess

from airflow_provider_analytics.api import stopping
from airflow_provider_analytics.exceptions import StoppedError, StorageError
from airflow_provider_analytics.hooks import object_storage
from airflow_provider_analytics.hooks.object_storage import SharedFile
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.storage import StoragePath, version_of

WEBSITES = 20
OWN, NEW, NEXT = "10.0.0.1", "203.0.113.7", "203.0.113.8"
#: Number of updates of the first try before the second one begins.
BEFORE = 5


def sync(folder: str, address: str = NEW) -> dict[str, Any]:
    return {"exclude_ips": [address], "mode": "managed", "ledger_path": f"{folder}/ledger.json", "max_workers": 1}


def apply(folder: str, address: str = NEW) -> dict[str, Any]:
    websites: dict[str, Any] = {f"{number}.example": {} for number in range(1, WEBSITES + 1)}
    config = {"modes": {"exclude_ips": "managed"}, "defaults": {"exclude_ips": [address]}, "websites": websites}
    return {"config": config, "ledger_path": f"{folder}/ledger.json", "list_name": "file", "max_workers": 1}


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TaskProcess, TaskProcess]]:
    log = tmp_path_factory.mktemp("log") / "tasks.txt"
    with log.open("w") as file, TaskProcess(file) as first, TaskProcess(file) as second:
        yield first, second


@pytest.fixture
def tries(processes: tuple[TaskProcess, TaskProcess], stage: Stage) -> Iterator[tuple[TaskProcess, TaskProcess]]:
    yield processes
    stage.released.set()
    for process in processes:
        process.end_all()


@pytest.fixture
def bucket(s3: dict[str, Any]) -> str:
    import s3fs

    file_system = s3fs.S3FileSystem(**s3)
    attach("s3", file_system)
    name = f"bucket-{uuid.uuid4().hex}"
    file_system.mkdir(name)
    return f"s3://{name}"


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.slow)])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any] | None]:
    """Return the folder of the ledger, and what a process needs to know of its file system."""
    if request.param == "disk":
        return str(tmp_path), None
    return request.getfixturevalue("bucket"), request.getfixturevalue("s3")


class Stage:
    """The service, which knows the tries apart and holds a request of the first one back."""

    def __init__(self, sandbox: SandboxServer, distortion: Distortion, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sandbox = sandbox
        self._monkeypatch = monkeypatch
        self._connection = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])
        self._answer = distortion.answer
        distortion.answer = self.answer  # type: ignore[method-assign]
        #: Requests as ``(try, method, path)``, in the order in which they came.
        self.seen: list[tuple[str, str, str]] = []
        #: Which request of the first try is held back, its path once it came, and whether it is let go on, and done.
        self.is_to_be_held: Callable[[str, str], bool] = lambda method, path: False
        self.held_path = ""
        self.held, self.released, self.done = threading.Event(), threading.Event(), threading.Event()
        #: Called before a request of the second try is passed on.
        self.before_second: Callable[[str, str], None] = lambda method, path: None

    def as_try(self, number: int) -> int:
        """Let the try that begins next be known by its number."""
        connection = {**self._connection, "extra": {"max_retries": 0, "headers": {"X-Try": f"number-{number}"}}}
        self._monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))
        return number

    def hold(self, what: str) -> None:
        """Hold back the show or the update of the website after :data:`BEFORE` others, or the list."""
        method = "PATCH" if what == "update" else "GET"

        def is_it(asked: str, path: str) -> bool:
            if what == "list":
                return path == "/websites"
            return (
                asked == method
                and path.startswith("/websites/")
                and self.updates("1").total() - (method == "PATCH") == BEFORE
            )

        self.is_to_be_held = is_it

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        path = target.partition("?")[0].removeprefix("/api/v1")
        who = headers.get("X-Try", "").removeprefix("number-")
        self.seen.append((who, method, path))
        is_held = who == "1" and not self.held.is_set() and self.is_to_be_held(method, path)
        if is_held:
            self.held_path = path
            self.held.set()
            assert self.released.wait(120)
        if who == "2":
            self.before_second(method, path)
        answer = self._answer(method, target, headers, body)
        if is_held:
            self.done.set()
        return answer

    def let_it_arrive(self) -> None:
        self.released.set()
        assert self.done.wait(60)

    def updates(self, who: str = "") -> Counter[str]:
        """Return the number of updates of each website."""
        return Counter(path for one, method, path in self.seen if method == "PATCH" and who in ("", one))

    def requests_of_first(self) -> int:
        return sum(who == "1" for who, _, _ in self.seen)

    def lists(self) -> set[str]:
        return {website["exclude_ips"] for website in self.sandbox.websites()}


@pytest.fixture
def stage(analytics_sandbox: SandboxServer, distortion: Distortion, monkeypatch: pytest.MonkeyPatch) -> Stage:
    for number in range(1, WEBSITES + 1):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips=OWN)
    return Stage(analytics_sandbox, distortion, monkeypatch)


def text_of(folder: str) -> str:
    return SharedFile(f"{folder}/ledger.json", "ledger_path").text or ""


def holds(stage: Stage, folder: str, execute: Execute, operator: type, arguments: Any) -> None:
    """Every website is as desired, the ledger is exact, and what any of the tries has added can be taken away."""
    assert stage.lists() == {f"{OWN}\n{NEW}"}
    ledger = json.loads(text_of(folder))
    assert (ledger["owner"]["number"], ledger["owner"]["settled"] is None) == (2, False)
    assert {key: website["entries"] for key, website in ledger["websites"].items()} == {
        str(number): {"exclude_ips": [NEW]} for number in range(1, WEBSITES + 1)
    }
    stage.as_try(3)
    execute(operator, try_number=3, **arguments(folder, NEXT))
    assert stage.lists() == {f"{OWN}\n{NEXT}"}


REPLACED = r"replaced by try 2 of the_dag.sync in run run, which took over the ledger"


@pytest.mark.kill
@pytest.mark.parametrize(
    ("operator", "arguments"), [(SyncExcludedIpsOperator, sync), (ApplyWebsitesOperator, apply)], ids=["sync", "apply"]
)
@pytest.mark.parametrize("arrives", ["before the list", "before the plan", "after the plan", "at the end"])
def test_an_orphan_stops_before_its_next_request_and_the_retry_does_the_rest(
    stage: Stage,
    tries: tuple[TaskProcess, TaskProcess],
    storage: tuple[str, dict[str, Any] | None],
    execute: Execute,
    operator: type,
    arguments: Callable[..., dict[str, Any]],
    arrives: str,
) -> None:
    """An update of the orphan is under way while the retry takes the ledger over."""
    (first, second), (folder, s3) = tries, storage
    stage.hold("update")
    first.start(operator.__name__, try_number=stage.as_try(1), s3=s3, **arguments(folder))
    assert stage.held.wait(60)
    begun = stage.requests_of_first()

    # The website is shown for the plan, as it lacks what the ledger owns, and again right before its update.
    at = {"before the list": ("/websites", 1), "before the plan": (stage.held_path, 1)}
    at["after the plan"] = (stage.held_path, 2)
    asked = Counter[str]()

    def let_it_arrive(method: str, path: str) -> None:
        asked[path] += 1
        if (path, asked[path]) == at.get(arrives):
            stage.let_it_arrive()

    stage.before_second = let_it_arrive
    second.start(operator.__name__, try_number=stage.as_try(2), s3=s3, **arguments(folder))
    assert second.wait()["error"] is None, second.end
    written = text_of(folder)
    stage.let_it_arrive()
    ended = first.wait()
    assert ended["error"] == "StoppedError"
    assert ended["message"].startswith(f"Stopped: {BEFORE + 1} of {WEBSITES} websites changed. The task was {REPLACED}")
    assert stage.requests_of_first() == begun
    assert text_of(folder) == written
    assert len(stage.updates()) == WEBSITES
    twice = [path for path, number in stage.updates().items() if number > 1]
    assert twice == ([stage.held_path] if arrives == "at the end" else [])
    holds(stage, folder, execute, operator, arguments)


@pytest.mark.kill
@pytest.mark.parametrize("how", ["hangs", "killed"])
@pytest.mark.parametrize("held", ["list", "show", "update"])
def test_a_process_that_hangs_or_is_killed_at_any_request_blocks_nobody_and_changes_nothing_later(
    stage: Stage,
    tries: tuple[TaskProcess, TaskProcess],
    storage: tuple[str, dict[str, Any] | None],
    execute: Execute,
    held: str,
    how: str,
) -> None:
    (first, second), (folder, s3) = tries, storage
    stage.hold(held)
    first.start("SyncExcludedIpsOperator", try_number=stage.as_try(1), s3=s3, **sync(folder))
    assert stage.held.wait(60)
    if how == "hangs":
        first.halt()
    else:
        first.kill()
        first.wait()
    begun = stage.requests_of_first()
    second.start("SyncExcludedIpsOperator", try_number=stage.as_try(2), s3=s3, **sync(folder))
    assert second.wait()["error"] is None, second.end
    stage.let_it_arrive()
    if how == "hangs":
        first.go_on()
        ended = first.wait()
        assert ended["error"] == "StoppedError"
        assert REPLACED in ended["message"]
    assert stage.requests_of_first() == begun
    assert len(stage.updates()) == WEBSITES
    assert stage.updates().total() == WEBSITES + (held == "update")
    holds(stage, folder, execute, SyncExcludedIpsOperator, sync)


def test_a_try_that_hung_before_it_took_the_ledger_over_does_not_do_so_later(
    stage: Stage, execute: Execute, tmp_path: Path
) -> None:
    arguments, began = sync(str(tmp_path)), datetime.now(UTC)
    execute(SyncExcludedIpsOperator, try_number=2, **arguments)
    written = text_of(str(tmp_path))
    stage.seen.clear()
    with pytest.raises(StoppedError, match=r"Stopped: replaced by try 2 of the_dag\.sync .* Nothing was sent\."):
        execute(SyncExcludedIpsOperator, try_number=1, start_date=began, **arguments)
    assert [path for _, _, path in stage.seen] == ["/account"]
    assert text_of(str(tmp_path)) == written
    # A run that was deleted and made again counts its tries anew.
    later = datetime.now(UTC) + timedelta(seconds=1)
    assert execute(SyncExcludedIpsOperator, try_number=1, start_date=later, **arguments)["unchanged"] == WEBSITES


def test_a_try_looks_at_the_ledger_once_a_second_at_most(
    stage: Stage, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[SharedFile] = []
    is_as_read = SharedFile.is_as_read

    def look(file: SharedFile) -> bool:
        looks.append(file)
        return is_as_read(file)

    monkeypatch.setattr(SharedFile, "is_as_read", look)
    began = time.monotonic()
    execute(SyncExcludedIpsOperator, **sync(str(tmp_path)))
    assert len(looks) <= (time.monotonic() - began) / stopping.WATCH_SECONDS
    monkeypatch.setattr(stopping, "WATCH_SECONDS", 0)
    looks.clear()
    stage.seen.clear()
    execute(SyncExcludedIpsOperator, **sync(str(tmp_path), NEXT))
    assert len(looks) == len(stage.seen) - 1  # the account is read before the ledger


@pytest.mark.parametrize("failure", [OSError(errno.EIO, "the disk is gone"), PermissionError("the disk is gone")])
def test_a_ledger_that_cannot_be_looked_at_ends_the_work_with_true_records(
    stage: Stage, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: OSError
) -> None:
    monkeypatch.setattr(stopping, "WATCH_SECONDS", 0)

    def fail_at_last(path: StoragePath) -> str | None:
        if stage.updates().total() >= BEFORE:
            raise failure
        return version_of(path)

    monkeypatch.setattr(object_storage, "version_of", fail_at_last)
    with pytest.raises(OSError, match=r"ledger_path.*cannot be read|cannot read ledger_path") as raised:
        execute(SyncExcludedIpsOperator, **sync(str(tmp_path)))
    assert "the disk is gone" in str(raised.value)
    assert len(stage.updates()) == BEFORE
    assert len(json.loads(text_of(str(tmp_path)))["websites"]) == BEFORE


@pytest.fixture
def memory() -> str:
    attach("memory", fsspec.filesystem("memory"))
    return f"memory://{uuid.uuid4().hex}"


@pytest.mark.parametrize("where", ["disk", pytest.param("s3", marks=pytest.mark.slow), "memory"])
def test_a_shared_file_is_written_only_over_what_was_read(
    request: pytest.FixtureRequest, tmp_path: Path, where: str
) -> None:
    folder = str(tmp_path) if where == "disk" else request.getfixturevalue({"s3": "bucket"}.get(where, where))
    url = f"{folder}/below/file.json"
    first, second = (SharedFile(url, "ledger_path") for _ in range(2))
    assert first.text is second.text is None
    assert first.write("of the first")
    assert not second.write("of the second")
    second = SharedFile(url, "ledger_path")
    assert (second.text, second.is_as_read(), first.is_as_read()) == ("of the first", True, True)
    assert second.write("of the second")
    assert second.write("of the second, again")
    assert not first.write("of the first, later")
    assert not first.is_as_read()
    first.read()
    assert first.write("of the first, later")
    if where == "disk":
        assert [path.name for path in (tmp_path / "below").iterdir()] == ["file.json"]


def test_of_many_writers_on_one_disk_none_writes_over_another(tmp_path: Path) -> None:
    url, writers, times = str(tmp_path / "file.json"), 4, 25

    def count_up() -> None:
        file = SharedFile(url, "ledger_path")
        for _ in range(times):
            while not file.write(str(int(file.text or "0") + 1)):
                file.read()

    with ThreadPoolExecutor(writers) as pool:
        for future in [pool.submit(count_up) for _ in range(writers)]:
            future.result()
    assert SharedFile(url, "ledger_path").text == str(writers * times)


def test_who_hung_while_it_wrote_does_not_write_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others have stopped to wait for its lock."""
    file = SharedFile(str(tmp_path / "file.json"), "ledger_path")
    assert file.write("before")
    monkeypatch.setattr("airflow_provider_analytics.storage.LOCK_SECONDS", 0.0)
    assert not file.write("after")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file.json", "before")]


@pytest.mark.slow  # what speaks S3, on both sides, takes seconds to load
@pytest.mark.parametrize("case", ["sent twice", "no such condition", "no space"])
def test_a_write_with_a_condition_that_fails_is_told_by_what_is_there(
    bucket: str, s3: dict[str, Any], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    import s3fs

    file = SharedFile(f"{bucket}/file.json", "ledger_path")
    assert file.write("before")
    file_system = s3fs.S3FileSystem(**s3)  # the library makes one of a kind
    write = file_system.pipe_file

    def spoilt(path: str, content: bytes, **condition: Any) -> None:
        if condition and case != "sent twice":
            raise OSError(errno.ENOSYS if case == "no such condition" else errno.EIO, "refused")
        write(path, content, **condition)
        if condition:
            write(path, content, **condition)  # the library sends again what was lost on its way back

    monkeypatch.setattr(file_system, "pipe_file", spoilt)
    if case == "no space":
        with pytest.raises(StorageError, match="The storage cannot write ledger_path: refused"):
            file.write("after")
    else:
        assert file.write("after")
        assert SharedFile(f"{bucket}/file.json", "ledger_path").text == "after"
