"""What every operator has in common, by looking at the classes; none of this needs a server."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import socket
import textwrap
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.exceptions import AirflowProviderDeprecationWarning
from airflow.providers.common.compat.sdk import Asset, BaseHook, BaseOperator

import airflow_provider_analytics.operators
from airflow_provider_analytics.operators import task_arguments
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.task_arguments import TaskArguments
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, UpdateWebsiteOperator

#: Stored under another name, because BaseOperator.dry_run is a method.
STORED_AS = {"dry_run": "is_dry_run"}
#: An object of the DAG, which nobody computes.
NOT_TEMPLATED = {"asset"}


def operators() -> Iterator[type[BaseOperator]]:
    """Find every public operator of the package."""
    package = airflow_provider_analytics.operators
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for name, value in vars(importlib.import_module(found.name)).items():
            is_defined_here = isinstance(value, type) and value.__module__ == found.name
            if is_defined_here and issubclass(value, BaseOperator) and not name.startswith("_"):
                yield value


BASE_CLASSES = ("AnalyticsOperator", "ReconcilingOperator", "ShortErrorsOperator")
OPERATORS = [operator for operator in operators() if operator.__name__ not in BASE_CLASSES]
LIKE = {operator.__name__: operator for operator in OPERATORS}


def parameters(operator: type[BaseOperator]) -> dict[str, inspect.Parameter]:
    """Return the arguments of the class and of its base classes in this package."""
    found: dict[str, inspect.Parameter] = {}
    for one in operator.__mro__[: operator.__mro__.index(BaseOperator)]:
        if "__init__" in vars(one):
            found |= inspect.signature(inspect.unwrap(vars(one)["__init__"])).parameters
    return {name: parameter for name, parameter in found.items() if name not in ("self", "kwargs")}


def documented(operator: type[BaseOperator]) -> str:
    """Return the docstring; one that works like another operator says only what differs."""
    text = inspect.cleandoc(operator.__doc__ or "")
    other = re.search(r"Works like :class:`(\w+)`, which describes", text)
    return text + inspect.cleandoc(LIKE[other[1]].__doc__ or "") if other else text


def described(operator: type[BaseOperator], argument: str) -> str:
    """Return what the docstring says of an argument."""
    found = re.search(rf"^:param {argument}:(.*?)(?=^:)", documented(operator), re.DOTALL | re.MULTILINE)
    return " ".join(found[1].split()) if found else ""


def deprecated(operator: type[BaseOperator]) -> dict[str, str]:
    """Return each deprecated argument with the one to use in its place: CONTRIBUTING.md, Public surface."""
    found = {
        name: re.match(r"deprecated since \S+, use ``(\w+)``", described(operator, name))
        for name in parameters(operator)
    }
    return {name: text[1] for name, text in found.items() if text}


def code_block(operator: type[BaseOperator]) -> str:
    found = re.search(r"\.\. code-block:: python\n\n((?:    .*\n|\n)+)", documented(operator) + "\n")
    assert found, "no code block"
    return textwrap.dedent(found[1])


def make(operator: type[BaseOperator], **arguments: Any) -> Any:
    required = {
        name: "/a/path" if name.endswith("_path") else "www.example.com"
        for name, parameter in parameters(operator).items()
        if parameter.default is inspect.Parameter.empty
    }
    return operator(task_id="a_task", **{**required, **arguments})


def test_every_operator_is_found() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operators.md").read_text(encoding="utf-8")
    assert len(OPERATORS) == 15
    assert not [operator.__name__ for operator in OPERATORS if operator.__name__ not in page]


@pytest.mark.parametrize("operator", OPERATORS)
class TestEveryOperator:
    def test_arguments_are_keywords(self, operator: type[BaseOperator]) -> None:
        kinds = {parameter.kind for parameter in parameters(operator).values()}
        assert kinds == {inspect.Parameter.KEYWORD_ONLY}

    def test_an_editor_completes_inherited_arguments_too(self, operator: type[BaseOperator]) -> None:
        typed: set[str] = set()
        for one in operator.__mro__[: operator.__mro__.index(BaseOperator)]:
            if "__init__" in vars(one):
                found = inspect.signature(inspect.unwrap(vars(one)["__init__"])).parameters
                (kwargs,) = re.findall(r"Unpack\[(\w+)\]", str(found["kwargs"].annotation))
                typed |= {*found, *typing.get_type_hints(getattr(task_arguments, kwargs))}
                break
        assert {*parameters(operator), *TaskArguments.__annotations__} <= typed

    def test_it_has_at_most_sixteen_arguments(self, operator: type[BaseOperator]) -> None:
        assert len(parameters(operator).keys() - deprecated(operator)) <= (
            19 if operator is SnapshotWebsitesOperator else 16
        )

    def test_every_argument_that_a_user_may_compute_is_a_template(self, operator: type[BaseOperator]) -> None:
        stored = {STORED_AS.get(name, name) for name in parameters(operator).keys() - NOT_TEMPLATED}
        assert set(operator.template_fields) == stored
        assert len(operator.template_fields) == len(stored)

    def test_airflow_reads_no_argument_from_a_file(self, operator: type[BaseOperator]) -> None:
        # It would do so with every argument: a ledger or a domain that ends like a file name is not a template.
        assert tuple(operator.template_ext) == ()

    def test_constructing_assigns_and_does_nothing_else(
        self, operator: type[BaseOperator], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*args: Any, **kwargs: Any) -> None:
            pytest.fail("Constructing an operator did something.")

        monkeypatch.setattr(BaseHook, "get_connection", refuse)
        monkeypatch.setattr(socket.socket, "connect", refuse)
        given: dict[str, Any] = {
            # What a template makes of a list is known at run time only, but its asset is known when a DAG is parsed.
            name: Asset("analytics://a_connection/websites") if name == "asset" else f"{{{{ {name} }}}}"
            for name in parameters(operator)
            if name not in deprecated(operator)
        }
        task = operator(task_id="a_task", **given)
        assert {name: getattr(task, STORED_AS.get(name, name)) for name in given} == given

    def test_a_deprecated_argument_warns_and_names_the_new_one(self, operator: type[BaseOperator]) -> None:
        for name, new in deprecated(operator).items():
            assert new in parameters(operator)
            assert parameters(operator)[name].default is None
            with pytest.warns(AirflowProviderDeprecationWarning, match=f"^a_task: {name} is deprecated, use {new}$"):
                make(operator, **{name: "a value"})

    def test_every_argument_is_documented(self, operator: type[BaseOperator]) -> None:
        assert parameters(operator).keys() <= set(re.findall(r"^:param (\w+):", documented(operator), re.MULTILINE))
        for name in parameters(operator):
            assert described(operator, name), name
            assert ("(templated" in described(operator, name)) == (name not in NOT_TEMPLATED), name

    def test_the_result_and_the_errors_are_documented(self, operator: type[BaseOperator]) -> None:
        assert len(re.findall(r"^:return: \S", documented(operator), re.MULTILINE)) == 1
        raised = re.findall(r"^:raises (\w+): \S", documented(operator), re.MULTILINE)
        assert "AirflowFailException" in raised
        known = {*vars(airflow_provider_analytics.exceptions), "AirflowFailException", "AirflowSkipException"}
        assert set(raised) <= known

    def test_the_example_can_be_copied(self, operator: type[BaseOperator]) -> None:
        code = code_block(operator)
        (call,) = ast.parse(code).body
        assert isinstance(call, ast.Expr)
        task = eval(code, {operator.__name__: operator})
        assert isinstance(task, operator)


def test_the_arguments_of_every_task_are_those_of_airflow() -> None:
    taken = inspect.signature(inspect.unwrap(BaseOperator.__init__)).parameters.keys() - {"self", "kwargs"}
    assert taken <= TaskArguments.__annotations__.keys()


@pytest.mark.parametrize(
    ("operator", "argument", "default"),
    [
        (operator, name, parameter.default)
        for operator in OPERATORS
        for name, parameter in parameters(operator).items()
        if parameter.default is not inspect.Parameter.empty
    ],
)
def test_equal_arguments_have_equal_defaults(operator: type[BaseOperator], argument: str, default: object) -> None:
    for other in OPERATORS:
        parameter = parameters(other).get(argument)
        assert parameter is None or parameter.default in (default, inspect.Parameter.empty)


@pytest.mark.parametrize("operator", [CreateWebsiteOperator, UpdateWebsiteOperator])
@pytest.mark.parametrize("email", [True, False, 0, 1])
def test_airflows_email_is_not_taken_for_the_websites(operator: type[BaseOperator], email: Any) -> None:
    with pytest.raises(ValueError, match="email_reports"):
        make(operator, email=email)


def test_mypy_reads_the_file_of_misspelt_arguments() -> None:
    file = Path(__file__).with_name("misspelt_arguments.py")
    checkout = file.parents[3]
    settings = tomllib.loads((checkout / "pyproject.toml").read_text())["tool"]["mypy"]
    assert any(file.is_relative_to(checkout / read) for read in settings["files"])
    assert "exclude" not in settings
    assert settings["strict"]
    assert settings.get("warn_unused_ignores", True)
    text = file.read_text()
    assert not [operator for operator in OPERATORS if f"{operator.__name__}(" not in text]
