# SPDX-License-Identifier: Apache-2.0
"""A plan as Markdown, for logs, approvals, and files.

A plan is displayed by its effects: each effect, the number of its websites, and their names. The facts that an approver
must not miss come first. The text has at most :data:`MAX_CHARACTERS`; the effects that do not fit are counted. For
example::

    **0 to create, 2 to update, 0 to delete**, 60 websites compared.

    Digest `4f0c...`

    ### Update (2)

    - exclude_ips: add `192.0.2.1` on 2 websites: `shop.example (id 7)`, `www.example (id 9)`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.readable import code_span, counted, first_of
from airflow_provider_analytics.reconcile.plan.changes import Action, Effect, Plan, short

#: Maximum length of a plan that is not whole. Comments of GitHub have at most 65,536 characters, and MySQL stores the
#: body of an approval in 65,535 bytes.
MAX_CHARACTERS = 60_000
#: Maximum number of effects of an action that name their websites, of names in one line, and of warnings.
_MAX_EFFECTS, _MAX_NAMES, _MAX_WARNINGS = 50, 20, 20
#: Maximum length of a warning in a plan that is not whole.
_MAX_WARNING = 1000
#: Characters that a title, the counts of the effects that do not fit, and the address of the whole plan take at most.
_RESERVE = 2000
_TITLES: dict[Action, str] = {"delete": "Delete", "create": "Create", "update": "Update"}


def to_markdown(plan: Plan, *, is_whole: bool = False, url: str | None = None) -> str:
    """Return the plan as Markdown.

    :param is_whole: name all websites of all effects, whatever the length.
    :param url: address of the log with all of them, mentioned if something is left out.
    """
    paragraphs = list(_paragraphs(plan, is_whole=is_whole))
    left = MAX_CHARACTERS - sum(map(len, paragraphs))
    for place, (action, title) in enumerate(_TITLES.items()):
        limit = None
        if not is_whole and action == "delete":
            limit = left - len(_TITLES) * _RESERVE  # an approver must not miss a deletion
        elif not is_whole:
            limit = left // (len(_TITLES) - place) - _RESERVE
        effects = effect_lines(plan, action, limit=limit)
        if effects:
            paragraphs.append(f"### {title} ({plan.count(action):,})\n\n{_bullets(effects)}")
            left -= len(paragraphs[-1])
    text = "\n\n".join(paragraphs) + "\n"
    if url and text != to_markdown(plan, is_whole=True):
        text += f"\nThe whole plan is in the log: <{url}>\n"
    return text


def _paragraphs(plan: Plan, *, is_whole: bool) -> Iterator[str]:
    yield (
        f"**{plan.count('create'):,} to create, {plan.count('update'):,} to update, {plan.count('delete'):,} to "
        f"delete**, {counted(plan.websites_compared, 'website')} compared."
    )
    yield from _notices(plan, is_whole=is_whole)
    if plan.scope:
        settings = ", ".join(f"{name} {code_span(short(value))}" for name, value in plan.scope.items())
        yield f"Settings: {settings}"
    yield f"Digest `{plan.digest}`"
    if not plan.changes:
        yield "Nothing to change."


def _public_pages(plan: Plan, *, is_whole: bool) -> Iterator[str]:
    """Yield a paragraph with the names of all pages that become public, as far as there is room."""
    pages = [change.website for change in plan.made_public]
    if not pages:
        return
    noun = "statistics page becomes" if len(pages) == 1 else "statistics pages become"
    room = None
    if not is_whole:
        room = MAX_CHARACTERS // 2 - len(_TITLES) * _RESERVE  # the other half is for deletions and the rest
    yield f"**{len(pages):,} {noun} public:** {_all_names(pages, room)}"


def _notices(plan: Plan, *, is_whole: bool) -> Iterator[str]:
    """Yield the paragraphs that an approver must not miss."""
    for guard, finding in plan.findings.items():
        problem, *cases = finding.split("\n- ")
        yield f"**This plan cannot be applied without override_guards={guard}:** {' '.join(problem.splitlines())}"
        if cases:
            yield _bullets(code_span(line, None) for line in cases)
    if plan.override_guards:
        yield f"**Guards that were overridden:** {', '.join(plan.override_guards)}"
    yield from _public_pages(plan, is_whole=is_whole)
    for warning in _first(plan.warnings, "warnings", is_whole=is_whole):
        # An overridden guard has a line for each case.
        problem, *cases = warning.splitlines() or [""]
        yield f"**Warning:** {code_span(problem, None if is_whole else _MAX_WARNING)}"
        if cases:
            yield _bullets(code_span(line.removeprefix("- "), None if is_whole else _MAX_WARNING) for line in cases)
    if plan.protected:
        yield f"Not in the file, but protected ({len(plan.protected):,}): {_names(plan.protected, is_whole=is_whole)}"


def effect_lines(plan: Plan, action: Action, *, limit: int | None = MAX_CHARACTERS) -> list[str]:
    """Return one line per effect of the changes with this action; pages that become public come first.

    For example: ``["exclude_ips: add `192.0.2.1` on 2 websites: `shop.example (id 7)`, `www.example (id 9)`"]``.

    :param limit: maximum number of characters; the effects that do not fit are counted by field and verb. None for all
        effects with all websites.
    """
    websites: dict[Effect, list[str]] = {}
    for change in plan.changes:
        if change.action == action:
            for effect in change.effects:
                websites.setdefault(effect, []).append(change.website)

    def order(effect: Effect) -> tuple[int, int, str]:
        return _rank(effect), -len(websites[effect]), _text(effect)

    effects = sorted(websites, key=order)
    lines: list[str] = []
    length = 0
    for effect in effects:
        line = f"{_text(effect)} {'on ' if effect.field else ''}{counted(len(websites[effect]), 'website')}"
        # If each website has its own list, there are as many effects as websites.
        if action == "delete" and limit is not None:
            line += f": {_all_names(websites[effect], limit - length - len(line))}"
        elif limit is None or len(lines) < _MAX_EFFECTS:
            line += f": {_names(websites[effect], is_whole=limit is None)}"
        length += len(_bullets([line])) + 1
        if limit is not None and length > limit:
            break
        lines.append(line)
    omitted = Counter((effect.field, effect.verb or "set") for effect in effects[len(lines) :])
    for (field, verb), number in omitted.items():
        lines.append(f"{field}: {verb} {number:,} more")
    return lines


def _rank(effect: Effect) -> int:
    """Return the place of an effect: whole websites, pages that become public, removed entries, the rest."""
    if not effect.field:
        return 0
    if effect.field == "privacy" and effect.value == Privacy.PUBLIC.label:
        return 1
    if effect.verb == "remove":
        return 2
    return 3


def _text(effect: Effect) -> str:
    # Domains and entries come from the service, so they are code.
    words = effect.text(code_span)
    return f"{effect.field}: {words}" if effect.field else words


def _first(lines: Sequence[str], noun: str, *, is_whole: bool) -> list[str]:
    """Return the first lines, and the number of the others."""
    if is_whole or len(lines) <= _MAX_WARNINGS:
        return list(lines)
    return [*lines[:_MAX_WARNINGS], f"And {len(lines) - _MAX_WARNINGS:,} more {noun}."]


def _bullets(lines: Iterable[str]) -> str:
    return "- " + "\n- ".join(lines)


def _all_names(names: Sequence[str], room: int | None) -> str:
    """Return all names, or, if they take more characters than there is room for, the first names."""
    shown = [code_span(short(name)) for name in names]
    if room is None:
        return ", ".join(shown)
    number = 0
    for name in shown:
        room -= len(name) + len(", ")
        if room < 0:
            break
        number += 1
    return first_of(shown, number)


def _names(names: Sequence[str], *, is_whole: bool) -> str:
    limit = len(names) if is_whole else _MAX_NAMES
    return first_of(names, limit, show=lambda name: code_span(short(name)))
