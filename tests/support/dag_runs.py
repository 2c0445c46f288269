# SPDX-License-Identifier: Apache-2.0
"""What the fixture ``run_dag`` of ``tests/conftest.py`` takes and gives back."""

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
    """How a task of a DAG run ended: its state, the number of its last try, its XComs by key, and what the grid shows
    in place of its map index."""

    state: str
    try_number: int
    xcom: Mapping[str, Any]
    label: str | None

    @property
    def returned(self) -> Any:
        """What the task returned, None where it returned nothing."""
        return self.xcom.get("return_value")


@dataclass(frozen=True)
class DagOutcome:
    """How a DAG run ended: its state, and its tasks by id (``id[0]``, ``id[1]``, ... for a mapped one)."""

    state: str
    tasks: Mapping[str, TaskOutcome]


class OutletEvents:
    """What a context holds as ``outlet_events``, where a test calls ``execute``; assets of Airflow 3.0 are no keys."""

    def __init__(self) -> None:
        self._events: defaultdict[str, SimpleNamespace] = defaultdict(OutletEvents._event)

    def __getitem__(self, asset: Any) -> SimpleNamespace:
        return self._events[asset.uri]

    @staticmethod
    def _event() -> SimpleNamespace:
        return SimpleNamespace(add_partitions=lambda *keys: None)


class RunDag(Protocol):
    """The fixture ``run_dag``."""

    def __call__(
        self, dag: DAG, *, conf: dict[str, Any] | None = None, logical_date: datetime | None = None
    ) -> DagOutcome:
        """Run a DAG for real, in this process."""
