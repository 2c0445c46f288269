"""Apply a plan: one website of each kind first, then the others, and verify all of them.

The only module that sends the changes of a plan.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from airflow_provider_analytics.api import client as api_client
from airflow_provider_analytics.api.domains import domain_key, same_domain
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise
from airflow_provider_analytics.api.transport import may_have_been_applied
from airflow_provider_analytics.api.verification import COMPARED, Comparison, Expected, shows
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    AnalyticsError,
    AuthenticationError,
    DuplicateWebsiteError,
    NotAppliedError,
    NotFoundError,
    PermissionDeniedError,
    StoppedError,
    ValidationError,
)
from airflow_provider_analytics.reconcile.desired import PASSWORD_FROM, SETTABLE_FIELDS
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan, website_of
from airflow_provider_analytics.reconcile.results import Outcome, Result, State, results_of
from airflow_provider_analytics.reconcile.websites import Read, Websites
from airflow_provider_analytics.reconcile.workers import NOT_TRIED, Breaker, Progress, Work, each

#: Works the change of a website out from a record of it; None if nothing is to be changed.
ChangeOf = Callable[[Mapping[str, Any]], Change | None]

#: Maximum number of times that a website is changed while others change it, too.
ROUNDS = 3
#: Seconds to wait before the changed websites are read again: an update of another process that is under way, and was
#: worked out before, arrives in between.
SETTLE_SECONDS = 1.0
#: Consecutive failures after which the service counts as down, while one website is changed alone.
ATTEMPTS_ALONE = 3
#: Maximum number of websites of a kind that are changed alone, one after the other, and of those of them that tell
#: nothing: another process changes them at the same time, or they cannot be read.
MAX_FIRST = 3
MAX_SILENT = 5
#: Number of lines above which a service may cut the lists of a website.
LONG_LIST = 10
#: Number of websites that people may have edited between two reads; if fields that were not sent differ on more, it is
#: the service that changes them.
EDITED_BY_PEOPLE = 2

log = logging.getLogger(__name__)

#: Maximum number of websites in a log line.
_SHOWN = 10
_UNDER_WAY = "Stopped while its change was under way: it may have been applied."
_INTERRUPTED = "Not tried: the work ended before its turn."
_BESIDES = "Changed as planned, but values that were not sent changed, too"
_STILL_DIFFERS = f"Still differs after {ROUNDS} rounds. The service ignores it, or another process changes it"


class Recorder(Protocol):
    """What is told of changes while they are made; called from several threads."""

    def claim(self, change: Change) -> bool:
        """Return whether the ledger covers a change that is about to be sent.

        If it does not, it is made to: the website is then fetched again before its update.
        """

    def applied(self, change: Change) -> None:
        """Note a change that was applied; a create has the id of the new website."""

    def undone(self, change: Change) -> None:
        """Note that a change that was noted as applied is not there."""


class NoRecorder:
    """Records nothing."""

    def claim(self, change: Change) -> bool:
        """Return True."""
        return True

    def applied(self, change: Change) -> None:
        """Do nothing."""

    def undone(self, change: Change) -> None:
        """Do nothing."""


def apply_plan(
    websites: Websites,
    plan: Plan,
    change_of: ChangeOf,
    *,
    shared: Iterable[str] = (),
    passwords: Mapping[str, str] | None = None,
    recorder: Recorder | None = None,
    ignore_gone: bool = False,
) -> Outcome:
    """Apply the changes of a plan, and verify them.

    Each website is fetched immediately before its update, and its change is recomputed: nothing that others wrote since
    the plan was made is lost. A website is changed or deleted only if its id still belongs to the domain in the plan.

    One website of each kind of change is changed and verified alone, before the others (:class:`_Application`). A
    website that fails does not stop the others. What was changed is read again, and must show *before + sent*; it is
    changed again if it does not, at most :data:`ROUNDS` times.

    If the client is stopped, an exception interrupts this thread, as Airflow raises it for a timeout, or a change
    cannot be recorded, no further requests are sent. Those under way get some time to end, and the outcome says what
    was sent, what may have been, and what interrupted it: the caller raises that, once it has recorded the rest.

    :param change_of: works the change of a website out from a record of it.
    :param shared: list fields in which entries of others stay.
    :param passwords: ``password_from`` reference to password.
    :param recorder: is told of the changes.
    :param ignore_gone: whether a website that no longer exists is no failure.
    """
    sender = _Sender(websites, change_of, passwords or {}, recorder or NoRecorder(), ignore_gone=ignore_gone)
    application = _Application(websites, plan, sender, frozenset(shared))
    interrupted: BaseException | None = None
    try:
        application.run()
    except BaseException as error:
        websites.client.stop()
        interrupted = error
    outcome = application.outcome(interrupted)
    failed = len(outcome.results) - sum(one.is_good for one in outcome.results)
    websites.client.stats.count("changes_applied", outcome.applied)
    websites.client.stats.count("changes_failed", failed)
    return outcome


@dataclass
class _Site:
    """A website of the plan, while its change is made.

    :param todo: what is left to change.
    :param result: what became of it.
    :param before: its record immediately before the last update; None if it was not updated.
    :param expected: what it should show; None if nothing was sent.
    :param lost: a change that failed, and may have been applied nevertheless.
    :param under_way: the change that is being sent.
    """

    todo: Change
    result: Result
    before: Mapping[str, Any] | None = None
    expected: Expected | None = None
    lost: Change | None = None
    under_way: Change | None = None

    @property
    def name(self) -> str:
        return self.todo.website

    @property
    def sent(self) -> Change | None:
        """The last change that was sent, whether it was answered or not."""
        return self.lost or (self.result.sent[-1] if self.result.sent else None)


@dataclass(frozen=True)
class _Look:
    """What a website shows after its change.

    :param comparison: its record, compared with what is expected; None if it has none.
    :param record: its record.
    :param why: what is wrong, if it is not in the comparison.
    :param is_stale: whether it shows what it showed before, as if nothing had been sent.
    :param is_unread: whether it could not be read.
    :param is_row: whether its record is a row of the list.
    """

    comparison: Comparison | None = None
    record: Mapping[str, Any] | None = None
    why: str = ""
    is_stale: bool = False
    is_unread: bool = False
    is_row: bool = False

    @property
    def holds(self) -> bool:
        return not self.why and (self.comparison is None or self.comparison.holds)

    @property
    def may_become_right(self) -> bool:
        """Whether a later read may show something else without anyone's doing."""
        return not self.holds and (self.is_stale or self.is_unread or bool(self.comparison and self.comparison.besides))

    @property
    def differences(self) -> dict[str, str]:
        if self.comparison is None:
            return {"website": self.why} if self.why else {}
        return {**self.comparison.lacking, **self.comparison.besides}


class _UnfaithfulError(Exception):
    """The service does something else than it was asked for; all has been noted."""


class _Application:
    """The steps of :func:`apply_plan`; every result is right at every moment."""

    def __init__(self, websites: Websites, plan: Plan, sender: _Sender, shared: frozenset[str]) -> None:
        self._websites = websites
        self._client = websites.client
        self._sender = sender
        sender.shared = shared
        self._records = {str(record["id"]): record for record in websites.records}
        results = results_of(plan.changes)
        self._sites = [_Site(result.planned, result) for result in results.values()]
        self._breaker = Breaker()
        self._unfaithful: NotAppliedError | None = None
        #: Names of the websites of kinds of which one was verified alone.
        self._trusted: set[str] = set()
        #: Names of the websites that another process has changed, too.
        self._disturbed: set[str] = set()

    def outcome(self, interrupted: BaseException | None) -> Outcome:
        """Return what became of each website until now."""
        for site in self._sites:
            result = site.result
            if site.under_way is not None:
                result.state, result.why = State.UNCLEAR, _UNDER_WAY
            elif site.lost is not None:
                result.state = State.UNCLEAR
            elif result.state is State.NOT_TRIED and not result.why:
                if result.sent:  # the service has confirmed it, and it was not read again
                    result.state, result.unverified = State.APPLIED, tuple(one.field for one in site.todo.fields)
                else:
                    result.why = _INTERRUPTED if interrupted else NOT_TRIED
        # Copies: a request that is still under way may end now.
        results = tuple(replace(site.result, sent=list(site.result.sent)) for site in self._sites)
        return Outcome(results, unfaithful=self._unfaithful, interrupted=interrupted)

    def run(self) -> None:
        """Change one website of each kind alone, then the others, and verify all."""
        try:
            self._change_one_of_each_kind()
        except _UnfaithfulError:
            # What was changed before, and was not put back, is judged all the same.
            left = [site for site in self._sites if site.sent and site.result.state is State.NOT_TRIED]
            self._judge(self._look_at(left), is_last=True)
            return
        todo = [site for site in self._sites if not site.result.sent and site.result.state is State.NOT_TRIED]
        for round_number in range(1, ROUNDS + 1):
            self._send(todo)
            sent = [site for site in self._sites if site.result.sent or site.lost]
            check = [site for site in sent if round_number == 1 or site in todo]
            if not check:
                return
            looks = self._look_at(check, first=SETTLE_SECONDS)
            todo = self._judge(looks, is_last=round_number == ROUNDS)
            if not todo:
                break
            log.info("Changing %s websites again, which do not show their change.", f"{len(todo):,}")
        self._judge_besides()

    # One website first

    def _change_one_of_each_kind(self) -> None:
        for sites in self._kinds():
            self._breaker.limit(ATTEMPTS_ALONE)
            self._change_alone(sites)
        self._breaker.limit(Breaker.DEFAULT)

    def _kinds(self) -> Iterator[list[_Site]]:
        """Yield the websites of each kind of which there are several; deletions come last.

        Where no two updates are of the same kind, all updates are one: what a service does to fields that were not sent
        shows with each of them.
        """
        kinds: dict[tuple[str, ...], list[_Site]] = {}
        for site in self._sites:
            names = [one.field for one in site.todo.fields] if site.todo.action == "update" else []
            kinds.setdefault((site.todo.action, *names), []).append(site)
        updates = [sites for kind, sites in kinds.items() if kind[0] == "update"]
        if updates and max(map(len, updates)) == 1:
            updates = [[site for sites in updates for site in sites]]
        others = [kinds[kind,] for kind in ("create", "delete") if (kind,) in kinds]
        yield from (sites for sites in (*sorted(updates, key=len, reverse=True), *others) if len(sites) > 1)

    def _change_alone(self, sites: Sequence[_Site]) -> None:
        """Change the most telling websites one after the other, until what they have is had by all others.

        :raises _UnfaithfulError: if two of them show something else than expected: then it is the service.
        """
        telling = _telling(sites, self._records)
        left = list(sites)
        covered: set[str] = set()
        verified = silent = 0
        doubted: list[tuple[_Site, _Look]] = []
        while left and verified < MAX_FIRST and silent < MAX_SILENT:
            site = _most_telling(left, telling, covered, doubted[0][0] if doubted else None)
            if verified and not telling[site.name].lines - covered:
                break
            left.remove(site)
            self._send([site])
            if self._breaker.is_open:
                return
            if not site.result.sent:  # it failed, or needed nothing: it tells nothing
                continue
            look = self._look_at([site])[site.name]
            if look.holds:
                self._note(site, look)
                covered |= telling[site.name].lines
                verified += 1
            elif look.is_unread or (look.comparison is not None and look.comparison.by_others):
                silent += 1
            else:
                doubted.append((site, look))
                if len(doubted) > 1:
                    self._put_back(doubted)
                    raise _UnfaithfulError
                self._client.wait(SETTLE_SECONDS)  # if another process changes the websites, let it get ahead
        if verified:
            self._trusted.update(site.name for site in sites)

    def _put_back(self, doubted: Sequence[tuple[_Site, _Look]]) -> None:
        """Put websites back as they were, and note that the service is not to be trusted with the others."""
        said = []
        for site, look in doubted:
            result = site.result
            for change in result.sent:
                self._sender.recorder.undone(change)
            how = self._back(site)
            result.state, result.why = State.FAILED, f"{_told(look.differences)}. {how}"
            result.sent = [] if how == _PUT_BACK else result.sent
            said.append(f"{site.name}: {how}")
        site, look = doubted[0]
        left = [one for one in self._sites if one.result.state is State.NOT_TRIED and not one.result.sent]
        for one in left:
            one.result.why = "Not tried: the service does something else than it is asked for."
        fields = ", ".join(one.field for one in site.todo.fields) or site.todo.action
        self._unfaithful = NotAppliedError(
            str(site.sent.website_id if site.sent else site.todo.website_id),
            look.differences,
            f"Website {doubted[1][0].name} shows the same, so the service does it with each website. "
            f"Sent: {fields}. {' '.join(f'{one}.' for one in said)} {len(left):,} websites were not changed. "
            f"Try the other value of the extra update_method ({self._client.settings.update_method} now).",
            permanent=True,
        )

    def _back(self, site: _Site) -> str:
        """Put a website back as it was; return what became of it."""
        if site.todo.action != "update" or site.before is None:
            return "It stays"
        try:
            self._client.put_back(str(site.todo.website_id), site.before)
        except AnalyticsError as error:
            return f"It could not be put back, and was before: {_values(site.before)} ({error.text})"
        return _PUT_BACK

    # Sending and verifying

    def _send(self, sites: Sequence[_Site]) -> None:
        """Send the changes of these websites; their results say what became of them."""
        failures: dict[str, str] = {}
        by_name = {site.name: site for site in sites}
        work = Work(sites, self._sender.send, lambda site: site.name, failures)
        try:
            each(self._client, work, Progress(len(sites), "Changing"), self._websites.workers, self._breaker)
        finally:
            for name, why in failures.items():
                result = by_name[name].result
                result.why = why
                if name in work.not_tried:
                    result.state = State.NOT_TRIED
                elif result.state is not State.REFUSED:
                    result.state = State.UNCLEAR if by_name[name].lost else State.FAILED

    def _look_at(self, sites: Sequence[_Site], *, first: float = 0.0) -> dict[str, _Look]:
        """Return what websites show after their change; wait while they may not show it yet.

        :param first: seconds to wait before the first look.
        """
        self._client.wait(first)
        looks = self._see(sites)
        # Rows of the list may show less, or something older: then the website itself decides.
        left = [site for site in sites if not looks[site.name].holds and looks[site.name].is_row]
        if left:
            looks |= self._see(left, one_by_one=True)
        for seconds in api_client.CONFIRM_WAITS:
            left = [site for site in sites if looks[site.name].may_become_right]
            if not left:
                break
            self._client.wait(seconds)
            looks |= self._see(left, one_by_one=True)
        return looks

    def _see(self, sites: Sequence[_Site], *, one_by_one: bool = False) -> dict[str, _Look]:
        """Read websites, and return what they show.

        :param one_by_one: do not read the list instead.
        """
        known = {site.name: str(site.sent.website_id) for site in sites if site.sent and site.sent.website_id}
        # Whatever was visible before has to be visible again.
        fields = {
            name
            for site in sites
            if site.expected
            for name in COMPARED
            if name in site.expected.sent or shows(name, site.expected.before)
        }
        try:
            read = self._websites.read_again(list(known.values()), fields, one_by_one=one_by_one)
        except (AuthenticationError, StoppedError):
            raise
        except AnalyticsError as error:  # what was sent must not be forgotten for it
            read = Read({}, dict.fromkeys(known.values(), error.text))
        created = [site for site in sites if site.todo.action == "create" and site.name in known]
        twice = self._duplicates(created, read)
        read = self._with_deleted(sites, known, read)
        looks = {}
        for site in sites:
            if site.name not in known:
                looks[site.name] = _Look(why="its id is not known", is_unread=True)
            elif site.name in twice:
                looks[site.name] = twice[site.name]
            else:
                look = self._compared(site, known[site.name], read)
                looks[site.name] = replace(look, is_row=read.listed is not None)
        return looks

    def _with_deleted(self, sites: Sequence[_Site], known: Mapping[str, str], read: Read) -> Read:
        """Return what was read; where a show does not tell whether a website is deleted, the complete list does."""
        deleted = [known[site.name] for site in sites if site.todo.action == "delete" and site.name in known]
        unclear = [website_id for website_id in deleted if website_id in read.failures]
        if not unclear:
            return read
        try:
            listed = {str(record["id"]): record for record in self._client.list_websites()}
        except AnalyticsError:
            return read
        failures = {website_id: why for website_id, why in read.failures.items() if website_id not in unclear}
        return Read({**read.found, **{one: listed[one] for one in unclear if one in listed}}, failures, read.listed)

    def _compared(self, site: _Site, website_id: str, read: Read) -> _Look:
        if website_id in read.failures:
            return _Look(why=f"Changed, but not verified: {read.failures[website_id]}", is_unread=True)
        record = read.found.get(website_id)
        domain = website_of(record)[0] if record else ""
        is_other = bool(domain and site.todo.domain and not same_domain(domain, site.todo.domain))
        if site.todo.action == "delete":
            stays = record is not None and not is_other
            return _Look(record=record, why="still exists after it was deleted" if stays else "", is_stale=stays)
        if record is None:
            if self._sender.ignore_gone and site.todo.action == "update":
                return _Look()
            return _Look(why="It does not exist: another process deleted it.", is_stale=site.todo.action == "create")
        if is_other:
            return _Look(
                why=f"The id {website_id} belongs to {domain!r} now, which may have got its change.", record=record
            )
        if site.expected is None:
            return _Look(record=record)
        comparison = site.expected.compare(record)
        is_stale = Expected(site.expected.before, {}).compare(record).holds
        return _Look(comparison, record, is_stale=is_stale and not comparison.holds)

    def _duplicates(self, created: Sequence[_Site], read: Read) -> dict[str, _Look]:
        """Return the created websites whose domain another website has, too, or which the list does not show."""
        if not created:
            return {}
        try:
            rows = read.listed if read.listed is not None else self._client.newest_websites(self._websites.newest)
        except AnalyticsError as error:
            why = f"Created, but not verified that it is the only one: {error.text}"
            return {site.name: _Look(why=why, is_unread=True) for site in created}
        ids: dict[str, list[str]] = {}
        for record in rows:
            domain, website_id = website_of(record)
            ids.setdefault(domain_key(domain), []).append(website_id)
        wrong = {}
        for site in created:
            own = str(site.sent.website_id) if site.sent else ""
            same = ids.get(domain_key(site.todo.domain), [])
            if len({*same, own}) > 1:
                twice = DuplicateWebsiteError(site.todo.domain, sorted({*same, own}, key=lambda one: (len(one), one)))
                wrong[site.name] = _Look(why=f"Created, but: {twice.text}")
            elif own not in same:
                wrong[site.name] = _Look(why=f"Created with the id {own}, but the list does not show it", is_stale=True)
        return wrong

    def _judge(self, looks: Mapping[str, _Look], *, is_last: bool) -> list[_Site]:
        """Note what websites show, and return those that are to be changed again."""
        again = []
        for site in self._sites:
            look = looks.get(site.name)
            if look is None:
                continue
            result = site.result
            if site.lost is not None:
                if (look.comparison is not None and look.holds) or (site.todo.action == "delete" and look.holds):
                    # The response was lost, or reported an error, and the website shows that the change was applied.
                    # One that does not show it proves nothing: behind a proxy that gave up, the service may go on.
                    self._sender.note(site, site.lost)
                    site.lost = None
                else:
                    result.record = look.record or result.record
                    continue
            left = self._note(site, look)
            if left is not None and not is_last:
                site.todo = left
                again.append(site)
        return again

    def _note(self, site: _Site, look: _Look) -> Change | None:
        """Note what a website shows after its change, and return what is left to change."""
        result = site.result
        comparison = look.comparison or Comparison()
        result.record = look.record
        result.unverified, result.besides = comparison.unverified, comparison.besides
        result.state, result.why = State.APPLIED, ""
        if comparison.by_others:
            self._disturbed.add(site.name)
        left: Change | None = None
        if look.is_unread:
            result.state, result.why = State.UNCLEAR, look.why
        elif look.why:
            result.state, result.why = State.FAILED, look.why
            if site.todo.action == "delete" and look.record is not None:
                left, result.why = site.todo, f"{_STILL_DIFFERS}: it {look.why}."
        elif comparison.lacking and look.record is not None:
            try:
                left = self._sender.change_of(look.record)
            except ValueError as error:
                result.state, result.why = State.FAILED, str(error)
                return None
            left = left and replace(left, fields=tuple(one for one in left.fields if one.field in look.record))
            if left is None or not left.fields:
                # What is wanted is there. What is missing are lines of others, which only they can add again.
                result.besides = {**comparison.lacking, **comparison.besides}
                return None
            result.state, result.why = State.FAILED, f"{_STILL_DIFFERS}: {_told(comparison.lacking)}."
        if left is not None:
            self._sender.recorder.undone(result.sent[-1])
        return left

    def _judge_besides(self) -> None:
        """Let websites fail on which values changed that were not sent, if the service is the likely cause.

        It is not, where these are one or two websites among many, which people may have edited; nor where only entries
        of lists are gone, and the service was seen to keep them, or another process was seen: other tasks sync lists.
        """
        sites = [site for site in self._sites if site.result.besides and site.result.state is State.APPLIED]
        changed = sum(bool(site.result.sent) for site in self._sites)
        excused = [
            site
            for site in sites
            if site.result.besides.keys() <= LINE_FIELDS.keys() and site.name in self._trusted | self._disturbed
        ]
        suspect = [site for site in sites if site not in excused]
        if len(suspect) > EDITED_BY_PEOPLE or (suspect and len(suspect) == changed):
            for site in suspect:
                site.result.state, site.result.why = State.FAILED, f"{_BESIDES}: {_told(site.result.besides)}."
        named = [site for site in sites if site.result.state is State.APPLIED]
        if named:
            log.warning(
                "Another process changed %s of %s websites at the same time: %s%s",
                f"{len(named):,}",
                f"{changed:,}",
                "; ".join(f"{site.name}: {_told(site.result.besides)}" for site in named[:_SHOWN]),
                f"; and {len(named) - _SHOWN:,} more" if len(named) > _SHOWN else "",
            )


class _Telling(NamedTuple):
    """What a website has that a service may change besides.

    :param values: fields whose values are no defaults.
    :param lines: kinds of lines in its lists: services that drop lines drop those of a kind, or those behind the first.
    :param length: number of lines.
    """

    values: frozenset[str]
    lines: frozenset[str]
    length: int


def _telling(sites: Sequence[_Site], records: Mapping[str, Mapping[str, Any]]) -> dict[str, _Telling]:
    """Return what each website would tell, by its name."""
    found = {}
    for site in sites:
        record = records.get(str(site.todo.website_id), {})
        values = {name: normalise(name, record[name]) for name in COMPARED if shows(name, record)}
        lines = [line for name in LINE_FIELDS for line in values.get(name, ())]
        named = frozenset(name for name, value in values.items() if value not in (FIELDS[name].default, False, ()))
        kinds = frozenset(sign for sign in ("#", "/", "*") if any(sign in line for line in lines))
        found[site.name] = _Telling(named, kinds, len(lines))
    longest = max(found, key=lambda name: found[name].length)
    if found[longest].length > LONG_LIST:
        found[longest] = found[longest]._replace(lines=found[longest].lines | {"many"})
    return found


def _most_telling(
    sites: Sequence[_Site], telling: Mapping[str, _Telling], covered: set[str], doubted: _Site | None
) -> _Site:
    """Return the website that tells most; after a doubt, the one that has most of what the doubted one has."""

    def key(site: _Site) -> tuple[int, int, int]:
        own = telling[site.name]
        if doubted is not None:
            like = telling[doubted.name]
            return len(own.lines & like.lines), len(own.values & like.values), own.length
        return len(own.lines - covered), len(own.values), own.length

    return max(sites, key=key)


_PUT_BACK = "It was put back as it was"


class _Sender:
    """Sends single changes, each worked out from what the website shows immediately before."""

    def __init__(
        self,
        websites: Websites,
        change_of: ChangeOf,
        passwords: Mapping[str, str],
        recorder: Recorder,
        *,
        ignore_gone: bool,
    ) -> None:
        self._websites = websites
        self._client = websites.client
        self.change_of = change_of
        self._passwords = passwords
        self.recorder = recorder
        self.ignore_gone = ignore_gone
        self.shared: frozenset[str] = frozenset()

    def note(self, site: _Site, change: Change) -> None:
        """Note a change that was applied."""
        site.result.sent.append(change)
        self.recorder.applied(change)

    def send(self, site: _Site) -> None:
        """Send the change of a website; its result says what became of it."""
        try:
            {"create": self._create, "update": self._update, "delete": self._delete}[site.todo.action](site)
            if not site.result.sent:
                site.result.state, site.result.why = State.UNCHANGED, ""
        except (PermissionDeniedError, ValidationError):
            site.result.state = State.REFUSED
            raise
        finally:
            site.under_way = None

    def _create(self, site: _Site) -> None:
        change = site.todo
        settings = self._settings(change)
        later = {name: settings.pop(name) for name in list(settings) if not FIELDS[name].on_create}
        created = tuple(one for one in change.fields if one.field not in later)
        site.under_way = change
        try:
            website_id = self._client.send_create(change.domain, settings)
            if website_id is None:
                found = self._client.find_created(change.domain, None, self._websites.newest)
                website_id = str(found["id"])
        except AnalyticsError as error:
            answered = isinstance(error, (AnalyticsApiError, AnalyticsConnectionError))
            if not isinstance(error, StoppedError) and (not answered or may_have_been_applied(error)):
                site.lost = change
            raise
        site.expected = Expected.of_new(change.domain, settings)
        if not later:
            self.note(site, replace(change, website_id=website_id))
            return
        # A create cannot set them.
        self.note(site, replace(change, website_id=website_id, fields=created))
        rest = replace(
            change,
            action="update",
            website_id=website_id,
            fields=tuple(one for one in change.fields if one.field in later),
        )
        self._client.change_website(website_id, lambda _: later)
        site.expected = Expected.of_new(change.domain, {**settings, **later})
        self.note(site, rest)

    def _update(self, site: _Site) -> None:
        planned = site.todo
        website_id = str(planned.website_id)
        worked_out: Change | None = None
        before: Mapping[str, Any] = {}
        lost: list[tuple[Change, Mapping[str, Any]]] = []

        def work_out(record: dict[str, Any]) -> Mapping[str, Any] | None:
            nonlocal worked_out, before
            self._check_domain(planned, record, "not changed")
            worked_out, before = self.change_of(record), record
            if worked_out is not None and not self.recorder.claim(worked_out):
                raise _FetchAgainError
            site.under_way = worked_out or planned
            return self._settings(worked_out) if worked_out else None

        def may_be_applied() -> None:
            if worked_out is not None:
                lost.append((worked_out, before))

        while True:
            try:
                record = self._client.change_website(website_id, work_out, may_be_applied)
            except _FetchAgainError:
                continue
            except NotFoundError:
                self._client.get_account()  # with a wrong base URL, everything is "not found"
                if not self.ignore_gone:
                    raise
                for change, _ in lost:
                    self.note(site, change)
                return
            except Exception:
                if lost:
                    self._expect(site, *lost[-1])
                    site.lost = replace(lost[-1][0], domain=planned.domain)
                raise
            break
        for change, shown in lost:  # applied, as the next attempt shows, or overwritten by it
            self._expect(site, change, shown)
            self.note(site, change)
        if worked_out is None:
            site.result.record = before
        else:
            self._expect(site, worked_out, before)
            if record is not None:
                self._check_answer(site, planned, worked_out, record)
            self.note(site, worked_out)

    def _expect(self, site: _Site, change: Change, before: Mapping[str, Any]) -> None:
        settings = self._settings(change)
        site.before = site.before or before
        site.expected = Expected(before, settings, change.domain, shared=self.shared)

    def _check_answer(self, site: _Site, planned: Change, sent: Change, record: Mapping[str, Any]) -> None:
        """Raise if the response to an update is about another domain than the one in the plan."""
        try:
            self._check_domain(planned, record, "it was changed, but")
        except ValueError:
            self.recorder.applied(replace(sent, domain=website_of(record)[0]))
            raise

    def _delete(self, site: _Site) -> None:
        planned = site.todo
        website_id = str(planned.website_id)
        try:
            record = self._client.get_website(website_id)
            self._check_domain(planned, record, "not deleted")
            # What is deleted is what it was last, not what it was when the plan was made.
            fields = tuple(
                FieldChange(name, normalise(name, record[name]), None) for name in SETTABLE_FIELDS if name in record
            )
            change = replace(planned, fields=fields)
            site.under_way = change
            try:
                self._client.send_delete(website_id)
            except NotFoundError:
                raise
            except AnalyticsError as error:
                if may_have_been_applied(error):
                    site.lost = change
                raise
        except NotFoundError:
            self._client.get_account()  # with a wrong base URL, everything is "not found"
            return
        self.note(site, change)

    def _check_domain(self, planned: Change, record: Mapping[str, Any], verb: str) -> None:
        """Raise if the id of a plan does not belong to the domain of the plan any more."""
        domain = record.get("domain")
        if planned.domain and isinstance(domain, str) and not same_domain(domain, planned.domain):
            raise ValueError(f"{verb}: id {planned.website_id} now belongs to {domain!r}")

    def _settings(self, change: Change) -> dict[str, Any]:
        settings = change.settings
        reference = settings.pop(PASSWORD_FROM, None)
        return {**settings, "password": self._passwords[reference]} if reference else settings


class _FetchAgainError(Exception):
    """The ledger had to be written before the update: the website is fetched again."""


def _told(differences: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {how}" for name, how in differences.items())


def _values(record: Mapping[str, Any]) -> str:
    values = {name: normalise(name, record[name]) for name in SETTABLE_FIELDS if shows(name, record)}
    return ", ".join(f"{name} {str(value)[:200]}" for name, value in values.items())
