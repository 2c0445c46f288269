"""README.md is the page of the package as well: short, its links absolute, each to a file of this checkout."""

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
LINKS = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]*)\)", README)

#: The documents of a new user to what runs or checks their code, by its language.
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
    "docs/connection.md": {"console": "tests/unit/hooks/test_connection.py"},
    "docs/operators.md": {
        "python": "tests/integration/operators/test_by_itself.py",
        "console": "tests/system/test_quickstart.py",
    },
    "docs/reference/hook.md": {"python": "tests/integration/hooks/test_hook_over_a_socket.py"},
    "docs/testing.md": {
        "python": "tests/system/test_quickstart.py",
        "console": "tests/system/test_quickstart.py",
    },
    "docs/guarantees.md": {},
}


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 90


def test_each_link_to_this_repository_is_absolute_and_has_its_file() -> None:
    assert {target for _, target in LINKS if not target.startswith("https://")} == set()
    files = [target.removeprefix(base) for _, target in LINKS for base in (PAGES, PICTURES) if target.startswith(base)]
    assert len(files) > 10
    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert all(target.startswith(PICTURES) for is_picture, target in LINKS if is_picture)
    assert not [target for is_picture, target in LINKS if not is_picture and target.startswith(PICTURES)]


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


def test_all_documents_are_named() -> None:
    named = {target.removeprefix(f"{PAGES}docs/") for _, target in LINKS if target.startswith(f"{PAGES}docs/")}
    assert named == {*(file.name for file in (ROOT / "docs").glob("*.md")), "reference/hook.md"}


@pytest.mark.parametrize("document", RUN_BY)
def test_all_code_of_the_first_minutes_is_run_or_checked(document: str) -> None:
    # What is written from docstrings has signatures.
    text = (ROOT / document).read_text(encoding="utf-8").partition("<!-- begin hook")[0]
    # Every other fence ends a block.
    assert set(re.findall(r"^```(.*)$", text, re.MULTILINE)[::2]) == set(RUN_BY[document])
    for test in RUN_BY[document].values():
        stem = Path(document).stem
        assert re.search(rf"\b{stem}\b", (ROOT / test).read_text(encoding="utf-8")), f"{test} does not name {document}"
