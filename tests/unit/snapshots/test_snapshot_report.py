# SPDX-License-Identifier: Apache-2.0
"""HTML report of a snapshot (``snapshots/html_report.py``)."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import date, timedelta
from html.parser import HTMLParser

import pytest
from shelf import HOUR, NIGHT, NOON, Shelf, held, websites

from airflow_provider_analytics.snapshots.catalog import Snapshot
from airflow_provider_analytics.snapshots.html_report import chart_points


def page(snapshot: Snapshot) -> str:
    assert snapshot.manifest.report is not None
    about = snapshot.partition.about
    content: bytes = about.fs.cat_file((about / snapshot.manifest.report).path)
    assert len(content) < 1_000_000
    return content.decode()


class Loads(HTMLParser):
    """Collects every address that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {"src", "srcset", "data", "action", *(["href"] if tag == "link" else [])}
        self.found += [f"{tag} {name}={value}" for name, value in attrs if name in names]


def test_report_lists_the_websites_and_their_changes(shelf: Shelf) -> None:
    records = websites(12)
    assert "There is no snapshot of an earlier day" in page(shelf.take(records, html_report=True))
    settings = {"email": 1, "favorite": True, "exclude_bots": 0}
    first = records[0] | {"privacy": 2, "exclude_params": "gclid"} | settings
    text = page(shelf.take([first, *records[2:], {"id": 0, "domain": "new.example"}], NIGHT, html_report=True))
    for pattern in (
        "12 websites",
        "over the last 2 snapshots",
        r"(?s)1 removed.*1 changed.*1 in privacy.*1 added",
        "public \u2192 password",
        "no \u2192 yes",
        "\u2212utm_source",
        "new.example",
        "<b>1</b>password",
        "<b>1</b>email",
        "<b>1</b>favorite",
        'gclid</td><td class="n">11<',
        "<td>password</td><td>email: yes, exclude_bots: no, favorite: yes</td>",
        "prefers-color-scheme: dark",
    ):
        assert re.search(pattern, text), pattern
    assert text.count("<svg") == 1


def test_report_loads_and_runs_nothing_from_the_service(shelf: Shelf) -> None:
    hostile = "<script src=https://evil.example></script>"
    text = page(shelf.take(websites(3, domain=hostile, exclude_params=hostile), html_report=True))
    loads = Loads()
    loads.feed(text)
    assert loads.found == []
    assert text.count("<script>") == 1
    assert "<script src" not in text
    assert "default-src 'none'" in text
    script = hashlib.sha256(re.findall("<script>(.*?)</script>", text, re.DOTALL)[0].encode())
    assert f"script-src 'sha256-{base64.b64encode(script.digest()).decode()}'\"" in text  # and no other script
    assert not re.search(r"@import|url\((?!#)", text)


@pytest.mark.long
def test_report_is_small_for_any_list(local: Shelf) -> None:
    assert "0 websites" in page(Shelf(local.base, "empty").take(0, html_report=True))
    text = page(Shelf(local.base, "large").take(2_001, html_report=True))
    assert text.count('<td class="domain">') == 2_000
    assert "2,000 of 2,001 websites; all of them are in the data file" in text
    long = "\n".join(f"<parameter&{number}>{'x' * 400}" for number in range(30))
    before = websites(700, exclude_params=long, note="n" * 10_000)
    local.take(before)
    after = [record | {"exclude_params": long[::-1], "exclude_ips": long, "privacy": 9} for record in before]
    text = page(local.take(after, NIGHT, html_report=True))
    assert re.search(r"The first 200 of 700 changes; all of them are in _changes-", text)
    assert "unknown (9)" in text


def test_report_starts_with_the_warnings(shelf: Shelf) -> None:
    shelf.fs.rm_file(shelf.take(3).files[0].path)
    records = websites(3, privacy="secret", colour="red")
    for record in records:
        del record["favorite"]
    day = NOON.date() + timedelta(days=1)
    text = page(
        shelf.take(
            records, 2 * NIGHT, day=day, is_late=lambda _: True, html_report=True, override_guards={"missing_fields"}
        )
    )
    assert re.findall(r"<li>(.*?)</li>", text) == [
        "Late: the list was observed at 2026-11-22 12:00 UTC and filed under 2026-11-21.",
        "This snapshot is not compared, because the previous one is damaged.",
        "Empty here, because the type does not fit: 3 values of privacy.",
        "The service no longer returns: favorite.",
    ]
    assert '<p class="quiet">Fields that are not documented: colour.</p>' in text
    assert text.index("<ul") < text.index("<h2>")


def test_report_of_a_replaced_snapshot_is_removed_and_a_sandbox_field_is_not_a_warning(shelf: Shelf) -> None:
    text = page(shelf.take(websites(1, created_at="2026-11-22"), html_report=True))
    assert 'class="notices"' not in text
    assert (text.count("1 website<"), text.count("1 websites")) == (2, 0)
    assert "Fields that are not documented: created_at." in text
    assert not any(name.startswith("_report") for name in held(shelf.take(3, HOUR)))


@pytest.mark.parametrize(
    ("counts", "points"),
    [
        ({0: 100, 1: 50, 60: 0}, [(0, 0, "2026-01-01: 100"), (15, 90, "2026-01-02: 50"), (900, 180, "2026-03-02: 0")]),
        ({0: 0}, [(450, 180, "2026-01-01: 0")]),
        ({0: 1_000}, [(450, 0, "2026-01-01: 1,000")]),
    ],
)
def test_chart_axis_is_time_and_a_single_night_is_in_the_middle(
    counts: dict[int, int], points: list[tuple[int, int, str]]
) -> None:
    found = chart_points([(date(2026, 1, 1) + day * NIGHT, number) for day, number in counts.items()])
    assert [(round(x), round(y), label) for x, y, label in found] == points


@pytest.mark.parametrize("unusual", ["192.0.2.1,192.0.2.2", "192.0.2.1\n192.0..."])
def test_report_prints_both_lists_if_either_is_unknown(unusual: str, shelf: Shelf) -> None:
    usual = {"id": 1, "domain": "a.example", "exclude_ips": "192.0.2.7\n192.0.2.8"}
    other = {**usual, "exclude_ips": unusual}
    shelf.take([usual], html_report=True)
    shown = unusual.replace("\n", "\\n")
    assert f"192.0.2.7, 192.0.2.8 \u2192 {shown}" in page(shelf.take([other], NIGHT, html_report=True))
    assert f"{shown} \u2192 192.0.2.7, 192.0.2.8" in page(
        shelf.take([usual], NIGHT + timedelta(days=1), html_report=True)
    )


@pytest.mark.parametrize("line", ["10/8", "192.168.*.*", "a - b"])
def test_report_prints_an_unknown_line(line: str, shelf: Shelf) -> None:
    usual = {"id": 1, "domain": "a.example", "exclude_ips": "192.0.2.7"}
    shelf.take([usual], html_report=True)
    assert f"+{line}, \u2212192.0.2.7" in page(shelf.take([{**usual, "exclude_ips": line}], NIGHT, html_report=True))
