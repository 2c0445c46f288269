# SPDX-License-Identifier: Apache-2.0
"""docs/snapshots.md: its code and its layout."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_analytics.sandbox.server import SandboxServer

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


def test_snapshot_of_the_guide_is_readable_only_by_its_owner(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    blocks: Callable[[str, str], list[str]],
    run_block: Callable[..., dict[str, Any]],
) -> None:
    connect()
    analytics_sandbox.seed(12)
    result = run_block(blocks("snapshots", "python")[0])["snapshot"]
    [file] = [Path(item.removeprefix("file://")) for item in result["files"]]
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
