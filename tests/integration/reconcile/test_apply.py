from __future__ import annotations

import itertools
import json
import os
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from distortion import Distortion, Website
from raw_server import RawServer, http
from reconciling import Night

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import same_setting
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AuthenticationError, BulkError
from airflow_provider_analytics.reconcile import workers as workers_module
from airflow_provider_analytics.reconcile.apply import ATTEMPTS_ALONE, Application
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan
from airflow_provider_analytics.reconcile.results import Outcome, Result, State
from airflow_provider_analytics.reconcile.sending import Sender
from airflow_provider_analytics.reconcile.websites import Websites, complete_records
from airflow_provider_analytics.reconcile.workers import GIVE_UP_AFTER
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.server import SandboxServer


def client(sandbox: SandboxServer, base_url: str = "", **settings: Any) -> AnalyticsClient:
    """Return a client of this service, or of the one of the default connection."""
    url = base_url or json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])["host"]
    return AnalyticsClient(Settings(base_url=url, **{"api_key": sandbox.api_key, "max_retries": 0, **settings}))


def apply_changes(client: AnalyticsClient, *changes: Change, trail: list[Change] | None = None, **how: Any) -> Outcome:
    """Apply changes, each of which is worked out from the website's current list."""
    wanted = {change.website_id or change.domain: change for change in changes}

    def change_of(record: Mapping[str, Any], _: Mapping[str, Any]) -> Change | None:
        change = wanted.get(str(record["id"])) or wanted.get(record["domain"])
        planned = change.fields if change else ()
        fields = [one for one in planned if not same_setting(one.field, record.get(one.field, one.after), one.after)]
        if not change or not fields:
            return None
        action = "update" if change.action == "create" else change.action
        return replace(change, action=action, website_id=str(record["id"]), fields=tuple(fields))

    read = Websites(client, [], complete=False)
    sender = Sender(client, change_of, ([] if trail is None else trail).append, **how)
    return Application(read, Plan(changes), [], sender).run()


def update(number: int) -> Change:
    return Change("update", f"{number}.example", str(number), (FieldChange("exclude_ips", (), ("1.1.1.1",)),))


def test_one_failure_does_not_stop_the_others_and_a_retry_does_the_rest(night: Night, distortion: Distortion) -> None:
    night.add(7)
    distortion.failing = {("PATCH", "/websites/3"): 422, ("PATCH", "/websites/5"): 500}
    with pytest.raises(BulkError) as raised:
        night.managed("1.1.1.1")
    assert raised.value.failures.keys() == {"3.example (id 3)", "5.example (id 5)"}
    assert raised.value.failures["3.example (id 3)"].startswith("The service rejected a value (422 ")
    assert raised.value.done == 5
    distortion.failing = {}
    night.sandbox.clear_requests()
    assert night.managed("1.1.1.1")["applied"] == 2
    assert (night.updated, night.operations["update"]) == ({"3", "5"}, 2)
    assert night.lists() == ["1.1.1.1"] * 7


def test_fields_that_list_rows_lack_are_asked_for(night: Night, distortion: Distortion) -> None:
    night.add(4, exclude_ips="9.9.9.9")
    distortion.hidden_in_lists = {"exclude_ips"}
    distortion.failing = {("GET", "/websites/2"): 500, ("GET", "/websites/3"): 404}
    with pytest.raises(BulkError) as raised:
        night.sync("1.1.1.1")
    assert raised.value.failures.keys() == {"2.example (id 2)"}
    assert night.lists() == ["9.9.9.9\n1.1.1.1", "9.9.9.9", "9.9.9.9", "9.9.9.9\n1.1.1.1"]


def test_a_list_that_is_never_shown_is_replaced_but_not_merged_into(night: Night, distortion: Distortion) -> None:
    night.add(1, exclude_ips="9.9.9.9")
    distortion.hidden = {"exclude_ips"}
    with pytest.raises(BulkError, match="does not show exclude_ips"):
        night.sync("1.1.1.1")
    night.sync("1.1.1.1", mode="replace")
    assert night.lists() == ["1.1.1.1"]


def test_an_answer_that_shows_other_settings_is_a_failure(night: Night, distortion: Distortion) -> None:
    night.add(1)
    # The answer to an update may show the state before it: the website is asked for once more.
    for entry, shown in (("1.1.1.1", "::FFFF:1.1.1.1\r\n"), ("2.2.2.2", "1.1.1.1")):

        def show(method: str, path: str, record: Website, shown: str = shown) -> None:
            if method == "PATCH":
                record["exclude_ips"] = shown

        distortion.change = show
        night.sync(entry)
    night.sandbox.configure(ignored_fields=["exclude_ips"])
    with pytest.raises(BulkError, match=r"Sent, and not in effect: exclude_ips lacks 3\.3\.3\.3"):
        night.sync("3.3.3.3")


def test_a_refused_key_ends_the_work_at_once(analytics_sandbox: SandboxServer) -> None:
    with client(analytics_sandbox, api_key="wrong-key") as refused:
        outcome = apply_changes(refused, *map(update, range(500)))
    assert isinstance(outcome.interrupted, AuthenticationError)
    assert len(outcome.failures) == 500
    assert len(analytics_sandbox.requests) < 20


def test_a_service_that_is_down_is_not_asked_for_each_website() -> None:
    with SandboxServer() as server:
        url = server.url
    with client(server, base_url=url) as refused:
        outcome = apply_changes(refused, *map(update, range(500)))
    assert outcome.states == {**dict.fromkeys(State, 0), State.FAILED: ATTEMPTS_ALONE, State.NOT_TRIED: 497}
    assert (len(outcome.failures), [one for one in outcome.results if one.sent]) == (500, [])
    with pytest.raises(BulkError) as caught:
        outcome.raise_failures()
    assert str(caught.value).startswith("3 websites failed, 497 were not tried, 0 succeeded. 127.0.0.1:")
    assert "\nNot tried: the work ended before its turn: " in str(caught.value)
    assert str(caught.value).count(" and 492 more.") == 1
    assert len(str(caught.value)) < 4096


def test_a_service_that_asks_for_a_long_wait_is_not_asked_for_another_website(night: Night) -> None:
    limited = http(429, {"message": "Too Many Attempts."}, headers=[("Retry-After", "3600")])
    with RawServer(lambda request: limited) as server, client(night.sandbox, base_url=server.url) as api:
        outcome = apply_changes(api, *map(update, range(500)))
        assert len(server.requests) == 1
    assert outcome.states == {**dict.fromkeys(State, 0), State.FAILED: 1, State.NOT_TRIED: 499}
    assert any("Retry-After 3600 s" in why for why in outcome.failures.values())


def test_a_service_that_goes_down_later_is_not_asked_for_each_website(night: Night, distortion: Distortion) -> None:
    night.add(100)
    requests = itertools.count(1)
    distortion.before = lambda method, path: 502 if next(requests) > 10 and path != "/websites" else None
    with client(night.sandbox) as failing:
        outcome = apply_changes(failing, *map(update, range(1, 101)))
    tried = 100 - outcome.states[State.NOT_TRIED]
    # Besides those that count: those changed before, one for each request at most, and those of workers that were busy.
    assert GIVE_UP_AFTER < tried <= GIVE_UP_AFTER + 10 + 8
    assert outcome.states[State.REFUSED] == 0


def test_deletes_look_at_the_domain_again(night: Night) -> None:
    night.add(2)
    changes = (("1.EXAMPLE.", "1"), ("other.example", "2"), ("gone.example", "3"))
    with client(night.sandbox) as api:
        outcome = apply_changes(api, *(Change("delete", domain, website_id, ()) for domain, website_id in changes))
    assert night.lists("domain") == ["2.example"]
    # It shows what is deleted, as it was last.
    [[deleted]] = [one.sent for one in outcome.results if one.sent]
    assert (deleted.domain, {one.field: one.before for one in deleted.fields}["privacy"]) == ("1.EXAMPLE.", "public")
    assert outcome.failures == {"other.example (id 2)": "not deleted: id 2 now belongs to '2.example'"}


def test_creates_set_the_favourite_and_the_password(night: Night) -> None:
    fields = {"privacy": "password", "password_from": "variable:page", "favorite": True, "exclude_ips": ("1.1.1.1",)}
    change = Change("create", "n.example", None, tuple(FieldChange(name, None, one) for name, one in fields.items()))
    trail: list[Change] = []
    with client(night.sandbox) as api:
        apply_changes(api, change, passwords={"variable:page": "s3cret-pass"}, trail=trail)
    (website,) = night.sandbox.websites()
    assert (website["privacy"], website["favorite"], website["exclude_ips"]) == (2, True, "1.1.1.1")
    assert night.sandbox.stored_password(1) == "s3cret-pass"
    # What a create cannot set is an update of its own.
    assert [(one.action, one.website_id, [field.field for field in one.fields]) for one in trail] == [
        ("create", "1", ["exclude_ips", "password_from", "privacy"]),
        ("update", "1", ["favorite"]),
    ]


@pytest.mark.parametrize("action", ["create", "update", "delete"])
def test_a_change_is_unclear_while_its_request_is_under_way(night: Night, action: Any) -> None:
    """If the process gives up waiting for it, nobody sets the result any more."""
    night.add(1)
    change = Change("create", "2.example", None, (FieldChange("privacy", None, "private"),))
    result = Result(change if action == "create" else replace(update(1), action=action))
    seen: list[State] = []

    def look(request: RecordedRequest) -> None:
        if request.operation == action:
            seen.append(result.state)

    night.sandbox.meanwhile(look)
    with client(night.sandbox) as api:
        Sender(api, lambda *_: update(1), lambda change: None).send(result)
    assert (seen, result.state) == ([State.UNCLEAR], State.APPLIED)


def test_progress_is_logged_every_ten_seconds(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request takes a second."""
    lines: list[str] = []
    monkeypatch.setattr(workers_module.log, "info", lambda message, *values: lines.append(message % values))
    monkeypatch.setattr(workers_module, "time", SimpleNamespace(monotonic=lambda: float(len(night.sandbox.requests))))
    night.add(40)
    with client(night.sandbox) as api:
        apply_changes(api, *map(update, [*range(1, 26), 99]))
    changing = [line for line in lines if line.startswith("Changing: ")]
    assert re.fullmatch(r"Changing: (\d+) of \1 websites, 1 failed", changing[-1])
    seconds = len(night.sandbox.requests)
    assert seconds / 20 < len(lines) <= seconds / 10 + 2


def test_no_line_of_the_progress_is_logged_twice(
    night: Night, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(workers_module, "PROGRESS_SECONDS", 0.0)
    caplog.set_level("INFO")
    night.add(7)
    with client(night.sandbox) as api:
        apply_changes(api, *map(update, range(1, 8)))
    lines = [one.getMessage() for one in caplog.records if one.getMessage().startswith("Changing: ")]
    assert len(lines) == len(set(lines)) > 1


def test_at_most_so_many_requests_are_under_way(night: Night, distortion: Distortion) -> None:
    night.add(30)
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
    with client(night.sandbox, parallel_requests=3) as api:
        outcome = apply_changes(api, *map(update, range(1, 31)))
        assert complete_records(api, [{"id": 1}], lambda record: False) == ([{"id": 1}], {})
    assert (outcome.applied, most[0]) == (30, 3)
