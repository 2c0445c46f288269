# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/: their lists are equal to the values that the package returns, sends, writes, and reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import SAMPLES

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
PAGES: dict[str, list[Any]] = {"websites": WEBSITES, "websites_as_code": AS_CODE, "snapshots": SNAPSHOTS}
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


DOMAINS = ["a.example", "b.example", "c.example"]


def lines_of(sandbox: SandboxServer) -> list[str]:
    """Return the recorded requests as the page writes them."""
    return [
        " ".join([request.method, request.target.removeprefix("/api/v1"), request.body.decode()]).strip()
        for request in sandbox.requests
    ]


def without_ids(requests: list[str]) -> list[str]:
    """Return requests in order of their text: websites are changed in random order, and several at the same time."""
    return sorted(re.sub(r"/websites/\d+", "/websites/ID", request) for request in requests)


def files_of(folder: Path) -> set[str]:
    """Return the paths of the written files, without days and the names of runs."""
    return {general(str(path.relative_to(folder))) for path in folder.rglob("*") if path.is_file()}


def general(path: str) -> str:
    path = re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{8}-[0-9a-f]{4}", "RUN", path)
    path = re.sub(r"127\.0\.0\.1_\d+", "SERVICE", path)
    return re.sub(r"\d{4}-\d\d-\d\d(?=/)", "DAY", path)


def documented(blocks: list[str]) -> tuple[list[str], set[str]]:
    """Return the requests and the files of blocks of the page; the words after two blanks are comments."""
    lines = [re.split(r"  +", line)[0] for block in blocks for line in block.splitlines()]
    requests = [line for line in lines if re.match(r"[A-Z]+ /", line)]
    return requests, {general(line) for line in lines if line not in requests}


def test_how_it_works_lists_the_requests_and_files_of_a_sync(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Callable[..., Any],
    page: Callable[[str], str],
    tmp_path: Path,
) -> None:
    connect(extra={"parallel_requests": 1})  # otherwise, a slow machine reads pages in another order
    analytics_sandbox.seed(247)
    for domain in DOMAINS:
        analytics_sandbox.add_website(domain, exclude_ips="198.51.100.9")
    blocks = re.findall(r"```text\n(.*?)```", page("how_it_works"), re.DOTALL)

    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.7"], websites=DOMAINS, state_path=str(tmp_path / "state"))
    requests, files = documented(blocks)
    assert without_ids(lines_of(analytics_sandbox)) == without_ids(requests)
    assert files_of(tmp_path / "state") == files


NAME_OF_A_RUN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}|\d{8}T\d{6}Z")


# The path class of Airflow 2 warns whenever two paths are joined.
@pytest.mark.filterwarnings("ignore:in a future version of UPath:PendingDeprecationWarning")
def test_documented_code_writes_the_documented_layout(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    page: Callable[[str], str],
    blocks: Callable[[str, str], list[str]],
    run_block: Callable[..., dict[str, Any]],
    tmp_path: Path,
) -> None:
    connect()
    analytics_sandbox.seed(12)
    take, read, compare, prune = blocks("snapshots", "python")
    result = run_block(take)["snapshot"]
    assert all(path.endswith(".jsonl.gz") for path in result["files"])
    layout = page("snapshots").partition("\n## Layout\n")[2].partition("```\n")[2].partition("```")[0]
    names_of_the_page = {NAME_OF_A_RUN.sub("*", line.split()[0]) for line in layout.splitlines()}
    written = {path.name for path in (tmp_path / "analytics").rglob("*") if path.is_file()}
    assert {NAME_OF_A_RUN.sub("*", name) for name in written} <= names_of_the_page

    names = run_block(read)
    assert (len(names["rows"]), names["newest"], names["damaged"]) == (12, None, [])
    assert run_block(compare)["compare"]["is_first"]
    assert run_block(prune)["prune"]["kept"] == 1


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.py")))
def test_sample_dags_page_lists_each_sample_with_its_variables(name: str, page: Callable[[str], str]) -> None:
    [row] = [line for line in page("sample_dags").splitlines() if line.startswith(f"| [`{name}`]")]
    assert row.count(f"/dags/{name}.py") == 1
    source = (SAMPLES / f"{name}.py").read_text(encoding="utf-8")
    variables = set(re.findall(r"var\.value\.(?:get\(')?(\w+)", source))
    is_variant = "as above" in row or "as for" in row
    assert is_variant or {variable for variable in variables if f"`{variable}`" not in row} == set()
    named = re.findall(r"`(\w+)`", row.rpartition(" | ")[2])
    assert {constant for constant in named if constant.isupper() and constant not in source} == set()
