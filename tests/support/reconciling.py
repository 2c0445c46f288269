# SPDX-License-Identifier: Apache-2.0
"""A night of tasks that reconcile websites: the service, the tasks, and their results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fake_services import FakeService
from fixture_types import Execute

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    PlanWebsitesOperator,
)


class Night:
    """The sandbox, and tasks without a DAG run that share a state folder and a websites file."""

    def __init__(self, sandbox: FakeService, execute: Execute, folder: Path) -> None:
        self.sandbox = sandbox
        self.execute = execute
        self.folder = folder
        self.file = folder / "websites.yaml"
        #: The argument of tasks that keep state.
        self.state: dict[str, Any] = {"state_path": str(folder)}

    def add(self, websites: int | str, **settings: Any) -> None:
        """Add this number of websites (``1.example``, ...), or the given websites, with the same settings."""
        numbered = (f"{number}.example" for number in range(1, websites + 1)) if isinstance(websites, int) else ()
        for domain in numbered if isinstance(websites, int) else websites.split():
            self.sandbox.add_website(domain, **settings)

    def sync(self, *entries: str, **arguments: Any) -> Any:
        """Run a list of addresses, in the mode merge unless the arguments have another mode."""
        return self.execute(SyncExcludedIpsOperator, **{"exclude_ips": entries, **arguments})

    def managed(self, *entries: str, **arguments: Any) -> Any:
        """Run a list of addresses that owns its entries."""
        return self.sync(*entries, **{**self.state, **arguments})

    def write(self, websites: str | Mapping[str, Any]) -> None:
        """Write the websites file: its text, or its value."""
        self.file.write_text(websites if isinstance(websites, str) else json.dumps(websites))

    def plan(self, **arguments: Any) -> Any:
        """Plan the file, or the argument ``config``."""
        return self._of_the_file(PlanWebsitesOperator, arguments)

    def apply(self, **arguments: Any) -> Any:
        """Apply the file, or the argument ``config``."""
        return self._of_the_file(ApplyWebsitesOperator, arguments)

    def drift(self, **arguments: Any) -> Any:
        """Compare the file, or the argument ``config``."""
        return self._of_the_file(CheckDriftOperator, arguments)

    def _of_the_file(self, operator: type, arguments: dict[str, Any]) -> Any:
        source = {} if {"config", "config_path"} & arguments.keys() else {"config_path": str(self.file)}
        return self.execute(operator, **source, **arguments)

    def lists(self, field: str = "exclude_ips") -> list[Any]:
        """Return the stored list of each website."""
        return [website[field] for website in self.sandbox.websites()]

    @property
    def operations(self) -> Counter[str | None]:
        """The number of requests of each operation."""
        return Counter(request.operation for request in self.sandbox.requests)

    @property
    def updated(self) -> set[str]:
        """The ids of the websites with an update request."""
        sent = (request for request in self.sandbox.requests if request.operation == "update")
        return {request.path.rpartition("/")[2] for request in sent}

    def trail(self, pattern: str = "*") -> list[dict[str, Any]]:
        """Return the lines of the audit trails with matching names."""
        files = sorted(self.folder.rglob(f"{pattern}.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]
