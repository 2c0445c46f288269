# SPDX-License-Identifier: Apache-2.0
"""Documents: links, code blocks, limits, pictures, install commands, guarantees, and the generated reference."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import reference
from install_commands import DOCUMENTS, install_commands
from screenshots import IMAGES, PICTURES, RECORDINGS

from airflow_provider_analytics import exceptions, guards, storage
from airflow_provider_analytics.api import checks, client, domains, laravel, listing, rejections, transport, waiting
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.reconcile import service_websites
from airflow_provider_analytics.reconcile.apply import application
from airflow_provider_analytics.reconcile.desired import list_lines, tables, yaml_values
from airflow_provider_analytics.reconcile.plan import plan_markdown
from airflow_provider_analytics.snapshots import run_day

pytestmark = pytest.mark.repository  # the pictures, the changelog

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = "airflow-provider-analytics/airflow-provider-analytics"
PAGES = f"https://github.com/{REPOSITORY}/blob/main/"
RAW_FILES = f"https://raw.githubusercontent.com/{REPOSITORY}/main/"
TEXT, _, DEFINITIONS = README.partition("\n[changelog]: ")
LINKS = dict(re.findall(r"^\[(\S+)\]: (\S+)$", f"[changelog]: {DEFINITIONS}", re.MULTILINE))

#: User documents to the tests that run or check their code, with its languages; ``-`` for none.
RUN_BY: dict[str, dict[str, str]] = {
    "README.md": {"integration/test_readme_dags": "python", "system/test_quickstart": "console output sh"},
    "docs/quickstart.md": {"system/test_quickstart": "console output"},
    "docs/concepts.md": {},
    "docs/sample_dags.md": {},
    "docs/guards.md": {},
    "docs/how_it_works.md": {"integration/docs/test_pages": "text"},
    "docs/connection.md": {"unit/hooks/test_connection": "console"},
    "docs/operators.md": {"system/test_quickstart": "console python"},
    "docs/reference/exceptions.md": {"integration/hooks/test_hook_over_a_socket": "python text"},
    "docs/reference/hook.md": {"integration/hooks/test_hook_over_a_socket": "python"},
    "docs/testing.md": {
        "integration/sandbox/test_sandbox_command": "output python sh",
        "system/test_quickstart": "console",
    },
    "docs/snapshots.md": {"integration/docs/test_pages": "- python", "system/test_oldest_pip": "console"},
    "docs/limitations.md": {},
    "docs/single_websites.md": {"integration/docs/test_guides": "python"},
    "docs/deployment.md": {
        "system/test_deployment": "console dockerfile sh yaml",
        "integration/docs/test_guides": "python",
    },
    "docs/exclusions.md": {"integration/operators/test_reconciling_dag_runs": "python"},
    "docs/loading.md": {"system/test_recipes": "sql"},
    "docs/monitoring.md": {"integration/docs/test_guides": "python"},
    "docs/reference/sandbox.md": {"integration/sandbox/test_sandbox_command": "python"},
    "docs/troubleshooting.md": {"integration/docs/test_recovery": "console python"},
    "docs/websites_from_a_table.md": {"integration/docs/test_guides": "csv output python"},
    "docs/websites_as_code.md": {"integration/operators/test_reconciling_dag_runs": "python yaml"},
    "docs/websites_in_git.md": {"integration/docs/test_websites_in_git": "python text"},
    "docs/guarantees.md": {},
    "docs/reference/interface.md": {},
    "docs/security.md": {},
}


def test_readme_is_short_with_its_links_at_the_end() -> None:
    assert len(TEXT.splitlines()) <= 125
    assert "](" not in TEXT
    without_code = re.sub(r"```.*?```|`[^`]*`", "", TEXT, flags=re.DOTALL)
    used = {name or text for text, name in re.findall(r"\[([^\[\]]+)\](?:\[([^\]]+)\])?", without_code)}
    assert used == LINKS.keys()


def test_readme_links_to_this_repository_are_absolute_and_have_a_file() -> None:
    assert {target for target in LINKS.values() if not target.startswith("https://")} == set()
    files = [
        target.removeprefix(base).partition("#")[0]
        for target in LINKS.values()
        for base in (PAGES, RAW_FILES)
        if target.startswith(base)
    ]
    assert len(files) > 10
    assert [file for file in files if not (ROOT / file).is_file()] == []
    for name, target in LINKS.items():
        assert target.startswith(RAW_FILES) == (re.search(rf"!\[[^\]]*\]\[{name}\]", TEXT) is not None), name
        if heading := target.partition("#")[2]:
            assert heading in headings(ROOT / target.removeprefix(PAGES).partition("#")[0]), target


@pytest.mark.parametrize("document", [name for name in RUN_BY if name.startswith("docs/")])
def test_document_link_leads_to_an_existing_file_and_heading(document: str) -> None:
    for target in re.findall(r"\]\(([^)\s]*)\)", (ROOT / document).read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, heading = target.partition("#")
        file = (ROOT / document).parent / name if name else ROOT / document
        assert file.is_file(), target
        assert not heading or heading in headings(file), target


def headings(file: Path) -> set[str]:
    """Return the anchors of a document, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_every_page_is_in_the_navigation_and_checked() -> None:
    pages = {str(file.relative_to(ROOT)) for file in (ROOT / "docs").glob("*.md")}
    assert pages <= RUN_BY.keys()
    navigation = re.findall(r"(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert pages <= {f"docs/{name}" for name in navigation}


@pytest.mark.parametrize("document", RUN_BY)
def test_every_code_block_is_run_or_checked(document: str) -> None:
    # Generated documents contain signatures of docstrings.
    text = (ROOT / document).read_text(encoding="utf-8")
    text = re.sub(r"<!-- begin (hook|sandbox|commands).*?<!-- end \1", "", text, flags=re.DOTALL)
    # Every other fence ends a block.
    languages = {language or "-" for language in re.findall(r"^```(.*)$", text, re.MULTILINE)[::2]}
    assert languages == set(" ".join(RUN_BY[document].values()).split())
    for test in RUN_BY[document]:
        source = (ROOT / "tests" / f"{test}.py").read_text(encoding="utf-8")
        assert re.search(rf"\b{Path(document).stem}\b", source), f"{test} does not name {document}"


ERRORS = [found for name, found in vars(exceptions).items() if name.endswith("Error")]
METHODS = [found for name, found in vars(AnalyticsHook).items() if inspect.isfunction(found) and name[0] != "_"]
OPERATORS = [
    found
    for module in map(import_module, reference.operator_modules())
    for name, found in vars(module).items()
    if getattr(found, "__module__", "") == module.__name__ and callable(found) and name[0] != "_"
]


@pytest.mark.parametrize("found", [*ERRORS, *METHODS, *OPERATORS], ids=lambda found: found.__qualname__)
def test_defaults_are_those_of_the_nearest_signature(found: Callable[..., Any]) -> None:
    defaults = reference.defaults_of(found)
    for name, parameter in inspect.signature(found).parameters.items():
        expected = None
        if parameter.default is not inspect.Parameter.empty:
            expected = getattr(parameter.default, "__name__", repr(parameter.default))
        assert defaults.get(name) == expected, name


def test_class_is_printed_by_its_name_and_keyword_arguments_with_stars_and_without_a_default() -> None:
    page = "\n".join(reference.operators("airflow_provider_analytics.operators.task_groups"))
    assert "* `operator` (default `SyncExcludedIpsOperator`): " in page
    assert page.count("* `**arguments`: ") == 2
    assert "* `**settings`: as for `create_website`." in "\n".join(reference.hook())


def test_arguments_in_common_are_printed_once() -> None:
    page = "\n".join(reference.operators("airflow_provider_analytics.operators.exclusions"))
    assert page.count("* `state_path`") == 1
    assert "The same as in [`SyncExcludedIpsOperator`](#syncexcludedipsoperator): `websites`," in page


@pytest.mark.parametrize("error", ERRORS, ids=lambda found: found.__name__)
def test_documented_attributes_of_an_exception_exist(error: type) -> None:
    source = "".join(inspect.getsource(base) for base in error.__mro__ if base.__module__ == error.__module__)
    documented = re.findall(r"^ +:param (\w+):", inspect.getsource(error), re.MULTILINE)
    assert {name for name in documented if not re.search(rf"(?m)self\.{name} =|^    {name}: ", source)} == set()


def test_every_public_function_is_in_the_reference() -> None:
    public = (reference._DOCS / "reference" / "public_api.txt").read_text(encoding="utf-8")
    names = re.findall(r"^airflow_provider_analytics\.[\w.]+\.(\w+)\(", public, re.MULTILINE)
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (reference._DOCS / "reference").rglob("*.md"))
    assert {name for name in names if not re.search(rf"^#+ {name}$", pages, re.MULTILINE)} == set()
    assert "read_snapshot" in names


DOCS = ROOT / "docs"
PAGE = DOCS / "reference" / "performance.md"
UNITS = {"MiB": 1024**2, "GiB": 1024**3}
LIMITS: list[list[float]] = [
    [transport.MAX_BODY_BYTES, laravel.MAX_VALUES],
    [transport.MAX_SHARED_BYTES, transport.MAX_SHARED_VALUES],
    [listing.MAX_LIST_WEBSITES, listing.MAX_LIST_PAGES, listing.MAX_LIST_BYTES, listing.MAX_LIST_VALUES],
    [laravel.MAX_ID_LENGTH],
    [checks.MAX_DEPTH],
    [exceptions.MAX_MESSAGE],
    [storage.MAX_TEXT_BYTES],
    [yaml_values.MAX_VALUES],
    [storage.MAX_STATE_BYTES, storage.MAX_STATE_VALUES],
    [domains.MAX_PATTERNS],
    [storage.MAX_DATA_BYTES, storage.MAX_EXPANDED_BYTES, storage.MAX_ROWS],
    [storage.MAX_ROW_BYTES],
    [storage.MAX_GROUP_BYTES],
    [storage.LOCK_SECONDS],
]


def test_page_about_performance_names_the_size_limits_of_the_code() -> None:
    section = PAGE.read_text().partition("## Size limits")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!Input|---).* \| (.*) \|$", section, re.MULTILINE)
    documented = []
    for limits in rows:
        found = re.findall(r"([\d,]+\d|\d)\b(?: (MiB|GiB))?", limits)
        documented.append([float(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found])
    assert documented == LIMITS
    assert transport.MAX_TIMEOUTS == 10
    assert storage.MAX_EXPORTED == storage.MAX_ROW_BYTES


WAITED = sum(client.CONFIRM_WAITS)
#: Page to a part of a sentence, with the number of the code.
SENTENCES = [
    ("connection.md", f"`Retry-After` of at most {waiting.MAX_WAIT:g} s"),
    ("connection.md", f"after {rejections.ANNOUNCED_SECONDS / 60:g} minutes"),
    ("connection.md", f"after {rejections.REJECTED_SECONDS / 60:g} minutes"),
    (
        "exclusions.md",
        f"after {service_websites.GIVE_UP_AFTER} failures in a row, or after {application.FAILURES_AT_FIRST} at the",
    ),
    ("exclusions.md", f"entries that expire within {list_lines.EXPIRING_DAYS} days"),
    ("exclusions.md", f"its addresses are kept for {list_lines.KEEP_UNRESOLVED_DAYS} days"),
    ("exclusions.md", f"removed from it in the last {tables.KEPT_DAYS} days"),
    ("exclusions.md", f"a list that has not run for {tables.SPARING_DAYS} days"),
    ("guarantees.md", f"at most {WAITED:g} s after the write, or {WAITED + sum(client.ACCEPTED_WAITS):g} s after"),
    ("guarantees.md", f"then 1, 2, 4, {2 * application.DOUBLED_FROM}, and {6 * application.DOUBLED_FROM}"),
    ("reference/hook.md", f"under way has {'two' if waiting.GRACE_SECONDS == 2 else 'other'} seconds to finish"),
    ("guards.md", f"more than {run_day.CLOCK_SKEW.seconds // 60} minutes behind"),
    ("guards.md", f"Fewer than {guards.MIN_COUNTED} items** are not checked"),
    ("snapshots.md", f"ended at most {run_day.LATE_TOLERANCE.seconds // 3600} hours ago"),
    ("reference/operators/websites_as_code.md", f"{plan_markdown.MAX_CHARACTERS:,} characters"),
]


@pytest.mark.parametrize(("page", "part"), SENTENCES)
def test_guide_names_the_number_of_the_code(page: str, part: str) -> None:
    assert part in " ".join((DOCS / page).read_text().split())


GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text()
TESTS = (ROOT / "tests" / "guarantee_tests.md").read_text()


def test_every_guarantee_has_tests() -> None:
    section = re.compile(r"^## (.+)$", re.MULTILINE)
    assert section.findall(TESTS) == section.findall(GUARANTEES.partition("\n## Conditions")[0])
    for guarantee in re.split(r"^## ", TESTS, flags=re.MULTILINE)[1:]:
        assert re.search(r"^\* (`test_\w+`|the \[attacks\])", guarantee, re.MULTILINE), guarantee


@pytest.mark.parametrize("page", ["tests/guarantee_tests", "docs/internals/threat_model"])
def test_tests_named_in_a_document_exist(page: str) -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / f"{page}.md").read_text()))
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()
    assert len(named) >= 5


def test_every_attack_has_an_existing_test() -> None:
    text = (DOCS / "internals" / "threat_model.md").read_text()
    attacks = text.partition("\n## Supply chain")[0]
    rows = [line for line in attacks.splitlines() if re.match(r"\| (?!attack|---)", line)]
    assert [row for row in rows if "`test" not in row] == []
    assert [path for path in re.findall(r"`(tests/[\w/]+\.py)`", text) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("command", install_commands())
def test_install_command_names_airflow_and_constraints(command: str) -> None:
    """Without both, an older pip downloads hundreds of files and finds no solution within ten minutes."""
    airflow = re.search(r'"apache-airflow==(\S+)"', command)
    assert airflow
    assert re.search(rf"--constraint \S*constraints/airflow-{re.escape(airflow[1])}\.txt$", command)


def test_install_commands_never_name_the_unregistered_package() -> None:
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    lines = [line for line in text.splitlines() if "pip install" in line]
    assert len(lines) >= len(install_commands()) > 3
    by_name = re.compile(r"""(?:^|[\s'"])airflow-provider-analytics\b(?!/)""")
    assert [line for line in lines if by_name.search(line)] == []


def test_documents_contain_the_generated_pictures_and_these_are_small() -> None:
    texts = [README, *(path.read_text("utf-8") for path in DOCS.rglob("*.md"))]
    shown = {picture for text in texts for picture in re.findall(r"!\[.+\]\([^)]*?([\w-]+\.(?:png|gif))\)", text)}
    pictures = [path for path in IMAGES.iterdir() if path.suffix != ".txt"]
    assert shown == {path.name for path in pictures}
    assert {path.stem for path in pictures} == {path.stem for path in IMAGES.glob("*.txt")}
    assert shown >= {*(f"{name}.png" for name in PICTURES), *(f"{name}.gif" for name in RECORDINGS)}
    limits = {".png": 150_000, ".gif": 2_000_000}
    assert [path.name for path in pictures if path.stat().st_size > limits[path.suffix]] == []
