# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that runs test files, and the tests in each file, in a random order.

``SHUFFLE=3 PYTHONPATH=tests/support .venv/bin/python -m pytest -p shuffling tests/unit``; the same seed has the same
order. The tests of a file run together, because they share their servers and processes.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the tests by the seed in the variable SHUFFLE."""
    chance = random.Random(os.environ["SHUFFLE"])
    by_file: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        by_file[item.path].append(item)
    files = list(by_file.values())
    chance.shuffle(files)
    for tests in files:
        chance.shuffle(tests)
    items[:] = [item for tests in files for item in tests]
