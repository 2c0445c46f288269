# SPDX-License-Identifier: Apache-2.0
"""Operator classes: signatures, docstrings, template fields, and wrong literals that fail when the DAG is parsed."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import AirflowProviderDeprecationWarning
from airflow.providers.common.compat.sdk import DAG, Asset, BaseOperator

import airflow_provider_analytics.operators
from airflow_provider_analytics.api import entries, fields
from airflow_provider_analytics.api.fields import OPERATIONS
from airflow_provider_analytics.operators.base import CHOICES, COMPRESSIONS
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
    snapshot_asset,
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
from airflow_provider_analytics.reconcile.desired import desired_state as desired
from airflow_provider_analytics.snapshots import formats

#: Stored under another name, because BaseOperator.dry_run is a method.
STORED_AS = {"dry_run": "is_dry_run"}
#: An object of the DAG, which is never rendered.
NOT_TEMPLATED = {"asset"}
Operator = type[BaseOperator]


def operators() -> Iterator[Operator]:
    """Find every public operator of the package."""
    package = airflow_provider_analytics.operators
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for name, value in vars(importlib.import_module(found.name)).items():
            is_defined_here = isinstance(value, type) and value.__module__ == found.name
            if is_defined_here and issubclass(value, BaseOperator) and not name.startswith("_"):
                yield value


BASE_CLASSES = ("AnalyticsBaseOperator", "ProviderBaseOperator", "ReconcilingOperator")
OPERATORS = [operator for operator in operators() if operator.__name__ not in BASE_CLASSES]
LIKE = {operator.__name__: operator for operator in OPERATORS}
every_operator = pytest.mark.parametrize("operator", OPERATORS)


def parameters(operator: Operator) -> dict[str, inspect.Parameter]:
    """Return the arguments in the signature of the class, without the arguments of Airflow's ``BaseOperator``."""
    constructor = inspect.unwrap(vars(operator)["__init__"])
    found = inspect.signature(constructor).parameters
    return {name: parameter for name, parameter in found.items() if name not in ("self", "kwargs")}


def documented(operator: Operator) -> str:
    """Return the docstring; an operator that works like another one documents only the differences."""
    text = inspect.cleandoc(operator.__doc__ or "")
    other = re.search(r"Works like :class:`(\w+)`, which describes", text)
    return text + inspect.cleandoc(LIKE[other[1]].__doc__ or "") if other else text


def described(operator: Operator, argument: str) -> str:
    """Return the description of an argument in the docstring."""
    found = re.search(rf"^:param {argument}:(.*?)(?=^:)", documented(operator), re.DOTALL | re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def deprecated(operator: Operator) -> dict[str, str]:
    """Return each deprecated argument with its replacement: CONTRIBUTING.md, Public surface."""
    start = r"deprecated since \S+, use ``(\w+)``"
    found = {name: re.match(start, described(operator, name)) for name in parameters(operator)}
    return {name: text[1] for name, text in found.items() if text}


def test_every_operator_is_found() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operators.md").read_text(encoding="utf-8")
    assert {operation.operator for operation in OPERATIONS.values()} < LIKE.keys()
    missing = [operator.__name__ for operator in OPERATORS if operator.__name__ not in page]
    assert not missing, "Add these operators to docs/operators.md."


@every_operator
def test_signature_of_the_class_has_each_argument_as_a_keyword(operator: Operator) -> None:
    kinds = {parameter.kind for parameter in parameters(operator).values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
    inherited = {
        name
        for base in operator.__mro__[1 : operator.__mro__.index(BaseOperator)]
        if "__init__" in vars(base)
        for name in inspect.signature(inspect.unwrap(vars(base)["__init__"])).parameters
    }
    assert inherited - {"self", "kwargs"} <= parameters(operator).keys()
    most = 19 if operator is SnapshotWebsitesOperator else 16
    assert len(parameters(operator).keys() - deprecated(operator)) <= most


@every_operator
def test_docstring_of_the_class_has_each_argument_of_the_signature(operator: Operator) -> None:
    documented_arguments = re.findall(r"^:param (\w+):", inspect.cleandoc(operator.__doc__ or ""), re.MULTILINE)
    assert sorted(documented_arguments) == sorted(parameters(operator))


@every_operator
def test_template_fields_are_the_arguments(operator: Operator) -> None:
    stored = {STORED_AS.get(name, name) for name in parameters(operator).keys() - NOT_TEMPLATED}
    assert sorted(operator.template_fields) == sorted(stored)
    # Arguments are never read from a file: a domain or a list that ends like a file name is not a template.
    assert tuple(operator.template_ext) == ()


@every_operator
def test_constructor_only_assigns_attributes(operator: Operator) -> None:
    given: dict[str, Any] = {
        # The rendered value of a list is known only at run time, but its asset is known when a DAG is parsed.
        name: Asset("analytics://a_connection/websites") if name == "asset" else f"{{{{ {name} }}}}"
        for name in parameters(operator)
        if name not in deprecated(operator)
    }
    task = operator(task_id="a_task", **given)
    assert {name: getattr(task, STORED_AS.get(name, name)) for name in given} == given
    for name, new in deprecated(operator).items():
        assert new in parameters(operator)
        assert parameters(operator)[name].default is None
        with pytest.warns(AirflowProviderDeprecationWarning, match=f"^a_task: {name} is deprecated, use {new}$"):
            operator(task_id="a_task", **{**given, name: "a value"})


@every_operator
def test_arguments_the_result_and_the_errors_are_documented(operator: Operator) -> None:
    for name in parameters(operator):
        assert described(operator, name), name
        assert ("(templated" in described(operator, name)) == (name not in NOT_TEMPLATED), name
    assert len(re.findall(r"^:return: \S", documented(operator), re.MULTILINE)) == 1
    raised = set(re.findall(r"^:raises (\w+): \S", documented(operator), re.MULTILINE))
    known = {*vars(airflow_provider_analytics.exceptions), "AirflowFailException", "AirflowSkipException"}
    assert {"AirflowFailException"} <= raised <= known


@every_operator
def test_documented_example_can_be_copied(operator: Operator) -> None:
    found = re.search(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", documented(operator) + "\n")
    assert found, "no code block"
    assert isinstance(eval(textwrap.dedent(found[1]).strip(), {operator.__name__: operator}), operator)


def test_equal_arguments_have_equal_defaults() -> None:
    defaults: dict[str, set[str]] = {}
    for name, parameter in (item for operator in OPERATORS for item in parameters(operator).items()):
        if parameter.default is not inspect.Parameter.empty:
            defaults.setdefault(name, set()).add(repr(parameter.default))
    assert {name: found for name, found in defaults.items() if len(found) > 1} == {}


@pytest.mark.parametrize("operator", [CreateWebsiteOperator, UpdateWebsiteOperator])
@pytest.mark.parametrize("email", [True, 0, "true", "0", "False"])
def test_email_of_airflow_is_not_used_as_email_of_the_website(operator: Any, email: Any) -> None:
    with pytest.raises(ValueError, match="email_reports"):
        operator(task_id="a_task", domain="www.example.com", email=email)


def test_asset_that_is_only_a_name_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"asset='websites' is not allowed\. Allowed: an Asset, such as snapshot_asset"
    ):
        SnapshotWebsitesOperator(task_id="a_task", base_path="/data", asset="websites")  # type: ignore[arg-type]


def test_subclass_can_set_its_own_template_fields_after_the_constructor_of_its_parent() -> None:
    class Onboard(CreateWebsiteOperator):
        template_fields = (*CreateWebsiteOperator.template_fields, "team")

        def __init__(self, *, team: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.team = team

    assert Onboard(task_id="a_task", domain="www.example.com", team="{{ params.team }}").team == "{{ params.team }}"
    with pytest.raises(ValueError, match=r"domain='\*.example.com' is not allowed"):
        Onboard(task_id="a_task", domain="*.example.com", team="web")


#: Operator to allowed arguments, to which a single wrong argument is added.
GIVEN: dict[type[BaseOperator], dict[str, Any]] = {
    CreateWebsiteOperator: {"domain": "a.example"},
    ExportWebsitesOperator: {"output_path": "/data/websites.yaml"},
    SnapshotWebsitesOperator: {"base_path": "/data", "asset": snapshot_asset()},
    CompareSnapshotsOperator: {"base_path": "/data"},
    PruneSnapshotsOperator: {"base_path": "/data"},
    SyncExcludedIpsOperator: {"exclude_ips": ["192.0.2.1"]},
    SyncExcludedParamsOperator: {"exclude_params": ["utm"]},
}
#: Operator, argument, a wrong value, and a part of the message.
WRONG: list[tuple[type[BaseOperator], str, Any, str]] = [
    (SyncExcludedIpsOperator, "mode", "merged", "Allowed: merge, replace, managed. The closest is 'merge'"),
    (SyncExcludedIpsOperator, "override_guards", ["count"], "override_guards='count' is not allowed"),
    (SyncExcludedIpsOperator, "exclude_ips", ["192.0.2.300"], "192.0.2.300"),
    (SyncExcludedIpsOperator, "exclude_ips", "203.0.113.7\n198.51.100", "198.51.100"),
    (SyncExcludedIpsOperator, "exclude_ips", "/data/list.txt", "To read a file, use exclude_ips_path"),
    (SyncExcludedIpsOperator, "networks", "split", "networks='split' is not allowed"),
    (SyncExcludedIpsOperator, "per_website", {"a.example": ["192.0.2.300"]}, "192.0.2.300"),
    (SyncExcludedIpsOperator, "websites", {"favourite": True}, "The closest is 'favorite'"),
    (SyncExcludedIpsOperator, "exclude_ips", ["office.example"], "only SyncExcludedIpsOperator resolves host names"),
    (UpdateWebsiteOperator, "exclude_ips", ["office.example"], "only SyncExcludedIpsOperator resolves host names"),
    (SyncExcludedIpsOperator, "except_websites", [None], "except_websites=None is not allowed"),
    (SyncExcludedIpsOperator, "approved_digest", "abc", "approved_digest='abc' is not allowed"),
    (SyncExcludedIpsOperator, "dry_run", "perhaps", "dry_run='perhaps' is not allowed. Allowed: True or False"),
    (SyncExcludedIpsOperator, "state_path", "analytics/state", "state_path='analytics/state' is not allowed"),
    (SyncExcludedParamsOperator, "max_loss_fraction", 30, "max_loss_fraction=30 is not allowed. Allowed: 0 to 1"),
    (SyncExcludedParamsOperator, "exclude_params", "['utm']", "exclude_params"),
    (SyncExcludedParamsOperator, "exclude_params", ["ref", "?gclid"], "write 'gclid'"),
    (UpdateWebsiteOperator, "exclude_params", ["utm_source=news"], "write 'utm_source'"),
    (CreateWebsiteOperator, "domain", "*.example.com", "write example.com"),
    (SnapshotWebsitesOperator, "format", "json", "format='json' is not allowed. Allowed: jsonl, csv, parquet"),
    (SnapshotWebsitesOperator, "compression", "zip", "compression='zip' is not allowed"),
    (SnapshotWebsitesOperator, "exclude_ips_as", "hashed", "exclude_ips_as='hashed' is not allowed"),
    (SnapshotWebsitesOperator, "on_late", "label", "on_late='label' is not allowed. Allowed: fail, skip, publish"),
    (SnapshotWebsitesOperator, "ignore_fields", ["visits"], "ignore_fields='visits' is not allowed"),
    (SnapshotWebsitesOperator, "html_report", "yes", "html_report='yes' is not allowed"),
    (SnapshotWebsitesOperator, "base_path", "data/analytics", "base_path='data/analytics' is not allowed"),
    (SnapshotWebsitesOperator, "snapshot_name", None, "snapshot_name=None is not allowed"),
    (SnapshotWebsitesOperator, "snapshot_name", "", "snapshot_name='' is not allowed"),
    (SnapshotWebsitesOperator, "base_path", 5, "base_path=5 is not allowed"),
    (CompareSnapshotsOperator, "on_change", "report", "on_change='report' is not allowed. Allowed: log, fail, skip"),
    (CompareSnapshotsOperator, "current", "2026-13-01", "current='2026-13-01' is not allowed"),
    (PruneSnapshotsOperator, "keep_days", -1, "keep_days=-1 is not allowed"),
    (ListWebsitesOperator, "per_page", 30, "per_page=30 is not allowed. Allowed: 10, 25, 50, 100"),
    (ListWebsitesOperator, "sort", "up", "sort='up' is not allowed. Allowed: desc, asc"),
    (ListWebsitesOperator, "max_records", 0, "max_records=0 is not allowed"),
    (GetWebsiteOperator, "domain", "https://a.example", "domain='https://a.example' is not allowed"),
    (CreateWebsiteOperator, "privacy", "secret", "privacy='secret' is not allowed"),
    (CreateWebsiteOperator, "if_exists", "replace", "if_exists='replace' is not allowed"),
    (UpdateWebsiteOperator, "exclude_ips", "192.0.2.300", "192.0.2.300"),
    (UpdateWebsiteOperator, "password_from", "variable:api_key", "password_from='variable:api_key' is not allowed"),
    (DeleteWebsiteOperator, "website_id", "1/../2", "website_id='1/../2' is not allowed"),
    (DeleteWebsiteOperator, "ignore_if_missing", "maybe", "ignore_if_missing='maybe' is not allowed"),
    (PlanWebsitesOperator, "override_guards", "many_delete", "The closest is 'many_deleted'"),
    (ApplyWebsitesOperator, "config_path", "websites.yaml", "config_path='websites.yaml' is not allowed"),
    (CheckDriftOperator, "on_drift", "report", "on_drift='report' is not allowed. Allowed: fail, skip, log"),
    (ExportWebsitesOperator, "websites", [True], "websites=True is not allowed"),
]
each_wrong_value = pytest.mark.parametrize(
    ("operator", "argument", "value", "message"), WRONG, ids=[f"{row[0].__name__}-{row[1]}" for row in WRONG]
)


@each_wrong_value
def test_wrong_literal_fails_when_the_dag_is_parsed(
    operator: type[BaseOperator], argument: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=argument) as caught:
        operator(task_id="task", **GIVEN.get(operator, {}) | {argument: value})
    assert message in str(caught.value)


@pytest.mark.parametrize(("operator", "argument", "value"), [row[:3] for row in WRONG])
def test_template_output_or_mapped_value_is_checked_only_at_run_time(
    operator: type[BaseOperator], argument: str, value: Any
) -> None:
    given = GIVEN.get(operator, {})
    others = {name: other for name, other in given.items() if name != argument}
    template = f"{{{{ {value!r} }}}}"
    with DAG("a_dag", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        rendered = operator(task_id="rendered", **given | {argument: template})
        after = operator(task_id="after", **given | {argument: ListWebsitesOperator(task_id="before").output})
        operator.partial(task_id="mapped", **others).expand(**{argument: [value]})
    assert template in vars(rendered).values()
    assert after.upstream_task_ids == {"before"}
    assert "mapped" in dag.task_ids


def test_expired_entry_passes_when_the_dag_is_parsed() -> None:
    expired = "192.0.2.1  # until=2020-01-31"
    SyncExcludedIpsOperator(task_id="sync", exclude_ips=expired, state_path="/data/state")
    UpdateWebsiteOperator(task_id="update", website_id=1, exclude_ips=expired)


def test_choices_equal_the_choices_of_the_modules_that_use_them() -> None:
    assert CHOICES["exclude_ips_as"] == tuple(formats.EXCLUDE_IPS_AS)
    assert set(CHOICES["format"]) == set(formats.FORMATS)
    assert set(COMPRESSIONS) == set(formats.COMPRESSIONS)
    assert CHOICES["mode"] == desired.MODES
    assert CHOICES["networks"] == entries.NETWORKS
    assert CHOICES["per_page"] == fields.PAGE_SIZES
