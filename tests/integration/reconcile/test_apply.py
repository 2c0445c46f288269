from __future__ import annotations

import itertools
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distortion import Distortion
from fixture_types import Execute
from raw_server import RawServer, http
from wire_client import client_of as client_of_url
from zoo import Zoo

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import same_setting
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AuthenticationError, BulkError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.reconcile import workers as workers_module
from airflow_provider_analytics.reconcile.apply import ATTEMPTS_ALONE, Application
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan
from airflow_provider_analytics.reconcile.results import Outcome, Result, State
from airflow_provider_analytics.reconcile.sending import Sender
from airflow_provider_analytics.reconcile.websites import Websites, complete_records
from airflow_provider_analytics.reconcile.workers import GIVE_UP_AFTER
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.server import SandboxServer


def client_of(sandbox: SandboxServer, api_key: str | None = None) -> AnalyticsClient:
    return AnalyticsClient(Settings(base_url=sandbox.url, api_key=api_key or sandbox.api_key, max_retries=0))


def lists(sandbox: SandboxServer) -> list[str | None]:
    return [website["exclude_ips"] for website in sandbox.websites()]


def updates(sandbox: SandboxServer) -> Counter[str]:
    return Counter(request.path for request in sandbox.requests if request.operation == "update")


def apply_changes(client: AnalyticsClient, *changes: Change, trail: list[Change] | None = None, **how: Any) -> Outcome:
    """Apply changes, each of which is worked out from the website's current list."""
    wanted = {change.website_id or change.domain: change for change in changes}

    def change_of(record: Mapping[str, Any], _: Mapping[str, Any]) -> Change | None:
        change = wanted.get(str(record["id"])) or wanted.get(record["domain"])
        fields = (
            [one for one in change.fields if not same_setting(one.field, record.get(one.field, one.after), one.after)]
            if change
            else []
        )
        if not change or not fields:
            return None
        action = "update" if change.action == "create" else change.action
        return replace(change, action=action, website_id=str(record["id"]), fields=tuple(fields))

    read = Websites(client, [], complete=False)
    sender = Sender(client, change_of, ([] if trail is None else trail).append, **how)
    return Application(read, Plan(changes), [], sender).run()


def update(number: int) -> Change:
    return Change("update", f"{number}.example", str(number), (FieldChange("exclude_ips", (), ("1.1.1.1",)),))


def test_one_failure_does_not_stop_the_others_and_a_retry_does_the_rest(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    for number in range(1, 8):
        analytics_sandbox.add_website(f"{number}.example")
    distortion.failing = {("PATCH", "/websites/3"): 422, ("PATCH", "/websites/5"): 500}
    arguments = {"exclude_ips": ["1.1.1.1"], "state_path": str(tmp_path)}
    with pytest.raises(BulkError) as raised:
        execute(SyncExcludedIpsOperator, **arguments)
    assert raised.value.failures.keys() == {"3.example (id 3)", "5.example (id 5)"}
    assert raised.value.failures["3.example (id 3)"].startswith("The service rejected a value (422 ")
    assert raised.value.done == 5
    distortion.failing = {}
    analytics_sandbox.clear_requests()
    assert execute(SyncExcludedIpsOperator, **arguments)["applied"] == 2
    assert updates(analytics_sandbox) == {"/api/v1/websites/3": 1, "/api/v1/websites/5": 1}
    assert lists(analytics_sandbox) == ["1.1.1.1"] * 7
    assert execute(SyncExcludedIpsOperator, **{**arguments, "exclude_ips": ["2.2.2.2"]})["applied"] == 7
    assert lists(analytics_sandbox) == ["2.2.2.2"] * 7


def test_fields_that_list_rows_lack_are_asked_for(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    for number in range(1, 5):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="9.9.9.9")
    distortion.hidden_in_lists = {"exclude_ips"}
    distortion.failing = {("GET", "/websites/2"): 500, ("GET", "/websites/3"): 404}
    with pytest.raises(BulkError) as raised:
        execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"])
    assert raised.value.failures.keys() == {"2.example (id 2)"}
    assert lists(analytics_sandbox) == ["9.9.9.9\n1.1.1.1", "9.9.9.9", "9.9.9.9", "9.9.9.9\n1.1.1.1"]


def test_a_list_that_is_never_shown_is_replaced_but_not_merged_into(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="9.9.9.9")
    distortion.hidden = {"exclude_ips"}
    with pytest.raises(BulkError, match="does not show exclude_ips"):
        execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"])
    execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], mode="replace")
    assert lists(analytics_sandbox) == ["1.1.1.1"]


def test_an_answer_that_shows_other_settings_is_a_failure(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    analytics_sandbox.add_website("a.example")
    distortion.shown_after_update = {"exclude_ips": "::FFFF:1.1.1.1\r\n"}
    execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"])
    # The answer to an update may show the state before it: the website is asked for once more.
    distortion.shown_after_update = {"exclude_ips": "1.1.1.1"}
    execute(SyncExcludedIpsOperator, exclude_ips=["2.2.2.2"])
    analytics_sandbox.configure(ignored_fields=["exclude_ips"])
    with pytest.raises(BulkError, match=r"Sent, and not in effect: exclude_ips lacks 3\.3\.3\.3"):
        execute(SyncExcludedIpsOperator, exclude_ips=["3.3.3.3"])


def test_a_refused_key_ends_the_work_at_once(analytics_sandbox: SandboxServer) -> None:
    with client_of(analytics_sandbox, "wrong-key") as client:
        outcome = apply_changes(client, *(update(number) for number in range(500)))
    assert isinstance(outcome.interrupted, AuthenticationError)
    assert len(outcome.failures) == 500
    assert len(analytics_sandbox.requests) < 20


def test_a_service_that_is_down_is_not_asked_for_each_website() -> None:
    server = SandboxServer()
    with server:
        client = client_of(server)
    with client:
        outcome = apply_changes(client, *(update(number) for number in range(500)))
    assert [one.sent for one in outcome.results if one.sent] == []
    assert outcome.states == {**dict.fromkeys(State, 0), State.FAILED: ATTEMPTS_ALONE, State.NOT_TRIED: 497}
    assert len(outcome.failures) == 500
    with pytest.raises(BulkError) as caught:
        outcome.raise_failures()
    assert str(caught.value).startswith("3 websites failed, 497 were not tried, 0 succeeded. 127.0.0.1:")
    assert "\nNot tried: the work ended before its turn: " in str(caught.value)
    assert str(caught.value).count(" and 492 more.") == 1
    assert len(str(caught.value)) < 4096


def test_a_service_that_asks_for_a_long_wait_is_not_asked_for_another_website() -> None:
    limited = http(429, {"message": "Too Many Attempts."}, headers=[("Retry-After", "3600")])
    with RawServer(lambda request: limited) as server, client_of_url(server.url) as client:
        outcome = apply_changes(client, *(update(number) for number in range(500)))
        assert len(server.requests) == 1
    assert outcome.states == {**dict.fromkeys(State, 0), State.FAILED: 1, State.NOT_TRIED: 499}
    assert "Retry-After 3600 s" in next(iter(outcome.failures.values()))


def test_a_service_that_goes_down_later_is_not_asked_for_each_website(
    analytics_sandbox: SandboxServer, distortion: Distortion
) -> None:
    for number in range(1, 101):
        analytics_sandbox.add_website(f"{number}.example")
    requests = itertools.count(1)

    def go_down(method: str, path: str) -> None:
        if next(requests) == 10:
            distortion.failing = {(one, f"/websites/{n}"): 502 for one in ("GET", "PATCH") for n in range(1, 101)}

    distortion.before = go_down
    host = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])["host"]
    with AnalyticsClient(Settings(base_url=host, api_key=analytics_sandbox.api_key, max_retries=0)) as client:
        outcome = apply_changes(client, *(update(number) for number in range(1, 101)))
    tried = 100 - outcome.states[State.NOT_TRIED]
    # Besides those that count: those changed before, one for each request at most, and those of workers that were busy.
    assert GIVE_UP_AFTER < tried <= GIVE_UP_AFTER + 10 + 8
    assert outcome.states[State.REFUSED] == 0


def test_deletes_look_at_the_domain_again(analytics_sandbox: SandboxServer) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    changes = (("A.example.", "1"), ("other.example", "2"), ("gone.example", "3"))
    with client_of(analytics_sandbox) as client:
        outcome = apply_changes(client, *(Change("delete", domain, website_id, ()) for domain, website_id in changes))
    assert [website["domain"] for website in analytics_sandbox.websites()] == ["b.example"]
    # It shows what is deleted, as it was last.
    [[deleted]] = [one.sent for one in outcome.results if one.sent]
    assert (deleted.domain, {one.field: one.before for one in deleted.fields}["privacy"]) == ("A.example.", "public")
    assert outcome.failures == {"other.example (id 2)": "not deleted: id 2 now belongs to 'b.example'"}


def test_creates_set_the_favourite_and_the_password(analytics_sandbox: SandboxServer) -> None:
    fields = {
        "privacy": "password",
        "password_from": "variable:page_password",
        "favorite": True,
        "exclude_ips": ("1.1.1.1",),
    }
    change = Change("create", "n.example", None, tuple(FieldChange(name, None, one) for name, one in fields.items()))
    trail: list[Change] = []
    with client_of(analytics_sandbox) as client:
        apply_changes(client, change, passwords={"variable:page_password": "s3cret-pass"}, trail=trail)
    (website,) = analytics_sandbox.websites()
    assert (website["privacy"], website["favorite"], website["exclude_ips"]) == (2, True, "1.1.1.1")
    assert analytics_sandbox.stored_password(1) == "s3cret-pass"
    # What a create cannot set is an update of its own.
    assert [(one.action, one.website_id, [field.field for field in one.fields]) for one in trail] == [
        ("create", "1", ["exclude_ips", "password_from", "privacy"]),
        ("update", "1", ["favorite"]),
    ]


@pytest.mark.parametrize("action", ["create", "update", "delete"])
def test_a_change_is_unclear_while_its_request_is_under_way(analytics_sandbox: Zoo, action: Any) -> None:
    """If the process gives up waiting for it, nobody sets the result any more."""
    analytics_sandbox.add_website("1.example")
    change = Change("create", "2.example", None, (FieldChange("privacy", None, "private"),))
    result = Result(change if action == "create" else replace(update(1), action=action))
    seen: list[State] = []

    def look(request: RecordedRequest) -> None:
        if request.operation == action:
            seen.append(result.state)

    analytics_sandbox.meanwhile(look)
    with client_of(analytics_sandbox) as client:
        Sender(client, lambda *_: update(1), lambda change: None).send(result)
    assert (seen, result.state) == ([State.UNCLEAR], State.APPLIED)


def test_progress_is_logged_every_ten_seconds(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request takes a second."""
    lines: list[str] = []
    monkeypatch.setattr(workers_module.log, "info", lambda message, *values: lines.append(message % values))
    monkeypatch.setattr(
        workers_module, "time", SimpleNamespace(monotonic=lambda: float(len(analytics_sandbox.requests)))
    )
    for number in range(1, 41):
        analytics_sandbox.add_website(f"{number}.example")
    with client_of(analytics_sandbox) as client:
        apply_changes(client, *(update(number) for number in [*range(1, 26), 99]))
    changing = [line for line in lines if line.startswith("Changing: ")]
    assert re.fullmatch(r"Changing: (\d+) of \1 websites, 1 failed", changing[-1])
    seconds = len(analytics_sandbox.requests)
    assert seconds / 20 < len(lines) <= seconds / 10 + 2


def test_no_line_of_the_progress_is_logged_twice(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers_module, "PROGRESS_SECONDS", 0.0)
    caplog.set_level("INFO")
    for number in range(1, 8):
        analytics_sandbox.add_website(f"{number}.example")
    with client_of(analytics_sandbox) as client:
        apply_changes(client, *(update(number) for number in range(1, 8)))
    lines = [one.getMessage() for one in caplog.records if one.getMessage().startswith("Changing: ")]
    assert len(lines) == len(set(lines)) > 1


def test_at_most_so_many_requests_are_under_way(analytics_sandbox: SandboxServer, distortion: Distortion) -> None:
    for number in range(1, 31):
        analytics_sandbox.add_website(f"{number}.example")
    lock, all_there = threading.Lock(), threading.Event()
    now, most = [0], [0]

    alone = itertools.count(1)

    def before(method: str, path: str) -> None:
        if next(alone) <= 9:  # the websites that are changed before the others
            return
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if most[0] == 3:
                all_there.set()
        all_there.wait(20)  # passes only if three are under way at once
        with lock:
            now[0] -= 1

    distortion.before = before
    host = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])["host"]
    settings = Settings(base_url=host, api_key=analytics_sandbox.api_key, max_retries=0, parallel_requests=3)
    with AnalyticsClient(settings) as client:
        outcome = apply_changes(client, *(update(number) for number in range(1, 31)))
        assert complete_records(client, [{"id": 1}], lambda record: False) == ([{"id": 1}], {})
    assert (outcome.applied, most[0]) == (30, 3)
