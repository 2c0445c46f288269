"""A plan as Markdown, for logs, approvals and files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.readable import code_span
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, short

_SHOWN_CHANGES = 100
_SHOWN_ENTRIES = 20
#: Number of websites that are named in one line.
_SHOWN_NAMES = 20


def to_markdown(plan: Plan, *, limit: int | None = _SHOWN_CHANGES, whole: str | None = None) -> str:
    """Return the plan as Markdown.

    The head says what a person must not miss: guards that tripped, pages that become public, deletions.

    :param limit: maximum number of changes; the others are counted. None shows all of them, with all entries.
    :param whole: where the whole plan is, if something is left out.
    """
    counts = ", ".join(f"{plan.count(action):,} to {action}" for action in ("create", "update", "delete"))
    lines = [f"**{counts}**, {plan.websites:,} websites compared.", ""]
    if plan.unsafe:
        how = "overridden by force=True" if plan.force else "this plan cannot be applied; plan again with force=True"
        problem = " ".join(plan.unsafe.split("\n- ")[0].splitlines())
        lines += [f"**Guard tripped, {how}:** {problem}", ""]
    if plan.opened:
        pages = "statistics page becomes" if len(plan.opened) == 1 else "statistics pages become"
        lines += [f"**{len(plan.opened):,} {pages} public:** {_names(plan.opened, limit)}", ""]
    lines += [line for warning in plan.warnings for line in (f"**Warning:** {code_span(warning, None)}", "")]
    if plan.protected:
        lines += [f"Not in the file, but protected ({len(plan.protected):,}): {_listed(plan.protected, limit)}", ""]
    if plan.unsafe and (worst := plan.unsafe.split("\n- ")[1:]):
        lines += ["The most on:", "", *(f"- {code_span(one, None)}" for one in worst), ""]
    if plan.scope:
        lines += [", ".join(f"{name} {_code(value)}" for name, value in plan.scope.items()), ""]
    lines.append(f"Digest `{plan.digest}`")
    if not plan.changes:
        lines += ["", "Nothing to change."]
    left = len(plan.changes) if limit is None else limit
    for action, title in (("delete", "Delete"), ("create", "Create"), ("update", "Update")):
        changes = [change for change in plan.shown if change.action == action]
        if not changes:
            continue
        lines += ["", f"### {title} ({len(changes):,})", ""]
        for change in changes[: max(left, 0)]:
            lines.append(f"- {_code(change.website)}")
            lines += [f"    - {_field(one, change.action, limit)}" for one in change.fields]
        if len(changes) > left:
            lines.append(f"- and {len(changes) - max(left, 0):,} more")
        left -= len(changes)
    text = "\n".join(lines) + "\n"
    if whole and limit is not None and text != to_markdown(plan, limit=None):
        text += f"\nThe whole plan: {code_span(whole, None)}\n"
    return text


def _names(changes: Sequence[Change], limit: int | None) -> str:
    return _listed([change.website for change in changes], limit)


def _listed(names: Sequence[str], limit: int | None) -> str:
    shown = names if limit is None else names[:_SHOWN_NAMES]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return ", ".join(map(_code, shown)) + more


def _code(value: Any) -> str:
    # Domains and entries come from the service.
    return code_span(short(value))


def _field(change: FieldChange, action: str, limit: int | None) -> str:
    if action == "delete":
        entries = change.before if isinstance(change.before, tuple) else None
        return f"{change.field}: {_code(change.before) if entries is None else _entries(entries, limit) or 'empty'}"
    if change.field not in LINE_FIELDS:
        if action == "create" or change.field == "password_from":
            return f"{change.field}: {_code(change.after)}"
        return f"{change.field}: {_code(change.before)} → {_code(change.after)}"
    parts = [
        f"{word} {_entries(entries, limit)}"
        for word, entries in (("add", change.added), ("remove", change.removed))
        if entries
    ]
    return f"{change.field}: {'; '.join(parts) or 'comments only'}"


def _entries(entries: Sequence[str], limit: int | None) -> str:
    shown = entries if limit is None else entries[:_SHOWN_ENTRIES]
    more = len(entries) - len(shown)
    return ", ".join(map(_code, shown)) + (f" and {more:,} more" if more > 0 else "")
