# SPDX-License-Identifier: Apache-2.0
"""``make checks``: the record of the runs, and the programs that the Makefile starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import checks
import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DOCUMENT = "# Runs\n\n<!-- begin checks, written by each check -->\n<!-- end checks -->\n\n## Versions\n"
#: Programs that no other test runs, with an input so small that they take seconds.
SMALL_RUNS = {
    "tests/fuzzer/two_tasks.py": ["1"],
    "scripts/snapshot_formats.py": ["120"],
}
#: Runs each program in one process: each imports Airflow, which takes a second.
HELP_OF_EACH = """
import runpy, sys
from pathlib import Path

for program in sys.argv[1:]:
    sys.argv, sys.path[0] = [program, "--help"], str(Path(program).parent)
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        print(program, "ended with", end.code)
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "init.defaultBranch=main"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, in which no check ran."""
    (tmp_path / "constraints").mkdir()
    (tmp_path / "constraints" / "checks.json").write_text("{}\n")
    (tmp_path / "constraints" / "test_runs.md").write_text(DOCUMENT)
    (tmp_path / "code.py").write_text("")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "Add code")
    monkeypatch.setattr(checks, "CHECKOUT", tmp_path)
    monkeypatch.setattr(checks, "RECORD", tmp_path / "constraints" / "checks.json")
    monkeypatch.setattr(checks, "DOCUMENT", tmp_path / "constraints" / "test_runs.md")
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return tmp_path


@pytest.mark.parametrize(("status", "result"), [(0, "passed"), (3, "failed")])
def test_run_of_a_check_is_recorded_with_its_commit(checkout: Path, status: int, result: str) -> None:
    assert checks.run_check("docs", [sys.executable, "-c", f"raise SystemExit({status})"]) == status
    run = checks.recorded()["docs"]
    assert (run.result, run.commit) == (result, git(checkout, "rev-parse", "HEAD"))
    assert datetime.fromisoformat(run.committed) <= datetime.fromisoformat(run.ran)
    document = (checkout / "constraints" / "test_runs.md").read_text()
    assert f"| `make docs` | {run.ran[:10]} | {run.commit[:10]} | {result} |\n" in document
    assert "| `make bench` | never | | |\n" in document
    assert document.endswith("\n\n## Versions\n")


def test_record_keeps_the_runs_of_other_checks(checkout: Path) -> None:
    for name in ("docs", "bench"):
        checks.run_check(name, ["true"])
    assert {name: run.result for name, run in checks.recorded().items()} == {"docs": "passed", "bench": "passed"}


def test_run_with_other_settings_is_not_recorded(checkout: Path) -> None:
    assert checks.run_check("soak SECONDS=9", ["true"]) == 0
    assert checks.recorded() == {}


def test_run_with_uncommitted_changes_is_not_recorded(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (checkout / "code.py").write_text("changed = True\n")
    assert checks.run_check("docs", ["true"]) == 0
    assert checks.recorded() == {}
    assert "uncommitted changes, so this run of make docs is not recorded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("result", "committed", "commit", "problem"),
    [
        ("passed", "2026-11-22T14:00:00+02:00", "old", ""),
        ("passed", "2026-11-22T13:59:59+02:00", "old", "older than 7 days and 100 commits"),
        ("passed", "2025-01-01T00:00:00+00:00", "new", ""),
        ("failed", "2026-11-29T00:00:00+00:00", "new", "failed"),
    ],
)
def test_check_is_outdated_after_seven_days_and_a_hundred_commits(
    result: str, committed: str, commit: str, problem: str
) -> None:
    run = checks.Run(result=result, ran="2026-11-29T00:00:00Z", commit=commit, committed=committed)
    assert checks.problem_of(run, NOW, ["new", "newer"]) == problem


def test_list_fails_until_each_check_passed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["checks.py"])
    for name in checks.CHECKS[1:]:
        checks.run_check(name, ["true"])
    monkeypatch.setattr(checks, "STARTED", datetime.now(UTC) - timedelta(days=6))
    assert checks.main() == 0
    capsys.readouterr()
    monkeypatch.setattr(checks, "STARTED", datetime.now(UTC) - timedelta(days=8))
    assert checks.main() == 1
    assert re.findall("<- (.*)", capsys.readouterr().out) == ["never ran"]
    checks.run_check(checks.CHECKS[0], ["true"])
    assert checks.main() == 0


@pytest.mark.repository
def test_make_records_each_check() -> None:
    without_settings = [name for name in checks.CHECKS if "=" not in name]
    with_settings = [name.split() for name in checks.CHECKS if "=" in name]
    # Without the settings of the make that runs this test.
    settings = ("AIRFLOW", "MFLAGS", "N", "PYTEST_FLAGS", "RUNS", "SECONDS", "SEED")
    outside = {name: text for name, text in os.environ.items() if not name.startswith("MAKE") and name not in settings}
    printed = ""
    for arguments in (without_settings, *with_settings):
        command = ["make", "--dry-run", *arguments]
        printed += subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=True).stdout
    recording = re.findall('scripts/checks.py run "(.*?)" -- ', printed)
    assert recording == [*without_settings, *map(" ".join, with_settings)]


@pytest.mark.repository
def test_nightly_workflow_runs_each_check() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["everything"]["strategy"]["matrix"]["target"] == list(checks.CHECKS)
    [oldest] = re.findall(r"^OLDEST := (\S+)$", MAKEFILE, re.MULTILINE)
    assert f"test-fast AIRFLOW={oldest}" in checks.CHECKS


def run_program(path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'scripts'}{os.pathsep}{ROOT / 'tests' / 'support'}"}
    command = [sys.executable, path, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


@pytest.mark.repository
@pytest.mark.slow
@pytest.mark.chosen
def test_each_program_of_the_makefile_prints_its_help() -> None:
    commands = "".join(line for line in MAKEFILE.splitlines(keepends=True) if line.startswith("\t"))
    programs = sorted(set(re.findall(r"(?<= )(?:scripts|tests/\w+)/(?!test_)\w+\.py", commands)))
    assert len(programs) >= 14
    done = run_program("-c", HELP_OF_EACH, *programs)
    ended = re.findall(r"^usage: (?s:.*?)\n(\S+) ended with (\d)$", done.stdout, re.MULTILINE)
    assert ended == [(program, "0") for program in programs], done.stderr


@pytest.mark.repository
@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("path", SMALL_RUNS)
def test_program_of_the_makefile_works_on_a_small_input(path: str) -> None:
    done = run_program(path, *SMALL_RUNS[path])
    assert done.returncode == 0, done.stdout + done.stderr
