# SPDX-License-Identifier: Apache-2.0
"""The command ``explain`` (``commands/explain.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_analytics.commands import main
from airflow_provider_analytics.reconcile.desired.list_lines import EntrySource, now
from airflow_provider_analytics.reconcile.desired.tables import EVERYWHERE, Identity, Run, Table
from airflow_provider_analytics.sandbox.server import SandboxServer

ADDRESS = "192.0.2.1"
OTHER = "https://stats.other.example"


def store(folder: Path, service: str, name: str, *entries: str) -> None:
    """Store the table of a list in the format of a run."""
    at = now()
    rows = {"exclude_ips": {EVERYWHERE: dict.fromkeys(entries, EntrySource())}}
    table = Table(Identity(service, "1", name)).with_run(rows, {}, Run("dag/run", "sync", at), at.date())
    file = folder / service.partition("://")[2].replace(":", "_") / "lists" / f"{name}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(table.render())


def rows_of(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split("  ") for line in capsys.readouterr().out.splitlines()[1:]]


def test_explain_with_a_connection_prints_only_the_lists_of_its_service(
    analytics_sandbox: SandboxServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips=ADDRESS)
    store(tmp_path, analytics_sandbox.url, "office", ADDRESS)
    store(tmp_path, OTHER, "vpn", ADDRESS)
    arguments = ["explain", ADDRESS, "--state-path", str(tmp_path)]
    assert main(arguments) == 0
    both = capsys.readouterr().out
    assert f"office (exclude_ips) of {analytics_sandbox.url}" in both
    assert f"vpn (exclude_ips) of {OTHER}" in both
    assert main([*arguments, "--conn-id", "analytics_default"]) == 0
    own = capsys.readouterr().out
    assert "office (exclude_ips)  all websites  1 " in own
    assert "vpn" not in own
    assert OTHER not in own


def test_explain_reports_an_entry_that_only_another_service_has_as_unknown(
    analytics_sandbox: SandboxServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(tmp_path, OTHER, "vpn", ADDRESS)
    assert main(["explain", ADDRESS, "--state-path", str(tmp_path), "--conn-id", "analytics_default"]) == 2
    assert capsys.readouterr().out == f"{ADDRESS}: no list and no website contains it\n"


@pytest.mark.parametrize(
    ("requested", "found"),
    [
        ("192.0.2.1", ["192.0.2.1"]),
        ("192.0.2.0/24", ["192.0.2.1", "192.0.2.2"]),
        ("192.0.2.9/24", ["192.0.2.1", "192.0.2.2"]),
        ("198.51.100.9", ["198.51.100.0/24"]),
        ("203.0.113.7", []),
        ("2001:db8::1", []),
    ],
)
def test_explain_finds_addresses_and_the_networks_that_contain_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], requested: str, found: list[str]
) -> None:
    store(tmp_path, OTHER, "office", "192.0.2.1", "192.0.2.2", "198.51.100.0/24")
    assert main(["explain", requested, "--state-path", str(tmp_path)]) == (0 if found else 2)
    rows = [row[0] for row in rows_of(capsys)]
    assert rows == found
