"""A plan as Markdown, for logs, approvals and files.

First come the effects: what happens, on how many websites and on which. Equal effects are one line, and every effect
is named, however long the plan. Then come the websites: equal changes together, each kind with its share of the lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.readable import code_span, counted
from airflow_provider_analytics.reconcile.plan import Action, Change, FieldChange, Plan, short

#: Number of different changes that are shown.
_SHOWN_CHANGES = 100
#: Number of effects with a line of their own; further ones are named in one line for each field.
_SHOWN_EFFECTS = 50
_SHOWN_ENTRIES = 20
#: Number of websites that are named in one line.
_SHOWN_NAMES = 20
_TITLES: dict[Action, str] = {"delete": "Delete", "create": "Create", "update": "Update"}


def to_markdown(plan: Plan, *, limit: int | None = _SHOWN_CHANGES, whole: str | None = None) -> str:
    """Return the plan as Markdown.

    The head says what a person must not miss: guards that tripped, pages that become public, and all effects.

    :param limit: maximum number of different changes; the others are counted, and each kind of change gets its share.
        None shows all of them, with all websites and entries.
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
    else:
        lines += ["", "### Effects", "", *(f"- {line}" for line in (*_renames(plan), *_effects(plan, limit)))]
    by_action = {action: _equal(plan, action, limit) for action in _TITLES}
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
    """Return how many lines each kind of change gets: an equal share, and what others leave."""
    left = sum(numbers) if limit is None else limit
    shares = [0] * len(numbers)
    for place in sorted(range(len(numbers)), key=lambda place: numbers[place]):
        waiting = sum(not shares[other] and numbers[other] >= numbers[place] for other in range(len(numbers)))
        shares[place] = min(numbers[place], left // max(waiting, 1))
        left -= shares[place]
    return shares


def _effects(plan: Plan, limit: int | None) -> list[str]:
    """Return what the plan does, a line for each effect, and what deletes and opens first."""
    websites: dict[tuple[int, str, str], list[str]] = {}
    for change in plan.shown:
        for rank, field, what in _done_by(change):
            websites.setdefault((rank, field, what), []).append(change.website)
    # Where each website has a list of its own, there are as many effects as websites.
    shown = sorted(websites.items(), key=lambda item: (item[0][0], -len(item[1]), item[0]))
    cut = len(shown) if limit is None else _SHOWN_EFFECTS
    lines = []
    for (_, _, what), names in shown[:cut]:
        few = f": {_listed(names, limit)}"
        lines.append(f"{what} on {counted(len(names), 'website')}{few}")
    rest: dict[str, list[str]] = {}
    for (_, field, what), _names in shown[cut:]:
        rest.setdefault(field, []).append(what.removeprefix(f"{field}: "))
    lines += [f"{field}, {len(found):,} more effects: {'; '.join(found)}" for field, found in rest.items()]
    return lines


def _done_by(change: Change) -> list[tuple[int, str, str]]:
    """Return rank, field and text of what a change does."""
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
    """Return a line for each delete and create that look like a new domain of the same website."""
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
    """Return what a domain and a new one for the same website may have in common: all but the first or last label."""
    labels = domain_key(domain).removeprefix("www.").split(".")
    return [(0, ".".join(labels[-2:])), (1, ".".join(labels[:-1]))] if len(labels) > 1 else []


def _equal(plan: Plan, action: Action, limit: int | None) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the changes with an action: what is changed, and the websites on which it is."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for change in plan.shown:
        if change.action == action:
            fields = tuple(_field(one, action, limit) for one in change.fields)
            groups.setdefault(fields, []).append(change.website)
    return list(groups.items())


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
