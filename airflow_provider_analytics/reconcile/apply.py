"""Apply plans concurrently; fetch fields that list rows omit.

The only module of this package with I/O, and the only one that sends the changes of a plan.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeVar

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.fields import FIELDS
from airflow_provider_analytics.api.transport import may_have_been_applied
from airflow_provider_analytics.exceptions import (
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    BulkError,
    NotFoundError,
    RateLimitError,
    ServerError,
)
from airflow_provider_analytics.reconcile.plan import Change, Plan, website_of

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Callback for each applied change, with the website's id; called from several threads.
Applied = Callable[[Change, str], None]
#: Works the change of a website out from a record of it; None if nothing is to be changed.
ChangeOf = Callable[[Mapping[str, Any]], Change | None]

#: Number of times that a website is changed at most, while somebody else changes it, too.
ROUNDS = 3
#: Seconds to wait before what was changed is read again: an update of somebody else that is under way, and was worked
#: out before, arrives meanwhile.
SETTLE_SECONDS = 1.0
#: Seconds between progress lines in the log.
PROGRESS_SECONDS = 10.0
#: After this many consecutive failures the service counts as down, and the remaining websites are skipped: each of them
#: would use up all its retries.
GIVE_UP_AFTER = 20

log = logging.getLogger(__name__)

_NOT_TRIED = f"Not tried: {GIVE_UP_AFTER} websites in a row failed, so the service seems to be down."
_STILL_DIFFERS = f"Still differs after {ROUNDS} rounds, as somebody else changes it"
_SERVICE_DOWN = (AnalyticsConnectionError, RateLimitError, ServerError)


@dataclass(frozen=True)
class Outcome:
    """The result of applying a plan.

    :param done: applied changes, each as it was sent.
    :param failures: website to error message.
    :param failed_ids: ids of the websites that failed.
    :param refused_ids: those of them on which certainly nothing was changed.
    """

    done: tuple[Change, ...]
    failures: Mapping[str, str]
    failed_ids: frozenset[str] = frozenset()
    refused_ids: frozenset[str] = frozenset()

    def raise_failures(self) -> None:
        """Raise :class:`BulkError` if any website failed."""
        if self.failures:
            raise BulkError(self.failures, len(self.done))


def apply_plan(
    client: AnalyticsClient,
    plan: Plan,
    *,
    workers: int,
    passwords: Mapping[str, str] | None = None,
    applied: Applied | None = None,
    change_of: ChangeOf | None = None,
) -> Outcome:
    """Apply the changes of a plan concurrently; a website that fails does not stop the others.

    A website is deleted only if its id still belongs to the domain in the plan. A website that does not show
    the values sent counts as failed.

    :param workers: maximum number of concurrent requests.
    :param passwords: ``password_from`` reference to password.
    :param applied: called after each applied change.
    :param change_of: works each update out anew from the record that is read right before it is sent: nothing that
        somebody else wrote since the plan was made is lost.
    :raises AuthenticationError: immediately, since every other request would fail too.
    """
    refused: set[str] = set()

    def work(planned: Change) -> Change | None:
        change: Change | None = planned
        try:
            if change_of and planned.action == "update":
                change = change_of(_shown(client, planned))
            if change is not None:
                website_id = _APPLY[change.action](client, change, passwords or {})
                if applied:
                    applied(change, website_id)
        except AnalyticsError as error:
            if not may_have_been_applied(error):
                refused.add(str(planned.website_id))
            raise
        return change

    done, failures = _each(
        plan.changes, work, lambda change: change.website, workers, _Progress(plan.websites, len(plan.changes))
    )
    failed = frozenset(str(change.website_id) for change in plan.changes if change.website in failures)
    return Outcome(tuple(sent for _, sent in done if sent is not None), failures, failed, frozenset(refused))


def apply_until_held(
    client: AnalyticsClient,
    plan: Plan,
    change_of: ChangeOf,
    left_of: ChangeOf,
    read: Callable[[Sequence[str]], Iterable[Mapping[str, Any]]],
    *,
    workers: int,
    applied: Applied | None = None,
) -> Outcome:
    """Apply updates, read again what was changed, and repeat what does not hold; at most :data:`ROUNDS` times.

    :param change_of: works each update out from the record that is read right before it is sent.
    :param left_of: works out what is left to change from a record that was read afterwards.
    :param read: returns the records of websites by their ids; those that no longer exist are left out.
    :return: the outcome; websites that still differ at the end count as failed.
    """
    outcome = apply_plan(client, plan, workers=workers, applied=applied, change_of=change_of)
    sent, failures, failed, refused = (
        list(outcome.done),
        dict(outcome.failures),
        outcome.failed_ids,
        outcome.refused_ids,
    )
    for round_number in range(1, ROUNDS + 1):
        ids = [str(change.website_id) for change in outcome.done]
        if ids:
            time.sleep(SETTLE_SECONDS)
        left = [change for change in map(left_of, read(ids) if ids else ()) if change is not None]
        if not left:
            break
        if round_number == ROUNDS:
            failures |= {change.website: f"{_STILL_DIFFERS}: {change.summary}." for change in left}
            failed |= {str(change.website_id) for change in left}
            break
        log.info("Changing %s websites again, which somebody else changed at the same time.", f"{len(left):,}")
        outcome = apply_plan(client, Plan(tuple(left)), workers=workers, applied=applied, change_of=change_of)
        sent += outcome.done
        failures |= outcome.failures
        failed |= outcome.failed_ids
    return Outcome(tuple(sent), failures, failed, refused)


def read_websites(client: AnalyticsClient, website_ids: Sequence[str], *, workers: int) -> list[dict[str, Any]]:
    """Return the records of websites; those that no longer exist are left out.

    :raises BulkError: if websites cannot be read.
    """

    def work(website_id: str) -> dict[str, Any] | None:
        try:
            return client.get_website(website_id)
        except NotFoundError:
            return None

    name = "id {}".format
    shown, failures = _each(website_ids, work, name, workers, _Progress(len(website_ids), len(website_ids), "Checking"))
    if failures:
        raise BulkError(failures, len(shown))
    return [record for _, record in shown if record is not None]


def complete_records(
    client: AnalyticsClient,
    records: Sequence[Mapping[str, Any]],
    fields: Sequence[str],
    *,
    workers: int,
) -> tuple[list[Mapping[str, Any]], dict[str, str]]:
    """Return the records with all of ``fields``, and the failures; fetch each website whose record lacks one.

    Websites deleted in the meantime and websites that failed are left out.

    :param workers: maximum number of concurrent requests.
    """
    lacking = [record for record in records if any(field not in record for field in fields)]
    if not lacking:
        return list(records), {}
    log.info("Fetching %s of %s websites: list rows lack one of %s.", f"{len(lacking):,}", f"{len(records):,}", fields)

    def work(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            return {**record, **client.get_website(record["id"])}
        except NotFoundError:
            return None

    shown, failures = _each(lacking, work, _name, workers, _Progress(len(records), len(lacking), "Reading"))
    answers = {str(record["id"]): answer for record, answer in shown}
    asked = {str(record["id"]) for record in lacking}
    whole = [answers.get(str(record["id"])) if str(record["id"]) in asked else record for record in records]
    return [record for record in whole if record is not None], failures


class _NotTriedError(Exception):
    """A website that was skipped because the service is down."""


class _Progress:
    """Progress lines in the log, one every :data:`PROGRESS_SECONDS` and one at the end."""

    def __init__(self, total: int, work: int, verb: str = "Changing") -> None:
        self.total = max(total, work)
        self.done = self.total - work
        self.verb = verb
        self.bad = 0
        self.said = time.monotonic()

    def step(self, *, good: bool) -> None:
        self.done += 1
        self.bad += not good
        if time.monotonic() - self.said >= PROGRESS_SECONDS:
            self.say()

    def say(self) -> None:
        self.said = time.monotonic()
        log.info("%s: %s of %s websites, %s failed", self.verb, f"{self.done:,}", f"{self.total:,}", f"{self.bad:,}")


def _each(
    items: Sequence[Item],
    work: Callable[[Item], Result],
    name: Callable[[Item], str],
    workers: int,
    progress: _Progress,
) -> tuple[list[tuple[Item, Result]], dict[str, str]]:
    done: list[tuple[Item, Result]] = []
    failures: dict[str, str] = {}
    in_a_row = 0
    stop, lock = threading.Event(), threading.Lock()

    def guarded(item: Item) -> Result:
        nonlocal in_a_row
        if stop.is_set():
            raise _NotTriedError
        down = False
        try:
            return work(item)
        except _SERVICE_DOWN:
            down = True
            raise
        except AuthenticationError:
            stop.set()
            raise
        finally:
            with lock:
                in_a_row = in_a_row + 1 if down else 0
                if in_a_row >= GIVE_UP_AFTER:
                    stop.set()

    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="analytics") as pool:
        futures = {pool.submit(guarded, item): item for item in items}
        try:
            for future in as_completed(futures):
                item = futures[future]
                try:
                    done.append((item, future.result()))
                except AuthenticationError:
                    raise
                except _NotTriedError:
                    failures[name(item)] = _NOT_TRIED
                    continue
                except (AnalyticsError, ValueError) as error:
                    failures[name(item)] = error.problem() if isinstance(error, AnalyticsError) else str(error)
                progress.step(good=name(item) not in failures)
        finally:
            # Also if the task is stopped: requests in flight finish, the rest is cancelled.
            pool.shutdown(wait=True, cancel_futures=True)
            progress.say()
    return done, failures


def _create(client: AnalyticsClient, change: Change, passwords: Mapping[str, str]) -> str:
    settings = _settings(change, passwords)
    later = {name: settings.pop(name) for name in list(settings) if not _can_be_sent_on_create(name)}
    record = client.create_website(change.domain, **settings)
    if later:
        client.update_website(record["id"], **later)
    return str(record["id"])


def _can_be_sent_on_create(name: str) -> bool:
    return FIELDS[name].on_create


def _shown(client: AnalyticsClient, change: Change) -> dict[str, Any]:
    """Return the record of the website to be changed, if its id still belongs to the domain of the plan."""
    shown = client.get_website(str(change.website_id))
    domain = shown.get("domain")
    if change.domain and isinstance(domain, str) and not same_domain(domain, change.domain):
        raise ValueError(f"not changed: id {change.website_id} now belongs to {domain!r}")
    return shown


def _update(client: AnalyticsClient, change: Change, passwords: Mapping[str, str]) -> str:
    client.update_website(str(change.website_id), **_settings(change, passwords))
    return str(change.website_id)


def _delete(client: AnalyticsClient, change: Change, _passwords: Mapping[str, str]) -> str:
    website_id = str(change.website_id)
    try:
        domain = str(client.get_website(website_id).get("domain"))
        if not same_domain(domain, change.domain):
            raise ValueError(f"not deleted: id {website_id} now belongs to {domain!r}")
        client.delete_website(website_id)
    except NotFoundError:
        pass  # already deleted
    return website_id


_APPLY = {"create": _create, "update": _update, "delete": _delete}


def _settings(change: Change, passwords: Mapping[str, str]) -> dict[str, Any]:
    settings = change.settings
    reference = settings.pop("password_from", None)
    return {**settings, "password": passwords[reference]} if reference else settings


def _name(record: Mapping[str, Any]) -> str:
    domain, website_id = website_of(record)
    return f"{domain} (id {website_id})" if domain else f"id {website_id}"
