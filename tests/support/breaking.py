# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that breaks the code on purpose: it replaces one text in the source of one module.

``python -m pytest -p breaking --break MODULE OLD NEW TEST`` must fail.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType
from typing import Any

import pytest


class _BrokenSource(SourceFileLoader):
    def __init__(self, name: str, path: str, old: str, new: str) -> None:
        super().__init__(name, path)
        self._old, self._new = old, new

    def get_code(self, fullname: str) -> CodeType:
        source = self.get_source(fullname) or ""
        if source.count(self._old) != 1:
            raise pytest.UsageError(f"{fullname} has {self._old!r} {source.count(self._old)} times: adapt the break")
        return compile(source.replace(self._old, self._new), self.path, "exec", dont_inherit=True)


class _Finder:
    def __init__(self, name: str, old: str, new: str) -> None:
        self._name, self._old, self._new = name, old, new

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        found = PathFinder.find_spec(name, path)
        assert found is not None
        assert found.origin
        return importlib.util.spec_from_loader(name, _BrokenSource(name, found.origin, self._old, self._new))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--break", nargs=3, metavar=("MODULE", "OLD", "NEW"), dest="broken")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    name, old, new = early_config.known_args_namespace.broken
    assert name not in sys.modules
    sys.meta_path.insert(0, _Finder(name, old, new))
