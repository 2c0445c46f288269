"""What several folders of integration tests use."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def task_log(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """Return all that tasks have logged so far: Airflow 2 uses logging, Airflow 3 prints it."""
    said: list[str] = []

    def read() -> str:
        said.extend(capfd.readouterr())
        return "".join((*said, caplog.text))

    return read
