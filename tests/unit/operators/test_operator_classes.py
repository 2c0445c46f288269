"""What every operator has in common, by looking at the classes; none of this needs a server."""

from __future__ import annotations

import importlib
import inspect
import json
import socket
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseHook, BaseOperator

from airflow_provider_analytics.operators.base import AnalyticsOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator

MODULES = ("account", "websites")
OPERATORS = [
    value
    for module in MODULES
    for name, value in vars(importlib.import_module(f"airflow_provider_analytics.operators.{module}")).items()
    if isinstance(value, type)
    and name.endswith("Operator")
    and not name.startswith("_")
    and value.__module__.endswith(module)
]
SECRET = {"password"}


def own_arguments(operator: type[BaseOperator]) -> dict[str, inspect.Parameter]:
    """Return the arguments that an operator has beyond those of Airflow's base class."""
    found: dict[str, inspect.Parameter] = {}
    for base in operator.__mro__[: operator.__mro__.index(BaseOperator)]:
        if "__init__" in vars(base):
            found |= inspect.signature(vars(base)["__init__"]).parameters
    return {name: parameter for name, parameter in found.items() if name not in ("self", "kwargs")}


def make(operator: type[BaseOperator], **arguments: Any) -> Any:
    required = {
        name: "www.example.com" for name, p in own_arguments(operator).items() if p.default is inspect.Parameter.empty
    }
    return operator(task_id="a_task", **{**required, **arguments})


def test_there_is_one_operator_for_each_operation() -> None:
    assert sorted(operator.__name__ for operator in OPERATORS) == [
        "CreateWebsiteOperator",
        "DeleteWebsiteOperator",
        "GetAccountOperator",
        "GetWebsiteOperator",
        "ListWebsitesOperator",
        "UpdateWebsiteOperator",
    ]


@pytest.mark.parametrize("operator", OPERATORS)
class TestEveryOperator:
    def test_arguments_are_keywords(self, operator: type[AnalyticsOperator]) -> None:
        kinds = {parameter.kind for parameter in own_arguments(operator).values()}
        assert kinds == {inspect.Parameter.KEYWORD_ONLY}

    def test_every_argument_but_the_password_is_a_template(self, operator: type[AnalyticsOperator]) -> None:
        assert set(operator.template_fields) == set(own_arguments(operator)) - SECRET
        assert len(operator.template_fields) == len(set(operator.template_fields))
        assert "analytics_conn_id" in operator.template_fields

    def test_no_argument_is_read_from_a_file(self, operator: type[AnalyticsOperator]) -> None:
        # A domain or an address that ends like a file name is not the name of a file.
        assert tuple(operator.template_ext) == ()

    def test_constructing_assigns_and_does_nothing_else(
        self, operator: type[AnalyticsOperator], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*args: Any, **kwargs: Any) -> None:
            pytest.fail("Constructing an operator did something.")

        monkeypatch.setattr(BaseHook, "get_connection", refuse)
        monkeypatch.setattr(socket, "socket", refuse)
        given = {name: f"{{{{ {name} }}}}" for name in own_arguments(operator)}
        task = operator(task_id="a_task", **given)
        assert {name: getattr(task, name) for name in given} == given

    def test_defaults(self, operator: type[AnalyticsOperator]) -> None:
        decided = {
            "analytics_conn_id": "analytics_default",
            "if_exists": "skip",
            "ignore_missing": True,
            "max_records": 1000,
        }
        for name, parameter in own_arguments(operator).items():
            if parameter.default is not inspect.Parameter.empty:
                assert parameter.default == decided.get(name), name

    def test_every_argument_is_documented(self, operator: type[AnalyticsOperator]) -> None:
        documented = inspect.getdoc(operator) or ""
        for name in own_arguments(operator).keys() - {"analytics_conn_id"}:
            assert f":param {name}:" in documented, name
        assert ":return:" in documented
        templated = documented.count("(templated)")
        assert templated == len(set(operator.template_fields) - {"analytics_conn_id"})

    def test_a_password_is_in_no_form_of_the_task(self, operator: type[AnalyticsOperator]) -> None:
        from airflow.serialization import serialized_objects

        secrets = {"password": "s3cret-page"} if "password" in own_arguments(operator) else {}
        with DAG("a_dag", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
            task = make(operator, **secrets)
        assert "s3cret" not in f"{task!r} {task}"
        # Renamed in Airflow 3.
        serialization = getattr(serialized_objects, "DagSerialization", None) or serialized_objects.SerializedDAG
        assert "s3cret" not in json.dumps(serialization.to_dict(dag))


@pytest.mark.parametrize("operator", [CreateWebsiteOperator, UpdateWebsiteOperator])
@pytest.mark.parametrize("email", [True, False, 0, 1])
def test_airflows_email_is_not_taken_for_the_websites(operator: type[AnalyticsOperator], email: Any) -> None:
    with pytest.raises(ValueError, match="email_reports"):
        make(operator, email=email)
