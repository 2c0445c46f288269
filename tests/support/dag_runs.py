"""What the fixture ``run_dag`` of ``tests/conftest.py`` takes and gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import DAG


@dataclass(frozen=True)
class TaskOutcome:
    """How a task of a DAG run ended: its state, the number of its last try, and its XComs by key."""

    state: str
    try_number: int
    xcom: Mapping[str, Any]

    @property
    def returned(self) -> Any:
        """What the task returned, None where it returned nothing."""
        return self.xcom.get("return_value")


@dataclass(frozen=True)
class DagOutcome:
    """How a DAG run ended: its state, and its tasks by id (``id[0]``, ``id[1]``, ... for a mapped one)."""

    state: str
    tasks: Mapping[str, TaskOutcome]


class RunDag(Protocol):
    """The fixture ``run_dag``."""

    def __call__(
        self, dag: DAG, *, conf: dict[str, Any] | None = None, logical_date: datetime | None = None
    ) -> DagOutcome:
        """Run a DAG for real, in this process."""
