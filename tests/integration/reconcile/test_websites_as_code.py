from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from distortion import Distortion
from fixture_types import Execute

from airflow_provider_analytics.exceptions import BulkError
from airflow_provider_analytics.operators.websites_as_code import (
    ApplyWebsitesOperator,
    CheckDriftOperator,
    ExportWebsitesOperator,
    PlanWebsitesOperator,
)
from airflow_provider_analytics.reconcile.plan import Plan
from airflow_provider_analytics.sandbox.server import SandboxServer

FILE = """\
defaults:
  privacy: private
  exclude_ips: [203.0.113.7]
websites:
  old.example:
  new.example:
    privacy: password
    password_from: connection:stats_page
    favorite: true
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    file = tmp_path / "websites.yaml"
    file.write_text(FILE)
    return file


def operations(sandbox: SandboxServer) -> Counter[str | None]:
    return Counter(request.operation for request in sandbox.requests)


def test_plan_then_apply_then_nothing(
    analytics_sandbox: SandboxServer,
    execute: Execute,
    config_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STATS_PAGE", json.dumps({"conn_type": "generic", "password": "hunter2-hunter2"}))
    analytics_sandbox.add_website("old.example", exclude_ips="9.9.9.9")
    analytics_sandbox.add_website("other.example")
    plan_path = f"{tmp_path}/plans/plan.json"
    plan = execute(PlanWebsitesOperator, config_path=str(config_file), plan_path=plan_path)
    assert operations(analytics_sandbox) == {"account": 1, "list": 1}
    assert (plan["creates"], plan["updates"], plan["deletes"], plan["applied"]) == (1, 1, 0, 0)
    assert plan["digest"] in plan["markdown"]
    assert Plan.from_dict(json.loads(Path(plan_path).read_text())).digest == plan["digest"]
    assert "password_from: `connection:stats_page`" in Path(f"{plan_path}.md").read_text()

    approved = {"config_path": str(config_file), "expected_digest": plan["digest"], "plan_path": plan_path}
    applied = execute(ApplyWebsitesOperator, **approved, audit_path=f"{tmp_path}/audit")
    assert applied == {**plan, "applied": 2}
    new = analytics_sandbox.websites()[-1]
    assert (new["domain"], new["privacy"], new["favorite"], new["exclude_ips"]) == (
        "new.example",
        2,
        True,
        "203.0.113.7",
    )
    assert analytics_sandbox.stored_password(new["id"]) == "hunter2-hunter2"
    (audit,) = (tmp_path / "audit").rglob("*.jsonl")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {(line["domain"], line["field"]) for line in lines} == {
        ("old.example", "exclude_ips"),
        ("old.example", "privacy"),
        *(("new.example", field) for field in ("exclude_ips", "favorite", "password_from", "privacy")),
    }
    for text in (audit.read_text(), Path(plan_path).read_text(), json.dumps(applied), *capfd.readouterr()):
        assert "hunter2" not in text

    analytics_sandbox.clear_requests()
    assert execute(ApplyWebsitesOperator, **approved)["applied"] == 0
    assert operations(analytics_sandbox) == {"account": 1, "list": 1}
    assert execute(CheckDriftOperator, config_path=str(config_file))["changes"] == []


def test_only_the_approved_plan_is_applied(
    analytics_sandbox: SandboxServer, execute: Execute, config_file: Path
) -> None:
    config_file.write_text("websites: {old.example: {privacy: private}}")
    website = analytics_sandbox.add_website("old.example")
    digest = execute(PlanWebsitesOperator, config_path=str(config_file))["digest"]
    config_file.write_text("websites: {old.example: {privacy: private, email: true}}")
    for expected in (digest, "None", ""):
        with pytest.raises(AirflowFailException, match="not the approved one"):
            execute(ApplyWebsitesOperator, config_path=str(config_file), expected_digest=expected)
    assert analytics_sandbox.websites() == [website]
    assert execute(ApplyWebsitesOperator, config_path=str(config_file))["applied"] == 1


def test_after_a_failure_the_rest_of_the_approved_plan_is_applied(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    config = tmp_path / "websites.yaml"
    websites = {f"{number}.example": {"privacy": "private", "favorite": True} for number in range(1, 5)}
    config.write_text(json.dumps({"websites": websites}))
    for number in (1, 2):
        analytics_sandbox.add_website(f"{number}.example")
    arguments = {"config_path": str(config), "plan_path": f"{tmp_path}/plan.json"}
    arguments["expected_digest"] = execute(PlanWebsitesOperator, **arguments)["digest"]
    # 2 is not updated, and of the new ones one is created without its mark.
    distortion.failing = {("PATCH", "/websites/2"): 500, ("PATCH", "/websites/3"): 500}
    with pytest.raises(BulkError):
        execute(ApplyWebsitesOperator, **arguments)
    distortion.failing = {}
    without = {name: value for name, value in arguments.items() if name != "plan_path"}
    with pytest.raises(AirflowFailException, match="not the approved one"):
        execute(ApplyWebsitesOperator, **without)
    assert execute(ApplyWebsitesOperator, **arguments)["applied"] == 2
    assert [(one["privacy"], one["favorite"]) for one in analytics_sandbox.websites()] == [(1, True)] * 4
    config.write_text(json.dumps({"websites": {**websites, "1.example": {"email": True}}}))
    with pytest.raises(AirflowFailException, match="has the digest"):
        execute(ApplyWebsitesOperator, **{**arguments, "expected_digest": "0" * 64})


@pytest.mark.parametrize("left", [0, 5])
def test_a_file_that_was_cut_after_the_approval_applies_nothing(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, left: int
) -> None:
    config = tmp_path / "websites.yaml"
    websites = {f"{number}.example": {"privacy": "private"} for number in range(18)}
    config.write_text(json.dumps({"websites": websites}))
    analytics_sandbox.add_website("0.example")
    arguments = {"config_path": str(config), "plan_path": f"{tmp_path}/plan.json"}
    arguments["expected_digest"] = execute(PlanWebsitesOperator, **arguments)["digest"]
    kept = dict(list(websites.items())[:left])
    config.write_text(json.dumps({"websites": kept}))
    with pytest.raises(AirflowFailException, match=r"Approved, and no longer planned: .*create 1[0-9]\.example"):
        execute(ApplyWebsitesOperator, **arguments)
    assert [website["privacy"] for website in analytics_sandbox.websites()] == [0]


def test_prune_is_written_once(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites: {kept.example: {privacy: private}}")
    for domain in ("kept.example", "gone.example"):
        analytics_sandbox.add_website(domain)
    arguments = {"config_path": str(config), "plan_path": f"{tmp_path}/plan.json"}
    arguments["expected_digest"] = execute(PlanWebsitesOperator, prune=True, **arguments)["digest"]
    assert execute(ApplyWebsitesOperator, **arguments)["applied"] == 2
    # All of it is in effect: a retry succeeds.
    assert execute(ApplyWebsitesOperator, **arguments)["applied"] == 0


def test_a_plan_for_one_service_is_not_applied_to_another(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites: {a.example: {privacy: private}}")
    arguments = {"config_path": str(config), "plan_path": f"{tmp_path}/plan.json"}
    arguments["expected_digest"] = execute(PlanWebsitesOperator, **arguments)["digest"]
    without = {name: value for name, value in arguments.items() if name != "plan_path"}
    with SandboxServer() as production:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", production.connection_json())
        with pytest.raises(AirflowFailException, match=f"The plan was approved for .*{analytics_sandbox.url}"):
            execute(ApplyWebsitesOperator, **arguments)
        with pytest.raises(AirflowFailException, match="not the approved one"):
            execute(ApplyWebsitesOperator, **without)
        assert production.websites() == []


def test_one_domain_in_two_spellings_is_one_website(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites:\n  bücher.example: {privacy: private}\n  XN--Bcher-kva.example.: {}\n")
    with pytest.raises(AirflowFailException, match=r"websites\.yaml:3: .* is a duplicate of line 2"):
        execute(PlanWebsitesOperator, config_path=str(config))
    config.write_text("websites:\n  bücher.example: {privacy: private}\n")
    analytics_sandbox.configure(domain_as="ascii", allow_duplicates=True)
    for applied in (1, 0):
        assert execute(ApplyWebsitesOperator, config_path=str(config))["applied"] == applied
    assert len(analytics_sandbox.websites()) == 1


def test_pruning_is_opt_in_and_guarded(analytics_sandbox: SandboxServer, execute: Execute, config_file: Path) -> None:
    config_file.write_text("websites: {0.example: {privacy: public}}")
    for number in range(11):
        analytics_sandbox.add_website(f"{number}.example")
    assert execute(PlanWebsitesOperator, config_path=str(config_file))["deletes"] == 0
    plan = execute(PlanWebsitesOperator, config_path=str(config_file), prune=True)
    assert "10 of 11 websites would be deleted" in plan["unsafe"]
    assert "Guard tripped" in plan["markdown"]
    apply = {"config_path": str(config_file), "expected_digest": plan["digest"], "prune": "true"}
    with pytest.raises(AirflowFailException, match="10 of 11 websites would be deleted"):
        execute(ApplyWebsitesOperator, **apply)
    assert len(analytics_sandbox.websites()) == 11
    assert execute(ApplyWebsitesOperator, **apply, force=True)["applied"] == 10
    assert [website["domain"] for website in analytics_sandbox.websites()] == ["0.example"]


def test_a_missing_password_stops_everything_before_it_starts(
    analytics_sandbox: SandboxServer, execute: Execute, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STATS_PAGE", json.dumps({"conn_type": "generic"}))
    analytics_sandbox.add_website("old.example")
    with pytest.raises(AirflowFailException, match="connection:stats_page has no password"):
        execute(ApplyWebsitesOperator, config_path=str(config_file))
    assert operations(analytics_sandbox) == {"account": 1, "list": 1}
    config_file.write_text(FILE.replace("connection:stats_page", "variable:stats_page"))
    monkeypatch.setenv("AIRFLOW_VAR_STATS_PAGE", "from-a-variable")
    execute(ApplyWebsitesOperator, config_path=str(config_file))
    assert analytics_sandbox.stored_password(2) == "from-a-variable"


def test_drift_fails_skips_or_reports(analytics_sandbox: SandboxServer, execute: Execute, config_file: Path) -> None:
    config_file.write_text("websites: {old.example: {privacy: private}}")
    analytics_sandbox.add_website("old.example")
    drift = {"config_path": str(config_file)}
    with pytest.raises(AirflowFailException, match=r"update old\.example \(id 1\): privacy public -> private"):
        execute(CheckDriftOperator, **drift)
    with pytest.raises(AirflowSkipException):
        execute(CheckDriftOperator, **drift, on_drift="skip")
    assert execute(CheckDriftOperator, **drift, on_drift="report")["updates"] == 1
    with pytest.raises(AirflowFailException, match="did you mean report"):
        execute(CheckDriftOperator, **drift, on_drift="reprot")
    assert operations(analytics_sandbox)["update"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("websites: {a.example: {privcy: private}}", r"websites\.yaml:1: privcy is not known", id="file"),
        pytest.param(
            "websites:\n  new.example:\n", r"websites\.yaml:2: new\.example is new and has no privacy", id="privacy"
        ),
        pytest.param("websites:\n  twice.example:\n", r"websites\.yaml:2: several websites.*ids 2, 1", id="duplicates"),
        pytest.param(None, "there is no such file", id="no file"),
    ],
)
def test_bad_files_fail_without_a_retry(
    analytics_sandbox: SandboxServer, execute: Execute, config_file: Path, text: str | None, message: str
) -> None:
    for domain in ("twice.example", "Twice.example."):
        analytics_sandbox.add_website(domain)
    config_file.unlink() if text is None else config_file.write_text(text)
    with pytest.raises(AirflowFailException, match=message):
        execute(ApplyWebsitesOperator, config_path=str(config_file))
    assert operations(analytics_sandbox).keys() <= {"account", "list"}


def test_a_website_that_cannot_be_read_is_not_taken_for_a_new_one(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, config_file: Path
) -> None:
    config_file.write_text("websites: {old.example: {privacy: private}}")
    analytics_sandbox.add_website("old.example")
    analytics_sandbox.add_website("other.example")
    distortion.hidden_in_lists = {"privacy"}
    distortion.failing = {("GET", "/websites/1"): 500}
    with pytest.raises(BulkError, match=r"old\.example"):
        execute(PlanWebsitesOperator, config_path=str(config_file))
    distortion.failing = {}
    analytics_sandbox.clear_requests()
    assert execute(PlanWebsitesOperator, config_path=str(config_file))["updates"] == 1
    assert operations(analytics_sandbox) == {"account": 1, "list": 1, "show": 1}


def test_an_export_plans_to_nothing(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    analytics_sandbox.seed(1000)
    file = tmp_path / "export" / "websites.yaml"
    assert execute(ExportWebsitesOperator, config_path=str(file)) == {
        "config_path": str(file),
        "websites": 1000,
        "origin": analytics_sandbox.url,
    }
    plan = execute(PlanWebsitesOperator, config_path=str(file), prune=True)
    assert (plan["websites"], plan["changes"]) == (1000, [])
