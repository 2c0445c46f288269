# SPDX-License-Identifier: Apache-2.0
"""The engine: read, plan, guard, approve, write the table of the list, apply, verify.

The operators and the command line provide the desired state (a list or a file) and format the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import BulkError, GuardError
from airflow_provider_analytics.readable import counted, first_of
from airflow_provider_analytics.reconcile.apply.application import Application
from airflow_provider_analytics.reconcile.apply.results import Outcome
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.desired.desired_state import SETTABLE_FIELDS, Desired
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.tables import Lists, entries_of
from airflow_provider_analytics.reconcile.desired.websites_config import WebsitesAsCode
from airflow_provider_analytics.reconcile.plan.approval import ApprovedPlan
from airflow_provider_analytics.reconcile.plan.plan import Change, Plan, website_name, website_of
from airflow_provider_analytics.reconcile.plan.plan_guards import guarded
from airflow_provider_analytics.reconcile.service_websites import Websites, complete_records

#: Maximum number of entries in a warning.
_MAX_NAMED = 10


def plan(
    client: AnalyticsClient,
    source: ExclusionList | WebsitesAsCode,
    *,
    scope: Mapping[str, Any],
    max_loss_fraction: float,
    override_guards: Collection[str] = (),
    lists: Lists | None = None,
) -> PlanRun:
    """Read the websites, and plan the changes that bring them to the desired state.

    :param source: the desired state before the websites are known.
    :param scope: what the plan is bound to.
    :param max_loss_fraction: largest fraction that may be lost, see :func:`plan_guards.guarded`.
    :param override_guards: names of the guards to override.
    :param lists: the tables, if the source has managed lists.
    :raises ValueError: if the source cannot be resolved.
    """
    websites = source.read(client)
    desired = replace(source.resolve(websites.records), tables=lists)
    # Of all compared websites, because guards count what these have.
    named = {name for wanted in (*desired.by_id.values(), *desired.by_domain.values()) for name in wanted.compared}

    def is_incomplete(record: Record) -> bool:
        # The plan contains all fields of deleted websites.
        fields = set(SETTABLE_FIELDS) if str(record["id"]) in desired.deleted_ids else named
        return not record.keys() >= fields or bool(lists and lists.doubts(record))

    compared, unread = complete_records(client, list(filter(desired.is_compared, websites.records)), is_incomplete)
    unread |= {website_name(*website_of(record)): why for record in compared if (why := desired.unreadable(record))}
    compared = [record for record in compared if not desired.unreadable(record)]
    made = guarded(
        desired.plan(compared, scope),
        compared,
        max_loss_fraction,
        override_guards=override_guards,
        managed=source.managed,
        lists=lists,
    )
    if lists:
        made = replace(made, warnings=(*made.warnings, *_warnings(lists, desired, compared)))
    return PlanRun(made, websites, compared, source, desired, unread)


def _warnings(lists: Lists, desired: Desired, compared: Sequence[Record]) -> list[str]:
    """Return what the first run of a list takes over, what goes because it left the list before, and what stays."""
    taken, again, kept, commented = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for record in compared:
        wanted = desired.of(record)
        for name in lists.table.rows if wanted else ():
            there, listed = entries_of(name, record), set(wanted.settings.get(name, ())) if wanted else set()
            before = {entry: row for entry, row in lists.before.entries_of(name, record).items() if entry in there}
            taken.update(there & listed if lists.before.run is None else ())
            plain, others = entries_of(name, record, plain=True), lists.kept(name, record)
            gone = (item for item in lists.owned(name, record) if item in plain - listed and item in before)
            again.update(item for item in gone if before[item].left)
            # Said once, when the entry leaves: the command why tells it later.
            leaving = {entry for entry in before if entry not in listed and not before[entry].left}
            kept.update(f"{entry} (list {others[entry]!r})" for entry in leaving if entry in others)
            commented.update(leaving - plain - others.keys())
    owner = f"First run of the list {lists.table.identity.list!r}: it owns its entries from now on, whoever typed them"
    found = {
        owner: taken,
        "Removed, because it left the list earlier": again,
        "Not removed, because another list has it": kept,
        "Not removed, because its line has a comment": commented,
    }
    warnings = []
    for what, entries in found.items():
        named = [f"{entry} on {counted(number, 'website')}" for entry, number in entries.most_common()]
        warnings += [f"{what}: {first_of(named, _MAX_NAMED)}"] if named else []
    return warnings


@dataclass(frozen=True)
class PlanRun:
    """A plan, and the data that is needed to apply it.

    :param plan: the plan.
    :param websites: the websites as they were listed.
    :param compared: current records of the websites that the plan compares.
    :param source: the source of the desired state.
    :param desired: the desired state of each website.
    :param unread: website to why it could not be read.
    :param approved: the approved plan, if there is one.
    """

    plan: Plan
    websites: Websites
    compared: Sequence[Record]
    source: ExclusionList | WebsitesAsCode
    desired: Desired
    unread: Mapping[str, str] = field(default_factory=dict)
    approved: ApprovedPlan | None = None

    def sources_of(self, change: Change) -> dict[str, dict[str, str]]:
        """Return the sources of the entries that a change adds or removes: list field to entry to text."""
        record = {"id": change.website_id, "domain": change.domain}
        found: dict[str, dict[str, str]] = {}
        lists = self.desired.tables
        for item in change.fields if lists else ():
            rows = lists.table.entries_of(item.field, record) if lists else {}
            keys = {line: LINE_FIELDS[item.field].key(line) for line in (*item.added, *item.removed)}
            texts = {line: rows[key].text for line, key in keys.items() if key in rows and rows[key].text}
            found |= {item.field: texts} if texts else {}
        return found

    def raise_unread(self) -> None:
        """Raise :class:`BulkError` if websites could not be read: a plan without them is incomplete."""
        if self.unread:
            raise BulkError(self.unread)

    def only(self, digest: str | None, find: Callable[[str], Plan | None]) -> PlanRun:
        """Return this plan if it may be applied: it is the approved one, or what is left of it, or no guard trips.

        :param digest: digest of the approved plan; None if no approval is needed.
        :param find: returns the plan with a digest; None if there is none.
        :raises GuardError: if it may not be applied.
        """
        plan = self.plan
        if digest is not None:
            self.raise_unread()
        if digest in (None, plan.digest):
            plan.raise_if_blocked()
            return replace(self, approved=ApprovedPlan(plan) if digest else None)
        found = find(str(digest))
        if found is None:
            settings = ", ".join(f"{name} {value!r}" for name, value in plan.scope.items())
            raise GuardError(
                f"The plan is not the approved one: its digest is {plan.digest}, approved is {digest}. The file or a "
                "website changed, or the two tasks have different arguments.",
                f"No changes were sent. Plan again, with the arguments of this task: {settings}.",
            )
        differing = [name for name, value in plan.scope.items() if found.scope.get(name) != value]
        if differing:
            details = [f"{name} was {found.scope.get(name)!r}, here it is {plan.scope[name]!r}" for name in differing]
            problem = f"The plan was approved for other settings: {'; '.join(details)}."
            raise GuardError(problem, "Nothing was sent. Plan again.")
        refused = {guard: text for guard, text in plan.findings.items() if guard not in found.override_guards}
        replace(plan, findings=refused).raise_if_blocked()
        approved = ApprovedPlan(found)
        others = [record for record in self.websites.records if not self.desired.is_compared(record)]
        approved.raise_unless_whole(plan, [*self.compared, *others])
        return replace(self, approved=approved)

    def apply(
        self,
        record: Callable[[Change], None],
        *,
        passwords: Mapping[str, str] | None = None,
        ignore_gone: bool = False,
        read_tables: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """Apply the plan; the table of the list must have been written before.

        If the task is stopped during the run, the outcome has what was sent and what may have been sent.

        :param record: records each change.
        :param passwords: ``password_from`` reference to password.
        :param ignore_gone: do not count a website that no longer exists as a failure.
        :param read_tables: reads the tables of the other lists again.
        :return: the outcome; its failures include the websites that could not be read.
        """
        change_of = self.approved.only_approved(self.desired.change) if self.approved else self.desired.change
        sender = Sender(
            self.websites.client,
            change_of,
            record,
            self.desired.shared,
            self.desired.kept,
            read_tables,
            passwords or {},
            ignore_gone=ignore_gone,
        )
        return replace(Application(self.websites, self.plan, self.compared, sender).run(), unread=self.unread)
