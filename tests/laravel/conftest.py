# SPDX-License-Identifier: Apache-2.0
"""The table of variations, and the waits of production."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait as a task does, in contrast to other tests, except for another task that writes at the same time."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.SETTLE_SECONDS", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each variation with the steps that passed; pytest only loads this file first if it is named."""
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for name, text in getattr(report, "user_properties", ()):
            if name == "variation":
                terminalreporter.write_line(text)
