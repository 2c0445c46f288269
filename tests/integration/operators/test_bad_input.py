"""Bad input is told before anything is sent, by the hook and by a task."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fixture_types import RunTasks
from task_list import Task, ends

from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

#: What is wrong with the connection, and what the message says of it.
CONNECTIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no_host": ({"host": None}, ["Base URL", "missing"]),
    "no_key": ({"password": None}, ["API key", "missing"]),
    "masked_key": ({"password": "***"}, ["'***'", "mask"]),
    "unknown_extra": ({"extra": {"time_out": 5}}, ["'time_out'", "did you mean 'timeout'"]),
    "ftp": ({"host": "ftp://stats.example.com"}, ["'ftp'", "allowed: https, http"]),
    "far_http": ({"host": "http://stats.example.com"}, ["in clear", "allow_insecure_http"]),
    "sub_path": ({"host": "https://stats.example.com", "schema": "app"}, ["schema='app'", "in the Base URL"]),
    "two_ports": ({"host": "https://stats.example.com:1", "port": 2}, ["two different ports"]),
    "all_at_once": (
        {"host": "ftp://x", "password": "", "extra": {"timeout": 0, "pages": 1}},
        ["'ftp'", "API key is missing", "timeout=0", "'pages'"],
    ),
}

#: The operation, its arguments for the hook, and what the message says of them.
ARGUMENTS: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "per_page_30": ("list", {"per_page": 30}, ["per_page=30", "10, 25, 50, 100"]),
    "per_page_true": ("list", {"per_page": True}, ["per_page=True"]),
    "sort_up": ("list", {"sort": "up"}, ["sort='up'", "desc, asc"]),
    "sort_by_name": ("list", {"sort_by": "name"}, ["sort_by='name'", "id, domain"]),
    "search_by_id": ("list", {"search_by": "id"}, ["search_by='id'", "allowed: domain"]),
    "favorite_perhaps": ("list", {"favorite": "perhaps"}, ["favorite='perhaps'", "True or False"]),
    "privacy_3": ("create", {"domain": "a.example.com", "privacy": 3}, ["privacy=3", "0 (public)"]),
    "privacy_open": ("update", {"website_id": 1, "privacy": "open"}, ["privacy='open'", "2 (password)"]),
    "no_domain": ("create", {"domain": ""}, ["domain=''", "a domain name"]),
    "domain_scheme": ("create", {"domain": "https://a.example.com"}, ["domain='https://a.example.com'", "scheme"]),
    "domain_space": ("create", {"domain": "a example.com"}, ["domain='a example.com'", "spaces"]),
    "domain_line_end": ("create", {"domain": "a.example.com\n"}, ["domain='a.example.com"]),
    "domain_rendered_to_none": ("create", {"domain": "{{ none }}"}, ["domain="]),
    "line_break": (
        "create",
        {"domain": "a.example.com", "exclude_ips": ["10.0.0.1\n10.0.0.2"]},
        ["exclude_ips", "entry 1", "line break"],
    ),
    "blank_entry": ("update", {"website_id": 1, "exclude_ips": [" "]}, ["exclude_ips", "entry 1"]),
    "blank_lines": ("update", {"website_id": 1, "exclude_ips": "\n\n"}, ["no entries; to clear the list, give []"]),
    "number_entry": ("update", {"website_id": 1, "exclude_ips": [7]}, ["exclude_ips", "entry 1"]),
    "flag_2": ("update", {"website_id": 1, "exclude_bots": 2}, ["exclude_bots=2", "True or False"]),
    "password_lines": (
        "create",
        {"domain": "a.example.com", "privacy": 2, "password": "a\nb"},
        ["password", "one line"],
    ),
    "password_empty": ("update", {"website_id": 1, "password": ""}, ["password", "not empty"]),
    "password_mask": ("update", {"website_id": 1, "password": "***"}, ["password is '***'"]),
    "nothing_to_update": ("update", {"website_id": 1}, ["Nothing to update", "favorite"]),
    "id_none": ("get", {"website_id": "None"}, ["website_id='None'"]),
    "id_true": ("delete", {"website_id": True}, ["website_id=True"]),
    "id_path": ("delete", {"website_id": "1/../2"}, ["website_id='1/../2'"]),
    "id_dots": ("get", {"website_id": ".."}, ["website_id='..'"]),
}

#: Jinja drops a line end at the end of a text, so that an operator never sees it; and operators take no password.
ONLY_THE_HOOK = {"domain_line_end", "password_lines", "password_empty", "password_mask"}

#: What only an operator takes, and templates that render to something else than was meant.
RENDERED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "nothing_by_domain": ("update", {"domain": "a.example.com"}, ["Nothing to update"]),
    "flag_by_domain": ("update", {"domain": "a.example.com", "email_reports": 3}, ["email=3", "True or False"]),
    "id_and_domain": ("delete", {"website_id": 1, "domain": "a.example.com"}, ["exactly one of the two"]),
    "ips_empty": ("update", {"website_id": 1, "exclude_ips": "{{ '' }}"}, ["no entries; to clear the list, give []"]),
    "no_id": ("delete", {"website_id": "{{ none }}"}, ["website_id='None'"]),
    "domain_none": ("delete", {"domain": "{{ none }}"}, ["domain='None'"]),
    "nobody": ("update", {"email_reports": True}, ["website_id and domain are missing"]),
    "neither": ("get", {}, ["website_id and domain are missing", "exactly one of the two"]),
    "ips_none": (
        "update",
        {"website_id": 1, "exclude_ips": "{{ none }}"},
        ["exclude_ips='None'", "use the filter tojson"],
    ),
    "ips_list": (
        "update",
        {"website_id": 1, "exclude_ips": "{{ ['10.0.0.1'] }}"},
        ["exclude_ips", "use the filter tojson"],
    ),
    "params_list": (
        "create",
        {"domain": "a.example.com", "exclude_params": "{{ ['utm'] }}"},
        ["exclude_params", "use the filter tojson in the template"],
    ),
    "password_from_none": (
        "update",
        {"website_id": 1, "password_from": "{{ none }}"},
        ["password_from (value not shown)"],
    ),
    "password_itself": ("update", {"website_id": 1, "password_from": "s3cret"}, ["password_from (value not shown)"]),
    "password_of_another": (
        "update",
        {"website_id": 1, "password_from": "connection:analytics_default"},
        ["password_from='connection:analytics_default' is not allowed", "allowed: connection:page_password..."],
    ),
    "if_exists": ("create", {"domain": "a.example.com", "if_exists": "{{ none }}"}, ["if_exists='None'"]),
    "max_records": ("list", {"max_records": "{{ none }}"}, ["max_records='None'"]),
    "ignore_missing": ("delete", {"website_id": 1, "ignore_missing": "{{ none }}"}, ["ignore_missing='None'"]),
}

#: Operation to the operator and the method of the hook.
WAYS: dict[str, tuple[type, Callable[..., Any]]] = {
    "list": (ListWebsitesOperator, AnalyticsHook.list_websites),
    "get": (GetWebsiteOperator, AnalyticsHook.get_website),
    "create": (CreateWebsiteOperator, AnalyticsHook.create_website),
    "update": (UpdateWebsiteOperator, AnalyticsHook.update_website),
    "delete": (DeleteWebsiteOperator, AnalyticsHook.delete_website),
}


@pytest.mark.parametrize(("changes", "expected"), CONNECTIONS.values(), ids=CONNECTIONS)
def test_the_hook_refuses_the_connection(
    sandbox: SandboxServer, connect_sandbox: Callable[..., None], changes: dict[str, Any], expected: list[str]
) -> None:
    connect_sandbox("wrong", **changes)
    with AnalyticsHook("wrong") as hook, pytest.raises(AnalyticsConfigError) as caught:
        hook.get_account()
    for part in ("connection 'wrong'", *expected):
        assert part in str(caught.value)
    assert sandbox.requests == []


@pytest.mark.parametrize(("operation", "arguments", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_the_hook_refuses_the_arguments(
    sandbox: SandboxServer, operation: str, arguments: dict[str, Any], expected: list[str]
) -> None:
    with AnalyticsHook() as hook, pytest.raises(ValueError, match=r"allowed|must not|holds|nothing|give") as caught:
        WAYS[operation][1](hook, **arguments)
    for part in expected:
        assert part in str(caught.value)
    with AnalyticsHook() as hook, pytest.raises(ValueError, match="per_page=30"):
        hook.iter_websites(per_page=30)
    assert sandbox.requests == []


@pytest.mark.slow  # more than fifty tasks
def test_a_task_refuses_all_of_it(
    sandbox: SandboxServer,
    connect_sandbox: Callable[..., None],
    run_tasks: RunTasks,
    task_log: Callable[[], str],
) -> None:
    tasks = {}
    for name, (changes, _) in CONNECTIONS.items():
        connect_sandbox(name, **changes)
        tasks[name] = Task(GetAccountOperator, analytics_conn_id=name)
    refused = {name: case for name, case in (ARGUMENTS | RENDERED).items() if name not in ONLY_THE_HOOK}
    for name, (operation, arguments, _) in refused.items():
        tasks[name] = Task(WAYS[operation][0], **arguments)
    done = run_tasks(**tasks)
    assert ends(done) == dict.fromkeys(tasks, ("failed", 1))
    assert sandbox.requests == []
    logged = task_log()
    for *_, expected in (*CONNECTIONS.values(), *refused.values()):
        for part in expected:
            assert part in logged or json.dumps(part)[1:-1] in logged, part
    assert sandbox.api_key not in logged
    assert "cret" not in logged.replace("secret", "")


@pytest.mark.parametrize("arguments", [{}, {"privacy": 0}, {"privacy": "private"}], ids=str)
def test_a_password_without_effect_is_allowed_and_logged(
    sandbox: SandboxServer, run_tasks: RunTasks, task_log: Callable[[], str], arguments: dict[str, Any]
) -> None:
    sandbox.add_website("old.example.com")
    settings = {"password_from": "connection:page_password", **arguments}
    tasks = {"create": Task(CreateWebsiteOperator, domain="new.example.com", **settings)}
    # An update that leaves privacy as it is may well have an effect.
    if arguments:
        tasks["update"] = Task(UpdateWebsiteOperator, website_id=1, **settings)
    done = run_tasks(**tasks)
    assert {task.state for task in done.values()} == {"success"}
    logged = task_log()
    assert logged.count("has no effect") >= len(tasks)
    assert "s3cret-page" not in logged
