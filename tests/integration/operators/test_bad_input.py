# SPDX-License-Identifier: Apache-2.0
"""Bad input: it is rejected before any request, and not retried (``operators``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator, ExportWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Arguments, and parts of the message. Most are rejected when the DAG is parsed, the others by the task.
Rows = list[tuple[dict[str, Any], list[str]]]
NEW, ONE = {"domain": "a.example"}, {"website_id": 1}
PASSWORD = {"privacy": "password"}
ANOTHER_SECRET = {"privacy": "password", "password_from": "connection:analytics_default"}

LISTS: Rows = [
    ({"per_page": True}, ["per_page=True"]),
    ({"sort_by": "name"}, ["sort_by='name'", "id, domain"]),
    ({"search_by": "id"}, ["search_by='id'", "Allowed: domain"]),
    ({"favorite": "perhaps"}, ["favorite='perhaps'", "True or False"]),
    ({"max_records": "None"}, ["max_records='None'"]),
]
CREATES: Rows = [
    ({"domain": ""}, ["domain=''", "a domain name"]),
    ({"domain": "a example"}, ["domain='a example'", "spaces"]),
    ({"domain": "a.example\n"}, ["domain='a.example"]),
    ({**NEW, "privacy": 3}, ["privacy=3", "public (0)"]),
    ({**NEW, "privacy": "privat"}, ["privacy='privat'", "private (1)", "The closest is 'private'."]),
    ({**NEW, "password_from": "variable:page_password"}, ["privacy=None", "a password has no effect"]),
    ({**NEW, **ANOTHER_SECRET}, ["Allowed: connection:page_password"]),
    ({**NEW, "exclude_ips": ["10.0.0.1\n10.0.0.2"]}, ["exclude_ips", "entry 1", "line break"]),
    ({**NEW, "exclude_params": "['utm']"}, ["exclude_params", "use the filter tojson in the template"]),
]
UPDATES: Rows = [
    (ONE, ["Nothing to update", "email_reports", "password_from", "favorite"]),
    ({"email_reports": True}, ["website_id and domain are missing"]),
    ({**NEW, "email_reports": 3}, ["email_reports=3", "True or False"]),
    ({**ONE, "privacy": "open"}, ["privacy='open'", "password (2)"]),
    ({**ONE, "exclude_ips": [" "]}, ["exclude_ips=[' '] has no entries. To clear the list, give []"]),
    ({**ONE, "exclude_ips": ""}, ["no entries. To clear the list, give []"]),
    ({**ONE, "exclude_ips": "192.0.2.1 # until=2020-01-31"}, ["only expired entries"]),
    ({**ONE, "exclude_ips": "192.0.2.1 # until=soon"}, ["exclude_ips", "has the expiration date 'soon'"]),
    ({**ONE, "exclude_ips": "None"}, ["exclude_ips='None'", "use the filter tojson"]),
    ({**ONE, "password_from": "variable:page_password"}, ["privacy=None", "a password has no effect"]),
    ({**ONE, "password_from": "s3cret"}, ["password_from (value not shown)"]),
    ({**ONE, **PASSWORD, "password_from": "connection:page_password_x"}, ["No password was found in password_from="]),
    (
        {**ONE, **PASSWORD, "password_from": "connection:page_password_empty"},
        ["No password was found in password_from="],
    ),
    (
        {**ONE, **PASSWORD, "password_from": "connection:page_password_of_api"},
        ["a connection of another type than analytics"],
    ),
]
DELETES: Rows = [
    ({}, ["website_id and domain are missing"]),
    ({"website_id": "None"}, ["website_id='None'"]),
    ({"domain": "None"}, ["domain='None'"]),
    ({**ONE, "ignore_if_missing": "None"}, ["ignore_if_missing='None'"]),
]
ROWS: dict[Any, Rows] = {
    ListWebsitesOperator: LISTS,
    CreateWebsiteOperator: CREATES,
    UpdateWebsiteOperator: UPDATES,
    DeleteWebsiteOperator: DELETES,
    GetWebsiteOperator: [
        ({}, ["website_id and domain are missing"]),
        ({**ONE, **NEW}, ["Set only one of them"]),
        ({"website_id": ".."}, ["website_id='..'"]),
    ],
    # Without state_path, a list only grows; without base_path, an export contains the current websites.
    SyncExcludedIpsOperator: [
        ({"exclude_ips": ["192.0.2.1"], "state_path": " "}, ["state_path=' ' is not allowed"]),
        ({"exclude_ips": ["192.0.2.1"], "state_path": "/data/x "}, ["without blanks around it"]),
        ({"exclude_ips": ["192.0.2.1"], "state_path": "s3://${BUCKET}/x"}, ["without placeholders"]),
    ],
    SyncExcludedParamsOperator: [
        ({"exclude_params": path}, ["Allowed: entries. To read a file, use exclude_params_path"])
        for path in ("/proc/self/environ", "file:///etc/passwd", "./list", "../list.txt", "~/list", "list.txt", " /x ")
    ],
    ApplyWebsitesOperator: [
        (
            {"config": {"websites": {}}, "state_path": ""},
            ["state_path='' is not allowed. Allowed: a URL or an absolute"],
        ),
        ({"config": {"websites": {"a.example": ANOTHER_SECRET}}}, ["Allowed: connection:page_password"]),
    ],
    ExportWebsitesOperator: [({"output_path": "/x.yaml", "base_path": ""}, ["base_path='' is not allowed"])],
}


@pytest.mark.parametrize(("operator", "row"), [(operator, row) for operator, rows in ROWS.items() for row in rows])
def test_operator_rejects_bad_arguments(
    sandbox: SandboxServer, connect: Callable[..., None], operator: Any, row: Any
) -> None:
    connect("page_password_empty", conn_type="generic", password=None)
    connect("page_password_of_api")
    arguments, parts = row
    with pytest.raises((AirflowFailException, ValueError)) as caught:
        operator(task_id="task", **arguments).execute({})
    assert [part for part in parts if part not in str(caught.value)] == []
    assert "s3cret" not in str(caught.value)
    assert sandbox.requests == []


NO_ADDRESSES = ["192.0.2.1,192.0.2.2", "999.1.1.1", "a.example", ["192.0.2.1 192.0.2.2"], ["10.0.0"], [7], " ", "# no"]


@pytest.mark.parametrize("entries", NO_ADDRESSES, ids=repr)
def test_hook_operators_and_syncs_reject_the_same_entries(sandbox: SandboxServer, entries: Any) -> None:
    with AnalyticsHook() as hook:
        for call in (hook.update_website, hook.create_website):
            with pytest.raises(ValueError, match="exclude_ips"):
                call("1.example", exclude_ips=entries)
    for operator, arguments in (
        (CreateWebsiteOperator, NEW),
        (UpdateWebsiteOperator, ONE),
        (SyncExcludedIpsOperator, {}),
    ):
        with pytest.raises((AirflowFailException, ValueError), match=r"excluded?_ips"):
            operator(task_id="task", exclude_ips=entries, **arguments).execute({})
    assert sandbox.requests == []
