# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md: the situations of Recovery and the longer entries, with the documented steps."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from dag_runs import RunDag
from samples import sample_dag

from airflow_provider_analytics.api.fields import SETTABLE_FIELDS
from airflow_provider_analytics.commands import main
from airflow_provider_analytics.exceptions import AmbiguousWriteError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.catalog import list_snapshots

Advice = Callable[..., list[str]]
Run = Callable[..., dict[str, Any]]

RESTORE = "Restore deleted websites from a snapshot"
WITH_UPDATES = (", create_only=True", "")


@pytest.fixture(autouse=True)
def connected(connect: Callable[..., None]) -> None:
    connect()


@pytest.fixture
def advice(page: Callable[[str], str]) -> Advice:
    """Return the code blocks below a heading or a message: ``advice("Remove a bad snapshot", "python")``."""

    def read(heading: str, language: str) -> list[str]:
        entries = re.split(r"^### ", page("troubleshooting"), flags=re.MULTILINE)
        begins = (f"{heading}\n", f"**Message:** `{heading}`")
        [text] = [entry for entry in entries if entry.startswith(begins[0]) or begins[1] in entry]
        return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)

    return read


@pytest.fixture
def recipe(advice: Advice, run_block: Run) -> Run:
    """Run the Python block below a heading, with its operators, after some replacements."""

    def run(heading: str, *replacements: tuple[str, str]) -> dict[str, Any]:
        [text] = advice(heading, "python")
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        return run_block(text)

    return run


@pytest.fixture
def command(advice: Advice, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Run the command of this package below a heading, and return its output."""

    def run(heading: str) -> str:
        [text] = advice(heading, "console")
        program, *options = shlex.split(text.replace("s3://analytics-state", str(tmp_path)))
        assert program == "airflow-provider-analytics"
        capsys.readouterr()
        assert main(options) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def take(execute: Callable[..., Any], tmp_path: Path) -> Callable[[], None]:
    return lambda: execute(SnapshotWebsitesOperator, base_path=f"{tmp_path.as_uri()}/analytics")


def settings(sandbox: SandboxServer) -> dict[str, Any]:
    fields = set(SETTABLE_FIELDS) - {"favorite"}
    return {website["domain"]: {name: website[name] for name in fields} for website in sandbox.websites()}


def test_recovery_after_half_of_the_websites_were_deleted(
    analytics_sandbox: SandboxServer, take: Callable[[], None], recipe: Run
) -> None:
    for number in range(1, 21):
        lines = f"# typed by Ann\n203.0.113.{number + 1} # office {number}\n198.51.100.7" if number > 1 else "# nothing"
        analytics_sandbox.add_website(f"{number}.example.com", privacy=number % 2, exclude_ips=lines)
    take()
    before = settings(analytics_sandbox)
    for website in analytics_sandbox.websites()[:10]:
        analytics_sandbox.remove_website(website["id"])
    kept = analytics_sandbox.websites()[0]
    analytics_sandbox.change_website(kept["id"], email=1)  # later changes remain
    done = recipe(RESTORE)
    assert (done["plan"]["creates"], done["plan"]["updates"]) == (10, 0)
    assert (done["apply"]["applied"], done["apply"]["verified"]) == (10, True)
    assert settings(analytics_sandbox) == {**before, kept["domain"]: {**before[kept["domain"]], "email": 1}}
    assert recipe(RESTORE)["plan"]["creates"] == 0


def test_recovery_of_a_single_website(
    analytics_sandbox: SandboxServer, take: Callable[[], None], recipe: Run, page: Callable[[str], str]
) -> None:
    ips, params = "203.0.113.7 # office\n203.0.113.8", "# ads\nutm_source # spring"
    item = analytics_sandbox.add_website("shop.example.com", privacy=1, exclude_params=params, exclude_ips=ips)
    other = analytics_sandbox.add_website("other.example.com", privacy=1)
    take()
    before = settings(analytics_sandbox)["shop.example.com"]
    for website in (item, other):
        analytics_sandbox.change_website(website["id"], privacy=0, exclude_params="")
    # An entry that was added after the snapshot is removed; a comment is sent only with a missing entry.
    analytics_sandbox.change_website(item["id"], exclude_ips="203.0.113.7 # moved\n198.51.100.9")
    [argument] = re.findall(r"`(websites=\[.*?\])`", page("troubleshooting"))
    done = recipe(RESTORE, ("output_path=", f"{argument}, output_path="), WITH_UPDATES)
    assert (done["export"]["websites_exported"], done["apply"]["applied"]) == (1, 1)
    after = settings(analytics_sandbox)
    assert after["shop.example.com"] == {**before, "exclude_ips": "203.0.113.7 # moved\n203.0.113.8"}
    assert after["other.example.com"]["privacy"] == 0


def test_recovery_after_a_wrong_list_was_synced(
    analytics_sandbox: SandboxServer,
    take: Callable[[], None],
    execute: Callable[..., Any],
    recipe: Run,
    page: Callable[[str], str],
    tmp_path: Path,
) -> None:
    for number in range(1, 13):
        analytics_sandbox.add_website(f"{number}.example.com", exclude_ips=f"# Ann\n203.0.113.{number} # office")
    take()
    before = settings(analytics_sandbox)
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.66"], mode="replace", override_guards=["entries_lost"])
    for website in analytics_sandbox.websites():
        analytics_sandbox.change_website(website["id"], email=1)  # later changes remain
    [line] = re.findall(r"`(defaults: \{ignore: .*?\})`", page("troubleshooting"))
    assert set(re.findall(r"\w+", line)) - {"defaults", "ignore"} == set(SETTABLE_FIELDS) - {"exclude_ips"}
    append = f"with open({str(tmp_path / 'restore.yaml')!r}, 'a') as file:\n    file.write({line!r})\n"
    done = recipe(RESTORE, ("PlanWebsitesOperator(", f"{append}PlanWebsitesOperator("), WITH_UPDATES)
    assert (done["plan"]["updates"], done["apply"]["applied"], done["apply"]["verified"]) == (12, 12, True)
    assert settings(analytics_sandbox) == {domain: {**fields, "email": 1} for domain, fields in before.items()}


def test_recovery_on_another_instance(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], monkeypatch: pytest.MonkeyPatch, recipe: Run
) -> None:
    connect("old_instance")
    for number in range(30):
        analytics_sandbox.add_website(f"{number}.client.example", privacy=1, exclude_ips="203.0.113.7")
    analytics_sandbox.add_website("stays.example", privacy=1)
    with SandboxServer() as new:
        monkeypatch.setenv("AIRFLOW_CONN_NEW_INSTANCE", new.connection_json())
        new.add_website("7.client.example", privacy=0)
        assert recipe("Websites move to another instance")["apply"]["applied"] == 29
        found = settings(new)
    old = settings(analytics_sandbox)
    assert found.pop("7.client.example")["privacy"] == 0
    assert found == {name: old[name] for name in old if name not in ("stays.example", "7.client.example")}


def test_recovery_of_a_lost_list_table(
    analytics_sandbox: SandboxServer, execute: Callable[..., Any], command: Callable[[str], str], tmp_path: Path
) -> None:
    def sync(*addresses: str) -> list[str]:
        execute(SyncExcludedIpsOperator, exclude_ips=[*addresses], state_path=str(tmp_path))
        [website] = analytics_sandbox.websites()
        return str(website["exclude_ips"]).splitlines()

    analytics_sandbox.add_website("a.example", exclude_ips="198.51.100.9")  # typed by a person
    sync("203.0.113.7", "203.0.113.8")
    [table] = tmp_path.glob("*/lists/*.json")
    table.write_text("{")
    with pytest.raises(AirflowFailException, match="This is not a list table"):
        sync("203.0.113.7")
    table.unlink()
    sync("203.0.113.7")
    assert sync("203.0.113.1") == ["198.51.100.9", "203.0.113.8", "203.0.113.1"]
    printed = command("The list table is lost").splitlines()
    assert [line.split()[0] for line in printed if "no list" in line] == ["198.51.100.9", "203.0.113.8"]
    sync("203.0.113.1", "203.0.113.8")
    assert sync("203.0.113.1") == ["198.51.100.9", "203.0.113.1"]


def test_recovery_by_removing_a_bad_snapshot(
    analytics_sandbox: SandboxServer, take: Callable[[], None], recipe: Run, tmp_path: Path
) -> None:
    analytics_sandbox.seed(3)
    take()
    (tmp_path / "analytics" / "websites" / "of_others.txt").write_text("stays")
    recipe("Remove a bad snapshot")
    assert list_snapshots(str(tmp_path / "analytics")) == []
    assert [path.name for path in (tmp_path / "analytics").rglob("*") if path.is_file()] == ["of_others.txt"]
    with pytest.raises(ValueError, match=f"No snapshot of {datetime.now(UTC).date()} is published"):
        recipe("Remove a bad snapshot")


def test_recovery_after_a_list_shrank(
    run_dag: RunDag,
    analytics_sandbox: SandboxServer,
    recipe: Run,
    advice: Advice,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def night(dag_id: str = "nightly_website_snapshot", **conf: Any) -> str:
        dag = sample_dag(dag_id, tmp_path / "analytics")
        for task in dag.tasks:
            task.retries = 0
        return run_dag(dag, conf=conf).state

    analytics_sandbox.seed(20)
    assert night() == "success"
    gone = [website["domain"] for website in analytics_sandbox.websites()[:15]]
    for website in analytics_sandbox.websites()[:15]:
        analytics_sandbox.remove_website(website["id"])
    assert night() == "failed"
    capsys.readouterr()
    recipe("more than max_loss_fraction")
    assert f"20 then, 5 now, gone: {sorted(gone)}" in capsys.readouterr().out
    [trigger] = advice("more than max_loss_fraction", "console")
    *begin, dag_id, option, conf = shlex.split(trigger)
    assert (begin, option) == (["airflow", "dags", "trigger"], "--conf")
    assert [night(dag_id, **json.loads(conf)), night()] == ["success", "success"]


def test_commands_equal_the_commands_of_the_deployment_page(page: Callable[[str], str]) -> None:
    """tests/system/test_deployment.py runs these; the others are variants of them."""
    [override] = re.findall(r"```console\n\s*(.*?)\n\s*```", page("guards"))
    assert override == 'airflow dags trigger sync_excluded_ips --conf \'{"override_guards": ["entries_lost"]}\''
    steps = page("connection").partition("\n## Rotate the API key\n")[2]
    delete, add, test = re.findall(r"^    (\S* ?airflow .*)$", steps, re.MULTILINE)
    assert test in page("deployment")
    assert add in page("deployment")
    assert delete == "airflow connections delete analytics_default"


@pytest.mark.parametrize("stored", [True, False])
def test_recovery_after_a_create_with_an_unknown_outcome(
    analytics_sandbox: SandboxServer,
    execute: Callable[..., Any],
    recipe: Run,
    capsys: pytest.CaptureFixture[str],
    stored: bool,
) -> None:
    with AnalyticsHook() as hook:
        hook.find_website("shop.example.com")
    look_up = len(analytics_sandbox.requests)
    analytics_sandbox.fault("create", status=502, commit=stored)
    # The lookup after the create fails as well: if it found the website, the outcome would be known.
    analytics_sandbox.fault("list", skip=look_up, status=502, times=None)
    with pytest.raises(AmbiguousWriteError, match=r"Website 'shop\.example\.com' might have been"):
        execute(CreateWebsiteOperator, domain="shop.example.com", privacy="private")
    analytics_sandbox.clear_faults()
    capsys.readouterr()
    recipe("might have been created")
    assert ("'domain': 'shop.example.com'" in capsys.readouterr().out) == stored
    execute(CreateWebsiteOperator, domain="shop.example.com", privacy="private", if_exists="update")
    assert [website["domain"] for website in analytics_sandbox.websites()] == ["shop.example.com"]
