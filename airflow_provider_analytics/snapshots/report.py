"""The HTML report of a snapshot: one page, rendered from values, that loads no external resources.

Needs the extra ``report``: Matplotlib draws the chart, Jinja2 escapes values from the service.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice

import jinja2
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from airflow_provider_analytics.api.kinds import Privacy
from airflow_provider_analytics.snapshots.diff import Change, bounded, list_difference
from airflow_provider_analytics.snapshots.manifest import Manifest
from airflow_provider_analytics.snapshots.rows import Row

#: Limits within which the page still opens quickly on a phone.
MAX_ROWS = 5_000
MAX_CHANGES = 200
MAX_EXCLUSIONS = 15

_PRIVACY = {setting.value: setting.label for setting in Privacy}


@dataclass
class Summary:
    """Counts over the rows, and the first rows.

    :param privacy: privacy to number of websites.
    :param settings: label to number of websites.
    :param exclude_params: query parameter to number of websites.
    :param exclude_ips: IP address to number of websites.
    :param rows: the first :data:`MAX_ROWS` rows.
    """

    privacy: Counter[str] = field(default_factory=Counter)
    settings: Counter[str] = field(default_factory=Counter)
    exclude_params: Counter[str] = field(default_factory=Counter)
    exclude_ips: Counter[str] = field(default_factory=Counter)
    rows: list[Row] = field(default_factory=list)


def render_report(
    manifest: Manifest,
    rows: Iterable[Row],
    changes: Iterable[Change],
    history: Sequence[tuple[date, int]],
) -> str:
    """Return the report of a snapshot as HTML.

    :param manifest: manifest of the snapshot.
    :param rows: rows of the snapshot.
    :param changes: changes since the snapshot before; empty if there is none.
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
    return environment.get_template("report.html.j2").render(
        manifest=manifest,
        summary=summary,
        chart=Markup(chart(counts)),  # noqa: S704 - drawn here from dates and numbers only
        snapshots=len(counts),
        changes=[bounded(change) for change in islice(changes, MAX_CHANGES)],
        privacy_names=_PRIVACY,
        exclusions={
            "query parameters": summary.exclude_params.most_common(MAX_EXCLUSIONS),
            "IP addresses": summary.exclude_ips.most_common(MAX_EXCLUSIONS),
        },
    )


def summarise(rows: Iterable[Row]) -> Summary:
    """Return the counts that the page shows, and the first rows for its table."""
    summary = Summary()
    for row in rows:
        summary.privacy[_PRIVACY.get(row["privacy"], "not shown")] += 1
        summary.settings["favourites"] += row["favorite"] is True
        summary.settings["with e-mail reports"] += row["email"] == 1
        summary.settings["bots excluded"] += row["exclude_bots"] == 1
        summary.exclude_params.update(set((row["exclude_params"] or "").split("\n")) - {""})
        summary.exclude_ips.update(set((row["exclude_ips"] or "").split("\n")) - {""})
        if len(summary.rows) < MAX_ROWS:
            summary.rows.append(row)
    return summary


def chart(counts: list[tuple[date, int]]) -> str:
    """Return a line chart of the number of websites as SVG; equal counts give equal text."""
    drawing = io.StringIO()
    with rc_context({"svg.hashsalt": "report", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 2.8), layout="constrained")
        axes = figure.subplots()
        axes.plot([day.isoformat() for day, _ in counts], [count for _, count in counts], marker="o", color="#2563eb")
        axes.set_ylim(0, max(count for _, count in counts) * 1.15 or 1)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        step = len(counts) // 6 + 1
        axes.set_xticks(range(0, len(counts), step), [day.isoformat() for day, _ in counts][::step])
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel("websites")
        figure.savefig(drawing, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = drawing.getvalue()
    return text[text.index("<svg") :]


def _difference(values: dict[str, object]) -> str:
    """Return the values of a field before and after as one text."""
    before, after = values["before"], values["after"]
    if isinstance(before, list) or isinstance(after, list):
        lost, gained = list_difference(before, after)
        return ", ".join([f"+{entry}" for entry in gained] + [f"\u2212{entry}" for entry in lost])
    return f"{'none' if before is None else before} \u2192 {'none' if after is None else after}"
