# SPDX-License-Identifier: Apache-2.0
"""A plan as Markdown, for logs, approvals and files.

A plan is shown by its effects: what happens, on how many websites, and on which ones. Every effect is listed, even in a
long plan, and what an approver must not miss comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.readable import code_span, counted, first_of
from airflow_provider_analytics.reconcile.plan.plan import Action, Change, Effect, Plan, short

#: Maximum number of effects of an action that name their websites, and of websites in one line.
_MAX_EFFECTS, _MAX_NAMES = 50, 20
_TITLES: dict[Action, str] = {"delete": "Delete", "create": "Create", "update": "Update"}


def to_markdown(plan: Plan, *, is_whole: bool = False, whole: str | None = None) -> str:
    """Return the plan as Markdown.

    :param is_whole: name all websites of all effects.
    :param whole: path of the plan with all of them, mentioned if something is left out.
    """
    lines = "\n\n".join(_paragraphs(plan, is_whole=is_whole)) + "\n"
    if whole and lines != to_markdown(plan, is_whole=True):
        lines += f"\nThe whole plan: {code_span(whole, None)}\n"
    return lines


def _paragraphs(plan: Plan, *, is_whole: bool) -> Iterator[str]:
    yield from _head(plan, is_whole=is_whole)
    if plan.scope:
        yield ", ".join(f"{name} {code_span(short(value))}" for name, value in plan.scope.items())
    yield f"Digest `{plan.digest}`"
    if renames := list(_renames(plan)):
        yield _bullets(renames)
    if not plan.changes:
        yield "Nothing to change."
    for action, title in _TITLES.items():
        if effects := effect_lines(plan, action, is_whole=is_whole):
            yield f"### {title} ({plan.count(action):,})\n\n{_bullets(effects)}"


def _head(plan: Plan, *, is_whole: bool) -> Iterator[str]:
    """Yield what an approver must not miss."""
    counts = ", ".join(f"{plan.count(action):,} to {action}" for action in ("create", "update", "delete"))
    yield f"**{counts}**, {plan.websites_compared:,} websites compared."
    findings = {guard: finding.split("\n- ") for guard, finding in plan.findings.items()}
    for guard, (problem, *_) in findings.items():
        yield f"**This plan cannot be applied without override_guards={guard}:** {' '.join(problem.splitlines())}"
    if plan.override_guards:
        yield f"**Guards that were overridden:** {', '.join(plan.override_guards)}"
    if plan.made_public:
        pages = "statistics page becomes" if len(plan.made_public) == 1 else "statistics pages become"
        names = _names([change.website for change in plan.made_public], is_whole=is_whole)
        yield f"**{len(plan.made_public):,} {pages} public:** {names}"
    for warning in plan.warnings:
        yield f"**Warning:** {code_span(warning, None)}"
    if plan.protected:
        yield f"Not in the file, but protected ({len(plan.protected):,}): {_names(plan.protected, is_whole=is_whole)}"
    if worst := [code_span(line, None) for _, *lines in findings.values() for line in lines]:
        yield f"The most on:\n\n{_bullets(worst)}"


def effect_lines(plan: Plan, action: Action, *, is_whole: bool = False) -> list[str]:
    """Return one line per effect of the changes with this action; pages that become public come first."""
    websites: dict[Effect, list[str]] = {}
    for change in plan.changes:
        if change.action == action:
            for effect in change.effects:
                websites.setdefault(effect, []).append(change.website)
    # If each website has its own list, there are as many effects as websites.
    shown = sorted(websites, key=lambda item: (_rank(item), -len(websites[item]), _text(item)))
    cut = len(shown) if is_whole else _MAX_EFFECTS
    lines = [
        f"{_text(item)} on {counted(len(websites[item]), 'website')}: {_names(websites[item], is_whole=is_whole)}"
        for item in shown[:cut]
    ]
    rest: dict[str, list[str]] = {}
    for effect in shown[cut:]:
        rest.setdefault(effect.field, []).append(effect.text(code_span))
    return lines + [f"{field}, {len(found):,} more effects: {'; '.join(found)}" for field, found in rest.items()]


def _rank(effect: Effect) -> int:
    if not effect.field:
        return 0
    return 1 if effect.field == "privacy" and effect.value == Privacy.PUBLIC.label else 2


def _text(effect: Effect) -> str:
    # Domains and entries come from the service, and are code.
    words = effect.text(code_span)
    return f"{effect.field}: {words}" if effect.field else words


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _renames(plan: Plan) -> Iterator[str]:
    """Yield a line for each pair of delete and create that looks like a renamed website."""
    by_likeness: dict[tuple[int, str], dict[Action, list[Change]]] = {}
    for change in plan.changes:
        for likeness in _likenesses(change.domain):
            by_likeness.setdefault(likeness, {}).setdefault(change.action, []).append(change)
    pairs = {}
    for alike in by_likeness.values():
        gone, new = alike.get("delete", []), alike.get("create", [])
        if len(gone) == 1 == len(new):
            pairs[gone[0].website] = new[0].domain
    for old, domain in pairs.items():
        yield (
            f"{code_span(old)} → {code_span(domain)} looks like a rename. A domain cannot be changed: the website is "
            "deleted and another one is created. The statistics stay with the old domain and are lost."
        )


def _likenesses(domain: str) -> list[tuple[int, str]]:
    """Return the parts that the old and new domain of a website may share: all but the first or the last label."""
    labels = domain_key(domain).removeprefix("www.").split(".")
    return [(0, ".".join(labels[-2:])), (1, ".".join(labels[:-1]))] if len(labels) > 1 else []


def _names(names: Sequence[str], *, is_whole: bool) -> str:
    return first_of(names, len(names) if is_whole else _MAX_NAMES, show=lambda name: code_span(short(name)))
