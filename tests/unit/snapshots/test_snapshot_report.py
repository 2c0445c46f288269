from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from airflow_provider_analytics.storage import StoragePath, names

Make = Callable[..., Any]
NIGHT = timedelta(days=1)


def page(snapshot: Any) -> str:
    content: bytes = snapshot.partition.about.fs.cat_file((snapshot.partition.about / snapshot.manifest.report).path)
    return content.decode()


class Loads(HTMLParser):
    """Collects everything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in {"src", "srcset", "data", "action"}]
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name == "href" and tag == "link"]


def test_the_page_tells_what_is_there_and_what_changed(take: Make, make_websites: Make, base: StoragePath) -> None:
    records = make_websites(12)
    first = take(base, records, report=True)
    assert "There is no earlier snapshot" in page(first)
    changed = [records[0] | {"privacy": 2, "exclude_params": "gclid"}, *records[2:], {"id": 0, "domain": "new.example"}]
    second = take(base, changed, first.manifest.observed_at + NIGHT, report=True)
    text = page(second)
    assert "12 websites" in text
    assert "over the last 2 snapshots" in text
    assert re.search(r"1 added.*1 removed.*1 changed", text, re.DOTALL)
    assert "public \u2192 password" in text
    assert "\u2212utm_source" in text
    assert "new.example" in text
    assert re.search(r"<b>1</b>password", text)
    assert re.search(r'gclid</td><td class="n">11<', text)
    assert text.count("<svg") == 1


def test_it_loads_nothing_and_runs_nothing_that_the_service_sent(
    take: Make, make_websites: Make, base: StoragePath
) -> None:
    hostile = "<script src=https://evil.example></script>"
    records = [record | {"domain": hostile, "exclude_params": hostile} for record in make_websites(3)]
    text = page(take(base, records, report=True))
    loads = Loads()
    loads.feed(text)
    assert loads.found == []
    assert text.count("<script>") == 1
    assert "<script src" not in text
    assert "default-src 'none'" in text
    assert not re.search(r"@import|url\((?!#)", text)


def test_an_empty_account_and_a_large_one_have_a_page(take: Make, make_websites: Make, base: StoragePath) -> None:
    assert "0 websites" in page(take(base / "empty", [], report=True))
    text = page(take(base / "large", make_websites(5_001), report=True))
    assert text.count('<td class="domain">') == 5_000
    assert "5,000 of 5,001 websites" in text


def test_a_replaced_snapshot_takes_its_report_along(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3), report=True)
    second = take(base, make_websites(3), first.manifest.observed_at + timedelta(hours=1))
    assert not any(name.startswith("_report") for name in names(second.partition.about))


@pytest.mark.parametrize("nights", [1, 2, 60])
def test_the_chart_is_the_same_for_the_same_numbers(nights: int) -> None:
    from airflow_provider_analytics.snapshots.report import chart  # brings matplotlib

    counts = [(date(2026, 1, 1) + night * NIGHT, 100 + night) for night in range(nights)]
    drawn = chart(counts)
    assert drawn.startswith("<svg")
    assert drawn == chart(counts)
    assert "2026-01-01" in drawn
