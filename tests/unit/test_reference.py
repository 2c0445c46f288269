# SPDX-License-Identifier: Apache-2.0
"""The generated reference: its defaults are those of the signatures, and its attributes exist."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import reference

from airflow_provider_analytics import exceptions
from airflow_provider_analytics.hooks.analytics import AnalyticsHook

pytestmark = pytest.mark.repository

ERRORS = [found for name, found in vars(exceptions).items() if name.endswith("Error")]
METHODS = [found for name, found in vars(AnalyticsHook).items() if inspect.isfunction(found) and name[0] != "_"]
OPERATORS = [
    found
    for module in map(import_module, reference.operator_modules())
    for name, found in vars(module).items()
    if getattr(found, "__module__", "") == module.__name__ and callable(found) and name[0] != "_"
]


@pytest.mark.parametrize("found", [*ERRORS, *METHODS, *OPERATORS], ids=lambda found: found.__qualname__)
def test_defaults_are_those_of_the_nearest_signature(found: Callable[..., Any]) -> None:
    defaults = reference.defaults_of(found)
    for name, parameter in inspect.signature(found).parameters.items():
        expected = None
        if parameter.default is not inspect.Parameter.empty:
            expected = getattr(parameter.default, "__name__", repr(parameter.default))
        assert defaults.get(name) == expected, name


def test_default_that_is_a_class_is_printed_by_its_name() -> None:
    page = "\n".join(reference.operators("airflow_provider_analytics.operators.task_groups"))
    assert "* `operator` (default `SyncExcludedIpsOperator`): " in page


def test_keyword_arguments_are_printed_with_stars_and_without_a_default() -> None:
    page = "\n".join(reference.operators("airflow_provider_analytics.operators.task_groups"))
    assert page.count("* `**arguments`: ") == 2
    assert "* `**settings`: as for `create_website`." in "\n".join(reference.hook())


def test_arguments_in_common_are_printed_once() -> None:
    page = "\n".join(reference.operators("airflow_provider_analytics.operators.exclusions"))
    assert page.count("* `state_path`") == 1
    assert "The same as in [`SyncExcludedIpsOperator`](#syncexcludedipsoperator): `websites`," in page


@pytest.mark.parametrize("error", ERRORS, ids=lambda found: found.__name__)
def test_documented_attributes_of_an_exception_exist(error: type) -> None:
    source = "".join(inspect.getsource(base) for base in error.__mro__ if base.__module__ == error.__module__)
    documented = re.findall(r"^ +:param (\w+):", inspect.getsource(error), re.MULTILINE)
    assert {name for name in documented if not re.search(rf"(?m)self\.{name} =|^    {name}: ", source)} == set()


def test_every_public_function_is_in_the_reference() -> None:
    public = (reference._DOCS / "reference" / "public_api.txt").read_text(encoding="utf-8")
    names = re.findall(r"^airflow_provider_analytics\.[\w.]+\.(\w+)\(", public, re.MULTILINE)
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (reference._DOCS / "reference").rglob("*.md"))
    assert {name for name in names if not re.search(rf"^#+ {name}$", pages, re.MULTILINE)} == set()
    assert "read_snapshot" in names
