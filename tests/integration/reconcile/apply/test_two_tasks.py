# SPDX-License-Identifier: Apache-2.0
"""Ordinary nights: simultaneous tasks, editing people, and late services (``reconcile/apply``)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import allow_execute_in_this_thread
from distortion import Distortion, Website
from raw_server import Request
from reconciling import Night

from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import AnalyticsError, BulkError, NotAppliedError
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.sandbox.requests import RecordedRequest

pytestmark = pytest.mark.usefixtures("patient")

NEW = "203.0.113.7"
DOMAINS = [f"{number}.example" for number in range(1, 21)]


def private(*domains: str) -> dict[str, Any]:
    return {"websites": {domain: {"privacy": "private"} for domain in domains or DOMAINS}}


def update_five(night: Night) -> None:
    for website_id in range(1, 6):
        night.execute(UpdateWebsiteOperator, website_id=website_id, privacy="private", email_reports=True)


def apply_a_file(night: Night) -> None:
    settings = {"privacy": "private", "exclude_params": ["utm"]}
    night.apply(config={"websites": dict.fromkeys(DOMAINS, settings)}, parallel_requests=2)


def apply_defaults(night: Night) -> None:
    """A user, and not the service, removes all values of every website."""
    settings = {"email": False, "exclude_params": []}
    night.apply(config={"websites": dict.fromkeys(DOMAINS, settings)}, parallel_requests=2)


def sync_another_list(night: Night) -> None:
    night.sync("192.0.2.9", parallel_requests=2)


def edit(night: Night) -> None:
    for website_id in (1, 2, 3):
        night.sandbox.change_website(website_id, privacy=1, exclude_ips="10.0.0.1")


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("step", [2, 3, 4, 5, 7, 12, 30])
@pytest.mark.parametrize("colleague", [update_five, apply_a_file, apply_defaults, sync_another_list, edit])
def test_simultaneous_tasks_succeed(
    night: Night, distortion: Distortion, colleague: Callable[[Night], None], step: int, behind: int
) -> None:
    """The other user works between two requests of the task, which starts with the website that is changed alone."""
    night.add(20, email=1, exclude_params="utm\nref # ads", exclude_ips="10.0.0.1 # Ann\n10.0.0.2")
    night.sandbox.configure(reads_behind=behind)
    requests = itertools.count(1)
    failed: list[Exception] = []

    def meanwhile(method: str, path: str) -> None:
        if next(requests) == step:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    def work() -> None:
        allow_execute_in_this_thread()
        try:
            colleague(night)
        except Exception as error:
            failed.append(error)

    distortion.before = meanwhile
    if step in (4, 5) and colleague in (apply_a_file, apply_defaults):
        # The first website lost values with its update, and so did all others: like a service that changes all of them.
        with pytest.raises(AirflowFailException, match="changed on all 20 changed websites"):
            night.sync(NEW, parallel_requests=1)
        return
    result = night.sync(NEW, parallel_requests=1)
    assert (failed, result["applied"]) == ([], 20)
    assert all(NEW in (item or "") for item in night.lists())
    assert result["verified"] is not bool(result["unexpected_changes"])


def test_service_that_drops_www_is_reported_at_once(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (600,))
    night.sandbox.configure(domain_as="without www", allow_duplicates=True)
    # The next night creates no further website.
    there = r"www\.([a-d])\.example does not exist, but \1\.example \(id 1\) does"
    for message in (r"write domain='[a-d]\.example'", there):
        with pytest.raises(AirflowFailException, match=message):
            night.apply(config=private(*(f"www.{name}.example" for name in "abcd")))
        assert len(night.sandbox.websites()) == 2


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"drop": True, "commit": True}, id="the answer to the first is lost"),
        pytest.param({"drop": True, "commit": True, "skip": 6}, id="the answer to the seventh is lost"),
        pytest.param(
            {"skip": 4, "times": 6, "status": 503, "commit": True, "body": "<html>Busy</html>"},
            id="a gateway answers 503 for the service",
        ),
    ],
)
def test_lost_response_among_many_creates_is_looked_up(night: Night, fault: dict[str, Any]) -> None:
    night.sandbox.fault("create", **fault)
    result = night.apply(config=private())
    assert (result["applied"], result["verified"]) == (20, True)
    assert sorted(map(str, night.lists("domain"))) == sorted(DOMAINS)


@pytest.mark.parametrize(
    ("fault", "failed"),
    [
        ({"drop": True, "commit": False, "skip": 7}, 1),
        # Only nginx's own page proves that it was not stored: another one might arrive later.
        ({"skip": 4, "times": 6, "status": 503, "body": "<html>Busy</html>"}, 6),
    ],
)
def test_create_with_an_unknown_outcome_is_named_and_left_to_the_next_run(
    night: Night, fault: dict[str, Any], failed: int
) -> None:
    night.sandbox.fault("create", **fault)
    with pytest.raises(BulkError, match=r"(?s)might have been created\. .*Websites: \d+\.example") as caught:
        night.apply(config=private())
    assert (len(caught.value.failures), len(night.sandbox.websites())) == (failed, 20 - failed)
    assert night.apply(config=private())["applied"] == failed
    assert night.operations["create"] == 20 + failed


def after_the_update(distortion: Distortion, night: Night, **settings: Any) -> None:
    """Make a person edit the first website repeatedly after its update."""
    updated = False

    def edit(method: str, path: str) -> None:
        nonlocal updated
        if updated:
            night.sandbox.change_website(1, **settings)
        updated = updated or (method, path) == ("PATCH", "/websites/1")

    distortion.before = edit


@pytest.mark.parametrize(
    ("had", "has"),
    [
        pytest.param("192.0.2.1", "192.0.2.2", id="another list replaces its only address"),
        pytest.param("192.0.2.1 # Ann", "192.0.2.1 # Bob", id="a person edits a comment"),
    ],
)
def test_edit_between_an_update_and_its_read_is_reported_without_a_failure(
    night: Night, distortion: Distortion, caplog: pytest.LogCaptureFixture, had: str, has: str
) -> None:
    night.add(3, exclude_ips=had)
    after_the_update(distortion, night, exclude_ips=f"{has}\n{NEW}")
    result = night.sync(NEW)
    assert (result["applied"], result["verified"]) == (3, False)
    assert result["unexpected_changes"] == [f"1.example (id 1): exclude_ips lacks {had}"]
    assert "Values that this task did not send changed on 1 website. 1.example (id 1)" in caplog.text


def test_error_names_unsent_changes_of_websites_that_did_not_fail(night: Night, distortion: Distortion) -> None:
    night.add(4, exclude_ips="192.0.2.1 # Ann")
    night.sandbox.fault("update", target="/3$", status=422, times=None)
    after_the_update(distortion, night, exclude_ips=f"192.0.2.1\n{NEW}")
    with pytest.raises((BulkError, AirflowFailException), match=r"(?s)3\.example.*changed, too: 1\.example \(id 1\): "):
        night.sync(NEW)


@pytest.mark.parametrize("mode", ["merge", "managed"])
@pytest.mark.parametrize("websites", [1, 3, 30])
def test_own_entry_is_sent_again_if_a_person_removes_it_after_the_update(
    night: Night, distortion: Distortion, mode: str, websites: int
) -> None:
    """It was there before, so the task sent it without adding it."""
    night.add(websites, exclude_ips=f"10.0.0.1\n{NEW}")
    updated = False

    def meanwhile(method: str, path: str) -> None:
        nonlocal updated
        if updated:
            night.sandbox.change_website(1, exclude_ips="10.0.0.1\n192.0.2.9")
            distortion.before = lambda method, path: None
        updated = (method, path) == ("PATCH", "/websites/1")

    distortion.before = meanwhile
    run = night.managed if mode == "managed" else night.sync
    assert run(NEW, "192.0.2.9")["applied"] == websites
    assert set((night.lists()[0] or "").splitlines()) == {"10.0.0.1", NEW, "192.0.2.9"}


def test_person_who_clears_the_list_of_a_website_does_not_stop_the_run(night: Night) -> None:
    """The first website loses all of its values. The second one keeps its lines."""
    night.add(20, exclude_ips="192.0.2.1\n192.0.2.2")
    cleaned: list[int] = []

    def meanwhile(request: RecordedRequest) -> None:
        updated = [website["id"] for website in night.sandbox.websites() if NEW in website["exclude_ips"]]
        if updated and not cleaned:
            cleaned.extend(updated)
            night.sandbox.change_website(updated[0], exclude_ips=NEW)

    night.sandbox.meanwhile(meanwhile)
    result = night.sync(NEW)
    assert (result["applied"], result["verified"]) == (20, False)
    [changed] = result["unexpected_changes"]
    assert changed.endswith(f"(id {cleaned[0]}): exclude_ips lacks 192.0.2.1, 192.0.2.2")


def test_person_who_resets_all_websites_stops_the_run_and_the_retry_succeeds(
    night: Night, distortion: Distortion
) -> None:
    """Two websites lose a flag right after their update. The task cannot know who did it, so a retry decides."""
    night.add(20, email=1)
    updated: list[int] = []

    def meanwhile(method: str, path: str) -> None:
        if updated and len(updated) < 3:
            night.sandbox.change_website(updated[-1], email=0)
        if method == "PATCH":
            updated.append(int(path.rpartition("/")[2]))

    distortion.before = meanwhile
    with pytest.raises(NotAppliedError, match="Its values were restored and verified"):
        night.sync(NEW, parallel_requests=1)
    assert night.lists() == [None] * 20
    assert night.sync(NEW, parallel_requests=1)["verified"] is True


def test_second_website_is_changed_after_reads_cannot_be_old_any_more(
    night: Night, distortion: Distortion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another task resets a flag of each website, and ends within the time for which reads might be old."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0.5, 1.0, 2.0, 4.0))
    night.add(20, email=1)
    updated: list[int] = []
    waits: list[float] = []

    def meanwhile(method: str, path: str) -> None:
        if updated and 7.5 not in waits:
            night.sandbox.change_website(updated[-1], email=0)
        if method == "PATCH":
            updated.append(int(path.rpartition("/")[2]))

    distortion.before = meanwhile
    monkeypatch.setattr(Transport, "wait", lambda self, seconds, unwanted=None: waits.append(seconds))
    result = night.sync(NEW, parallel_requests=1)
    assert (result["applied"], result["verified"]) == (20, False)
    assert len(result["unexpected_changes"]) == 1


def test_create_that_another_task_made_first_is_left_to_the_next_try(night: Night, distortion: Distortion) -> None:
    def win(method: str, path: str) -> None:
        if method == "POST":
            night.add("new.example")

    distortion.before = win
    with pytest.raises(BulkError, match="domain has already been taken"):
        night.apply(config=private("new.example"))
    assert night.apply(config=private("new.example"))["applied"] == 1
    assert night.lists("privacy") == [1]


def test_create_only_names_the_websites_of_a_domain_that_another_task_created_too(
    night: Night, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a unique rule both creates succeed; the retry changes no website, but must not hide the second one."""
    night.sandbox.configure(allow_duplicates=True)
    config = private("new.example")

    def create_too(request: RecordedRequest) -> None:
        if request.operation == "create":
            night.add("new.example")

    night.sandbox.meanwhile(create_too)
    with pytest.raises((AnalyticsError, AirflowFailException), match="2 websites have the domain"):
        night.apply(config=config, create_only=True)
    night.apply(config=config, create_only=True)
    assert "several websites have the domain new.example: ids 2, 1. Delete all but one" in caplog.text


BY_HAND = "203.0.113.99"
FILE = {"websites": {f"{number}.example": {"exclude_ips": ["192.0.2.1"]} for number in (1, 2, 3)}}


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(lambda night: night.sync("192.0.2.1", parallel_requests=1), id="merge"),
        pytest.param(lambda night: night.managed("192.0.2.1", parallel_requests=1), id="managed"),
        pytest.param(lambda night: night.apply(config=FILE, parallel_requests=1), id="file"),
    ],
)
@pytest.mark.parametrize("step", range(1, 15))
def test_entry_typed_by_hand_at_any_step_remains(
    night: Night, distortion: Distortion, run: Callable[[Night], Any], step: int
) -> None:
    """Except at the moment of the update of that very website, whose last read cannot contain a later change."""
    night.add(3, exclude_ips="10.0.0.1")
    requests = itertools.count(1)
    kept: set[str] = set()

    def type_in(method: str, path: str) -> None:
        if next(requests) == step:
            kept.update(() if (method, path) == ("PATCH", "/websites/2") else [BY_HAND])
            night.sandbox.change_website(2, exclude_ips=f"{night.lists()[1]}\n{BY_HAND}")

    distortion.before = type_in
    assert run(night)["verified"] is True
    there = {"10.0.0.1", "192.0.2.1"}
    assert [set(item.split()) for item in night.lists()] == [there, there | kept, there]


@pytest.mark.parametrize("websites", [1, 6])
def test_website_whose_id_belongs_to_another_domain_after_its_update_fails(
    night: Night, distortion: Distortion, websites: int
) -> None:
    night.add(websites)
    updated: list[str] = []

    def note(method: str, path: str) -> None:
        if method == "PATCH":
            updated.append(path.rpartition("/")[2])

    def rename(method: str, path: str, record: Website) -> None:
        if method == "GET" and updated and str(record.get("id")) == updated[-1] and len(updated) == websites:
            record["domain"] = "innocent.example"

    distortion.before, distortion.change = note, rename
    with pytest.raises(AirflowFailException) as caught:
        night.sync(NEW)
    reason = f"The id {updated[-1]} belongs to 'innocent.example' now, which might have got its change."
    assert reason in str(caught.value)


def test_changed_websites_are_read_once_if_the_service_is_down(night: Night, distortion: Distortion) -> None:
    night.add(120)
    reads: list[str] = []

    def fail_after_writes(method: str, path: str) -> int | None:
        if len(night.updated) < 60:
            return None
        if method == "GET":
            reads.append(path)
        return 500

    distortion.before = fail_after_writes
    with pytest.raises(BulkError) as caught:
        night.sync(NEW)
    unclear = [reason for reason in caught.value.failures.values() if "Changed, but not verified: " in reason]
    assert len(unclear) >= 60
    # The changes and one check, each until twenty failures and those under way.
    assert len(reads) < 70


def test_rejected_favorite_keeps_its_message(night: Night) -> None:
    text = "The favorite field must be true or false."
    night.sandbox.fault("update", status=422, body={"message": text, "errors": {"favorite": [text]}}, times=None)
    with pytest.raises(AirflowFailException) as caught:
        night.apply(config={"websites": {"a.example": {"privacy": "private", "favorite": True}}})
    for part in ("1 website failed", "Created, but not set yet: favorite.", text):
        assert part in str(caught.value)
    assert "accepted the write" not in str(caught.value)


def test_simultaneous_creates_of_the_same_websites_do_not_stop_the_run(night: Night, distortion: Distortion) -> None:
    night.sandbox.configure(allow_duplicates=True)

    def meanwhile(method: str, path: str) -> None:
        websites = night.sandbox.websites()
        if method == "GET" and len(websites) in (1, 3, 5):
            night.add(websites[-1]["domain"], privacy=1)

    distortion.before = meanwhile
    with pytest.raises(BulkError) as caught:
        night.apply(config=private(*DOMAINS[:5]))
    assert len(caught.value.failures) < 5
    assert all("2 websites have the domain" in why for why in caught.value.failures.values())
    assert len(set(night.lists("domain"))) == 5


@pytest.mark.parametrize("websites", [1, 3])
def test_create_succeeds_if_another_user_changes_an_unsent_setting(
    night: Night, distortion: Distortion, websites: int
) -> None:
    def meanwhile(method: str, path: str) -> None:
        for website in night.sandbox.websites():
            night.sandbox.change_website(website["id"], exclude_bots=0)

    distortion.before = meanwhile
    result = night.apply(config=private(*DOMAINS[:websites]))
    assert (result["applied"], result["verified"]) == (websites, False)
    assert all("exclude_bots is False, was True" in item for item in result["unexpected_changes"])
    assert night.execute(CreateWebsiteOperator, domain="another.example", privacy="private")["created"]


def test_maintenance_page_during_a_create_leaves_it_unclear(night: Night, distortion: Distortion) -> None:
    """No later read proves the create, because nobody has deleted the website."""
    began = False

    def maintain(request: Request) -> tuple[int, Any]:
        nonlocal began
        began = began or request.method == "POST"
        return (200, b"<html>Down for maintenance</html>") if began else distortion.to_the_sandbox(request)

    distortion.forward = maintain
    with pytest.raises(BulkError, match="might have been created"):
        night.apply(config=private(*DOMAINS[:3]))


@pytest.mark.parametrize("kind", ["sync", "apply"])
def test_website_deleted_after_its_update_fails_only_a_websites_file(night: Night, kind: str) -> None:
    """The website is gone when it is read back: a list no longer needs it, but a file does."""
    night.add(6)

    def delete(request: RecordedRequest) -> None:
        if len(night.updated) == 6 and request.method == "GET":
            night.sandbox.remove_website(5)

    night.sandbox.meanwhile(delete)
    if kind == "sync":
        # Verified only if the website was changed alone, and so was read back before.
        assert night.sync(NEW)["applied"] == 6
    else:
        with pytest.raises(BulkError, match="It does not exist: another process deleted it"):
            night.apply(config=private(*DOMAINS[:6]))
    assert [website["id"] for website in night.sandbox.websites()] == [1, 2, 3, 4, 6]
