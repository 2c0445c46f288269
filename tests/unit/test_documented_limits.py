# SPDX-License-Identifier: Apache-2.0
"""The table of size limits in docs/security.md has the limits of the code."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_analytics import exceptions, storage
from airflow_provider_analytics.api import checks, dialect, domains, listing, transport
from airflow_provider_analytics.reconcile.desired import yaml_values

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
UNITS = {"MiB": 1024**2, "GiB": 1024**3}
LIMITS: list[list[float]] = [
    [transport.MAX_BODY_BYTES, dialect.MAX_VALUES],
    [transport.MAX_SHARED_BYTES, transport.MAX_SHARED_VALUES],
    [listing.MAX_LIST_WEBSITES, listing.MAX_LIST_PAGES, listing.MAX_LIST_BYTES, listing.MAX_LIST_VALUES],
    [dialect.MAX_ID_LENGTH],
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


def test_page_about_security_names_the_size_limits_of_the_code() -> None:
    section = PAGE.read_text().partition("## Size limits")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!Input|---).* \| (.*) \|$", section, re.MULTILINE)
    documented = []
    for limits in rows:
        found = re.findall(r"([\d,]+\d|\d)\b(?: (MiB|GiB))?", limits)
        documented.append([float(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found])
    assert documented == LIMITS
    assert transport.MAX_TIMEOUTS == 10
    assert storage.MAX_EXPORTED == storage.MAX_ROW_BYTES
