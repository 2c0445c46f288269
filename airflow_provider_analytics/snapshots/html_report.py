# SPDX-License-Identifier: Apache-2.0
"""The HTML report of a snapshot: one page that loads no external resources.

Jinja2, which Airflow brings, escapes values from the service.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from itertools import islice
from typing import Any

import jinja2

from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, Field, Flag, Lines, Privacy, PrivacyFlag
from airflow_provider_analytics.api.listing import WHY_COMPLETE
from airflow_provider_analytics.readable import counted, first_of, readable
from airflow_provider_analytics.snapshots.diff import WebsiteChange, bounded, difference, display
from airflow_provider_analytics.snapshots.formats import Row
from airflow_provider_analytics.snapshots.manifest import Manifest

#: Limits for the number of rows, for the total characters of their values, and for the number of changes. They keep the
#: page below 1 MB for any list, so that it opens quickly on a phone.
MAX_ROWS = 2_000
MAX_ROW_CHARACTERS = 250_000
MAX_CHANGES = 200
MAX_EXCLUSIONS = 15
#: Maximum characters of a cell or an entry.
MAX_CELL = 120
#: Maximum entries of a list in a cell.
MAX_LINES = 5

#: Size of the chart, in the units of its SVG.
CHART_WIDTH, CHART_HEIGHT = 900, 180


#: Fields that are on or off, and those with a column of their own: texts and exclusion lists.
_FLAGS = [flag for flag in FIELDS.values() if isinstance(flag, Flag) and not isinstance(flag, PrivacyFlag)]
_LISTED = [setting for setting in FIELDS.values() if type(setting) in (Field, Lines)]
_PRIVACY = {setting.value: setting.label for setting in Privacy}


def render_report(
    manifest: Manifest, rows: Iterable[Row], changes: Iterable[WebsiteChange], history: Sequence[tuple[date, int]]
) -> str:
    """Return the report of a snapshot as HTML.

    :param manifest: manifest of the snapshot.
    :param rows: rows of the snapshot.
    :param changes: changes since the previous snapshot; empty if there is none.
    :param history: day and count of earlier snapshots, oldest first.
    """
    counts = [*history, (manifest.snapshot_date, manifest.count)]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("airflow_provider_analytics.snapshots", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.filters["difference"] = difference
    environment.filters["display"] = display
    environment.filters["cut"] = _truncate
    return environment.get_template("report.html.j2").render(
        manifest=manifest,
        why_complete=WHY_COMPLETE[manifest.proof.method],
        summary=summarize(rows),
        points=chart_points(counts),
        width=CHART_WIDTH,
        height=CHART_HEIGHT,
        changes=list(map(bounded, islice(changes, MAX_CHANGES))),
        new_fields=first_of(manifest.fields.new, MAX_EXCLUSIONS, show=_truncate),
        lists=LINE_FIELDS,
        most=MAX_EXCLUSIONS,
        listed=_LISTED,
    )


def summarize(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the counts for the page, and the first rows for its table, as many as fit.

    :return: ``privacy``: privacy to number of websites; ``settings``: field to number of websites on which it is on;
        ``entries``: exclusion list to its entries, each with the number of websites; ``rows``: the cells.
    """
    privacy: Counter[str] = Counter()
    settings: Counter[str] = Counter()
    entries: defaultdict[str, Counter[str]] = defaultdict(Counter)
    first: list[dict[str, str]] = []
    left = MAX_ROW_CHARACTERS
    for row in rows:
        privacy[_privacy(row["privacy"])] += 1
        for flag in _FLAGS:
            settings[flag.name] += int(bool(row[flag.name]))
        for name in LINE_FIELDS:
            entries[name].update(set((row[name] or "").split("\n")) - {""})
        if len(first) < MAX_ROWS and left > 0:
            cells = _table_cells(row)
            first.append(cells)
            left -= sum(map(len, cells.values()))
    return {"privacy": privacy, "settings": settings, "entries": entries, "rows": first}


def chart_points(counts: Sequence[tuple[date, int]]) -> list[tuple[float, float, str]]:
    """Return the number of websites over time as points of a line, with day and number as text."""
    first, last = counts[0][0], counts[-1][0]
    most = max(count for _, count in counts) or 1
    points = []
    for day, count in counts:
        x = (day - first) / (last - first) if last > first else 0.5
        points.append((CHART_WIDTH * x, CHART_HEIGHT * (1 - count / most), f"{day}: {count:,}"))
    return points


def _table_cells(row: Row) -> dict[str, str]:
    """Return the cells of the table for a row."""
    unusual = []
    for flag in _FLAGS:
        value = row[flag.name]
        if value is not None and bool(value) != bool(flag.default):
            unusual.append(f"{flag.name}: {display(bool(value))}")
    cells = {
        "id": _truncate(row["id"]),
        "domain": _truncate(row["domain"] or ""),
        "privacy": _privacy(row["privacy"]),
        "flags": ", ".join(unusual),
    }
    for setting in _LISTED:
        cells[setting.name] = _lines(row[setting.name])
    return cells


def _privacy(value: object) -> str:
    if value is None:
        return "not shown"
    return _PRIVACY.get(value) or f"unknown ({value})"  # type: ignore[call-overload]


def _lines(text: str | None) -> str:
    lines = (text or "").split("\n")
    first = list(map(_truncate, lines[:MAX_LINES]))
    if len(lines) > MAX_LINES:
        first.append(f"and {len(lines) - MAX_LINES} more")
    return "\n".join(first)


def _truncate(text: str) -> str:
    return readable(text, MAX_CELL)
