"""README.md is the page of the package as well: short, its links absolute, each to a file of this checkout."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.repository  # the pictures, the changelog

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REPOSITORY = "airflow-provider-analytics/airflow-provider-analytics"
PAGES = f"https://github.com/{REPOSITORY}/blob/main/"
PICTURES = f"https://raw.githubusercontent.com/{REPOSITORY}/main/"
TEXT, _, DEFINITIONS = README.partition("\n[airflow]: ")
LINKS = dict(re.findall(r"^\[(\S+)\]: (\S+)$", f"[airflow]: {DEFINITIONS}", re.MULTILINE))

#: The documents of users to what runs or checks their code, by its language.
RUN_BY = {
    "README.md": {
        "python": "tests/integration/test_readme_dags.py",
        "console": "tests/system/test_quickstart.py",
        "sh": "tests/system/test_quickstart.py",
    },
    "docs/quickstart.md": {
        "console": "tests/system/test_quickstart.py",
        "text": "tests/system/test_quickstart.py",
    },
    "docs/connection.md": {
        "console": "tests/unit/hooks/test_connection.py",
        "text": "tests/integration/probe/test_probe.py",
    },
    "docs/operators.md": {
        "python": "tests/integration/operators/test_by_itself.py",
        "console": "tests/system/test_quickstart.py",
    },
    "docs/reference/hook.md": {"python": "tests/integration/hooks/test_hook_over_a_socket.py"},
    "docs/testing.md": {
        "python": "tests/integration/sandbox/test_sandbox_page.py",
        "console": "tests/system/test_quickstart.py",
        "sh": "tests/integration/sandbox/test_sandbox_page.py",
        "text": "tests/integration/sandbox/test_sandbox_page.py",
    },
    "docs/snapshots.md": {
        "": "tests/integration/docs/test_snapshots_page.py",
        "python": "tests/integration/docs/test_snapshots_page.py",
        "json": "tests/integration/docs/test_snapshots_page.py",
    },
    "docs/comparison.md": {"python": "tests/integration/test_readme_dags.py"},
    "docs/deployment.md": {
        "console": "tests/system/test_deployment.py",
        "dockerfile": "tests/system/test_deployment.py",
        "ini": "tests/system/test_deployment.py",
        "python": "tests/integration/docs/test_guides.py",
        "sh": "tests/system/test_deployment.py",
        "yaml": "tests/system/test_deployment.py",
    },
    "docs/exclusions.md": {
        "console": "tests/integration/docs/test_exclusions_page.py",
        "json": "tests/integration/docs/test_exclusions_page.py",
        "python": "tests/integration/reconcile/test_reconcile_dag_runs.py",
    },
    "docs/loading.md": {
        "python": "tests/system/test_recipes.py",
        "sql": "tests/system/test_recipes.py",
    },
    "docs/operations.md": {"python": "tests/integration/docs/test_guides.py"},
    "docs/reference/sandbox.md": {
        "python": "tests/integration/sandbox/test_sandbox_page.py",
        "sh": "tests/integration/sandbox/test_sandbox_page.py",
    },
    "docs/troubleshooting.md": {
        "console": "tests/integration/docs/test_what_to_do.py",
        "python": "tests/integration/docs/test_recovery.py",
        "yaml": "tests/integration/docs/test_recovery.py",
    },
    "docs/websites_as_code.md": {
        "python": "tests/integration/reconcile/test_reconcile_dag_runs.py",
        "sh": "tests/integration/docs/test_rehearsal.py",
        "text": "tests/integration/docs/test_rehearsal.py",
        "yaml": "tests/integration/reconcile/test_reconcile_dag_runs.py",
    },
    "docs/websites_in_git.md": {
        "python": "tests/integration/docs/test_websites_in_git.py",
        "text": "tests/integration/docs/test_websites_in_git.py",
        "yaml": "tests/integration/docs/test_websites_in_git.py",
    },
    "docs/guarantees.md": {},
    "docs/interface.md": {},
    "docs/security.md": {},
}


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 90


def test_it_says_what_it_prevents_and_then_how_it_is_used_on_the_first_screen() -> None:
    lines = TEXT.splitlines()
    headings = [line for line in lines if line.startswith("## ")]
    assert headings[:3] == ["## Four failures it prevents", "## Install and use", "## Does it fit your service?"]
    assert lines.index("```", lines.index("```python")) < 40


def test_its_links_stand_at_the_end_so_that_its_source_can_be_read() -> None:
    assert "](" not in TEXT
    used = {name or text for text, name in re.findall(r"\[([^\[\]]+)\](?:\[([^\]]+)\])?", code_left_out(TEXT))}
    assert used == LINKS.keys()
    assert list(LINKS) == sorted(LINKS)


def code_left_out(text: str) -> str:
    return re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)


def test_each_link_to_this_repository_is_absolute_and_has_its_file() -> None:
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


def test_it_links_to_the_documentation_site() -> None:
    places = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert LINKS["site"] == places["Documentation"]
    assert "[site]" in TEXT.partition("\n## ")[0]


@pytest.mark.parametrize("document", [name for name in RUN_BY if name.startswith("docs/")])
def test_each_link_of_its_documents_has_its_file_and_its_heading(document: str) -> None:
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


def test_every_page_is_checked_here() -> None:
    assert {f"docs/{file.name}" for file in (ROOT / "docs").glob("*.md")} <= RUN_BY.keys()


def test_all_documents_are_named() -> None:
    pages = (target.partition("#")[0] for target in LINKS.values() if target.startswith(f"{PAGES}docs/"))
    named = {page.removeprefix(f"{PAGES}docs/") for page in pages}
    reference = {f"reference/{name}.md" for name in ("compatibility", "hook", "operators")}
    assert named == {*(file.name for file in (ROOT / "docs").glob("*.md")), *reference}


@pytest.mark.parametrize("document", RUN_BY)
def test_all_code_is_run_or_checked(document: str) -> None:
    # What is written from docstrings has signatures.
    text = re.split("<!-- begin (?:hook|sandbox)", (ROOT / document).read_text(encoding="utf-8"))[0]
    # Every other fence ends a block.
    assert set(re.findall(r"^```(.*)$", text, re.MULTILINE)[::2]) == set(RUN_BY[document])
    for test in RUN_BY[document].values():
        stem = Path(document).stem
        assert re.search(rf"\b{stem}\b", (ROOT / test).read_text(encoding="utf-8")), f"{test} does not name {document}"
