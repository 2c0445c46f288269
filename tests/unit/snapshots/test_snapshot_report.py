from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from airflow_provider_analytics.snapshots.report import chart_points
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
    assert "This is the first snapshot" in page(first)
    changed = [records[0] | {"privacy": 2, "exclude_params": "gclid"}, *records[2:], {"id": 0, "domain": "new.example"}]
    second = take(base, changed, first.manifest.observed_at + NIGHT, report=True)
    text = page(second)
    assert "12 websites" in text
    assert "over the last 2 snapshots" in text
    assert re.search(r"1 removed.*1 changed.*1 in privacy.*1 added", text, re.DOTALL)
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
    script = hashlib.sha256(re.findall("<script>(.*?)</script>", text, re.DOTALL)[0].encode())
    assert f"script-src 'sha256-{base64.b64encode(script.digest()).decode()}'\"" in text  # and no other script
    assert not re.search(r"@import|url\((?!#)", text)


def test_an_empty_account_and_a_large_one_have_a_page(take: Make, make_websites: Make, base: StoragePath) -> None:
    assert "0 websites" in page(take(base / "empty", [], report=True))
    text = page(take(base / "large", make_websites(5_001), report=True))
    assert text.count('<td class="domain">') == 2_000
    assert "2,000 of 5,001 websites; all of them are in the data file" in text
    assert len(text.encode()) < 1_000_000


def test_the_page_stays_small_whatever_the_list(take: Make, make_websites: Make, base: StoragePath) -> None:
    long = "\n".join(f"<parameter&{number}>{'x' * 400}" for number in range(30))
    before = make_websites(700, exclude_params=long, note="n" * 10_000)
    first = take(base, before, report=True)
    after = [record | {"exclude_params": long[::-1], "exclude_ips": long, "privacy": 9} for record in before]
    second = take(base, after, first.manifest.observed_at + NIGHT, report=True)
    text = page(second)
    assert len(text.encode()) < 1_000_000
    assert re.search(r"The first \d+ of 700 changes; all of them are in _changes-", text)
    assert "unknown (9)" in text


def test_what_has_to_be_known_first_stands_first(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3))
    base.fs.rm_file(first.files[0].path)
    records = [{**website, "privacy": "secret", "colour": "red"} for website in make_websites(3)]
    for record in records:
        del record["favorite"]
    now = first.manifest.observed_at + 2 * NIGHT
    options: dict[str, Any] = {"is_late": lambda _: True, "report": True, "accept": frozenset({"fields"})}
    text = page(take(base, records, now, day=(now - NIGHT).date(), **options))
    notices = re.findall(r"<li>(.*?)</li>", text)
    assert notices == [
        "Late: the list was observed at 2026-11-22 12:00 UTC and filed under 2026-11-21.",
        "The previous snapshot is damaged: there is nothing to compare this one with.",
        "3 values of privacy do not fit its type and are empty here.",
        "The service no longer returns: favorite.",
    ]
    assert '<p class="quiet">Fields that are not documented: colour.</p>' in text
    assert text.index("<ul") < text.index("<h2>")


def test_a_field_of_the_sandbox_is_no_warning(take: Make, make_websites: Make, base: StoragePath) -> None:
    records = [{**website, "created_at": "2026-11-22"} for website in make_websites(3)]
    text = page(take(base, records, report=True))
    assert 'class="notices"' not in text
    assert "Fields that are not documented: created_at." in text


def test_settings_are_said_in_words(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(2))
    records = [website | {"email": 1, "favorite": True, "exclude_bots": 0} for website in make_websites(2)]
    text = page(take(base, records, first.manifest.observed_at + NIGHT, report=True))
    assert "<td>public</td><td>favorite, reports, bots counted</td>" in text
    assert "no \u2192 yes" in text
    assert "prefers-color-scheme: dark" in text


def test_a_replaced_snapshot_takes_its_report_along(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(3), report=True)
    second = take(base, make_websites(3), first.manifest.observed_at + timedelta(hours=1))
    assert not any(name.startswith("_report") for name in names(second.partition.about))


def test_the_axis_of_the_chart_is_time() -> None:
    points = chart_points([(date(2026, 1, 1) + day * NIGHT, number) for day, number in ((0, 100), (1, 50), (60, 0))])
    assert [(round(x), round(y), label) for x, y, label in points] == [
        (0, 0, "2026-01-01: 100"),
        (15, 90, "2026-01-02: 50"),
        (900, 180, "2026-03-02: 0"),
    ]


@pytest.mark.parametrize("number", [0, 1_000])
def test_one_night_is_a_point_in_the_middle(number: int) -> None:
    [(x, _, label)] = chart_points([(date(2026, 1, 1), number)])
    assert (x, label) == (450, f"2026-01-01: {number:,}")
