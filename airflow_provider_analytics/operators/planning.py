"""Shared code of the operators that plan and apply: ledger files, plan files and the result."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any

from airflow_provider_analytics.api.checks import one_of, refused_together
from airflow_provider_analytics.exceptions import GuardError, StoppedError, StorageError
from airflow_provider_analytics.operators.base import require_run

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.api.client import AnalyticsClient
    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.readable import Redactor
    from airflow_provider_analytics.reconcile.approval import ApprovedPlan
    from airflow_provider_analytics.reconcile.engine import Planned
    from airflow_provider_analytics.reconcile.ledger import Identity, Ledger, Try
    from airflow_provider_analytics.reconcile.maintained import Listed, Resolved
    from airflow_provider_analytics.reconcile.plan import Plan
    from airflow_provider_analytics.reconcile.results import Outcome

#: Maximum number of changes in the return value, one line each; the counts include all changes.
SHOWN_CHANGES = 20
#: Seconds that a try waits before it reads the websites if changes of the previous try are outstanding. The previous
#: try checks the ledger every second (``WATCH_SECONDS`` in ``api/stopping.py``), and its last requests arrive.
HANDOVER_SECONDS = 2.0
#: Maximum number of attempts to take a ledger over while other tries take it over at the same time.
_MAX_TAKEOVER_ATTEMPTS = 5
#: Allowed values of ``file_mode``: who may read and write in addition to the user of the worker.
FILE_MODES = ("600", "640", "660", "644", "664")

log = logging.getLogger(__name__)


class LedgerFile:
    """The file of a ledger. Only the try that took it over writes it, until another try takes it over.

    :param path: URL or absolute path.
    :param identity: what the ledger must belong to.
    :param adopt: whether the list adopts entries that it and the websites have in common, for the message about a
        missing file.
    :param file_mode: permissions of the file, see :func:`parse_file_mode`.
    """

    def __init__(self, path: str, identity: Identity, *, adopt: bool, file_mode: str) -> None:
        from airflow_provider_analytics.hooks.object_storage import SharedFile

        self._file = SharedFile(path, "ledger_path", parse_file_mode(file_mode))
        self._identity = identity
        #: The ledger as it was read.
        self.ledger = self._parse()
        #: Whether changes of the previous try are outstanding.
        self.was_open = self.ledger.is_open
        #: The try that took it over from this one, as text; None if no try did.
        self.replaced: str | None = None
        if self._file.text is None:
            follows = "it owns those that it has in common" if adopt else "none of them is ever removed"
            log.warning(
                "No ledger at %s (expected on the first run). Existing entries are treated as manual, and %s.",
                path,
                follows,
            )

    def take_over(self, context: Context, client: AnalyticsClient) -> None:
        """Make this try the owner, and stop the client before its next request when another try takes over.

        If changes of the previous try are outstanding, that try may still be running: as an orphan of a killed worker,
        or as a hung process. It notices at its next check that it was replaced. This try waits for that.

        :raises StoppedError: if a later try of this task is already the owner.
        """
        from airflow_provider_analytics.reconcile.ledger import Try

        ti, now = context["ti"], datetime.now(UTC)
        began = (ti.start_date or now).astimezone(UTC).isoformat()
        new = Try(task_name(context), ti.run_id, ti.try_number, secrets.token_hex(8), now.isoformat(), now.isoformat())
        for _ in range(_MAX_TAKEOVER_ATTEMPTS):
            before = self.ledger.owner
            if before and before.replaces(new, began):
                raise StoppedError(f"Stopped: {self._replaced_by(before)}. Nothing was sent.")
            self.was_open = self.ledger.is_open
            mine = replace(new, settled=None) if self.was_open else new
            if self._file.write(replace(self.ledger, owner=mine).render()):
                break
            self._file.read()
            self.ledger = self._parse()
        else:
            raise self._conflict_error()
        self.ledger = replace(self.ledger, owner=mine)
        client.watch(self._check_owner)
        if self.was_open:
            log.warning("Took over the ledger %s: %s did not settle it.", self._file.url, before)
            client.wait(HANDOVER_SECONDS)

    def note(self, parts: Mapping[str, Sequence[Listed]], resolved: Mapping[str, Resolved]) -> None:
        """Add the sources of the entries of this run to the ledger; it is written with the first claims.

        :param parts: list field to the lists of this run.
        :param resolved: host name on the list to its resolution.
        """
        from airflow_provider_analytics.readable import readable
        from airflow_provider_analytics.reconcile.maintained import now, together

        # A comment may contain anything, even a key.
        sources = {
            name: {
                entry: replace(one, owner=readable(one.owner), reason=readable(one.reason))
                for entry, one in together(lists).sources.items()
            }
            for name, lists in parts.items()
        }
        self.ledger = self.ledger.noting(sources, resolved, now().date().isoformat())

    def claim(self, ledger: Ledger) -> None:
        """Write the ledger before changes are sent, unless another try took it over.

        :raises StoppedError: if another try took it over.
        :raises StorageError: if another process wrote the file.
        """
        if not self._write(ledger, settled=None):
            raise self._conflict_error()

    def _write(self, ledger: Ledger, settled: str | None) -> bool:
        """Write the ledger unless another process wrote the file; return whether it was written.

        :raises StoppedError: if another try took it over.
        """
        ledger = replace(ledger, owner=ledger.owner and replace(ledger.owner, settled=settled))
        if self._file.write(ledger.render()):
            return True
        self._file.read()
        self._note_owner(self._file.text)
        if self.replaced:
            raise StoppedError(f"Stopped: {self.replaced}.")
        return False

    def settle(self, ledger: Ledger, *, is_open: bool) -> None:
        """Write the ledger at the end; if another process wrote the file during the run, merge both ledgers.

        A try that was replaced writes nothing, because the other try has read all claims of this one.

        :param is_open: whether the outcome of some changes is unknown.
        :raises StoppedError: if another try took it over.
        :raises StorageError: if another process wrote the file.
        """
        if not self._write(ledger, settled=None if is_open else datetime.now(UTC).isoformat()):
            if self._file.text is not None:
                self._file.write(self._parse().with_that_of(ledger).render())
            raise self._conflict_error()

    def _check_owner(self) -> str | None:
        """Return the try that took the ledger over from this one, as text, or None.

        :raises OSError: if the ledger cannot be read. This ends the work and is not a failure of a single website.
        """
        from airflow_provider_analytics.hooks.object_storage import SharedFile

        try:
            if self.replaced is None and not self._file.is_as_read():
                # Read with a separate object, because this try may overwrite only the version that it has read itself.
                self._note_owner(SharedFile(self._file.url, "ledger_path").text)
        except (StorageError, ValueError) as error:
            raise OSError(str(error)) from error
        return self.replaced

    def _note_owner(self, text: str | None) -> None:
        from airflow_provider_analytics.reconcile.ledger import Ledger

        mine = self.ledger.owner
        try:
            owner = Ledger.parse(text, self._identity).owner if text is not None else None
        except ValueError:
            owner = None  # a try never writes an unreadable ledger
        if mine and owner and owner.token != mine.token:
            self._replaced_by(owner)

    def _replaced_by(self, owner: Try) -> str:
        mine = self.ledger.owner
        is_same = mine is not None and mine.token != owner.token and str(mine) == str(owner)
        who = f"another process of {owner}" if is_same else str(owner)
        self.replaced = f"replaced by {who}, which took over the ledger {self._file.url} at {owner.since}"
        return self.replaced

    def _conflict_error(self) -> StorageError:
        if self._file.text is None:
            return StorageError(f"The ledger {self._file.url} was deleted during the run.", "Restore it.")
        return StorageError(
            f"The ledger {self._file.url} was changed by another process during the run.",
            "Two runs must not share a ledger. Set max_active_runs=1, and give each list its own ledger_path.",
        )

    def _parse(self) -> Ledger:
        from airflow_provider_analytics.reconcile.ledger import Ledger

        if self._file.text is None:
            return Ledger(self._identity)
        return Ledger.parse(self._file.text, self._identity, self._file.url)


def parse_file_mode(value: object) -> int:
    """Return the permissions for octal digits.

    :raises ValueError: if they are not in :data:`FILE_MODES`.
    """
    return int(one_of("file_mode", value, FILE_MODES), 8)


def task_name(context: Context) -> str:
    """Return ``<dag id>.<task id>``, with ``[<map index>]`` if the task is mapped."""
    ti = context["ti"]
    mapped = f"[{ti.map_index}]" if ti.map_index is not None and ti.map_index >= 0 else ""
    return f"{ti.dag_id}.{ti.task_id}{mapped}"


def require_run_to_apply(context: Context, *, ledger: bool = False, audit_path: str | None = None) -> None:
    """Raise :class:`ValueError` if the ledger or the audit trail needs a run, but there is no run."""
    if ledger:
        require_run(context, ["ti"], "The mode managed")
    if audit_path:
        require_run(context, ["ti"], "audit_path, where each try has a file of its own,")


def resolved_names(
    lists: Sequence[Listed], ledger: LedgerFile | None, *, keep_days: float = 0, private: bool = False
) -> dict[str, Resolved]:
    """Resolve the host names of lists, and check the clock that is used for the expiry of entries.

    :param lists: the lists of one field.
    :param ledger: the ledger; None in a mode without a ledger.
    :param keep_days: number of days for which the last resolution of a name is kept if the name does not resolve.
    :param private: whether addresses that are not public are allowed.
    :raises ValueError: if an address cannot be an entry, or the clock seems wrong.
    :raises UnresolvedError: if a name does not resolve and its last resolution is missing or too old.
    """
    from airflow_provider_analytics.hooks.host_names import look_up_all
    from airflow_provider_analytics.reconcile.maintained import check_clock, now, resolve

    at = now()
    owner = ledger.ledger.owner if ledger else None
    names = list(dict.fromkeys(name for one in lists for name in one.names))
    expired = list(dict.fromkeys(entry for one in lists for entry in one.expired))
    if names or expired:
        check_clock(at, owner.since if owner else None, expired)
    if not names:
        return {}
    before = ledger.ledger.names if ledger else {}
    found, warnings = resolve(look_up_all(names), before, at, keep_days=keep_days, private=private)
    for warning in warnings:
        log.warning("%s", warning)
    for name, resolution in found.items():
        was = before[name].addresses if name in before else resolution.addresses
        if set(was) != set(resolution.addresses):
            log.info("%s moved: %s -> %s", name, ", ".join(was), ", ".join(resolution.addresses))
    return found


def _report_expiry(parts: Mapping[str, Sequence[Listed]]) -> dict[str, Any]:
    """Return the expired and expiring entries for a result, and log them.

    :param parts: list field to the lists of this run.
    """
    from airflow_provider_analytics.readable import counted, readable
    from airflow_provider_analytics.reconcile.maintained import now

    today = now().date()
    lists = [one for listed in parts.values() for one in listed]
    expired = list(dict.fromkeys(one for listed in lists for one in listed.expired.items()))
    expiring = list(dict.fromkeys(one for listed in lists for one in listed.expiring(today).items()))
    for what, found in (("Expired", expired), ("Will expire soon", expiring)):
        if found:
            named = "".join(f"\n{readable(f'{entry}: {source.text}')}" for entry, source in found[:SHOWN_CHANGES])
            more = f"\nand {len(found) - SHOWN_CHANGES:,} more" if len(found) > SHOWN_CHANGES else ""
            log.info("%s: %s of the list%s%s", what, counted(len(found), "line"), named, more)
    return {
        name: [{"entry": entry, **source.to_dict()} for entry, source in found]
        for name, found in (("expired", expired), ("expiring", expiring))
    }


def account_of(hook: AnalyticsHook) -> str | None:
    """Return a text that identifies the account; None if its record has no such value."""
    from airflow_provider_analytics.api.dialect import account_id

    return account_id(hook.get_account())


def write_plan(path: str, plan: Plan, secrets: Redactor, *, overwrite: bool, file_mode: str) -> None:
    """Write a plan as JSON, and as Markdown to ``<path>.md``.

    :param secrets: secrets of the connection.
    :param overwrite: replace another plan.
    :param file_mode: permissions of both files, see :func:`parse_file_mode`.
    :raises GuardError: if another plan exists, which someone may be approving, or if a list of a website contains a
        secret.
    """
    from airflow_provider_analytics.hooks.object_storage import read_text, write_text
    from airflow_provider_analytics.reconcile.markdown import to_markdown

    mode = parse_file_mode(file_mode)
    for change in plan.changes:
        lists = (value for one in change.fields for value in (one.before, one.after) if isinstance(value, tuple))
        if any(map(secrets.finds, chain.from_iterable(lists))):
            raise GuardError(
                f"A list of website {change.website} contains a secret of the connection. The plan was not written.",
                "Remove the entry from the website, and replace the secret.",
            )
    found = None if overwrite else read_text(path, "plan_path")
    if found is not None and f'"digest": "{plan.digest}"' not in found:
        raise GuardError(
            f"There is another plan at {path} already, which someone may be approving: start a new run. Give each run "
            "a plan_path of its own, or set overwrite_plan=True if plans are approved by their digest."
        )
    data = {"planned_at": datetime.now(UTC).isoformat(), **plan.to_dict()}
    write_text(path, "plan_path", json.dumps(data, indent=1) + "\n", mode)
    write_text(markdown_path(path), "plan_path", to_markdown(plan, limit=None), mode)


def markdown_path(plan_path: str) -> str:
    """Return the path of the Markdown file of a plan."""
    return f"{plan_path}.md"


def read_approved(
    plan_path: str | None,
    expected_digest: object,
    context: Context,
    *,
    valid_hours: object,
    refuse_own: bool,
) -> ApprovedPlan | None:
    """Return the approved plan, or None if neither path nor digest is given.

    :param expected_digest: see :meth:`Approval.parse`.
    :param valid_hours: hours for which an approval is valid.
    :param refuse_own: whether to refuse an approval by the person who started the run.
    :raises ValueError: if only one of path and digest is given, or there is no plan.
    :raises GuardError: if the plan is not the approved one, the approval is not valid, or a guard tripped.
    """
    from airflow_provider_analytics.api.checks import positive_number
    from airflow_provider_analytics.hooks.object_storage import read_text
    from airflow_provider_analytics.reconcile.approval import Approval, ApprovedPlan
    from airflow_provider_analytics.reconcile.plan import Plan

    if plan_path is None and expected_digest is None:
        return None
    if not plan_path or not expected_digest:
        raise refused_together(
            "both, to apply an approved plan (an approval that was only marked as success has no digest), or neither",
            expected_digest=expected_digest,
            plan_path=plan_path,
        )
    valid = timedelta(hours=positive_number("approval_valid_hours", valid_hours))
    approval = Approval.parse(expected_digest)
    if refuse_own:
        try:
            started_by = context["dag_run"].triggering_user_name
        except (KeyError, AttributeError):
            raise ValueError(
                "refuse_own_approval=True needs a run, and Airflow 3.2 or newer, which passes the user to tasks"
            ) from None
        approval.raise_if_own(started_by)
    text = read_text(plan_path, "plan_path")
    if text is None:
        raise ValueError(f"plan_path={plan_path!r}: there is no such file; allowed: the plan_path of the plan task")
    try:
        data = json.loads(text)
        planned_at = datetime.fromisoformat(data["planned_at"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"plan_path={plan_path!r}: this is not a complete plan: {error!r}. Plan again") from error
    try:
        plan = Plan.from_dict(data)
    except ValueError as error:
        raise ValueError(f"plan_path={plan_path!r}: {error}") from error
    if plan.digest != approval.digest:
        raise GuardError(
            f"The plan is not the approved one: that at {plan_path} has the digest {plan.digest}, expected_digest is "
            f"{approval.digest}. Plan again. Nothing was sent."
        )
    approval.raise_unless_valid(planned_at, datetime.now(UTC), valid)
    use = approval.use(planned_at)
    used = read_text(used_path(plan_path), "plan_path")
    plan.raise_if_unsafe("plan again with force=True")
    return ApprovedPlan(plan, use, used.removeprefix(use).rstrip() if used and used.startswith(use) else None)


def used_path(plan_path: str) -> str:
    """Return the path of the file that records that a plan was applied."""
    return f"{plan_path}.used"


def note_use(plan_path: str | None, approved: ApprovedPlan | None, context: Context, file_mode: str) -> None:
    """Record that an approved plan was completely applied, so that nothing more is sent for it."""
    from airflow_provider_analytics.hooks.object_storage import write_text

    if plan_path and approved:
        task = f", by {task_name(context)} in run {context['ti'].run_id}" if "ti" in context else ""
        text = f"{approved.use}, at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC{task}\n"
        write_text(used_path(plan_path), "plan_path", text, parse_file_mode(file_mode))


def result_of(
    planned: Planned, outcome: Outcome | None, *, dry_run: bool, plan_path: str | None, **more: Any
) -> dict[str, Any]:
    """Return the result of the operators that plan and apply, bounded in size.

    :param outcome: outcome of the plan; None if it was not applied.
    :param more: further values of the operator.
    """
    from airflow_provider_analytics.reconcile.markdown import to_markdown
    from airflow_provider_analytics.reconcile.results import Outcome

    plan, outcome = planned.plan, outcome or Outcome()
    result = {
        **more,
        "dry_run": dry_run,
        **plan.to_dict(SHOWN_CHANGES),
        **_report_expiry(planned.source.parts),
        "unchanged": len(planned.compared) - sum(change.action != "create" for change in plan.changes),
        "applied": outcome.applied,
        "states": outcome.states,
        "verified": not dry_run and outcome.is_verified,
        "unverified": outcome.unverified,
        "besides": outcome.besides,
        "markdown": to_markdown(plan, whole=markdown_path(plan_path) if plan_path else None) if dry_run else None,
    }
    return planned.websites.client.for_output(result)
