# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin of ``scripts/mutants.py``: it replaces the source of a module, and records the tests of each line.

``MUTANT_MODULE`` is the name of the module, ``MUTANT_SOURCE`` the file with its source, and ``MUTANT_TESTS`` a file
with the ids of the tests to run, in this order. With ``coverage run``, each line is recorded with its tests.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import coverage
import pytest


class _Mutated(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        return compile(Path(os.environ["MUTANT_SOURCE"]).read_text(), self.path, "exec", dont_inherit=True)


class _Finder:
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != os.environ["MUTANT_MODULE"]:
            return None
        found = PathFinder.find_spec(name, path)
        assert found is not None
        assert found.origin
        package = found.submodule_search_locations
        loader = _Mutated(name, found.origin)
        return importlib.util.spec_from_file_location(
            name, found.origin, loader=loader, submodule_search_locations=package
        )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Make the mistake before the package is imported."""
    if "MUTANT_MODULE" in os.environ:
        sys.meta_path.insert(0, _Finder())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep only the tests that cover the mistake, in their order."""
    if "MUTANT_TESTS" in os.environ:
        order = {test: number for number, test in enumerate(Path(os.environ["MUTANT_TESTS"]).read_text().split("\n"))}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Record the lines of a test under its name."""
    current = coverage.Coverage.current()
    if current is not None:
        current.switch_context(item.nodeid)
    return (yield)
