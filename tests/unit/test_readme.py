# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/: the README is short, and the links lead to files of this checkout."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository  # the pictures, the changelog

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = "airflow-provider-analytics/airflow-provider-analytics"
PAGES = f"https://github.com/{REPOSITORY}/blob/main/"
PICTURES = f"https://raw.githubusercontent.com/{REPOSITORY}/main/"
TEXT, _, DEFINITIONS = README.partition("\n[changelog]: ")
LINKS = dict(re.findall(r"^\[(\S+)\]: (\S+)$", f"[changelog]: {DEFINITIONS}", re.MULTILINE))

#: User documents to the tests that run or check their code, with its languages; ``-`` for none.
RUN_BY: dict[str, dict[str, str]] = {
    "README.md": {"integration/test_readme_dags": "python", "system/test_quickstart": "console output sh"},
    "docs/quickstart.md": {"system/test_quickstart": "console output"},
    "docs/concepts.md": {},
    "docs/sample_dags.md": {},
    "docs/guards.md": {},
    "docs/how_it_works.md": {"integration/docs/test_how_it_works": "text"},
    "docs/connection.md": {"unit/hooks/test_connection": "console"},
    "docs/operators.md": {"system/test_quickstart": "console python"},
    "docs/reference/exceptions.md": {"integration/hooks/test_hook_over_a_socket": "python text"},
    "docs/reference/hook.md": {"integration/hooks/test_hook_over_a_socket": "python"},
    "docs/testing.md": {
        "integration/sandbox/test_sandbox_page": "output python sh",
        "system/test_quickstart": "console",
    },
    "docs/snapshots.md": {
        "integration/docs/test_snapshots_page": "- python",
        "system/test_oldest_pip": "console",
    },
    "docs/limitations.md": {},
    "docs/single_websites.md": {"integration/docs/test_guides": "python"},
    "docs/deployment.md": {
        "system/test_deployment": "console dockerfile sh yaml",
        "integration/docs/test_guides": "python",
    },
    "docs/exclusions.md": {"integration/operators/test_reconciling_dag_runs": "python"},
    "docs/loading.md": {"system/test_recipes": "sql"},
    "docs/monitoring.md": {"integration/docs/test_guides": "python"},
    "docs/reference/sandbox.md": {"integration/sandbox/test_sandbox_page": "python"},
    "docs/troubleshooting.md": {"integration/docs/test_recovery": "console python"},
    "docs/websites_from_a_table.md": {"integration/docs/test_guides": "csv output python"},
    "docs/websites_as_code.md": {
        "integration/operators/test_reconciling_dag_runs": "python yaml",
    },
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
        for base in (PAGES, PICTURES)
        if target.startswith(base)
    ]
    assert len(files) > 10
    assert [file for file in files if not (ROOT / file).is_file()] == []
    for name, target in LINKS.items():
        assert target.startswith(PICTURES) == (re.search(rf"!\[[^\]]*\]\[{name}\]", TEXT) is not None), name
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
