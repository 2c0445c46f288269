"""Each operator's every branch."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG
from airflow_versions import needs_xcoms_of_none
from dag_runs import RunDag
from fixture_types import RunTasks
from task_list import Task, ends

from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

Arguments = dict[str, Any]

PAGE_PASSWORD = "connection:page_password"


def operations(sandbox: SandboxServer) -> list[str | None]:
    return [request.operation for request in sandbox.requests]


def writes(sandbox: SandboxServer) -> list[str | None]:
    return [name for name in operations(sandbox) if name in ("create", "update", "delete")]


def all_done(tasks: Any) -> bool:
    return set(ends(tasks).values()) == {("success", 1)}


SIX = {
    "create": Task(
        CreateWebsiteOperator,
        domain="{{ dag_run.conf['domain'] }}",
        privacy="{{ 'private' }}",
        email_reports="{{ 1 }}",
        exclude_bots="{{ false }}",
        exclude_params="{{ 'utm_source\nutm_medium' }}",
        exclude_ips=["{{ '10.0.0.1' }}", "10.0.0.2"],
        if_exists="{{ 'update' }}",
        analytics_conn_id="{{ dag_run.conf['conn'] }}",
    ),
    "websites": Task(
        ListWebsitesOperator, search="{{ dag_run.conf['domain'] }}", per_page="{{ 5 * 2 }}", max_records="{{ 1 }}"
    ),
    "get": Task(GetWebsiteOperator, website_id="{{ ti.xcom_pull('create')['website_id'] }}"),
    "update": Task(
        UpdateWebsiteOperator, domain="{{ ti.xcom_pull('get')['domain'] }}", favorite="{{ True }}", exclude_ips=[]
    ),
    "account": Task(GetAccountOperator),
    "delete": Task(DeleteWebsiteOperator, domain="{{ dag_run.conf['gone'] }}", ignore_missing="{{ True }}"),
}
CONF = {"domain": "www.example.com", "gone": "old.example.com", "conn": "analytics_default"}


def test_all_six_operations_in_one_run_and_again(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.add_website("old.example.com")
    first = run_tasks(conf=CONF, **SIX)
    assert all_done(first)
    created = first["create"].returned["website"]
    switches = {"privacy": 1, "email": 1, "exclude_bots": 0, "favorite": False}
    lists = {"exclude_params": "utm_source\nutm_medium", "exclude_ips": "10.0.0.1\n10.0.0.2"}
    assert created.items() >= {"domain": "www.example.com", **switches, **lists}.items()
    assert first["websites"].returned == [created]
    assert first["get"].returned == created
    nothing: Arguments = {name: [] for name in ("updated", "differing", "unverified", "unexpected_changes")}
    done = {"website_id": 2, "domain": "www.example.com", "created": True, "verified": True, "website": created}
    assert first["create"].returned == {**done, **nothing}
    assert first["update"].returned["website"] == {**created, "favorite": True, "exclude_ips": None}
    assert first["update"].returned["updated"] == ["exclude_ips", "favorite"]
    assert first["account"].returned["id"] == 1
    assert first["delete"].returned == {"website_id": None, "domain": "old.example.com", "deleted": True}
    assert sandbox.websites() == [first["update"].returned["website"]]

    again = run_tasks(conf=CONF, **SIX)
    assert all_done(again)
    assert again["create"].returned["updated"] == ["exclude_ips"]
    assert again["update"].returned == first["update"].returned
    assert again["delete"].returned == {"website_id": None, "domain": "old.example.com", "deleted": False}
    assert sandbox.websites() == [first["update"].returned["website"]]
    assert writes(sandbox).count("create") == 1


def test_list(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.seed(12)
    ids = [website["id"] for website in sandbox.websites()]
    domains = sorted(website["domain"] for website in sandbox.websites())
    favorites = {website["id"] for website in sandbox.websites() if website["favorite"]}
    assert 0 < len(favorites) < 12
    tasks = run_tasks(
        everything=Task(ListWebsitesOperator),
        oldest_first=Task(ListWebsitesOperator, sort="asc", per_page=10),
        by_domain=Task(ListWebsitesOperator, sort_by="domain", sort="asc"),
        favorites=Task(ListWebsitesOperator, favorite="{{ true }}"),
        others=Task(ListWebsitesOperator, favorite=False, search_by="domain"),
        one=Task(ListWebsitesOperator, search=domains[0]),
        none=Task(ListWebsitesOperator, search="no such domain"),
        just_fits=Task(ListWebsitesOperator, max_records=12),
        too_many=Task(ListWebsitesOperator, max_records="{{ 11 }}"),
        no_limit=Task(ListWebsitesOperator, max_records=0),
    )

    def found(task_id: str, name: str = "id") -> list[Any]:
        return [website[name] for website in tasks[task_id].returned]

    assert found("everything") == found("just_fits") == ids[::-1]
    assert found("oldest_first") == ids
    assert found("by_domain", "domain") == domains
    assert set(found("favorites")) == favorites
    assert set(found("others")) == set(ids) - favorites
    assert domains[0] in found("one", "domain")
    assert tasks["none"].returned == []
    for task_id in ("too_many", "no_limit"):
        assert (tasks[task_id].state, tasks[task_id].try_number) == ("failed", 1), task_id
        assert tasks[task_id].returned is None


def test_a_list_that_is_too_long_is_read_no_further(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.seed(1000)
    [task] = run_tasks(too_many=Task(ListWebsitesOperator, max_records=95, per_page=10)).values()
    assert (task.state, task.try_number) == ("failed", 1)
    assert 10 <= operations(sandbox).count("list") < 30


def test_get(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    website = sandbox.add_website("www.example.com", exclude_ips="10.0.0.1")
    sandbox.add_website("not-www.example.com")
    tasks = run_tasks(
        by_id=Task(GetWebsiteOperator, website_id=website["id"]),
        by_id_as_text=Task(GetWebsiteOperator, website_id=str(website["id"])),
        by_domain=Task(GetWebsiteOperator, domain="WWW.Example.com."),
        unknown_id=Task(GetWebsiteOperator, website_id=999),
        unknown_domain=Task(GetWebsiteOperator, domain="example.com"),
    )
    assert tasks["by_id"].returned == tasks["by_id_as_text"].returned == tasks["by_domain"].returned == website
    assert ends(tasks) == {
        **dict.fromkeys(("by_id", "by_id_as_text", "by_domain"), ("success", 1)),
        **dict.fromkeys(("unknown_id", "unknown_domain"), ("failed", 2)),
    }


def test_create_where_nothing_is(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    tasks = run_tasks(
        plain=Task(CreateWebsiteOperator, domain="plain.example.com"),
        password=Task(CreateWebsiteOperator, domain="password.example.com", privacy=2, password_from=PAGE_PASSWORD),
        cleared=Task(CreateWebsiteOperator, domain="cleared.example.com", exclude_ips=[], exclude_params=[]),
    )
    assert all_done(tasks)
    plain, password, _ = sandbox.websites()
    assert (plain["privacy"], plain["email"], plain["exclude_bots"]) == (0, 0, 1)
    assert sandbox.stored_password(password["id"]) == "s3cret-page"
    assert tasks["password"].returned["website"] == password
    assert (tasks["password"].returned["verified"], tasks["password"].returned["unverified"]) == (False, ["password"])
    posted = [request.form for request in sandbox.requests if request.operation == "create"]
    assert posted[0] == [("domain", "plain.example.com")]


@pytest.mark.parametrize(
    ("if_exists", "state", "sent"),
    [
        ("skip", "success", []),
        ("update", "success", [{"privacy": "1", "exclude_ips": "10.0.0.2"}]),
        ("fail", "failed", []),
    ],
)
def test_create_where_one_is(
    sandbox: SandboxServer,
    run_tasks: RunTasks,
    task_log: Callable[[], str],
    if_exists: str,
    state: str,
    sent: list[Arguments],
) -> None:
    before = sandbox.add_website("www.example.com", exclude_ips="10.0.0.1", exclude_params="b\r\na\r\n")
    settings: Arguments = {"privacy": "PRIVATE", "email_reports": False, "exclude_params": ["a", "b"]}
    create = Task(
        CreateWebsiteOperator, domain="WWW.example.com", if_exists=if_exists, exclude_ips=["10.0.0.2"], **settings
    )
    tasks = run_tasks(create=create)
    logged = task_log()
    assert ends(tasks) == {"create": (state, 1)}
    assert "exists, with id 1" in logged
    assert [dict(request.form) for request in sandbox.requests if request.operation == "update"] == sent
    if sent:
        assert tasks["create"].returned["website"] == sandbox.websites()[0]
        assert writes(sandbox) == ["update"]
        sandbox.clear_requests()
        assert run_tasks(create=create)["create"].returned["website"] == sandbox.websites()[0]
    else:
        assert sandbox.websites() == [before]
    if if_exists == "skip":
        assert "privacy, exclude_ips" in logged
        assert "exclude_params" not in logged
    # What is so already is not sent.
    assert writes(sandbox) == []


def test_create_does_not_trust_a_search_that_finds_nothing(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    website = sandbox.add_website("www.example.com")
    nothing = {"data": [], "meta": {"total": 0, "current_page": 1}}
    sandbox.fault("list", target="search=", body=nothing, times=None)
    tasks = run_tasks(create=Task(CreateWebsiteOperator, domain="www.example.com"))
    assert tasks["create"].returned["website"] == website
    assert len(sandbox.websites()) == 1


def test_update(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.add_website("www.example.com", exclude_ips="10.0.0.1", exclude_params="a")
    tasks = run_tasks(
        one=Task(UpdateWebsiteOperator, website_id=1, email_reports=True),
        password=Task(UpdateWebsiteOperator, domain="www.example.com", privacy="password", password_from=PAGE_PASSWORD),
        clear=Task(UpdateWebsiteOperator, website_id="1", exclude_ips=[], exclude_params=[]),
        favorite=Task(UpdateWebsiteOperator, website_id=1, favorite="true"),
        not_favorite=Task(UpdateWebsiteOperator, website_id=1, favorite=False),
        same=Task(UpdateWebsiteOperator, website_id=1, favorite=False, exclude_ips=[]),
        unknown=Task(UpdateWebsiteOperator, website_id=2, email_reports=True),
    )
    forms = [dict(request.form) for request in sandbox.requests if request.operation == "update"]
    assert forms == [
        {"email": "1"},
        {"privacy": "2", "password": "s3cret-page"},
        {"exclude_params": "", "exclude_ips": ""},
        {"favorite": "true"},
        {"favorite": "false"},
    ]
    assert sandbox.stored_password(1) == "s3cret-page"
    assert tasks["not_favorite"].returned["website"] == sandbox.websites()[0]
    assert (tasks["not_favorite"].returned["updated"], tasks["same"].returned["updated"]) == (["favorite"], [])
    assert "s3cret-page" not in json.dumps([task.returned for task in tasks.values()])
    assert all("password" not in task.returned["website"] for task in tasks.values() if task.returned)
    assert ends(tasks) == {
        **dict.fromkeys(("one", "password", "clear", "favorite", "not_favorite", "same"), ("success", 1)),
        "unknown": ("failed", 2),
    }


def test_delete(sandbox: SandboxServer, run_tasks: RunTasks, connect_sandbox: Callable[..., None]) -> None:
    for name in "abc":
        sandbox.add_website(f"{name}.example.com")
    connect_sandbox("wrong_place", host=f"{sandbox.url}/elsewhere")
    connect_sandbox("wrong_key", password="wr0ng-key")
    tasks = run_tasks(
        by_id=Task(DeleteWebsiteOperator, website_id=1),
        by_id_again=Task(DeleteWebsiteOperator, website_id=1),
        by_domain=Task(DeleteWebsiteOperator, domain="B.example.com"),
        by_domain_again=Task(DeleteWebsiteOperator, domain="B.example.com"),
        strict=Task(DeleteWebsiteOperator, website_id=3, ignore_missing="{{ false }}"),
        strict_again=Task(DeleteWebsiteOperator, website_id=3, ignore_missing="{{ false }}"),
        strict_domain=Task(DeleteWebsiteOperator, domain="c.example.com", ignore_missing=False),
        wrong_place=Task(DeleteWebsiteOperator, website_id=9, analytics_conn_id="wrong_place"),
        wrong_place_domain=Task(DeleteWebsiteOperator, domain="b.example.com", analytics_conn_id="wrong_place"),
        wrong_key=Task(DeleteWebsiteOperator, website_id=9, analytics_conn_id="wrong_key"),
    )
    assert sandbox.websites() == []
    assert tasks["by_id"].returned == {"website_id": 1, "domain": None, "deleted": True}
    assert tasks["by_id_again"].returned == {"website_id": 1, "domain": None, "deleted": False}
    assert tasks["by_domain"].returned == {"website_id": None, "domain": "B.example.com", "deleted": True}
    assert tasks["by_domain_again"].returned["deleted"] is False
    assert ends(tasks) == {
        **dict.fromkeys(("by_id", "by_id_again", "by_domain", "by_domain_again", "strict"), ("success", 1)),
        **dict.fromkeys(("strict_again", "strict_domain", "wrong_place", "wrong_place_domain"), ("failed", 2)),
        "wrong_key": ("failed", 1),
    }


@needs_xcoms_of_none
def test_an_upstream_output_is_an_argument(sandbox: SandboxServer, run_dag: RunDag) -> None:
    with DAG("outputs", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        created: Any = CreateWebsiteOperator(task_id="create", domain="www.example.com", multiple_outputs=True)
        UpdateWebsiteOperator(task_id="update", website_id=created.output["website_id"], favorite=True)
        DeleteWebsiteOperator(task_id="delete", website_id=9, ignore_missing=created.output["domain"])
    tasks = run_dag(dag).tasks
    assert tasks["update"].returned["website"]["favorite"] is True
    assert tasks["delete"].state == "failed", "an argument that is not templated would be taken for True"


def test_a_list_given_as_a_native_object(sandbox: SandboxServer, run_tasks: RunTasks) -> None:
    sandbox.add_website("www.example.com")
    update = Task(UpdateWebsiteOperator, website_id=1, exclude_ips="{{ ['10.0.0.1', '10.0.0.2'] }}")
    tasks = run_tasks(dag_arguments={"render_template_as_native_obj": True}, update=update)
    assert tasks["update"].returned["website"]["exclude_ips"] == "10.0.0.1\n10.0.0.2"
