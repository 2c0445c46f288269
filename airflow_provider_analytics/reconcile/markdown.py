"""A plan as Markdown, for logs, approvals and files.

A plan is shown by its effects: what happens, on how many websites, and on which ones. Every effect is listed, even in a
long plan, and what an approver must not miss comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.readable import code_span, counted
from airflow_provider_analytics.reconcile.plan import Action, Change, Plan, short

#: Maximum number of effects of an action that name their websites, and of websites in one line.
_MAX_EFFECTS, _MAX_NAMES = 50, 20
_TITLES: dict[Action, str] = {"delete": "Delete", "create": "Create", "update": "Update"}


def to_markdown(plan: Plan, *, is_whole: bool = False, whole: str | None = None) -> str:
    """Return the plan as Markdown.

    :param is_whole: name all websites of all effects.
    :param whole: path of the plan with all of them, mentioned if something is left out.
    """
    counts = ", ".join(f"{plan.count(action):,} to {action}" for action in ("create", "update", "delete"))
    lines = [f"**{counts}**, {plan.websites:,} websites compared.", ""]
    for guard, finding in plan.findings.items():
        problem = " ".join(finding.split("\n- ")[0].splitlines())
        lines += [f"**This plan cannot be applied without accept={guard}:** {problem}", ""]
    if plan.accept:
        lines += [f"**Guards that were overridden:** {', '.join(plan.accept)}", ""]
    if plan.opened:
        pages = "statistics page becomes" if len(plan.opened) == 1 else "statistics pages become"
        names = _names([change.website for change in plan.opened], is_whole=is_whole)
        lines += [f"**{len(plan.opened):,} {pages} public:** {names}", ""]
    lines += [line for warning in plan.warnings for line in (f"**Warning:** {code_span(warning, None)}", "")]
    if plan.protected:
        names = _names(plan.protected, is_whole=is_whole)
        lines += [f"Not in the file, but protected ({len(plan.protected):,}): {names}", ""]
    worst = [line for finding in plan.findings.values() for line in finding.split("\n- ")[1:]]
    lines += ["The most on:", "", *(f"- {code_span(line, None)}" for line in worst), ""] if worst else []
    if plan.scope:
        lines += [", ".join(f"{name} {code_span(short(value))}" for name, value in plan.scope.items()), ""]
    lines.append(f"Digest `{plan.digest}`")
    renames = [f"- {line}" for line in _renames(plan)]
    lines += ["", *renames] if renames else []
    lines += [] if plan.changes else ["", "Nothing to change."]
    for action, title in _TITLES.items():
        if plan.count(action):
            effects = effect_lines(plan, action, is_whole=is_whole)
            lines += ["", f"### {title} ({plan.count(action):,})", "", *(f"- {line}" for line in effects)]
    text = "\n".join(lines) + "\n"
    if whole and text != to_markdown(plan, is_whole=True):
        text += f"\nThe whole plan: {code_span(whole, None)}\n"
    return text


def effect_lines(plan: Plan, action: Action, *, is_whole: bool = False) -> list[str]:
    """Return one line per effect of the changes with this action; pages that become public come first."""
    websites: dict[_Effect, list[str]] = {}
    for change in plan.changes:
        if change.action == action:
            website = change.website
            for effect in _effects(change):
                websites.setdefault(effect, []).append(website)
    # If each website has its own list, there are as many effects as websites.
    shown = sorted(websites.items(), key=lambda item: (item[0].rank, -len(item[1]), _text(item[0])))
    cut = len(shown) if is_whole else _MAX_EFFECTS
    lines = [
        f"{_text(effect)} on {counted(len(names), 'website')}: {_names(names, is_whole=is_whole)}"
        for effect, names in shown[:cut]
    ]
    rest: dict[str, list[str]] = {}
    for effect, _ in shown[cut:]:
        rest.setdefault(effect.field, []).append(_text(effect).removeprefix(f"{effect.field}: "))
    return lines + [f"{field}, {len(found):,} more effects: {'; '.join(found)}" for field, found in rest.items()]


class _Effect(NamedTuple):
    """What happens to a field, or to a website; equal for websites with the same effect."""

    rank: int
    field: str
    verb: str = ""
    before: Any = None
    after: Any = None


def _effects(change: Change) -> Iterator[_Effect]:
    if change.action != "update":
        yield _Effect(0, change.action)
    for one in change.fields if change.action != "delete" else ():
        if one.field not in LINE_FIELDS:
            yield _Effect(1 if one.opens else 2, one.field, "set", one.before, one.after)
            continue
        yield from (_Effect(2, one.field, "add", after=entry) for entry in one.added)
        yield from (_Effect(2, one.field, "remove", after=entry) for entry in one.removed)
        if not one.added and not one.removed:
            yield _Effect(2, one.field, "comments only")


def _text(effect: _Effect) -> str:
    """Return an effect as text. Domains and entries come from the service, and are code."""
    if not effect.verb:
        return effect.field
    if effect.verb == "comments only":
        return f"{effect.field}: comments only"
    verb = f"{code_span(short(effect.before))} → " if effect.before is not None else ""
    verb = f"{effect.verb} " if effect.verb != "set" else verb
    return f"{effect.field}: {verb}{code_span(short(effect.after))}"


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
        f"{code_span(gone)} → {code_span(new)} looks like a rename. A domain cannot be changed: the website is deleted "
        "and another one is created. The statistics stay with the old domain and are lost."
        for gone, new in pairs.items()
    ]


def _likenesses(domain: str) -> list[tuple[int, str]]:
    """Return the parts that the old and new domain of a website may share: all but the first or the last label."""
    labels = domain_key(domain).removeprefix("www.").split(".")
    return [(0, ".".join(labels[-2:])), (1, ".".join(labels[:-1]))] if len(labels) > 1 else []


def _names(names: Sequence[str], *, is_whole: bool) -> str:
    shown = names if is_whole else names[:_MAX_NAMES]
    more = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
    return ", ".join(code_span(short(name)) for name in shown) + more
