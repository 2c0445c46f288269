# SPDX-License-Identifier: Apache-2.0
"""docs/how_it_works.md: its requests and files are those of a real sync."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

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
