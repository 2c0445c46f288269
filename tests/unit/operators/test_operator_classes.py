# SPDX-License-Identifier: Apache-2.0
"""Operator classes: signatures, docstrings, and template fields, without a server (``operators``)."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import AirflowProviderDeprecationWarning
from airflow.providers.common.compat.sdk import Asset, BaseOperator

import airflow_provider_analytics.operators
from airflow_provider_analytics.api.fields import OPERATIONS
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator

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
@pytest.mark.parametrize("email", [True, 0])
def test_email_of_airflow_is_not_used_as_email_of_the_website(operator: Any, email: Any) -> None:
    with pytest.raises(ValueError, match="email_reports"):
        operator(task_id="a_task", domain="www.example.com", email=email)
