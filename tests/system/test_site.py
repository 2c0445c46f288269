"""The documentation site: built strictly by ``make docs``; its pages, links, reference and llms.txt."""

from __future__ import annotations

import inspect
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml

from airflow_provider_analytics import exceptions
from airflow_provider_analytics.hooks.analytics import AnalyticsHook

pytestmark = [pytest.mark.repository, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/airflow-provider-analytics/airflow-provider-analytics"


class Page(HTMLParser):
    """What a page of the site links to, loads, and can be linked to.

    :param path: file of the page.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.anchors.add(found["id"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("img", "script") and "src" in found:
            self.loaded.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon"):
            self.loaded.append(found["href"])


@pytest.fixture(scope="module")
def site(checkout: Path, environment: dict[str, str]) -> Path:
    done = subprocess.run(["make", "docs"], cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.replace("Setting up .tools\n", "").replace("Setting up .tools/docs\n", "") == ""
    return checkout / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Page]:
    """The pages by their address below that of the site."""
    return {
        str(path.relative_to(site)).removesuffix("index.html"): Page(path)
        for path in site.rglob("*.html")
        if path.name != "404.html"
    }


def test_every_link_within_the_site_leads_somewhere(site: Path, pages: dict[str, Page]) -> None:
    dead = []
    for address, page in pages.items():
        for link in (*page.links, *page.loaded):
            target = urlsplit(urljoin(f"https://site/{address}", link))
            if target.netloc != "site":
                continue
            path, anchor = unquote(target.path.removeprefix("/")), unquote(target.fragment)
            is_there = path in pages or (site / path).is_file()
            if not is_there or (anchor and path in pages and anchor not in pages[path].anchors):
                dead.append(f"{address}: {link}")
    assert dead == []
    assert sum(len(page.links) for page in pages.values()) > 1000
    # No reader is told to anybody.
    assert [link for page in pages.values() for link in page.loaded if urlsplit(link).netloc] == []


def test_every_link_to_the_repository_has_its_file() -> None:
    """Also those of README.md, which the package page shows, where no link is relative."""
    address = re.compile(rf"{re.escape(REPOSITORY)}/(?:blob|tree|raw)/main/([^)#\s\"]+)")
    texts = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [
        *(ROOT / "docs").rglob("*.md")
    ]
    linked = {(text.name, path) for text in texts for path in address.findall(text.read_text(encoding="utf-8"))}
    assert linked
    assert {(name, path) for name, path in linked if not (ROOT / path).exists()} == set()


def test_the_first_page_is_the_readme_and_the_changelog_is_that_of_the_repository(site: Path) -> None:
    heading = (ROOT / "README.md").read_text().splitlines()[0].removeprefix("# ")
    assert f">{heading}" in (site / "index.html").read_text()
    version = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert version in (site / "changelog" / "index.html").read_text()


def test_the_reference_has_every_operator_hook_method_and_exception(site: Path, pages: dict[str, Page]) -> None:
    operators = [
        entry["module"] for entry in yaml.safe_load((ROOT / ".airflow-registry.yaml").read_text())["operators"]
    ]
    assert {name.rpartition(".")[2].lower() for name in operators} <= pages["reference/operators/"].anchors
    methods = {name for name, found in vars(AnalyticsHook).items() if inspect.isfunction(found) and name[0] != "_"}
    assert methods <= pages["reference/hook/"].anchors
    raised = {name.lower() for name in vars(exceptions) if name.endswith("Error")}
    assert raised <= pages["reference/exceptions/"].anchors
    for path in (site / "reference").rglob("*.html"):
        rst = re.search(
            r":(class|func|data|param|return|raises):?|\.\. code-block|``", path.read_text(encoding="utf-8")
        )
        assert rst is None, path


def test_llms_txt_names_every_page_with_what_it_is_about(site: Path, pages: dict[str, Page]) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[.+\]\((.+)\): (.+)$", text, re.MULTILINE)
    assert len(listed) == text.count("\n- ")
    [begin] = re.findall(r"^site_url: (\S+)", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(address.removeprefix(begin) for address, _ in listed) == sorted(pages)
    assert all(20 < len(about) < 400 for _, about in listed)


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("merge added", "exclusions/#an-address-that-merge-added-or-that-stays"),
        ("return value snapshot", "snapshots/#return-value-of-a-snapshot"),
        ("api key rejected", "troubleshooting/#api-key-rejected"),
    ],
)
def test_the_search_knows_what_readers_look_for(site: Path, query: str, place: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    [title] = [entry["title"] for entry in index["docs"] if entry["location"] == place]
    assert {*query.split()} <= {*re.findall(r"\w+", title.lower())}


def test_what_leads_nowhere_stops_the_build(
    site: Path, checkout: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    for name in ("docs", "scripts", "airflow_provider_analytics", "constraints"):
        shutil.copytree(checkout / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "CHANGELOG.md", "mkdocs.yml", "Makefile"):
        shutil.copy(checkout / name, tmp_path / name)
    (tmp_path / ".tools").symlink_to(checkout / ".tools")
    dead = ["nowhere.md", "snapshots.md#nowhere", "../dags/websites.yaml", "/snapshots"]
    with (tmp_path / "docs" / "operations.md").open("a") as page:
        page.writelines(f"\n[gone]({link})\n" for link in dead)
    (tmp_path / "docs" / "in_no_navigation.md").write_text("# Forgotten\n\nA page.\n")
    done = subprocess.run(["make", "docs"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Aborted with 5 warnings" in done.stdout, done.stdout
    warnings = [line for line in done.stdout.splitlines() if line.startswith("WARNING")]
    for link in dead:
        assert any("operations.md" in line and link in line for line in warnings), link
    assert "in_no_navigation.md" in done.stdout
