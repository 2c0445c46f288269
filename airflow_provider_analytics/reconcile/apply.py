"""Apply plans concurrently, and check that they hold; fetch fields that list rows omit.

The only module of this package with I/O, and the only one that sends the changes of a plan.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.dialect import is_deleted
from airflow_provider_analytics.api.domains import domain_key, same_domain, spellings
from airflow_provider_analytics.api.fields import FIELDS, UpdateSettings, normalise
from airflow_provider_analytics.api.listing import requests_of_a_list
from airflow_provider_analytics.api.stopping import LOOK_SECONDS
from airflow_provider_analytics.api.transport import may_have_been_applied
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    BulkError,
    DuplicateWebsiteError,
    NotAppliedError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    ServerError,
    StoppedError,
    ValidationError,
)
from airflow_provider_analytics.readable import readable
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
#: Seconds in which requests under way may end after a stop. Airflow kills the process 5 s after it told it to end, and
#: the ledger is still to be written.
GRACE_SECONDS = 2.0

log = logging.getLogger(__name__)

_NOT_TRIED = f"Not tried: {GIVE_UP_AFTER} websites in a row failed, or the API key is not accepted any more."
_UNDER_WAY = "Stopped while its change was under way: it may have been applied."
_STILL_DIFFERS = f"Still differs after {ROUNDS} rounds: the service ignores it, or somebody else changes it"
_SERVICE_DOWN = (AnalyticsConnectionError, RateLimitError, ServerError)


@dataclass(frozen=True)
class Outcome:
    """The result of applying a plan.

    :param sent: applied changes in their order, each as it was sent; a website may have several.
    :param failures: website to error message.
    :param unclear: keys (:func:`ledger.key_of`) of the websites that may or may not have been changed.
    :param unshown: keys of the websites that do not show a field that was sent, so that it cannot be checked.
    :param differing: records of the websites that do not hold their change, as they were read last.
    :param refused: websites among the failures whose change the service refused for a reason that stays.
    :param interrupted: what ended the work before all was done and checked, such as :class:`StoppedError`, or an API
        key that is not accepted any more; None if nothing did.
    """

    sent: tuple[Change, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)
    unclear: frozenset[str] = frozenset()
    unshown: frozenset[str] = frozenset()
    differing: tuple[Mapping[str, Any], ...] = ()
    refused: frozenset[str] = frozenset()
    interrupted: BaseException | None = None

    @property
    def applied(self) -> int:
        """Number of websites that were changed, without those that failed nevertheless."""
        failed = {key_of(change) for change in self.sent if change.website in self.failures}
        return len({key_of(change) for change in self.sent} - failed)

    def raise_failures(self) -> None:
        """Raise :class:`BulkError` if any website failed."""
        if self.failures:
            not_tried = sum(why == _NOT_TRIED for why in self.failures.values())
            raise BulkError(self.failures, self.applied, not_tried, self.failures.keys() <= self.refused)


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

    def with_fields(
        self,
        records: Sequence[Mapping[str, Any]],
        fields: Sequence[str],
        doubts: Callable[[Mapping[str, Any]], bool] | None = None,
    ) -> Completed:
        """Return these records with all of ``fields``; see :func:`complete_records`.

        :param doubts: whether a row of the list may be stale: then the website is read.
        """
        return complete_records(self.client, records, fields, doubts, workers=self.workers)

    def read_again(self, ids: Sequence[str], fields: Iterable[str]) -> ReadAgain:
        """Return current records of these websites.

        The list is read if its rows show the fields, and if it takes fewer requests than reading one by one.

        :param fields: fields that the records are needed for.
        """
        fields = tuple(fields)
        rows_show = all(name in record for record in self.records for name in fields)
        if self.complete and rows_show and len(ids) > requests_of_a_list(len(self.records)):
            wanted = set(ids)
            listed = _unless_stopped(self.client, self.client.list_websites)
            return ReadAgain({str(one["id"]): one for one in listed if str(one["id"]) in wanted}, listed=listed)

        def work(website_id: str) -> Mapping[str, Any] | None:
            try:
                return self.client.get_website(website_id)
            except NotFoundError:
                return None

        failures: dict[str, str] = {}
        progress = _Progress(len(ids), len(ids), "Checking")
        shown = _each(self.client, ids, work, str, self.workers, progress, failures)
        found = {website_id: record for website_id, record in shown if record is not None}
        if len(found) + len(failures) < len(ids):
            self.client.get_account()  # with a wrong base URL, everything is "not found"
        return ReadAgain(found, failures)


def read_websites(client: AnalyticsClient, selectors: Sequence[str] | None, *, workers: int) -> Websites:
    """Return the websites of the service, or at least those of a part, with the fewest requests.

    A part is shown website by website, or the complete list read, whichever takes fewer requests: the first page of
    the list tells how long it is. A domain is looked up by the service's search; where that does not find it, the
    complete list is read.

    :param selectors: ids and domains, no globs; None for all websites.
    :param workers: maximum number of concurrent requests.
    :raises IncompleteListError: if the list cannot be proven complete.
    """
    listed: Sequence[Mapping[str, Any]] | None = None
    if selectors is not None:
        selectors = list(dict.fromkeys(selectors))
        requests = sum(1 if _is_an_id(selector) else len(spellings(selector)) for selector in selectors)
        if requests > 1:
            listed = client.list_websites_within(requests)
        if listed is None:
            found = _look_up(client, selectors, workers)
            if found is not None:
                return Websites(client, found, complete=False, workers=workers)
    if listed is None:
        listed = client.list_websites()
    return Websites(client, listed, complete=True, workers=workers)


def _look_up(client: AnalyticsClient, selectors: Sequence[str], workers: int) -> list[Mapping[str, Any]] | None:
    """Return the websites of ids and domains; None if only the complete list can tell which they are."""

    def work(selector: str) -> list[dict[str, Any]] | None:
        if not _is_an_id(selector):
            return client.search_domain(selector)
        try:
            record = client.get_website(selector)
        except NotFoundError:
            return []
        return [] if is_deleted(record) else [record]

    failures: dict[str, str] = {}
    progress = _Progress(len(selectors), len(selectors), "Looking up")
    looked_up = _each(client, selectors, work, str, workers, progress, failures)
    if failures or any(records is None for _, records in looked_up):
        return None
    if not all(records for _, records in looked_up):
        client.get_account()  # with a wrong base URL, everything is "not found"
    return list({str(record["id"]): record for _, records in looked_up for record in records or ()}.values())


def _is_an_id(selector: str) -> bool:
    return selector.isascii() and selector.isdigit()


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
    undone: Applied | None = None,
    ignore_gone: bool = False,
) -> Outcome:
    """Apply the changes of a plan concurrently, read again what was changed, and repeat what does not hold.

    Right before a website is changed it is shown, and its change worked out anew: nothing that somebody else wrote
    since the plan was made is lost. A website is changed or deleted only if its id still belongs to the domain in the
    plan. A website that fails does not stop the others. What was changed is read again, and changed again if it does
    not hold, at most :data:`ROUNDS` times.

    If the client is stopped, an exception interrupts this thread, as Airflow raises it for a timeout, or a change
    cannot be recorded, no request is begun any more. Those under way get :data:`GRACE_SECONDS`, and the outcome says
    what was sent, what may have been, and what interrupted it: the caller raises that, once it has recorded the rest.

    :param change_of: works the change of a website out from a record of it.
    :param passwords: ``password_from`` reference to password.
    :param applied: called after each applied change.
    :param undone: called for each of them that does not hold when it is read again.
    :param ignore_gone: whether a website that no longer exists is no failure.
    :return: the outcome; websites that still differ at the end count as failed. If the API key is not accepted any
        more, the work ends at once, and the outcome is interrupted.
    """
    sender = _Sender(websites.client, change_of, passwords or {}, applied, ignore_gone=ignore_gone)
    checked = _Checked()
    interrupted: BaseException | None = None
    try:
        _apply_rounds(websites, plan, change_of, sender, checked, undone, ignore_gone=ignore_gone)
    except BaseException as error:
        websites.client.stop()
        interrupted = error
    failures = dict(checked.failures)
    unclear = set(sender.lost)
    for key, change in list(sender.under_way.items()):
        unclear.add(key)
        failures[change.website] = _UNDER_WAY
    # Copies: a request that is still under way may end now.
    outcome = Outcome(
        tuple(sender.sent),
        failures,
        frozenset(unclear),
        frozenset(checked.unshown),
        tuple(checked.differing.values()),
        frozenset(sender.refused),
        interrupted,
    )
    websites.client.stats.count("changes_applied", outcome.applied)
    websites.client.stats.count("changes_failed", len(outcome.failures))
    return outcome


@dataclass
class _Checked:
    """What the rounds have found out so far.

    :param failures: website to error message.
    :param unshown: keys of the websites that do not show a field that was sent.
    :param differing: key to the record of a website that does not hold its change.
    """

    failures: dict[str, str] = field(default_factory=dict)
    unshown: set[str] = field(default_factory=set)
    differing: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def _apply_rounds(
    websites: Websites,
    plan: Plan,
    change_of: ChangeOf,
    sender: _Sender,
    checked: _Checked,
    undone: Applied | None,
    *,
    ignore_gone: bool,
) -> None:
    """Send the changes and check them; ``sender`` and ``checked`` are right at every moment."""
    failures, unshown, differing = checked.failures, checked.unshown, checked.differing
    client, workers = websites.client, websites.workers
    todo = plan.changes
    for round_number in range(1, ROUNDS + 1):
        failed_before = set(failures)
        progress = _Progress(plan.websites, len(todo))
        done = _each(client, todo, sender.send, _website, workers, progress, failures)
        for planned, changes in done:
            if not changes:  # right already: what was read before was stale
                differing.pop(key_of(planned), None)
        check = [changes[-1] for _, changes in done if changes]
        lost = [change for key, change in sender.lost.items() if change.website in failures.keys() - failed_before]
        if not check and not lost:
            break
        client.wait(SETTLE_SECONDS)
        seen = _see(websites, [*check, *lost], change_of, ignore_gone=ignore_gone)
        for change in lost:
            look = seen[key_of(change)]
            if look.state == "holds":
                # The response was lost, or told of an error; the website shows that the change was applied. One that
                # does not show it proves nothing: behind a proxy that gave up, the service may still be at it.
                sender.lost.pop(key_of(change))
                failures.pop(change.website)
                differing.pop(key_of(change), None)
                sender.record(change)
        left = []
        for change in check:
            look = seen[key_of(change)]
            if look.state == "differs" and undone:
                undone(change)
            if look.why:
                failures[change.website] = look.why
            elif look.left and round_number == ROUNDS:
                failures[change.website] = f"{_STILL_DIFFERS}: {look.left.summary}."
            elif look.left:
                left.append(look.left)
            if look.left and look.record:
                differing[key_of(change)] = look.record
            else:
                differing.pop(key_of(change), None)
            if look.unshown:
                unshown.add(key_of(change))
        if not left:
            break
        todo = tuple(left)
        log.info("Changing %s websites again, which do not show their change.", f"{len(todo):,}")


@dataclass(frozen=True)
class _Look:
    """What a website shows after its change.

    :param state: ``holds``, ``differs`` or ``unknown``.
    :param left: what is left to change.
    :param why: why it is wrong, if nothing can be done about it.
    :param record: its record.
    :param unshown: whether it does not show a field that was sent.
    """

    state: str
    left: Change | None = None
    why: str = ""
    record: Mapping[str, Any] | None = None
    unshown: bool = False


def _see(websites: Websites, sent: Sequence[Change], change_of: ChangeOf, *, ignore_gone: bool) -> dict[str, _Look]:
    """Return what the websites show after these changes."""
    known = [change for change in sent if change.website_id]
    kept = [change for change in known if change.action != "delete"]
    fields = {one.field for change in kept for one in change.fields if one.field in FIELDS}
    ids = [str(change.website_id) for change in known]
    try:
        again = websites.read_again(ids, fields)
    except (AuthenticationError, StoppedError):
        raise
    except AnalyticsError as error:  # what was sent must not be forgotten for it
        again = ReadAgain({}, dict.fromkeys(ids, error.text))
    looks = {key_of(change): _look(change, again, change_of, ignore_gone=ignore_gone) for change in known}
    looks |= {change.domain: _Look("unknown") for change in sent if not change.website_id}
    created = [change for change in known if change.action == "create"]
    for key, why in _duplicates(websites.client, created, again.listed).items():
        looks[key] = _Look("differs", why=why)
    return looks


def _look(change: Change, again: ReadAgain, change_of: ChangeOf, *, ignore_gone: bool) -> _Look:
    website_id = str(change.website_id)
    record = again.found.get(website_id)
    if website_id in again.failures:
        return _Look("unknown", why=f"Changed, but cannot be checked: {again.failures[website_id]}")
    domain = website_of(record)[0] if record else ""
    is_other = bool(domain and change.domain and not same_domain(domain, change.domain))
    if change.action == "delete":
        stays = record is not None and not is_other and not is_deleted(record)
        return _Look("differs", left=change, record=record) if stays else _Look("holds")
    if record is None:
        return _Look("holds") if ignore_gone else _Look("differs", why="Somebody deleted it at the same time.")
    if is_other:
        return _Look("differs", why=f"The id {website_id} belongs to {domain!r} now, which may have got its change.")
    try:
        rest = change_of(record)
    except ValueError as error:
        return _Look("differs", why=str(error), record=record)
    if rest is None:
        return _Look("holds", record=record)
    shown = tuple(one for one in rest.fields if one.field in record)
    unshown = len(shown) < len(rest.fields)
    left = replace(rest, fields=shown) if shown else None
    return _Look("differs" if left else "holds", left=left, record=record, unshown=unshown)


def _duplicates(
    client: AnalyticsClient, created: Sequence[Change], listed: Sequence[Mapping[str, Any]] | None
) -> dict[str, str]:
    """Return the created websites, by key, whose domain another website has, too: somebody else created it."""
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
            wrong[key_of(change)] = f"Created, but: {error.text}"
    return wrong


def complete_records(
    client: AnalyticsClient,
    records: Sequence[Mapping[str, Any]],
    fields: Sequence[str],
    doubts: Callable[[Mapping[str, Any]], bool] | None = None,
    *,
    workers: int,
) -> Completed:
    """Return the records with all of ``fields``, and the failures; fetch each website whose record lacks one.

    Websites deleted in the meantime and websites that failed are left out.

    :param doubts: whether the record may be stale: then the website is fetched, too.
    :param workers: maximum number of concurrent requests.
    """
    lacking = [
        record for record in records if any(name not in record for name in fields) or (doubts and doubts(record))
    ]
    if not lacking:
        return list(records), {}
    log.info(
        "Reading %s of %s websites, whose rows in the list lack something.", f"{len(lacking):,}", f"{len(records):,}"
    )

    def work(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        try:
            return {**record, **client.get_website(record["id"])}
        except NotFoundError:
            return None

    failures: dict[str, str] = {}
    progress = _Progress(len(records), len(lacking), "Reading")
    shown = _each(client, lacking, work, _name, workers, progress, failures)
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
        #: Changes that were applied, in their order, each as it was sent.
        self.sent: list[Change] = []
        #: Key of a website to the change of it that is being sent.
        self.under_way: dict[str, Change] = {}
        #: Key of a website to a change that failed, and may have been applied nevertheless.
        self.lost: dict[str, Change] = {}
        #: Websites whose change was refused for a reason that stays.
        self.refused: set[str] = set()

    def record(self, *changes: Change) -> None:
        """Note that changes of a website were applied, and tell the last one."""
        self.sent.extend(changes)
        if self._applied and changes:
            self._applied(changes[-1])

    def send(self, planned: Change) -> list[Change]:
        """Send a change; return what was sent, which is nothing if nothing was to be done.

        A create has the id of the new website. An update whose response was lost comes before that of the next attempt.
        """
        try:
            changes = {"create": self._create, "update": self._update, "delete": self._delete}[planned.action](planned)
            self.record(*changes)
        except (PermissionDeniedError, ValidationError):
            self.refused.add(planned.website)
            raise
        finally:
            self.under_way.pop(key_of(planned), None)
        return changes

    def _create(self, change: Change) -> list[Change]:
        settings = self._settings(change)
        later = {name: settings.pop(name) for name in list(settings) if not FIELDS[name].on_create}
        created = tuple(one for one in change.fields if one.field not in later)
        self.under_way[key_of(change)] = change
        try:
            record = self._client.create_website(change.domain, **settings)
        except StoppedError as error:
            if error.website_id is None:
                raise
            return [replace(change, website_id=error.website_id, fields=created)]
        except NotAppliedError as error:  # the check that follows looks at it again, and sends what is left
            return [replace(change, website_id=error.website_id)]
        except AnalyticsError as error:
            answered = isinstance(error, (AnalyticsApiError, AnalyticsConnectionError))
            if not answered or may_have_been_applied(error):
                self.lost[key_of(change)] = change
            raise
        website_id = str(record["id"])
        try:
            if later:
                self._client.update_website(website_id, **later)
        except (NotAppliedError, StoppedError) as error:
            fields = change.fields if isinstance(error, NotAppliedError) else created
            return [replace(change, website_id=website_id, fields=fields)]
        except AnalyticsError:
            self.record(replace(change, website_id=website_id, fields=created))
            raise
        return [replace(change, website_id=website_id)]

    def _update(self, planned: Change) -> list[Change]:
        worked_out: Change | None = None
        lost: list[Change] = []

        def work_out(record: dict[str, Any]) -> UpdateSettings | None:
            nonlocal worked_out
            self._check_domain(planned, record, "not changed")
            worked_out = self._change_of(record)
            self.under_way[key_of(planned)] = worked_out or planned
            return cast("UpdateSettings", self._settings(worked_out)) if worked_out else None

        def may_be_applied() -> None:
            if worked_out is not None:
                lost.append(worked_out)

        try:
            record = self._client.change_website(str(planned.website_id), work_out, may_be_applied)
        except NotFoundError:
            self._raise_unless_gone()
            if self._ignore_gone:
                return lost
            raise
        except Exception:
            if lost:
                self.lost[key_of(planned)] = replace(lost[-1], domain=planned.domain)
            raise
        if record is not None:
            try:
                self._check_domain(planned, record, "it was changed, but")
            except ValueError:
                if worked_out and self._applied:
                    self._applied(replace(worked_out, domain=website_of(record)[0]))
                raise
        return [*lost, worked_out] if worked_out else lost

    def _delete(self, planned: Change) -> list[Change]:
        website_id = str(planned.website_id)
        try:
            record = self._client.get_website(website_id)
            self._check_domain(planned, record, "not deleted")
            # What is deleted is what it was last, not what it was when the plan was made.
            names = [name for name, one in FIELDS.items() if name in record and one.on_update and one.kind.column]
            fields = tuple(FieldChange(name, normalise(name, record[name]), None) for name in names)
            change = replace(planned, fields=fields)
            self.under_way[key_of(planned)] = change
            try:
                self._client.delete_website(website_id)
            except NotFoundError:
                raise
            except AnalyticsError as error:
                if may_have_been_applied(error):
                    self.lost[key_of(planned)] = change
                raise
        except NotFoundError:
            self._raise_unless_gone()
            return []
        return [change]

    def _raise_unless_gone(self) -> None:
        """Raise if a website is "not found" because everything is: the base URL is wrong."""
        self._client.get_account()

    def _check_domain(self, planned: Change, record: Mapping[str, Any], verb: str) -> None:
        """Raise if the id of a plan does not belong to the domain of the plan any more."""
        domain = record.get("domain")
        if planned.domain and isinstance(domain, str) and not same_domain(domain, planned.domain):
            raise ValueError(f"{verb}: id {planned.website_id} now belongs to {domain!r}")

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
    client: AnalyticsClient,
    items: Sequence[Item],
    work: Callable[[Item], Result],
    name: Callable[[Item], str],
    workers: int,
    progress: _Progress,
    failures: dict[str, str],
) -> list[tuple[Item, Result]]:
    """Do the work for each item concurrently; return the results in the order in which they came.

    :param failures: receives name to error message.
    :raises AuthenticationError: if the API key is not accepted any more: what was not begun is not tried.
    :raises StoppedError: if the client was stopped before all was done. Requests under way get
        :data:`GRACE_SECONDS` to end, the rest is cancelled.
    """
    done: list[tuple[Item, Result]] = []
    breaker = _Breaker()
    futures: dict[Future[Result], Item] = {}
    refused: list[AuthenticationError] = []
    left = 0
    ended: queue.SimpleQueue[Future[Result]] = queue.SimpleQueue()

    def take(future: Future[Result]) -> bool:
        """Note how a piece of work ended; return whether it was done at all."""
        item = futures[future]
        try:
            done.append((item, future.result()))
        except (CancelledError, StoppedError):
            return False
        except _NotTriedError:
            failures[name(item)] = _NOT_TRIED
            return True
        except (AnalyticsError, ValueError) as error:
            failures[name(item)] = error.text if isinstance(error, AnalyticsError) else str(error)
            if isinstance(error, AuthenticationError):
                refused.append(error)
        progress.step(good=name(item) not in failures)
        return True

    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="analytics")
    try:
        for item in items:
            future = pool.submit(breaker.guard, work, item)
            futures[future] = item
            future.add_done_callback(ended.put)
        left = len(futures)
        while left and not client.stopped:
            try:
                left -= take(ended.get(timeout=LOOK_SECONDS))
            except queue.Empty:  # so that a stop is noticed while nothing ends
                continue
    except BaseException as error:
        if not isinstance(error, Exception):
            client.stop()
        raise
    finally:
        pool.shutdown(wait=not client.stopped, cancel_futures=True)
        if client.stopped:
            wait([future for future in futures if future.running()], GRACE_SECONDS)
            while not ended.empty():
                left -= take(ended.get())
        progress.say()
    if refused:
        raise refused[0]
    if left:
        raise StoppedError(f"Stopped: {client.stopped_because}.")
    return done


def _unless_stopped(client: AnalyticsClient, work: Callable[[], Result]) -> Result:
    """Do the work in a thread, so that a stop does not wait for a response that never comes.

    :raises StoppedError: if the client was stopped, and the work did not end within :data:`GRACE_SECONDS`.
    """
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="analytics")
    future = pool.submit(work)
    try:
        while not future.done() and not client.stopped:
            wait([future], LOOK_SECONDS)
        wait([future], GRACE_SECONDS)
    except BaseException:
        client.stop()
        raise
    finally:
        pool.shutdown(wait=False)
    if not future.done():
        raise StoppedError(f"Stopped: {client.stopped_because}.")
    return future.result()


def _website(change: Change) -> str:
    return change.website


def _name(record: Mapping[str, Any]) -> str:
    domain, website_id = website_of(record)
    return f"{readable(domain)} (id {website_id})" if domain else f"id {website_id}"
