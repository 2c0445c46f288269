# SPDX-License-Identifier: Apache-2.0
"""The report of an acceptance run: a table for a person, JSON for an issue, and an exit status."""

from __future__ import annotations

import json
import textwrap
from itertools import zip_longest

from airflow_provider_analytics import __version__
from airflow_provider_analytics.acceptance.run import AcceptanceRun
from airflow_provider_analytics.acceptance.statements import STATEMENTS, StatementResult
from airflow_provider_analytics.readable import counted

#: Exit statuses: everything is as documented; the run failed; something differs from the interface.
AS_DOCUMENTED, FAILED, FINDINGS = 0, 1, 2

_HEADINGS = ("", "Statement of the interface", "Seen", "The tasks", "Extra to set")
_WIDTHS = (5, 33, 33, 24, 17)


def status(run: AcceptanceRun) -> int:
    """Return the exit status."""
    if run.not_removed is not None:
        return FAILED
    marks = {finding.mark for finding in run.findings.values()}
    if marks & {"FAILS", "SET", "note"}:
        return FINDINGS
    return AS_DOCUMENTED


def as_json(run: AcceptanceRun) -> str:
    """Return the report as JSON, without the host, and without values of other websites."""
    statements = {}
    for finding in in_order(run):
        statements[finding.name] = {
            "mark": finding.mark,
            "statement": finding.statement,
            "seen": finding.seen,
            "tasks": finding.tasks,
            "extras": finding.extras,
        }
    report = {
        "provider": __version__,
        "status": status(run),
        "requests": run.transport.stats.requests,
        "is_removed": run.not_removed is None,
        "extras": run.extras,
        "statements": statements,
    }
    return json.dumps(report, indent=2)


def as_text(run: AcceptanceRun) -> str:
    """Return the report as a table."""
    summary = f"{run.settings.base_url}: {counted(run.transport.stats.requests, 'request')}."
    if run.leftovers:
        summary += f" Removed {counted(run.leftovers, 'website')} of earlier runs."
    lines = [summary, "", *_row(_HEADINGS), *_row(tuple("-" * width for width in _WIDTHS))]
    for finding in in_order(run):
        extra = ""
        if finding.extras:
            extra = json.dumps(finding.extras)
        lines += _row((finding.mark, finding.statement, finding.seen, finding.tasks, extra))
    lines += ["", _conclusion(run)]
    return "\n".join(lines) + "\n"


def in_order(run: AcceptanceRun) -> list[StatementResult]:
    """Return the findings in the order of the statements."""
    return [run.findings[name] for name in STATEMENTS if name in run.findings]


def _row(cells: tuple[str, ...]) -> list[str]:
    """Return the lines of a row, in which long cells are wrapped."""
    wrapped = [textwrap.wrap(cell, width) for cell, width in zip(cells, _WIDTHS, strict=True)]
    lines = []
    for parts in zip_longest(*wrapped, fillvalue=""):
        padded = [part.ljust(width) for part, width in zip(parts, _WIDTHS, strict=True)]
        lines.append("  ".join(padded).rstrip())
    return lines


def _conclusion(run: AcceptanceRun) -> str:
    if run.not_removed is not None:
        return run.not_removed.text
    if run.extras:
        return f"Add to the extras of the connection, and run the command again:\n{json.dumps(run.extras)}"
    if status(run) == FINDINGS:
        return 'The service differs from the interface. Open an issue "This is my server" with the output of --json.'
    return 'No extras to set. Please send the output of --json in an issue "This is my server".'
