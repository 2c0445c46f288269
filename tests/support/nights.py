# SPDX-License-Identifier: Apache-2.0
"""Runs of lists that share a state folder."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fixture_types import Execute

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.websites_as_code import ApplyWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


class Nights:
    """Runs of lists in the same state folder. Each ``sync`` is a separate run, a second after the previous run."""

    def __init__(self, sandbox: SandboxServer, execute: Execute, folder: Path) -> None:
        self.sandbox = sandbox
        self.now = datetime(2026, 11, 23, 1, 30, tzinfo=UTC)
        self.folder = folder
        self._execute = execute

    def sync(self, name: str, *entries: str, **arguments: Any) -> dict[str, Any]:
        return self._run(SyncExcludedIpsOperator, name, exclude_ips=entries, **arguments)

    def apply(self, name: str, websites: dict[str, list[str]], **arguments: Any) -> dict[str, Any]:
        config = {"websites": {domain: {"exclude_ips": entries} for domain, entries in websites.items()}}
        return self._run(ApplyWebsitesOperator, name, **{"config": config} | arguments)

    def _run(self, operator: type, name: str, **arguments: Any) -> dict[str, Any]:
        self.now += timedelta(seconds=1)
        given = {"run_id": uuid.uuid4().hex, "task_id": name, "list_name": name, "state_path": str(self.folder)}
        result: dict[str, Any] = self._execute(operator, **given | arguments)
        return result

    def lists(self) -> dict[str, set[str]]:
        return {
            website["domain"]: set((website["exclude_ips"] or "").splitlines()) for website in self.sandbox.websites()
        }

    def everywhere(self) -> set[str]:
        """Return the entries of all websites, which must be equal."""
        [found] = set(map(frozenset, self.lists().values()))
        return set(found)

    def table(self, name: str) -> Path:
        [path] = self.folder.rglob(f"lists/{name}.json")
        return path
