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
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.snapshots.diff import Change, bounded, list_difference
from airflow_provider_analytics.snapshots.manifest import Manifest
from airflow_provider_analytics.snapshots.rows import Row

#: Limits within which the page stays below 1 MB, and opens quickly on a phone, whatever the list: the number of rows
#: and changes, and the characters of all their values.
MAX_ROWS = 2_000
MAX_ROW_CHARACTERS = 250_000
MAX_CHANGES = 200
MAX_CHANGE_CHARACTERS = 100_000
MAX_EXCLUSIONS = 15
#: Characters of a cell or an entry.
MAX_CELL = 120
#: Entries of a list in a cell.
MAX_LINES = 5

_PRIVACY = {setting.value: setting.label for setting in Privacy}


@dataclass
class Summary:
    """Counts over the rows, and the first rows.

    :param privacy: privacy to number of websites.
    :param settings: label to number of websites.
    :param exclude_params: query parameter to number of websites.
    :param exclude_ips: IP address to number of websites.
    :param rows: the first rows, in words.
    """

    privacy: Counter[str] = field(default_factory=Counter)
    settings: Counter[str] = field(default_factory=Counter)
    exclude_params: Counter[str] = field(default_factory=Counter)
    exclude_ips: Counter[str] = field(default_factory=Counter)
    rows: list[dict[str, str]] = field(default_factory=list)


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
    environment.filters["cut"] = _cut
    return environment.get_template("report.html.j2").render(
        manifest=manifest,
        summary=summary,
        chart=Markup(chart(counts)),  # noqa: S704 - drawn here from dates and numbers only
        snapshots=len(counts),
        changes=shown_changes(changes),
        notices=notices(manifest),
        new_fields=new_fields(manifest),
        exclusions={
            "query parameters": summary.exclude_params.most_common(MAX_EXCLUSIONS),
            "IP addresses": summary.exclude_ips.most_common(MAX_EXCLUSIONS),
        },
    )


def notices(manifest: Manifest) -> list[str]:
    """Return what a reader has to know first: a late list, a damaged snapshot before, lost fields, filters."""
    found = []
    if manifest.late:
        found.append(
            f"Late: the list was observed at {manifest.observed_at:%Y-%m-%d %H:%M} UTC and filed under "
            f"{manifest.snapshot_date}."
        )
    if manifest.previous is None and not manifest.first:
        found.append("The snapshot before is damaged: there is nothing to compare this one with.")
    fields = manifest.fields
    for name, count in fields.misfits.items():
        found.append(f"{count:,} values of {_cut(name)} do not fit its type and are empty here.")
    if fields.missing:
        found.append(f"The service no longer shows: {', '.join(fields.missing)}.")
    if manifest.filters:
        filters = ", ".join(f"{name} {_cut(_word(value))}" for name, value in manifest.filters.items())
        found.append(f"Only: {filters}.")
    return found


def new_fields(manifest: Manifest) -> str:
    """Return the fields of the service that are not documented. They need no action."""
    names = manifest.fields.new
    more = len(names) - MAX_EXCLUSIONS
    return ", ".join(_cut(name) for name in names[:MAX_EXCLUSIONS]) + (f" and {more} more" if more > 0 else "")


def shown_changes(changes: Iterable[Change]) -> list[Change]:
    """Return the first changes, as many as fit; removed websites and changes of privacy come first."""
    shown: list[Change] = []
    left = MAX_CHANGE_CHARACTERS
    for change in islice(changes, MAX_CHANGES):
        short = bounded(change)
        left -= sum(len(_cut(_difference(values))) + 200 for values in short["fields"].values())
        if left < 0 and shown:
            break
        shown.append(short)
    return shown


def summarise(rows: Iterable[Row]) -> Summary:
    """Return the counts that the page shows, and the first rows for its table, as many as fit."""
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
            shown = _in_words(row)
            summary.rows.append(shown)
            left -= sum(map(len, shown.values()))
    return summary


def chart(counts: list[tuple[date, int]]) -> str:
    """Return a line chart of the number of websites over time as SVG; equal counts give equal text."""
    drawing = io.StringIO()
    grey = "#7a8594"  # to be seen on white and on black
    with rc_context(
        {
            "svg.hashsalt": "report",
            "svg.fonttype": "none",
            "text.color": grey,
            "axes.labelcolor": grey,
            "axes.edgecolor": grey,
            "xtick.color": grey,
            "ytick.color": grey,
        }
    ):
        figure = Figure(figsize=(9, 2.8), layout="constrained")
        axes = figure.subplots()
        days = [day.toordinal() for day, _ in counts]
        axes.plot(days, [count for _, count in counts], marker="o", markersize=4, color="#3b82f6")
        axes.set_ylim(0, max(count for _, count in counts) * 1.15 or 1)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        # Labels of days that have a snapshot, at least a sixth of the time apart; the last one always.
        ticks: list[int] = []
        for place in range(len(days) - 1, -1, -1):
            if not ticks or days[ticks[-1]] - days[place] >= max((days[-1] - days[0]) / 6, 1):
                ticks.append(place)
        axes.set_xticks([days[place] for place in ticks], [counts[place][0].isoformat() for place in ticks])
        axes.grid(axis="y", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylabel("websites")
        figure.savefig(drawing, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = drawing.getvalue()
    return text[text.index("<svg") :]


def _in_words(row: Row) -> dict[str, str]:
    """Return what the table shows of a row."""
    reported = {None: "", 0: "", 1: "reports"}
    flags = [
        "favorite" if row["favorite"] else "",
        reported.get(row["email"], ""),
        "bots counted" if row["exclude_bots"] == 0 else "",
    ]
    return {
        "id": _cut(row["id"]),
        "domain": _cut(row["domain"] or ""),
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
    return "\n".join([*map(_cut, lines[:MAX_LINES]), *([f"and {more} more"] if more > 0 else [])])


def _cut(text: str) -> str:
    return readable(text, MAX_CELL)


def _word(value: object) -> str:
    """Return a value as people say it."""
    return {None: "none", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else str(value)


def _difference(values: dict[str, object]) -> str:
    """Return the values of a field before and after as one text."""
    before, after = values["before"], values["after"]
    if isinstance(before, list) or isinstance(after, list):
        lost, gained = list_difference(before, after)
        return ", ".join([f"+{entry}" for entry in gained] + [f"\u2212{entry}" for entry in lost])
    return f"{_word(before)} \u2192 {_word(after)}"
