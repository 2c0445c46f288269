"""The report of a probe: as text for a person, as JSON for an issue, as an exit status, and as one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api.dialect import PAGE_PARAMETER
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.probe.findings import Finding
from airflow_provider_analytics.probe.seen import Seen

#: Exit statuses: no action needed; the service is not supported; extras must be set.
OK, FAILED, SET_EXTRAS = 0, 1, 2
_MARKS = {"assumed": "ok", "handled": "ok", "extra": "SET", "partly": "note", "refused": "FAILS"}
_ORDER = ("FAILS", "SET", "note", "ok")


def status(found: Sequence[Finding]) -> int:
    """Return the exit status."""
    if extras(found):
        return SET_EXTRAS
    return FAILED if any(_is_failure(one) for one in found) else OK


def _is_failure(found: Finding) -> bool:
    is_unknown_parameter = found.unknown.name == "pages" and found.value is None and "set `" in found.seen
    return found.effect == "refused" or is_unknown_parameter


def extras(found: Sequence[Finding]) -> dict[str, Any]:
    """Return the extras to set."""
    return {name: value for one in found for name, value in one.extras.items()}


def as_json(seen: Seen, found: Sequence[Finding]) -> str:
    """Return the report as JSON, without the host and without values of the service."""
    report = {
        "provider": __version__,
        "status": status(found),
        "requests": seen.requests,
        "seconds": round(seen.seconds, 1),
        "websites": _count(seen),
        "extras": extras(found),
        "unanswered": seen.unanswered,
        "answers": {one.unknown.name: {"value": one.value, "effect": one.effect, "seen": one.seen} for one in found},
    }
    return json.dumps(report, indent=2, ensure_ascii=False)


def as_text(seen: Seen, found: Sequence[Finding]) -> str:
    """Return the report as lines: failures, then extras to set, then notes, then expected behavior."""
    lines = [
        f"{seen.settings.base_url}: {_plural(seen.requests, 'request')} in {seen.seconds:.1f} s, {_websites(seen)}.",
        "",
    ]
    known = sorted((one for one in found if one.effect is not None), key=lambda one: _ORDER.index(_mark(one)))
    width = max((len(one.unknown.name) for one in found), default=0)
    for one in known:
        meaning = one.unknown.value(str(one.value)).meaning if one.effect != "assumed" else ""
        value = f"{one.value} ({one.seen})" if one.seen else str(one.value)
        lines.append(f"{_mark(one):5} {one.unknown.name:{width}}  {value}{f'. {meaning}.' if meaning else ''}")
    unknown = [one for one in found if one.effect is None]
    lines += ["", "Cannot tell:"]
    lines += [f"{'FAILS' if _is_failure(one) else '':5} {one.unknown.name:{width}}  {one.seen}." for one in unknown]
    lines += ["", _conclusion(found)]
    return "\n".join(lines) + "\n"


def _mark(found: Finding) -> str:
    return _MARKS[str(found.effect)]


def _conclusion(found: Sequence[Finding]) -> str:
    if extras(found):
        return f"Add to the extras of the connection:\n{json.dumps(extras(found))}"
    if status(found) == FAILED:
        return "This service does not work with this package yet. Open an issue with the output of --json."
    return "No extras to set. The first website of a run shows how the service writes."


def as_line(seen: Seen) -> str:
    """Summarize the first page for the Test button: ``42 websites; pages by `page`; exclusion lists are shown``."""
    page = seen.newest.page if seen.newest else None
    rows = seen.newest.rows if seen.newest else []
    parts = [_websites(seen)]
    linked = page.following if page is not None else None
    if linked is not None and linked.parameter:
        parts.append(f"pages by `{seen.settings.page_parameter or linked.parameter}`")
    elif seen.elsewhere is not None and seen.elsewhere.parameter:
        hint = "" if seen.settings.page_parameter else ", which the extra page_parameter has to name"
        parts.append(f"pages by `{seen.elsewhere.parameter}`{hint}")
    elif page is not None and page.total is not None and page.total <= len(rows):
        parts.append("all on one page")
    else:
        parts.append(f"pages by `{seen.settings.page_parameter or PAGE_PARAMETER}`, which is assumed")
    if rows:
        missing = [name for name in LINE_FIELDS if name not in rows[0]]
        parts.append(f"rows lack {', '.join(missing)}" if missing else "exclusion lists are shown")
    if seen.newest is not None and seen.newest.key:
        parts.append(f"set the extra list_key to {seen.newest.key}")
    return "; ".join(parts)


def _count(seen: Seen) -> int | None:
    return seen.newest.page.total if seen.newest and seen.newest.page else None


def _websites(seen: Seen) -> str:
    count = _count(seen)
    rows = len(seen.newest.rows) if seen.newest else 0
    return _plural(count, "website") if count is not None else f"{_plural(rows, 'website')} on the first page, no total"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
