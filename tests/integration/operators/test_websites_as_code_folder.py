# SPDX-License-Identifier: Apache-2.0
"""Folder of websites files: each file is read or named in an error, because ``prune`` would delete its websites."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import attach
from reconciling import Night

from airflow_provider_analytics.commands import main

WEBSITE = "websites: {%s.example: {}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "websites"
    folder.mkdir()
    (folder / "a.yaml").write_text(WEBSITE % 1)
    return folder


def plant(folder: Path, name: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(WEBSITE % 2)


@pytest.mark.parametrize("name", ["b.yml", "b.YAML", "b.Yml"])
def test_folder_is_read_with_all_endings_of_yaml(name: str, folder: Path, night: Night) -> None:
    night.add(3)
    plant(folder, name)
    result = night.apply(config_path=str(folder), prune=True, override_guards=["many_deleted"])
    assert result["deletes"] == 1
    assert [website["domain"] for website in night.sandbox.websites()] == ["1.example", "2.example"]


@pytest.mark.parametrize(
    "name",
    [
        "team/d.yaml",
        "team/eu/d.YML",
        "d.yaml.bak",
        "d.yaml~",
        "d.yml.j2",
        "d.yaml.disabled",
        "d.json",
        "D.JSON",
    ],
)
def test_folder_fails_if_a_file_with_websites_would_be_left_out(
    name: str, folder: Path, night: Night, capsys: pytest.CaptureFixture[str]
) -> None:
    night.add(3)
    plant(folder, name)
    assert main(["validate", str(folder)]) == 1
    assert name in capsys.readouterr().err
    with pytest.raises(AirflowFailException, match=rf"{name} would not be read, but might contain websites"):
        night.apply(config_path=str(folder), prune=True, override_guards=["many_deleted"])
    assert len(night.sandbox.websites()) == 3


def test_folder_fails_if_a_linked_folder_contains_websites(folder: Path, night: Night, tmp_path: Path) -> None:
    plant(tmp_path, "elsewhere/d.yaml")
    (folder / "team").symlink_to(tmp_path / "elsewhere")
    (folder / "loop").symlink_to(folder.parent)
    with pytest.raises(AirflowFailException, match=r"team/d\.yaml would not be read"):
        night.plan(config_path=str(folder))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", ["b.yaml", "team/d.yaml"])
def test_folder_fails_if_a_file_cannot_be_read_for_lack_of_permission(name: str, folder: Path, night: Night) -> None:
    plant(folder, name)
    (folder / name.partition("/")[0]).chmod(0)
    with pytest.raises(Exception, match="Permission denied"):
        night.plan(config_path=str(folder))


def test_folder_ignores_files_that_contain_no_websites(folder: Path, night: Night) -> None:
    for name in (
        "README.md",
        "CODEOWNERS",
        ".git/config.yaml",
        ".gitlab-ci.yml",
        ".b.yaml.swp",
        "a.yaml~",
        "#a.yaml#",
        "websites.schema.json",
        "scripts/check.py",
        "state/plans/1.json",
        "yaml",
        "b.yamllint",
        "b.txt",
    ):
        plant(folder, name)
    night.add(1)
    assert night.plan(config_path=str(folder))["websites_compared"] == 1
    assert main(["validate", str(folder)]) == 0


def test_object_storage_fails_if_a_file_with_websites_would_be_left_out(memory: Any, night: Night) -> None:
    attach("memory", memory)
    night.add(3)
    memory.pipe_file("/files/a.yaml", (WEBSITE % 1).encode())
    memory.pipe_file("/files/b.YML", (WEBSITE % 2).encode())
    assert night.plan(config_path="memory://files", prune=True, override_guards=["many_deleted"])["deletes"] == 1
    memory.pipe_file("/files/team/d.yaml", (WEBSITE % 3).encode())
    with pytest.raises(AirflowFailException, match=r"team/d\.yaml would not be read"):
        night.plan(config_path="memory://files", prune=True)
    memory.rm("/files", recursive=True)
