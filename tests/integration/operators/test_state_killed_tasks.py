# SPDX-License-Identifier: Apache-2.0
"""Orphaned processes beside a retry or the next run (``reconcile/state.py``, ``storage.py``)."""

from __future__ import annotations

import errno
import itertools
import os
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from airflow_versions import attach
from distortion import Distortion
from raw_server import Request
from reconciling import Night
from task_process import TaskProcess

from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.hooks.connection import storage_path
from airflow_provider_analytics.storage import SharedFile

WEBSITES = 12
OWN, NEW, NEXT = "10.0.0.1", "203.0.113.7", "203.0.113.8"


def shared_file(url: str) -> SharedFile:
    return SharedFile(storage_path(url, "state_path"), "state_path")


def sync(address: str) -> dict[str, Any]:
    return {"exclude_ips": [address]}


def apply(address: str) -> dict[str, Any]:
    websites: dict[str, Any] = {f"{number}.example": {} for number in range(1, WEBSITES + 1)}
    return {"config": {"defaults": {"exclude_ips": [address]}, "websites": websites}}


@pytest.fixture
def bucket(s3: dict[str, Any]) -> str:
    import s3fs

    file_system = s3fs.S3FileSystem(**s3)
    attach("s3", file_system)
    name = f"bucket-{uuid.uuid4().hex}"
    file_system.mkdir(name)
    return f"s3://{name}"


@pytest.mark.kill
@pytest.mark.parametrize("how", ["hangs", "killed"])
@pytest.mark.parametrize("held", [("GET", "/websites"), ("GET", "/websites/8"), ("PATCH", "/websites/8")], ids=str)
@pytest.mark.parametrize("arguments", [sync, apply])
@pytest.mark.parametrize("then", ["retry", "run"])
@pytest.mark.chosen(5)
def test_orphaned_process_blocks_no_run_and_the_next_run_corrects_its_changes(
    night: Night,
    distortion: Distortion,
    started: TaskProcess,
    arguments: Any,
    held: tuple[str, str],
    how: str,
    then: str,
) -> None:
    night.add(WEBSITES, exclude_ips=OWN)
    is_held, released = threading.Event(), threading.Event()

    def hold(method: str, path: str) -> None:
        if (method, path) == held and not is_held.is_set():
            is_held.set()
            assert released.wait(60)

    distortion.before = hold
    operator = "SyncExcludedIpsOperator" if arguments is sync else "ApplyWebsitesOperator"
    run = night.managed if arguments is sync else night.apply
    started.start(operator, run_id="first", parallel_requests=1, **night.state, **arguments(NEW))
    assert is_held.wait(60)
    if how == "hangs":
        started.halt()
    else:
        started.kill()
        started.wait()
    address, run_id = (NEW, "first") if then == "retry" else (NEXT, "second")
    run(run_id=run_id, try_number=2, **night.state, **arguments(address))
    assert night.lists() == [f"{OWN}\n{address}"] * WEBSITES
    released.set()
    if how == "hangs":
        started.go_on()
        ended = started.wait()
        # A later run of the list has started.
        assert ended["error"] in (("StoppedError", "AirflowSkipException") if then == "run" else (None,)), ended
    run(run_id="third", **night.state, **arguments(NEXT))
    assert night.lists() == [f"{OWN}\n{NEXT}"] * WEBSITES


class NoCredentialsError(Exception):
    """Like the errors of botocore, which are not OSErrors."""


@pytest.mark.parametrize(
    ("method", "error", "problem"),
    [
        ("ls", NoCredentialsError("Unable to locate credentials"), "read state_path: NoCredentialsError: Unable to"),
        ("cat_file", PermissionError(errno.EACCES, "Permission denied"), "read state_path: Permission denied"),
        ("pipe_file", FileNotFoundError("The specified bucket does not exist"), "write state_path: The specified buc"),
    ],
)
def test_storage_error_names_the_argument_and_the_next_step(
    night: Night, memory: Any, monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, problem: str
) -> None:
    def reject(*arguments: Any, **more: Any) -> None:
        raise error

    night.add(1)
    monkeypatch.setattr(type(memory), method, reject)
    with pytest.raises(
        StorageError,
        match=rf"(?s)The storage cannot {problem}.*(bucket or folder exists|permissions|give the worker credentials)",
    ):
        night.sync(NEW, state_path=f"memory://{uuid.uuid4().hex}")
    assert not [request for request in night.sandbox.requests if request.body]


@pytest.mark.parametrize("where", ["disk", pytest.param("s3", marks=pytest.mark.slow), "memory"])
def test_shared_file_is_written_only_if_it_is_unchanged_since_the_read(
    request: pytest.FixtureRequest, tmp_path: Path, where: str
) -> None:
    folder = str(tmp_path)
    if where == "memory":
        request.getfixturevalue("memory")
        folder = f"memory://{uuid.uuid4().hex}"
    elif where == "s3":
        folder = request.getfixturevalue("bucket")
    url = f"{folder}/below/file.json"
    first, second = (shared_file(url) for _ in range(2))
    assert first.text is second.text is None
    assert first.write("of the first")
    assert not second.write("of the second")
    second = shared_file(url)
    assert second.text == "of the first"
    assert second.write("of the second")
    assert second.write("of the second, again")
    assert not first.write("of the first, later")
    first.read()
    assert first.write("of the first, later")
    if where == "disk":
        assert [path.name for path in (tmp_path / "below").iterdir()] == ["file.json"]


def test_new_file_is_never_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the process is killed before it has written the file, there is none."""
    place = tmp_path / "file.json"
    existed: list[bool] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        existed.append(place.exists())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    assert shared_file(str(place)).write("text")
    assert existed == [False, True]  # of the file, and of its folder
    assert place.read_text() == "text"


def test_new_file_is_created_once_on_a_disk_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def link(source: Path, target: Path) -> None:
        both.wait(10)
        raise PermissionError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", link)
    for number in range(20):
        files = [shared_file(str(tmp_path / f"{number}.json")) for _ in range(2)]
        with ThreadPoolExecutor(2) as writers:
            written = list(writers.map(SharedFile.write, files, ("first", "second")))
        assert sorted(written) == [False, True]
        texts = [path.read_text() for path in tmp_path.iterdir() if path.stem == str(number)]
        assert texts == [("first", "second")[written.index(True)]]
        assert len(list(tmp_path.iterdir())) == number + 1


@pytest.mark.slow  # the S3 libraries of both sides take seconds to load
@pytest.mark.parametrize("case", ["sent twice", "no such condition", "no space"])
def test_failed_conditional_write_is_resolved_by_reading_the_file(
    bucket: str, s3: dict[str, Any], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    import s3fs

    file = shared_file(f"{bucket}/file.json")
    assert file.write("before")
    file_system = s3fs.S3FileSystem(**s3)  # the library creates a single instance of each kind
    write = file_system.pipe_file

    def spoilt(path: str, content: bytes, **condition: Any) -> None:
        if condition and case != "sent twice":
            raise OSError(errno.ENOSYS if case == "no such condition" else errno.EIO, "rejected")
        write(path, content, **condition)
        if condition:
            write(path, content, **condition)  # the library sends a request again if its response was lost

    monkeypatch.setattr(file_system, "pipe_file", spoilt)
    if case == "no space":
        with pytest.raises(StorageError, match="The storage cannot write state_path: rejected"):
            file.write("after")
    else:
        assert file.write("after")
        assert shared_file(f"{bucket}/file.json").text == "after"


Kill = Callable[..., None]
STEPS = (1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 15, 17, 19, 21, 22, 23)


@pytest.fixture(params=itertools.product(STEPS, (False, True)), ids=str)
def kill(request: pytest.FixtureRequest, started: TaskProcess, night: Night, distortion: Distortion) -> Kill:
    """Kill a job during its request number ``step``, which is applied after the kill if it ``arrives``."""
    step, arrives = request.param

    def run_and_kill(operator: str, **arguments: Any) -> None:
        numbers = itertools.count(1)
        held = threading.Event()
        passed_on: list[threading.Event] = []

        def hold(method: str, path: str) -> None:
            if next(numbers) >= step:
                held.set()
                started.gone.wait(60)
                if not arrives:
                    raise ConnectionError("never arrives")

        def forward(request: Request) -> tuple[int, Any]:
            passed_on.append(is_done := threading.Event())
            try:
                return distortion.to_the_sandbox(request)
            finally:
                is_done.set()

        distortion.before = hold
        distortion.forward = forward
        started.start(operator, parallel_requests=2, **night.state, **arguments)
        while not held.wait(0.01) and not started.gone.is_set():
            pass
        if held.is_set():
            started.kill()
        started.wait()
        for item in passed_on:  # the next run starts after the late request arrived
            assert item.wait(60)
        distortion.before = lambda method, path: None
        distortion.forward = distortion.to_the_sandbox

    return run_and_kill


@pytest.mark.kill
@pytest.mark.chosen(5)
def test_killed_sync_converges_on_the_next_run(night: Night, kill: Kill) -> None:
    """The table contains added and removed entries before the first website changes."""
    night.add(10, exclude_ips="10.0.0.1\n203.0.113.6")
    night.managed("203.0.113.6")
    kill("SyncExcludedIpsOperator", exclude_ips=["203.0.113.7"])
    audited, changed = len(night.trail()), 10 - night.lists().count("10.0.0.1\n203.0.113.6")
    assert audited <= changed <= audited + 2  # the request during the kill
    night.managed("203.0.113.8", run_id="next")
    assert night.lists() == ["10.0.0.1\n203.0.113.8"] * 10


@pytest.mark.kill
@pytest.mark.chosen(5)
def test_killed_apply_of_an_approved_plan_converges_on_the_next_run(night: Night, kill: Kill) -> None:
    night.add("old1.example old2.example old3.example gone1.example gone2.example", exclude_ips="10.0.0.1")
    night.add("same.example", exclude_ips="10.0.0.1", privacy=1)
    night.sandbox.configure(allow_duplicates=True)
    domains = [f"{name}.example" for name in ("old1", "old2", "old3", "same", "new1", "new2", "new3")]

    def write(address: str) -> None:
        defaults = {"privacy": "private", "favorite": True, "exclude_ips": [address]}
        night.write({"defaults": defaults, "websites": dict.fromkeys(domains)})

    def state() -> tuple[Any, ...]:
        entries = {(entry or "").removeprefix("10.0.0.1\n") for entry in night.lists()}
        return Counter(night.lists("domain")), set(night.lists("privacy")), set(night.lists("favorite")), entries

    write("203.0.113.7")
    prune: dict[str, Any] = {**night.state, "prune": True}
    approved = {"prune": True, "approved_digest": night.plan(**prune)["digest"]}
    kill("ApplyWebsitesOperator", config_path=str(night.file), **approved)
    night.apply(**night.state, **approved)
    assert state() == (Counter(domains), {1}, {True}, {"203.0.113.7"})
    # A finished task can be run again.
    assert night.apply(**night.state, **approved)["applied"] == 0
    # Entries that the killed process added belong to the list.
    write("203.0.113.8")
    night.apply(**prune)
    assert state() == (Counter(domains), {1}, {True}, {"203.0.113.8"})
