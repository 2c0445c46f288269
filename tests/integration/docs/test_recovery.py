"""Recovery in docs/troubleshooting.md: each situation is brought about, and the code of the page is run."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer
from airflow_provider_analytics.snapshots.catalog import list_snapshots

Blocks = Callable[[str], list[str]]
Run = Callable[..., dict[str, Any]]
TODAY = datetime.now(UTC).date().isoformat()


@pytest.fixture
def recovery(page: Callable[[str], str]) -> Blocks:
    """Return the code blocks below the heading in a language: ``recovery("python")``."""
    _, _, text = page("troubleshooting").partition("\n## Recovery\n")
    return lambda language: re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def recipe(recovery: Blocks, execute: Callable[..., Any], tmp_path: Path) -> Run:
    """Run the operators of a code block of the page, in their order; return their results by task id."""

    def run(number: int, **places: str) -> dict[str, Any]:
        code = recovery("python")[number]
        for there, here in {
            "s3://my-bucket": tmp_path.as_uri(),
            "s3://analytics-state": tmp_path.as_uri(),
            "2026-11-20": TODAY,
            **places,
        }.items():
            code = code.replace(there, here)
        results: dict[str, Any] = {}

        def runner(operator: type) -> Callable[..., None]:
            def call(*, task_id: str, **arguments: Any) -> None:
                results[task_id] = execute(operator, **arguments)

            return call

        operators = (ExportWebsitesOperator, PlanWebsitesOperator, ApplyWebsitesOperator, SyncExcludedIpsOperator)
        exec(compile(code, "docs/troubleshooting.md", "exec"), {one.__name__: runner(one) for one in operators})
        return results

    return run


def settings(sandbox: SandboxServer) -> dict[str, Any]:
    fields = ("privacy", "email", "exclude_bots", "exclude_ips", "exclude_params")
    return {one["domain"]: {name: one[name] for name in fields} for one in sandbox.websites()}


def take(execute: Callable[..., Any], tmp_path: Path) -> None:
    execute(SnapshotWebsitesOperator, base_path=f"{tmp_path.as_uri()}/analytics")


def test_half_of_the_websites_were_deleted(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Any, recipe: Run, tmp_path: Path
) -> None:
    connect()
    for number in range(1, 21):
        analytics_sandbox.add_website(
            f"{number}.example.com",
            privacy=number % 2,
            exclude_ips=f"# typed by Ann\n203.0.113.{number + 1} # office {number}\n198.51.100.7",
        )
    take(execute, tmp_path)
    before = settings(analytics_sandbox)
    for website in analytics_sandbox.websites()[:10]:
        analytics_sandbox.remove_website(website["id"])
    kept = analytics_sandbox.websites()[0]
    analytics_sandbox.change_website(kept["id"], email=1)  # what was changed since stays
    done = recipe(0)
    assert (done["plan"]["creates"], done["plan"]["updates"]) == (10, 0)
    assert (done["apply"]["applied"], done["apply"]["verified"]) == (10, True)
    assert settings(analytics_sandbox) == {**before, kept["domain"]: {**before[kept["domain"]], "email": 1}}
    assert recipe(0)["plan"]["creates"] == 0


def test_one_website_as_it_was(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Any, recipe: Run, tmp_path: Path
) -> None:
    connect()
    one = analytics_sandbox.add_website("shop.example.com", privacy=1, exclude_params="utm_source # spring")
    other = analytics_sandbox.add_website("other.example.com", privacy=1)
    take(execute, tmp_path)
    before = settings(analytics_sandbox)["shop.example.com"]
    for website in (one, other):
        analytics_sandbox.change_website(website["id"], privacy=0, exclude_params="")
    done = recipe(1)
    assert (done["export"]["websites"], done["apply"]["applied"]) == (1, 1)
    assert settings(analytics_sandbox)["shop.example.com"] == before
    assert settings(analytics_sandbox)["other.example.com"]["privacy"] == 0


def test_an_entry_that_was_added_after_the_snapshot_is_removed(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Any, recipe: Run, tmp_path: Path
) -> None:
    connect()
    one = analytics_sandbox.add_website("shop.example.com", privacy=1, exclude_ips="203.0.113.7 # office\n203.0.113.8")
    take(execute, tmp_path)
    analytics_sandbox.change_website(one["id"], exclude_ips="203.0.113.7 # moved\n198.51.100.9")
    recipe(1)
    assert settings(analytics_sandbox)["shop.example.com"]["exclude_ips"] == "203.0.113.7 # moved\n203.0.113.8"


def test_a_wrong_list_was_synced(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Any,
    recipe: Run,
    recovery: Blocks,
    tmp_path: Path,
) -> None:
    connect()
    for number in range(1, 13):
        analytics_sandbox.add_website(f"{number}.example.com", exclude_ips=f"# Ann\n203.0.113.{number} # office")
    take(execute, tmp_path)
    before = settings(analytics_sandbox)
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.66"], mode="replace", accept=["loss"])
    for website in analytics_sandbox.websites():
        analytics_sandbox.change_website(website["id"], email=1)  # what was changed since stays
    recipe(2)
    with (tmp_path / "lists.yaml").open("a") as file:
        [lines] = recovery("yaml")
        file.write(lines)
    done = recipe(3)
    assert (done["plan"]["updates"], done["apply"]["applied"], done["apply"]["verified"]) == (12, 12, True)
    assert settings(analytics_sandbox) == {domain: {**fields, "email": 1} for domain, fields in before.items()}


def test_websites_move_to_another_instance(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    recipe: Run,
) -> None:
    connect("old_instance")
    for number in range(30):
        analytics_sandbox.add_website(f"{number}.client.example", privacy=1, exclude_ips="203.0.113.7")
    analytics_sandbox.add_website("stays.example", privacy=1)
    with SandboxServer() as new:
        monkeypatch.setenv("AIRFLOW_CONN_NEW_INSTANCE", new.connection_json())
        new.add_website("7.client.example", privacy=0)
        assert recipe(4)["apply"]["applied"] == 29
        found = settings(new)
    old = settings(analytics_sandbox)
    assert found.pop("7.client.example")["privacy"] == 0
    assert found == {name: old[name] for name in old if name not in ("stays.example", "7.client.example")}


@pytest.mark.parametrize("text", [None, "{"], ids=["lost", "damaged"])
def test_the_file_of_a_list_is_lost(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Any, tmp_path: Path, text: str | None
) -> None:
    connect()
    analytics_sandbox.add_website("a.example", exclude_ips="198.51.100.9")
    arguments = {"state_path": str(tmp_path), "list_name": "offices"}
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7", "203.0.113.8"], **arguments)
    [table] = tmp_path.glob("*/lists/offices.json")
    if text is not None:
        table.write_text(text)
        with pytest.raises(AirflowFailException, match="This is not the table of a list"):
            execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"], **arguments)
    table.unlink()
    for listed in (["203.0.113.7"], ["203.0.113.1"]):
        execute(SyncExcludedIpsOperator, exclude_ips=listed, **arguments)
    [website] = analytics_sandbox.websites()
    assert website["exclude_ips"].splitlines() == ["198.51.100.9", "203.0.113.8", "203.0.113.1"]


def test_a_bad_snapshot_is_removed(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Any, recipe: Run, tmp_path: Path
) -> None:
    connect()
    analytics_sandbox.seed(3)
    take(execute, tmp_path)
    (tmp_path / "analytics" / "websites" / "of_others.txt").write_text("stays")
    recipe(5)
    assert list_snapshots(str(tmp_path / "analytics")) == []
    assert [path.name for path in (tmp_path / "analytics").rglob("*") if path.is_file()] == ["of_others.txt"]
    with pytest.raises(ValueError, match=f"No snapshot of {TODAY} is published"):
        recipe(5)


def test_an_export_is_the_same_twice_and_loses_only_the_line_that_it_cannot_hold(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Any, tmp_path: Path
) -> None:
    connect()
    for number in range(3):
        analytics_sandbox.add_website(f"{number}.example", privacy=2, exclude_ips="203.0.113.7\nnonsense\n203.0.113.8")
    take(execute, tmp_path)
    texts = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.yaml"
        base = f"{tmp_path.as_uri()}/analytics"
        result = execute(ExportWebsitesOperator, config_path=str(path), base_path=base, snapshot_date=TODAY)
        assert result["left_out"] == 3
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    assert "Partition(" not in texts[0]
    assert texts[0].count("password_from") == 2  # one line: what to set, and how for all of them
    assert "0.example: exclude_ips: line 2 omitted: 'nonsense' " in texts[0]
    assert yaml.safe_load(texts[0])["websites"]["0.example"]["exclude_ips"] == ["203.0.113.7", "203.0.113.8"]


def test_comments_come_back_with_their_entries(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Any, tmp_path: Path
) -> None:
    """On a website that exists, a comment is sent only with the entry that is missing."""
    connect()
    text = "# typed by Ann\n203.0.113.7 # office\n203.0.113.8 # home\n203.0.113.9"
    one = analytics_sandbox.add_website("a.example", privacy=1, exclude_ips=text)
    path = str(tmp_path / "websites.yaml")
    execute(ExportWebsitesOperator, config_path=path)
    assert execute(PlanWebsitesOperator, config_path=path)["changes"] == []
    analytics_sandbox.change_website(one["id"], exclude_ips="203.0.113.7 # moved\n203.0.113.9")
    assert execute(ApplyWebsitesOperator, config_path=path)["verified"] is True
    [website] = analytics_sandbox.websites()
    assert website["exclude_ips"] == "203.0.113.7 # moved\n203.0.113.9\n203.0.113.8 # home"
    analytics_sandbox.remove_website(one["id"])
    assert execute(ApplyWebsitesOperator, config_path=path, max_loss_fraction=1)["verified"] is True
    assert [website["exclude_ips"] for website in analytics_sandbox.websites()] == [text]


COMMENTS = {
    "headings": "# offices\n203.0.113.7 # Berlin\n# homes\n203.0.113.8\n203.0.113.9 # Ann\n# the end",
    "dividers": "####\n203.0.113.7\n####\n203.0.113.8 ## Ann",
}


@pytest.mark.parametrize("text", COMMENTS.values(), ids=list(COMMENTS))
@pytest.mark.parametrize("lost", ["website", "list"])
def test_comments_of_a_snapshot_come_back_where_they_were(
    analytics_sandbox: SandboxServer,
    connect: Callable[..., None],
    execute: Any,
    recipe: Run,
    tmp_path: Path,
    text: str,
    lost: str,
) -> None:
    connect()
    one = analytics_sandbox.add_website("shop.example.com", privacy=1, exclude_ips=text, exclude_params="# ads\nutm_id")
    take(execute, tmp_path)
    before = settings(analytics_sandbox)
    if lost == "website":
        analytics_sandbox.remove_website(one["id"])
    else:
        analytics_sandbox.change_website(one["id"], exclude_ips="", exclude_params="")
    assert recipe(1)["apply"]["verified"] is True
    assert settings(analytics_sandbox) == before
    assert recipe(1)["plan"]["changes"] == []


def test_a_list_with_comments_only_comes_back_with_its_website(
    analytics_sandbox: SandboxServer, connect: Callable[..., None], execute: Any, recipe: Run, tmp_path: Path
) -> None:
    connect()
    one = analytics_sandbox.add_website("shop.example.com", privacy=1, exclude_ips="# nothing yet")
    take(execute, tmp_path)
    before = settings(analytics_sandbox)
    analytics_sandbox.remove_website(one["id"])
    assert recipe(1)["apply"]["verified"] is True
    assert settings(analytics_sandbox) == before
