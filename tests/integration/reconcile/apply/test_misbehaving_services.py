# SPDX-License-Identifier: Apache-2.0
"""Services that do not store sent values, or change other values, with each way to write (``reconcile/apply``).

A task never succeeds with an unexpected website, and the second batch with the same problem stops the run.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
import selective
from airflow.providers.common.compat.sdk import AirflowFailException
from distortion import Distortion, Website
from raw_server import Request
from reconciling import Night
from scenario import MAX_DAMAGED

from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import AnalyticsError, BulkError, NotAppliedError, StoppedError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.requests import RecordedRequest

pytestmark = pytest.mark.usefixtures("patient")

OWN = "10.0.0.1 # Ann\n10.1.0.0/16\n10.0.0.2"
OWN_PLAIN = OWN.splitlines()[1:]
NEW = "203.0.113.7"
SETTINGS: Website = {"privacy": 1, "email": 1, "exclude_bots": 0, "exclude_params": "utm", "exclude_ips": OWN}
UNSENT = r"Values that were not sent changed on \d websites"

#: Services by their options. Their creates are correct, unless noted.
SERVICES: dict[str, dict[str, Any]] = {
    "echoes and does not store": {"echoes": ["create", "update"], "ignored_fields": ["exclude_ips"]},
    "ignores the list": {"ignored_fields": ["exclude_ips"]},
    "ignores the list, empty": {"ignored_fields": ["exclude_ips"], "update_status": 204, "create_status": 204},
    "shows JSON text": {"lists_as": "json"},
    "resets other fields": {"updates": "reset others"},
    "sets absent flags to false": {"updates": "absent is false"},
    "omits empty fields and resets others": {"updates": "absent is zero", "omits": "empty"},
    "keeps only new lines": {"lists_stored": "new lines"},
    "keeps only the last line": {"lists_stored": "last line"},
    "drops comments": {"lists_stored": "no comments"},
    "cuts lists": {"lists_stored": "40 characters"},
    "shows commas": {"lists_as": "commas"},
    "shows blanks": {"lists_as": "blanks"},
    "shows <br>": {"lists_as": "br"},
    "shows lists cut": {"lists_as": "cut"},
    "shows lists cut with dots": {"lists_as": "cut with dots"},
}
HARMFUL_TO_CREATES = list(SERVICES)[:4]
BEHIND = {
    "one read behind": {"reads_behind": 1},
    "two reads behind": {"reads_behind": 2},
    "one read behind, says nothing": {"reads_behind": 1, "update_status": 204, "create_status": 204},
}
CREATED: dict[str, Any] = {"domain": "new.example", "privacy": "private", "exclude_ips": [NEW]}
FILE = {
    "modes": {"exclude_ips": "merge"},
    "websites": {f"{number}.example": {"exclude_ips": [NEW]} for number in range(1, 31)},
}


def by_hook(method: str, *arguments: Any, **settings: Any) -> None:
    with AnalyticsHook() as hook:
        getattr(hook, method)(*arguments, **settings)


WAYS: dict[str, Callable[[Night], Any]] = {
    "hook.update_website": lambda night: by_hook("update_website", 1, exclude_ips=[*OWN.splitlines(), NEW]),
    "UpdateWebsite": lambda night: night.execute(
        UpdateWebsiteOperator, website_id=1, exclude_ips=[{"entry": "10.0.0.1", "comment": "Ann"}, *OWN_PLAIN, NEW]
    ),
    "hook.create_website": lambda night: by_hook("create_website", **CREATED),
    "CreateWebsite": lambda night: night.execute(CreateWebsiteOperator, **CREATED),
    "SyncExcludedIps": lambda night: night.sync(NEW),
    "ApplyWebsites": lambda night: night.apply(config=FILE),
}
CREATES = ("hook.create_website", "CreateWebsite")
OF_MANY = ("SyncExcludedIps", "ApplyWebsites")


@pytest.fixture
def websites(night: Night) -> list[Website]:
    night.add(30, **SETTINGS)
    return night.sandbox.websites()


def as_expected(website: Website, before: Website) -> bool:
    """Whether a website is unchanged, except for the new entry at the end of its list."""
    return website == {**before, "exclude_ips": f"{OWN}\n{NEW}"}


def damaged(night: Night, websites: list[Website]) -> list[Website]:
    """Return the websites that are neither unchanged nor as expected."""
    pairs = zip(night.sandbox.websites(), websites, strict=True)
    return [now for now, before in pairs if now != before and not as_expected(now, before)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SERVICES)
def test_write_fails_if_the_service_stores_another_result(
    night: Night, websites: list[Website], name: str, way: str
) -> None:
    night.sandbox.configure(**SERVICES[name])
    if way in CREATES and name not in HARMFUL_TO_CREATES:
        WAYS[way](night)
        assert night.lists()[-1] == NEW
        return
    with pytest.raises((AirflowFailException, AnalyticsError)) as caught:
        WAYS[way](night)
    assert night.sandbox.api_key not in str(caught.value)
    if way in OF_MANY:
        assert len(damaged(night, websites)) <= 2
        assert len(night.updated) <= 2
        # Airflow might retry if both websites were restored.
        assert damaged(night, websites) == [] or isinstance(caught.value, AirflowFailException)


@pytest.mark.parametrize(
    "name",
    [
        "resets other fields",
        "sets absent flags to false",
        "omits empty fields and resets others",
        "keeps only new lines",
        "ignores the list",
        "cuts lists",
    ],
)
@pytest.mark.parametrize("way", OF_MANY)
def test_both_websites_are_restored_if_the_problem_repeats(
    night: Night, websites: list[Website], name: str, way: str
) -> None:
    night.sandbox.configure(**SERVICES[name])
    with pytest.raises((NotAppliedError, AirflowFailException)) as caught:
        WAYS[way](night)
    is_not_stored = name in ("ignores the list", "cuts lists")
    # A retry would damage the next two websites, if the service rewrites the sent list.
    is_permanent = is_not_stored or name == "keeps only new lines"
    assert isinstance(caught.value, AirflowFailException) is is_permanent
    assert [website for website in night.sandbox.websites() if website not in websites] == []
    assert "so 28 websites did not change." in str(caught.value)
    assert str(caught.value).count("Its values were restored and verified") == 2
    assert ("Set the extra update_method to PUT" in str(caught.value)) is (
        name not in ("cuts lists", "keeps only new lines")
    )
    assert ("kept the first 40 of " in str(caught.value)) is (name == "cuts lists")
    assert ("did not store exclude_ips" in str(caught.value)) is is_not_stored


@pytest.mark.parametrize("number", [1, 30])
def test_value_that_appears_with_an_update_was_changed_by_it(night: Night, number: int) -> None:
    """The service omits empty values, and no website has another one, so no record contained the field before."""
    night.add(number, exclude_bots=0, exclude_ips=OWN)
    before = night.sandbox.websites()
    night.sandbox.configure(omits="empty", updates="reset others")
    with pytest.raises((NotAppliedError, AirflowFailException), match="exclude_bots is True, was False") as caught:
        night.sync(NEW)
    restored = str(caught.value).count("Its values were restored and verified")
    is_alone = number == 1
    assert restored == (0 if is_alone else 2)
    assert is_alone or night.sandbox.websites() == before


def test_audit_trail_contains_the_reason_and_the_end_of_each_restored_website(
    night: Night, websites: list[Website]
) -> None:
    night.sandbox.configure(updates="reset others")
    with pytest.raises(NotAppliedError):
        night.sync(NEW, state_path=str(night.folder))
    reasons = {line["website"]: line["reason"] for line in night.trail() if line["action"] == "failed"}
    restored = [website for website, reason in reasons.items() if "Its values were restored and verified." in reason]
    assert {re.findall(r"id (\d+)", website)[0] for website in restored} == night.updated
    assert len(restored) == 2
    assert all("privacy is 'public', was 'private'" in reasons[website] for website in restored)


@pytest.mark.parametrize("step", range(3, 20))
def test_damaged_websites_are_reported_after_a_stop_at_any_request(
    night: Night, websites: list[Website], step: int
) -> None:
    night.sandbox.configure(updates="reset others")
    task = SyncExcludedIpsOperator(task_id="sync", exclude_ips=[NEW])

    def stop(request: RecordedRequest) -> None:
        if len(night.sandbox.requests) == step:
            task.on_kill()

    night.sandbox.meanwhile(stop)
    with pytest.raises((AirflowFailException, NotAppliedError, StoppedError)) as caught:
        task.execute({})
    assert all(f"{item['domain']} (id " in str(caught.value) for item in damaged(night, websites))


@pytest.mark.parametrize("number", [1, 4])
def test_unremoved_entry_is_noticed_on_a_list_with_many_writers(night: Night, number: int) -> None:
    night.add(number, exclude_ips=OWN)
    night.managed(NEW, "203.0.113.8")
    night.sandbox.configure(ignored_fields=["exclude_ips"])
    with pytest.raises((AnalyticsError, AirflowFailException), match=f"still has {NEW}"):
        night.managed("203.0.113.8")


@pytest.mark.parametrize(
    "only", [{"privacy": 1}, {"favorite": True}, {"exclude_params": "utm"}], ids=["privacy", "favorite", "list"]
)
@pytest.mark.parametrize("number", [0, 10])
def test_unsent_change_is_reported_if_no_other_website_can_repeat_it(night: Night, number: int, only: Website) -> None:
    night.add("first.example", exclude_ips=OWN)
    night.add("only.example", **only)
    night.add(number)
    night.sandbox.configure(updates="reset others")
    result = night.sync(NEW)
    assert (result["applied"], result["verified"]) == (number + 2, False)
    [changed] = result["unexpected_changes"]
    assert changed.startswith(f"only.example (id 2): {next(iter(only))} ")


def test_single_website_with_an_unsent_change_fails_with_the_values_before(night: Night) -> None:
    night.add(1, **SETTINGS)
    night.sandbox.configure(updates="reset others")
    with pytest.raises(AirflowFailException, match=r"privacy is 'public', was 'private'.*before: privacy private"):
        night.sync(NEW)
    assert night.operations["update"] == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BEHIND)
def test_run_waits_for_a_service_that_returns_a_write_late(
    night: Night, websites: list[Website], name: str, way: str
) -> None:
    night.sandbox.configure(**BEHIND[name])
    WAYS[way](night)
    now = night.sandbox.websites()
    if way in CREATES:
        assert (now[-1]["privacy"], now[-1]["exclude_ips"]) == (1, NEW)
    else:
        assert all(map(as_expected, now, websites if way in OF_MANY else websites[:1]))


@pytest.mark.parametrize("missing", ["404", "410", "403", "200"])
@pytest.mark.parametrize("deletes", ["remove", "mark"])
def test_delete_is_verified_for_any_response_to_a_missing_website(night: Night, missing: str, deletes: str) -> None:
    night.add(3)
    night.sandbox.configure(missing=missing, deletes=deletes)
    assert night.execute(DeleteWebsiteOperator, domain="1.example")["deleted"] is True
    by_hook("delete_website", 2)
    config = {"defaults": {"privacy": "public"}, "websites": {}}
    result = night.apply(config=config, prune=True, override_guards=["empty_list", "many_deleted"])
    assert (result["applied"], result["verified"]) == (1, True)
    assert night.sandbox.websites() == []


def test_domain_of_a_website_that_is_marked_as_deleted_can_be_created_again(night: Night) -> None:
    night.add(3)
    night.sandbox.configure(deletes="mark")
    for _ in range(2):
        night.execute(DeleteWebsiteOperator, domain="1.example")
        assert night.execute(CreateWebsiteOperator, domain="1.example", privacy="private")["created"] is True
    assert [website["domain"] for website in night.sandbox.websites()] == ["2.example", "3.example", "1.example"]


@pytest.mark.parametrize("how", ["404", "403", "200", "the delete itself"])
def test_plan_with_deletes_fails_if_the_websites_remain(night: Night, how: str) -> None:
    night.add(12)
    if how == "the delete itself":
        night.sandbox.fault("delete", status=404, times=None)
    else:
        night.sandbox.configure(missing=how, deletes="keep")
    with pytest.raises(NotAppliedError, match="still exists"):
        night.execute(DeleteWebsiteOperator, domain="1.example")
    with pytest.raises(NotAppliedError, match="still exists"):
        by_hook("delete_website", 1)
    night.sandbox.clear_requests()
    with pytest.raises((BulkError, AirflowFailException), match="still exists"):
        night.apply(config={"websites": {}}, prune=True, override_guards=["empty_list", "many_deleted"])
    deletes = {request.path for request in night.sandbox.requests if request.operation == "delete"}
    assert (len(night.sandbox.websites()), len(deletes)) == (12, 12 if how == "the delete itself" else 2)


@pytest.mark.parametrize("hidden", [(), ("domain",)])
def test_service_that_stores_other_domains_gets_two_creates(
    night: Night, distortion: Distortion, hidden: tuple[str, ...]
) -> None:
    """Also if its response to a create contains no domain, so that only the list shows the other one."""

    def hide(method: str, path: str, record: dict[str, Any]) -> None:
        if method == "POST":
            for name in hidden:
                del record[name]

    distortion.change = hide
    night.sandbox.configure(domain_as="without www", allow_duplicates=True)
    websites = {f"www.{number}.example": {"privacy": "private"} for number in range(12)}
    with pytest.raises(AirflowFailException, match=r"has the domain '\d+\.example', not 'www\."):
        night.apply(config={"websites": websites})
    assert night.operations["create"] == 2


@pytest.mark.parametrize("domain_as", ["with scheme", "with port", "with slash", "with www", "without www"])
def test_domain_stored_in_another_form_is_found_before_a_create(night: Night, domain_as: str) -> None:
    night.sandbox.configure(domain_as=domain_as, allow_duplicates=True)
    for _ in range(3):
        with contextlib.suppress(AirflowFailException):
            night.execute(
                CreateWebsiteOperator, domain="www.shop.example" if domain_as == "without www" else "shop.example"
            )
    assert len(night.sandbox.websites()) == night.operations["create"] == 1


@pytest.mark.parametrize("search", ["part", "case", "start", "label", "exact", "late", "nothing"])
def test_website_with_a_duplicate_domain_is_never_deleted(night: Night, search: str) -> None:
    night.add("shop.example")
    night.add(" ".join(f"{number}.shop.example" for number in range(150)))
    night.add("Shop.example")
    night.sandbox.configure(search_matches=search)
    with pytest.raises(AirflowFailException, match="2 websites have the domain"):
        night.execute(DeleteWebsiteOperator, domain="shop.example")
    assert len(night.sandbox.websites()) == 152


def test_favorite_of_a_created_website_is_set_again_or_the_task_fails(night: Night) -> None:
    """The update that marks a new website as a favorite fails: it is repeated, or the task fails."""
    night.sandbox.configure(reads_behind=2)
    config = {"websites": {f"{name}.example": {"privacy": "private", "favorite": True} for name in "abc"}}
    result = night.apply(config=config)
    assert (result["applied"], result["verified"]) == (3, True)
    assert night.lists("favorite") == [True] * night.operations["create"] == [True] * 3
    night.sandbox.reset()
    night.sandbox.fault("update", status=422, times=None)
    with pytest.raises((BulkError, AirflowFailException), match=r"Created, but not set yet: favorite\. "):
        night.apply(config=config)


@pytest.mark.parametrize("operation", ["show", "update", "show before a delete"])
def test_single_response_with_status_404_is_not_trusted(night: Night, operation: str) -> None:
    night.add(2)
    name: Any = operation.split()[0]
    night.sandbox.fault(name, target="/2$" if "delete" in operation else "/1$", status=404)
    config: dict[str, Any] = {"websites": {"1.example": {}}}
    with pytest.raises(BulkError, match=r"\d\.example"):
        night.apply(config=config, prune=True, override_guards="many_deleted") if "delete" in operation else night.sync(
            NEW
        )


def test_error_mentions_no_cut_list_if_a_website_stores_none_of_its_entries(
    night: Night, websites: list[Website]
) -> None:
    """The first website keeps its list, which is the start of the sent one. The second one loses its list."""

    def damage(request: RecordedRequest) -> None:
        for number, website_id in enumerate(dict.fromkeys(updated)):
            night.sandbox.change_website(website_id, exclude_ips=OWN if number == 0 else "10.9.9.9")
        if request.operation == "update":
            updated.append(int(request.path.rpartition("/")[2]))

    updated: list[int] = []
    night.sandbox.meanwhile(damage)
    with pytest.raises(AirflowFailException, match=UNSENT) as caught:
        night.sync(NEW)
    assert "kept the first" not in str(caught.value)


def test_run_stops_early_if_the_service_damages_different_kinds_of_websites(night: Night) -> None:
    """Two are changed in the same way, and three in different ways."""
    night.add(5, favorite=True, exclude_bots=1, email=0)
    night.sandbox.configure(updates="reset others")
    email: list[Website] = [{"email": True}] * 2
    ways = [*email, {"exclude_bots": False}, {"privacy": "private"}, {"exclude_ips": [NEW]}]
    with pytest.raises(NotAppliedError, match=UNSENT):
        night.apply(config={"websites": {f"{number}.example": way for number, way in enumerate(ways, 1)}})
    assert night.lists("favorite") == [True] * 5
    assert len(night.updated) == 2


@pytest.mark.parametrize("way", OF_MANY)
@pytest.mark.parametrize("dropped", ["no networks", "no comments"])
def test_service_that_drops_single_lines_is_stopped_after_two_websites(
    night: Night, websites: list[Website], dropped: str, way: str
) -> None:
    night.sandbox.configure(lists_stored=dropped)
    with pytest.raises(AirflowFailException, match=UNSENT):
        WAYS[way](night)
    assert len(damaged(night, websites)) == len(night.updated) == 2


def test_unreadable_website_is_restored_with_the_others(night: Night, websites: list[Website]) -> None:
    night.sandbox.configure(updates="reset others")
    for path in ("1", "2"):
        night.sandbox.fault("show", target=rf"/websites/{path}$", skip=1, times=5, status=422)
    with pytest.raises(NotAppliedError, match=UNSENT):
        night.sync(NEW)
    assert damaged(night, websites) == []


def test_service_that_stores_entries_in_upper_case_is_stopped_after_two_websites(night: Night) -> None:
    night.add(12, exclude_params="own")
    night.sandbox.configure(lists_stored="normalized")
    with pytest.raises(
        AirflowFailException, match=r"could not be restored \(exclude_params lacks own and still has OWN"
    ):
        night.execute(SyncExcludedParamsOperator, exclude_params=["utm"])
    assert night.lists("exclude_params").count("own") == 10


def test_website_without_a_value_to_damage_does_not_clear_the_earlier_one(night: Night) -> None:
    """The second list is stored already in the form of the service, so it is as expected."""
    own = ["10.0.0.1 # ann in the office", "10.0.0.1 # ANN IN BERLIN", *["10.1.0.0/16 # ann"] * 4]
    for number, lines in enumerate(own):
        night.add(f"{number}.example", exclude_ips=lines)
    night.sandbox.configure(lists_stored="normalized")
    with pytest.raises(AirflowFailException, match=UNSENT):
        night.sync(NEW)
    assert len(night.updated) in (2, 3)
    assert night.lists("exclude_ips").count("10.1.0.0/16 # ann") in (2, 3)


def test_unsent_changes_of_different_fields_stop_the_run(night: Night) -> None:
    own: list[Website] = [{"email": 1}, {"exclude_ips": "10.0.0.2"}, {"favorite": True}, {}, {}]
    for number, values in enumerate(own):
        night.add(f"{number}.example", exclude_params="utm # Ann\nutm_*", **values)
    before = night.sandbox.websites()
    night.sandbox.configure(updates="reset others")
    with pytest.raises(NotAppliedError, match=UNSENT):
        night.execute(SyncExcludedParamsOperator, exclude_params=["ref"])
    for was, now in zip(before, night.sandbox.websites(), strict=True):
        # A website without a value to lose is as expected, and keeps its new list.
        assert now in (was, {**was, "exclude_params": f"{was['exclude_params']}\nref"})


def test_comment_lost_in_an_early_round_is_reported(night: Night) -> None:
    """The service drops the line of a single website: the task added the entry without its comment and succeeded."""
    for number in range(1, 9):
        night.add(f"{number}.example", exclude_ips=f"{NEW} # Ann\n192.0.2.{number}")
    updates: list[int] = []

    def drop(request: RecordedRequest) -> None:
        if request.operation in ("show", "list") and updates == [6]:
            night.sandbox.change_website(6, exclude_ips="192.0.2.6\n203.0.113.8")
            updates.append(0)
        if request.operation == "update" and request.path.endswith("/6"):
            updates.append(6)

    night.sandbox.meanwhile(drop)
    result = night.sync(NEW, "203.0.113.8", parallel_requests=1)
    assert result["verified"] is False
    assert [item for item in result["unexpected_changes"] if "6.example" in item and f"lacks {NEW} # Ann" in item]


@pytest.mark.parametrize(("status", "body"), [(403, None), (403, "<html>Blocked</html>"), (405, None), (501, None)])
def test_update_method_that_is_rejected_twice_is_named(night: Night, status: int, body: str | None) -> None:
    night.add(10)
    night.sandbox.fault("update", status=status, body=body, times=None)
    with pytest.raises(AirflowFailException, match="Set the extra update_method to PUT") as caught:
        night.sync(NEW)
    assert "The service rejected PATCH for 2 websites" in str(caught.value)
    assert len(night.updated) == 2


def test_apply_stores_favorites_if_the_service_casts_the_text(night: Night) -> None:
    night.add(10, favorite=True)
    night.sandbox.configure(favorite_stored="truth of text")
    config = {"websites": {website["domain"]: {"favorite": False} for website in night.sandbox.websites()}}
    night.apply(config=config)
    assert not any(website["favorite"] for website in night.sandbox.websites())


def test_first_create_and_first_delete_are_verified_before_the_others(night: Night) -> None:
    night.add(20)
    websites = {f"new{number}.example": {"privacy": "private"} for number in range(5)}
    night.apply(config={"websites": websites}, prune=True, override_guards=["many_deleted", "empty_list"])
    requests = night.sandbox.requests
    for operation in ("create", "delete"):
        first, second, *_ = [number for number, element in enumerate(requests) if element.operation == operation]
        reads = requests[first + 1 : second]
        assert any(read.operation == "list" or read.path == requests[first].path for read in reads)


def test_updates_come_before_creates_and_creates_before_deletes(night: Night) -> None:
    night.add(20)
    kept = {f"{number}.example": {"privacy": "private"} for number in range(1, 16)}
    new = {f"new{number}.example": {"privacy": "private"} for number in range(5)}
    night.apply(config={"websites": {**kept, **new}}, prune=True, parallel_requests=1)
    writes = [request.operation for request in night.sandbox.requests]
    sent = [operation for operation in writes if operation in ("update", "create", "delete")]
    assert sent == ["update"] * 15 + ["create"] * 5 + ["delete"] * 5


def test_run_stops_after_two_new_websites_if_the_update_after_a_create_resets_defaults(night: Night) -> None:
    """A create cannot send ``favorite``, so an update follows, and the service treats absent fields as zero."""
    night.add(12)
    night.sandbox.configure(updates="absent is zero")
    new = {f"new{number}.example": {"favorite": True, "privacy": "public"} for number in range(8)}
    with pytest.raises(AirflowFailException, match="exclude_bots is False, was True"):
        night.apply(config={"websites": new})
    assert night.operations["create"] == 2


def clear_all(night: Night, update: int) -> None:
    """Clear the parameters of all websites with an update, like an SQL update without a condition."""

    def clear(request: RecordedRequest) -> None:
        if request.operation == "update" and night.operations["update"] == update:
            for website in night.sandbox.websites():
                night.sandbox.change_website(website["id"], exclude_params=None)

    night.sandbox.meanwhile(clear)


def test_task_fails_if_the_first_update_changes_all_websites(night: Night, websites: list[Website]) -> None:
    """The second website has nothing to lose any more."""
    clear_all(night, update=1)
    with pytest.raises(AirflowFailException, match=r"(?s)changed on all 30 changed websites.*Nothing was restored"):
        night.sync(NEW)


@pytest.mark.parametrize(("number", "fails"), [(2, False), (3, True)])
def test_task_fails_from_three_websites_on_if_the_first_update_changes_all(
    night: Night, number: int, fails: bool
) -> None:
    night.add(number, exclude_params="utm")
    clear_all(night, update=1)
    with (
        pytest.raises(AirflowFailException, match=f"changed on all {number} changed websites")
        if fails
        else contextlib.nullcontext()
    ):
        assert night.sync(NEW)["verified"] is False


def test_change_of_all_websites_in_the_middle_of_a_run_is_reported_for_each(
    night: Night, websites: list[Website], caplog: pytest.LogCaptureFixture
) -> None:
    clear_all(night, update=3)
    result = night.sync(NEW)
    assert (result["applied"], result["verified"]) == (30, False)
    assert len(result["unexpected_changes"]) == 21
    assert result["unexpected_changes"][-1] == "and 10 other websites"
    assert "Values that this task did not send changed on 30 websites. " in caplog.text
    assert "another process" not in caplog.text.lower()


@pytest.mark.parametrize("service", selective.SERVICES)
@pytest.mark.parametrize("seed", range(3))
def test_service_that_damages_certain_websites_is_stopped(night: Night, service: str, seed: int) -> None:
    damaged, is_success = selective.run(night.sandbox, service, 40, seed)
    assert not is_success
    assert 2 <= len(damaged) <= MAX_DAMAGED


def test_service_that_cuts_long_lists_damages_few_websites(night: Night) -> None:
    """Ten lists are too long for its column."""
    for number in range(40):
        addresses = [f"10.0.{number}.{line}" for line in range(12 if number % 4 == 0 else 2)]
        night.add(f"{number}.example", exclude_ips="\n".join(addresses))
    before = night.lists()
    cut = 100

    def cut_lists(request: RecordedRequest) -> None:
        for website in night.sandbox.websites():
            if request.operation != "update" and len(website["exclude_ips"]) > cut and NEW in website["exclude_ips"]:
                night.sandbox.change_website(website["id"], exclude_ips=website["exclude_ips"][:cut])

    night.sandbox.meanwhile(cut_lists)
    with pytest.raises((AirflowFailException, NotAppliedError), match=r"did not store|changed on \d websites"):
        night.sync(NEW)
    pairs = zip(before, night.lists(), strict=True)
    damaged = [stored for was, stored in pairs if stored not in (was, f"{was}\n{NEW}")]
    assert len(damaged) <= MAX_DAMAGED


def batches_of(night: Night) -> list[int]:
    """Return the number of websites that were updated before each read."""
    batches: list[int] = []
    batch: set[str] = set()
    for request in night.sandbox.requests:
        if request.operation == "update":
            batch.add(request.path)
        elif batch and (request.operation == "list" or request.path in batch):
            batches.append(len(batch))
            batch = set()
    return batches


def test_batches_grow_and_each_is_read_back_before_the_next_one(night: Night) -> None:
    night.add(40)
    assert night.sync(NEW, parallel_requests=1)["applied"] == 40
    assert batches_of(night) == [1, 1, 2, 4, 16, 16]


def test_batches_begin_again_with_one_website_after_a_problem(night: Night) -> None:
    night.add(40, email=1)

    def edit(request: RecordedRequest) -> None:
        """Edit the fifth updated website before it is read back."""
        if request.operation != "update" and len(night.updated) == 8 and not edited:
            edited.append(sorted(night.updated)[-1])
            night.sandbox.change_website(int(edited[0]), email=0)

    edited: list[str] = []
    night.sandbox.meanwhile(edit)
    result = night.sync(NEW, parallel_requests=1)
    assert (result["applied"], len(result["unexpected_changes"])) == (40, 1)
    assert batches_of(night) == [1, 1, 2, 4, 1, 1, 2, 4, 16, 8]


def test_problem_that_another_task_corrects_during_the_wait_does_not_stop_the_run(
    night: Night, distortion: Distortion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0.5, 1.0, 2.0, 4.0))
    night.add(20, email=1)
    corrected: set[str] = set()

    def wait(_: Transport, seconds: float, unwanted: object = None) -> None:
        if seconds == 7.5:
            corrected.update(night.updated)

    def change(method: str, path: str, record: Website) -> None:
        if method == "GET" and str(record["id"]) in night.updated - corrected:
            record["email"] = 0

    monkeypatch.setattr(Transport, "wait", wait)
    distortion.change = change
    result = night.sync(NEW, parallel_requests=1, websites=[f"{number}.example" for number in range(1, 5)])
    assert (result["applied"], result["verified"]) == (4, True)


@pytest.mark.parametrize("listed", [0, 30])
def test_apply_stops_after_one_create_if_the_list_was_outdated(
    night: Night, distortion: Distortion, listed: int
) -> None:
    """A list can be complete and wrong; without a unique index, each create would be a second website."""
    night.sandbox.configure(allow_duplicates=True)
    night.add(60, privacy=1)
    old_rows = night.sandbox.websites()[:listed]

    def old_list(request: Request) -> tuple[int, Any]:
        path, _, text = request.target.partition("?")
        if not path.endswith("/websites") or request.method != "GET" or night.operations["create"]:
            return distortion.to_the_sandbox(request)
        query = dict(parse_qsl(text))
        rows = old_rows if query.get("sort") == "asc" else old_rows[::-1]
        return 200, {"data": rows[: int(query.get("per_page", 100))], "meta": {"total": len(rows), "current_page": 1}}

    distortion.forward = old_list
    config = {"websites": {f"{number}.example": {"privacy": "private"} for number in range(1, 61)}}
    with pytest.raises(BulkError, match=r"domains now that the plan would create as well|websites have the domain"):
        night.apply(config=config)
    assert night.operations["create"] == 1


def test_apply_stops_after_one_create_if_the_list_remains_empty(night: Night, distortion: Distortion) -> None:
    night.sandbox.configure(allow_duplicates=True)
    night.add(60, privacy=1)

    def empty_list(request: Request) -> tuple[int, Any]:
        if request.method == "GET" and request.target.partition("?")[0].endswith("/websites"):
            return 200, {"data": [], "meta": {"total": 0, "current_page": 1}}
        return distortion.to_the_sandbox(request)

    distortion.forward = empty_list
    config = {"websites": {f"{number}.example": {"privacy": "private"} for number in range(1, 61)}}
    with pytest.raises(BulkError, match=r"Created with the id 61, but it is missing from the list"):
        night.apply(config=config)
    assert night.operations["create"] == 1


def test_restored_list_is_exactly_the_text_that_was_read(night: Night) -> None:
    text = "10.0.0.1  # Ann\r\n\r\n10.1.0.0/16"  # a service trims the end of a sent text
    night.add(20, exclude_ips=text, privacy=1)
    night.sandbox.configure(updates="reset others")
    with pytest.raises(NotAppliedError, match="Its values were restored and verified"):
        night.sync(NEW)
    assert night.lists() == [text] * 20
