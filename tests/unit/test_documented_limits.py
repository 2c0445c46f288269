# SPDX-License-Identifier: Apache-2.0
"""The limits, waits, and periods that the guides name are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_analytics import exceptions, guards, storage
from airflow_provider_analytics.api import checks, client, domains, laravel, listing, rejections, transport, waiting
from airflow_provider_analytics.reconcile import service_websites
from airflow_provider_analytics.reconcile.apply import application
from airflow_provider_analytics.reconcile.desired import list_lines, tables, yaml_values
from airflow_provider_analytics.reconcile.plan import plan_markdown
from airflow_provider_analytics.snapshots import run_day

DOCS = Path(__file__).parents[2] / "docs"
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
    ("guards.md", f"more than {run_day.CLOCK_SKEW.seconds // 60} minutes behind"),
    ("guards.md", f"Fewer than {guards.MIN_COUNTED} items** are not checked"),
    ("snapshots.md", f"ended at most {run_day.LATE_TOLERANCE.seconds // 3600} hours ago"),
    ("reference/operators/websites_as_code.md", f"{plan_markdown.MAX_CHARACTERS:,} characters"),
]
#: The same for numbers that are written as words.
WORDS = [
    ("guarantees.md", "then 1, 2, 4, 16, and 48", application.DOUBLED_FROM == 8),
    ("reference/hook.md", "A write under way has two seconds to finish", waiting.GRACE_SECONDS == 2),
]


@pytest.mark.parametrize(("page", "part"), SENTENCES)
def test_guide_names_the_number_of_the_code(page: str, part: str) -> None:
    assert part in " ".join((DOCS / page).read_text().split())


@pytest.mark.parametrize(("page", "part", "is_true"), WORDS)
def test_guide_names_the_number_of_the_code_in_words(page: str, part: str, *, is_true: bool) -> None:
    assert part in " ".join((DOCS / page).read_text().split())
    assert is_true
