# SPDX-License-Identifier: Apache-2.0
"""README.md, docs/quickstart.md, docs/operators.md, and docs/testing.md: their commands, literally, in new shells."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_versions import AIRFLOW_VERSION
from local_airflow import free_port

ROOT = Path(__file__).parents[2]
QUICKSTART, OPERATORS, TESTING = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("quickstart", "operators", "testing")
)
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: Command of a user that clones from another host.
REPOSITORY = "https://github.com/airflow-provider-analytics/airflow-provider-analytics"


def steps(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of each console block, and the expected lines of their output."""
    for commands, _, printed in re.findall(r"```console\n(.*?)```(\n\n[^`#]*?```output\n(.*?)```)?", text, re.DOTALL):
        yield commands, printed.splitlines()


def loosely(line: str) -> str:
    """Return a pattern for a line of the document, with any day, time, and home.

    Airflow writes the time before it and the place behind it, but a bare number is a separate line.
    """
    if line.isdecimal():
        return rf"(?m)^\s*{line}$"
    pattern = re.escape(line.replace("/home/you/", "HOME"))
    pattern = pattern.replace("HOME", r"/\S*").replace(re.escape("2026-11-21"), r"\d{4}-\d\d-\d\d")
    return pattern.replace(re.escape("18:49"), r"\d\d:\d\d")


def run_all(text: str, folder: Path, environment: dict[str, str]) -> None:
    """Run the console blocks of a document in the same shell, and compare their output with the document."""
    found = list(steps(text))
    marks = [f"=== step {number} ===" for number in range(len(found))]
    # A server that survives a failed step would keep the output open.
    script = ["set -e", "exec 2>&1", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for mark, (commands, _) in zip(marks, found, strict=True):
        script += [f"echo {shlex.quote(mark)}", commands]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-5000:]
    for number, (commands, lines) in enumerate(found):
        said = done.stdout.partition(marks[number])[2].partition("\n=== step ")[0]
        for line in lines:
            if line == "...":  # lines are left out
                continue
            assert re.search(loosely(line), said), f"{commands}\ndoes not print\n{line}\nbut\n{said[-5000:]}"


def test_readme_starts_like_the_quickstart_and_each_output_belongs_to_a_command() -> None:
    assert next(steps(README))[0] == next(steps(QUICKSTART))[0]
    assert README.count("```output\n") == 2
    targets = re.findall(r"^make ([\w-]+)", README, re.MULTILINE)
    assert targets == ["demo"]
    assert all(f"\n{target}: " in (ROOT / "Makefile").read_text() for target in targets)
    assert sum(bool(lines) for _, lines in steps(QUICKSTART)) == QUICKSTART.count("```output\n") == 10


@pytest.mark.skipif(f"=={AIRFLOW_VERSION}" not in QUICKSTART, reason="the quickstart is run with the Airflow it names")
def test_quickstart_runs_as_documented(uv: str, environment: dict[str, str], tmp_path: Path) -> None:
    folder, programs = tmp_path / "empty", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    (programs / "python3").symlink_to(Path(sys.executable).resolve())
    # uv works like pip, in a tenth of the time.
    wrapper = shlex.quote(f'#!/bin/sh\nexec {shlex.quote(uv)} pip "$@"\n')
    clone, make, install = next(steps(QUICKSTART))[0].splitlines()
    assert clone == f"git clone {REPOSITORY}"
    text = QUICKSTART.replace(f"{make}\n{install}", f"{make}\nprintf %s {wrapper} > venv/bin/pip\n{install}")
    text = text.replace(clone, f"git clone {shlex.quote(str(ROOT))} {Path(REPOSITORY).name}")
    text = text.replace("8500", str(free_port()))
    run_all(text, folder, {**environment, "PATH": f"{programs}:{environment['PATH']}", "NO_PROXY": "127.0.0.1"})


@pytest.fixture
def shell(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """The environment of a shell with this Airflow and a new home."""
    return {
        **environment,
        "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}",
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "NO_PROXY": "127.0.0.1",
    }


def test_readme_first_dag_runs_as_printed(shell: dict[str, str], tmp_path: Path) -> None:
    """All commands after the installation, which the quickstart has, too."""
    [dag] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert "Save the DAG from the top of this page as `airflow/dags/office.py`" in " ".join(README.split())
    assert "Stop the local server with `kill %1`" in " ".join(README.split())
    text = README[README.index("Start the local server") :] + "```console\nkill %1\n```"
    until_it_listens = "until (echo > /dev/tcp/127.0.0.1/8500) 2>/dev/null; do :; done"
    text = text.replace("airflow db migrate\n", f"airflow db migrate\n{until_it_listens}\n")
    folder = tmp_path / "empty"
    (folder / "airflow" / "dags").mkdir(parents=True)
    (folder / "airflow" / "dags" / "office.py").write_text(dag.replace("/tmp/analytics-state", str(tmp_path / "state")))
    run_all(text.replace("8500", str(free_port())), folder, shell)
    assert list((tmp_path / "state").rglob("lists/*.json"))


def test_documented_single_operator_runs(shell: dict[str, str], tmp_path: Path) -> None:
    page = OPERATORS.replace("/tmp/analytics/", f"{tmp_path}/")
    [by_execute] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [start] = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    (tmp_path / "by_execute.py").write_text(by_execute)
    text = f"""```console
{start}
trap 'kill %1' EXIT
until (echo > /dev/tcp/127.0.0.1/8500) 2>/dev/null; do :; done
python by_execute.py
```

```output
60
```
"""
    run_all(text.replace("8500", str(free_port())), tmp_path, shell)


def test_documented_dag_tests_run(shell: dict[str, str], tmp_path: Path) -> None:
    """The good night and the two bad nights of docs/testing.md."""
    _, _, section = TESTING.partition("\n## A DAG in pytest\n")
    conftest, nightly = re.findall(r"```python\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    [command] = re.findall(r"```console\n(.*?)```", TESTING, re.DOTALL)
    for folder in ("dags", "tests"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "dags" / "nightly_website_snapshot.py", tmp_path / "dags")
    (tmp_path / "tests" / "conftest.py").write_text(conftest)
    # The sample waits five minutes before its retry, which the page describes.
    at_once = "for task in dag.tasks: task.retry_delay = timedelta(0)"
    assert at_once in TESTING
    (tmp_path / "tests" / "test_nightly.py").write_text(nightly)
    run_all(f"```console\n{command}```\n\n```output\n3 passed\n```\n", tmp_path, shell)
