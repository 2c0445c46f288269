# SPDX-License-Identifier: Apache-2.0
"""Unknown lines in exclusion lists: they are kept, exported, and restored (``reconcile/desired/exclusion_list.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute
from reconciling import Night

from airflow_provider_analytics.exceptions import BulkError
from airflow_provider_analytics.operators.exclusions import SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator

#: Lines that mean several addresses: ``networks="as_is"`` sends them.
LINES = [
    "10/8",
    "192.0.2.10-20",
    "192.0.2.1 - 192.0.2.9",
    "192.168.*.*",
    r"^10\.[0-9]{1,3}\.",
    "[0-9a-f]+:.*",
    "10.",
    "192.0.2.0/255.255.255.0",
]
#: Lines of other people that are kept and never sent.
OTHER_LINES = ["a - b", "office", "192.0.2.1 Ann's laptop", "2001:db8::%eth0"]


@pytest.mark.parametrize("mode", ["merge", "managed"])
@pytest.mark.parametrize("line", [*LINES, *OTHER_LINES])
def test_sync_keeps_an_unknown_line(line: str, mode: str, night: Night) -> None:
    night.add(2, exclude_ips=line)
    night.add(1, exclude_ips=f"192.0.2.7\n{line} # Ann\n192.0.2.8")
    result = night.sync("203.0.113.7", mode=mode, **(night.state if mode == "managed" else {}))
    assert result["verified"] is True
    assert night.lists() == [f"{line}\n203.0.113.7"] * 2 + [f"192.0.2.7\n{line} # Ann\n192.0.2.8\n203.0.113.7"]
    assert night.sync("203.0.113.7", mode="merge")["updates"] == 0


@pytest.mark.parametrize("line", ["a - b", "utm_(source|medium)", "^fbclid$", 'say "x"', "a<b"])
def test_sync_keeps_an_unknown_parameter(line: str, night: Night, execute_task: Execute) -> None:
    night.add(2, exclude_params=f"{line}\ngclid")
    assert execute_task(SyncExcludedParamsOperator, exclude_params=["fbclid"])["verified"] is True
    assert night.lists("exclude_params") == [f"{line}\ngclid\nfbclid"] * 2


def test_replace_removes_an_unknown_line_and_the_guard_counts_it(night: Night) -> None:
    night.add(12, exclude_ips="192.168.*.*\n10/8")
    with pytest.raises(AirflowFailException, match="24"):
        night.sync("203.0.113.7", mode="replace")
    result = night.sync("203.0.113.7", mode="replace", override_guards=["entries_lost"])
    assert (result["entries_removed"], set(night.lists())) == (24, {"203.0.113.7"})


def test_sync_sends_networks_unchanged_and_removes_it_with_its_list_entry(night: Night) -> None:
    night.add(2, exclude_ips="192.168.*.*")
    for networks in ("reject", "expand"):
        with pytest.raises((AirflowFailException, ValueError), match="is not an IP address"):
            night.managed(*LINES, networks=networks)
    listed = {"networks": "as_is", "override_guards": ["entries_lost"]}
    assert night.managed(*LINES, "203.0.113.0/24", **listed)["verified"] is True
    assert [set(text.splitlines()) for text in night.lists()] == [{*LINES, "203.0.113.0/24"}] * 2
    assert night.managed("203.0.113.0/24", **listed)["entries_removed"] == 2 * len(LINES)
    assert night.lists() == ["203.0.113.0/24"] * 2


def test_export_keeps_networks_and_its_plan_is_empty(night: Night, execute_task: Execute, tmp_path: Path) -> None:
    night.add("a.example", exclude_ips="\n".join([*LINES, "192.0.2.7 # Ann", "# the end"]), exclude_params="a - b\nc,d")
    night.add("b.example", exclude_ips="192.0.2.7")
    file = str(tmp_path / "exported.yaml")
    assert execute_task(ExportWebsitesOperator, output_path=file)["omitted"] == 0
    exported = yaml.safe_load(Path(file).read_text())
    assert exported["networks"] == "as_is"
    assert len(exported["websites"]["a.example"]["exclude_ips"]) == len(LINES) + 2
    assert night.plan(config_path=file)["updates"] == 0


def test_restore_includes_networks(night: Night, execute_task: Execute, tmp_path: Path) -> None:
    before = "\n".join([*LINES, "192.0.2.7"])
    night.add("a.example", exclude_ips=before)
    base = str(tmp_path / "snapshots")
    snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path=base, partition_date=None).execute({})
    night.sandbox.change_website(1, exclude_ips="192.0.2.99")
    file = str(tmp_path / "restore.yaml")
    execute_task(ExportWebsitesOperator, output_path=file, base_path=base, snapshot_date=snapshot["snapshot_date"])
    night.apply(config_path=file, override_guards=["entries_lost"])
    assert night.lists() == [before]


@pytest.mark.parametrize("line", OTHER_LINES)
def test_export_leaves_out_a_list_with_a_line_that_is_never_sent(
    line: str, night: Night, execute_task: Execute, tmp_path: Path
) -> None:
    night.add("a.example", exclude_ips=f"192.0.2.7\n{line}")
    file = tmp_path / "exported.yaml"
    assert execute_task(ExportWebsitesOperator, output_path=str(file))["omitted"] == 1
    assert "# a.example: exclude_ips omitted" in file.read_text()
    assert night.plan(config_path=str(file))["updates"] == 0
    assert night.lists() == [f"192.0.2.7\n{line}"]


@pytest.mark.parametrize(
    "shown",
    [
        "192.0.2.1,192.0.2.2",
        "192.0.2.1 192.0.2.2",
        "192.0.2.1 # Ann, 192.0.2.2",
        '["192.0.2.1"]',
        '["192.0.2.1 # Ann", "192.0.2.2"]',
        "['192.0.2.1', '192.0.2.2 # Ann']",
        '{192.0.2.1,"192.0.2.2 # Ann"}',
        "192.0.2.1\n192...",
    ],
)
def test_sync_does_not_change_a_list_that_is_returned_in_another_form(shown: str, night: Night) -> None:
    night.add(2, exclude_ips=shown)
    with pytest.raises(BulkError, match="has several entries or is cut off"):
        night.sync("203.0.113.7")
    assert night.lists() == [shown] * 2
