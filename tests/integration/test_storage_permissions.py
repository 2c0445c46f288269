# SPDX-License-Identifier: Apache-2.0
"""Other users of a worker's machine: they cannot read files, or redirect writes with links (``storage.py``)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_types import Execute, Serving

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.hooks.connection import storage_path
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.storage import SharedFile, StoragePath


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    """The umask of most systems: other users may read."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in sorted(folder.rglob("*"))}


def test_lists_plans_and_audit_trails_are_readable_only_by_their_owner(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    arguments: dict[str, Any] = {"exclude_ips": ["192.0.2.1"], "list_name": "a", "state_path": f"{tmp_path}/new/state"}
    planned = execute(SyncExcludedIpsOperator, **arguments, dry_run=True)
    execute(SyncExcludedIpsOperator, **arguments, approved_digest=planned["digest"])
    found = modes(tmp_path)
    written = {name for name in found if (tmp_path / name).is_file()}
    assert {Path(name).suffix for name in written} == {".json", ".md", ".jsonl"}
    assert {found[name] for name in written} == {0o600}
    assert {found[name] for name in found.keys() - written} == {0o700}


@pytest.mark.parametrize(("how", "file", "folder"), [("keep", 0o600, 0o700), ("hash", 0o644, 0o755)])
def test_snapshots_with_addresses_are_readable_only_by_their_owner(
    how: str, file: int, folder: int, serving: Serving, execute: Execute, tmp_path: Path
) -> None:
    with serving({"id": 1, "domain": "a.example"}):
        execute(SnapshotWebsitesOperator, base_path=f"{tmp_path}/base", exclude_ips_as=how, html_report=True)
    found = modes(tmp_path)
    assert {found[name] for name in found if (tmp_path / name).is_file()} == {file}
    assert {found[name] for name in found if (tmp_path / name).is_dir()} == {folder}


@pytest.mark.parametrize("exists", [False, True])
def test_exports_with_addresses_are_readable_only_by_their_owner(
    exists: bool, serving: Serving, execute: Execute, tmp_path: Path
) -> None:
    file = tmp_path / "new" / "websites.yaml"
    if exists:
        file.parent.mkdir()
        file.write_text("")
    with serving({"id": 1, "domain": "a.example", "exclude_ips": "192.0.2.1"}):
        execute(ExportWebsitesOperator, output_path=str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == (0o755 if exists else 0o700)


@pytest.mark.parametrize(
    ("mode", "mask", "file", "folder"),
    [
        (0o2775, 0o002, 0o660, 0o2770),
        (0o2770, 0o007, 0o660, 0o2770),
        (0o2775, 0o077, 0o600, 0o2700),
        (0o1777, 0o002, 0o600, 0o700),
        (0o755, 0o002, 0o600, 0o700),
    ],
    ids=["group", "group only", "umask 077", "everyone", "owner"],
)
def test_group_of_a_folder_can_use_private_files_if_it_can_write_the_folder(
    mode: int, mask: int, file: int, folder: int, analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    os.umask(mask)
    analytics_sandbox.add_website("a.example")
    arguments: dict[str, Any] = {"exclude_ips": ["192.0.2.1"], "list_name": "a", "state_path": str(shared)}
    planned = execute(SyncExcludedIpsOperator, **arguments, dry_run=True)
    execute(SyncExcludedIpsOperator, **arguments, approved_digest=planned["digest"])
    execute(SnapshotWebsitesOperator, base_path=f"{shared}/private", html_report=True)
    found = modes(shared)
    written = {name for name in found if (shared / name).is_file()}
    assert {found[name] for name in written} == {file}
    assert {found[name] for name in found.keys() - written} == {folder}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process as another user")
def test_second_user_of_the_group_reads_and_replaces_a_list_table(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    for folder in (shared, *list(shared.parents)[:-1]):
        folder.chmod(folder.stat().st_mode | 0o055)
    shared.chmod(0o2775)
    os.umask(0o002)
    path = shared / "service" / "lists" / "a.json"
    for user in (12345, 12346):
        child = os.fork()  # another user cannot read the packages of this one
        if child == 0:
            is_written = False
            try:
                os.setgroups([])
                os.setgid(0)
                os.setuid(user)
                file = SharedFile(StoragePath.of(path), "state_path")
                is_written = file.write((file.text or "") + str(user))
            finally:
                os._exit(0 if is_written else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert path.read_text() == "1234512346"


def test_audit_trail_is_not_written_through_a_planted_link(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    victim = tmp_path / "victim"
    arguments: dict[str, Any] = {"exclude_ips": ["192.0.2.1"], "state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, **arguments)
    [trail] = tmp_path.glob("*/audit/*/*.jsonl")
    trail.unlink()
    trail.symlink_to(victim)
    analytics_sandbox.change_website(1, exclude_ips="")
    analytics_sandbox.clear_requests()
    with pytest.raises(AnalyticsError, match="cannot write state_path"):
        execute(SyncExcludedIpsOperator, **arguments)
    assert not victim.exists()
    assert not [request for request in analytics_sandbox.requests if request.method != "GET"]


@pytest.mark.parametrize("content", ["{}", None], ids=["a file", "nothing"])
def test_list_table_is_not_written_through_a_planted_link(tmp_path: Path, content: str | None) -> None:
    victim = tmp_path / "victim"
    if content is not None:
        victim.write_text(content)
    (tmp_path / "list.json").symlink_to(victim)
    with pytest.raises(AnalyticsError, match="cannot write state_path"):
        SharedFile(storage_path(f"{tmp_path}/list.json", "state_path"), "state_path").write("new")
    assert (victim.read_text() if victim.exists() else None) == content
