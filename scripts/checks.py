# SPDX-License-Identifier: Apache-2.0
"""List the checks of the project, with the last run of each: ``make checks``.

The Makefile starts each check with ``checks.py run NAME -- COMMAND``. A run on a commit is recorded in
``constraints/checks.json``, and in a table of ``constraints/test_runs.md``. A run with uncommitted changes, or with
settings other than those in the name of the check, is not recorded, because it says less.

Exit status 0 of the list means that each check passed on a commit of the last seven days, or of the last 100 commits.
A check that has no run yet is due seven days after the record was started.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
RECORD = CHECKOUT / "constraints" / "checks.json"
DOCUMENT = CHECKOUT / "constraints" / "test_runs.md"
#: The checks, as arguments of ``make``. ``.github/workflows/nightly.yml`` runs all of them.
CHECKS = (
    "test",
    "test-rest",
    "test-fast AIRFLOW=2.11.2",
    "test-matrix",
    "test-distributed",
    "soak",
    "two-tasks",
    "mutants",
    "bench",
    "screenshots",
    "release-check",
    "docs",
)
MAX_AGE = timedelta(days=7)
#: When the record was started: no run from before is in it.
STARTED = datetime(2026, 11, 29, tzinfo=UTC)
MAX_COMMITS = 100
_TABLE = re.compile(r"(<!-- begin checks, written by each check -->\n).*?(<!-- end checks -->)", re.DOTALL)


@dataclass(frozen=True)
class Run:
    """The last run of a check.

    :param result: ``passed`` or ``failed``.
    :param ran: time of its end, in ISO 8601.
    :param commit: the commit that it ran on.
    :param committed: time of that commit, in ISO 8601.
    """

    result: str
    ran: str
    commit: str
    committed: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("run", help="run a command, and record its result")
    run.add_argument("name", help="name of the check")
    run.add_argument("arguments", nargs="+", metavar="COMMAND", help="the command, after --")
    arguments = parser.parse_args()
    if arguments.command == "run":
        return run_check(arguments.name, arguments.arguments)
    problems = 0
    newest_commits = git("rev-list", "-n", str(MAX_COMMITS), "HEAD").split()
    runs = recorded()
    for name in CHECKS:
        problem = problem_of(runs.get(name), datetime.now(UTC), newest_commits)
        problems += bool(problem)
        say(f"{line_of(name, runs.get(name))}{f'  <- {problem}' if problem else ''}")
    if problems:
        say(f"{problems} of {len(CHECKS)} checks must run: make <check>, and commit constraints/checks.json")
    return int(bool(problems))


def run_check(name: str, command: Sequence[str]) -> int:
    """Run the command of a check, record the result, and return the exit status."""
    commit = commit_to_record(name)
    interrupts: list[int] = []
    # The command is interrupted at the same time, and ends its processes before this process ends.
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    status = subprocess.run(command, check=False).returncode
    if commit and not interrupts:
        committed = git("show", "--no-patch", "--format=%cI", commit)
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        record(name, Run("failed" if status else "passed", now, commit, committed))
    return status


def commit_to_record(name: str) -> str:
    """Return the commit of the checkout; an empty text if a run of this check is not recorded."""
    if name not in CHECKS or not (CHECKOUT / ".git").exists():
        return ""
    written_by_checks = [f":!{path.relative_to(CHECKOUT)}" for path in (RECORD, DOCUMENT)]
    if git("status", "--porcelain", "--untracked-files=no", "--", ".", *written_by_checks):
        say(f"The checkout has uncommitted changes, so this run of make {name} is not recorded.")
        return ""
    return git("rev-parse", "HEAD")


def problem_of(run: Run | None, now: datetime, newest_commits: Collection[str]) -> str:
    """Return why a check must run; an empty text if it is up to date."""
    if run is None and now - STARTED > MAX_AGE:
        return "never ran"
    if run is None:
        return ""
    if run.result != "passed":
        return "failed"
    is_new = now - datetime.fromisoformat(run.committed) <= MAX_AGE
    if not is_new and run.commit not in newest_commits:
        return f"older than {MAX_AGE.days} days and {MAX_COMMITS} commits"
    return ""


def recorded() -> dict[str, Run]:
    return {name: Run(**run) for name, run in json.loads(RECORD.read_text(encoding="utf-8")).items()}


def record(name: str, run: Run) -> None:
    """Write the run into the record and into the document."""
    runs = {**recorded(), name: run}
    content = {known: asdict(runs[known]) for known in CHECKS if known in runs}
    RECORD.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    document = DOCUMENT.read_text(encoding="utf-8")
    lines = "".join(f"{line}\n" for line in table(runs))
    DOCUMENT.write_text(_TABLE.sub(lambda found: found[1] + lines + found[2], document), encoding="utf-8")


def table(runs: Mapping[str, Run]) -> Iterator[str]:
    yield "| Check | Last run | Commit | Result |"
    yield "|---|---|---|---|"
    for name in CHECKS:
        if name in runs:
            run = runs[name]
            yield f"| `make {name}` | {run.ran[:10]} | {run.commit[:10]} | {run.result} |"
        else:
            yield f"| `make {name}` | never | | |"


def line_of(name: str, run: Run | None) -> str:
    if run is None:
        return f"{name:<26}never"
    return f"{name:<26}{run.ran[:10]}  {run.commit[:10]}  {run.result}"


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=True)  # noqa: S607
    return done.stdout.strip()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
