"""Apply plans concurrently, and check that they hold; fetch fields that list rows omit.

The only module of this package with I/O, and the only one that sends the changes of a plan.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.dialect import is_deleted
from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.fields import FIELDS, PAGE_SIZES, normalise
from airflow_provider_analytics.api.transport import may_have_been_applied
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    BulkError,
    DuplicateWebsiteError,
    NotFoundError,
    RateLimitError,
    ServerError,
)
from airflow_provider_analytics.reconcile.ledger import key_of
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, website_of

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Callback for each applied change; a create has the id of the new website. Called from several threads.
Applied = Callable[[Change], None]
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

    :param sent: applied changes in their order, each as it was sent; a website may have several.
    :param failures: website to error message.
    :param unclear: keys (:func:`ledger.key_of`) of the websites that failed, and may have been changed nevertheless.
    :param unshown: keys of the websites that do not show a field that was sent, so that it cannot be checked.
    """

    sent: tuple[Change, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()
    unshown: frozenset[str] = frozenset()

    @property
    def applied(self) -> int:
        """Number of websites that were changed, without those that failed nevertheless."""
        return len({key_of(change) for change in self.sent if change.website not in self.failures})

    def raise_failures(self) -> None:
        """Raise :class:`BulkError` if any website failed."""
        if self.failures:
            not_tried = sum(why == _NOT_TRIED for why in self.failures.values())
            raise BulkError(self.failures, self.applied, not_tried)


class Websites:
    """The websites of the service as they were listed, and how to read some of them again with the fewest requests.

    :param records: the complete list.
    :param complete: whether this is the list of all websites, not of those that a filter finds.
    """

    def __init__(
        self, client: AnalyticsClient, records: Sequence[Mapping[str, Any]], *, complete: bool, workers: int
    ) -> None:
        self.client = client
        self.records = records
        self.complete = complete
        self.workers = workers

    def with_fields(self, records: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> Completed:
        """Return these records with all of ``fields``; see :func:`complete_records`."""
        return complete_records(self.client, records, fields, workers=self.workers)

    def read_again(self, ids: Sequence[str], fields: Iterable[str]) -> ReadAgain:
        """Return current records of these websites.

        The list is read if its rows show the fields, and if it takes fewer requests than reading one by one.

        :param fields: fields that the records are needed for.
        """
        fields = tuple(fields)
        rows_show = all(name in record for record in self.records for name in fields)
        if self.complete and rows_show and len(ids) > _requests_of_a_list(len(self.records)):
            wanted = set(ids)
            listed = self.client.list_websites()
            return ReadAgain({str(one["id"]): one for one in listed if str(one["id"]) in wanted}, listed=listed)

        def work(website_id: str) -> Mapping[str, Any] | None:
            try:
                return self.client.get_website(website_id)
            except NotFoundError:
                return None

        shown, failures = _each(ids, work, str, self.workers, _Progress(len(ids), len(ids), "Checking"))
        found = {website_id: record for website_id, record in shown if record is not None}
        if len(found) + len(failures) < len(ids):
            self.client.get_account()  # with a wrong base URL, everything is "not found"
        return ReadAgain(found, failures)


@dataclass(frozen=True)
class ReadAgain:
    """Websites that were read again.

    :param found: current records by id, without websites that no longer exist.
    :param failures: id to why a website cannot be read.
    :param listed: the complete list, if it was read.
    """

    found: Mapping[str, Mapping[str, Any]]
    failures: Mapping[str, str] = field(default_factory=dict)
    listed: Sequence[Mapping[str, Any]] | None = None


#: Records with all fields asked for, and failures: website to error message.
Completed = tuple[list[Mapping[str, Any]], dict[str, str]]


def apply_plan(
    websites: Websites,
    plan: Plan,
    change_of: ChangeOf,
    *,
    passwords: Mapping[str, str] | None = None,
    applied: Applied | None = None,
    ignore_gone: bool = False,
) -> Outcome:
    """Apply the changes of a plan concurrently, read again what was changed, and repeat what does not hold.

    Right before a website is changed it is shown, and its change worked out anew: nothing that somebody else wrote
    since the plan was made is lost. A website is changed or deleted only if its id still belongs to the domain in the
    plan. A website that fails does not stop the others. What was changed is read again, and changed again if it does
    not hold, at most :data:`ROUNDS` times.

    :param change_of: works the change of a website out from a record of it.
    :param passwords: ``password_from`` reference to password.
    :param applied: called after each applied change.
    :param ignore_gone: whether a website that no longer exists is no failure.
    :return: the outcome; websites that still differ at the end count as failed.
    :raises AuthenticationError: immediately, since every other request would fail too.
    """
    sender = _Sender(websites.client, change_of, passwords or {}, applied, ignore_gone=ignore_gone)
    sent: list[Change] = []
    failures: dict[str, str] = {}
    unclear: set[str] = set()
    unshown: set[str] = set()
    todo, total = plan.changes, plan.websites
    for round_number in range(1, ROUNDS + 1):
        done, failed = _each(todo, sender.send, _website, websites.workers, _Progress(total, len(todo)))
        sent += [change for _, change in done if change is not None]
        failures |= failed
        unclear |= sender.unclear
        check = [change for _, change in done if change is not None]
        if not check:
            break
        time.sleep(SETTLE_SECONDS)
        left, wrong, hidden = _left(websites, check, change_of, ignore_gone=ignore_gone)
        failures |= wrong
        unshown |= hidden
        if not left:
            break
        if round_number == ROUNDS:
            failures |= {change.website: f"{_STILL_DIFFERS}: {change.summary}." for change in left}
            unclear |= set(map(key_of, left))
            break
        log.info("Changing %s websites again, which somebody else changed at the same time.", f"{len(left):,}")
        todo = tuple(left)
    return Outcome(tuple(sent), failures, frozenset(unclear), frozenset(unshown))


def _left(
    websites: Websites, sent: Sequence[Change], change_of: ChangeOf, *, ignore_gone: bool
) -> tuple[list[Change], dict[str, str], set[str]]:
    """Return what is left to change, by what the service shows now; why websites are wrong; and :attr:`unshown`."""
    kept = [change for change in sent if change.action != "delete"]
    fields = {one.field for change in kept for one in change.fields if one.field in FIELDS}
    again = websites.read_again([str(change.website_id) for change in sent], fields)
    left: list[Change] = []
    wrong: dict[str, str] = {}
    unshown: set[str] = set()
    for change in sent:
        record = again.found.get(str(change.website_id))
        if str(change.website_id) in again.failures:
            wrong[change.website] = f"Changed, but cannot be checked: {again.failures[str(change.website_id)]}"
        elif change.action == "delete":
            if record is not None and not is_deleted(record) and same_domain(website_of(record)[0], change.domain):
                left.append(change)
        elif record is None:
            if not ignore_gone:
                wrong[change.website] = "Somebody deleted it at the same time."
        else:
            try:
                rest = change_of(record)
            except ValueError as error:
                wrong[change.website] = str(error)
                continue
            if rest is None:
                continue
            shown = tuple(one for one in rest.fields if one.field in record)
            if len(shown) < len(rest.fields):
                unshown.add(key_of(change))
            if shown:
                left.append(replace(rest, fields=shown))
    created = [change for change in sent if change.action == "create"]
    return left, wrong | _duplicates(websites.client, created, again.listed), unshown


def _duplicates(
    client: AnalyticsClient, created: Sequence[Change], listed: Sequence[Mapping[str, Any]] | None
) -> dict[str, str]:
    """Return the created websites whose domain another website has, too: somebody created it at the same time."""
    wrong = {}
    ids: dict[str, list[str]] = {}
    for record in listed or ():
        domain, website_id = website_of(record)
        ids.setdefault(domain_key(domain), []).append(website_id)
    for change in created:
        try:
            if listed is None:
                client.check_single(change.domain)
            elif len(found := ids.get(domain_key(change.domain), [])) > 1:
                raise DuplicateWebsiteError(change.domain, found)
        except AnalyticsError as error:
            wrong[change.website] = f"Created, but: {error.problem()}"
    return wrong


def complete_records(
    client: AnalyticsClient,
    records: Sequence[Mapping[str, Any]],
    fields: Sequence[str],
    *,
    workers: int,
) -> Completed:
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


class _Sender:
    """Sends single changes, each worked out from what the website shows right before."""

    def __init__(
        self,
        client: AnalyticsClient,
        change_of: ChangeOf,
        passwords: Mapping[str, str],
        applied: Applied | None,
        *,
        ignore_gone: bool,
    ) -> None:
        self._client = client
        self._change_of = change_of
        self._passwords = passwords
        self._applied = applied
        self._ignore_gone = ignore_gone
        #: Keys of websites that failed and may have been changed nevertheless.
        self.unclear: set[str] = set()

    def send(self, planned: Change) -> Change | None:
        """Send a change; return what was sent, with the id of a new website, or None if nothing was to be done."""
        sent = {"create": self._create, "update": self._update, "delete": self._delete}[planned.action](planned)
        if sent is not None and self._applied:
            self._applied(sent)
        return sent

    @contextmanager
    def _writing(self, change: Change) -> Iterator[None]:
        try:
            yield
        except AnalyticsError as error:
            answered = isinstance(error, (AnalyticsApiError, AnalyticsConnectionError))
            if not answered or may_have_been_applied(error):
                self.unclear.add(key_of(change))
            raise

    def _create(self, change: Change) -> Change:
        settings = self._settings(change)
        later = {name: settings.pop(name) for name in list(settings) if not FIELDS[name].on_create}
        with self._writing(change):
            record = self._client.create_website(change.domain, **settings)
            if later:
                self._client.update_website(record["id"], **later)
        return replace(change, website_id=str(record["id"]))

    def _update(self, planned: Change) -> Change | None:
        record = self._shown(planned, "changed")
        change = self._change_of(record) if record else None
        if change is not None:
            with self._writing(change):
                self._client.update_website(str(change.website_id), **self._settings(change))
        return change

    def _delete(self, planned: Change) -> Change | None:
        record = self._shown(planned, "deleted")
        if record is None:
            return None
        self._client.delete_website(str(planned.website_id))
        # What is deleted is what it was last, not what it was when the plan was made.
        names = [name for name, one in FIELDS.items() if name in record and one.on_update and one.kind.column]
        return replace(planned, fields=tuple(FieldChange(name, normalise(name, record[name]), None) for name in names))

    def _shown(self, change: Change, verb: str) -> dict[str, Any] | None:
        """Return the record of a website, if its id still belongs to the domain of the plan; None if it is gone."""
        try:
            shown = self._client.get_website(str(change.website_id))
        except NotFoundError:
            self._client.get_account()  # with a wrong base URL, everything is "not found"
            if self._ignore_gone or change.action == "delete":
                return None
            raise
        domain = shown.get("domain")
        if change.domain and isinstance(domain, str) and not same_domain(domain, change.domain):
            raise ValueError(f"not {verb}: id {change.website_id} now belongs to {domain!r}")
        return shown

    def _settings(self, change: Change) -> dict[str, Any]:
        settings = change.settings
        reference = settings.pop("password_from", None)
        return {**settings, "password": self._passwords[reference]} if reference else settings


class _NotTriedError(Exception):
    """A website that was skipped because the service is down."""


class _Breaker:
    """Stops work on a service that is down: after many failures in a row, or a key that is not accepted."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._open = threading.Event()
        self._lock = threading.Lock()

    def guard(self, work: Callable[[Item], Result], item: Item) -> Result:
        """Do the work, or raise :class:`_NotTriedError` if the service is down."""
        if self._open.is_set():
            raise _NotTriedError
        down = False
        try:
            return work(item)
        except _SERVICE_DOWN:
            down = True
            raise
        except AuthenticationError:
            self._open.set()
            raise
        finally:
            with self._lock:
                self._in_a_row = self._in_a_row + 1 if down else 0
                if self._in_a_row >= GIVE_UP_AFTER:
                    self._open.set()


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
    """Do the work for each item concurrently; return the results in the order in which they came, and the failures."""
    done: list[tuple[Item, Result]] = []
    failures: dict[str, str] = {}
    breaker = _Breaker()
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="analytics") as pool:
        futures = {pool.submit(breaker.guard, work, item): item for item in items}
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


def _requests_of_a_list(websites: int) -> int:
    """Return about how many requests a complete list takes: its pages, and those that prove it."""
    return websites // max(PAGE_SIZES) + 3 if websites >= max(PAGE_SIZES) else 1


def _website(change: Change) -> str:
    return change.website


def _name(record: Mapping[str, Any]) -> str:
    domain, website_id = website_of(record)
    return f"{domain} (id {website_id})" if domain else f"id {website_id}"
