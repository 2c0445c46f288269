"""Run the suites on every supported Airflow and Python, from the installed wheel, and fill in docs/compatibility.md.

The wheel is built once. Each cell of the matrix has a virtual environment of its own, with the pins of
``constraints/airflow-<version>.txt``; the tests run in a copy of this checkout that has no package in it, so that
nothing but the wheel can be imported. An Airflow that is newer than all of ``constraints`` is tried, too, and reported.

Exit status 0 means that no test failed on an Airflow that is pinned.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO
from xml.etree import ElementTree as ET

from local_airflow import CHECKOUT
from packaging.version import Version

UV = CHECKOUT / ".tools" / "bin" / "uv"
OUTPUT = CHECKOUT / ".matrix"
DOCUMENT = CHECKOUT / "docs" / "compatibility.md"
CONSTRAINTS = CHECKOUT / "constraints"
DISTRIBUTION = "airflow-provider-analytics"
SUITES = ("unit", "contract", "integration")
SAMPLES = sorted(path.stem for path in (CHECKOUT / "dags").glob("*.py"))
#: What the tests read beside themselves.
COPIED = (
    "tests",
    "dags",
    "docs",
    "scripts",
    "constraints",
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
    "pyproject.toml",
)
#: The tests of a cell.
WHOLE = "not (kill or browser or repository)"
#: The tests of ``--rest``: those of ``make test-fast``, and all that run a sample DAG.
QUICK = "not (kill or browser or system or slow or repository) or (sample and not system)"
#: Number of lines that are shown of a test that failed.
SHOWN_LINES = 40
#: Seconds that a cell is expected to take before one has been run.
FIRST_ESTIMATE = 240


@dataclass(frozen=True)
class Cell:
    """An Airflow on a Python.

    :param airflow: version of Airflow.
    :param python: minor version of Python.
    :param pins: file of constraints.
    """

    airflow: str
    python: str
    pins: Path

    @property
    def is_pinned(self) -> bool:
        """Whether it is one that this package claims to run on."""
        return self.pins.parent == CONSTRAINTS

    def __str__(self) -> str:
        return f"Airflow {self.airflow}, Python {self.python}"


@dataclass
class Result:
    """What became of a cell.

    :param problem: why its tests did not run, if they did not.
    :param counts: suite to the number of tests by outcome.
    :param samples: sample DAG to the outcome of the tests that run it.
    :param failed: id of each test that failed, and the end of what pytest says of it.
    """

    problem: str = ""
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    samples: dict[str, set[str]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether the tests ran and none failed."""
        return not self.problem and not self.failed


class MatrixError(Exception):
    """What stops the whole command."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--airflow", action="append", metavar="VERSION", help="only this Airflow; may be given again")
    parser.add_argument("--python", action="append", metavar="VERSION", help="only this Python; may be given again")
    parser.add_argument("--quick", action="store_true", help="leave out the tests that are marked as slow")
    parser.add_argument(
        "--rest",
        type=float,
        metavar="SECONDS",
        help="what `make test` and `make test-oldest` leave: the other cells, with the quick tests, as many as fit",
    )
    arguments = parser.parse_args()
    OUTPUT.mkdir(exist_ok=True)
    deadline = time.monotonic() + arguments.rest if arguments.rest is not None else None
    cells = [
        cell
        for cell in (*pinned(), *([] if arguments.rest else newer()))
        if (not arguments.airflow or cell.airflow in arguments.airflow)
        and (not arguments.python or cell.python in arguments.python)
    ]
    if deadline is not None:
        this = "{}.{}".format(*sys.version_info)
        whole = {pinned()[0].airflow, newest_pinned()}
        cells = [cell for cell in cells if not (cell.airflow in whole and cell.python == this)]
    if not cells:
        raise MatrixError("no cell of the matrix is meant")
    quick = arguments.quick or deadline is not None
    results = dict(run_all(cells, deadline, quick=quick))
    table = list(render(results))
    say("\n".join(table))
    left_out = [cell for cell in cells if cell not in results]
    if left_out:
        say(f"Not run for want of time: {'; '.join(str(cell) for cell in left_out)}")
    if not (arguments.airflow or arguments.python or deadline is not None):
        run_on = f"Run on {datetime.now(UTC):%Y-%m-%d}{QUICK_MEANS if quick else ''}."
        runs = "\n".join([run_on, "", *table, ""])
        DOCUMENT.write_text(_RUNS.sub(lambda found: found[1] + runs + found[2], DOCUMENT.read_text("utf-8")), "utf-8")
        say(f"Wrote {DOCUMENT.relative_to(CHECKOUT)}")
    return 0 if all(result.is_good for cell, result in results.items() if cell.is_pinned) else 1


# Cells


def by_version(cell: Cell) -> Version:
    return Version(cell.airflow)


def newest_pinned() -> str:
    return max(pinned(), key=by_version).airflow


def pinned() -> list[Cell]:
    """Return a cell per pinned Airflow on the oldest Python, and those of the ends on the newer ones as well."""
    found = sorted(
        (
            Cell(path.stem.removeprefix("airflow-"), "3.11", path.with_suffix(".txt"))
            for path in CONSTRAINTS.glob("airflow-*.[0-9].in")
        ),
        key=by_version,
    )
    oldest, newest = found[0], found[-1]
    more = [(newest, "3.12"), (newest, "3.13"), (oldest, "3.12")]
    return [*found, *(Cell(cell.airflow, python, cell.pins) for cell, python in more)]


def newer() -> Iterator[Cell]:
    """Yield a cell for an Airflow that is newer than all that are pinned, a beta too, if the index has one."""
    newest = newest_pinned()
    requirements = OUTPUT / "newer.in"
    requirements.write_text(f"apache-airflow>{newest}\n")
    pins = OUTPUT / "newer.txt"
    pins.unlink(missing_ok=True)
    compile_all = ["--universal", "--python-version", "3.11", "--no-header", "--no-annotate", "--all-extras"]
    groups = ["--group", "dev", "--no-emit-package", DISTRIBUTION]
    done = outcome([UV, "pip", "compile", *compile_all, *groups, "pyproject.toml", requirements, "--output-file", pins])
    if done.returncode:
        # That there is none is the usual case. Anything else shows in the line, too: it is the resolver's own reason.
        reason = " ".join(done.stderr.split())
        say(f"No Airflow after {newest} can be tried: {reason[-300:]}")
        return
    [version] = [
        line.partition("==")[2].split()[0]
        for line in pins.read_text().splitlines()
        if line.startswith("apache-airflow==")
    ]
    say(f"Airflow {version} is not pinned yet: it is tried")
    yield Cell(version, "3.11", pins)


def interpreter(python: str) -> str | None:
    """Return the path of a Python, or None; the shims of pyenv answer only for versions that are switched on."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    candidates: list[str | Path] = [f"python{python}", *sorted(pyenv.glob(f"{python}.*/bin/python"))]
    code = "import sys; print(sys.executable, '{}.{}'.format(*sys.version_info))"
    for candidate in candidates:
        try:
            path, _, version = outcome([candidate, "-c", code]).stdout.strip().rpartition(" ")
        except FileNotFoundError:
            continue
        if version == python:
            return path
    return None


# Runs


def run_all(cells: Sequence[Cell], deadline: float | None, *, quick: bool) -> Iterator[tuple[Cell, Result]]:
    """Run the cells one after the other, and yield what became of each; with a deadline, those that fit."""
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        wheel = build(Path(folder, "dist"))
        copy = Path(folder, "checkout")
        longest: float = FIRST_ESTIMATE if deadline is not None else 0
        for cell in cells:
            begun = time.monotonic()
            if deadline is not None and begun + longest > deadline:
                return
            shutil.rmtree(copy, ignore_errors=True)
            copy_tests(copy)
            result = run(cell, wheel, copy, quick=quick)
            seconds = time.monotonic() - begun
            longest = max(longest, seconds) if longest != FIRST_ESTIMATE else seconds
            say(f"{cell}: {'passed' if result.is_good else result.problem or 'FAILED'} in {seconds:.0f} s")
            for name, said in result.failed.items():
                say(f"  FAILED {name}\n{textwrap.indent(said, '    ')}")
            yield cell, result


def build(folder: Path) -> Path:
    must([UV, "build", "--quiet", "--wheel", "--out-dir", folder, CHECKOUT])
    [wheel] = folder.glob("*.whl")
    return wheel


def copy_tests(target: Path) -> None:
    target.mkdir()
    for name in COPIED:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def run(cell: Cell, wheel: Path, copy: Path, *, quick: bool) -> Result:
    """Set up the environment of a cell, and run its suites in the copy of the checkout."""
    executable = interpreter(cell.python)
    if executable is None:
        return Result(problem=f"Python {cell.python} is not installed")
    venv = OUTPUT / f"airflow-{cell.airflow}-py{cell.python}"
    python = venv / "bin" / "python"
    if not python.exists():
        must([UV, "venv", "--quiet", "--allow-existing", "--python", executable, venv])
    must([UV, "pip", "sync", "--quiet", "--python", python, cell.pins])
    must([UV, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel])
    missing = undiscovered(python)
    if missing:
        return Result(problem=f"Airflow does not list {missing}")
    report, log, inputs = (OUTPUT / f"{venv.name}.{suffix}" for suffix in ("xml", "log", "inputs"))
    select = QUICK if quick else WHOLE
    digest = digest_of(select, wheel, cell.pins, *sorted(copy.rglob("*.py")))
    if inputs.exists() and inputs.read_text() == digest:
        say(f"{cell}: nothing has changed since it passed")
        return read(report)
    report.unlink(missing_ok=True)
    # The folder of the tests is not put on the path: what is imported is what is installed.
    flags: list[str | Path] = ["-q", "-n", "2", "--dist", "loadfile", "--junit-xml", report, "-m", select]
    suites = [f"tests/{suite}" for suite in SUITES]
    with log.open("w") as output:
        outcome([python, "-P", "-m", "pytest", *flags, *suites], cwd=copy, output=output)
    if not report.exists():
        return Result(problem=f"pytest did not end, see {log.relative_to(CHECKOUT)}")
    result = read(report)
    if result.is_good:
        inputs.write_text(digest)
    return result


def digest_of(select: str, *files: Path) -> str:
    """Return what changes with everything that a cell's result depends on: the command may be interrupted."""
    digest = hashlib.sha256(select.encode())
    for file in files:
        digest.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def undiscovered(python: Path) -> str:
    """Return what Airflow does not list of the installed wheel: the provider or its hook; or an empty text."""
    with tempfile.TemporaryDirectory(prefix="matrix-home-") as home:
        env = {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        for listed, key, wanted in (
            ("list", "package_name", DISTRIBUTION),
            ("hooks", "connection_type", "analytics"),
        ):
            ask: list[str | Path] = [python, "-P", "-m", "airflow", "providers", listed, "--output", "json"]
            answer = outcome(ask, cwd=Path(home), env=env).stdout
            start = answer.find("[{")
            if start < 0 or wanted not in [row.get(key) for row in json.loads(answer[start:])]:
                return f"{wanted} in `airflow providers {listed}`"
    return ""


def outside() -> dict[str, str]:
    """Return the environment of a person's shell: nothing of another Airflow, of make or of this checkout."""
    ours = ("AIRFLOW_", "MAKE", "MFLAGS", "PYTEST_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def read(report: Path) -> Result:
    """Return what a report of pytest says."""
    result = Result(counts={suite: Counter() for suite in SUITES})
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it a moment ago
        suite = case.get("classname", "").removeprefix("tests.").partition(".")[0]
        how = next((kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None), "passed")
        if how in ("failure", "error"):
            lines = (case.findtext(how) or "").splitlines()
            how = "failed"
            result.failed[f"{case.get('classname')}::{case.get('name')}"] = "\n".join(lines[-SHOWN_LINES:])
        result.counts.setdefault(suite, Counter())[how] += 1
        for found in case.iter("property"):
            if found.get("name") == "sample":
                name = found.get("value", "")
                result.samples.setdefault(name, set()).add(how)
                skipped = case.find("skipped")
                if skipped is not None:
                    result.reasons[name] = skipped.get("message", "")
    return result


def outcome(
    command: Sequence[str | Path],
    *,
    cwd: Path = CHECKOUT,
    env: Mapping[str, str] | None = None,
    output: IO[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, outside of this Airflow, and return what it said, unless it writes to ``output``."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={**outside(), **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=output or subprocess.PIPE,
        stderr=output or subprocess.PIPE,
        text=True,
        check=False,
    )


def must(command: Sequence[str | Path]) -> None:
    """Run a command that everything else needs."""
    done = outcome(command)
    if done.returncode:
        raise MatrixError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")


# The table

#: Where the table stands in the document.
_RUNS = re.compile(r"(<!-- begin runs, written by `make test-matrix` -->\n).*?(<!-- end runs -->)", re.DOTALL)


QUICK_MEANS = " with `--quick`: without the tests that are marked as slow, but for those that run a sample DAG"


def render(results: dict[Cell, Result]) -> Iterator[str]:
    """Yield the lines of the table, and below it why a sample DAG is not run somewhere."""
    yield "| Airflow | Python | Discovery | Unit | Contract | Integration | Sample DAGs |"
    yield "|---|---|---|---|---|---|---|"
    notes: dict[str, list[Cell]] = {}
    for cell, result in sorted(results.items(), key=lambda item: (by_version(item[0]), item[0].python)):
        if result.problem:
            yield f"| {cell.airflow} | {cell.python} | not run: {result.problem} | | | | |"
            continue
        ran = [name for name in SAMPLES if "passed" in result.samples.get(name, ())]
        for name in SAMPLES:
            if name not in ran:
                notes.setdefault(f"`{name}`: {result.reasons.get(name, 'not among the tests')}", []).append(cell)
        columns = [told(result.counts[suite]) for suite in SUITES]
        name = cell.airflow if cell.is_pinned else f"{cell.airflow} (tried, not claimed)"
        yield f"| {name} | {cell.python} | yes | {' | '.join(columns)} | {len(ran)} of {len(SAMPLES)} |"
    if notes:
        yield ""
        yield "Sample DAGs that are not run:"
        yield ""
        yield from (f"* {note} ({versions(cells)})" for note, cells in notes.items())


def told(counts: Counter[str]) -> str:
    more = [f"{counts[outcome]} {outcome}" for outcome in ("failed", "skipped") if counts[outcome]]
    return ", ".join([f"{counts['passed']:,}", *more])


def versions(cells: Iterable[Cell]) -> str:
    return ", ".join(sorted({cell.airflow for cell in cells}, key=Version))


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MatrixError as error:
        say(f"FAILED: {error}")
        sys.exit(1)
