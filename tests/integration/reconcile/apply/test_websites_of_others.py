# SPDX-License-Identifier: Apache-2.0
"""Websites of other users are never changed: a reused id, a renamed domain, and a domain that someone else created."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from distortion import Distortion
from reconciling import Night

from airflow_provider_analytics.exceptions import AnalyticsError, BulkError, NotAppliedError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.requests import RecordedRequest

NEW = "203.0.113.7"
SETTINGS: dict[str, Any] = {"privacy": 1, "email": 1, "exclude_bots": 0, "exclude_ips": "10.0.0.1 # Ann"}
OF_BOB: dict[str, Any] = {"privacy": 1, "email": 0, "exclude_bots": 0, "exclude_ips": "10.9.9.9 # Bob"}


def give_to_bob(night: Night, step: int, *, ids: set[str] | None = None) -> dict[int, Any]:
    """Give the updated websites to Bob before a read with this number; return them by id.

    :param ids: ids of the websites; None: those that were updated until then.
    """
    given: dict[int, Any] = {}

    def give(request: RecordedRequest) -> None:
        if len(night.sandbox.requests) != step or request.operation not in ("show", "list"):
            return
        for website_id in map(int, ids or night.updated):
            night.sandbox.change_website(website_id, domain=f"bob-{website_id}.example", **OF_BOB)
        given.update({website["id"]: website for website in night.sandbox.websites() if "bob" in website["domain"]})

    night.sandbox.meanwhile(give)
    return given


def rival_creates(night: Night, **settings: Any) -> None:
    """Lose the create of the task, and its response, and make someone else create the website."""
    night.sandbox.fault("create", drop=True, commit=False)

    def create_first(request: RecordedRequest) -> None:
        if night.operations["create"] and not night.sandbox.websites():
            night.add("new.example", **settings)

    night.sandbox.meanwhile(create_first)


@pytest.mark.parametrize("step", range(6, 26))
def test_website_is_not_restored_after_its_id_was_given_to_another_domain(night: Night, step: int) -> None:
    night.add(12, **SETTINGS)
    night.sandbox.configure(updates="reset others")
    given = give_to_bob(night, step)
    with pytest.raises((AnalyticsError, AirflowFailException)) as caught:
        night.sync(NEW, **night.state, mode="merge", parallel_requests=1)
    for website in night.sandbox.websites():
        if website["id"] in given:
            assert website == given[website["id"]]
            line = next(line for line in str(caught.value).splitlines() if f"(id {website['id']}):" in line)
            is_restored_before = "values were restored" in line
            assert is_restored_before or f"'{website['domain']}'" in line
            sent = [line for line in night.trail() if line.get("website_id") == str(website["id"])]
            assert is_restored_before or not [line for line in sent if line.get("before") == "public"]


@pytest.mark.parametrize("step", range(4, 26))
def test_planned_change_is_not_sent_after_the_id_was_given_to_another_domain(night: Night, step: int) -> None:
    night.add(12, **SETTINGS)
    given = give_to_bob(night, step, ids={"1", "2", "3"} - night.updated)
    with suppress(BulkError, AirflowFailException):  # it can be given away after its change was sent
        night.sync(NEW, parallel_requests=1)
    for website in night.sandbox.websites():
        if website["id"] in given:
            assert website == given[website["id"]]


def test_website_that_someone_edits_before_it_is_restored_is_left_to_a_person(night: Night) -> None:
    night.add(12, **SETTINGS)
    night.sandbox.configure(updates="reset others")
    edited: list[str] = []

    def edit(request: RecordedRequest) -> None:
        """Edit the website that was updated first; after the second update, it is only fetched to be restored."""
        if request.operation == "update":
            edited.append(request.path)
        if request.operation == "show" and len(edited) == 2 and request.path == edited[0]:
            night.sandbox.change_website(int(edited[0].rpartition("/")[2]), exclude_ips=f"{NEW}\n10.9.9.9 # Bob")

    night.sandbox.meanwhile(edit)
    with pytest.raises(AirflowFailException, match="it has changed since it was read") as caught:
        night.sync(NEW, parallel_requests=1)
    assert "Values before: " in str(caught.value)
    assert any("10.9.9.9 # Bob" in (item or "") for item in night.lists())


def test_each_restore_is_in_the_audit_trail(night: Night) -> None:
    night.add(12, **SETTINGS)
    night.sandbox.configure(updates="reset others")
    with pytest.raises(NotAppliedError, match="restored and verified"):
        night.sync(NEW, state_path=str(night.folder))
    changes = [(line["website_id"], line["field"]) for line in night.trail() if line["action"] == "update"]
    for website_id in night.updated:
        assert changes.count((website_id, "exclude_ips")) == 2
        assert changes.count((website_id, "privacy")) == 1


@pytest.mark.parametrize("added", ["10.9.9.9 # Bob", "203.0.113.70", "10.0.0.1", "203.0.113.0"])
def test_restore_keeps_lines_that_a_colleague_added_to_a_changed_list(night: Night, added: str) -> None:
    """Also a line that is the start of another one, or the other way round."""
    night.add(12, **SETTINGS)
    night.sandbox.configure(updates="reset others")

    def add_a_line(request: RecordedRequest) -> None:
        """Add a line to the first updated website before it is read back."""
        [first, *others] = sorted(night.updated) or [""]
        if first and not others and request.operation == "show" and not colleague:
            colleague.append(int(first))
            night.sandbox.change_website(int(first), exclude_ips=f"10.0.0.1 # Ann\n{NEW}\n{added}")

    colleague: list[int] = []
    night.sandbox.meanwhile(add_a_line)
    with pytest.raises(NotAppliedError, match="restored and verified"):
        night.sync(NEW, parallel_requests=1)
    lists = {website["id"]: website["exclude_ips"] for website in night.sandbox.websites()}
    assert lists.pop(colleague[0]) == f"10.0.0.1 # Ann\n{added}"
    assert set(lists.values()) == {"10.0.0.1 # Ann"}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("fault", [{"drop": True, "commit": True}, {"status": 502, "commit": True}])
def test_update_whose_response_is_lost_is_in_the_audit_trail(night: Night, fault: dict[str, Any]) -> None:
    night.add(3, **SETTINGS)
    night.sandbox.fault("update", **fault)
    result = night.sync(NEW, state_path=str(night.folder))
    assert (result["applied"], result["entries_added"]) == (3, 3)
    assert sorted(line["website_id"] for line in night.trail() if line["action"] == "update") == ["1", "2", "3"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("fault", [{"drop": True}, {"status": 502}])
@pytest.mark.parametrize(
    ("action", "websites"),
    [
        ("create", {"old.example": {}, "new.example": {"privacy": "private"}}),
        ("update", {"old.example": {"privacy": "public"}}),
        ("delete", {}),
    ],
)
def test_change_is_read_back_and_recorded_if_its_last_attempt_is_lost(
    night: Night, connect: Callable[..., None], action: str, websites: dict[str, Any], fault: dict[str, Any]
) -> None:
    connect()  # without retries
    night.add("old.example", **SETTINGS)
    night.sandbox.fault(action, commit=True, **fault)
    result = night.apply(config={"websites": websites}, prune=True, override_guards=["empty_list"], **night.state)
    assert result["states"]["applied"] == 1
    assert {line["action"] for line in night.trail()} == {action}


@pytest.mark.parametrize("websites", [{"1.example": {"exclude_ips": [NEW]}}, {}], ids=["update", "delete"])
def test_audit_trail_has_the_values_right_before_a_change(night: Night, websites: dict[str, Any]) -> None:
    """Someone changes the website after the plan: a website is restored from the trail."""
    night.add(1, **SETTINGS)

    def change(request: RecordedRequest) -> None:
        if request.operation == "show" and night.operations["show"] == 1:
            night.sandbox.change_website(1, exclude_ips="10.9.9.9 # Bob")

    night.sandbox.meanwhile(change)
    night.apply(config={"websites": websites}, prune=True, override_guards=["empty_list"], **night.state)
    [before] = [line["before"] for line in night.trail() if line["field"] == "exclude_ips"]
    assert before == ["10.9.9.9 # Bob"]


@pytest.mark.parametrize("create_only", [False, True])
@pytest.mark.parametrize(
    "rival", [{"privacy": 1}, {"exclude_ips": "10.9.9.9 # Bob"}, {"exclude_bots": 0}, {"favorite": True}]
)
def test_website_that_someone_else_created_during_a_lost_create_is_unclear(
    night: Night, create_only: bool, rival: dict[str, Any]
) -> None:
    """The response to the create is lost, it was not applied, and the domain has a website afterwards."""
    rival_creates(night, **{"privacy": 0, "email": 1, **rival})
    config = {"websites": {"new.example": {"privacy": "public", "email": True}}}
    # Without a retry, which would change it.
    with pytest.raises(AirflowFailException, match=r"might have created it, so it was not changed") as caught:
        night.apply(config=config, create_only=create_only)
    assert night.operations["update"] == 0
    assert "new.example" in str(caught.value)
    [website] = night.sandbox.websites()
    assert {name: website[name] for name in rival} == rival


def test_rival_of_a_lost_create_is_not_called_an_incomplete_website(night: Night) -> None:
    """The create cannot send favorite, so a website of this task would still need an update."""
    rival_creates(night, privacy=1)
    config = {"websites": {"new.example": {"privacy": "public", "favorite": True}}}
    with pytest.raises(AirflowFailException, match="Another user might have created it") as caught:
        night.apply(config=config, create_only=True)
    assert "without create_only" not in str(caught.value)


def test_own_website_is_completed_after_a_lost_create(night: Night) -> None:
    night.sandbox.fault("create", drop=True, commit=True)
    config = {"websites": {"new.example": {"privacy": "private", "email": True, "favorite": True}}}
    result = night.apply(config=config)
    assert (result["applied"], result["verified"]) == (1, True)
    [website] = night.sandbox.websites()
    assert (website["privacy"], website["email"], website["favorite"]) == (1, 1, True)


def test_approved_create_does_not_cover_the_website_of_someone_else(night: Night) -> None:
    night.write({"websites": {"new.example": {"privacy": "public"}}})
    digest = night.plan(**night.state)["digest"]
    night.add("new.example", privacy=1)
    with pytest.raises(AirflowFailException, match=r"not approved: .*privacy private → public"):
        night.apply(**night.state, approved_digest=digest)
    assert night.lists("privacy") == [1]
    assert night.operations["update"] == 0


def test_approved_create_is_not_completed_if_someone_else_creates_the_website_first(night: Night) -> None:
    """The list was read before, so the create is sent, and its response is lost."""
    night.write({"websites": {"new.example": {"privacy": "public"}}})
    digest = night.plan(**night.state)["digest"]
    rival_creates(night, privacy=1)
    with pytest.raises(AirflowFailException, match="was not changed"):
        night.apply(**night.state, approved_digest=digest)
    assert night.lists("privacy") == [1]


def test_retry_of_a_sync_by_id_does_not_change_the_new_owner_of_the_id(night: Night) -> None:
    night.add(3, **SETTINGS)

    def give(request: RecordedRequest) -> None:
        if request.operation == "show" and len(night.sandbox.requests) > 1:
            night.sandbox.change_website(2, domain="bob-2.example")

    night.sandbox.meanwhile(give)
    with pytest.raises(AirflowFailException, match=r"Website id 2 has the domain 'bob-2\.example', not '2"):
        night.sync(NEW, websites=[2])
    assert night.operations["update"] == 0


def test_sync_by_id_is_not_retried_after_the_id_got_a_new_owner(night: Night) -> None:
    """The update was applied before. A retry would select the new owner by the same id."""
    night.add(3, **SETTINGS)

    def give(request: RecordedRequest) -> None:
        if night.operations["update"] and request.operation == "show":
            night.sandbox.change_website(2, domain="bob-2.example", **OF_BOB)

    night.sandbox.meanwhile(give)
    with pytest.raises(AirflowFailException, match=r"belongs to 'bob-2\.example' now"):
        night.sync(NEW, websites=[2], mode="replace")
    assert night.lists()[1] == OF_BOB["exclude_ips"]


def test_website_with_a_lost_create_is_unclear_if_the_service_returns_too_few_fields(
    night: Night, distortion: Distortion
) -> None:

    def hide(method: str, path: str, record: Any) -> None:
        record.pop("privacy", None)

    rival_creates(night, privacy=1)
    distortion.change = hide
    with pytest.raises(AirflowFailException, match=r"privacy is not returned"):
        night.apply(config={"websites": {"new.example": {"privacy": "public", "favorite": True}}})
    assert night.operations["update"] == 0


def test_deleted_website_is_unclear_if_its_domain_was_renamed_after_a_lost_delete(night: Night) -> None:
    night.add(3, **SETTINGS)
    night.sandbox.fault("delete", status=503, commit=False, times=None)

    def rename(request: RecordedRequest) -> None:
        if night.operations["delete"]:
            night.sandbox.change_website(3, domain="renamed.example")

    night.sandbox.meanwhile(rename)
    config = {"websites": {"1.example": {"privacy": "private"}, "2.example": {"privacy": "private"}}}
    with pytest.raises(AirflowFailException, match="check whether the website is deleted"):
        night.apply(config=config, prune=True, override_guards=["many_deleted"])
    assert len(night.sandbox.websites()) == 3


def test_restore_does_not_make_a_page_public_that_a_person_might_have_closed(night: Night) -> None:
    night.add(12, privacy=0, email=1)

    def close(request: RecordedRequest) -> None:
        """Close each page after its update, before it is read back."""
        for website_id in map(int, night.updated):
            if request.operation == "show":
                night.sandbox.change_website(website_id, privacy=1)

    night.sandbox.meanwhile(close)
    with pytest.raises((AnalyticsError, AirflowFailException), match="was not made public again"):
        night.sync(NEW, parallel_requests=1)
    updated = [website for website in night.sandbox.websites() if str(website["id"]) in night.updated]
    assert [website["privacy"] for website in updated] == [1, 1]
    assert night.lists() == [None] * 12


def test_create_that_names_the_id_of_another_website_is_no_duplicate(night: Night) -> None:
    night.add("other.example")
    night.sandbox.fault("create", body={"data": {"id": 1, "domain": "new.example"}})
    with pytest.raises((AnalyticsError, AirflowFailException)) as caught:
        night.execute(CreateWebsiteOperator, domain="new.example")
    assert "Website id 1 has the domain 'other.example', not 'new.example'" in str(caught.value)


@pytest.mark.parametrize("mode", ["merge", "managed"])
@pytest.mark.parametrize("lines", [None, "", [], "left out"])
@pytest.mark.parametrize(
    ("operator", "field"), [(SyncExcludedIpsOperator, "exclude_ips"), (SyncExcludedParamsOperator, "exclude_params")]
)
def test_list_is_not_written_if_only_the_fetched_website_lacks_its_lines(
    night: Night, distortion: Distortion, operator: type, field: str, lines: Any, mode: str
) -> None:
    """The list of websites contains the lines, so an empty list might be an error of the service."""
    night.add(12, **{field: "10.0.0.1 # Ann"})

    def change(method: str, path: str, record: Any) -> None:
        if path.startswith("/websites/"):
            record[field] = lines
            if lines == "left out":
                del record[field]

    distortion.change = change
    with pytest.raises(BulkError, match=f"{field} had lines when the websites were listed, and has none now"):
        night.execute(operator, **{field: [NEW]}, **night.state, mode=mode)
    assert night.lists(field) == ["10.0.0.1 # Ann"] * 12


def test_list_that_a_colleague_clears_before_its_update_is_written_by_the_retry(night: Night) -> None:
    night.add(12, **SETTINGS)

    def clear(request: RecordedRequest) -> None:
        if night.operations["show"] == 1:
            night.sandbox.change_website(3, exclude_ips=None)

    night.sandbox.meanwhile(clear)
    with pytest.raises(BulkError, match=r"1 website failed, 11 succeeded"):
        night.sync(NEW)
    assert night.sync(NEW)["applied"] == 1
    assert night.lists()[2] == NEW


def test_website_is_not_called_restored_if_the_service_does_not_return_a_list_of_it(
    night: Night, distortion: Distortion
) -> None:
    night.add(12, **SETTINGS)
    night.sandbox.configure(updates="reset others")

    def hide(method: str, path: str, record: Any) -> None:
        if path.startswith("/websites/"):
            del record["exclude_ips"]

    distortion.change = hide
    with pytest.raises(AirflowFailException, match=r"does not return exclude_ips, or in an unknown form") as caught:
        night.apply(config={"websites": {f"{number}.example": {"exclude_bots": 1} for number in range(1, 13)}})
    assert "restored and verified" not in str(caught.value)


def test_restore_leaves_a_page_that_a_person_closed_further_than_the_task(night: Night) -> None:
    """The task made the page private, and a person protected it by a password."""
    night.add(12, privacy=0, email=1)
    night.sandbox.configure(updates="reset others")
    closed: set[str] = set()

    def close(request: RecordedRequest) -> None:
        for website_id in night.updated - closed:
            if request.operation == "show":
                closed.add(website_id)
                night.sandbox.change_website(int(website_id), privacy=2)

    night.sandbox.meanwhile(close)
    with pytest.raises((AnalyticsError, AirflowFailException), match="was not made public again"):
        night.apply(
            config={"websites": {f"{number}.example": {"privacy": "private"} for number in range(1, 13)}},
            parallel_requests=1,
        )
    assert {website["privacy"] for website in night.sandbox.websites() if str(website["id"]) in closed} == {2}


def test_restore_keeps_a_line_that_is_the_start_of_a_line_that_the_task_removed(night: Night) -> None:
    night.add(12, email=1)
    night.managed("192.0.2.10")
    night.sandbox.configure(updates="reset others")
    night.sandbox.clear_requests()
    edited: set[str] = set()

    def add_a_line(request: RecordedRequest) -> None:
        for website_id in night.updated - edited:
            if request.operation == "show":
                edited.add(website_id)
                night.sandbox.change_website(int(website_id), exclude_ips=f"{NEW}\n192.0.2.1")

    night.sandbox.meanwhile(add_a_line)
    with pytest.raises((AnalyticsError, AirflowFailException), match="restored and verified"):
        night.managed(NEW, parallel_requests=1, override_guards=["entries_lost"])
    lists = {str(website["id"]): set(website["exclude_ips"].split()) for website in night.sandbox.websites()}
    assert [lists[website_id] for website_id in edited] == [{"192.0.2.10", "192.0.2.1"}] * 2


def test_stop_after_a_website_of_someone_else_was_found_is_not_retried(night: Night) -> None:
    config = {"websites": {f"{number}.example": {"privacy": "public"} for number in range(1, 9)}}
    task = ApplyWebsitesOperator(task_id="apply", config=config)
    night.sandbox.fault("create", drop=True, commit=False)

    def create_first_and_stop(request: RecordedRequest) -> None:
        if request.operation != "create" and night.operations["create"] == 1 and not night.sandbox.websites():
            for number in range(1, 9):
                night.add(f"{number}.example", privacy=1)
            for website in night.sandbox.websites():
                if f"domain={website['domain']}" not in night.sandbox.requests[created[0]].body.decode():
                    night.sandbox.remove_website(website["id"])
        if request.operation == "create":
            created.append(len(night.sandbox.requests) - 1)
            if len(created) == 2:
                task.on_kill()

    created: list[int] = []
    night.sandbox.meanwhile(create_first_and_stop)
    with pytest.raises(AirflowFailException, match=r"Another user might have created it"):
        task.execute({})
