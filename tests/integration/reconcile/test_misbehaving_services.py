"""Hook, operators and engine against the same services that do something else than they are asked for.

Each service is an option of the zoo, and each way to write goes through it. No way ends green with a website that
is not as it should be, and a service that changes besides what was sent damages none of many websites for long.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute
from zoo import Zoo

from airflow_provider_analytics.exceptions import AnalyticsError, BulkError, NotAppliedError, StoppedError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.server import SandboxServer

OWN = "10.0.0.1 # Ann\n10.1.0.0/16\n10.0.0.2"
NEW = "203.0.113.7"
SETTINGS: dict[str, Any] = {"privacy": 1, "email": 1, "exclude_bots": 0, "exclude_params": "utm", "exclude_ips": OWN}


@dataclass(frozen=True)
class Service:
    """A service, by its options, and the ways to write that it lets be right nevertheless."""

    options: dict[str, Any]
    harmless_to: frozenset[str] = field(default_factory=frozenset)


def service(*harmless_to: str, **options: Any) -> Service:
    return Service(options, frozenset(harmless_to))


SERVICES = {
    "echoes and does not store": service(echoes=["create", "update"], ignored_fields=["exclude_ips"]),
    "ignores the list": service(ignored_fields=["exclude_ips"]),
    "ignores the list, empty": service(ignored_fields=["exclude_ips"], update_status=204, create_status=204),
    "resets other fields": service("create", updates="reset others"),
    "keeps only new lines": service("create", lists_stored="new lines"),
    "keeps only the last line": service("create", lists_stored="last line"),
    "drops comments": service("create", lists_stored="no comments"),
    "cuts lists": service("create", lists_stored="40 characters"),
    "shows commas": service("create", lists_as="commas"),
    "shows blanks": service("create", lists_as="blanks"),
    "shows <br>": service("create", lists_as="br"),
    "shows JSON text": service(lists_as="json"),
    "shows lists cut": service("create", lists_as="cut"),
    "shows lists cut with dots": service("create", lists_as="cut with dots"),
}
BEHIND = {
    "one read behind": {"reads_behind": 1},
    "two reads behind": {"reads_behind": 2},
    "one read behind, says nothing": {"reads_behind": 1, "update_status": 204, "create_status": 204},
}


def update_by_hook(execute: Execute) -> None:
    with AnalyticsHook() as hook:
        hook.update_website(1, exclude_ips=[*OWN.splitlines(), NEW])


def update_by_operator(execute: Execute) -> None:
    execute(UpdateWebsiteOperator, website_id=1, exclude_ips=[*OWN.splitlines(), NEW])


def create_by_hook(execute: Execute) -> None:
    with AnalyticsHook() as hook:
        hook.create_website("new.example", privacy="private", exclude_ips=[NEW])


def create_by_operator(execute: Execute) -> None:
    execute(CreateWebsiteOperator, domain="new.example", privacy="private", exclude_ips=[NEW])


def sync(execute: Execute) -> None:
    execute(SyncExcludedIpsOperator, exclude_ips=[NEW])


def apply(execute: Execute) -> None:
    websites = {f"{number}.example": {"exclude_ips": [NEW]} for number in range(1, 31)}
    execute(ApplyWebsitesOperator, config={"modes": {"exclude_ips": "merge"}, "websites": websites})


WAYS: dict[str, Callable[[Execute], None]] = {
    "hook.update_website": update_by_hook,
    "UpdateWebsite": update_by_operator,
    "hook.create_website": create_by_hook,
    "CreateWebsite": create_by_operator,
    "SyncExcludedIps": sync,
    "ApplyWebsites": apply,
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a website be read as often as in the field, at once."""
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0,) * 4)


@pytest.fixture
def websites(analytics_sandbox: SandboxServer) -> list[dict[str, Any]]:
    return [analytics_sandbox.add_website(f"{number}.example", **SETTINGS) for number in range(1, 31)]


def as_expected(website: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a website is as it was, but for the new entry at the end of its list."""
    return website == {**before, "exclude_ips": f"{OWN}\n{NEW}"}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SERVICES)
def test_no_way_to_write_is_green_where_the_service_does_something_else(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]], name: str, way: str
) -> None:
    analytics_sandbox.configure(**SERVICES[name].options)
    is_create = way in ("hook.create_website", "CreateWebsite")
    if is_create and "create" in SERVICES[name].harmless_to:
        WAYS[way](execute)
        assert analytics_sandbox.websites()[-1]["exclude_ips"] == NEW
        return
    with pytest.raises((AirflowFailException, AnalyticsError)) as caught:
        WAYS[way](execute)
    assert analytics_sandbox.api_key not in str(caught.value)
    if way in ("SyncExcludedIps", "ApplyWebsites"):
        damaged = [
            website
            for website, before in zip(analytics_sandbox.websites(), websites, strict=True)
            if website != before and not as_expected(website, before)
        ]
        assert len(damaged) <= 2
        updated = {request.path for request in analytics_sandbox.requests if request.operation == "update"}
        assert len(updated) <= 2
        # A retry would only do the same to the next two.
        assert isinstance(caught.value, AirflowFailException) or not updated


@pytest.mark.parametrize("name", ["resets other fields", "keeps only new lines", "ignores the list"])
@pytest.mark.parametrize("way", ["SyncExcludedIps", "ApplyWebsites"])
def test_two_websites_are_changed_and_put_back(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]], name: str, way: str
) -> None:
    analytics_sandbox.configure(**SERVICES[name].options)
    with pytest.raises(AirflowFailException) as caught:
        WAYS[way](execute)
    error = str(caught.value)
    # What was lost is put back; what was sent and is in effect stays.
    for website, before in zip(analytics_sandbox.websites(), websites, strict=True):
        assert website == before or as_expected(website, before)
    for part in ("so the service does it with each website", "Sent: exclude_ips", "28 websites were not changed"):
        assert part in error
    assert error.count("It was put back, and its previous values were verified") == 2
    assert "Not retried: " in error


@pytest.mark.parametrize("step", range(3, 31))
def test_a_stop_at_any_request_hides_no_website_that_the_service_damaged(
    analytics_sandbox: Zoo, execute: Execute, websites: list[dict[str, Any]], step: int
) -> None:
    analytics_sandbox.configure(updates="reset others")
    task = SyncExcludedIpsOperator(task_id="sync", exclude_ips=[NEW])

    def stop(request: RecordedRequest) -> None:
        if len(analytics_sandbox.requests) == step:
            task.on_kill()

    analytics_sandbox.meanwhile(stop)
    with pytest.raises((AirflowFailException, StoppedError)) as caught:
        task.execute({})
    for website, before in zip(analytics_sandbox.websites(), websites, strict=True):
        assert website == before or as_expected(website, before) or f"{website['domain']} (id " in str(caught.value)


@pytest.mark.parametrize("number", [1, 4])
def test_an_entry_that_is_not_removed_is_seen_on_a_list_of_many_writers(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, number: int
) -> None:
    for one in range(number):
        analytics_sandbox.add_website(f"{one}.example", exclude_ips=OWN)
    ours = {"state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, exclude_ips=[NEW, "203.0.113.8"], **ours)
    analytics_sandbox.configure(ignored_fields=["exclude_ips"])
    with pytest.raises((AnalyticsError, AirflowFailException), match=f"has besides {NEW}"):
        execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.8"], **ours)


def test_a_comment_that_is_lost_in_an_early_round_is_not_forgotten(analytics_sandbox: Zoo, execute: Execute) -> None:
    """The service drops the line of one website only: the entry was added again without its comment, all green."""
    for number in range(1, 9):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips=f"{NEW} # Ann\n192.0.2.{number}")
    updates: list[int] = []

    def drop(request: RecordedRequest) -> None:
        if request.operation == "show" and updates == [6]:
            analytics_sandbox.change_website(6, exclude_ips="192.0.2.6\n203.0.113.8")
            updates.append(0)
        if request.operation == "update" and request.path.endswith("/6"):
            updates.append(6)

    analytics_sandbox.meanwhile(drop)
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW, "203.0.113.8"], parallel_requests=1)
    assert result["verified"] is False
    assert [one for one in result["unexpected_changes"] if "6.example" in one and f"lacks {NEW} # Ann" in one]


def test_the_most_telling_website_is_changed_first(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    for number in range(1, 11):
        analytics_sandbox.add_website(f"{number}.example")
    telling = [analytics_sandbox.add_website(f"{number}.example", **SETTINGS) for number in (11, 12)]
    analytics_sandbox.configure(updates="reset others")
    with pytest.raises(AirflowFailException):
        sync(execute)
    updated = {
        int(request.path.rpartition("/")[2]) for request in analytics_sandbox.requests if request.operation == "update"
    }
    assert updated == {one["id"] for one in telling}


@pytest.mark.parametrize(
    "only", [{"privacy": 1}, {"favorite": True}, {"exclude_params": "utm"}], ids=["privacy", "favorite", "list"]
)
@pytest.mark.parametrize("number", [2, 12])
def test_what_one_website_only_could_tell_is_not_taken_for_the_edit_of_a_person(
    analytics_sandbox: SandboxServer, execute: Execute, number: int, only: dict[str, Any]
) -> None:
    """The others have only defaults, and the first has the lines that tell most."""
    analytics_sandbox.add_website("first.example", exclude_ips=OWN)
    analytics_sandbox.add_website("only.example", **only)
    for one in range(2, number):
        analytics_sandbox.add_website(f"{one}.example")
    analytics_sandbox.configure(updates="reset others")
    with pytest.raises(AirflowFailException, match=f"{next(iter(only))} .*only.example"):
        sync(execute)


def test_one_website_alone_that_is_not_as_it_was_fails_and_is_not_retried(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    """No second website decides whether it is the service: nothing is written again."""
    analytics_sandbox.add_website("a.example", **SETTINGS)
    analytics_sandbox.configure(updates="reset others")
    with pytest.raises(AirflowFailException, match=r"privacy is 'public', was 'private'.*Before: privacy private"):
        sync(execute)
    assert [request.operation for request in analytics_sandbox.requests].count("update") == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BEHIND)
def test_a_service_that_shows_a_write_late_is_waited_for(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]], name: str, way: str
) -> None:
    analytics_sandbox.configure(**BEHIND[name])
    WAYS[way](execute)
    if way in ("hook.create_website", "CreateWebsite"):
        created = analytics_sandbox.websites()[-1]
        assert (created["privacy"], created["exclude_ips"]) == (1, NEW)
    else:
        changed = (
            analytics_sandbox.websites()
            if way in ("SyncExcludedIps", "ApplyWebsites")
            else [analytics_sandbox.websites()[0]]
        )
        assert all(
            as_expected(website, websites[0] | {n: website[n] for n in ("id", "domain", "created_at")})
            for website in changed
        )


@pytest.mark.parametrize("missing", ["404", "410", "403", "200"])
@pytest.mark.parametrize("deletes", ["remove", "mark"])
def test_a_delete_is_verified_whatever_the_service_says_of_what_is_gone(
    analytics_sandbox: SandboxServer, execute: Execute, missing: str, deletes: str
) -> None:
    for domain in ("a.example", "b.example", "c.example"):
        analytics_sandbox.add_website(domain)
    analytics_sandbox.configure(missing=missing, deletes=deletes)
    assert execute(DeleteWebsiteOperator, domain="a.example")["deleted"] is True
    with AnalyticsHook() as hook:
        hook.delete_website(2)
    config = {"defaults": {"privacy": "public"}, "websites": {}}
    result = execute(ApplyWebsitesOperator, config=config, prune=True, accept=["empty", "delete"])
    assert (result["applied"], result["verified"]) == (1, True)
    assert analytics_sandbox.websites() == []


@pytest.mark.parametrize("missing", ["404", "403", "200"])
def test_a_delete_that_is_not_done_is_never_green(
    analytics_sandbox: SandboxServer, execute: Execute, missing: str
) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    analytics_sandbox.configure(missing=missing, deletes="keep")
    with pytest.raises(NotAppliedError):
        execute(DeleteWebsiteOperator, domain="a.example")
    with AnalyticsHook() as hook, pytest.raises(NotAppliedError):
        hook.delete_website(1)
    with pytest.raises((BulkError, AirflowFailException)):
        execute(ApplyWebsitesOperator, config={"websites": {}}, prune=True, accept=["empty", "delete"])
    assert len(analytics_sandbox.websites()) == 2


def test_a_delete_that_is_answered_with_not_found_is_not_believed(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    analytics_sandbox.fault("delete", status=404, times=None)
    with pytest.raises(NotAppliedError, match="still exists"):
        execute(DeleteWebsiteOperator, domain="a.example")
    with AnalyticsHook() as hook, pytest.raises(NotAppliedError, match="still exists"):
        hook.delete_website(1)
    with pytest.raises((BulkError, AirflowFailException), match="still exists"):
        execute(ApplyWebsitesOperator, config={"websites": {}}, prune=True, accept=["empty", "delete"])


@pytest.mark.parametrize("domain_as", ["with scheme", "with port", "with slash", "with www", "without www"])
def test_a_domain_that_is_kept_in_another_way_is_found_before_a_create(
    analytics_sandbox: SandboxServer, execute: Execute, domain_as: str
) -> None:
    analytics_sandbox.configure(domain_as=domain_as, allow_duplicates=True)
    domain = "www.shop.example" if domain_as == "without www" else "shop.example"
    for _ in range(3):
        with contextlib.suppress(AirflowFailException):
            execute(CreateWebsiteOperator, domain=domain)
    assert len(analytics_sandbox.websites()) == 1
    assert [request.operation for request in analytics_sandbox.requests].count("create") == 1


@pytest.mark.parametrize("search", ["part", "case", "start", "label", "exact", "late", "nothing"])
def test_one_of_two_websites_of_a_domain_is_never_deleted(
    analytics_sandbox: SandboxServer, execute: Execute, search: str
) -> None:
    analytics_sandbox.add_website("shop.example")
    for number in range(150):
        analytics_sandbox.add_website(f"{number}.shop.example")
    analytics_sandbox.add_website("Shop.example")
    analytics_sandbox.configure(search_matches=search)
    with pytest.raises(AirflowFailException, match="2 websites have the domain"):
        execute(DeleteWebsiteOperator, domain="shop.example")
    assert len(analytics_sandbox.websites()) == 152


def test_what_a_create_costs(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.seed(250)
    execute(CreateWebsiteOperator, domain="new.example", privacy="private")
    assert len(analytics_sandbox.requests) <= 7


def test_what_is_not_shown_is_named_and_not_counted_as_verified(
    analytics_sandbox: SandboxServer, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", '{"conn_type": "generic", "password": "s3cret-page"}')
    analytics_sandbox.seed(3)
    analytics_sandbox.configure(list_hides=["favorite", "email"])
    assert execute(SyncExcludedIpsOperator, exclude_ips=[NEW])["verified"] is True
    created = execute(
        CreateWebsiteOperator, domain="p.example", privacy="password", password_from="connection:page_password"
    )
    assert (created["verified"], created["unverified"]) == (False, ["password"])


@pytest.mark.parametrize(
    "make",
    [iter, list, tuple, lambda one: (entry for entry in one), lambda one: dict(enumerate(one)).values()],
    ids=["iterator", "list", "tuple", "generator", "values"],
)
def test_every_iterable_is_read_once_and_kept(
    analytics_sandbox: SandboxServer, execute: Execute, make: Callable[[list[str]], Any]
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips=OWN)
    entries = ["192.0.2.1", "192.0.2.2"]
    with AnalyticsHook() as hook:
        assert hook.update_website(1, exclude_ips=make(entries))["exclude_ips"] == "192.0.2.1\n192.0.2.2"
        hook.create_website("b.example", exclude_ips=make(entries))
    update = UpdateWebsiteOperator(task_id="update", website_id=1, exclude_ips=make(entries))
    create = CreateWebsiteOperator(task_id="create", domain="c.example", exclude_ips=make(entries))
    for task in (update, create, update, create):  # a retry may run the same object
        assert task.execute({})["website"]["exclude_ips"] == "192.0.2.1\n192.0.2.2"
    arguments: dict[str, Any] = {
        "exclude_ips": make(["203.0.113.1"]),
        "websites": make(["a.example", "b.example"]),
        "except_websites": make(["b.example"]),
        "per_website": {"a.example": make(["203.0.113.2"])},
    }
    sync_task = SyncExcludedIpsOperator(task_id="sync", **arguments)
    for applied in (1, 0):
        result = sync_task.execute({})
        assert (result["websites"], result["applied"]) == (1, applied)
    assert analytics_sandbox.websites()[0]["exclude_ips"].split() == [*entries, "203.0.113.1", "203.0.113.2"]


def test_what_is_set_after_a_create_is_not_forgotten(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    """The update that marks a new website as favourite fails: it is done again, or the task is red."""
    analytics_sandbox.configure(reads_behind=1)
    config = {"websites": {"new.example": {"privacy": "private", "favorite": True}}}
    result = execute(ApplyWebsitesOperator, config=config)
    assert (result["applied"], result["verified"]) == (1, True)
    assert analytics_sandbox.websites()[0]["favorite"] is True
    analytics_sandbox.reset()
    analytics_sandbox.fault("update", status=422, times=None)
    with pytest.raises((BulkError, AirflowFailException), match="favorite"):
        execute(ApplyWebsitesOperator, config=config)


@pytest.mark.parametrize("operation", ["show", "update"])
def test_one_answer_that_a_website_does_not_exist_is_not_believed(
    analytics_sandbox: SandboxServer, execute: Execute, operation: Any
) -> None:
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.fault(operation, status=404)
    with pytest.raises(BulkError, match=r"a\.example"):
        sync(execute)


def test_one_delete_that_is_answered_with_not_found_is_not_believed(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    analytics_sandbox.fault("show", status=404)
    with pytest.raises(BulkError, match=r"b\.example"):
        execute(ApplyWebsitesOperator, config={"websites": {"a.example": {}}}, prune=True, accept=["empty", "delete"])


def test_websites_of_different_kinds_are_not_ruined_one_by_one(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    """Two are changed in the same way, three each in its own."""
    for number in range(1, 6):
        analytics_sandbox.add_website(f"{number}.example", favorite=True, exclude_bots=1, email=0)
    analytics_sandbox.configure(updates="reset others")
    ways: list[dict[str, Any]] = [
        {"email": True},
        {"email": True},
        {"exclude_bots": False},
        {"privacy": "private"},
        {"exclude_ips": [NEW]},
    ]
    config = {"websites": {f"{number}.example": way for number, way in enumerate(ways, 1)}}
    with pytest.raises(AirflowFailException, match="so the service does it with each website"):
        execute(ApplyWebsitesOperator, config=config)
    assert [website["favorite"] for website in analytics_sandbox.websites()] == [True] * 5
    updated = {request.path for request in analytics_sandbox.requests if request.operation == "update"}
    assert len(updated) == 2


@pytest.mark.parametrize("way", ["SyncExcludedIps", "ApplyWebsites"])
def test_a_service_that_drops_single_lines_is_told_and_not_stopped(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]], way: str
) -> None:
    """Another tool may have removed them."""
    analytics_sandbox.configure(lists_stored="no networks")
    arguments: dict[str, Any] = {"exclude_ips": [NEW]}
    if way == "ApplyWebsites":
        listed = {f"{number}.example": {"exclude_ips": [NEW]} for number in range(1, 31)}
        arguments = {"config": {"modes": {"exclude_ips": "merge"}, "websites": listed}}
    result = execute(SyncExcludedIpsOperator if way == "SyncExcludedIps" else ApplyWebsitesOperator, **arguments)
    assert (result["applied"], result["verified"]) == (30, False)
    assert result["unexpected_changes"][0] == "1.example (id 1): exclude_ips lacks 10.1.0.0/16"
    assert all(NEW in website["exclude_ips"] for website in analytics_sandbox.websites())


def test_a_website_that_could_not_be_read_is_put_back_with_the_others(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]]
) -> None:
    analytics_sandbox.configure(updates="reset others")
    for path in ("1", "2"):
        analytics_sandbox.fault("show", target=rf"/websites/{path}$", skip=1, times=5, status=422)
    with pytest.raises(AirflowFailException, match="so the service does it with each website"):
        sync(execute)
    for website, before in zip(analytics_sandbox.websites(), websites, strict=True):
        assert website == before or as_expected(website, before)


def test_a_service_that_writes_entries_in_another_case_is_no_second_writer(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    for number in range(12):
        analytics_sandbox.add_website(f"{number}.example", exclude_params="own")
    analytics_sandbox.configure(lists_stored="normalized")
    with pytest.raises(AirflowFailException, match="so the service does it with each website"):
        execute(SyncExcludedParamsOperator, exclude_params=["utm"])
    assert sum(website["exclude_params"] != "own" for website in analytics_sandbox.websites()) <= 2


def test_after_a_doubt_what_was_not_covered_yet_decides(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    """No other website has what the first one lost; two have something of their own, two nothing."""
    own: list[dict[str, Any]] = [{"email": 1}, {"exclude_ips": "10.0.0.2"}, {"favorite": True}, {}, {}]
    for number, one in enumerate(own):
        analytics_sandbox.add_website(f"{number}.example", exclude_params="utm # Ann\nutm_*", **one)
    before = analytics_sandbox.websites()
    analytics_sandbox.configure(updates="reset others")
    with pytest.raises(AirflowFailException, match="so the service does it with each website"):
        execute(SyncExcludedParamsOperator, exclude_params=["ref"])
    after = analytics_sandbox.websites()
    assert [{**one, "exclude_params": ""} for one in after] == [{**one, "exclude_params": ""} for one in before]
