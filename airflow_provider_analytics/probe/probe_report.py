# SPDX-License-Identifier: Apache-2.0
"""The report of a probe: lines for a person, JSON for an issue, an exit status, and a line for the Test button."""

from __future__ import annotations

import json

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api.dialect import PAGE_PARAMETER
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.probe.checks import Probe, ProbeFinding
from airflow_provider_analytics.probe.reading import LimitedReader
from airflow_provider_analytics.readable import counted

#: Exit statuses, as of all commands: no extras to set; something fails; extras must be set.
OK, FAILED, SET_EXTRAS = 0, 1, 2

_UNKNOWN = (
    "Reads do not show how the service writes: whether an update stores values as sent, and keeps the other fields. "
    "The sample DAG try_your_service tests it on a new website."
)


def status(probe: Probe) -> int:
    """Return the exit status."""
    if probe.extras:
        return SET_EXTRAS
    if "FAILS" in {finding.mark for finding in probe.findings}:
        return FAILED
    return OK


def as_json(probe: Probe) -> str:
    """Return the report as JSON, without the host and without values of the service."""
    findings = {}
    for finding in probe.findings:
        findings[finding.name] = {"mark": finding.mark, "text": finding.text}
    report = {
        "provider": __version__,
        "status": status(probe),
        "requests": probe.reader.transport.stats.requests,
        "extras": probe.extras,
        "findings": findings,
    }
    return json.dumps(report, indent=2)


def as_answer(found: ProbeFinding) -> str:
    """Return the line of a finding: its mark, the question, and the answer."""
    return f"{found.mark:5} {found.name:8}  {found.text}."


def conclusion(probe: Probe) -> str:
    """Return the end of the report: what a probe cannot know, and what to do next."""
    if probe.extras:
        remedy = f"Add to the extras of the connection:\n{json.dumps(probe.extras)}"
    elif status(probe) == FAILED:
        remedy = "Not everything works with this service. Open an issue with the output of --json."
    else:
        remedy = "No extras to set."
    sent = counted(probe.reader.transport.stats.requests, "request")
    return f"\n{_UNKNOWN}\n\nSent {sent}. {remedy}"


def as_line(reader: LimitedReader) -> str:
    """Summarize the first page for the Test button: ``42 websites; pages by `page`; exclusion lists are returned``."""
    rows = reader.page.rows
    count = f"{counted(len(rows), 'website')} on the first page, no total"
    if reader.page.total is not None:
        count = counted(reader.page.total, "website")
    parts = [count, _paging(reader)]
    if rows:
        missing = [name for name in LINE_FIELDS if name not in rows[0]]
        if missing:
            parts.append(f"rows lack {', '.join(missing)}")
        else:
            parts.append("exclusion lists are returned")
    if reader.extras:
        parts.append(f"set the extra list_key to {reader.extras['list_key']}")
    return "; ".join(parts)


def _paging(reader: LimitedReader) -> str:
    page = reader.page
    own = reader.settings.page_parameter
    if page.following and page.following.parameter:
        return f"pages by `{own or page.following.parameter}`"
    if page.total is not None and page.total <= len(page.rows):
        return "all on one page"
    return f"pages by `{own or PAGE_PARAMETER}`, which is assumed"
