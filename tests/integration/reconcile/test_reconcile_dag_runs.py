"""Reconciling in real DAG runs against the sandbox, the sample DAGs included."""

from __future__ import annotations

import functools
import json
import os
import re
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    DAG,
    AirflowOptionalProviderFeatureException,
    BaseOperator,
    ParamValidationError,
    task,
)
from airflow_versions import (
    needs_answers_in_dag_test,
    needs_approvals,
    needs_exceptions_in_callbacks,
)
from dag_runs import RunDag
from distortion import Distortion
from mail import mail_server
from samples import SAMPLES, sample

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)
from airflow_provider_analytics.reconcile.websites_file import parse_websites_files
from airflow_provider_analytics.sandbox.server import SandboxServer


def a_dag(*chain: Callable[[], BaseOperator]) -> DAG:
    """A DAG of these tasks, one after the other, each with two retries."""
    with DAG(
        "reconcile",
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        default_args={"retries": 2, "retry_delay": timedelta(0)},
    ) as dag:
        before = None
        for make in chain:
            operator = make()
            if before is not None:
                before >> operator
            before = operator
    return dag


def operations(sandbox: SandboxServer) -> Counter[str | None]:
    return Counter(request.operation for request in sandbox.requests)


@pytest.mark.slow  # three thousand updates
def test_the_life_of_a_managed_list_on_a_thousand_websites(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    analytics_sandbox.seed(1000)
    for website in analytics_sandbox.websites():
        by_hand = f"10.1.{website['id'] // 250}.{website['id'] % 250} # by hand"
        analytics_sandbox.change_website(website["id"], exclude_ips=by_hand)

    def sync(addresses: str, **arguments: Any) -> Any:
        analytics_sandbox.clear_requests()
        arguments = {"state_path": f"file://{tmp_path}", **arguments}
        make = functools.partial(SyncExcludedIpsOperator, task_id="sync", exclude_ips=addresses, **arguments)
        return run_dag(a_dag(make)).tasks["sync"]

    whole = [f"203.0.113.{number}" for number in range(1, 13)]
    first = sync("\n".join(whole))
    assert (first.state, first.returned["applied"]) == ("success", 1000)
    # Each website is shown before it is changed, and the list is read again afterwards.
    assert operations(analytics_sandbox) == {"account": 1, "list": 24, "show": 1002, "update": 1000}

    # The list is wiped but for one entry. No retry, nothing sent.
    wiped = sync("203.0.113.1 # the others were lost")
    assert (wiped.state, wiped.try_number) == ("failed", 1)
    assert operations(analytics_sandbox) == {"account": 1}
    empty = sync("# wiped\n")
    assert (empty.state, empty.try_number) == ("failed", 1)
    assert operations(analytics_sandbox) == {}

    second = sync("\n".join([*whole[1:], "203.0.113.99"]))
    assert (second.returned["entries_added"], second.returned["entries_removed"]) == (1000, 1000)
    third = sync("203.0.113.99", accept=["loss"])
    assert third.returned["entries_removed"] == 11_000
    assert {website["exclude_ips"].split("\n", 1)[1] for website in analytics_sandbox.websites()} == {"203.0.113.99"}
    assert all(website["exclude_ips"].startswith("10.1.") for website in analytics_sandbox.websites())
    assert sync("203.0.113.99").returned["applied"] == 0
    assert operations(analytics_sandbox) == {"account": 1, "list": 12}


def test_a_retry_repeats_only_what_still_differs(
    run_dag: RunDag, analytics_sandbox: SandboxServer, distortion: Distortion
) -> None:
    for number in range(1, 21):
        analytics_sandbox.add_website(f"{number}.example")
    distortion.failing = {("PATCH", "/websites/7"): 500}

    def mend_after_one(method: str, path: str) -> None:
        if [request.operation for request in analytics_sandbox.requests].count("update") == 19:  # all the others
            distortion.failing = {}

    distortion.before = mend_after_one
    sync = functools.partial(SyncExcludedParamsOperator, task_id="sync", exclude_params=["gclid"])
    outcome = run_dag(a_dag(sync)).tasks["sync"]
    assert (outcome.state, outcome.try_number) == ("success", 2)
    assert (outcome.returned["applied"], outcome.returned["unchanged"]) == (1, 19)
    assert (operations(analytics_sandbox)["list"], operations(analytics_sandbox)["update"]) == (6, 20)


def test_a_snapshot_brings_the_settings_back(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    analytics_sandbox.seed(30)
    for website in analytics_sandbox.websites():
        if website["privacy"] == 2:
            analytics_sandbox.change_website(website["id"], privacy=1)
    before = {website["domain"]: website for website in analytics_sandbox.websites()}
    base, file, state = f"file://{tmp_path}/data", f"file://{tmp_path}/restore.yaml", f"file://{tmp_path}/state"
    assert run_dag(a_dag(lambda: SnapshotWebsitesOperator(task_id="snapshot", base_path=base))).state == "success"
    for number in (3, 5, 8, 13):
        analytics_sandbox.remove_website(number)
    first = analytics_sandbox.websites()[0]
    analytics_sandbox.change_website(1, exclude_ips="6.6.6.6", favorite=not first["favorite"])
    today = datetime.now(UTC).date().isoformat()
    outcome = run_dag(
        a_dag(
            lambda: ExportWebsitesOperator(task_id="export", config_path=file, base_path=base, snapshot_date=today),
            lambda: PlanWebsitesOperator(task_id="plan", config_path=file, state_path=state),
            lambda: ApplyWebsitesOperator(
                task_id="apply",
                config_path=file,
                state_path=state,
                expected_digest="{{ ti.xcom_pull(task_ids='plan')['digest'] }}",
            ),
            lambda: CheckDriftOperator(task_id="check", config_path=file, prune=True),
        )
    )
    assert {name: task.state for name, task in outcome.tasks.items()} == dict.fromkeys(
        ["export", "plan", "apply", "check"], "success"
    )
    assert (outcome.tasks["plan"].returned["creates"], outcome.tasks["plan"].returned["updates"]) == (4, 1)
    # Not the representation of an object, whose address would differ in each export.
    origin = f"the snapshot of {today}"
    assert outcome.tasks["export"].returned["origin"] == origin
    assert (tmp_path / "restore.yaml").read_text().startswith(f"# Websites of {origin}.\n")

    def settings(website: dict[str, Any]) -> dict[str, Any]:
        new = {"exclude_ips": website["exclude_ips"] or "", "exclude_params": website["exclude_params"] or ""}
        return {name: value for name, value in {**website, **new}.items() if name not in ("id", "created_at")}

    assert {website["domain"]: settings(website) for website in analytics_sandbox.websites()} == {
        domain: settings(website) for domain, website in before.items()
    }


def test_drift_skips_what_follows(run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path) -> None:
    analytics_sandbox.add_website("a.example")
    file = tmp_path / "websites.yaml"
    file.write_text("websites: {a.example: {privacy: private}}")
    outcome = run_dag(
        a_dag(
            lambda: CheckDriftOperator(task_id="check", config_path=str(file), on_drift="skip"),
            lambda: PlanWebsitesOperator(task_id="after", config_path=str(file)),
        )
    )
    assert {name: task.state for name, task in outcome.tasks.items()} == {"check": "skipped", "after": "skipped"}


@pytest.mark.sample("sync_excluded_ips")
def test_sample_sync_excluded_ips(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="9.9.9.9")
    make = sample("sync_excluded_ips", tmp_path).sync_excluded_ips
    addresses = [f"203.0.113.{number}" for number in range(7, 20)]
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "\n".join(addresses))
    assert run_dag(make(), conf={"dry_run": True}).tasks["sync"].returned["applied"] == 0
    assert run_dag(make()).tasks["sync"].returned["applied"] == 1
    # The list is cut: it fails at once, until somebody accepts it.
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.7")
    refused = run_dag(make()).tasks["sync"]
    assert (refused.state, refused.try_number) == ("failed", 1)
    assert "12 of 13 entries left the list" in run_dag(make(), conf={"dry_run": True}).tasks["sync"].returned["unsafe"]
    assert run_dag(make(), conf={"accept": ["loss"]}).tasks["sync"].returned["entries_removed"] == 12
    assert analytics_sandbox.websites()[0]["exclude_ips"] == "9.9.9.9\n203.0.113.7"
    assert len(list(tmp_path.rglob("audit/*/*.jsonl"))) == 2


@pytest.mark.sample("sync_excluded_ips_in_chunks")
def test_sample_sync_excluded_ips_in_chunks(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, 11):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="9.9.9.9")
    module = sample("sync_excluded_ips_in_chunks", tmp_path)
    make = module.sync_excluded_ips_in_chunks
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.7")
    outcome = run_dag(make())
    assert outcome.state == "success"
    assert [outcome.tasks[f"sync[{index}]"].label for index in (0, 1)] == ["ids 8", "ids 9, 1"]
    applied = [outcome.tasks[f"sync[{index}]"].returned["applied"] for index in range(module.CHUNKS)]
    assert applied == [1, 2, 2, 1, 1, 1, 1, 1]
    assert {website["exclude_ips"] for website in analytics_sandbox.websites()} == {"9.9.9.9\n203.0.113.7"}
    assert [path.name for path in tmp_path.rglob("lists/*")] == ["sync_excluded_ips_in_chunks.sync.json"]
    # Websites come and go, and the others stay in their chunks.
    analytics_sandbox.remove_website(1)
    analytics_sandbox.add_website("11.example", exclude_ips="9.9.9.9")
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.8")
    assert run_dag(make()).state == "success"
    assert {website["exclude_ips"] for website in analytics_sandbox.websites()} == {"9.9.9.9\n203.0.113.8"}


@pytest.mark.parametrize(
    "name", ["sync_excluded_ips", "sync_excluded_ips_in_chunks", "websites_as_code_in_two_steps", "many_instances"]
)
def test_samples_keep_state_where_workers_keep_files(name: str) -> None:
    assert Path(sample(name, "").FOLDER).is_relative_to(os.environ["AIRFLOW_HOME"])


@pytest.mark.sample("onboard_website")
def test_sample_onboard_website(run_dag: RunDag, analytics_sandbox: SandboxServer) -> None:
    make = sample("onboard_website").onboard_website
    for _ in range(2):  # the second time there is nothing left to do
        outcome = run_dag(make(), conf={"domain": "new.example"})
        assert outcome.state == "success"
    (website,) = analytics_sandbox.websites()
    assert (website["domain"], website["privacy"], website["favorite"]) == ("new.example", 1, True)


@pytest.mark.slow  # imports the whole of Airflow's public API
@pytest.mark.sample("websites_as_code")
@needs_answers_in_dag_test
def test_sample_websites_as_code(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, answer: Callable[[str], list[str | None]]
) -> None:
    answer("Approve")
    make = sample("websites_as_code", tmp_path).websites_as_code
    for expected in (["success"] * 2, ["skipped"] * 2):
        outcome = run_dag(make())
        assert outcome.state == "success"
        assert [outcome.tasks[f"websites.{name}"].state for name in ("approve", "apply")] == expected
    assert {website["domain"]: website["favorite"] for website in analytics_sandbox.websites()} == {
        "blog.example.com": False,
        "shop.example.com": False,
        "www.example.com": True,
    }
    plans = [json.loads(path.read_text()) for path in tmp_path.rglob("plans/*.json")]
    assert sorted(len(plan["changes"]) for plan in plans) == [0, 3]


@pytest.mark.sample("sync_excluded_ips_with_approval")
@needs_approvals
def test_an_approval_that_was_only_marked_as_success_applies_nothing(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="9.9.9.9")
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.7")
    dag = sample("sync_excluded_ips_with_approval", tmp_path).sync_excluded_ips_with_approval()
    monkeypatch.setattr(dag, "test", functools.partial(dag.test, mark_success_pattern="office.approve"))
    tasks = {name.removeprefix("office."): one for name, one in run_dag(dag).tasks.items()}
    assert (tasks["approve"].state, tasks["apply"].state, tasks["apply"].try_number) == ("success", "failed", 1)
    assert [website["exclude_ips"] for website in analytics_sandbox.websites()] == ["9.9.9.9"]


@pytest.mark.slow  # imports the whole of Airflow's public API
@pytest.mark.sample("sync_excluded_ips_with_approval")
@needs_answers_in_dag_test
def test_sample_sync_excluded_ips_with_approval(
    run_dag: RunDag,
    analytics_sandbox: SandboxServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[str], list[str | None]],
) -> None:
    answer("Approve")
    for number in range(150):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="9.9.9.9")
    make = sample("sync_excluded_ips_with_approval", tmp_path).sync_excluded_ips_with_approval

    def run(addresses: str, **params: Any) -> Any:
        monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", addresses)
        return {name.removeprefix("office."): one for name, one in run_dag(make(), conf=params).tasks.items()}

    tasks = run("\n".join(f"203.0.113.{number}" for number in range(7, 19)))
    assert (tasks["apply"].returned["applied"], tasks["apply"].returned["verified"]) == (150, True)
    assert tasks["apply"].returned["digest"] == tasks["plan"].returned["digest"]
    # The text of the approval shows equal changes once, names some of the websites, and says where the rest is.
    text = tasks["plan"].returned["markdown"]
    assert text.count("and 130 more") == 12
    whole = Path(text.splitlines()[-1].removeprefix("The whole plan: `").removesuffix("`"))
    assert all(f"`{number}.example " in whole.read_text() for number in range(150))
    # What a guard refuses is not put up for approval, unless somebody wants it.
    assert {name: task.state for name, task in run("203.0.113.7").items() if name != "plan"} == {
        "check": "failed",
        "approve": "upstream_failed",
        "apply": "upstream_failed",
    }
    assert run("203.0.113.7", accept=["loss"])["apply"].returned["applied"] == 150
    assert run("203.0.113.7")["apply"].state == "skipped"
    assert {website["exclude_ips"] for website in analytics_sandbox.websites()} == {"9.9.9.9\n203.0.113.7"}


@pytest.mark.sample("websites_as_code_in_two_steps")
def test_sample_websites_as_code_in_two_steps(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    module = sample("websites_as_code_in_two_steps", tmp_path)
    digest = run_dag(module.plan_websites()).tasks["plan"].returned["digest"]
    # Without an approval, or with that of another plan, nothing is sent.
    refused = run_dag(module.apply_websites(), conf={"approved_digest": "0" * 64}).tasks["apply"]
    assert (refused.state, refused.try_number) == ("failed", 1)
    for none in ({}, {"approved_digest": ""}):
        # Airflow 3.2 has a ValueError of its own for it.
        with pytest.raises((ParamValidationError, ValueError), match="approved_digest"):
            run_dag(module.apply_websites(), conf=none)
    assert analytics_sandbox.websites() == []
    approved = {"approved_digest": digest}
    assert run_dag(module.apply_websites(), conf=approved).tasks["apply"].returned["applied"] == 3
    assert run_dag(module.apply_websites(), conf=approved).tasks["apply"].returned["applied"] == 0


@needs_exceptions_in_callbacks
@pytest.mark.sample("notify_on_drift")
def test_sample_notify_on_drift(
    run_dag: RunDag, analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.add_website("www.example.com", privacy=0)
    with mail_server() as inbox:
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", inbox.connection)
        monkeypatch.setenv("AIRFLOW_VAR_WEBSITE_ANALYTICS_NOTIFY", "team@example.com")
        outcome = run_dag(sample("notify_on_drift").notify_on_drift())
    assert (outcome.tasks["check"].state, outcome.tasks["check"].try_number) == ("failed", 1)
    mail, text = inbox.only_mail()
    assert (mail["To"], mail["From"]) == ("team@example.com", "airflow@example.com")
    assert "2 to create, 1 to update, 0 to delete" in mail["Subject"]
    assert "privacy: `public` → `private` on 1 website: `www.example.com (id 1)`" in text
    assert "create on 2 websites: `blog.example.com`, `shop.example.com`" in text
    assert re.search(r'<a href="http[^"]+check', text)


@pytest.mark.slow  # imports the whole of Airflow's public API
@needs_answers_in_dag_test
@pytest.mark.parametrize(("option", "state", "websites"), [("Approve", "success", 3), ("Reject", "skipped", 0)])
@pytest.mark.chosen(1)
def test_somebody_answers_the_sample_websites_as_code(
    run_dag: RunDag,
    analytics_sandbox: SandboxServer,
    tmp_path: Path,
    answer: Callable[[str], list[str | None]],
    option: str,
    state: str,
    websites: int,
    task_log: Callable[[], str],
) -> None:
    shown = answer(option)
    outcome = run_dag(sample("websites_as_code", tmp_path).websites_as_code())
    assert outcome.state == "success"
    assert [outcome.tasks[f"websites.{name}"].state for name in ("approve", "apply")] == [state, state]
    assert ("Rejected by " in task_log()) == (option == "Reject")
    assert len(analytics_sandbox.websites()) == websites
    assert shown == [outcome.tasks["websites.plan"].returned["markdown"]]
    assert "`shop.example.com`" in (shown[0] or "")


@needs_approvals
def test_a_guard_within_a_group_names_what_the_author_of_the_dag_can_change(
    run_dag: RunDag, analytics_sandbox: SandboxServer, task_log: Callable[[], str]
) -> None:
    from airflow_provider_analytics.operators.approvals import exclusion_list, websites_as_code

    analytics_sandbox.add_website("a.example")
    with DAG("groups", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        websites_as_code("websites", config={"websites": {}}, prune=True)
        exclusion_list("office", exclude_ips=[])
    outcome = run_dag(dag)
    assert [outcome.tasks[name].state for name in ("websites.check", "office.plan")] == ["failed", "failed"]
    for group in ("websites_as_code('websites', ...)", "exclusion_list('office', ...)"):
        assert f"set accept=['empty'] in {group} for one run. This DAG has no Param accept." in task_log()


def test_a_list_may_come_from_a_file_or_from_a_task(
    run_dag: RunDag, analytics_sandbox: SandboxServer, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    (tmp_path / "addresses.txt").write_text("203.0.113.7 # office\n\n203.0.113.8\n")
    with DAG("lists", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:

        @task
        def read_list() -> list[str]:
            return ["gclid", "fbclid"]

        SyncExcludedIpsOperator(task_id="ips", exclude_ips_path=str(tmp_path / "addresses.txt"))
        read: Any = read_list()
        SyncExcludedParamsOperator(task_id="params", exclude_params=read)
    assert run_dag(dag).state == "success"
    (website,) = analytics_sandbox.websites()
    assert website["exclude_ips"] == "203.0.113.7\n203.0.113.8"
    assert website["exclude_params"] == "gclid\nfbclid"


def test_desired_websites_may_come_from_a_task(run_dag: RunDag, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("a.example", email=1)
    with DAG("inventory", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:

        @task
        def read_inventory() -> list[dict[str, Any]]:
            return [{"domain": "a.example", "privacy": 1, "exclude_ips": "203.0.113.7\n203.0.113.8", "favorite": None}]

        rows: Any = read_inventory()
        first = ApplyWebsitesOperator(task_id="rows", config=rows)
        second = ApplyWebsitesOperator(task_id="within", config={"defaults": {"email": False}, "websites": rows})
        text = "{{ ti.xcom_pull(task_ids='read_inventory') | tojson }}"
        first >> second >> CheckDriftOperator(task_id="text", config=text)
    outcome = run_dag(dag)
    assert outcome.state == "success"
    assert [outcome.tasks[name].returned["updates"] for name in ("rows", "within", "text")] == [1, 1, 0]
    (website,) = analytics_sandbox.websites()
    assert (website["privacy"], website["email"], website["exclude_ips"]) == (1, 0, "203.0.113.7\n203.0.113.8")


@pytest.mark.parametrize("name", ["exclusions.md", "websites_as_code.md"])
def test_the_examples_of_the_documentation_are_valid(name: str) -> None:
    text = (SAMPLES.parent / "docs" / name).read_text()
    blocks = re.findall(r"```(python|yaml)\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    for language, block in blocks:
        if language == "yaml":
            assert parse_websites_files({name: block}).websites
        else:
            dag = DAG("example", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC))
            with suppress(AirflowOptionalProviderFeatureException), dag:  # before Airflow 3.1, there are no approvals
                exec(block, {})
                assert dag.task_ids or "@dag" in block


@pytest.mark.parametrize("name", ["websites_as_code", "sync_excluded_ips_with_approval"])
def test_samples_that_need_approvals_define_nothing_where_there_are_none(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """On a plain Airflow 2.11 the standard provider may be missing: that is no broken DAG."""
    monkeypatch.setitem(sys.modules, "airflow.providers.standard.operators.hitl", None)
    runpy.run_path(str(SAMPLES / f"{name}.py"))
