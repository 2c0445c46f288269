# SPDX-License-Identifier: Apache-2.0
"""The HTML report of a snapshot: one page that loads no external resources.

Jinja2, which Airflow brings, escapes values from the service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice

import jinja2

from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.snapshots.diff import WebsiteChange, bounded, list_difference
from airflow_provider_analytics.snapshots.manifest import Manifest
from airflow_provider_analytics.snapshots.rows import Row

#: Limits for the number of rows and changes, and for the total characters of their values. They keep the page below
#: 1 MB for any list, so that it opens quickly on a phone.
MAX_ROWS = 2_000
MAX_ROW_CHARACTERS = 250_000
MAX_CHANGES = 200
MAX_CHANGE_CHARACTERS = 100_000
MAX_EXCLUSIONS = 15
#: Maximum characters of a cell or an entry.
MAX_CELL = 120
#: Maximum entries of a list in a cell.
MAX_LINES = 5

#: Size of the chart, in the units of its SVG.
CHART_WIDTH, CHART_HEIGHT = 900, 180

_PRIVACY = {setting.value: setting.label for setting in Privacy}


@dataclass
class Summary:
    """Counts over all rows, and the first rows.

    :param privacy: privacy to number of websites.
    :param settings: label to number of websites.
    :param exclude_params: query parameter to number of websites.
    :param exclude_ips: IP address to number of websites.
    :param rows: the first rows, as text for the table.
    """

    privacy: Counter[str] = field(default_factory=Counter)
    settings: Counter[str] = field(default_factory=Counter)
    exclude_params: Counter[str] = field(default_factory=Counter)
    exclude_ips: Counter[str] = field(default_factory=Counter)
    rows: list[dict[str, str]] = field(default_factory=list)


def render_report(
    manifest: Manifest,
    rows: Iterable[Row],
    changes: Iterable[WebsiteChange],
    history: Sequence[tuple[date, int]],
) -> str:
    """Return the report of a snapshot as HTML.

    :param manifest: manifest of the snapshot.
    :param rows: rows of the snapshot.
    :param changes: changes since the previous snapshot; empty if there is none.
    :param history: day and count of earlier snapshots, oldest first.
    """
    summary = summarise(rows)
    counts = [*history, (manifest.snapshot_date, manifest.count)]
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("airflow_provider_analytics.snapshots", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["difference"] = _difference
    environment.filters["cut"] = _truncate
    return environment.get_template("report.html.j2").render(
        manifest=manifest,
        summary=summary,
        points=chart_points(counts),
        width=CHART_WIDTH,
        height=CHART_HEIGHT,
        changes=shown_changes(changes),
        notices=notices(manifest),
        new_fields=new_fields(manifest),
        exclusions={
            "query parameters": summary.exclude_params.most_common(MAX_EXCLUSIONS),
            "IP addresses": summary.exclude_ips.most_common(MAX_EXCLUSIONS),
        },
    )


def notices(manifest: Manifest) -> list[str]:
    """Return the notices at the top of the page: late list, damaged previous snapshot, lost fields, filters."""
    found = []
    if manifest.late:
        found.append(
            f"Late: the list was observed at {manifest.observed_at:%Y-%m-%d %H:%M} UTC and filed under "
            f"{manifest.snapshot_date}."
        )
    if manifest.previous is None and not manifest.is_first:
        found.append("The previous snapshot is damaged: there is nothing to compare this one with.")
    fields = manifest.fields
    for name, count in fields.invalid_values.items():
        found.append(f"{count:,} values of {_truncate(name)} do not fit its type and are empty here.")
    if fields.missing:
        found.append(f"The service no longer returns: {', '.join(fields.missing)}.")
    if manifest.filters:
        filters = ", ".join(f"{name} {_truncate(_display_value(value))}" for name, value in manifest.filters.items())
        found.append(f"Only: {filters}.")
    return found


def new_fields(manifest: Manifest) -> str:
    """Return the names of undocumented fields as text. They require no action."""
    names = manifest.fields.new
    more = len(names) - MAX_EXCLUSIONS
    return ", ".join(_truncate(name) for name in names[:MAX_EXCLUSIONS]) + (f" and {more} more" if more > 0 else "")


def shown_changes(changes: Iterable[WebsiteChange]) -> list[WebsiteChange]:
    """Return the first changes, as many as fit. Removed websites and changes of privacy come first."""
    selected: list[WebsiteChange] = []
    left = MAX_CHANGE_CHARACTERS
    for change in islice(changes, MAX_CHANGES):
        short = bounded(change)
        left -= sum(len(_truncate(_difference(values))) + 200 for values in short["fields"].values())
        if left < 0 and selected:
            break
        selected.append(short)
    return selected


def summarise(rows: Iterable[Row]) -> Summary:
    """Return the counts for the page, and the first rows for its table, as many as fit."""
    summary = Summary()
    left = MAX_ROW_CHARACTERS
    for row in rows:
        summary.privacy[_privacy(row["privacy"])] += 1
        summary.settings["favorites"] += row["favorite"] is True
        summary.settings["with e-mail reports"] += row["email"] == 1
        summary.settings["bots excluded"] += row["exclude_bots"] == 1
        for counter, name in ((summary.exclude_params, "exclude_params"), (summary.exclude_ips, "exclude_ips")):
            counter.update(set((row[name] or "").split("\n")) - {""})
        if len(summary.rows) < MAX_ROWS and left > 0:
            cells = _table_cells(row)
            summary.rows.append(cells)
            left -= sum(map(len, cells.values()))
    return summary


def chart_points(counts: Sequence[tuple[date, int]]) -> list[tuple[float, float, str]]:
    """Return the number of websites over time as points of a line, with day and number as text."""
    first, last = counts[0][0], counts[-1][0]
    most = max(count for _, count in counts) or 1
    return [
        (
            CHART_WIDTH * ((day - first) / (last - first) if last > first else 0.5),
            CHART_HEIGHT * (1 - count / most),
            f"{day}: {count:,}",
        )
        for day, count in counts
    ]


def _table_cells(row: Row) -> dict[str, str]:
    """Return the cells of the table for a row."""
    reported = {None: "", 0: "", 1: "reports"}
    flags = [
        "favorite" if row["favorite"] else "",
        reported.get(row["email"], ""),
        "bots counted" if row["exclude_bots"] == 0 else "",
    ]
    return {
        "id": _truncate(row["id"]),
        "domain": _truncate(row["domain"] or ""),
        "privacy": _privacy(row["privacy"]),
        "flags": ", ".join(filter(None, flags)),
        "parameters": _lines(row["exclude_params"]),
        "addresses": _lines(row["exclude_ips"]),
    }


def _privacy(value: object) -> str:
    if value is None:
        return "not shown"
    return _PRIVACY.get(value) or f"unknown ({value})"  # type: ignore[call-overload]


def _lines(text: str | None) -> str:
    lines = (text or "").split("\n")
    more = len(lines) - MAX_LINES
    return "\n".join([*map(_truncate, lines[:MAX_LINES]), *([f"and {more} more"] if more > 0 else [])])


def _truncate(text: str) -> str:
    return readable(text, MAX_CELL)


def _display_value(value: object) -> str:
    """Return a value as readers expect it: "none", "yes" or "no" instead of Python's names."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _difference(values: dict[str, object]) -> str:
    """Return the values of a field before and after a change as one text."""
    before, after = values["before"], values["after"]
    is_list = isinstance(before, list) or isinstance(after, list)
    # A list in a form that is not understood is text. Its entries are unknown, so both sides are shown.
    is_other_form = any(value is not None and not isinstance(value, list) for value in (before, after))
    if is_list and not is_other_form:
        lost, gained = list_difference(before, after)
        return ", ".join([f"+{entry}" for entry in gained] + [f"\u2212{entry}" for entry in lost])
    return f"{_display_value(before)} \u2192 {_display_value(after)}"
