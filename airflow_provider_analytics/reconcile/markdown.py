"""A plan as Markdown, for logs, approvals and files.

The effects come first: what happens, on how many websites and on which ones. Equal effects share one line, and every
effect is listed, even in a long plan. The websites follow, grouped by equal changes. Each kind of change gets a share
of the lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.readable import code_span, counted
from airflow_provider_analytics.reconcile.plan import Action, Change, FieldChange, Plan, short

#: Maximum number of different changes.
_MAX_CHANGES = 100
#: Maximum number of effects with their own line; the others share one line per field.
_MAX_EFFECTS = 50
_MAX_ENTRIES = 20
#: Maximum number of websites in one line.
_MAX_NAMES = 20
_TITLES: dict[Action, str] = {"delete": "Delete", "create": "Create", "update": "Update"}


def to_markdown(plan: Plan, *, limit: int | None = _MAX_CHANGES, whole: str | None = None) -> str:
    """Return the plan as Markdown.

    The head contains what an approver must not miss: guards that tripped, pages that become public, and all effects.

    :param limit: maximum number of different changes; the others are counted, and each kind of change gets its share.
        None includes all changes, with all websites and entries.
    :param whole: path of the complete plan, mentioned if something is left out.
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
    else:
        lines += ["", "### Effects", "", *(f"- {line}" for line in (*_renames(plan), *_effects(plan, limit)))]
    by_action = {action: _grouped(plan, action, limit) for action in _TITLES}
    shares = _shares([len(groups) for groups in by_action.values()], limit)
    for (action, groups), share in zip(by_action.items(), shares, strict=True):
        if not groups:
            continue
        lines += ["", f"### {_TITLES[action]} ({plan.count(action):,})", ""]
        for fields, names in groups[:share]:
            lines.append(f"- {_listed(names, limit)}")
            lines += [f"    - {field}" for field in fields]
        if left := sum(len(names) for _, names in groups[share:]):
            lines.append(f"- and {left:,} more")
    text = "\n".join(lines) + "\n"
    if whole and limit is not None and text != to_markdown(plan, limit=None):
        text += f"\nThe whole plan: {code_span(whole, None)}\n"
    return text


def _shares(numbers: Sequence[int], limit: int | None) -> list[int]:
    """Return how many lines each kind of change gets: an equal share, plus unused lines of the others."""
    left = sum(numbers) if limit is None else limit
    shares = [0] * len(numbers)
    for place in sorted(range(len(numbers)), key=lambda place: numbers[place]):
        waiting = sum(not shares[other] and numbers[other] >= numbers[place] for other in range(len(numbers)))
        shares[place] = min(numbers[place], left // max(waiting, 1))
        left -= shares[place]
    return shares


def _effects(plan: Plan, limit: int | None) -> list[str]:
    """Return one line per effect of the plan; deletions and pages that become public come first."""
    websites: dict[tuple[int, str, str], list[str]] = {}
    for change in plan.shown:
        for rank, field, what in _effects_of(change):
            websites.setdefault((rank, field, what), []).append(change.website)
    # If each website has its own list, there are as many effects as websites.
    shown = sorted(websites.items(), key=lambda item: (item[0][0], -len(item[1]), item[0]))
    cut = len(shown) if limit is None else _MAX_EFFECTS
    lines = []
    for (_, _, what), names in shown[:cut]:
        few = f": {_listed(names, limit)}"
        lines.append(f"{what} on {counted(len(names), 'website')}{few}")
    rest: dict[str, list[str]] = {}
    for (_, field, what), _names in shown[cut:]:
        rest.setdefault(field, []).append(what.removeprefix(f"{field}: "))
    lines += [f"{field}, {len(found):,} more effects: {'; '.join(found)}" for field, found in rest.items()]
    return lines


def _effects_of(change: Change) -> list[tuple[int, str, str]]:
    """Return rank, field and text of each effect of a change."""
    if change.action == "delete":
        return [(0, "delete", "delete")]
    found = [(2, "create", "create")] if change.action == "create" else []
    for one in change.fields:
        if one.field in LINE_FIELDS:
            found += [(3, one.field, f"{one.field}: add {_code(entry)}") for entry in one.added]
            found += [(3, one.field, f"{one.field}: remove {_code(entry)}") for entry in one.removed]
            if not one.added and not one.removed:
                found.append((3, one.field, f"{one.field}: comments only"))
        else:
            found.append((1 if one.opens else 3, one.field, f"{one.field}: {_code(one.after)}"))
    return found


def _renames(plan: Plan) -> list[str]:
    """Return a line for each pair of delete and create that looks like a renamed website."""
    by_likeness: dict[tuple[int, str], dict[Action, list[Change]]] = {}
    for change in plan.changes:
        for likeness in _likenesses(change.domain):
            by_likeness.setdefault(likeness, {}).setdefault(change.action, []).append(change)
    pairs = {}
    for alike in by_likeness.values():
        gone, new = alike.get("delete", []), alike.get("create", [])
        if len(gone) == 1 == len(new):
            pairs[gone[0].website] = new[0].domain
    return [
        f"{_code(gone)} → {_code(new)} looks like a rename. A domain cannot be changed: the website is deleted and "
        "another one is created. The statistics stay with the old domain and are lost."
        for gone, new in pairs.items()
    ]


def _likenesses(domain: str) -> list[tuple[int, str]]:
    """Return the parts that the old and new domain of a website may share: all but the first or the last label."""
    labels = domain_key(domain).removeprefix("www.").split(".")
    return [(0, ".".join(labels[-2:])), (1, ".".join(labels[:-1]))] if len(labels) > 1 else []


def _grouped(plan: Plan, action: Action, limit: int | None) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the changes with an action, grouped: changed fields, and the websites with these changes."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for change in plan.shown:
        if change.action == action:
            fields = tuple(_field(one, action, limit) for one in change.fields)
            groups.setdefault(fields, []).append(change.website)
    return list(groups.items())


def _names(changes: Sequence[Change], limit: int | None) -> str:
    return _listed([change.website for change in changes], limit)


def _listed(names: Sequence[str], limit: int | None) -> str:
    shown = names if limit is None else names[:_MAX_NAMES]
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
    shown = entries if limit is None else entries[:_MAX_ENTRIES]
    more = len(entries) - len(shown)
    return ", ".join(map(_code, shown)) + (f" and {more:,} more" if more > 0 else "")
