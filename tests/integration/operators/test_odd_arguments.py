# SPDX-License-Identifier: Apache-2.0
"""Bad and odd values of arguments: rejected before any request, and not retried (``operators/base.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, BaseOperator
from field_values import FLAGS, VALUES
from sync_operators import SYNC_OPERATORS, WEBSITE_OPERATORS

from airflow_provider_analytics.api.fields import LINE_FIELDS
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.base import ARGUMENTS
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer


class Anything:
    """A value of a class that no argument expects."""

    def __repr__(self) -> str:
        return "<anything>"


#: Name to a function that returns the value: some values can be read only once.
ODD: dict[str, Callable[[], Any]] = {
    "True": lambda: True,
    "False": lambda: False,
    "0": lambda: 0,
    "-1": lambda: -1,
    "7": lambda: 7,
    "10**30": lambda: 10**30,
    "1.5": lambda: 1.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "Decimal": lambda: Decimal("7.5"),
    "None": lambda: None,
    "text ''": lambda: "",
    "text ' '": lambda: " \t",
    "text 'None'": lambda: "None",
    "text 'none'": lambda: "none",
    "text 'null'": lambda: "null",
    "text 'nan'": lambda: "nan",
    "text with a line break": lambda: "a\nb",
    "text with a control character": lambda: "a\x00\x1bb",
    "text with an invisible character": lambda: "a\u202eb",
    "text of a list": lambda: "['a', None]",
    "text of a dict": lambda: "{'a': None}",
    "template": lambda: "{{ x }}",
    "empty list": list,
    "list of None": lambda: [None],
    "nested list": lambda: [["a"], []],
    "empty dict": dict,
    "dict": lambda: {"a": 1},
    "dict with odd keys": lambda: {None: [1], 2: None},
    "set": lambda: {1, "b"},
    "bytes": lambda: b"a",
    "date": lambda: date(2026, 1, 2),
    "datetime": lambda: datetime(2026, 1, 2, 3, tzinfo=UTC),
    "timedelta": lambda: timedelta(1),
    "path": lambda: PurePosixPath("a/b"),
    "class": lambda: Anything,
    "object": Anything,
    "generator": lambda: (item for item in (None, 1)),
}


CONFIG = {"websites": {"a.example": {"email": True}}}
#: Operator to allowed arguments; ``{}`` is a folder.
OPERATORS: dict[type[BaseOperator], dict[str, Any]] = {
    GetAccountOperator: {},
    ListWebsitesOperator: {},
    **{kind: {"website_id": 1} for kind in WEBSITE_OPERATORS.values()},
    CreateWebsiteOperator: {"domain": "new.example", "privacy": "private"},
    UpdateWebsiteOperator: {"website_id": 1, "email_reports": True},
    **{kind: {name: VALUES[name].given, "state_path": "{}/state"} for name, kind in SYNC_OPERATORS.items()},
    PlanWebsitesOperator: {"config": CONFIG, "state_path": "{}/state"},
    ApplyWebsitesOperator: {"config": CONFIG, "state_path": "{}/state"},
    CheckDriftOperator: {"config": CONFIG, "on_drift": "log"},
    ExportWebsitesOperator: {"output_path": "{}/exported.yaml"},
    SnapshotWebsitesOperator: {"base_path": "{}/snapshots"},
    CompareSnapshotsOperator: {"base_path": "{}/snapshots"},
    PruneSnapshotsOperator: {"base_path": "{}/snapshots", "keep_days": 3},
}
TEMPLATES = [(operator, name) for operator, given in OPERATORS.items() for name in operator.template_fields]

FLAG = {"True", "False", "0"}
NOT_GIVEN = {"None"}
EMPTY = {"None", "text ''", "text ' '", "empty list"}
NUMBERS = {"7", "10**30"}
LINES = {"text with a line break"}
LISTS = {key: {"None", "empty list", *LINES} for key in set(LINE_FIELDS) - {"exclude_ips"}}
#: Argument to its accepted values; an argument of a single operator is named as ``Operator.argument``.
ACCEPTED: dict[str, set[str]] = {
    **{ARGUMENTS.get(name, name): NOT_GIVEN for name in VALUES},
    **{ARGUMENTS.get(name, name): FLAG | NOT_GIVEN for name in FLAGS},
    **LISTS,
    **{f"{name}_path": NOT_GIVEN for name in LINE_FIELDS},
    **{f"{kind.__name__}.{name}": LINES for name, kind in SYNC_OPERATORS.items()},
    "override_guards": EMPTY,
    "base_path": NOT_GIVEN,
    "compression": {"None", "text ''"},
    "config": {"empty list"},
    "config_path": NOT_GIVEN,
    "current": {"None", "text ''", "text 'None'", "text ' '", "date"},
    "domain": NOT_GIVEN,
    "except_websites": EMPTY - NOT_GIVEN,
    "exclude_ips": {"None", "empty list"},
    "ignore_fields": EMPTY,
    "ignore_if_missing": FLAG,
    "is_dry_run": FLAG,
    "keep_days": NUMBERS,
    "keep_months": NUMBERS | {"0"},
    "keep_weeks": NUMBERS | {"0"},
    "list_name": NOT_GIVEN,
    "max_loss_fraction": {"0"},
    "max_records": NUMBERS,
    "mode": NOT_GIVEN,
    "create_only": FLAG,
    "partition_date": {"None", "text ''", "text ' '", "text 'None'", "date", "datetime"},
    "per_page": NOT_GIVEN,
    "per_website": {"None", "empty dict"},
    "previous": {"None", "text ''", "text 'None'", "text ' '", "date"},
    "privacy": {"0", "None"},
    "prune": FLAG,
    "unmanage_websites": EMPTY - NOT_GIVEN,
    "remove_damaged": FLAG,
    "html_report": FLAG,
    "resolve_names": FLAG,
    "search": NOT_GIVEN,
    "search_by": NOT_GIVEN,
    "snapshot_date": NOT_GIVEN,
    "sort": NOT_GIVEN,
    "sort_by": NOT_GIVEN,
    "state_path": NOT_GIVEN,
    "website_id": {"0", *NUMBERS},
    "websites": NOT_GIVEN,
    "SyncExcludedIpsOperator.exclude_ips": set(),
    "CreateWebsiteOperator.domain": set(),
    "GetWebsiteOperator.website_id": {"0", *NUMBERS},
    "SnapshotWebsitesOperator.base_path": set(),
    "CompareSnapshotsOperator.base_path": set(),
    "PruneSnapshotsOperator.base_path": set(),
    "ExportWebsitesOperator.output_path": set(),
    "SnapshotWebsitesOperator.favorite": FLAG | NOT_GIVEN,
}
#: Attribute to argument, or to its name in the message, if they differ.
NAMED = {"is_dry_run": "dry_run"}


@pytest.mark.parametrize(("operator", "name"), TEMPLATES, ids=lambda item: getattr(item, "__name__", item))
def test_odd_value_is_an_error_that_names_the_argument(
    operator: type, name: str, analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    accepted = ACCEPTED.get(f"{operator.__name__}.{name}", ACCEPTED.get(name, set()))
    given = {key: value.format(tmp_path) if "{}" in str(value) else value for key, value in OPERATORS[operator].items()}
    analytics_sandbox.add_website("a.example", privacy=1)
    wrong = {}
    for label in ODD.keys() - accepted:
        outcome = run(operator, given, name, ODD[label]())
        is_named = isinstance(outcome, AirflowFailException) and NAMED.get(name, name) in str(outcome)
        if not is_named:
            wrong[label] = repr(outcome)
    assert wrong == {}, f"{name} must reject these values. If they are allowed, add {name!r} to ACCEPTED in this file."
    assert not [
        request for request in analytics_sandbox.requests if request.operation in ("create", "update", "delete")
    ]


@pytest.mark.parametrize(("operator", "name"), TEMPLATES, ids=lambda item: getattr(item, "__name__", item))
def test_accepted_value_never_ends_in_an_error_of_python(
    operator: type, name: str, analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    accepted = ACCEPTED.get(f"{operator.__name__}.{name}", ACCEPTED.get(name, set()))
    given = {key: value.format(tmp_path) if "{}" in str(value) else value for key, value in OPERATORS[operator].items()}
    for label in sorted(accepted):
        analytics_sandbox.reset()
        analytics_sandbox.add_website("a.example", privacy=1)
        outcome = run(operator, given, name, ODD[label]())
        assert outcome is None or isinstance(outcome, (AnalyticsError, AirflowFailException)), (label, outcome)


def run(operator: type, given: Mapping[str, Any], name: str, value: Any) -> Exception | None:
    """Run a task with this rendered value of a template; return its error."""
    task = operator(task_id="task", **given)
    setattr(task, name, value)
    ti = SimpleNamespace(dag_id="the_dag", run_id="run", task_id="task", map_index=-1, try_number=1, start_date=None)
    is_snapshot = operator is SnapshotWebsitesOperator
    context = {} if is_snapshot else {"ti": ti, "dag_run": SimpleNamespace(start_date=None)}
    try:
        task.execute(context)
    except Exception as error:  # each of them is a finding
        return error
    return None


def test_per_website_can_select_a_website_by_its_id(analytics_sandbox: SandboxServer) -> None:
    website = analytics_sandbox.add_website("a.example")
    analytics_sandbox.add_website("b.example")
    task = SyncExcludedIpsOperator(
        task_id="task", exclude_ips=["192.0.2.1"], per_website={website["id"]: ["192.0.2.2"]}
    )
    assert task.execute({})["verified"] is True
    assert [website["exclude_ips"] for website in analytics_sandbox.websites()] == ["192.0.2.1\n192.0.2.2", "192.0.2.1"]


@pytest.mark.parametrize("websites", [{"search": None}, {"search": " "}, {"favorite": "None"}, {"search": "null"}])
def test_filter_without_a_value_does_not_select_all_websites(websites: Any, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example")
    with pytest.raises((AirflowFailException, ValueError), match="Allowed: a value for each filter"):
        SyncExcludedIpsOperator(task_id="task", exclude_ips=["192.0.2.1"], websites=websites).execute({})
    assert analytics_sandbox.websites()[0]["exclude_ips"] is None


def test_native_template_of_a_day_without_dashes_is_named(analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    task = SnapshotWebsitesOperator(task_id="task", base_path=str(tmp_path))
    task.partition_date = 20260102  # type: ignore[assignment] # what "{{ ds_nodash }}" renders to
    with pytest.raises(AirflowFailException, match=r"partition_date=20260102 is not allowed\. Allowed: a date"):
        task.execute({})


#: Arguments, and parts of the message. Most are rejected when the DAG is parsed, the others by the task.
Rows = list[tuple[dict[str, Any], list[str]]]
NEW, ONE = {"domain": "a.example"}, {"website_id": 1}
PASSWORD = {"privacy": "password"}
ANOTHER_SECRET = {"privacy": "password", "password_from": "connection:analytics_default"}

OF_LISTS: Rows = [
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
    ListWebsitesOperator: OF_LISTS,
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
