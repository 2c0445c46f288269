# SPDX-License-Identifier: Apache-2.0
"""What several folders of integration tests use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest
from airflow_versions import answer_approval, attach, own_lines


@pytest.fixture
def task_log(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return all that tasks have logged so far: Airflow 2 uses logging, Airflow 3 prints it."""
    said: list[str] = []

    def read() -> str:
        said.extend(capfd.readouterr())
        return own_lines("".join((*said, caplog.text)))

    return read


@pytest.fixture
def memory() -> Any:
    """A storage that keeps files in memory; Airflow knows it only when it is attached."""
    file_system = fsspec.filesystem("memory")
    attach("memory", file_system)
    return file_system


# One for all: what Airflow attaches to a scheme stays attached in this process.
@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, Any]]:
    """Start a server that speaks S3; return the arguments of a file system on it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {"key": "test", "secret": "test", "client_kwargs": {"endpoint_url": f"http://{host}:{port}"}}
    finally:
        server.stop()


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str | None]]:
    """Let a person answer each question of a run: ``answer("Approve")`` returns the texts, as they are asked."""

    def begin(option: str) -> list[str | None]:
        from airflow.models.hitl import HITLDetail
        from airflow.utils.session import create_session

        shown: list[str | None] = []

        def press_the_button(seconds: float) -> None:
            """Do what the button in the UI does, in the moment in which the run waits for it."""
            if threading.current_thread() is not threading.main_thread():
                sleep(seconds)
                return
            with create_session() as session:
                waiting = [item for item in session.query(HITLDetail) if item.responded_at is None]
                if not waiting:
                    return
                (detail,) = waiting
                shown.append(detail.body)
                answer_approval(detail, option, "Ann", session)

        sleep = time.sleep
        monkeypatch.setattr(time, "sleep", press_the_button)
        return shown

    return begin
