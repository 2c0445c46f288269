# SPDX-License-Identifier: Apache-2.0
"""docs/exclusions.md: its command, and the reasons of an address."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_analytics.commands import main
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

Blocks = Callable[[str, str], list[str]]


@pytest.fixture
def sync(analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Callable[..., Any]) -> Any:
    """Run the operator, and return its result: ``sync("203.0.113.7", mode="merge")``."""
    connect()
    return lambda *addresses, **arguments: execute(SyncExcludedIpsOperator, exclude_ips=[*addresses], **arguments)


def test_command_prints_the_documented_table(
    analytics_sandbox: SandboxServer, sync: Any, blocks: Blocks, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analytics_sandbox.add_website("a.example")
    entry = "203.0.113.7 # office Berlin, owner=it@example.com, until=2027-01-31"
    sync(entry, state_path=str(tmp_path), list_name="offices")
    [text] = blocks("exclusions", "console")
    command, *table = text.splitlines()
    program, *options = shlex.split(command.removeprefix("$ ").replace("/data/state", str(tmp_path)))
    assert program == "airflow-provider-analytics"
    capsys.readouterr()
    assert main(options) == 0
    found = capsys.readouterr().out
    assert re.sub(r"20\d\d-\d\d-\d\d(?=  2027)", "2026-11-23", found).splitlines() == table
