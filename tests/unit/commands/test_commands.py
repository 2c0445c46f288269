# SPDX-License-Identifier: Apache-2.0
"""Command line: every command of ``airflow-provider-analytics`` and ``airflow analytics`` (``commands``)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_analytics.commands import COMMANDS, main

MODULE = "airflow_provider_analytics"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [["nothing"], ["validate"], ["validate", "--nothing", "x"]])
def test_usage_error_has_the_exit_status_of_a_failure(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 1
    assert "error: " in capsys.readouterr().err


def test_missing_command_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 1
    assert "  plan       Plan the changes" in capsys.readouterr().err


def test_console_script_lists_the_commands_and_every_command_prints_its_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    script = Path(sys.executable).with_name("airflow-provider-analytics")
    listed = subprocess.run([script, "--help"], capture_output=True, text=True, check=True).stdout
    assert listed == run("-m", MODULE, "--help").stdout
    for name in COMMANDS:
        assert f"  {name} " in listed
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])
        assert f"airflow-provider-analytics {name} " in capsys.readouterr().out


def test_commands_are_imported_only_when_used() -> None:
    code = f"import sys, {MODULE}.commands.provider as p; print([m for m in sys.modules if m.startswith('{MODULE}.')])"
    found = run("-c", code).stdout
    assert f"{MODULE}.commands.provider" in found
    assert not [name for name in (*(f".commands.{command}" for command in COMMANDS), ".exceptions") if name in found]


@pytest.mark.slow  # starts Airflow's command line
def test_airflow_lists_the_commands_where_providers_can_add_them() -> None:
    from airflow.providers_manager import ProvidersManager

    if not hasattr(ProvidersManager, "cli_command_functions"):
        pytest.skip("Airflow before 3.2 has no commands of providers")
    shown = run("-m", "airflow", "analytics", "validate", "--help")
    assert shown.returncode == 0, shown.stderr
    assert "airflow analytics validate" in shown.stdout
    assert run("-m", "airflow", "analytics", "validate", "/nowhere/websites.yaml").returncode == 1
