# SPDX-License-Identifier: Apache-2.0
"""Run the suites on every supported Airflow and Python, from the wheel, and fill in constraints/test_runs.md.

The wheel is built once. Each cell of the matrix has its own virtual environment, with the pins of
``constraints/airflow-<version>.txt``. The tests run in a copy of this checkout without the package, so that only the
wheel can be imported. An Airflow that is newer than all of ``constraints`` is tried as well, and reported.

Exit status 0 means that no test failed on a pinned Airflow.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

from local_airflow import CHECKOUT
from packaging.version import Version

UV = CHECKOUT / ".tools" / "bin" / "uv"
OUTPUT = CHECKOUT / ".matrix"
DOCUMENT = CHECKOUT / "constraints" / "test_runs.md"
CONSTRAINTS = CHECKOUT / "constraints"
DISTRIBUTION = "airflow-provider-analytics"
SUITES = ("unit", "contract", "integration")
SAMPLES = sorted(path.stem for path in (CHECKOUT / "dags").glob("*.py"))
#: What the tests read, besides the package.
FOLDERS = ("tests", "dags", "docs", "examples", "scripts", "constraints")
FILES = ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")
#: The tests of a cell.
WHOLE = "not (kill or browser or repository)"
Command = Sequence[str | Path]
#: Where the table is in the document.
_RUNS = re.compile(r"(<!-- begin runs, written by `make test-matrix` -->\n).*?(<!-- end runs -->)", re.DOTALL)


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
        """Whether this package claims to run on it."""
        return self.pins.parent == CONSTRAINTS

    def __str__(self) -> str:
        return f"Airflow {self.airflow}, Python {self.python}"


@dataclass
class Result:
    """The result of a cell.

    :param problem: why its tests did not run; empty if they did.
    :param counts: suite to the number of tests by outcome.
    :param samples: the sample DAGs that a passed test ran.
    :param failed: the failed tests.
    """

    problem: str = ""
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {suite: Counter() for suite in SUITES})
    samples: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether the tests ran and none failed."""
        return not self.problem and not self.failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--airflow", metavar="VERSION", help="only this Airflow")
    arguments = parser.parse_args()
    OUTPUT.mkdir(exist_ok=True)
    cells = [*pinned(), *newer()]
    if arguments.airflow:
        cells = [cell for cell in cells if cell.airflow == arguments.airflow]
    results = dict(run_all(cells))
    table = "\n".join(render(results))
    say(table)
    if not arguments.airflow:
        runs = f"Run on {datetime.now(UTC):%Y-%m-%d}.\n\n{table}\n"
        DOCUMENT.write_text(_RUNS.sub(lambda found: found[1] + runs + found[2], DOCUMENT.read_text("utf-8")), "utf-8")
        say(f"Wrote {DOCUMENT.relative_to(CHECKOUT)}")
    return 0 if all(result.is_good for cell, result in results.items() if cell.is_pinned) else 1


# Cells


def by_version(cell: Cell) -> Version:
    return Version(cell.airflow)


def pinned() -> list[Cell]:
    """Return a cell per pinned Airflow on the oldest Python; the oldest and the newest Airflow have more."""
    files = [path.with_suffix(".txt") for path in CONSTRAINTS.glob("airflow-*.[0-9].in")]
    found = sorted((Cell(path.stem.removeprefix("airflow-"), "3.11", path) for path in files), key=by_version)
    more = [(found[-1], "3.12"), (found[-1], "3.13"), (found[0], "3.12")]
    return [*found, *(Cell(cell.airflow, python, cell.pins) for cell, python in more)]


def newest() -> str:
    return max(pinned(), key=by_version).airflow


def newer() -> Iterator[Cell]:
    """Yield a cell for an Airflow that is newer than all that are pinned, a beta too, if the index has one."""
    requirements, pins = OUTPUT / "newer.in", OUTPUT / "newer.txt"
    requirements.write_text(f"apache-airflow>{newest()}\n")
    options = "--universal --python-version 3.11 --no-header --no-annotate --all-extras --group dev --no-emit-package"
    command: Command = [UV, "pip", "compile", *options.split(), DISTRIBUTION, "pyproject.toml", requirements]
    done = run([*command, "--output-file", pins])
    if done.returncode:  # as usual, there is none; the resolver's reason is shown in case it is something else
        say(f"No Airflow after {newest()} can be tried: {' '.join(done.stderr.split())[-300:]}")
        return
    [version] = re.findall(r"^apache-airflow==(\S+)", pins.read_text(), re.MULTILINE)
    say(f"Airflow {version} is not pinned yet: it is tried")
    yield Cell(version, "3.11", pins)


# Runs


def run_all(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Result]]:
    """Run the cells one after the other, and yield their results."""
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        must([UV, "build", "--quiet", "--wheel", "--out-dir", folder, CHECKOUT])
        [wheel] = Path(folder).glob("*.whl")
        for number, cell in enumerate(cells):
            began = time.monotonic()
            copy = Path(folder, str(number))
            copy.mkdir()
            for name in FOLDERS:
                shutil.copytree(CHECKOUT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            for name in FILES:
                shutil.copy(CHECKOUT / name, copy)
            result = run_cell(cell, wheel, copy)
            taken = round(time.monotonic() - began)
            say(f"{cell}: {'passed' if result.is_good else result.problem or 'FAILED'} in {taken} s")
            for failed in result.failed:
                say(f"  {failed}")
            yield cell, result


def run_cell(cell: Cell, wheel: Path, copy: Path) -> Result:
    """Set up the environment of a cell, and run its suites in the copy of the checkout."""
    venv = OUTPUT / f"airflow-{cell.airflow}-py{cell.python}"
    python = venv / "bin" / "python"
    done = run([UV, "venv", "--quiet", "--allow-existing", "--python", cell.python, venv])
    if done.returncode:
        return Result(problem=f"Python {cell.python} is not installed")
    must([UV, "pip", "sync", "--quiet", "--python", python, cell.pins])
    must([UV, "pip", "install", "--quiet", "--python", python, "--no-deps", wheel])
    with tempfile.TemporaryDirectory(prefix="matrix-home-") as home:
        env = {"AIRFLOW_HOME": home, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        for listed, wanted in (("list", DISTRIBUTION), ("hooks", '"analytics"')):
            ask: Command = [python, "-P", "-m", "airflow", "providers", listed, "--output", "json"]
            if wanted not in run(ask, cwd=Path(home), env=env).stdout:
                return Result(problem=f"`airflow providers {listed}` does not have {wanted}")
    report = venv.with_suffix(f"{venv.suffix}.xml")
    report.unlink(missing_ok=True)
    # -P: the folder of the tests is not on the path, so that the installed package is imported.
    flags: Command = ["-q", "-n", "2", "--dist", "loadfile", "--junit-xml", report, "-m", WHOLE]
    done = run([python, "-P", "-m", "pytest", *flags, *(f"tests/{suite}" for suite in SUITES)], cwd=copy)
    return read(report) if report.exists() else Result(problem=f"pytest did not end: {done.stdout[-2000:]}")


def read(report: Path) -> Result:
    """Return the result in a report of pytest."""
    result = Result()
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - pytest wrote it a moment ago
        how = next((kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None), "passed")
        if how in ("failure", "error"):
            text = (case.findtext(how) or "")[-3000:]
            result.failed.append(f"FAILED {case.get('classname')}::{case.get('name')}\n{text}")
            how = "failed"
        result.counts[case.get("classname", "").removeprefix("tests.").partition(".")[0]][how] += 1
        if how == "passed":
            result.samples |= {item.get("value", "") for item in case.iter("property") if item.get("name") == "sample"}
    return result


def run(
    command: Command, *, cwd: Path = CHECKOUT, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in the environment of a person's shell: without that of an Airflow, make or pytest."""
    ours = ("AIRFLOW_", "MAKE", "MFLAGS", "PYTEST_", "PYTHON")
    outside = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    # The shims of pyenv, which uv would find first, run only the version that is switched on.
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob("versions/*/bin")
    outside["PATH"] = os.pathsep.join([*map(str, pyenv), outside["PATH"]])
    return subprocess.run(
        command,
        cwd=cwd,
        env={**outside, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def must(command: Command) -> None:
    """Run a command that everything else needs."""
    done = run(command)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")


# The table


def render(results: Mapping[Cell, Result]) -> Iterator[str]:
    """Yield the lines of the table, and below it where a sample DAG is not run."""
    yield "| Airflow | Python | Discovery | Unit | Contract | Integration | Sample DAGs |"
    yield "|---|---|---|---|---|---|---|"
    not_run: dict[str, dict[str, None]] = {}
    for cell, result in sorted(results.items(), key=lambda item: (by_version(item[0]), item[0].python)):
        name = cell.airflow if cell.is_pinned else f"{cell.airflow} (tried, not claimed)"
        if result.problem:
            yield f"| {name} | {cell.python} | not run: {result.problem} | | | | |"
            continue
        for sample in (sample for sample in SAMPLES if sample not in result.samples):
            not_run.setdefault(sample, {})[cell.airflow] = None
        columns = [in_words(result.counts[suite]) for suite in SUITES]
        ran = f"{len(result.samples)} of {len(SAMPLES)}"
        yield f"| {name} | {cell.python} | yes | {' | '.join(columns)} | {ran} |"
    if not_run:
        yield "\nNot run: samples with approvals (from 3.1 on), or errors in callbacks of `DAG.test` (from 3.3 on):\n"
        yield from (f"* `{sample}` ({', '.join(versions)})" for sample, versions in not_run.items())


def in_words(counts: Counter[str]) -> str:
    more = [f"{counts[how]} {how}" for how in ("failed", "skipped") if counts[how]]
    return ", ".join([f"{counts['passed']:,}", *more])


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
