# SPDX-License-Identifier: Apache-2.0
"""Compare the performance of this package with other programs for the same work: ``make bench``.

It prints ratios, never absolute times: both sides take turns (A B A B) in the same run, and the median of the ratios of
the pairs is printed, with the smallest and the largest. ``build/benchmarks`` gets all measurements as JSON; with
``--document`` the blocks of docs/reference/performance.md and tests/benchmarks/results.md are written.
"""

from __future__ import annotations

import argparse
import compileall
import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from canned import API_KEY, canned

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from laravel_application import FRAMEWORK, INSTALL, LaravelApplication

from airflow_provider_analytics.api.listing import MAX_LIST_WEBSITES
from airflow_provider_analytics.get_provider_info import get_provider_info

CHECKOUT = Path(__file__).resolve().parents[2]
#: Base URL of links on the site to documents outside of it.
REPOSITORY = "https://github.com/airflow-provider-analytics/airflow-provider-analytics/blob/main"
WORKS = Path(__file__).with_name("works.py")
#: Delay of the canned server's responses in milliseconds, in comparisons of elapsed time.
LATENCY = 20

#: The modules with the operators, as :func:`get_provider_info` lists them, and the module of HttpOperator.
OPERATORS = get_provider_info()["operators"][0]["python-modules"]
HTTP_OPERATOR = "airflow.providers.http.operators.http"

Work = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Sizes:
    """The amount of work.

    :param repeats: measurements of each comparison.
    :param gets: number of websites that are read singly.
    :param pages: pages of a list.
    :param growth: numbers of websites.
    :param updates: number of websites that are updated in a Laravel application.
    """

    repeats: int
    gets: int
    pages: int
    growth: tuple[int, int]
    updates: int


FULL = Sizes(7, 2_000, 1_000, (10_000, 100_000), 300)
QUICK = Sizes(3, 200, 100, (1_000, 10_000), 100)
#: For the test that runs every benchmark once.
TINY = Sizes(1, 2, 3, (100, 300), 2)


@dataclass(frozen=True)
class Result:
    """A row of the table.

    :param work: the work.
    :param against: the compared program.
    :param ratios: ours to theirs, or theirs to ours with ``faster``; one per pair of measurements.
    :param goal: largest ratio, or the smallest with ``faster``; None: no goal, for information.
    :param faster: whether the ratio is how many times less ours takes.
    :param low: smallest ratio of a goal with two ends.
    :param unit: of a number that is not a ratio, such as a number of requests.
    """

    work: str
    against: str
    ratios: list[float]
    goal: float | None
    faster: bool = False
    low: float = 0
    unit: str = ""

    @property
    def median(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    def cells(self) -> list[str]:
        """Return the cells of the table."""
        spread = f"{_figure(min(self.ratios))} to {_figure(max(self.ratios))}"
        shown = [self.work, self.against, f"{_figure(self.median)}{self.unit}", spread]
        if self.goal is None:
            return [*shown, "", ""]
        bound = f"{_figure(self.low)} to" if self.low else "at least" if self.faster else "at most"
        reached = self.median >= self.goal if self.faster else self.low <= self.median <= self.goal
        return [*shown, f"{bound} {_figure(self.goal)}{self.unit}", "yes" if reached else "no"]


class Bench:
    """Runs the works and keeps the results.

    :param sizes: the amount of work.
    """

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.results: list[Result] = []
        self.measured: dict[str, Any] = {}

    def run(self) -> None:
        """Take all measurements."""
        # As in an installation.
        compileall.compile_dir(CHECKOUT / "airflow_provider_analytics", quiet=1)
        with canned(self.sizes.pages * 100) as url:
            self._websites(url)
            self._lists(url)
        self._imports()
        self._growth()
        with canned(self.sizes.pages * 100, LATENCY) as url:
            self._latency(url)
        self._laravel()

    def _websites(self, url: str) -> None:
        gets = {"url": url, "number": self.sizes.gets}
        peers = ("http_client_gets", "urllib3_gets", "session_gets", "http_hook_gets", "httpx2_gets", "pyreqwest_gets")
        ours, standard, urllib3, session, http, httpx2, pyreqwest = self.turns(
            "get_website", *((work, gets) for work in ("hook_gets", *peers))
        )
        work = "one `hook.get_website`, CPU"
        self.add(work, "`http.client` and `json`", _ratios(ours, standard), 2.7)
        self.add(work, "`urllib3`, which the package uses", _ratios(ours, urllib3), None)
        self.add(work, "`requests.Session.get().json()`", _ratios(ours, session), 0.60)
        self.add(work, "`HttpHook.run().json()`", _ratios(ours, http), 0.45)
        self.add(work, "`httpx2.Client.get().json()`", _ratios(ours, httpx2), None)
        self.add(work, "`pyreqwest`, synchronous client", _ratios(ours, pyreqwest), None)

    def _lists(self, url: str) -> None:
        pages = self.sizes.pages
        plain = {"url": url, "pages": pages}
        standard, session, ours = self.turns(
            "list", ("http_client_list", plain), ("session_list", plain), ("hook_list", {"url": url})
        )
        work = "a page of the complete list, CPU"
        self.add(work, "`http.client` and `json`, no proof", _ratios(ours, standard), 2.2)
        self.add(work, "`requests.Session` and `json`, no proof", _ratios(ours, session), 0.75)
        # A list whose last page is not full, as almost all are.
        with canned(pages * 100 - 49) as full:
            orders = ({"url": full}, {"url": full, "sort": "asc"})
            newest, other = self.turns("requests", *(("hook_list", order) for order in orders))
        for work, found, goal in (("newest first", newest, 2), ("oldest first", other, 2)):
            more = [float(item["returned"] - pages) for item in found]
            self.add(f"complete list of n pages, {work}: requests besides n", "", more, goal, unit=" more than n")
        theirs: Work = ("http_operator_list", {"url": url, "pages": pages})
        ours, http = self.alone("memory", ("hook_list", {"url": url}), theirs)
        against = "`HttpOperator` with a pagination function"
        self.add(f"complete list, {pages:,} pages, peak memory", against, _ratios(ours, http, "memory"), 0.35)

    def _imports(self) -> None:
        ours, http = self.alone("import", *(("modules", {"names": names}) for names in (OPERATORS, [HTTP_OPERATOR])))
        self.add(
            "import of all operator modules, wall", f"import of `{HTTP_OPERATOR}`", _ratios(ours, http, "wall"), 0.5
        )

    def _growth(self) -> None:
        few, many = self.sizes.growth
        with canned(few) as element, canned(many) as other:
            small, large = self.turns("growth", ("our_snapshot", {"url": element}), ("our_snapshot", {"url": other}))
            # In a new process each time: an earlier snapshot leaves memory that the next one uses.
            self.alone("growth, memory", ("our_snapshot", {"url": other}))
        cpu = [math.log(ratio) / math.log(many / few) for ratio in _ratios(large, small)]
        work = f"growth of a snapshot, {few:,} to {many:,} websites: exponent of CPU"
        self.add(work, "", cpu, 1.05, low=0.95)
        # The oldest websites and the first page prove the list.
        extra = [float(turn["returned"] - many // 100) for turn in large]
        self.add("the same, full last page: requests besides n", "", extra, 2, unit=" more than n")

    def _latency(self, url: str) -> None:
        pages = self.sizes.pages
        element, eight, http = self.turns(
            "latency",
            *(("hook_list", {"url": url, "parallel": parallel}) for parallel in (1, 8)),
            ("http_operator_list", {"url": url, "pages": pages}),
        )
        work = f"complete list, {pages:,} pages, {LATENCY} ms latency, wall, 8 in flight"
        self.add(work, "one page after the other", _ratios(element, eight, "wall"), 7.5, faster=True)
        # Eight parallel requests are at most eight times faster; HttpOperator also opens a connection for each page.
        self.add(work, "`HttpOperator` with a pagination function", _ratios(http, eight, "wall"), 8, faster=True)

    def _laravel(self) -> None:
        if shutil.which("php") is None or not FRAMEWORK.exists():
            sys.stdout.write(f"Not measured: updates of a Laravel application. Run: {INSTALL}\n")
            return
        number = self.sizes.updates
        with LaravelApplication({"APP_API_KEY": API_KEY}, websites=number) as application:
            websites = {"url": application.url, "number": number}
            works = ("operator_updates", "http_client_updates")
            ours, bare = self.turns("laravel", *((work, websites) for work in works))
        work = f"{number:,} websites of a Laravel application updated and verified, wall"
        against = f"`http.client`, the same {2 * number:,} requests, eight in flight"
        self.add(work, against, _ratios(ours, bare, "wall"), None)

    def add(self, work: str, against: str, ratios: list[float], goal: float | None, **more: Any) -> None:
        """Keep a result and print it; see :class:`Result`."""
        self.results.append(Result(work, against, ratios, goal, **more))
        sys.stdout.write(f"{_line(self.results[-1].cells())}\n")
        sys.stdout.flush()

    def turns(self, name: str, *works: Work) -> list[list[dict[str, Any]]]:
        """Measure works in turns, each in a separate process; the first turn warms up and does not count."""
        with ExitStack() as stack:
            processes = [stack.enter_context(process(work)) for work in works]
            turns = [[measure() for measure in processes] for _ in range(self.sizes.repeats + 1)][1:]
        return self._keep(name, turns)

    def alone(self, name: str, *works: Work) -> list[list[dict[str, Any]]]:
        """Measure works in turns, each time in a new process."""
        return self._keep(name, [[once(work) for work in works] for _ in range(self.sizes.repeats)])

    def _keep(self, name: str, turns: list[list[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        measured = self.measured[name] = [list(found) for found in zip(*turns, strict=True)]
        return measured


def once(work: Work) -> dict[str, Any]:
    """Measure a work in a new process."""
    with process(work) as measure:
        return measure()


@contextmanager
def process(work: Work) -> Iterator[Callable[[], dict[str, Any]]]:
    """Start the process of a work, and yield the function that measures it once."""
    name, arguments = work
    with tempfile.TemporaryDirectory() as home:
        dropped = ("AIRFLOW_", "PYTHONDONTWRITEBYTECODE")
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
        airflow = {"AIRFLOW__CORE__LOAD_EXAMPLES": "False", "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR"}
        no_proxy = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        environment = {**inherited, "AIRFLOW_HOME": home, **airflow, **no_proxy}
        command = [sys.executable, str(WORKS), name, json.dumps(arguments)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with (
            Path(home, "errors").open("w+") as errors,
            subprocess.Popen(command, env=environment, stderr=errors, **pipes) as started,
        ):
            asked: Any = started.stdin
            lines: Any = started.stdout

            def measure() -> dict[str, Any]:
                asked.write("\n")
                asked.flush()
                said = []
                for line in lines:
                    # Airflow prints as well.
                    if line.startswith('{"cpu": '):
                        found: dict[str, Any] = json.loads(line)
                        return found
                    said.append(line)
                raise RuntimeError(f"{work} failed:\n{''.join(said)}\n{Path(home, 'errors').read_text()}")

            yield measure
            asked.close()


def _ratios(ours: list[dict[str, Any]], theirs: list[dict[str, Any]], quantity: str = "cpu") -> list[float]:
    return [our[quantity] / their[quantity] for our, their in zip(ours, theirs, strict=True)]


def _figure(number: float) -> str:
    if number >= 10 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.3g}" if number < 0.1 else f"{number:.2f}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


# Output


def table(results: list[Result]) -> list[str]:
    """Return the lines of the table."""
    head = ["work", "against", "median", "min to max", "goal", "reached"]
    return [_line(head), _line(["---"] * len(head)), *(_line(result.cells()) for result in results)]


def scale(measured: Mapping[str, Any], websites: int) -> list[str]:
    """Return the table of the needs of a snapshot, and of the largest one by calculation."""
    many = MAX_LIST_WEBSITES
    cpu = statistics.median(item["cpu"] for item in measured["growth"][-1])
    grown = statistics.median(item["memory"] for item in measured["growth, memory"][-1]) / 1024
    rows = [
        ["requests", *(f"{size // 100:,}" for size in (websites, many))],
        [
            f"waiting, {LATENCY} ms per response, 4 in flight",
            *_seconds(websites / 100 * LATENCY / 4000, many / websites),
        ],
        ["waiting with `requests_per_minute` 600", *_seconds(websites / 100 / 10, many / websites)],
        ["CPU", *_seconds(cpu, many / websites)],
        ["memory besides that of Airflow", f"{grown:,.0f} MiB", f"{grown * many / websites:,.0f} MiB"],
    ]
    head = ["a snapshot as JSON Lines of", f"{websites:,} websites", f"{many:,} websites, the limit, calculated"]
    return [_line(head), _line(["---"] * 3), *map(_line, rows)]


def _seconds(measured: float, times: float) -> Iterator[str]:
    for seconds in (measured, measured * times):
        yield f"{seconds:,.1f} s" if seconds < 100 else f"{seconds / 60:,.0f} min"


def machine(pairs: int) -> str:
    """Return the machine and the versions of the measurements."""
    import airflow

    parts = f"{os.cpu_count()} cores", f"Python {platform.python_version()}", f"Airflow {airflow.__version__}"
    return f"Measured with {', '.join(parts)}; medians of {pairs} pairs."


def fill(document: Path, name: str, lines: list[str]) -> None:
    """Replace the text between the markers of a block in a document."""
    marked = re.compile(rf"(<!-- begin {name}, written by `make bench` -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    text = document.read_text(encoding="utf-8")
    assert marked.search(text), f"{document} has no block {name}"
    document.write_text(marked.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], text), encoding="utf-8")


def document(bench: Bench) -> None:
    """Write the tables and the line of the documents."""
    docs = CHECKOUT / "docs"
    fill(
        CHECKOUT / "tests" / "benchmarks" / "results.md",
        "table",
        [machine(bench.sizes.repeats), "", *table(bench.results)],
    )
    fill(docs / "reference" / "performance.md", "scale", scale(bench.measured, bench.sizes.growth[-1]))
    found = {(result.work, result.against): f"{result.median:.0%}" for result in bench.results}
    get = next(ratio for (work, against), ratio in found.items() if "get_website" in work and "HttpHook" in against)
    memory = next(ratio for (work, _), ratio in found.items() if "peak memory" in work)
    lines = [
        f"Compared with `HttpHook` and `HttpOperator`, this package needs {get} of the CPU time per website, and "
        f"{memory} of the",
        f"memory for a list of 100,000 websites ([how it is measured]({REPOSITORY}/tests/benchmarks/results.md)).",
    ]
    fill(docs / "reference" / "performance.md", "ratios", lines)


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="three measurements of less work, to try something")
    size.add_argument("--tiny", action="store_true", help="one measurement of hardly any work, to see that all works")
    parser.add_argument("--document", action="store_true", help="write the figures into the documents")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "build" / "benchmarks", metavar="FOLDER")
    given = parser.parse_args()
    bench = Bench(QUICK if given.quick else TINY if given.tiny else FULL)
    sys.stdout.write("\n".join([machine(bench.sizes.repeats), "", *table([])]) + "\n")
    bench.run()
    given.output.mkdir(parents=True, exist_ok=True)
    content = {"results": [asdict(result) for result in bench.results], "measured": bench.measured}
    (given.output / "results.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    if given.document:
        document(bench)
    sys.stdout.write(f"\nAll measurements are in {given.output}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
