# SPDX-License-Identifier: Apache-2.0
"""Guards: checks that stop a plan that looks like an accident.

Each guard has a name (:data:`guards.GUARDS`). A person who has checked its finding overrides the guard by this name:
``override_guards=["entries_lost"]``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from airflow_provider_analytics.api.fields import LINE_FIELDS, Privacy, count_entries, normalise, raw_lines
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.guards import MIN_COUNTED, loses_too_much
from airflow_provider_analytics.readable import first_of
from airflow_provider_analytics.reconcile.desired.tables import Lists
from airflow_provider_analytics.reconcile.plan.plan import Change, Plan, short

#: Maximum number of websites, and of entries per website, in the message of a guard.
_MAX_WORST = 5


def guarded(
    plan: Plan,
    compared: Sequence[Record],
    limit: float,
    *,
    override_guards: Collection[str] = (),
    managed: Collection[str] = (),
    lists: Lists | None = None,
) -> Plan:
    """Return the plan with the findings of the guards that are not accepted.

    The guards check these fractions:

    * ``many_deleted``: deleted websites, of all compared websites; ``empty_list`` refuses to delete all of them;
    * ``made_public``: statistics pages that become public, of the pages of remaining websites that are not public;
    * ``entries_lost``: of a managed list, the entries that left it before their last day, of the distinct entries that
      it had in its last run, and the entries that websites lose although they did not leave it in this run, of all
      entries on remaining websites; of other lists, the entries by which lists get shorter, of all entries on remaining
      websites.

    Totals below :data:`guards.MIN_COUNTED` are not checked, but ``empty_list``.

    :param compared: the records that the plan compares.
    :param limit: largest fraction allowed, 0 to 1.
    :param override_guards: names of the guards that are overridden.
    :param managed: list fields that are managed.
    :param lists: their tables.
    """
    deleted = {change.website_id for change in plan.changes if change.action == "delete"}
    # The entries of deleted websites would hide losses on the others.
    kept = [record for record in compared if str(record["id"]) not in deleted]
    found = {
        **_deleted(plan, compared, limit),
        "made_public": _made_public(plan, kept, limit),
        "entries_lost": list[str](),
    }
    for name in LINE_FIELDS:
        if name not in managed:
            found["entries_lost"] += _lost(plan, name, kept, limit)
    found["entries_lost"] += left(lists, managed, limit, override_guards)
    if lists is not None:
        for name in managed:
            found["entries_lost"] += _removed(plan, name, kept, limit, lists)
    # The problems first, because a task log cuts off.
    findings = {
        guard: "\n".join(sorted(lines, key=lambda line: line.startswith("- ")))
        for guard, lines in found.items()
        if lines
    }
    return replace(
        plan,
        findings={guard: text for guard, text in findings.items() if guard not in override_guards},
        override_guards=tuple(sorted(override_guards)),
        warnings=(
            *plan.warnings,
            *(f"Accepted ({guard}): {text}" for guard, text in findings.items() if guard in override_guards),
        ),
    )


def _finding(lost: int, total: int, limit: float, what: str, worst: Sequence[str]) -> list[str]:
    """Return the lines of a finding, with the worst cases; none if it is within the limit."""
    if not loses_too_much(lost, total, limit):
        return []
    problem = f"{lost:,} of {total:,} {what} ({lost / total:.0%}, allowed {limit:.0%})."
    return [problem, *(f"- {item}" for item in worst[:_MAX_WORST])]


def _deleted(plan: Plan, compared: Sequence[Record], limit: float) -> dict[str, list[str]]:
    """Return the finding if too many websites, or all of them, would be deleted."""
    deleted = [change.website for change in plan.changes if change.action == "delete"]
    if len(deleted) < len(compared):
        return {"many_deleted": _finding(len(deleted), len(compared), limit, "websites would be deleted", deleted)}
    if not deleted or limit == 1:
        return {}
    those = "The only website" if len(deleted) == 1 else f"All {len(deleted):,} websites"
    return {"empty_list": [f"{those} would be deleted.", *(f"- {item}" for item in deleted[:_MAX_WORST])]}


def _made_public(plan: Plan, kept: Sequence[Record], limit: float) -> list[str]:
    """Return the finding if too many statistics pages would become public."""
    closed = sum(normalise("privacy", record.get("privacy")) != Privacy.PUBLIC.label for record in kept)
    opened = [change.website for change in plan.made_public if change.action == "update"]
    what = "statistics pages that are not public would become public"
    return _finding(len(opened), closed, limit, what, opened)


def left(
    lists: Lists | None, managed: Collection[str], limit: float, override_guards: Collection[str] = ()
) -> list[str]:
    """Return the lines of a finding if too much left a managed list. It needs the tables only, and no website."""
    if lists is None:
        return []
    lines: list[str] = []
    for name in managed:
        before, now = lists.before.items(name), lists.table.items(name)
        if "empty_list" in override_guards and not now:
            continue
        gone = sorted(
            item
            for item, source in before.items()
            if item not in now and (source.until is None or source.until >= lists.today)
        )
        what = f"entries left the list {lists.table.identity.list!r}"
        lines += _finding(len(gone), len(before), limit, what, [first_of(gone, _MAX_WORST, show=short)])
    return lines


def _removed(plan: Plan, name: str, kept: Sequence[Record], limit: float, lists: Lists) -> list[str]:
    """Return the finding if websites lose entries that the list did not lose in this run.

    Such entries are a rest of an earlier run, or the table was damaged or forged: it is then no proof that they were
    ever on the list. Replacing an entry is not a loss. The entries of a host name may change every night.
    """
    rows = lists.before.rows.get(name, {}).values()
    listed = {entry for entries in rows for entry, source in entries.items() if not source.left}
    shorter: list[tuple[int, Change]] = []
    distinct: set[str] = set()
    for change in plan.changes:
        for field_change in change.fields if change.action == "update" else ():
            others = (
                [entry for entry in field_change.removed if entry not in listed] if field_change.field == name else []
            )
            lost = min(field_change.fewer, len(others))
            if lost > 0:
                shorter.append((lost, change))
                distinct.update(others)
    if len(distinct) < MIN_COUNTED:
        return []
    there = sum(count_entries(name, raw_lines(name, record.get(name))) for record in kept)
    what = f"{name} entries would be removed from websites, although they did not leave the list in this run"
    worst = [_describe_loss(change, name) for _, change in sorted(shorter, key=lambda item: -item[0])[:_MAX_WORST]]
    return _finding(sum(lost for lost, _ in shorter), there, limit, what, worst)


def _lost(plan: Plan, name: str, kept: Sequence[Record], limit: float) -> list[str]:
    """Return the finding if lists get too short. Replacing an entry is not a loss."""
    there = sum(count_entries(name, raw_lines(name, record.get(name))) for record in kept)
    shorter: list[tuple[int, Change]] = []
    for change in plan.changes:
        if change.action != "delete":
            shorter += [(field.fewer, change) for field in change.fields if field.field == name and field.fewer > 0]
    shorter.sort(key=lambda item: -item[0])
    worst = [_describe_loss(change, name) for _, change in shorter[:_MAX_WORST]]
    return _finding(sum(fewer for fewer, _ in shorter), there, limit, f"{name} entries would be lost", worst)


def _describe_loss(change: Change, name: str) -> str:
    removed = [entry for field in change.fields if field.field == name for entry in field.removed]
    return f"{change.website} loses {first_of(removed, _MAX_WORST, show=short)}"
