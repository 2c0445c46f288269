# SPDX-License-Identifier: Apache-2.0
"""Types of the fixture ``run_dag`` of ``tests/conftest.py``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import DAG


@dataclass(frozen=True)
class TaskOutcome:
    """The end of a task of a DAG run: its state, the number of its last try, its XComs by key, and the text of the
    grid in place of its map index.
    """

    state: str
    try_number: int
    xcom: Mapping[str, Any]
    label: str | None

    @property
    def returned(self) -> Any:
        """The return value of the task, or None."""
        return self.xcom.get("return_value")


@dataclass(frozen=True)
class DagOutcome:
    """The end of a DAG run: its state, and its tasks by id (``id[0]``, ``id[1]``, ... for a mapped task)."""

    state: str
    tasks: Mapping[str, TaskOutcome]


class OutletEvents:
    """The ``outlet_events`` of a context for tests that call ``execute``; assets of Airflow 3.0 are not keys."""

    def __init__(self) -> None:
        self._events: defaultdict[str, SimpleNamespace] = defaultdict(OutletEvents._event)

    def __getitem__(self, asset: Any) -> SimpleNamespace:
        return self._events[asset.uri]

    @staticmethod
    def _event() -> SimpleNamespace:
        partitions: list[str] = []
        return SimpleNamespace(partitions=partitions, add_partitions=lambda *keys: partitions.extend(keys))


class RunDag(Protocol):
    """The fixture ``run_dag``."""

    def __call__(
        self, dag: DAG, *, conf: dict[str, Any] | None = None, logical_date: datetime | None = None
    ) -> DagOutcome:
        """Run a DAG completely in this process."""
