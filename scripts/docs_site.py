# SPDX-License-Identifier: Apache-2.0
"""Hooks of MkDocs: the pages of the site that are no files of docs/.

It runs in the environment of ``make docs``, without Airflow and this package.
"""

# ruff: noqa: ARG001 - MkDocs hands over its arguments by name

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

CHECKOUT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/airflow-provider-analytics/airflow-provider-analytics"
#: Page of the site to the file of the repository that it is.
PAGES = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}

#: The start page of the site does not link to itself, and its navigation has the tasks.
_NOT_ON_SITE = re.compile(r"Documentation:\s+<https://\S+>\n|## What do you want to do\?\n.*?(?=## )", re.DOTALL)

#: A link to a file of the repository, whatever the branch or tag: relative, to GitHub's page of it, or to the file.
_LINK = re.compile(
    r"(\]\(|^\[[^\]]+\]: )"
    r"(?:https://(?:github\.com|raw\.githubusercontent\.com)/airflow-provider-analytics/airflow-provider-analytics/"
    r"(?:(?:blob|raw|tree)/)?[\w.-]+/|(?!#|\w+:))(?=\w)([^)\s]+)",
    re.MULTILINE,
)

#: Source of each page to its first sentence.
_sentences: dict[str, str] = {}
_navigation: list[Any] = []


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are files at the top of the repository."""
    for page, source in PAGES.items():
        text = _NOT_ON_SITE.sub("", (CHECKOUT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, page, content=as_page(text)))
    return files


def as_page(text: str) -> str:
    """Return a text from the top of the repository with its links as those of a page of the site."""
    made_from = {source: page for page, source in PAGES.items()}

    def link(found: re.Match[str]) -> str:
        begin, path = found.groups()
        on_site = made_from.get(path, path.removeprefix("docs/"))
        return f"{begin}{on_site}" if on_site != path else f"{begin}{REPOSITORY}/blob/main/{path}"

    return _LINK.sub(link, text)


def on_config(config: Any) -> Any:
    """Add the version of the package to the footer."""
    source = (CHECKOUT / "airflow_provider_analytics" / "__init__.py").read_text(encoding="utf-8")
    [version] = re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE)
    config["copyright"] = config["copyright"].replace("VERSION", version)
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Exclude the changelog from the search, because it repeats the words of all other pages; prefer recovery."""
    if page.file.src_uri == "changelog.md":
        page.meta["search"] = {"exclude": True}
    if page.file.src_uri == "troubleshooting.md":
        page.meta["search"] = {"boost": 1.3}
    return markdown


def on_nav(nav: Any, config: Any, files: Files) -> None:
    """Keep the pages in the order of the navigation."""
    _navigation[:] = nav.pages


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Keep the first sentence of a page, and let its long names be broken at underscores, where a column is narrow."""
    _sentences[page.file.src_uri] = first_sentence(html)
    return re.sub(r"<code>(\w{25,})</code>", lambda found: f"<code>{found[1].replace('_', '_<wbr>')}</code>", html)


def on_post_build(config: Any) -> None:
    """Write llms.txt, which tells programs what pages there are (https://llmstxt.org)."""
    lines = llms(config["site_name"], config["site_description"])
    Path(config["site_dir"], "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def llms(name: str, description: str) -> Iterator[str]:
    """Yield the lines of llms.txt: each page with its address and first sentence, by section."""
    yield from (f"# {name}", "", f"> {description}", "")
    before = None
    for page in _navigation:
        section = page.ancestors[0].title if page.ancestors else None
        if section != before:
            yield from ("", f"## {section}", "")
            before = section
        yield f"- [{page.title}]({page.canonical_url}): {_sentences[page.file.src_uri]}"


def first_sentence(html: str) -> str:
    """Return the first sentence of the first paragraph as text."""
    found = re.search(r"<p>(.*?)</p>", html, re.DOTALL)
    if found is None:
        raise ValueError("A page needs a paragraph whose first sentence says what it is about.")
    text = " ".join(unescape(re.sub(r"<[^>]+>", "", found[1])).split())
    return re.split(r"(?<=[.:]) (?=[A-Z])", text, maxsplit=1)[0].rstrip(":")
