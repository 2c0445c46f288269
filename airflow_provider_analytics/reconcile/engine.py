# SPDX-License-Identifier: Apache-2.0
"""The engine: read, plan, check the guards and the approval, apply, verify.

:func:`apply_plan` is the way of a run, step by step. :func:`make_plan` is the part of it that sends no changes. The
operators prepare a :class:`~.job.Job`, and format the result.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import website_name, website_of
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.reconcile.apply.application import Application
from airflow_provider_analytics.reconcile.apply.outcome import Outcome
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.audit_trail import AuditTrail
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState
from airflow_provider_analytics.reconcile.job import Job, Planned
from airflow_provider_analytics.reconcile.plan.changes import plan_changes
from airflow_provider_analytics.reconcile.plan.plan_guards import (
    check_guards,
    internal_warnings,
    list_warnings,
    managed_lists_lose_entries,
    raise_unless_remainder,
)
from airflow_provider_analytics.reconcile.service_websites import complete_records
from airflow_provider_analytics.reconcile.state import (
    read_last_websites,
    read_plan,
    write_last_websites,
    write_plan,
)

log = logging.getLogger(__name__)


def apply_plan(
    job: Job,
    digest: str | None,
    find_passwords: Callable[[Mapping[str, Iterable[str]], Redactor], Mapping[str, str]],
    *,
    ignore_gone: bool = False,
) -> tuple[Planned, Outcome]:
    """Bring the websites to their desired state, and return the plan and its outcome.

    :param digest: digest of the approved plan; None if no approval is needed.
    :param find_passwords: returns the password of each ``password_from`` reference and adds it to the secrets.
    :param ignore_gone: do not count a website that no longer exists as a failure.
    """
    if digest is None:
        announce_list(job)
    planned = check_approval(job, make_plan(job), digest)
    if job.list_file and job.list_file.write():  # another list changed while the websites were read
        planned = check_approval(job, make_plan(job), digest)
    passwords = find_passwords(planned.plan.password_sources, job.client.redact)
    with AuditTrail(job.folder, job.context, job.client.redact, job.lists) as trail:
        outcome = send_changes(job, planned, trail, passwords, ignore_gone=ignore_gone)
        if digest is None and outcome.is_complete and job.list_file and job.list_file.runs_at_the_same_time():
            # The other list might have fetched a website before it could see the update of this one.
            seconds = sum(job.client.confirm_waits)
            log.info(
                "Reading all websites again in %g s, because another list is running or ran in the last hour.",
                seconds,
            )
            job.client.wait(seconds)
            again = check_approval(job, make_plan(job, is_again=True), digest)
            if again.plan.changes:
                outcome = outcome.followed_by(send_changes(job, again, trail, passwords, ignore_gone=ignore_gone))
                planned = planned.followed_by(again)
        try:
            trail.failed(outcome.failures)
        finally:
            outcome.raise_interruption()
    if job.list_file:
        job.list_file.raise_if_overtaken()
    if not outcome.failures:
        keep_websites(job, planned)
    return planned, outcome


def announce_list(job: Job) -> None:
    """Write the entries of the list before the websites are read, unless the list lost too many entries.

    An entry that another list removes before it has read this table is then missing in the websites that are read.

    :raises GuardError: for ``entries_lost``.
    """
    if job.list_file is None:
        return
    lost = managed_lists_lose_entries(job)
    if lost and "entries_lost" not in job.override_guards:
        raise GuardError("\n".join(lost), "No changes were sent.", "entries_lost")
    job.list_file.announce()


def make_plan(job: Job, *, is_again: bool = False) -> Planned:
    """Read the websites, plan the changes that bring them to the desired state, and check the guards.

    :param is_again: whether this run has changed websites already. Warnings would be about its own changes.
    :raises ValueError: if the source cannot be resolved.
    """
    last, last_problem = None, ""
    if job.folder and not is_again:
        try:
            last = read_last_websites(job.folder, job.scope)
        except ValueError as error:
            last_problem = str(error)
    websites = job.source.read(job.client)
    desired = replace(job.source.resolve(websites.records), tables=job.lists)
    compared, unread = _compared_records(job.client, desired, websites.records)
    plan = plan_changes(desired, compared, {**job.scope, "max_loss_fraction": job.max_loss_fraction})
    planned = Planned(plan, job.source, websites, compared, desired, unread)
    if websites.complete:
        planned = replace(planned, last=last, last_problem=last_problem)
    plan = check_guards(job, planned)
    warnings = [*plan.warnings, *internal_warnings(job.source)]
    if job.lists is not None:
        warnings += list_warnings(job.lists, desired, compared)
    if not is_again:
        for warning in warnings:
            log.warning("%s", warning)
    return replace(planned, plan=replace(plan, warnings=tuple(warnings)))


def _compared_records(
    client: AnalyticsClient, desired: DesiredState, records: Sequence[Record]
) -> tuple[list[Record], dict[str, str]]:
    """Return the records of the websites to compare, with all fields, and why other websites could not be read."""
    listed = list(filter(desired.is_compared, records))
    complete, unread = complete_records(client, listed, desired.missing_fields, desired.is_doubtful)
    compared = []
    for record in complete:
        why = desired.unreadable(record)
        if why:
            unread[website_name(*website_of(record))] = why
        else:
            compared.append(record)
    return compared, unread


def store_plan(job: Job, planned: Planned) -> None:
    """Write a plan to the state folder, if there is one.

    :raises BulkError: if websites could not be read.
    """
    planned.raise_unread()
    if job.folder is None:
        return
    write_plan(job.folder, planned.plan)
    if "ti" in job.context and not planned.plan.findings:
        keep_websites(job, planned)


def check_approval(job: Job, planned: Planned, digest: str | None) -> Planned:
    """Return a plan if it can be applied: it is the approved plan, or its remainder, or no guard blocks it.

    :param digest: digest of the approved plan; None if no approval is needed.
    :raises GuardError: if it cannot be applied.
    """
    plan = planned.plan
    if digest is None:
        plan.raise_if_blocked()
        return planned
    planned.raise_unread()
    if digest == plan.digest:
        plan.raise_if_blocked()
        return replace(planned, approved=plan)
    approved = read_plan(job.folder, digest)
    if approved is None:
        settings = ", ".join(f"{name} {value!r}" for name, value in plan.arguments.items())
        raise GuardError(
            "The plan is not the approved one. The file or a website has changed, the two tasks have different "
            "arguments, services, or accounts, or the plan was applied before. To apply the rest of a plan, both tasks "
            "need the same state_path.",
            "No changes were sent. Check that service and account of this task are right, and plan again with its "
            f"arguments: {settings}.\n"
            f"Planned: {plan.digest}, approved: {digest}.",
        )
    not_compared = itertools.filterfalse(planned.desired.is_compared, planned.websites.records)
    raise_unless_remainder(plan, approved, [*planned.compared, *not_compared])
    return replace(planned, approved=approved)


def send_changes(
    job: Job, planned: Planned, trail: AuditTrail, passwords: Mapping[str, str], *, ignore_gone: bool = False
) -> Outcome:
    """Send the changes of a plan, and verify them; the table of the list must have been written before.

    If the task is stopped meanwhile, the outcome contains the changes that were sent, or might have been.

    :return: the outcome; its failures include the websites that could not be read.
    """
    if planned.plan.changes:
        trail.open()
    return Application(Sender(job, planned, trail, passwords, ignore_gone)).run()


def keep_websites(job: Job, planned: Planned) -> None:
    """Store the websites of a successful run for the guards of the next one, if the complete list was read."""
    if job.folder and planned.websites.complete:
        write_last_websites(job.folder, job.scope, planned.plan, planned.websites.records)
