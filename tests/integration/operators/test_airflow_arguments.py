# SPDX-License-Identifier: Apache-2.0
"""Arguments as Airflow users give them, links, and verification that no argument turns off (``operators``)."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG, BaseOperator, ObjectStoragePath
from airflow_versions import extra_links_of, needs_tracebacks_without_values
from dag_runs import RunDag
from field_values import VALUES
from sync_operators import SYNC_OPERATORS, WEBSITE_OPERATORS

from airflow_provider_analytics.get_provider_info import get_provider_info
from airflow_provider_analytics.hooks.connection import EXTRAS
from airflow_provider_analytics.operators import links
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import (
    CompareSnapshotsOperator,
    PruneSnapshotsOperator,
    SnapshotWebsitesOperator,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

START = datetime(2026, 1, 1, tzinfo=UTC)
#: Kind of path to its constructor.
PATHS: dict[str, Callable[[Path], Any]] = {
    "pathlib": Path,
    "object storage": lambda path: ObjectStoragePath(f"file://{path}"),
    "text": str,
}


@pytest.mark.parametrize("kind", PATHS)
def test_every_path_argument_takes_a_path_object(
    kind: str, sandbox: SandboxServer, run_dag: RunDag, tmp_path: Path
) -> None:
    sandbox.add_website("a.example")
    (tmp_path / "ips.txt").write_text("192.0.2.1")
    (tmp_path / "params.txt").write_text("gclid")
    (tmp_path / "websites.yaml").write_text("websites: {a.example: {privacy: private}}")
    path = PATHS[kind]
    with DAG("paths", schedule=None, start_date=START) as dag:
        tasks = [
            SyncExcludedIpsOperator(
                task_id="ips", exclude_ips_path=path(tmp_path / "ips.txt"), state_path=path(tmp_path / "state")
            ),
            SyncExcludedParamsOperator(task_id="params", exclude_params_path=path(tmp_path / "params.txt")),
            PlanWebsitesOperator(task_id="plan", config_path=path(tmp_path / "websites.yaml")),
            SnapshotWebsitesOperator(task_id="snapshot", base_path=path(tmp_path / "base")),
            CompareSnapshotsOperator(task_id="compare", base_path=path(tmp_path / "base")),
            PruneSnapshotsOperator(task_id="prune", base_path=path(tmp_path / "base"), keep_days=1),
            ExportWebsitesOperator(task_id="export", output_path=path(tmp_path / "exported.yaml")),
        ]
        for before, after in itertools.pairwise(tasks):
            before >> after
    run = run_dag(dag)
    assert {task.state for task in run.tasks.values()} == {"success"}
    assert run.tasks["plan"].returned["updates"] == 1
    assert (tmp_path / "exported.yaml").exists()


def test_relative_path_object_is_rejected_when_the_dag_is_parsed() -> None:
    with pytest.raises(ValueError, match=r"config_path='websites.yaml' is not allowed\. Allowed: a URL such as"):
        PlanWebsitesOperator(task_id="plan", config_path=Path("websites.yaml"))  # type: ignore[arg-type]


def test_object_storage_path_keeps_its_connection() -> None:
    path = ObjectStoragePath("file:///data/websites.yaml", conn_id="my_disk")
    task = PlanWebsitesOperator(task_id="plan", config_path=path)  # type: ignore[arg-type]
    assert task.config_path == "file://my_disk@/data/websites.yaml"


def test_template_with_the_delimiters_of_the_dag_is_rendered_first(
    sandbox: SandboxServer, run_dag: RunDag, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_IPS", "192.0.2.1")
    monkeypatch.setenv("AIRFLOW_VAR_BASE", str(tmp_path))
    sandbox.add_website("a.example")
    delimiters = {"variable_start_string": "[[", "variable_end_string": "]]"}
    with DAG("delimiters", schedule=None, start_date=START, jinja_environment_kwargs=delimiters) as dag:
        SyncExcludedIpsOperator(task_id="sync", exclude_ips="[[ var.value.ips ]]", state_path="[[ var.value.base ]]")
    assert run_dag(dag).tasks["sync"].returned["verified"] is True
    assert sandbox.websites()[0]["exclude_ips"] == "192.0.2.1"


def test_template_with_the_delimiters_of_the_dag_needs_an_asset() -> None:
    delimiters = {"variable_start_string": "[[", "variable_end_string": "]]"}
    with (
        DAG("delimiters", schedule=None, start_date=START, jinja_environment_kwargs=delimiters),
        pytest.raises(ValueError, match="asset is required, because base_path"),
    ):
        SnapshotWebsitesOperator(task_id="snapshot", base_path="[[ var.value.base ]]")


def test_error_names_default_args_that_mean_something_else_in_a_sensor() -> None:
    with (
        DAG("defaults", schedule=None, start_date=START, default_args={"mode": "reschedule"}),
        pytest.raises(ValueError, match=r"mode='reschedule' is not allowed.*The value comes from default_args"),
    ):
        SyncExcludedIpsOperator(task_id="sync", exclude_ips=["192.0.2.1"])
    with (
        DAG("defaults", schedule=None, start_date=START, default_args={"retries": 2}),
        pytest.raises(ValueError, match="mode='reschedule' is not allowed") as caught,
    ):
        SyncExcludedIpsOperator(task_id="sync", exclude_ips=["192.0.2.1"], mode="reschedule")
    assert "default_args" not in str(caught.value)


#: Arguments of a row, and a part of the error.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"privacy": "privat"}, "privacy='privat' is not allowed"),
    ({"privacy": "private", "password_from": "variable:page_password"}, "password"),
    ({"exclude_ips": ["192.0.2.300"]}, "exclude_ips has unusable entries"),
    ({"privcy": "private"}, "privcy"),
    ({"password": "s3cret-page"}, "password is not an argument"),
]


# Airflow 2 complains of its own context when it renders a map_index_template.
@pytest.mark.filterwarnings("ignore:Accessing .* from the template is deprecated")
@needs_tracebacks_without_values
@pytest.mark.parametrize("operator", [CreateWebsiteOperator, UpdateWebsiteOperator])
def test_wrong_row_fails_without_a_retry_and_names_its_website(
    run_dag: RunDag, sandbox: SandboxServer, task_log: Callable[[], str], operator: Any
) -> None:
    domains = [f"{number}.example" for number in range(len(WRONG) + 1)]
    rows = [{"domain": domains[index], **given} for index, (given, _) in enumerate(WRONG)]
    rows.append({"domain": domains[-1], "privacy": "private"})
    if operator is UpdateWebsiteOperator:
        sandbox.add_website(domains[-1])
    with DAG(f"rows_{operator.__name__}", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        operator.partial(
            task_id="row", retries=2, retry_delay=timedelta(0), map_index_template="{{ task.domain }}"
        ).expand_kwargs(rows)
    tasks = run_dag(dag).tasks
    log = task_log()
    assert "s3cret-page" not in log
    for index, (_, part) in enumerate(WRONG):
        found = tasks[f"row[{index}]"]
        assert (found.state, found.try_number) == ("failed", 1)
        assert [line for line in log.splitlines() if f"{domains[index]}: " in line and part in line]
    assert tasks[f"row[{len(WRONG)}]"].state == "success"
    assert [website["domain"] for website in sandbox.websites()] == domains[-1:]


def test_tasks_link_to_their_results(analytics_sandbox: SandboxServer, run_dag: RunDag, tmp_path: Path) -> None:
    with DAG("links", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        create = CreateWebsiteOperator(task_id="create", domain="a.example", privacy="private")
        update = UpdateWebsiteOperator(task_id="update", domain="a.example", favorite=True)
        get = GetWebsiteOperator(task_id="get", domain="a.example")
        snapshot = SnapshotWebsitesOperator(task_id="snapshot", base_path=f"{tmp_path}/a b", html_report=True)
        plain = SnapshotWebsitesOperator(task_id="plain", base_path=str(tmp_path), snapshot_name="plain")
        compare = CompareSnapshotsOperator(task_id="compare", base_path=str(tmp_path), snapshot_name="plain")
        create >> update >> get >> snapshot >> plain >> compare
        failed = GetWebsiteOperator(task_id="failed", domain="missing.example", trigger_rule="all_done")
        compare >> failed
        sync = SyncExcludedIpsOperator(task_id="sync", exclude_ips=["192.0.2.1"], dry_run=True, trigger_rule="all_done")
        failed >> sync
    outcome = run_dag(dag)
    assert {task.task_id: extra_links_of(task, outcome) for task in dag.tasks} == {
        "create": {"Website": "https://a.example"},
        "update": {"Website": "https://a.example"},
        "get": {"Website": "https://a.example"},
        # Browsers do not open local files from a web page.
        "snapshot": {"Snapshot folder": "", "Report": ""},
        "plain": {"Snapshot folder": "", "Report": ""},
        "compare": {"Snapshot folder": ""},
        "failed": {"Website": ""},
        "sync": {"Plan": outcome.tasks["sync"].returned["plan_url"] or ""},
    }


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("s3://data/analytics/websites/dt=2026-01-02", "https://console.aws.amazon.com/s3/buckets/data?prefix="),
        ("gs://data/websites", "https://console.cloud.google.com/storage/browser/data/websites/"),
        ("s3://data/a b/dt=2026-01-02", "https://console.aws.amazon.com/s3/buckets/data?prefix=a%20b/dt=2026-01-02/"),
        ("abfss://data@account.dfs.core.windows.net/x", ""),
        ("/data/websites", ""),
        ("file:///data/websites", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_folder_links_to_its_web_page_if_the_storage_has_one(
    place: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.operators.links.XCom.get_value", lambda **_: {"path": place})
    shown = links.SnapshotFolderLink().get_link(None, ti_key=None)  # type: ignore[arg-type]
    assert shown.startswith(url)
    assert bool(shown) is bool(url)


@pytest.mark.parametrize("domain", ["javascript:alert(1)", "a.example/x", 'a"b', None, 7, "“a”.example"])
def test_website_with_an_odd_domain_has_no_link(domain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_analytics.operators.links.XCom.get_value", lambda **_: {"domain": domain})
    assert links.WebsiteLink().get_link(None, ti_key=None) == ""  # type: ignore[arg-type]


def test_links_are_registered_for_airflow_2() -> None:
    used = {
        type(link)
        for operator in (
            SnapshotWebsitesOperator,
            CompareSnapshotsOperator,
            CreateWebsiteOperator,
            PlanWebsitesOperator,
        )
        for link in operator.operator_extra_links
    }
    registered = set()
    for path in get_provider_info()["extra-links"]:
        module, _, name = path.rpartition(".")
        registered.add(getattr(import_module(module), name))
    assert used == registered
    assert not DeleteWebsiteOperator.operator_extra_links


#: Each writing operator, with arguments that make it write.
WRITES: dict[type[BaseOperator], dict[str, Any]] = {
    CreateWebsiteOperator: {"domain": "new.example"},
    **{operator: {"website_id": 1} for name, operator in WEBSITE_OPERATORS.items() if name != "show"},
    UpdateWebsiteOperator: {"website_id": 1, "privacy": "private"},
    **{operator: {name: VALUES[name].given} for name, operator in SYNC_OPERATORS.items()},
    ApplyWebsitesOperator: {"config": {"websites": {"a.example": {"privacy": "private"}}}},
}
#: Values with which an argument might turn something off or on.
SWITCHES = (True, False, "skip")


def arguments(operator: type[BaseOperator]) -> Iterator[str]:
    for item in operator.__mro__[: operator.__mro__.index(BaseOperator)]:
        if "__init__" in vars(item):
            found = inspect.signature(inspect.unwrap(vars(item)["__init__"])).parameters.values()
            yield from (parameter.name for parameter in found if parameter.kind is parameter.KEYWORD_ONLY)


@pytest.fixture
def write(sandbox: SandboxServer) -> Callable[..., bool]:
    """Run an operator; return whether it succeeded after a write without a later read."""

    def writing(operator: type[BaseOperator], **more: Any) -> bool:
        sandbox.reset()
        sandbox.add_website("a.example")
        sandbox.clear_requests()
        try:
            operator(task_id="task", **{**WRITES[operator], **more}).execute({})
        except Exception:
            return False
        kinds = [request.method for request in sandbox.requests]
        return kinds != [] and kinds[-1] != "GET"

    return writing


@pytest.mark.parametrize("operator", WRITES)
def test_arguments_cannot_turn_verification_off(
    operator: type[BaseOperator], write: Callable[..., bool], sandbox: SandboxServer
) -> None:
    assert not write(operator)
    assert {request.method for request in sandbox.requests} > {"GET"}, "the example writes nothing"
    found = [
        f"{name}={value!r}"
        for name in dict.fromkeys(arguments(operator))
        if name not in (*WRITES[operator], "analytics_conn_id")
        for value in SWITCHES
        if write(operator, **{name: value})
    ]
    assert not found, f"{operator.__name__} does not read what it wrote with {', '.join(found)}"


def test_extras_cannot_turn_verification_off(write: Callable[..., bool], connect: Callable[..., None]) -> None:
    given = {"verify": "false", "update_method": "PUT", "max_retries": "0"}
    for name in EXTRAS:
        connect("analytics_default", extra={name: given.get(name, "1")})
        for operator in (CreateWebsiteOperator, UpdateWebsiteOperator, DeleteWebsiteOperator):
            assert not write(operator), f"{operator.__name__} does not read what it wrote with the extra {name}"
