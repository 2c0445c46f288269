# SPDX-License-Identifier: Apache-2.0
"""Reconciling operators in real DAG runs against the sandbox, including the sample DAGs (``operators``)."""

from __future__ import annotations

import functools
import os
import re
import runpy
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, AirflowOptionalProviderFeatureException, ParamValidationError, task
from airflow_versions import needs_answers_in_dag_test, needs_approvals, needs_exceptions_in_callbacks
from dag_runs import RunDag
from distortion import Distortion
from mail import Inbox
from raw_server import Request
from reconciling import Night
from samples import SAMPLES, sample, sample_dag

from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    ListWebsitesOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator
from airflow_provider_analytics.reconcile.desired.websites_file import parse_websites_files

Run = Callable[..., Any]


@pytest.mark.sample("sync_excluded_ips")
def test_sample_sync_excluded_ips(
    run_dag: RunDag, night: Night, monkeypatch: pytest.MonkeyPatch, task_log: Callable[[], str]
) -> None:
    night.add(1, exclude_ips="9.9.9.9")
    ended = run_dag(sample_dag("sync_excluded_ips", night.folder)).tasks["sync"]
    assert (ended.state, ended.try_number) == ("failed", 1)
    assert "exclude_ips is empty: the Variable exclude_ips is missing, or has no entries." in task_log()

    def sync(*addresses: str, **params: Any) -> Any:
        monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "\n".join(addresses))
        return run_dag(sample_dag("sync_excluded_ips", night.folder), conf=params).tasks["sync"]

    whole = [f"203.0.113.{number}" for number in range(7, 20)]
    assert [sync(*whole, dry_run=item).returned["applied"] for item in (True, False)] == [0, 1]
    # The list is truncated: the run fails at once, until a person accepts it.
    blocked = sync(whole[0])
    assert (blocked.state, blocked.try_number) == ("failed", 1)
    assert sync(whole[0], override_guards=["entries_lost"]).returned["entries_removed"] == 12
    assert night.lists() == ["9.9.9.9\n203.0.113.7"]
    assert len(list(night.folder.rglob("audit/*/*.jsonl"))) == 2


@pytest.mark.sample("sync_excluded_ips_in_chunks")
def test_sample_sync_excluded_ips_in_chunks(run_dag: RunDag, night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    night.add(10, exclude_ips="9.9.9.9")
    make = sample("sync_excluded_ips_in_chunks", night.folder).sync_excluded_ips_in_chunks
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.7")
    tasks = run_dag(make()).tasks
    assert [tasks[f"sync[{index}]"].returned["applied"] for index in range(8)] == [1, 2, 2, 1, 1, 1, 1, 1]
    assert [tasks[f"sync[{index}]"].label for index in range(2)] == ["ids 8", "ids 9, 1"]
    # Websites are added and deleted, and the others remain in their chunks.
    night.sandbox.remove_website(1)
    night.add("11.example", exclude_ips="9.9.9.9")
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.8")
    assert run_dag(make()).state == "success"
    assert night.lists() == ["9.9.9.9\n203.0.113.8"] * 10
    assert [path.name for path in night.folder.rglob("lists/*")] == ["sync_excluded_ips_in_chunks.sync.json"]


@pytest.mark.parametrize(
    "name", ["sync_excluded_ips", "sync_excluded_ips_in_chunks", "websites_as_code_in_two_steps", "many_instances"]
)
def test_samples_keep_state_where_workers_keep_files(name: str) -> None:
    assert Path(sample(name, "").FOLDER).is_relative_to(os.environ["AIRFLOW_HOME"])


@pytest.mark.sample("onboard_website")
def test_sample_onboard_website(run_dag: RunDag, night: Night) -> None:
    for _ in range(2):  # the second run has no changes
        assert run_dag(sample_dag("onboard_website"), conf={"domain": "new.example"}).state == "success"
    (website,) = night.sandbox.websites()
    assert (website["domain"], website["privacy"], website["favorite"]) == ("new.example", 1, True)


def trial_of(
    night: Night, run_dag: RunDag, before_snapshot: Callable[[], None] = lambda: None, before: str = "snapshot"
) -> tuple[str, Any]:
    """Run the sample; return its state, and the states of its tasks.

    :param before: the task before which the function is called.
    """
    dag = sample_dag("try_your_service", night.folder)
    for each in dag.tasks:
        each.retry_delay = timedelta(0)
    dag.get_task(before)._pre_execute_hook = lambda _: before_snapshot()
    run = run_dag(dag, conf={"domain": "trial.example"})
    return run.state, {name: ended.state for name, ended in run.tasks.items()}


@pytest.mark.sample("try_your_service")
def test_sample_try_your_service_deletes_the_website_that_it_created(run_dag: RunDag, night: Night) -> None:
    night.add(2)
    others = night.sandbox.websites()
    state, tasks = trial_of(night, run_dag)
    assert (state, set(tasks.values())) == ("success", {"success"})
    # Each setting and each list is sent once: the second sync of a list sends nothing.
    counted = {name: night.operations[name] for name in ("create", "update", "delete")}
    assert counted == {"create": 1, "update": 6, "delete": 1}
    # A failed step does not leave the website behind.
    night.sandbox.fault("update", status=422, times=None)
    state, tasks = trial_of(night, run_dag)
    assert (state, tasks["sync_ips"], tasks["delete"]) == ("failed", "failed", "success")
    assert night.sandbox.websites() == others


@pytest.mark.sample("try_your_service")
@pytest.mark.chosen(3)
@pytest.mark.parametrize("case", ["replaced", "lost response", "exists", "returned", "returned with a list"])
def test_sample_try_your_service_keeps_a_website_that_it_did_not_create(
    case: str, run_dag: RunDag, night: Night, distortion: Distortion
) -> None:
    def return_existing(request: Request) -> tuple[int, Any]:
        """Respond to a create with an existing website that the list did not contain."""
        if request.method != "POST":
            return distortion.to_the_sandbox(request)
        night.add("trial.example", **({"favorite": 1} if case == "returned" else {"exclude_ips": "192.0.2.9"}))
        return 201, {"data": night.sandbox.websites()[0]}

    def replace() -> None:
        night.sandbox.remove_website(1)
        night.add("trial.example")

    if case == "exists":
        night.add("trial.example")
    if case == "lost response":
        # A retry cannot know whether its first try, or somebody else, created the website.
        night.sandbox.fault("create", commit=True, drop=True)
    if case.startswith("returned"):
        distortion.forward = return_existing
    state, _ = trial_of(night, run_dag, before_snapshot=replace)
    assert state == ("success" if case == "replaced" else "failed")
    assert (night.operations["delete"], night.operations["update"]) == (0, 6 if case == "replaced" else 0)
    [website] = night.sandbox.websites()
    assert (website["id"], website["privacy"]) == ((2 if case == "replaced" else 1), 0)


@pytest.mark.sample("try_your_service")
@pytest.mark.chosen(2)
@pytest.mark.parametrize("step", ["delete", "sync_params", "sync_ips", "update_privacy", "sync_ips_again"])
def test_sample_try_your_service_keeps_a_website_that_got_the_id_of_the_trial(
    step: str, run_dag: RunDag, night: Night
) -> None:
    def give() -> None:
        night.sandbox.change_website(1, domain="other.example", exclude_ips="10.9.9.9", exclude_params=None)

    state, _ = trial_of(night, run_dag, give, before=step)
    other = next(website for website in night.sandbox.websites() if website["id"] == 1)
    assert (state, other["domain"], other["exclude_ips"], other["exclude_params"]) == (
        "failed",
        "other.example",
        "10.9.9.9",
        None,
    )


@pytest.mark.slow  # imports the whole of Airflow's public API
@pytest.mark.sample("websites_as_code")
@needs_answers_in_dag_test
@pytest.mark.parametrize(("option", "state"), [("Approve", "success"), ("Reject", "skipped")])
@pytest.mark.chosen(1)
def test_sample_websites_as_code_waits_for_an_approval(
    run_dag: RunDag, night: Night, answer: Callable[[str], list[str | None]], option: str, state: str
) -> None:
    shown = answer(option)

    def run_sample() -> tuple[Any, list[str]]:
        tasks = run_dag(sample_dag("websites_as_code", night.folder)).tasks
        return tasks["websites.plan"].returned, [tasks[f"websites.{name}"].state for name in ("approve", "apply")]

    plan, states = run_sample()
    assert states == [state, state]
    expected = {"blog.example.com": False, "shop.example.com": False, "www.example.com": True}
    found = {website["domain"]: website["favorite"] for website in night.sandbox.websites()}
    assert found == (expected if option == "Approve" else {})
    assert shown == [plan["markdown"]]
    assert "`shop.example.com`" in plan["markdown"]
    if option == "Approve":
        # Without differences, no approval is requested.
        assert run_sample()[1] == ["skipped", "skipped"]


@needs_approvals
@pytest.mark.parametrize("overridden", [[], ["made_public", "no_match"]], ids=len)
def test_guard_in_a_task_group_names_the_argument_of_the_group(
    run_dag: RunDag, night: Night, task_log: Callable[[], str], overridden: list[str]
) -> None:
    """Also with the guards that are overridden already: without them, the next run would be blocked by those."""
    from airflow_provider_analytics.operators.task_groups import exclusion_list, websites_as_code

    night.add(1)
    with DAG("groups", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        websites_as_code("websites", config={"websites": {}}, prune=True, override_guards=overridden)
        exclusion_list("office", exclude_ips=[], override_guards=overridden)
    outcome = run_dag(dag)
    assert [outcome.tasks[name].state for name in ("websites.check", "office.plan")] == ["failed", "failed"]
    for group in ("websites_as_code('websites', ...)", "exclusion_list('office', ...)"):
        assert f"set override_guards={[*overridden, 'empty_list']!r} in {group} for one run." in task_log()
    assert "guards/#override-a-guard" in task_log()


@pytest.mark.sample("sync_excluded_ips_with_approval")
@needs_approvals
def test_approval_task_marked_as_success_applies_nothing(
    run_dag: RunDag, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.add(1, exclude_ips="9.9.9.9")
    monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "203.0.113.7")
    dag = sample_dag("sync_excluded_ips_with_approval", night.folder)
    monkeypatch.setattr(dag, "test", functools.partial(dag.test, mark_success_pattern="office.approve"))
    tasks = {name.removeprefix("office."): element for name, element in run_dag(dag).tasks.items()}
    assert (tasks["approve"].state, tasks["apply"].state, tasks["apply"].try_number) == ("success", "failed", 1)
    assert night.lists() == ["9.9.9.9"]


@pytest.mark.slow  # imports the whole of Airflow's public API
@pytest.mark.sample("sync_excluded_ips_with_approval")
@needs_answers_in_dag_test
def test_sample_sync_excluded_ips_with_approval(
    run_dag: RunDag,
    night: Night,
    monkeypatch: pytest.MonkeyPatch,
    answer: Callable[[str], list[str | None]],
    task_log: Callable[[], str],
) -> None:
    answer("Approve")
    night.add(150, exclude_ips="9.9.9.9")

    def run(*addresses: str, **params: Any) -> Any:
        monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "\n".join(addresses))
        outcome = run_dag(sample_dag("sync_excluded_ips_with_approval", night.folder), conf=params)
        return {name.removeprefix("office."): element for name, element in outcome.tasks.items()}

    tasks = run(*(f"203.0.113.{number}" for number in range(7, 19)))
    assert (tasks["apply"].returned["applied"], tasks["apply"].returned["verified"]) == (150, True)
    # The text of the approval names some of the websites, and the log with the complete list.
    text = tasks["plan"].returned["markdown"]
    assert text.count("and 130 more") == 12
    assert text.splitlines()[-1] == f"The whole plan is in the log: <{tasks['plan'].returned['plan_url']}>"
    assert "/dags/sync_excluded_ips_with_approval/" in tasks["plan"].returned["plan_url"]
    [whole] = [part for part in task_log().split("::endgroup::")[:-1] if "::group::The whole plan" in part]
    assert all(f"`{number}.example " in whole for number in range(1, 151))
    # A plan with a guard finding is not offered for approval, unless it is overridden.
    blocked = {name: task.state for name, task in run("203.0.113.7").items() if name != "plan"}
    assert blocked == {"check": "failed", "approve": "upstream_failed", "apply": "upstream_failed"}
    assert run("203.0.113.7", override_guards=["entries_lost"])["apply"].returned["applied"] == 150
    assert night.lists() == ["9.9.9.9\n203.0.113.7"] * 150


@pytest.mark.sample("websites_as_code_in_two_steps")
def test_sample_websites_as_code_in_two_steps(run_dag: RunDag, night: Night) -> None:
    module = sample("websites_as_code_in_two_steps", night.folder)

    def apply(digest: str) -> Any:
        return run_dag(module.apply_websites(), conf={"approved_digest": digest}).tasks["apply"]

    digest = run_dag(module.plan_websites()).tasks["plan"].returned["digest"]
    # Without an approval, or with the approval of another plan, nothing is sent.
    assert apply("0" * 64).state == "failed"
    # Airflow 3.2 has its own ValueError for it.
    with pytest.raises((ParamValidationError, ValueError), match="approved_digest"):
        apply("")
    assert night.sandbox.websites() == []
    assert [apply(digest).returned["applied"] for _ in range(2)] == [3, 0]


@needs_exceptions_in_callbacks
@pytest.mark.sample("notify_on_drift")
def test_sample_notify_on_drift(
    run_dag: RunDag, night: Night, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    night.add("www.example.com")
    check = run_dag(sample_dag("notify_on_drift")).tasks["check"]
    assert (check.state, check.try_number) == ("failed", 1)
    mail, text = inbox.only_mail()
    assert (mail["To"], mail["From"]) == ("team@example.com", "airflow@example.com")
    assert "2 to create, 1 to update, 0 to delete" in mail["Subject"]
    assert "create 2 websites: `blog.example.com`, `shop.example.com`" in text
    assert re.search(r'<a href="http[^"]+check', text)
    monkeypatch.delenv("AIRFLOW_VAR_ANALYTICS_NOTIFY")
    run_dag(sample_dag("notify_on_drift"))
    assert "No e-mail was sent, because the Variable analytics_notify is missing." in caplog.text
    assert len(inbox.received) == 1


@pytest.mark.sample("remind_of_expiring_entries")
def test_sample_remind_of_expiring_entries(
    run_dag: RunDag, night: Night, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.add(1)
    today = datetime.now(UTC).date()
    over, soon, later = (today + timedelta(days=days) for days in (-1, 29, 31))

    def run(text: str) -> str:
        monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", text)
        return str(run_dag(sample_dag("remind_of_expiring_entries", night.folder)).tasks["mail"].state)

    run(f"203.0.113.7 # <Berlin>, owner=it@x, until={soon}\n203.0.113.8 # until={later}\n203.0.113.9 # until={over}")
    mail, text = inbox.only_mail()
    assert mail["Subject"] == "Excluded IP addresses: 1 expire within 30 days, 1 have expired"
    assert text.replace("\r\n", "\n").strip() == (
        f"<pre>Expire soon:\n203.0.113.7, {soon}, it@x, &lt;Berlin&gt;\nHave expired:\n203.0.113.9, {over}</pre>"
    )
    assert (run("203.0.113.8"), len(inbox.received)) == ("skipped", 1)
    assert {request.method for request in night.sandbox.requests} == {"GET"}


def test_samples_remind_of_and_sync_the_same_list(
    run_dag: RunDag, night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.add(1)

    def run(name: str, task: str, *addresses: str) -> int:
        monkeypatch.setenv("AIRFLOW_VAR_EXCLUDE_IPS", "\n".join(addresses))
        removed: int = run_dag(sample_dag(name, night.folder)).tasks[task].returned["entries_removed"]
        return removed

    assert run("sync_excluded_ips", "sync", "203.0.113.7", "203.0.113.8") == 0
    # Only the list that added an address removes it.
    assert run("remind_of_expiring_entries", "plan", "203.0.113.7") == 1


@pytest.mark.parametrize("name", ["exclusions.md", "websites_as_code.md"])
def test_documented_examples_are_valid(name: str) -> None:
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
def test_samples_define_no_dag_if_airflow_has_no_approvals(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """On a plain Airflow 2.11, the standard provider might be missing: this is not a broken DAG."""
    monkeypatch.setitem(sys.modules, "airflow.providers.standard.operators.hitl", None)
    runpy.run_path(str(SAMPLES / f"{name}.py"))


def test_argument_from_a_task_that_returned_nothing_never_means_all_websites(run_dag: RunDag, night: Night) -> None:
    night.add(2)
    with DAG("nothing", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), render_template_as_native_obj=True):

        @task
        def nothing() -> None:
            pass

        found: Any = nothing()
        native = "{{ ti.xcom_pull(task_ids='nothing') }}"
        tasks = {
            "websites": SyncExcludedIpsOperator(task_id="websites", exclude_ips=["192.0.2.1"], websites=found),
            "native": SyncExcludedIpsOperator(task_id="native", exclude_ips=["192.0.2.1"], websites=native),
            "state": SyncExcludedIpsOperator(task_id="state", exclude_ips=["192.0.2.1"], state_path=found),
            "id": DeleteWebsiteOperator(task_id="id", website_id=found, domain="1.example"),
        }
        found >> [tasks["native"]]
    ended = run_dag(tasks["id"].dag).tasks
    assert {name: (ended[name].state, ended[name].try_number) for name in tasks} == dict.fromkeys(tasks, ("failed", 1))
    assert {operation for operation in night.operations if operation in ("update", "delete")} == set()


def test_outputs_of_operators_name_websites(run_dag: RunDag, night: Night) -> None:
    night.add("a.example b.example")
    with DAG("outputs", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        created: Any = CreateWebsiteOperator(task_id="create", domain="c.example").output
        found: Any = ListWebsitesOperator(task_id="found", search="b.example").output
        update = UpdateWebsiteOperator(task_id="update", website_id=created, favorite=True)
        sync = SyncExcludedIpsOperator(task_id="sync", websites=[created], exclude_ips=["192.0.2.1"])
        others = SyncExcludedIpsOperator(task_id="others", except_websites=created, exclude_ips=["192.0.2.2"])
        mapped = UpdateWebsiteOperator.partial(task_id="mapped", privacy="private").expand(website_id=found)
        listed = SyncExcludedParamsOperator(task_id="listed", websites=found, exclude_params=["gclid"])
        one: Any = GetWebsiteOperator(task_id="get", domain="a.example").output
        params = SyncExcludedParamsOperator(task_id="params", websites=one, exclude_params=["utm"])
        export = ExportWebsitesOperator(task_id="export", output_path=f"{night.folder}/exported.yaml", websites=found)
        update >> sync >> others >> mapped >> listed >> params >> export
        export >> DeleteWebsiteOperator(task_id="delete", website_id=created)
    outcome = run_dag(dag)
    assert outcome.state == "success"
    assert (outcome.tasks["listed"].returned["updates"], outcome.tasks["params"].returned["updates"]) == (1, 1)
    assert outcome.tasks["export"].returned["websites_exported"] == 1
    assert night.lists("exclude_params") == ["utm", "gclid"]
    assert outcome.tasks["delete"].returned == {"website_id": 3, "domain": None, "deleted": True}
    assert night.lists() == ["192.0.2.2", "192.0.2.2"]
    assert [website["privacy"] for website in night.sandbox.websites()] == [0, 1]
