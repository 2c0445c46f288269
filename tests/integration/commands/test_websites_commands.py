"""validate, plan and drift as a pipeline runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_analytics.commands import main
from airflow_provider_analytics.sandbox.server import SandboxServer

Capture = pytest.CaptureFixture[str]
BAD = "websites:\n  b.example: {privcy: 1}\n"


def test_validate_prints_every_problem_with_its_place(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.yaml").write_text("websites:\n  a.example:\n")
    (tmp_path / "b.yaml").write_text(BAD)
    (tmp_path / "c.yaml").write_text("websites: {A.example: }\n")
    (tmp_path / "d.yaml").write_text("websites: [\n")
    assert main(["validate", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}/b.yaml:2:15: privcy is not known; did you mean privacy?"
    assert lines[1] == f"{tmp_path}/c.yaml:1:12: A.example is a duplicate of {tmp_path}/a.yaml:2"
    assert lines[2].startswith(f"{tmp_path}/d.yaml:2:1: invalid YAML: ")
    assert len(lines) == 3


def test_validate_annotates_for_both_hosts(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "100%.yaml"
    file.write_text(BAD)
    assert main(["validate", str(file), "--format", "github"]) == 1
    where = str(file).replace("%", "%25")
    said = "privcy is not known; did you mean privacy?"
    assert capsys.readouterr().out == f"::error file={where},line=2,col=15::{said}\n"
    assert main(["validate", str(file), "--format", "gitlab"]) == 1
    [one] = json.loads(capsys.readouterr().out)
    assert one["location"] == {"path": str(file), "lines": {"begin": 2}}
    file.write_text("websites: {}")
    assert main(["validate", str(file), "--format", "gitlab"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_validate_refuses_what_is_no_file(tmp_path: Path, capsys: Capture) -> None:
    assert main(["validate", str(tmp_path / "nothing")]) == 1
    assert main(["validate", str(tmp_path)]) == 1
    assert [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "there is no such file or folder",
        "there is no *.yaml file in this folder; allowed: a folder with at least one",
    ]


@pytest.mark.parametrize("output", ["text", "github", "gitlab"])
def test_validate_prints_what_it_cannot_read_among_all_problems(output: str, tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "websites"
    folder.mkdir()
    (tmp_path / "outside.yaml").write_text(BAD)
    (folder / "a.yaml").write_text(BAD, encoding="utf-16")
    (folder / "b.yaml").mkdir()
    (folder / "c.yaml").symlink_to("../outside.yaml")
    (folder / "d.yaml").symlink_to("d.yaml")
    (folder / os.fsdecode(b"e\xff.yaml")).write_text(BAD)
    assert main(["validate", str(folder), "--format", output]) == 1
    printed, summary = capsys.readouterr()
    assert summary == f"{folder}: 5 problems\n"
    problems = [
        ("a.yaml", "cannot be read: invalid start byte; allowed: a text file in UTF-8"),
        ("b.yaml", "cannot be read: Is a directory; allowed: a text file in UTF-8"),
        ("c.yaml", "cannot be read: it is a link that leads outside its folder; allowed: a text file in UTF-8"),
        ("d.yaml", "cannot be read: Too many levels of symbolic links; allowed: a text file in UTF-8"),
        ("e\\udcff.yaml", "privcy is not known; did you mean privacy?"),
    ]
    if output == "gitlab":
        assert [(one["location"]["path"], one["description"]) for one in json.loads(printed)] == [
            (f"{folder}/{name}", problem) for name, problem in problems
        ]
    else:
        lines = printed.splitlines()
        assert all(name in line and problem in line for line, (name, problem) in zip(lines, problems, strict=True))


def test_validate_survives_lists_that_nest_deeply(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("[" * 300_000)
    command = [sys.executable, "-m", "airflow_provider_analytics", "validate", str(file)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert f"{file}:1:101: nested too deeply; allowed: at most 100 levels" in ended.stdout


def test_validate_imports_no_airflow(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("websites: {}")
    code = (
        "import sys; from airflow_provider_analytics.commands import main; "
        f"main(['validate', {str(file)!r}]); print([name for name in ('airflow', 'requests') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_plan_and_drift_say_by_their_status_whether_there_are_changes(
    analytics_sandbox: SandboxServer, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.add_website("a.example", privacy="public")
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("websites: {a.example: {privacy: private}}")
    plan = ["plan", "a.yaml", "--state-path", "state", "--markdown", "shown.md"]
    assert main(plan) == 2
    [file] = Path("state").rglob("plans/*.json")
    assert f"digest: {file.stem}\n" in capsys.readouterr().out
    assert file.stem in Path("shown.md").read_text()
    assert main(["drift", "a.yaml"]) == 2
    Path("a.yaml").write_text("websites: {a.example: {privacy: public}}")
    assert main(plan) == 0
    assert main(["drift", "a.yaml"]) == 0
    assert {request.method for request in analytics_sandbox.requests} == {"GET"}


def test_a_guard_that_trips_is_a_failure(analytics_sandbox: SandboxServer, tmp_path: Path, capsys: Capture) -> None:
    analytics_sandbox.seed(20)
    file = tmp_path / "a.yaml"
    file.write_text("websites: {}")
    assert main(["plan", str(file), "--prune"]) == 1
    assert "a guard stops it" in capsys.readouterr().err
    assert main(["plan", str(file), "--prune", "--accept", "empty"]) == 2


def test_a_connection_that_is_given_twice_is_refused(
    analytics_sandbox: SandboxServer, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("websites: {}")
    with pytest.raises(SystemExit) as exit_:
        main(["plan", str(file), "--conn-id", "a", "--conn-id", "b"])
    assert exit_.value.code == 1
    assert "--conn-id: given more than once" in capsys.readouterr().err
    assert not analytics_sandbox.requests


@pytest.mark.parametrize("command", [["plan", "a.yaml"], ["drift", "a.yaml"], ["probe"]], ids=lambda one: one[0])
def test_a_connection_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text("websites: {}")
    assert main([*command, "--conn-id", "nope"]) == 1
    said = "There is no connection 'nope'. Create it in Airflow, or set the environment variable AIRFLOW_CONN_NOPE."
    assert said in capsys.readouterr().err


def test_why_names_a_folder_without_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "192.0.2.1", "--state-path", f"{tmp_path}/missing"]) == 1
    assert f"state_path='{tmp_path}/missing' has no lists" in capsys.readouterr().err
