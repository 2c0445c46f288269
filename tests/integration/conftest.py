"""What several folders of integration tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow_versions import own_lines


@pytest.fixture
def task_log(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return all that tasks have logged so far: Airflow 2 uses logging, Airflow 3 prints it."""
    said: list[str] = []

    def read() -> str:
        said.extend(capfd.readouterr())
        return own_lines("".join((*said, caplog.text)))

    return read


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
