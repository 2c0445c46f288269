# SPDX-License-Identifier: Apache-2.0
"""Documentation site of ``make docs``: links, reference, and llms.txt."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml
from browser import Screen

from airflow_provider_analytics import exceptions
from airflow_provider_analytics.hooks.analytics import AnalyticsHook

pytestmark = [pytest.mark.repository, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/airflow-provider-analytics/airflow-provider-analytics"


@pytest.fixture(scope="module")
def site(checkout: Path, environment: dict[str, str]) -> Path:
    done = subprocess.run(["make", "docs"], cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    usual = ("Setting up ", "The checkout has uncommitted changes")
    assert [line for line in done.stdout.splitlines() if not line.startswith(usual)] == []
    return checkout / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, str]:
    """The text of the pages, by their path on the site."""
    files = [path for path in site.rglob("*.html") if path.name != "404.html"]
    return {str(path.relative_to(site)).removesuffix("index.html"): path.read_text("utf-8") for path in files}


def test_docs_site_loads_no_third_party_resources(pages: dict[str, str]) -> None:
    loads = re.compile(
        r'<(?:img|script)\b[^>]* src="(?:https?:)?//[^"]*"|<link\b[^>]* rel="(?:stylesheet|icon)"[^>]*//[^>]*>'
    )
    assert [found for text in pages.values() for found in loads.findall(text)] == []


def test_every_link_to_the_repository_leads_to_an_existing_file() -> None:
    """This includes the links of README.md, which the package page displays, so none is relative."""
    address = re.compile(rf"{re.escape(REPOSITORY)}/(?:blob|tree|raw)/main/([^)#\s\"]+)")
    texts = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + [
        *(ROOT / "docs").rglob("*.md")
    ]
    linked = {(text.name, path) for text in texts for path in address.findall(text.read_text(encoding="utf-8"))}
    assert linked
    assert {(name, path) for name, path in linked if not (ROOT / path).exists()} == set()


def test_site_includes_the_readme_and_the_changelog_of_the_repository(site: Path) -> None:
    heading = (ROOT / "README.md").read_text().splitlines()[0].removeprefix("# ")
    assert f">{heading}" in (site / "index.html").read_text()
    version = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert version in (site / "changelog" / "index.html").read_text()


def test_reference_has_every_operator_hook_method_and_exception(pages: dict[str, str]) -> None:
    def anchors(page: str) -> set[str]:
        return set(re.findall(r'\bid="([^"]+)"', pages[f"reference/{page}/"]))

    for entry in yaml.safe_load((ROOT / ".airflow-registry.yaml").read_text())["operators"]:
        module, _, name = entry["module"].rpartition(".")
        assert name.lower() in anchors(f"operators/{module.rpartition('.')[2]}")
    methods = {name for name, found in vars(AnalyticsHook).items() if inspect.isfunction(found) and name[0] != "_"}
    assert methods - {"get_conn", "client"} <= anchors("hook")  # every hook has them
    listed = pages["reference/exceptions/"]
    assert [name for name in vars(exceptions) if name.endswith("Error") and name not in listed] == []
    rst = re.compile(r":(class|func|data|param|return|raises):?|\.\. code-block|``")
    assert [name for name, text in pages.items() if name.startswith("reference/") and rst.search(text)] == []


def test_llms_txt_names_and_describes_every_page(site: Path, pages: dict[str, str]) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[.+\]\((.+)\): (.+)$", text, re.MULTILINE)
    assert len(listed) == text.count("\n- ")
    [begin] = re.findall(r"^site_url: (\S+)", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(address.removeprefix(begin) for address, _ in listed) == sorted(pages)
    assert all(20 < len(about) < 400 for _, about in listed)


#: What a reader types into the search, and the page or the section that has to come first.
SEARCHES = {
    "exclude office addresses": "Which addresses to exclude",
    "load into bigquery": "Load snapshots into a warehouse",
    "website disappears": "A website disappears or changes",
    "restore deleted websites": "Restore deleted websites from a snapshot",
    "undo a change": "Recovery: undo a change",
    "approve in a pull request": "Review websites in pull requests",
    "many services": "Many services or instances",
    "rotate api key": "Rotate the API key",
    "proxy": "Proxy and certificates",
    "rate limit and timeouts": "Rate limit and timeouts",
    "create change delete one website": "Create, change, and delete single websites",
}


@pytest.fixture
def site_url(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.browser
def test_search_finds_each_task_first(site_url: str, screen: Screen) -> None:
    found = {}
    for query in SEARCHES:
        screen.open(f"{site_url}?q={quote(query)}")
        first = ".md-search-result__item:first-child"
        screen.shown(f"{first} h1")
        titles = [element.get_attribute("textContent") for element in screen.all(f"{first} h1, {first} h2")]
        found[query] = titles[:2]
    assert {query: titles for query, titles in found.items() if SEARCHES[query] not in titles} == {}


def test_broken_link_stops_the_build(site: Path, checkout: Path, environment: dict[str, str], tmp_path: Path) -> None:
    for name in ("docs", "scripts", "airflow_provider_analytics", "constraints"):
        shutil.copytree(checkout / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "CHANGELOG.md", "mkdocs.yml", "Makefile"):
        shutil.copy(checkout / name, tmp_path / name)
    (tmp_path / ".tools").symlink_to(checkout / ".tools")
    dead = ["nowhere.md", "snapshots.md#nowhere", "../dags/websites.yaml", "/snapshots"]
    with (tmp_path / "docs" / "monitoring.md").open("a") as page:
        page.writelines(f"\n[gone]({link})\n" for link in dead)
    (tmp_path / "docs" / "in_no_navigation.md").write_text("# Forgotten\n\nA page.\n")
    done = subprocess.run(["make", "docs"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Aborted with 5 warnings" in done.stdout, done.stdout
    warnings = [line for line in done.stdout.splitlines() if line.startswith("WARNING")]
    for link in dead:
        assert any("monitoring.md" in line and link in line for line in warnings), link
    assert "in_no_navigation.md" in done.stdout
