# SPDX-License-Identifier: Apache-2.0
"""The commands validate, plan, and explain, as a pipeline runs them, and the command line itself (``commands``)."""

from __future__ import annotations

import io
import json
import locale
import logging
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from airflow.models import Connection
from airflow.utils.session import create_session
from reconciling import Night

from airflow_provider_analytics.commands import COMMANDS, main
from airflow_provider_analytics.commands.connections import plain_output
from airflow_provider_analytics.reconcile.desired.list_lines import EntrySource, now
from airflow_provider_analytics.reconcile.desired.tables import EVERYWHERE, Identity, Run, Table
from airflow_provider_analytics.sandbox.server import SandboxServer

Capture = pytest.CaptureFixture[str]
BAD = "websites:\n  b.example: {privcy: 1}\n"
SAID = "privcy is not known. The closest is 'privacy'."


@pytest.mark.parametrize("output", ["text", "github", "gitlab"])
def test_validate_prints_every_problem_with_file_and_line(output: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "100%"
    folder.mkdir()
    (tmp_path / "outside.yaml").write_text(BAD)
    (folder / "a.yaml").write_text(BAD, encoding="utf-16")
    (folder / "b.yaml").mkdir()
    (folder / "c.yaml").symlink_to("../outside.yaml")
    (folder / "d.yaml").symlink_to("d.yaml")
    (folder / os.fsdecode(b"e\xff.yaml")).write_text(BAD)
    (folder / "f.yaml").write_text("websites:\n  a.example:\n")
    (folder / "g.yaml").write_text("websites: {A.example: }\n")
    (folder / "h.yaml").write_text("websites: [\n")
    assert main(["validate", str(folder), "--format", output]) == 1
    printed, summary = capsys.readouterr()
    assert summary == f"{folder}: 7 problems\n"
    problems = [
        ("a.yaml", 1, 1, "cannot be read: invalid start byte. Allowed: a text file in UTF-8"),
        ("b.yaml", 1, 1, "cannot be read: Is a directory. Allowed: a text file in UTF-8"),
        ("c.yaml", 1, 1, "cannot be read: it is a link that leads outside its folder. Allowed: a text file in UTF-8"),
        ("d.yaml", 1, 1, "cannot be read: Too many levels of symbolic links. Allowed: a text file in UTF-8"),
        ("e\\udcff.yaml", 2, 15, SAID),
        ("g.yaml", 1, 12, f"A.example is a duplicate of {folder}/f.yaml:2"),
        ("h.yaml", 2, 1, "invalid YAML: "),
    ]
    if output == "gitlab":
        shown = [(load["location"], load["description"]) for load in json.loads(printed)]
        for (name, line, _, problem), (location, description) in zip(problems, shown, strict=True):
            assert location == {"path": f"{folder}/{name}", "lines": {"begin": line}}
            assert description.startswith(problem)
        return
    for (name, line, column, problem), written in zip(problems, printed.splitlines(), strict=True):
        where = f"{folder}/{name}:{line}:{column}: "
        if output == "github":
            where = f"::error file={folder}/{name}".replace("%", "%25") + f",line={line},col={column}::"
            problem = problem.replace("%", "%25")
        assert written.startswith(where + problem)


@pytest.mark.parametrize("output", ["text", "github", "gitlab"])
def test_validate_prints_the_first_hundred_problems_of_many(output: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("websites:\n" + "".join(f"  {number}.example: {{privcy: 1}}\n" for number in range(1000)))
    assert main(["validate", str(file), "--format", output]) == 1
    printed, summary = capsys.readouterr()
    assert printed.count("privcy is not known") == 100
    assert summary == f"{file}: 1,000 problems. The first 100 are printed, and 900 are not\n"


@pytest.mark.parametrize("entry", ["{entry: 192.0.2.7, until: 2031-01-31}", "'192.0.2.7 # office'"])
def test_validate_accepts_entries_of_each_default_mode(entry: str, tmp_path: Path) -> None:
    """The default mode depends on state_path, which a file does not contain."""
    (tmp_path / "a.yml").write_text(f"websites: {{a.example: {{exclude_ips: [{entry}]}}}}")
    assert main(["validate", str(tmp_path)]) == 0


@pytest.mark.parametrize("entry", ["{entry: 192.0.2.7, until: 2031-01-31}", "'192.0.2.7 # office'"])
def test_validate_prints_only_problems_of_the_mode_that_fits_best(entry: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.yml").write_text(f"websites: {{a.example: {{privacy: hidden, exclude_ips: [{entry}]}}}}")
    assert main(["validate", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "privacy" in printed.out
    assert len(printed.out.splitlines()) == 1
    assert "1 problem" in printed.err


def test_validate_rejects_a_path_without_a_file(tmp_path: Path, capsys: Capture) -> None:
    assert main(["validate", str(tmp_path / "nothing")]) == 1
    assert main(["validate", str(tmp_path)]) == 1
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "there is no such file or folder",
        "there is no *.yaml or *.yml file in this folder. Allowed: a folder with at least one",
    ]


def test_validate_rejects_deeply_nested_lists_and_does_not_import_airflow(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("[" * 300_000)
    code = (
        "import sys; from airflow_provider_analytics.commands import main; "
        f"main(['validate', {str(file)!r}]); print([name for name in ('airflow', 'requests') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.splitlines()
    problem, imported = printed
    # Newer versions of libyaml have a limit of their own, and read ahead.
    ours, of_libyaml = "101: nested too deeply. Allowed: at most 100 levels", "1001: .*exceeded maximum nesting depth"
    assert re.match(f"{re.escape(str(file))}:1:({ours}|{of_libyaml})", problem)
    assert imported == "[]"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_plan_is_printed_on_a_terminal_without_utf_8(
    analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    analytics_sandbox.add_website("\u4e2d\u6587.example", privacy=0)
    file = tmp_path / "a.yaml"
    file.write_text("websites: {\u4e2d\u6587.example: {privacy: private}}", encoding="utf-8")
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding=encoding, write_through=True))
    assert main(["plan", str(file)]) == 2
    text = printed.getvalue().decode(encoding)
    assert r"`\u4e2d\u6587.example (id 1)`" in text
    assert text.startswith("**0 to create, 1 to update, 0 to delete**, 1 website compared.")


def test_exit_status_of_plan_says_whether_there_are_changes(
    analytics_sandbox: SandboxServer, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.add_website("a.example", privacy=0)
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("websites: {a.example: {privacy: private}}")
    plan = ["plan", "a.yaml", "--state-path", "state", "--markdown", "shown.md"]
    assert main(plan) == 2
    [file] = Path("state").rglob("plans/*.json")
    assert f"digest: {file.stem}\n" in capsys.readouterr().out
    assert file.stem in Path("shown.md").read_text()
    Path("a.yaml").write_text("websites: {a.example: {privacy: public}}")
    assert main(plan) == 0
    assert main(["validate", "a.yaml", "--format", "gitlab"]) == 0
    assert capsys.readouterr().out.endswith("[]\n")
    assert {request.method for request in analytics_sandbox.requests} == {"GET"}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_lists_the_exit_statuses(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    printed = capsys.readouterr().out
    assert f"airflow-provider-analytics {command} " in printed
    table = "Exit status: 0 no changes, or valid; 1 failed, or invalid; 2 changes, or findings."
    assert table in " ".join(printed.split())


def test_plan_command_fails_if_a_guard_blocks_the_plan(
    analytics_sandbox: SandboxServer, tmp_path: Path, capsys: Capture
) -> None:
    analytics_sandbox.seed(20)
    file = tmp_path / "a.yaml"
    file.write_text("websites: {}")
    assert main(["plan", str(file), "--prune"]) == 1
    assert "A guard blocks this plan" in capsys.readouterr().err
    for option in (["--override-guards", "empty_list"], ["--max-loss-fraction", "1"]):
        assert main(["plan", str(file), "--prune", *option]) == 2


def test_plan_command_compares_with_the_table_of_the_named_list(night: Night, capsys: Capture) -> None:
    night.add(1)
    for address in ("192.0.2.1", "192.0.2.2"):
        night.write({"websites": {"1.example": {"exclude_ips": [address]}}})
        if address == "192.0.2.1":
            night.apply(**night.state, list_name="office")
    plan = ["plan", str(night.file), "--state-path", str(night.folder)]
    assert main(plan) == 1
    assert "list_name is missing" in capsys.readouterr().err
    for name, removed in (("office", True), ("another", False)):
        assert main([*plan, "--list-name", name]) == 2
        assert ("remove `192.0.2.1`" in capsys.readouterr().out) is removed


def test_missing_connection_is_named(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("websites: {}")
    assert main(["plan", str(file), "--conn-id", "nope"]) == 1
    said = "There is no connection 'nope'. Create it in Airflow, or set the environment variable AIRFLOW_CONN_NOPE."
    assert said in capsys.readouterr().err


def test_explain_names_a_folder_without_lists(tmp_path: Path, capsys: Capture) -> None:
    assert main(["explain", "192.0.2.1", "--state-path", f"{tmp_path}/missing"]) == 1
    assert f"state_path='{tmp_path}/missing' contains no list tables" in capsys.readouterr().err


#: Names that GitHub would interpret as commands at the start of a line.
WORKFLOW_COMMANDS = ["::add-mask::e", " ::stop-commands::x", "\t::error::x", "##[add-mask]e", "x ##[error]y"]


def commands_in(text: str) -> list[str]:
    """Return the lines that GitHub interprets as workflow commands."""
    return [line for line in text.splitlines() if line.lstrip().startswith("::") or "##[" in line]


@pytest.mark.parametrize("name", WORKFLOW_COMMANDS)
@pytest.mark.parametrize("output", ["text", "github", "gitlab"])
def test_validate_prints_no_workflow_command_of_a_file_name(
    name: str, output: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(f"{name}.yaml").write_text(f"websites:\n  '{name.strip()}': {{privcy: 1}}\n")
    assert main(["validate", f"{name}.yaml", "--format", output]) == 1
    printed, summary = capsys.readouterr()
    assert commands_in(summary) == []
    if output == "github":
        lines = printed.splitlines()
        assert all(line.startswith("::error file=") for line in lines)
        assert commands_in("\n".join(line.removeprefix("::error") for line in lines)) == []
    else:
        assert commands_in(printed) == []


@pytest.mark.parametrize("name", WORKFLOW_COMMANDS)
def test_commands_print_no_workflow_command_of_an_argument_or_a_website(
    name: str, analytics_sandbox: SandboxServer, tmp_path: Path, capsys: Capture
) -> None:
    analytics_sandbox.add_website("a.example", exclude_params=f"{name}\n\n{name}")
    file = tmp_path / "websites.yaml"
    file.write_text("modes: {exclude_params: replace}\nwebsites: {a.example: {exclude_params: [x]}}")
    assert main(["plan", str(file), "--markdown", str(tmp_path / "plan.md")]) in (0, 2)
    for arguments in (
        ["validate", name],
        ["explain", name, "--state-path", name],
        ["plan", str(file), "--override-guards", name],
    ):
        assert main(arguments) in (1, 2)
    with pytest.raises(SystemExit):
        main(["plan", str(file), f"x\n{name}"])
    with pytest.raises(SystemExit):
        main([f"x\n{name}"])
    assert commands_in("".join(capsys.readouterr())) == []


def state_of_the_process() -> dict[str, Any]:
    """Return the state that a library must not change for the program that calls it."""
    loggers = {}
    for name in (None, *logging.root.manager.loggerDict):
        log = logging.getLogger(name)
        loggers[name] = (log.level, log.disabled, log.propagate, list(log.handlers), list(log.filters))
    return {
        "loggers": loggers,
        "logging is disabled": logging.root.manager.disable,
        "environment": dict(os.environ),
        "folder": Path.cwd(),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "umask": re.findall(r"Umask:\s+(\d+)", Path("/proc/self/status").read_text()),
        "warnings": list(warnings.filters),
        "locale": locale.setlocale(locale.LC_ALL),
    }


def test_commands_leave_the_process_as_it_was(
    analytics_sandbox: SandboxServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    analytics_sandbox.add_website("a.example")
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("websites: {a.example: {privacy: private}}")
    bad.write_text(BAD)
    main(["plan", str(good)])  # the first one imports modules, which have loggers
    main(["explain", "192.0.2.1", "--state-path", str(tmp_path)])
    caplog.set_level(logging.INFO, logger="airflow_provider_analytics")
    before = state_of_the_process()
    for arguments in (
        ["validate", str(good)],
        ["validate", str(bad)],
        ["plan", str(good)],
        ["plan", str(bad)],
        ["plan", str(good), "--conn-id", "not_there"],
        ["explain", "192.0.2.1", "--state-path", str(tmp_path)],
        ["explain", "no address", "--state-path", str(tmp_path)],
    ):
        main(arguments)
        assert state_of_the_process() == before, arguments
    with pytest.raises(SystemExit):
        main(["plan"])
    assert state_of_the_process() == before


def test_output_in_several_writes_is_escaped_completely(capsys: Capture) -> None:
    parts = ["a", ":", ":b\n", "  ", "::c\n", "d ", "::e\n", "\n", "::f::", "\n:", ":g", "\n  \n", "::h"]
    with plain_output():
        for part in parts:
            sys.stdout.write(part)
    written = capsys.readouterr().out
    assert written.replace("\\x3a", ":") == "".join(parts)
    assert commands_in(written) == []


@pytest.mark.usefixtures("airflow_database")
def test_connection_of_the_database_is_found_outside_a_task(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Airflow 3 reads the database only in a process of its server."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")  # so that it is as before after the test
    monkeypatch.delenv("_AIRFLOW_PROCESS_CONTEXT")
    file = tmp_path / "websites.yaml"
    file.write_text("websites: {}")
    fields = json.loads(analytics_sandbox.connection_json())
    stored = Connection(conn_id="stored", conn_type="analytics", host=fields["host"], password=fields["password"])
    with create_session() as session:
        session.add(stored)
    try:
        assert main(["plan", str(file), "--conn-id", "stored"]) == 0
    finally:
        with create_session() as session:
            session.query(Connection).filter(Connection.conn_id == "stored").delete()
    assert analytics_sandbox.requests


# The command line itself


MODULE = "airflow_provider_analytics"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


@pytest.mark.parametrize("arguments", [["nothing"], ["validate"], ["validate", "--nothing", "x"]])
def test_usage_error_has_the_exit_status_of_a_failure(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 1
    assert "error: " in capsys.readouterr().err


def test_missing_command_lists_all_commands(capsys: Capture) -> None:
    assert main([]) == 1
    assert "  plan       Plan the changes" in capsys.readouterr().err


def test_console_script_lists_the_commands() -> None:
    script = Path(sys.executable).with_name("airflow-provider-analytics")
    listed = subprocess.run([script, "--help"], capture_output=True, text=True, check=True).stdout
    assert listed == run("-m", MODULE, "--help").stdout
    assert [name for name in COMMANDS if f"  {name} " not in listed] == []


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


# The command ``explain``


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


def rows_of(capsys: Capture) -> list[list[str]]:
    return [line.split("  ") for line in capsys.readouterr().out.splitlines()[1:]]


def test_explain_with_a_connection_prints_only_the_lists_of_its_service(
    analytics_sandbox: SandboxServer, tmp_path: Path, capsys: Capture
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
    analytics_sandbox: SandboxServer, tmp_path: Path, capsys: Capture
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
    tmp_path: Path, capsys: Capture, requested: str, found: list[str]
) -> None:
    store(tmp_path, OTHER, "office", "192.0.2.1", "192.0.2.2", "198.51.100.0/24")
    assert main(["explain", requested, "--state-path", str(tmp_path)]) == (0 if found else 2)
    rows = [row[0] for row in rows_of(capsys)]
    assert rows == found
