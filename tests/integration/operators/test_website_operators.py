# SPDX-License-Identifier: Apache-2.0
"""Operators of a single website, with every branch (``operators/websites.py``)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import times_logged
from fake_services import FakeService
from fixture_types import Execute

from airflow_provider_analytics.exceptions import AnalyticsError, DomainError, NotFoundError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

PAGE = {"privacy": "password", "password_from": "connection:page_password"}


def run(operator: type, **arguments: Any) -> Any:
    return operator(task_id="task", **arguments).execute({})


def sent(sandbox: SandboxServer, operation: str) -> list[dict[str, str]]:
    return [dict(request.form) for request in sandbox.requests if request.operation == operation]


def test_list_returns_every_website(sandbox: SandboxServer) -> None:
    sandbox.seed(12)
    ids = [website["id"] for website in sandbox.websites()]
    domains = sorted(website["domain"] for website in sandbox.websites())
    favorites = [website["id"] for website in sandbox.websites() if website["favorite"]]
    assert 0 < len(favorites) < 12

    def found(name: str = "id", **arguments: Any) -> list[Any]:
        return [website[name] for website in run(ListWebsitesOperator, **arguments)]

    assert found() == found(max_records=12) == ids[::-1]
    assert found(sort="asc", per_page=10) == ids
    assert found("domain", sort_by="domain", sort="asc") == domains
    assert sorted(found(favorite="true")) == favorites
    assert {*found(favorite=False, search_by="domain")} == {*ids} - {*favorites}
    assert domains[0] in found("domain", search=domains[0])
    assert found(search="no such domain") == []
    with pytest.raises(AirflowFailException, match="more websites than max_records=11 allows"):
        found(max_records="11")
    with pytest.raises(AirflowFailException, match="more websites than max_records=1 allows"):
        found(max_records="1")


def test_list_above_the_limit_is_not_read_further(sandbox: SandboxServer) -> None:
    sandbox.seed(1000)
    with pytest.raises(AirflowFailException, match="more websites than max_records=95 allows"):
        run(ListWebsitesOperator, max_records=95, per_page=10)
    assert 10 <= len(sent(sandbox, "list")) < 30


def test_get_returns_the_website_of_an_id_or_domain(sandbox: SandboxServer) -> None:
    website = sandbox.add_website("www.example.com", exclude_ips="10.0.0.1")
    sandbox.add_website("not-www.example.com")
    for arguments in ({"website_id": 1}, {"website_id": "1"}, {"domain": "WWW.Example.com."}):
        assert run(GetWebsiteOperator, **arguments) == website
    with pytest.raises(NotFoundError):
        run(GetWebsiteOperator, website_id=999)
    with pytest.raises(DomainError):
        run(GetWebsiteOperator, domain="example.com")


def test_create_makes_a_website_if_the_domain_is_new(sandbox: SandboxServer, page_password: str) -> None:
    run(CreateWebsiteOperator, domain="plain.example.com")
    done = run(CreateWebsiteOperator, domain="password.example.com", **PAGE)
    run(CreateWebsiteOperator, domain="cleared.example.com", exclude_ips=[], exclude_params=[])
    plain, password, _ = sandbox.websites()
    assert (plain["privacy"], plain["email"], plain["exclude_bots"]) == (0, 0, 1)
    assert sandbox.stored_password(password["id"]) == page_password
    assert sent(sandbox, "create")[0] == {"domain": "plain.example.com"}
    nothing: dict[str, Any] = {name: [] for name in ("updated", "differing", "unexpected_changes")}
    expected = {"website_id": 2, "domain": "password.example.com", "created": True, "verified": False}
    assert done == {**expected, **nothing, "website": password, "unverified": ["password"]}


@pytest.mark.parametrize("if_exists", ["skip", "update", "fail"])
def test_create_returns_the_existing_website_of_the_domain(
    sandbox: SandboxServer, task_log: Callable[[], str], if_exists: str
) -> None:
    before = sandbox.add_website("www.example.com", exclude_ips="10.0.0.1", exclude_params="b\r\na\r\n")
    same, other = {"email_reports": False, "exclude_params": ["a", "b"]}, {"privacy": "PRIVATE", "exclude_ips": "::1"}
    create: dict[str, Any] = {"domain": "WWW.example.com", "if_exists": if_exists, **same, **other}
    if if_exists == "fail":
        with pytest.raises(AirflowFailException, match="exists, with id 1"):
            run(CreateWebsiteOperator, **create)
    else:
        done = run(CreateWebsiteOperator, **create)
        assert (done["website"], done["created"]) == (sandbox.websites()[0], False)
        named = ["privacy", "exclude_ips"]
        assert (done["updated"], done["differing"]) == ((named, []) if if_exists == "update" else ([], named))
    if if_exists == "update":
        assert sent(sandbox, "update") == [{"privacy": "1", "exclude_ips": "::1"}]
        sandbox.clear_requests()
        assert run(CreateWebsiteOperator, **create)["website"] == sandbox.websites()[0]
    else:
        assert sandbox.websites() == [before]
    assert ("was left unchanged. Settings that differ or are not returned: privacy, exclude_ips." in task_log()) == (
        if_exists == "skip"
    )
    assert {request.method for request in sandbox.requests} == {"GET"}  # settings in effect are not sent


def test_update_changes_only_the_given_settings(
    sandbox: SandboxServer, page_password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    masked: list[str] = []
    monkeypatch.setattr("airflow_provider_analytics.operators.reconciling.mask_secret", masked.append)
    sandbox.add_website("www.example.com", exclude_ips="10.0.0.1", exclude_params="a")
    changes: list[dict[str, Any]] = [
        {"email_reports": True},
        {**PAGE, "website_id": None, "domain": "www.example.com"},
        {"website_id": "1", "exclude_ips": [], "exclude_params": []},
        {"favorite": "1"},
        {"favorite": False},
        {"favorite": False, "exclude_ips": []},
    ]
    done = [run(UpdateWebsiteOperator, **{"website_id": 1, **change}) for change in changes]
    assert sent(sandbox, "update") == [
        {"email": "1"},
        {"privacy": "2", "password": page_password},
        {"exclude_params": "", "exclude_ips": ""},
        {"favorite": "1"},
        {"favorite": "0"},
    ]
    assert [sandbox.stored_password(1)] == masked == [page_password]
    assert done[-1]["website"] == done[-2]["website"] == sandbox.websites()[0]
    assert (done[-2]["updated"], done[-1]["updated"]) == (["favorite"], [])
    assert all("password" not in item["website"] for item in done)
    with pytest.raises(NotFoundError):
        run(UpdateWebsiteOperator, website_id=2, email_reports=True)


def test_delete_removes_the_website_of_the_domain(sandbox: SandboxServer, connect: Callable[..., None]) -> None:
    for name in "abc":
        sandbox.add_website(f"{name}.example.com")
    for deleted in (True, False):
        assert run(DeleteWebsiteOperator, website_id=1) == {"website_id": 1, "domain": None, "deleted": deleted}
        named = {"website_id": None, "domain": "B.example.com", "deleted": deleted}
        assert run(DeleteWebsiteOperator, domain="B.example.com") == named
    assert run(DeleteWebsiteOperator, website_id=3, ignore_if_missing="false")["deleted"] is True
    assert sandbox.websites() == []
    connect("wrong_place", host=f"{sandbox.url}/elsewhere")
    connect("wrong_key", password="wr0ng-key")
    rejected: list[tuple[type[Exception], dict[str, Any]]] = [
        (NotFoundError, {"website_id": 3, "ignore_if_missing": "false"}),
        (DomainError, {"domain": "c.example.com", "ignore_if_missing": False}),
        (AnalyticsError, {"website_id": 9, "analytics_conn_id": "wrong_place"}),
        (AnalyticsError, {"domain": "b.example.com", "analytics_conn_id": "wrong_place"}),
        (AirflowFailException, {"website_id": 9, "analytics_conn_id": "wrong_key"}),
    ]
    for error, arguments in rejected:
        with pytest.raises(error):
            run(DeleteWebsiteOperator, **arguments)


@pytest.mark.parametrize(
    ("operator", "settings"), [(DeleteWebsiteOperator, {}), (UpdateWebsiteOperator, {"favorite": True})]
)
def test_id_and_domain_that_are_given_together_must_both_match(
    sandbox: SandboxServer, operator: type, settings: dict[str, Any]
) -> None:
    sandbox.add_website("a.example")
    with pytest.raises(AirflowFailException, match=r"Website id 1 has the domain 'a\.example', not 'b\.example'"):
        run(operator, website_id=1, domain="b.example", **settings)
    assert {request.method for request in sandbox.requests} == {"GET"}
    run(operator, website_id=1, domain="A.example.", **settings)
    assert [request.method for request in sandbox.requests if request.method != "GET"] in (["DELETE"], ["PATCH"])


def test_website_that_exists_is_not_updated_if_it_was_renamed_after_it_was_found(sandbox: FakeService) -> None:
    sandbox.add_website("a.example", privacy=0)

    def rename(request: Any) -> None:
        if request.operation == "show":
            sandbox.change_website(1, domain="renamed.example")

    sandbox.meanwhile(rename)
    with pytest.raises(AirflowFailException, match=r"Website id 1 has the domain 'renamed\.example', not 'a\.example'"):
        run(CreateWebsiteOperator, domain="a.example", privacy="private", if_exists="update")
    assert sandbox.websites()[0]["privacy"] == 0


ENTRIES = """
# offices
203.0.113.7  # office Berlin, owner=it@example.com, until=2099-01-31
203.0.113.8  # gone, until=2020-01-31
2001:DB8::7
203.0.113.0/24 # Munich
"""


@pytest.mark.parametrize(
    ("entries", "stored"),
    [
        (ENTRIES, "203.0.113.7\n2001:db8::7\n203.0.113.0/24"),
        (
            [{"entry": "203.0.113.7", "comment": "office"}, {"entry": "203.0.113.8", "reason": "home"}],
            "203.0.113.7 # office\n203.0.113.8",
        ),
    ],
    ids=["text", "comment"],
)
@pytest.mark.parametrize("operator", [CreateWebsiteOperator, UpdateWebsiteOperator])
def test_operators_of_a_single_website_send_only_comments_that_are_given_as_comment(
    operator: Any, entries: Any, stored: str, analytics_sandbox: SandboxServer
) -> None:
    if operator is UpdateWebsiteOperator:
        analytics_sandbox.add_website("a.example")
    operator(task_id="task", domain="a.example", exclude_ips=entries, exclude_params="utm # ads\n# more\n").execute({})
    (website,) = analytics_sandbox.websites()
    assert website["exclude_ips"] == stored
    assert website["exclude_params"] == "utm"


def test_sync_removes_an_address_that_a_create_sent_from_the_same_list(
    analytics_sandbox: SandboxServer, tmp_path: Path, execute: Execute
) -> None:
    text = "203.0.113.7 # office\n203.0.113.8\n"
    execute(CreateWebsiteOperator, domain="a.example", privacy="private", exclude_ips=text)
    state = {"state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, exclude_ips=text, **state)
    execute(SyncExcludedIpsOperator, exclude_ips="203.0.113.8", **state)
    assert analytics_sandbox.websites()[0]["exclude_ips"] == "203.0.113.8"


@pytest.mark.parametrize(("given", "warnings"), [({}, 1), ({"privacy": "public"}, 0), ({"privacy": "private"}, 0)])
def test_create_without_privacy_warns_once_that_the_page_is_public(
    given: dict[str, Any], warnings: int, analytics_sandbox: SandboxServer, task_log: Callable[[], str]
) -> None:
    for _ in range(2):  # the second time, the website exists
        CreateWebsiteOperator(task_id="task", domain="a.example", **given).execute({})
    warning = "The statistics page of a.example is public, because privacy was not given."
    assert times_logged(task_log(), warning) == warnings


@pytest.mark.parametrize(
    ("settings", "is_warned"),
    [
        ({"privacy": "password"}, True),
        ({"privacy": 2, "email_reports": True}, True),
        ({"privacy": "private"}, False),
        ({"email_reports": True}, False),
    ],
)
def test_password_protection_without_a_password_is_logged(
    sandbox: SandboxServer, task_log: Callable[[], str], settings: dict[str, Any], is_warned: bool
) -> None:
    run(CreateWebsiteOperator, domain="new.example", **settings)
    assert ("The privacy of new.example is 'password', and no password was given." in task_log()) is is_warned
    website = sandbox.add_website("a.example")
    run(UpdateWebsiteOperator, website_id=website["id"], **settings)
    assert ("privacy becomes 'password', and no password was given" in task_log()) is is_warned


@pytest.mark.parametrize(
    ("status", "body"), [(403, "<html>Blocked</html>"), (405, "<html></html>"), (501, "<html></html>")]
)
def test_update_of_a_single_website_names_the_method_that_a_page_rejects(
    sandbox: SandboxServer, status: int, body: str
) -> None:
    sandbox.add_website("a.example")
    sandbox.fault("update", status=status, body=body, times=None)
    with pytest.raises((AnalyticsError, AirflowFailException), match="set the extra update_method to PUT"):
        run(UpdateWebsiteOperator, domain="a.example", privacy="private")
