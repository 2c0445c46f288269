# SPDX-License-Identifier: Apache-2.0
"""The test tools: the network guard, and the sample DAGs that tests run."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
def test_remote_hosts_are_unreachable_and_loopback_is_reachable(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(pytest.fail.Exception, match="only this machine"):
        client.connect((host, 80))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


def test_every_sample_dag_is_run() -> None:
    tests = Path(__file__).parents[1]
    texts = [path.read_text() for path in (tests / "integration").rglob("test_*.py")]
    marked = {name for text in texts for name in re.findall(r'^@pytest\.mark\.sample\("(\w+)"\)', text, re.MULTILINE)}
    assert marked == {path.stem for path in (tests.parent / "dags").glob("*.py")}


def test_import_of_a_program_does_not_change_the_settings_of_the_process() -> None:
    """Tests import the programs, and later tests would run with their Airflow home and their log level."""
    folders = [str(CHECKOUT / name) for name in ("scripts", "tests/support", "tests/fuzzer", "tests/benchmarks")]
    code = (
        f"import os, sys; sys.path[:0] = {folders}; before = dict(os.environ); "
        "import soak, generate, mutants, request_counts, bench; "
        "print({name for name in before.keys() | os.environ.keys() if before.get(name) != os.environ.get(name)})"
    )
    environment = {"AIRFLOW_HOME": os.environ["AIRFLOW_HOME"], "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, "set()\n"), done.stderr


@pytest.mark.repository
def test_walk_prints_the_files_functions_and_changes_of_file_of_a_task() -> None:
    program = [sys.executable, str(CHECKOUT / "scripts" / "walk.py")]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    found = re.fullmatch(r"(\d+) files, (\d+) functions, (\d+) changes of file\n", printed)
    assert found
    files, functions, changes = map(int, found.groups())
    assert 10 < files < changes < functions


HANGS_ONCE = """
import time, pytest

@pytest.mark.parametrize("n", range(3))
def test(n):
    time.sleep(60 if n == 1 else 0)
"""


def test_test_that_hangs_fails_and_the_others_run(tmp_path: Path) -> None:
    """Each of both processes has one that hangs; they are scheduled as by ``make test``."""
    for name in ("first", "second"):
        (tmp_path / f"test_{name}.py").write_text(HANGS_ONCE)
    flags = re.search(r"^PYTEST_FLAGS \?= (.+)", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    method = re.search(r'^timeout_method = "(\w+)"', (CHECKOUT / "pyproject.toml").read_text(), re.MULTILINE)
    assert flags
    assert method
    program = [sys.executable, "-m", "pytest", *flags[1].split(), "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    program += ["--timeout=1", f"--timeout-method={method[1]}", str(tmp_path)]
    printed = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=50).stdout
    assert "2 failed, 4 passed" in printed
