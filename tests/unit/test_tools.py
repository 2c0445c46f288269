# SPDX-License-Identifier: Apache-2.0
"""Programs of the checkout: the record of the checks, mistakes, generated files, releases, and the test tools."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import checks
import generate
import mutants
import pytest
import release_check
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DOCUMENT = "# Runs\n\n<!-- begin checks, written by each check -->\n<!-- end checks -->\n\n## Versions\n"
#: Programs that no other test runs, with an input so small that they take seconds.
SMALL_RUNS = {"tests/fuzzer/two_tasks.py": ["1"], "scripts/snapshot_formats.py": ["120"]}
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
        command = ["make", "--dry-run", "PYTHON=true", *arguments]  # it asks Python for the package index
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


CODE = """
def work(first: int = 1, second: str = "") -> bool:
    numbers = [first + 2]
    numbers.append(3)
    first -= 1
    if not numbers or first is None:
        swap(first, second)
    return any(one in second for one in f"{first < 2}") and len(numbers) >= max(numbers)
"""
MISTAKES = [
    "first: int = 2",
    "[first - 2]",
    "first + 3",
    "\n    pass\n    first -= 1",
    "append(4)",
    "\n    pass\n    if",
    "first -= 2",
    "if numbers or",
    "not numbers and first",
    "first is not None",
    "swap(second, first)",
    "\n        pass\n    return",
    "all(one",
    "one not in second",
    "or len(",
    "(numbers) > max",
    "min(numbers)",
]


def test_every_kind_of_mistake_is_made(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    path.write_text(CODE)
    sources = [mutant.source for mutant in mutants.mutants_of(path)]
    for mistake in MISTAKES:
        assert mistake not in CODE
        assert sum(mistake in source for source in sources) == 1, mistake
    assert len(sources) == len(MISTAKES)


@pytest.mark.repository
def test_mistake_is_tried_with_one_case_of_each_test_function_first() -> None:
    mutant = mutants.Mutant(mutants.PACKAGE / "api" / "client.py", 7, 0, 0, "")
    covering = [f"tests/unit/api/test_near.py::test_near[{number}]" for number in range(400)]
    covering += ["tests/fuzzer/test_far.py::test_far", "tests/unit/test_far.py::test_far[a]"]
    chosen = mutants.tests_of(mutant, SimpleNamespace(contexts_by_lineno=lambda _: {7: covering}))  # type: ignore[arg-type]
    near, *far = chosen[:3]
    assert near.startswith("tests/unit/api/test_near.py::test_near[")
    assert far == ["tests/unit/test_far.py::test_far[a]", "tests/fuzzer/test_far.py::test_far"]
    assert len(chosen) == len(set(chosen)) == mutants.MAX_TESTS


def test_mistakes_in_the_package_are_valid_python() -> None:
    drawn = [mutant for path in sorted(mutants.PACKAGE.rglob("*.py")) for mutant in mutants.mutants_of(path)]
    for mutant in random.Random(1).sample(drawn, 300):
        compile(mutant.source, str(mutant.path), "exec", dont_inherit=True)
        assert mutant.diff.count("\n-") >= 1


@pytest.mark.parametrize(("changed", "status"), [("False", 1), ("True", 0)])
def test_plugin_makes_the_mistake_in_the_process_of_the_tests(tmp_path: Path, changed: str, status: int) -> None:
    (tmp_path / "code_under_test.py").write_text("VALUE = True")
    (tmp_path / "source.py").write_text(f"VALUE = {changed}")
    (tmp_path / "test_code.py").write_text(
        "import code_under_test\ndef test_value(): assert code_under_test.VALUE\ndef test_other(): assert False"
    )
    (tmp_path / "tests.txt").write_text("test_code.py::test_value")
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'tests' / 'support'}:{tmp_path}",
        "MUTANT_MODULE": "code_under_test",
        "MUTANT_SOURCE": str(tmp_path / "source.py"),
        "MUTANT_TESTS": str(tmp_path / "tests.txt"),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutating", "-p", "no:cacheprovider", "test_code.py"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout
    assert "1 failed" in done.stdout if status else "1 passed" in done.stdout


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1"])
@pytest.mark.parametrize(
    "reach",
    [socket.socket.connect, socket.socket.connect_ex, lambda client, address: client.sendto(b"", address)],
    ids=["connect", "connect_ex", "sendto"],
)
def test_remote_hosts_are_unreachable_and_loopback_is_reachable(
    reach: Callable[[socket.socket, tuple[str, int]], object], host: str
) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as client, pytest.raises(pytest.fail.Exception, match="only this machine"):
        reach(client, (host, 80))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass


def test_threads_that_set_a_trace_function_at_the_same_time_run() -> None:
    # Coverage sets one in each thread. With an audit hook in this process, some threads fail on Python 3.11.

    def set_repeatedly() -> None:
        before = sys.gettrace()
        for _ in range(4_000):
            sys.settrace(lambda *_: None)
        sys.settrace(before)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            results = [threads.submit(set_repeatedly) for _ in range(8)]
    finally:
        sys.setswitchinterval(interval)
    assert [result.exception() for result in results] == [None] * 8


def test_every_sample_dag_is_run() -> None:
    tests = Path(__file__).parents[1]
    texts = [path.read_text() for path in (tests / "integration").rglob("test_*.py")]
    marked = {name for text in texts for name in re.findall(r'^@pytest\.mark\.sample\("(\w+)"\)', text, re.MULTILINE)}
    assert marked == {path.stem for path in (tests.parent / "dags").glob("*.py")}


def test_import_of_a_program_does_not_change_the_settings_of_the_process() -> None:
    """Tests import the programs, and later tests would run with their Airflow home and their log level."""
    folders = [str(ROOT / name) for name in ("scripts", "tests/support", "tests/fuzzer", "tests/benchmarks")]
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
    program = [sys.executable, str(ROOT / "scripts" / "walk.py")]
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
    """Two processes have one that hangs; they are scheduled as by ``make test``."""
    for name in ("first", "second"):
        (tmp_path / f"test_{name}.py").write_text(HANGS_ONCE)
    flags = re.search(r"^PYTEST_FLAGS \?= (.+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    method = re.search(r'^timeout_method = "(\w+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert flags
    assert method
    program = [sys.executable, "-m", "pytest", *flags[1].split(), "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    program += ["--timeout=1", f"--timeout-method={method[1]}", str(tmp_path)]
    printed = subprocess.run(program, capture_output=True, text=True, cwd=tmp_path, check=False, timeout=50).stdout
    assert "2 failed, 4 passed" in printed


@pytest.mark.parametrize(
    ("heading", "tags", "problem"),
    [
        ("## 1.2.0 (unreleased)", [], ""),
        ("## 1.2.0 (2026-11-22)", [], ""),
        ("## 1.2.0 (2026-11-22)", ["v1.2.0"], ""),
        ("## 1.2.0 (unreleased)", ["v1.2.0"], "CHANGELOG.md calls 1.2.0 unreleased"),
        ("## 1.2.0 (2026-11-22)", ["v1.2.0", "v1.2.1"], "tagged v1.2.0, v1.2.1"),
        ("## 1.3.0 (unreleased)", [], "begins with 1.3.0, the version of the package is 1.2.0"),
        ("## Notes\n\n## 1.2.0 (unreleased)", [], "no '## <version> (<date> or unreleased)': ## Notes"),
    ],
)
def test_version_changelog_and_tag_agree(heading: str, tags: list[str], problem: str) -> None:
    changelog = f"# Changelog\n\n{heading}\n\n* Text.\n\n## 1.1.0 (2026-01-01)\n"
    found = release_check.version_problem("1.2.0", changelog, tags)
    assert problem in found
    assert bool(found) == bool(problem)


STEM = "airflow_provider_analytics-1.0"
TRACKED = ["airflow_provider_analytics/__init__.py", "airflow_provider_analytics/api/client.py"]
PACKED = [*TRACKED, *(f"{STEM}.dist-info/{name}" for name in release_check.METADATA_FILES)]


@pytest.mark.parametrize(
    ("more", "without", "problems"),
    [
        ([], [], []),
        ([], TRACKED[1:], ["airflow_provider_analytics/api/client.py is missing"]),
        ([], [f"{STEM}.dist-info/entry_points.txt"], [f"{STEM}.dist-info/entry_points.txt is missing"]),
        (["dags/test_a.py"], [], ["dags/test_a.py is not expected", "dags/test_a.py is a test"]),
    ],
)
def test_wheel_has_exactly_the_files_of_the_package(more: list[str], without: list[str], problems: list[str]) -> None:
    packed = [name for name in (*PACKED, *more) if name not in without]
    assert release_check.content_problems(packed, TRACKED, STEM) == problems


def listed(lines: Callable[[], Iterable[str]]) -> None:
    list(lines())


@pytest.mark.repository
@pytest.mark.parametrize(
    ("module", "name", "value", "lines", "said"),
    [
        pytest.param(
            generate, "COLUMNS", lambda: {"new_column": "string"}, generate.columns,
            "MEANINGS in airflow_provider_analytics/snapshots/formats.py has no entry for 'new_column'", id="column",
        ),
        pytest.param(
            generate, "CONNECTION_TYPE", lambda: {"conn-fields": {"new_extra": {"description": "New."}}},
            generate.extras, "Settings in airflow_provider_analytics/api/settings.py has no entry for 'new_extra'",
            id="extra",
        ),
        pytest.param(
            generate, "AIRFLOW_DAYS", dict, generate.policy, "AIRFLOW_DAYS in scripts/generate.py has no entry for",
            id="Airflow version",
        ),
        pytest.param(
            generate, "BLOCKS", dict, generate.contents, "BLOCKS in scripts/generate.py has no entry for", id="block",
        ),
    ],
)  # fmt: skip
def test_generate_names_the_file_to_edit_if_an_entry_is_missing(
    module: Any, name: str, value: Callable[[], Any], lines: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value())
    with pytest.raises(SystemExit, match=said):
        listed(lines)


def test_generate_fails_if_a_manifest_key_has_no_description(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = {"description": "A manifest.", "properties": {"new_key": {"type": "string"}}}
    monkeypatch.setattr(generate, "manifest_schema", lambda: {"$defs": {"Manifest": definition}})
    with pytest.raises(
        SystemExit, match=r"docstring of Manifest in .*/snapshots/manifest.py has no entry for 'new_key'"
    ):
        listed(generate.keys_of_a_manifest)


@pytest.mark.repository
@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_constraints_keep_the_other_pins_if_something_is_only_added() -> None:
    def commands(*arguments: str) -> str:
        command = ["make", "--dry-run", "--old-file=.tools/bin/uv", "constraints", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    upgrading, adding = commands(), commands("ADD=1")
    assert upgrading.count("pip compile") == upgrading.count("--upgrade") == adding.count("pip compile") == 3
    assert "--upgrade" not in adding
