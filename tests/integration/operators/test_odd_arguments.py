# SPDX-License-Identifier: Apache-2.0
"""Odd values of arguments, as templates or upstream tasks might return them (``operators/base.py``)."""

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
from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.base import ARGUMENTS
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
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
