# SPDX-License-Identifier: Apache-2.0
"""The tests that ``make test`` omits: slow tests that are not chosen, and redundant combinations of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import pytest

#: Markers of tests that take seconds, not milliseconds. Those that are also marked ``chosen`` run nevertheless.
SLOW = frozenset({"kill", "browser", "system", "slow"})
#: From this number of cases of a function on, not every combination of its parameters runs.
MANY = 12

#: Two parameters of a case, with their values.
Pair = tuple[tuple[str, str], ...]


def divided(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests of ``make test``, and the omitted tests."""
    by_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = {item for cases in by_function.values() for item in _of_one_function(cases)}
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def _of_one_function(cases: Sequence[pytest.Item]) -> Iterable[pytest.Item]:
    mark = cases[0].get_closest_marker("chosen")
    if mark is not None:
        number = mark.args[0] if mark.args else len(cases)
        return [cases[len(cases) * place // number] for place in range(min(number, len(cases)))]
    return pairwise([item for item in cases if not is_slow(item)])


def is_slow(item: pytest.Item) -> bool:
    """Return whether a test takes seconds."""
    return bool(SLOW & {marker.name for marker in item.iter_markers()})


def pairwise(cases: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Yield cases of a function until each value of a parameter was combined with each value of every other parameter.

    Single parameters would hide faults of two parameters together.
    """
    left = {item: _pairs(item) for item in cases}
    if len(cases) < MANY or not any(left.values()):
        yield from cases
        return
    missing: set[Pair] = set().union(*left.values())
    while missing:
        best = max(left, key=lambda item: len(left[item] & missing))
        missing -= left.pop(best)
        yield best


def _pairs(item: pytest.Item) -> set[Pair]:
    callspec = getattr(item, "callspec", None)
    parameters = [(name, repr(value)) for name, value in callspec.params.items()] if callspec else []
    return set(combinations(parameters, 2))
