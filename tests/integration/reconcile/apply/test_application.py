# SPDX-License-Identifier: Apache-2.0
"""Application of a plan: failures, parallel requests, progress, and metrics (``reconcile/apply/application.py``)."""

from __future__ import annotations

import itertools
import logging
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, Stats
from distortion import Distortion
from reconciling import Night

from airflow_provider_analytics.api.waiting import Stopping
from airflow_provider_analytics.exceptions import AnalyticsError, BulkError, StoppedError
from airflow_provider_analytics.guards import GUARDS
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.reconcile import service_websites as workers_module
from airflow_provider_analytics.reconcile.apply.application import FAILURES_AT_FIRST
from airflow_provider_analytics.reconcile.apply.sending import Sender
from airflow_provider_analytics.reconcile.apply.targets import State, Target
from airflow_provider_analytics.reconcile.audit_trail import AuditTrail
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.exclusion_list import ExclusionList
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList
from airflow_provider_analytics.reconcile.job import Job, Planned
from airflow_provider_analytics.reconcile.plan.changes import Change, FieldChange, Plan
from airflow_provider_analytics.reconcile.service_websites import GIVE_UP_AFTER, Websites
from airflow_provider_analytics.reconcile.state import ListFile
from airflow_provider_analytics.sandbox.requests import RecordedRequest

NEW = "1.1.1.1"


def test_single_failure_does_not_stop_the_others_and_a_retry_applies_the_rest(
    night: Night, distortion: Distortion
) -> None:
    night.add(7)
    distortion.failing = {("PATCH", "/websites/3"): 422, ("PATCH", "/websites/5"): 500}
    with pytest.raises(BulkError) as raised:
        night.managed(NEW)
    assert raised.value.failures.keys() == {"3.example (id 3)", "5.example (id 5)"}
    assert raised.value.failures["3.example (id 3)"].startswith("The service rejected the request: ")
    assert raised.value.done == 5
    distortion.failing = {}
    night.sandbox.clear_requests()
    assert night.managed(NEW)["applied"] == 2
    assert (night.updated, night.operations["update"]) == ({"3", "5"}, 2)
    assert night.lists() == [NEW] * 7


def test_fields_that_list_rows_omit_are_fetched(night: Night, distortion: Distortion) -> None:
    night.add(4, exclude_ips="9.9.9.9")
    distortion.hidden_in_lists = {"exclude_ips"}
    distortion.failing = {("GET", "/websites/2"): 500, ("GET", "/websites/3"): 404}
    with pytest.raises(BulkError) as raised:
        night.sync(NEW)
    assert raised.value.failures.keys() == {"2.example (id 2)"}
    assert night.lists() == [f"9.9.9.9\n{NEW}", "9.9.9.9", "9.9.9.9", f"9.9.9.9\n{NEW}"]


@pytest.mark.parametrize("domain", ["left out", None, ""])
def test_website_whose_record_has_no_domain_is_not_changed(night: Night, distortion: Distortion, domain: Any) -> None:
    """It might be the website of someone else, and a plan would not find the desired state of it."""

    def hide(_: str, path: str, record: dict[str, Any]) -> None:
        if path != "/websites":
            record["domain"] = domain
            if domain == "left out":
                del record["domain"]

    night.add(3)
    distortion.change = hide
    config = {"websites": {f"{number}.example": {"exclude_ips": [NEW]} for number in (1, 2)}}
    with pytest.raises(AirflowFailException, match=r"has no domain|has the domain ''"):
        night.sync(NEW)
    with pytest.raises(AirflowFailException, match=r"has no domain|has the domain ''"):
        night.apply(config=config, prune=True, override_guards=list(GUARDS))
    assert night.operations["update"] == night.operations["delete"] == 0


def test_unavailable_service_gets_no_request_per_website(night: Night, distortion: Distortion) -> None:
    night.add(500)
    distortion.before = lambda method, path: 503 if path != "/websites" else None
    with pytest.raises(BulkError) as caught:
        night.sync(NEW)
    assert (len(caught.value.failures), night.updated) == (500, set())
    text = str(caught.value)
    assert text.startswith(f"{FAILURES_AT_FIRST} websites failed, 497 not tried, 0 succeeded. The service ")
    why = f"\nNot tried, because {FAILURES_AT_FIRST} changes failed in a row, the last one with: The service "
    assert why in text
    assert text.count(" and 492 more.") == 1
    assert len(text) < 4096


def test_log_names_every_website_of_an_outage_and_counts_unclear_ones(
    night: Night, distortion: Distortion, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.add(60)
    monkeypatch.setattr(SyncExcludedIpsOperator, "log", logging.getLogger("airflow_provider_analytics"))

    def fail_after_half(method: str, path: str) -> int | None:
        return 502 if len(night.updated) >= 30 and path != "/account" else None

    distortion.before = fail_after_half
    with caplog.at_level(logging.INFO), pytest.raises(BulkError) as caught:
        night.sync(NEW)
    [named] = [line for line in caplog.messages if line.startswith("Not as requested (")]
    assert all(website in named for website in caught.value.failures)
    [done] = [line for line in caplog.messages if line.startswith("Updated exclude_ips on ")]
    numbers = list(map(int, re.findall(r"(\d+) (?:of|unclear|failed|not tried)", done)))
    assert sum(numbers) == 60, done
    assert f"on {numbers[0]} of 60 websites ({numbers[1]} unclear, " in done


@pytest.mark.parametrize("status", [403, 413, 419, 422])
def test_plan_that_the_service_rejects_for_good_is_not_retried(night: Night, status: int) -> None:
    night.add(20)
    night.sandbox.fault("update", status=status, times=None, body={"message": "CSRF token mismatch."})
    with pytest.raises(AirflowFailException, match="Not retried: "):
        night.sync(NEW)


def test_website_that_a_colleague_deletes_during_a_sync_is_named_in_the_log(
    night: Night, caplog: pytest.LogCaptureFixture
) -> None:
    night.add(4)

    def delete(request: RecordedRequest) -> None:
        if request.operation == "show" and not night.updated:
            night.sandbox.remove_website(2)

    night.sandbox.meanwhile(delete)
    with caplog.at_level(logging.INFO):
        assert night.sync(NEW)["applied"] == 3
    assert re.search(r"Website 2\.example \(id 2\) (does not exist any more|was changed, and does not)", caplog.text)


def test_long_wait_stops_requests_for_further_websites(night: Night) -> None:
    night.add(500)
    night.sandbox.fault("show", status=429, headers={"Retry-After": "3600"}, times=None)
    with pytest.raises(BulkError, match="1 website failed, 499 not tried, ") as caught:
        night.sync(NEW)
    assert night.operations["show"] == 1
    assert any("Retry-After 3600 s" in why for why in caught.value.failures.values())
    assert "Not tried, because the service asks to wait longer than 60 s." in str(caught.value)


def test_creates_end_if_the_service_is_unavailable(night: Night) -> None:
    night.sandbox.fault("create", skip=10, times=None, status=502)
    websites = {f"{number}.example": {"privacy": "private"} for number in range(100)}
    with pytest.raises(BulkError) as caught:
        night.apply(config={"websites": websites})
    assert GIVE_UP_AFTER <= 90 - len(caught.value.not_tried) <= GIVE_UP_AFTER + 16


INCOMPLETE = {
    "update rejected": {"operation": "update", "status": 409},
    "update unclear": {"operation": "update", "status": 500},
    "create unclear": {"operation": "create", "status": 502, "commit": True},
    "update ignored": {"operation": "update", "status": 204, "commit": False},
}


@pytest.mark.parametrize("ignore", [["favorite"], ["favorite", "email", "privacy"]])
def test_ignored_setting_of_a_new_website_is_set_by_the_update_after_its_create(
    night: Night, ignore: list[str]
) -> None:
    websites = {f"{n}.example": {"privacy": "private", "favorite": True, "email": True} for n in range(4)}
    config = {"defaults": {"ignore": ignore}, "websites": websites}
    digest = night.plan(config=config)["digest"]
    assert night.apply(config=config, approved_digest=digest)["verified"] is True
    assert (night.lists("favorite"), night.lists("email")) == ([True] * 4, [1] * 4)
    night.sandbox.change_website(1, favorite=False)
    assert night.apply(config=config)["applied"] == 0


@pytest.mark.parametrize("how", ["create_only", "ignore"])
@pytest.mark.parametrize("fault", INCOMPLETE.values(), ids=INCOMPLETE)
def test_setting_only_for_new_websites_is_not_retried_if_a_new_website_lacks_it(
    night: Night, distortion: Distortion, fault: dict[str, Any], how: str
) -> None:
    """A retry would leave it as it is, and succeed."""
    config: dict[str, Any] = {"websites": {"new.example": {"privacy": "private", "favorite": True}}}
    only_new: dict[str, Any] = {"config": config, "create_only": True}
    if how == "ignore":
        only_new = {"config": {**config, "defaults": {"ignore": ["favorite"]}}}

    def begin() -> None:
        night.sandbox.reset()
        night.sandbox.fault(times=None, **fault)
        if fault["operation"] == "create":
            night.sandbox.fault("update", times=None, status=409)

    begin()
    with pytest.raises(BulkError):
        night.apply(config=config)
    begin()
    with pytest.raises(AirflowFailException, match=r"favorite|might have been created") as caught:
        night.apply(**only_new)
    assert "Run once without create_only and ignore." in str(caught.value)
    night.sandbox.clear_faults()
    night.apply(config=config)
    assert night.lists("favorite") == [True]


def test_request_that_is_too_large_is_not_retried_and_names_the_remedy(night: Night) -> None:
    night.add(3)
    night.sandbox.fault("update", times=None, status=413, body="<html><h1>413 Request Entity Too Large</h1></html>")
    with pytest.raises(AirflowFailException, match=r"size of the request.*\n?.*client_max_body_size"):
        night.sync(NEW)
    assert night.operations["update"] == 3


def test_service_that_becomes_unavailable_gets_no_request_per_website(night: Night, distortion: Distortion) -> None:
    night.add(100)
    requests = itertools.count(1)
    distortion.before = lambda method, path: 502 if path != "/websites" and next(requests) > 10 else None
    with pytest.raises(BulkError) as caught:
        night.sync(NEW, parallel_requests=1)
    # Besides the counted websites: the websites that are changed alone, with two requests each.
    assert GIVE_UP_AFTER < 100 - len(caught.value.not_tried) <= GIVE_UP_AFTER + 5


def test_delete_checks_the_domain_again(night: Night, distortion: Distortion) -> None:
    night.add(20, privacy=1)

    def meanwhile(method: str, path: str) -> None:
        if path == "/websites/2":
            night.sandbox.change_website(2, domain="other.example")
        elif path == "/websites/3" and "3.example" in night.lists("domain"):
            night.sandbox.remove_website(3)

    distortion.before = meanwhile
    kept: dict[str, Any] = {f"{number}.example": {} for number in range(4, 21)}
    # A retry by id would delete the new owner.
    with pytest.raises(AirflowFailException, match=r"1 website failed.* the domain 'other\.example', not"):
        night.apply(config={"websites": kept}, prune=True, **night.state)
    assert night.lists("domain") == ["other.example", *kept]


KEPT: dict[str, Any] = {"websites": {f"{number}.example": {} for number in range(2, 21)}}


@pytest.mark.parametrize(
    "run", [lambda night: night.sync(NEW), lambda night: night.apply(config=KEPT, prune=True)], ids=["update", "delete"]
)
def test_website_is_not_gone_if_the_account_is_not_found_either(
    night: Night, distortion: Distortion, run: Callable[[Night], Any]
) -> None:
    """With a wrong base URL, everything is "not found"."""
    night.add(20)
    lost: list[str] = []

    def before(_: str, path: str) -> int | None:
        if path.startswith("/websites/"):
            lost.append(path)
        return 404 if lost else None

    distortion.before = before
    with pytest.raises(BulkError, match="404"):
        run(night)


@pytest.mark.parametrize("action", ["create", "update", "delete"])
def test_change_is_unclear_while_its_request_is_running(night: Night, action: Any) -> None:
    """If the process stops waiting for it, its result is never set."""
    night.add(1)
    change = Change("update", "1.example", "1", (FieldChange("exclude_ips", (), (NEW,)),))
    created = Change("create", "2.example", None, (FieldChange("privacy", None, "private"),))
    result = Target(created if action == "create" else replace(change, action=action))
    seen: list[State] = []

    def look(request: RecordedRequest) -> None:
        if request.operation == action:
            seen.append(result.state)

    night.sandbox.meanwhile(look)
    with AnalyticsHook() as hook:
        desired = DesiredState(
            {"1": DesiredWebsite(lists={"exclude_ips": EntryList.of((NEW,))})}, modes={"exclude_ips": "merge"}
        )
        source = ExclusionList("exclude_ips", "merge", EntryList.of((NEW,)))
        job = Job(hook.client, source, {}, 0.3)
        planned = Planned(Plan(()), source, Websites(hook.client, [], complete=False), [], desired)
        Sender(job, planned, AuditTrail(None, {}, hook.client.redact)).send(result)
    assert (seen, result.state) == ([State.UNCLEAR], State.APPLIED)


def test_progress_is_logged_every_ten_seconds(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request takes a second."""
    lines: list[str] = []
    monkeypatch.setattr(workers_module.log, "info", lambda message, *values: lines.append(message % values))
    monkeypatch.setattr(workers_module, "time", SimpleNamespace(monotonic=lambda: float(len(night.sandbox.requests))))
    night.add(40)
    night.sandbox.fault("update", skip=20, status=422)  # later than the websites that are changed alone
    with pytest.raises(AirflowFailException):
        night.sync(NEW, parallel_requests=1)
    changing = [line for line in lines if line.startswith("Changing: ")]
    assert re.fullmatch(r"Changing: (\d+) of \1 websites done, 1 failed\.", changing[-1])
    seconds = len(night.sandbox.requests)
    assert seconds / 20 < len(lines) <= seconds / 10 + 2
    assert len(set(lines)) == len(lines)


@pytest.mark.parametrize(
    ("websites", "status", "line"),
    [
        (1, 204, "Waiting up to 6 s to find out whether the change of 1 website is stored."),
        (3, 500, "Changing: 3 of 3 websites done, 3 failed."),
    ],
)
def test_repeated_reads_of_failed_websites_are_logged_as_one_wait(
    websites: int,
    status: int,
    line: str,
    night: Night,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Stopping, "wait", lambda *_: None)
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0.5, 1.0, 2.0, 4.0))
    night.add(websites)
    night.sandbox.fault("update", status=status, times=None)
    with caplog.at_level("INFO"), pytest.raises((AnalyticsError, AirflowFailException)):
        night.sync(NEW)
    assert caplog.text.count(line) == 1
    assert "Checking" not in caplog.text


def test_all_batches_have_one_line_of_progress(night: Night, caplog: pytest.LogCaptureFixture) -> None:
    night.add(9)
    with caplog.at_level("INFO"):
        night.sync(NEW)
    assert re.findall(r"Changing.*", caplog.text) == ["Changing: 9 of 9 websites done, 0 failed."]


def test_parallel_requests_are_limited(night: Night, distortion: Distortion) -> None:
    night.add(30)
    lock, all_there = threading.Lock(), threading.Event()
    under_way: list[int] = []
    most = [0]

    def before(method: str, path: str) -> None:
        if len(night.updated) < 8:  # the small batches
            return
        with lock:
            under_way.append(1)
            most[0] = max(most[0], len(under_way))
            if most[0] == 3:
                all_there.set()
        all_there.wait(1)  # the first requests after the small batches are alone
        with lock:
            under_way.pop()

    distortion.before = before
    assert night.sync(NEW, parallel_requests=3)["applied"] == 30
    assert most == [3]


@pytest.fixture
def counters(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counters by name."""
    counters = Counter[str]()

    def incr(name: str, count: int = 1, *, tags: dict[str, str]) -> None:
        assert (tags, type(count)) == ({"conn_id": "analytics_default"}, int)
        counters[name.removeprefix("analytics.")] += count

    monkeypatch.setattr(Stats, "incr", incr)
    return counters


@pytest.fixture
def hook(night: Night) -> Iterator[AnalyticsHook]:
    with AnalyticsHook() as made:
        yield made


def test_changes_count_as_applied_or_failed_and_bad_arguments_as_neither(
    night: Night, hook: AnalyticsHook, counters: Counter[str]
) -> None:
    website = hook.create_website("a.example")
    hook.update_website(website["id"], email=True)
    hook.delete_website(website["id"])
    assert counters["changes_applied"] == 3
    with pytest.raises(AnalyticsError):
        hook.update_website(website["id"], email=True)
    with pytest.raises(ValueError, match="domain"):
        hook.create_website("https://a.example")
    with pytest.raises(ValueError, match="privacy"):
        hook.update_website(website["id"], privacy="hidden")
    assert (counters["changes_applied"], counters["changes_failed"]) == (3, 1)
    # The requests of a list, once each.
    night.add(12)
    night.sandbox.fault("update", times=3, status=422)
    with pytest.raises(AirflowFailException, match="3 websites failed, 9 succeeded"):
        night.sync("198.51.100.7", parallel_requests=1)
    assert (counters["changes_applied"], counters["changes_failed"]) == (12, 4)
    assert counters["requests"] == len(night.sandbox.requests)


def test_changes_succeed_if_metrics_cannot_be_sent(
    night: Night, hook: AnalyticsHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("the handler of the stat names is broken")

    monkeypatch.setattr(Stats, "incr", fail)
    hook.create_website("a.example")
    assert len(night.sandbox.websites()) == night.operations["create"] == 1


def test_audit_trail_is_correct_if_the_key_is_revoked_during_the_run(night: Night, distortion: Distortion) -> None:
    night.add(30)
    distortion.before = lambda method, path: 401 if len(night.updated) >= 5 else None
    with pytest.raises(AirflowFailException, match="API key rejected") as caught:
        night.managed(NEW)
    updates = len(night.updated)
    assert f"Stopped: {updates} of 30 websites changed." in str(caught.value)
    # The batches of 1, 1, and 2 websites were read back, and the fourth one was not.
    assert Counter(line["action"] for line in night.trail()) == {"update": updates, "failed": 26}


def test_key_that_is_rejected_while_changes_are_read_back_fails_without_a_retry(
    night: Night, distortion: Distortion
) -> None:
    night.add(2)
    distortion.before = lambda method, path: 401 if method == "GET" and len(night.updated) == 2 else None
    with pytest.raises(AirflowFailException, match="API key rejected"):
        night.sync(NEW)


@pytest.mark.parametrize(("websites", "step"), [*((4, step) for step in range(1, 14)), (1, 3)])
def test_task_that_is_stopped_at_any_request_ends_as_stopped(night: Night, websites: int, step: int) -> None:
    night.add(websites)
    task = SyncExcludedIpsOperator(task_id="sync", exclude_ips=[NEW])

    def stop(_: RecordedRequest) -> None:
        if len(night.sandbox.requests) == step:
            task.on_kill()

    night.sandbox.meanwhile(stop)
    with pytest.raises(StoppedError):
        task.execute({})
    assert len(night.sandbox.requests) < 14, "all steps are parameters of this test"


def test_create_only_is_not_retried_if_it_is_stopped_before_all_settings_are_set(night: Night) -> None:
    config = {"websites": {"new.example": {"privacy": "private", "favorite": True}}}
    task = ApplyWebsitesOperator(task_id="apply", config=config, create_only=True)

    def stop(request: RecordedRequest) -> None:
        if request.operation == "create":
            task.on_kill()

    night.sandbox.meanwhile(stop)
    with pytest.raises((AirflowFailException, StoppedError)) as caught:
        task.execute({})
    [website] = night.sandbox.websites()
    assert website["favorite"] is False
    assert isinstance(caught.value, AirflowFailException)
    assert "Run once without create_only and ignore." in str(caught.value)


def test_overtaken_run_does_not_count_as_the_last_run(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    def overtaken(_: ListFile) -> None:
        raise StoppedError("A later run has started.")

    night.add(1)
    monkeypatch.setattr(ListFile, "raise_if_overtaken", overtaken)
    with pytest.raises(StoppedError):
        night.managed(NEW)
    assert not [*night.folder.rglob("last_websites.json")]


@pytest.mark.usefixtures("patient")
def test_apply_is_not_retried_if_the_key_lacks_the_right_to_delete(night: Night) -> None:
    night.add(3)
    night.sandbox.fault("delete", status=403, body={"message": "This action is unauthorized."}, times=None)
    with pytest.raises(AirflowFailException, match="unauthorized"):
        night.apply(config={"websites": {"1.example": {}}}, prune=True, override_guards=["many_deleted"])
    assert len(night.sandbox.websites()) == 3


class Interruption(BaseException):
    """The exception of a signal handler in the main thread, as Airflow 2 raises one to end a task."""


def test_interruption_while_a_change_is_handed_to_a_thread_leaves_a_correct_audit_trail(
    night: Night, distortion: Distortion, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.add(3, exclude_ips="10.0.0.1")
    main_thread = threading.get_ident()
    is_sent, is_over = threading.Event(), threading.Event()

    class Pool(ThreadPoolExecutor):
        def submit(self, *arguments: Any, **named: Any) -> Any:
            future = super().submit(*arguments, **named)
            if any(night.folder.rglob("*.jsonl")):  # the first change
                is_sent.wait(10)
                signal.pthread_kill(main_thread, signal.SIGUSR1)
            return future

    monkeypatch.setattr(workers_module, "ThreadPoolExecutor", Pool)

    def before(method: str, path: str) -> None:
        if method == "PATCH":
            is_sent.set()
            is_over.wait(0.5)  # the task has two seconds to wait for this response

    def interrupt(number: int, frame: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        raise Interruption

    distortion.before = before
    handler = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interruption):
            night.managed(NEW)
    finally:
        is_over.set()
        signal.signal(signal.SIGUSR1, handler)
    changed = [str(website["id"]) for website in night.sandbox.websites() if NEW in website["exclude_ips"]]
    assert len(changed) == 1
    assert [line["website_id"] for line in night.trail() if line["action"] == "update"] == changed


def test_late_websites_are_waited_for_although_others_cannot_be_read(
    night: Night, distortion: Distortion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0,) * 4)
    night.add(60)
    unreadable = {f"/websites/{number}" for number in range(1, 60, 2)}
    late_reads: Counter[str] = Counter()

    def fail_reads(method: str, path: str) -> int | None:
        is_read_back = method == "GET" and len(night.updated) == 60 and path in unreadable
        return 500 if is_read_back else None

    def return_old_lists(method: str, path: str, record: dict[str, Any]) -> None:
        if method == "GET" and len(night.updated) == 60:
            late_reads[path] += path != "/websites"
            if path == "/websites" or late_reads[path] < 8:
                record["exclude_ips"] = None

    distortion.before, distortion.change = fail_reads, return_old_lists
    with pytest.raises(BulkError) as caught:
        night.sync(NEW, parallel_requests=1)
    numbers = {int(website.partition(".")[0]) for website in caught.value.failures}
    assert numbers == set(range(1, 60, 2))
