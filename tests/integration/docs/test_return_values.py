# SPDX-License-Identifier: Apache-2.0
"""The reference pages describe the values that the operators return."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Operators with the arguments of a run, and the operator whose entry lists their keys; text in braces is a folder.
WEBSITES = [
    (CreateWebsiteOperator, {"domain": "new.example"}, "CreateWebsiteOperator"),
    (UpdateWebsiteOperator, {"website_id": 1, "privacy": "private"}, "CreateWebsiteOperator"),
    (DeleteWebsiteOperator, {"website_id": 1}, "DeleteWebsiteOperator"),
]
CONFIG = {"websites": {"new.example": {"privacy": "private"}}}
AS_CODE = [
    (SyncExcludedIpsOperator, {"exclude_ips": ["203.0.113.7"]}, "PlanWebsitesOperator"),
    (PlanWebsitesOperator, {"config": CONFIG}, "PlanWebsitesOperator"),
    (ApplyWebsitesOperator, {"config": CONFIG, "approved_digest": "any"}, "PlanWebsitesOperator"),
    (CheckDriftOperator, {"config": CONFIG, "on_drift": "log"}, "PlanWebsitesOperator"),
    (ExportWebsitesOperator, {"output_path": "{folder}/websites.yaml"}, "ExportWebsitesOperator"),
]
SNAPSHOTS = [
    (SnapshotWebsitesOperator, {"base_path": "{folder}"}, "SnapshotWebsitesOperator"),
    (CompareSnapshotsOperator, {"base_path": "{folder}"}, "CompareSnapshotsOperator"),
    (PruneSnapshotsOperator, {"base_path": "{folder}", "keep_days": 1}, "PruneSnapshotsOperator"),
]
PAGES: dict[str, list[Any]] = {
    "websites": WEBSITES,
    "websites_as_code": AS_CODE,
    "snapshots": SNAPSHOTS,
}
TYPES: dict[str, Any] = {
    "string": str,
    "date": str,
    "time": str,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "null": type(None),
}


def rows_of(page: str, operator: str) -> dict[str, tuple[str, str]]:
    """Return type and example of each key in the list below an operator."""
    section = page.partition(f"\n## {operator}\n")[2].partition("\n## ")[0]
    keys = section.partition("a dict with these keys:")[2].partition("\nRaises:")[0]
    items = re.findall(r"^\* `(\w+)` \((.+?)(?:, such as `(.*?)`)?\): ", keys, re.MULTILINE)
    return {key: (kind, example) for key, kind, example in items}


def is_of_type(value: Any, kind: str) -> bool:
    return any(
        isinstance(value, list) if name.startswith("list of ") else isinstance(value, TYPES[name])
        for name in re.split(", | or ", kind)
    )


@pytest.mark.parametrize("name", PAGES)
def test_reference_lists_each_key_of_the_return_value(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Callable[..., Any],
    page: Callable[[str], str],
    tmp_path: Path,
    name: str,
) -> None:
    connect()
    analytics_sandbox.seed(3)
    text = page(f"reference/operators/{name}")
    for operator, arguments, described_by in PAGES[name]:
        given = {}
        for argument, value in arguments.items():
            given[argument] = value
            if isinstance(value, str):
                given[argument] = value.replace("{folder}", str(tmp_path))
        result = execute(operator, **given)
        rows = rows_of(text, described_by)
        if operator is SyncExcludedIpsOperator:
            assert (result.pop("field"), result.pop("mode")) == ("exclude_ips", "merge")
        assert list(rows) == list(result), operator.__name__
        for key, (kind, example) in rows.items():
            assert not example or is_of_type(json.loads(example), kind), (operator.__name__, key)
            assert is_of_type(result[key], kind), (operator.__name__, key, result[key])
