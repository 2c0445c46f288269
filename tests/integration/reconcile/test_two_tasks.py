"""Ordinary nights: two tasks at once, people who edit, and services that show writes late, or refuse them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import allow_execute_in_this_thread
from distortion import Distortion
from fixture_types import Execute
from zoo import Zoo

from airflow_provider_analytics.exceptions import BulkError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.server import SandboxServer

NEW = "203.0.113.7"
DOMAINS = [f"{number}.example" for number in range(1, 21)]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a website be read as often as in the field, at once."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0,) * 4)


def update_five(execute: Execute, sandbox: SandboxServer) -> None:
    for website_id in range(1, 6):
        execute(UpdateWebsiteOperator, website_id=website_id, privacy="private", email_reports=True)


def apply_a_file(execute: Execute, sandbox: SandboxServer) -> None:
    settings = {"privacy": "private", "exclude_params": ["utm"]}
    execute(ApplyWebsitesOperator, config={"websites": dict.fromkeys(DOMAINS, settings)}, parallel_requests=2)


def apply_defaults(execute: Execute, sandbox: SandboxServer) -> None:
    """Every website loses what it had: by the colleague, not by the service."""
    settings = {"email": False, "exclude_params": []}
    execute(ApplyWebsitesOperator, config={"websites": dict.fromkeys(DOMAINS, settings)}, parallel_requests=2)


def sync_another_list(execute: Execute, sandbox: SandboxServer) -> None:
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.9"], parallel_requests=2)


def edit(execute: Execute, sandbox: SandboxServer) -> None:
    for website_id in (1, 2, 3):
        sandbox.change_website(website_id, privacy=1, exclude_ips="10.0.0.1")


COLLEAGUES: list[Callable[[Execute, SandboxServer], None]] = [
    update_five,
    apply_a_file,
    apply_defaults,
    sync_another_list,
    edit,
]


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("step", [2, 3, 4, 5, 7, 12, 30])
@pytest.mark.parametrize("colleague", COLLEAGUES, ids=lambda one: one.__name__)
def test_two_tasks_at_once_are_green(
    analytics_sandbox: SandboxServer,
    distortion: Distortion,
    execute: Execute,
    colleague: Callable[[Execute, SandboxServer], None],
    step: int,
    behind: int,
) -> None:
    """The colleague works between two requests of the task, which begins with the most telling website."""
    for domain in DOMAINS:
        analytics_sandbox.add_website(
            domain, email=1, exclude_params="utm\nref # ads", exclude_ips="10.0.0.1 # Ann\n10.0.0.2"
        )
    analytics_sandbox.configure(reads_behind=behind)
    requests = 0

    def meanwhile(method: str, path: str) -> None:
        nonlocal requests
        requests += 1
        if requests == step:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()

    def work() -> None:
        allow_execute_in_this_thread()
        try:
            colleague(execute, analytics_sandbox)
        except Exception as error:
            failed.append(error)

    failed: list[Exception] = []
    distortion.before = meanwhile
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW], parallel_requests=1)
    assert failed == []
    assert result["applied"] == 20
    assert all(NEW in website["exclude_ips"] for website in analytics_sandbox.websites())
    assert result["verified"] is not bool(result["unexpected_changes"])


def test_new_favorites_behind_a_replica_are_created_whole(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.configure(reads_behind=2)
    websites = {f"{name}.example": {"privacy": "private", "favorite": True} for name in "abc"}
    result = execute(ApplyWebsitesOperator, config={"websites": websites})
    assert (result["applied"], result["verified"]) == (3, True)
    assert [website["favorite"] for website in analytics_sandbox.websites()] == [True] * 3
    assert [request.operation for request in analytics_sandbox.requests].count("create") == 3


def test_a_refused_favorite_keeps_its_text(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    text = "The favorite field must be true or false."
    body = {"message": text, "errors": {"favorite": [text]}}
    analytics_sandbox.fault("update", status=422, body=body, times=None)
    with pytest.raises(AirflowFailException) as caught:
        execute(ApplyWebsitesOperator, config={"websites": {"a.example": {"privacy": "private", "favorite": True}}})
    for part in ("1 website failed", "Created, but not set yet: favorite.", text, "boolean_format"):
        assert part in str(caught.value)
    assert "accepted the write" not in str(caught.value)


def test_a_service_that_drops_www_is_told_at_once(
    analytics_sandbox: SandboxServer, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (600,))
    analytics_sandbox.configure(domain_as="without www", allow_duplicates=True)
    config = {"websites": {f"www.{name}.example": {"privacy": "private"} for name in "abcd"}}
    with pytest.raises(AirflowFailException, match=r"write domain='[a-d]\.example'"):
        execute(ApplyWebsitesOperator, config=config)
    assert len(analytics_sandbox.websites()) == 2
    # The next night creates nothing more.
    with pytest.raises(
        AirflowFailException, match=r"www\.([a-d])\.example does not exist, but \1\.example \(id 1\) does"
    ):
        execute(ApplyWebsitesOperator, config=config)
    assert len(analytics_sandbox.websites()) == 2


@pytest.mark.parametrize("lost", [1, 7])
def test_a_lost_answer_among_many_creates_is_looked_up(
    analytics_sandbox: SandboxServer, execute: Execute, lost: int
) -> None:
    analytics_sandbox.fault("create", drop=True, commit=True, skip=lost - 1)
    config = {"websites": {domain: {"privacy": "private"} for domain in DOMAINS}}
    result = execute(ApplyWebsitesOperator, config=config)
    assert (result["applied"], result["verified"]) == (20, True)
    assert sorted(website["domain"] for website in analytics_sandbox.websites()) == sorted(DOMAINS)


@pytest.mark.parametrize("is_stored", [False, True])
def test_creates_that_a_limit_refuses_are_sent_again_once_they_are_known_not_to_exist(
    analytics_sandbox: SandboxServer, execute: Execute, is_stored: bool
) -> None:
    """nginx's limit_req answers 503 by default. Others answer so when the service did it."""
    analytics_sandbox.add_website("there.example")
    analytics_sandbox.fault("create", skip=4, times=6, status=503, commit=is_stored, body="<html>nginx</html>")
    result = execute(ApplyWebsitesOperator, config={"websites": {one: {"privacy": "private"} for one in DOMAINS}})
    assert (result["applied"], result["verified"]) == (20, True)
    assert sorted(website["domain"] for website in analytics_sandbox.websites()) == sorted([*DOMAINS, "there.example"])


def test_a_create_that_did_not_arrive_is_named(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.fault("create", drop=True, commit=False, skip=7)
    config = {"websites": {domain: {"privacy": "private"} for domain in DOMAINS}}
    with pytest.raises(BulkError, match=r"may or may not have been created: .*: \d+\.example\."):
        execute(ApplyWebsitesOperator, config=config)
    assert len(analytics_sandbox.websites()) == 19
    assert execute(ApplyWebsitesOperator, config=config)["applied"] == 1


def test_an_account_without_websites_is_said(
    analytics_sandbox: SandboxServer, execute: Execute, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        result: dict[str, Any] = execute(SyncExcludedIpsOperator, exclude_ips=[NEW])
    assert (result["websites"], result["verified"]) == (0, False)
    assert "The account has no websites, so nothing was compared." in caplog.text


@pytest.mark.parametrize(
    ("had", "has"),
    [
        pytest.param("192.0.2.1", "192.0.2.2", id="another list replaces its only address"),
        pytest.param("192.0.2.1 # Ann", "192.0.2.1 # Bob", id="a person edits a comment"),
    ],
)
@pytest.mark.parametrize("websites", [1, 3])
def test_one_website_may_be_edited_between_its_update_and_the_read(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, had: str, has: str, websites: int
) -> None:
    for domain in DOMAINS[:websites]:
        analytics_sandbox.add_website(domain, exclude_ips=had)
    updated = False

    def edit_after_the_update(method: str, path: str) -> None:
        nonlocal updated
        if updated:
            analytics_sandbox.change_website(1, exclude_ips=f"{has}\n{NEW}")
        updated = updated or method == "PATCH"

    distortion.before = edit_after_the_update
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW], websites=["1.example"])
    assert (result["applied"], result["verified"]) == (1, False)
    assert result["unexpected_changes"] == [f"1.example (id 1): exclude_ips lacks {had}"]


def test_one_website_may_lose_a_flag_to_a_colleague(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    analytics_sandbox.add_website("1.example", email=1, privacy=1)
    updated = False

    def edit_after_the_update(method: str, path: str) -> None:
        nonlocal updated
        if updated:
            analytics_sandbox.change_website(1, email=0)
        updated = updated or method == "PATCH"

    distortion.before = edit_after_the_update
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW])
    assert (result["applied"], result["verified"]) == (1, False)
    updated = False
    analytics_sandbox.change_website(1, email=1)
    result = execute(UpdateWebsiteOperator, website_id=1, favorite=True)
    assert (result["verified"], result["unexpected_changes"]) == (False, ["email is 'False', was 'True'"])


@pytest.mark.parametrize("mode", ["merge", "managed"])
@pytest.mark.parametrize("websites", [1, 3, 30])
def test_an_own_entry_that_a_person_removes_after_the_update_is_sent_again(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path, mode: str, websites: int
) -> None:
    """It was there before, so the task sent it without adding it."""
    for number in range(1, websites + 1):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips=f"10.0.0.1\n{NEW}")
    updated = False

    def meanwhile(method: str, path: str) -> None:
        nonlocal updated
        if updated:
            analytics_sandbox.change_website(1, exclude_ips="10.0.0.1\n192.0.2.9")
            distortion.before = lambda method, path: None
        updated = (method, path) == ("PATCH", "/websites/1")

    distortion.before = meanwhile
    arguments = {"state_path": str(tmp_path), "list_name": "office"} if mode == "managed" else {}
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW, "192.0.2.9"], mode=mode, **arguments)
    assert result["applied"] == websites
    assert set(analytics_sandbox.websites()[0]["exclude_ips"].splitlines()) == {"10.0.0.1", NEW, "192.0.2.9"}


def test_a_value_that_a_colleague_takes_back_after_the_fetch_is_sent_again(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    """The file wants it, and it was as wanted, so the task did not send it."""
    analytics_sandbox.add_website("1.example", privacy=1)

    def meanwhile(method: str, path: str) -> None:
        if method == "PATCH":
            distortion.before = lambda method, path: None
            analytics_sandbox.change_website(1, privacy=0)

    distortion.before = meanwhile
    result = execute(ApplyWebsitesOperator, config={"websites": {"1.example": {"privacy": "private", "email": True}}})
    (website,) = analytics_sandbox.websites()
    assert (website["privacy"], website["email"]) == (1, 1)
    assert result["applied"] == 1


def test_colleagues_who_create_the_same_websites_are_not_the_service(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    analytics_sandbox.configure(allow_duplicates=True)

    def meanwhile(method: str, path: str) -> None:
        websites = analytics_sandbox.websites()
        if method == "GET" and websites and len(websites) in (1, 3, 5):
            analytics_sandbox.add_website(websites[-1]["domain"], privacy=1)

    distortion.before = meanwhile
    config = {"websites": {domain: {"privacy": "private"} for domain in DOMAINS[:5]}}
    with pytest.raises(BulkError) as caught:
        execute(ApplyWebsitesOperator, config=config)
    assert len(caught.value.failures) < 5
    assert all("2 websites have the domain" in why for why in caught.value.failures.values())
    assert len({website["domain"] for website in analytics_sandbox.websites()}) == 5


@pytest.mark.parametrize("websites", [1, 3])
def test_one_may_change_what_was_not_sent_of_a_new_website(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, websites: int
) -> None:
    def meanwhile(method: str, path: str) -> None:
        for website in analytics_sandbox.websites():
            analytics_sandbox.change_website(website["id"], exclude_bots=0)

    distortion.before = meanwhile
    config = {"websites": {domain: {"privacy": "private"} for domain in DOMAINS[:websites]}}
    result = execute(ApplyWebsitesOperator, config=config)
    assert (result["applied"], result["verified"]) == (websites, False)
    assert all("exclude_bots is 'False', was 'True'" in one for one in result["unexpected_changes"])
    created = execute(CreateWebsiteOperator, domain="another.example", privacy="private")
    assert created["created"]


def test_a_person_who_cleans_the_list_of_a_website_is_not_the_service(analytics_sandbox: Zoo, execute: Execute) -> None:
    """The website that goes first loses all that it could lose. The second one keeps its lines."""
    for domain in DOMAINS:
        analytics_sandbox.add_website(domain, exclude_ips="192.0.2.1\n192.0.2.2")
    cleaned: list[int] = []

    def meanwhile(request: RecordedRequest) -> None:
        updated = [website["id"] for website in analytics_sandbox.websites() if NEW in website["exclude_ips"]]
        if updated and not cleaned:
            cleaned.extend(updated)
            analytics_sandbox.change_website(updated[0], exclude_ips=NEW)

    analytics_sandbox.meanwhile(meanwhile)
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW])
    assert (result["applied"], result["verified"]) == (20, False)
    [changed] = result["unexpected_changes"]
    assert changed.endswith(f"(id {cleaned[0]}): exclude_ips lacks 192.0.2.1, 192.0.2.2")


def test_a_colleague_who_resets_one_website_after_the_other_is_not_the_service(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    """Both websites that go first lose a flag right after their update. So did others, which nobody updated."""
    for domain in DOMAINS:
        analytics_sandbox.add_website(domain, email=1)
    updated: list[str] = []
    others = list(range(20, 0, -1))

    def meanwhile(method: str, path: str) -> None:
        if updated and len(updated) < 3:
            analytics_sandbox.change_website(int(updated[-1].rpartition("/")[2]), email=0)
            analytics_sandbox.change_website(others.pop(), email=0)
        if method == "PATCH":
            updated.append(path)

    distortion.before = meanwhile
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW], parallel_requests=1)
    assert (result["applied"], result["verified"]) == (20, False)


def test_a_create_that_another_task_won_is_left_to_the_next_try(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    config = {"websites": {"new.example": {"privacy": "private"}}}

    def win(method: str, path: str) -> None:
        if method == "POST":
            analytics_sandbox.add_website("new.example")

    distortion.before = win
    with pytest.raises(BulkError, match="domain has already been taken"):
        execute(ApplyWebsitesOperator, config=config)
    distortion.before = lambda method, path: None
    assert execute(ApplyWebsitesOperator, config=config)["applied"] == 1
    assert [one["privacy"] for one in analytics_sandbox.websites()] == [1]


def test_a_maintenance_page_in_the_middle_of_a_create_leaves_it_unclear(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    """No later read shows whether the website was created: nobody has deleted it."""
    forward = distortion.answer
    began = False

    def maintain(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        nonlocal began
        began = began or method == "POST"
        return (200, b"<html>Down for maintenance</html>") if began else forward(method, target, headers, body)

    distortion.answer = maintain  # type: ignore[method-assign]
    config = {"websites": {f"{one}.example": {"privacy": "private"} for one in ("a", "b", "c")}}
    with pytest.raises(BulkError, match="may or may not have been created"):
        execute(ApplyWebsitesOperator, config=config)
