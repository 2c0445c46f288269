from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from airflow_versions import attach, needs_variables_outside_of_tasks
from distortion import Distortion
from fixture_types import Execute

from airflow_provider_analytics.exceptions import BulkError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
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
    password_from: connection:page_password
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
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic", "password": "hunter2-hunter"}))
    analytics_sandbox.add_website("old.example", exclude_ips="9.9.9.9")
    analytics_sandbox.add_website("other.example")
    arguments = {"config_path": str(config_file), "state_path": str(tmp_path)}
    plan = execute(PlanWebsitesOperator, **arguments)
    assert operations(analytics_sandbox) == {"account": 1, "list": 2}
    assert (plan["creates"], plan["updates"], plan["deletes"], plan["applied"]) == (1, 1, 0, 0)
    assert plan["digest"] in plan["markdown"]
    [plan_path] = tmp_path.rglob(f"plans/{plan['digest']}.json")
    assert Plan.from_dict(json.loads(plan_path.read_text())).digest == plan["digest"]
    assert "password_from: `connection:page_password`" in plan_path.with_suffix(".md").read_text()

    approved = {**arguments, "expected_digest": plan["digest"]}
    applied = execute(ApplyWebsitesOperator, **approved)
    states = {**plan["states"], "applied": 2}
    # What a password is, no record shows.
    done = {"dry_run": False, "applied": 2, "states": states, "unverified": ["password"], "markdown": None}
    assert applied == {**plan, **done}
    new = analytics_sandbox.websites()[-1]
    assert (new["domain"], new["privacy"], new["favorite"], new["exclude_ips"]) == (
        "new.example",
        2,
        True,
        "203.0.113.7",
    )
    assert analytics_sandbox.stored_password(new["id"]) == "hunter2-hunter"
    (audit,) = tmp_path.rglob("*.jsonl")
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {(line["domain"], line["field"]) for line in lines} == {
        ("old.example", "exclude_ips"),
        ("old.example", "privacy"),
        *(("new.example", field) for field in ("exclude_ips", "favorite", "password_from", "privacy")),
    }
    for text in (audit.read_text(), plan_path.read_text(), json.dumps(applied), *capfd.readouterr()):
        assert "hunter2" not in text

    analytics_sandbox.clear_requests()
    assert execute(ApplyWebsitesOperator, **approved)["applied"] == 0
    assert operations(analytics_sandbox) == {"account": 1, "list": 2}
    assert execute(CheckDriftOperator, **arguments)["changes"] == []


def test_only_the_approved_plan_is_applied(
    analytics_sandbox: SandboxServer, execute: Execute, config_file: Path, tmp_path: Path
) -> None:
    config_file.write_text("websites: {old.example: {privacy: private}}")
    website = analytics_sandbox.add_website("old.example")
    files = {"config_path": str(config_file), "state_path": str(tmp_path)}
    digest = execute(PlanWebsitesOperator, **files)["digest"]
    config_file.write_text("websites: {old.example: {privacy: private, email: true}}")
    # An empty template must not apply what nobody approved.
    for expected in (digest, "None", "", None, "0" * 64):
        with pytest.raises(AirflowFailException, match=r"not approved|no longer planned|not the approved one"):
            execute(ApplyWebsitesOperator, **files, expected_digest=expected)
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
    arguments = {"config_path": str(config), "state_path": str(tmp_path)}
    arguments["expected_digest"] = execute(PlanWebsitesOperator, **arguments)["digest"]
    # 2 is not updated, and of the new ones one is created without its mark.
    distortion.failing = {("PATCH", "/websites/2"): 500, ("PATCH", "/websites/3"): 500}
    with pytest.raises(BulkError):
        execute(ApplyWebsitesOperator, **arguments)
    distortion.failing = {}
    assert execute(ApplyWebsitesOperator, **arguments)["applied"] == 2
    assert [(one["privacy"], one["favorite"]) for one in analytics_sandbox.websites()] == [(1, True)] * 4
    config.write_text(json.dumps({"websites": {**websites, "1.example": {"email": True}}}))
    with pytest.raises(AirflowFailException, match=r"1\.example"):
        execute(ApplyWebsitesOperator, **arguments)


@pytest.mark.parametrize("left", [0, 5])
def test_a_file_that_was_cut_after_the_approval_applies_nothing(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, left: int
) -> None:
    config = tmp_path / "websites.yaml"
    websites = {f"{number}.example": {"privacy": "private"} for number in range(18)}
    config.write_text(json.dumps({"websites": websites}))
    analytics_sandbox.add_website("0.example")
    arguments = {"config_path": str(config), "state_path": str(tmp_path)}
    arguments["expected_digest"] = execute(PlanWebsitesOperator, **arguments)["digest"]
    kept = dict(list(websites.items())[:left])
    config.write_text(json.dumps({"websites": kept}))
    with pytest.raises(AirflowFailException, match=r"Approved, and no longer planned: .*create 1[0-9]\.example"):
        execute(ApplyWebsitesOperator, **arguments)
    assert [website["privacy"] for website in analytics_sandbox.websites()] == [0]


def test_a_retry_of_a_whole_plan_succeeds(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites: {kept.example: {privacy: private}}")
    for domain in ("kept.example", "gone.example"):
        analytics_sandbox.add_website(domain)
    arguments: dict[str, Any] = {"config_path": str(config), "state_path": str(tmp_path)}
    arguments["prune"] = True
    arguments["expected_digest"] = execute(PlanWebsitesOperator, **arguments)["digest"]
    assert execute(ApplyWebsitesOperator, **arguments)["applied"] == 2
    # All of it is in effect: a retry succeeds.
    assert execute(ApplyWebsitesOperator, **arguments)["applied"] == 0


def test_a_plan_for_one_service_is_not_applied_to_another(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites: {a.example: {privacy: private}}")
    arguments = {"config_path": str(config), "state_path": str(tmp_path)}
    arguments["expected_digest"] = execute(PlanWebsitesOperator, **arguments)["digest"]
    with SandboxServer() as production:
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", production.connection_json())
        with pytest.raises(AirflowFailException, match="The plan is not the approved one"):
            execute(ApplyWebsitesOperator, **arguments)
        assert production.websites() == []


def test_one_domain_in_two_spellings_is_one_website(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites:\n  bücher.example: {privacy: private}\n  XN--Bcher-kva.example.: {}\n")
    with pytest.raises(AirflowFailException, match=r"websites\.yaml:3: .* is a duplicate of websites\.yaml:2"):
        execute(PlanWebsitesOperator, config_path=str(config))
    config.write_text("websites:\n  bücher.example: {privacy: private}\n")
    analytics_sandbox.configure(domain_as="ascii", allow_duplicates=True)
    for applied in (1, 0):
        assert execute(ApplyWebsitesOperator, config_path=str(config))["applied"] == applied
    assert len(analytics_sandbox.websites()) == 1


def test_pruning_is_opt_in_and_guarded_and_an_override_is_approved(
    analytics_sandbox: SandboxServer, execute: Execute, config_file: Path, tmp_path: Path
) -> None:
    config_file.write_text("websites: {0.example: {privacy: public}}")
    for number in range(11):
        analytics_sandbox.add_website(f"{number}.example")
    assert execute(PlanWebsitesOperator, config_path=str(config_file))["deletes"] == 0
    files: dict[str, Any] = {"config_path": str(config_file), "state_path": str(tmp_path)}
    plan = execute(PlanWebsitesOperator, **files, prune=True)
    assert plan["unsafe"].startswith("10 of 11 websites would be deleted")
    assert "**This plan cannot be applied without accept=delete:**" in plan["markdown"]
    with pytest.raises(AirflowFailException, match="10 of 11 websites would be deleted"):
        execute(ApplyWebsitesOperator, **files, prune=True, expected_digest=plan["digest"])
    with pytest.raises(AirflowFailException, match="10 of 11 websites would be deleted"):
        execute(ApplyWebsitesOperator, config_path=str(config_file), prune="true")
    assert len(analytics_sandbox.websites()) == 11
    files |= {"prune": True, "accept": "delete"}
    accepted = execute(PlanWebsitesOperator, **files)
    assert (accepted["unsafe"], accepted["accept"]) == (None, ["delete"])
    # The accepted guard is a part of what was approved.
    analytics_sandbox.remove_website(11)
    with pytest.raises(AirflowFailException, match="9 of 10 websites would be deleted"):
        execute(ApplyWebsitesOperator, **{**files, "accept": []}, expected_digest=plan["digest"])
    applied = execute(ApplyWebsitesOperator, **files, expected_digest=accepted["digest"])
    assert (applied["applied"], applied["verified"]) == (9, True)
    assert [website["domain"] for website in analytics_sandbox.websites()] == ["0.example"]


def test_a_missing_password_stops_everything_before_it_starts(
    analytics_sandbox: SandboxServer, execute: Execute, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic"}))
    analytics_sandbox.add_website("old.example")
    with pytest.raises(
        AirflowFailException, match=r"there is no password in password_from='connection:page_password' of new\.example"
    ):
        execute(ApplyWebsitesOperator, config_path=str(config_file))
    assert operations(analytics_sandbox) == {"account": 1, "list": 2}
    config_file.write_text(FILE.replace("connection:page_password", "variable:page_password"))
    monkeypatch.setenv("AIRFLOW_VAR_PAGE_PASSWORD", "from-a-variable")
    execute(ApplyWebsitesOperator, config_path=str(config_file))
    assert analytics_sandbox.stored_password(2) == "from-a-variable"


@pytest.mark.parametrize(
    "reference",
    [
        "connection:page_password_x",
        pytest.param("variable:page_password_nope", marks=needs_variables_outside_of_tasks),
    ],
)
def test_a_reference_that_leads_nowhere_is_named_with_its_website(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, reference: str
) -> None:
    config = {f"{n}.example": {"privacy": "password", "password_from": reference} for n in range(4)}
    told = f"there is no password in password_from='{reference}' of 0.example, 1.example, 2.example and others: set it"
    with pytest.raises(AirflowFailException, match=told):
        execute(ApplyWebsitesOperator, config={"websites": config})
    assert analytics_sandbox.websites() == []


@pytest.mark.parametrize("config", [[], "[]", {"websites": []}, {"websites": {}}])
def test_an_inventory_that_found_nothing_deletes_nothing(
    analytics_sandbox: SandboxServer, execute: Execute, config: Any
) -> None:
    for number in range(9):
        analytics_sandbox.add_website(f"{number}.example")
    with pytest.raises(AirflowFailException, match=r"^All 9 websites would be deleted"):
        execute(ApplyWebsitesOperator, config=config, prune=True)
    assert len(analytics_sandbox.websites()) == 9


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfew\x00", r"^websites\.yaml:1: cannot be read: .*; allowed: a"),
        (None, "no .* in this folder"),
    ],
    ids=["UTF-16", "a directory"],
)
def test_a_file_that_cannot_be_read_is_named(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, content: bytes | None, told: str
) -> None:
    file = tmp_path / "websites.yaml"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(AirflowFailException, match=told):
        execute(PlanWebsitesOperator, config_path=str(file))


def test_a_connection_that_does_not_exist_fails_without_a_retry(execute: Execute) -> None:
    with pytest.raises(AirflowFailException, match=r"`nope` isn't defined.\nNot retried: create the connection first"):
        execute(CheckDriftOperator, config=[], analytics_conn_id="nope")


def test_drift_of_new_websites_is_counted_as_what_it_is(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.add_website("old.example", privacy=1)
    websites: dict[str, Any] = {"a.example": {}, "b.example": {"favorite": True}, "c.example": {}}
    with pytest.raises(AirflowFailException) as caught:
        execute(CheckDriftOperator, config={"defaults": {"privacy": "private"}, "websites": websites})
    assert str(caught.value).splitlines() == [
        "3 websites differ from config: 3 to create, 0 to update, 0 to delete.",
        "create on 3 websites: `a.example`, `b.example`, `c.example`",
        "privacy: `private` on 3 websites: `a.example`, `b.example`, `c.example`",
        "favorite: `True` on 1 website: `b.example`.",
        "Not retried: on_drift='fail' is set.",
    ]
    with pytest.raises(AirflowFailException, match=r"^1 website differs from config: 1 to create, "):
        execute(CheckDriftOperator, config=[{"domain": "a.example", "privacy": "private"}])


def test_drift_fails_skips_or_reports(analytics_sandbox: SandboxServer, execute: Execute, config_file: Path) -> None:
    config_file.write_text("websites: {old.example: {privacy: private}}")
    analytics_sandbox.add_website("old.example")
    drift = {"config_path": str(config_file)}
    with pytest.raises(AirflowFailException, match=r"privacy: `public` → `private` on 1 website: `old\.example"):
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
    assert operations(analytics_sandbox) == {"account": 1, "list": 2, "show": 1}


def test_an_export_plans_to_nothing(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    analytics_sandbox.seed(1000)
    file = tmp_path / "export" / "websites.yaml"
    assert execute(ExportWebsitesOperator, config_path=str(file)) == {
        "config_path": str(file),
        "websites": 1000,
        "origin": analytics_sandbox.url,
        "left_out": 0,
    }
    plan = execute(PlanWebsitesOperator, config_path=str(file), prune=True)
    assert (plan["websites"], plan["changes"]) == (1000, [])


def test_a_deletion_carries_what_is_deleted(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites: {kept.example: {privacy: public}}")
    analytics_sandbox.add_website("kept.example")
    analytics_sandbox.add_website("gone.example", privacy=1, exclude_ips="1.1.1.1\n2.2.2.2", favorite=True)
    distortion.hidden_in_lists = {"exclude_ips", "favorite"}
    files = {"config_path": str(config), "state_path": str(tmp_path)}
    plan = execute(PlanWebsitesOperator, **files, prune=True)
    # Shown, because the rows of the list lack fields; the website that is kept is not.
    assert operations(analytics_sandbox) == {"account": 1, "list": 2, "show": 1}
    (written,) = tmp_path.glob(f"*/plans/{plan['digest']}.json")
    assert json.loads(written.read_text())["changes"][0]["fields"]["exclude_ips"] == [["1.1.1.1", "2.2.2.2"], None]
    analytics_sandbox.change_website(2, email=1)  # after the approval: what is deleted is what it was last
    execute(ApplyWebsitesOperator, **files, prune=True, expected_digest=plan["digest"])
    assert [website["domain"] for website in analytics_sandbox.websites()] == ["kept.example"]
    (trail,) = tmp_path.rglob("*.jsonl")
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    assert {line["action"] for line in lines} == {"delete"}
    assert {line["field"]: line["before"] for line in lines} == {
        "privacy": "private",
        "email": True,
        "exclude_bots": True,
        "exclude_params": [],
        "exclude_ips": ["1.1.1.1", "2.2.2.2"],
        "favorite": True,
    }


def test_public_pages_by_one_word_in_the_defaults_are_refused(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    config = tmp_path / "websites.yaml"
    domains = [f"{number}.example" for number in range(50)]
    for domain in domains:
        analytics_sandbox.add_website(domain, privacy=1)
    config.write_text(json.dumps({"defaults": {"privacy": "public"}, "websites": dict.fromkeys(domains)}))
    plan = execute(PlanWebsitesOperator, config_path=str(config))
    assert plan["opened"] == 50
    assert plan["unsafe"].startswith(
        "50 of 50 statistics pages that are not public would become public (100%, allowed 30%)"
    )
    assert plan["markdown"].splitlines()[4].startswith("**50 statistics pages become public:** `0.example (id 1)`, ")
    with pytest.raises(AirflowFailException, match=r"^50 of 50 statistics pages that are not public"):
        execute(ApplyWebsitesOperator, config_path=str(config))
    assert operations(analytics_sandbox)["update"] == 0


def test_what_somebody_changes_after_the_plan_is_not_lost(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    """The file merges its addresses; an entry is typed by hand between the list and the update."""
    config = tmp_path / "websites.yaml"
    config.write_text("modes: {exclude_ips: merge}\nwebsites: {a.example: {exclude_ips: [192.0.2.1]}}")
    analytics_sandbox.add_website("a.example", exclude_ips="10.0.0.1")

    def type_in(method: str, path: str) -> None:
        if path == "/websites/1":
            analytics_sandbox.change_website(1, exclude_ips="10.0.0.1\n10.0.0.2")
            distortion.before = lambda method, path: None

    distortion.before = type_in
    result = execute(ApplyWebsitesOperator, config_path=str(config))
    assert result["verified"] is True
    assert analytics_sandbox.websites()[0]["exclude_ips"] == "10.0.0.1\n10.0.0.2\n192.0.2.1"


def test_a_guard_counts_the_lists_of_all_compared_websites_even_if_the_rows_hide_them(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    for domain, number in (("a.example", 5), ("b.example", 6)):
        analytics_sandbox.add_website(domain, exclude_ips="\n".join(f"192.0.2.{one}" for one in range(number)))
    analytics_sandbox.configure(list_hides=["exclude_ips"])
    websites = {"a.example": {"exclude_ips": []}, "b.example": {"email": True}}
    plan = execute(PlanWebsitesOperator, config={"modes": {"exclude_ips": "replace"}, "websites": websites})
    assert plan["unsafe"].startswith("5 of 11 exclude_ips entries would be lost")


def test_an_approved_change_of_a_website_that_somebody_changed_is_not_sent(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    """The file replaces the list: with it, the entry typed by hand would go, which nobody approved."""
    config = tmp_path / "websites.yaml"
    config.write_text(
        "modes: {exclude_ips: replace}\n"
        "websites: {a.example: {exclude_ips: [192.0.2.1]}, b.example: {exclude_ips: [192.0.2.1]}}"
    )
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain, exclude_ips="10.0.0.1")
    files = {"config_path": str(config), "state_path": str(tmp_path)}
    files["expected_digest"] = execute(PlanWebsitesOperator, **files)["digest"]

    def type_in(method: str, path: str) -> None:
        if path == "/websites/1" and method == "GET":
            analytics_sandbox.change_website(1, exclude_ips="10.0.0.1\n10.0.0.2")

    distortion.before = type_in
    with pytest.raises(BulkError, match=r"since the plan was approved: .*exclude_ips remove 10\.0\.0\.2"):
        execute(ApplyWebsitesOperator, **files)
    assert [website["exclude_ips"] for website in analytics_sandbox.websites()] == ["10.0.0.1\n10.0.0.2", "192.0.2.1"]


def test_a_website_that_somebody_else_creates_at_the_same_time_is_no_success(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites: {new.example: {privacy: private}}")
    analytics_sandbox.configure(allow_duplicates=True)

    def create_too(method: str, path: str) -> None:
        if method == "POST":
            analytics_sandbox.add_website("NEW.example", privacy=1)

    distortion.before = create_too
    with pytest.raises(BulkError, match=r"Created, but: 2 websites have the domain 'new\.example': ids"):
        execute(ApplyWebsitesOperator, config_path=str(config))


def test_a_delete_that_does_not_hold_is_no_success(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    config = tmp_path / "websites.yaml"
    config.write_text("websites: {kept.example: {privacy: public}}")
    for domain in ("kept.example", "stays.example"):
        analytics_sandbox.add_website(domain)
    answer = distortion.answer
    distortion.answer = lambda method, *rest: (204, b"") if method == "DELETE" else answer(method, *rest)  # type: ignore[method-assign]
    with pytest.raises(
        BulkError, match=r"(?s)^1 website failed, 0 succeeded.*It still exists after it was deleted.*stays\.example"
    ):
        execute(ApplyWebsitesOperator, config_path=str(config), prune=True)


def test_two_files_on_the_same_websites_converge_or_one_of_them_fails(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, distortion: Distortion
) -> None:
    """Whenever one of them is about to update, the other one updates first."""
    config = tmp_path / "websites.yaml"
    config.write_text("websites: {a.example: {exclude_ips: [192.0.2.1]}}")
    analytics_sandbox.add_website("a.example")

    def overwrite(method: str, path: str) -> None:
        if method == "GET" and operations(analytics_sandbox)["update"]:
            analytics_sandbox.change_website(1, exclude_ips="198.51.100.1")

    distortion.before = overwrite
    with pytest.raises(
        BulkError, match=r"Sent, and not in effect: exclude_ips lacks .* The service ignores it, or another process"
    ):
        execute(ApplyWebsitesOperator, config_path=str(config))


def test_a_managed_list_in_a_file_and_the_nightly_list_do_not_fight(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    config = tmp_path / "websites.yaml"
    analytics_sandbox.add_website("a.example", privacy=1, exclude_ips="10.0.0.1")
    nightly = {"state_path": str(tmp_path), "exclude_ips": ["203.0.113.7"]}
    file: dict[str, Any] = {"config_path": str(config), "state_path": str(tmp_path)}

    def write(*addresses: str, mode: str = "") -> None:
        config.write_text(
            f"{mode}defaults: {{privacy: private, exclude_ips: [{', '.join(addresses)}]}}\n"
            "websites: {a.example: {}, b.example: {}}\n"
        )

    write("192.0.2.1", mode="modes: {exclude_ips: managed}\n")
    with pytest.raises(AirflowFailException, match="the mode managed needs state_path"):
        execute(ApplyWebsitesOperator, config_path=str(config))
    write("192.0.2.1")
    for _ in range(2):
        execute(SyncExcludedIpsOperator, **nightly)
        execute(ApplyWebsitesOperator, **file)
    assert execute(CheckDriftOperator, **file)["changes"] == []
    execute(SyncExcludedIpsOperator, **nightly)
    write("192.0.2.2")
    plan = execute(PlanWebsitesOperator, **file)
    assert execute(ApplyWebsitesOperator, **file, expected_digest=plan["digest"])["applied"] == 2
    assert [set(website["exclude_ips"].split()) for website in analytics_sandbox.websites()] == [
        {"10.0.0.1", "203.0.113.7", "192.0.2.2"},
        {"203.0.113.7", "192.0.2.2"},
    ]


def test_desired_websites_may_come_from_another_task(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    rows = [{"domain": "a.example", "privacy": 1, "exclude_ips": "192.0.2.1\r\n192.0.2.2"}]
    (tmp_path / "websites.yaml").write_text(
        "websites: {a.example: {privacy: private, exclude_ips: [192.0.2.1, 192.0.2.2]}}"
    )
    digests = {
        execute(PlanWebsitesOperator, **source)["digest"]
        for source in ({"config": rows}, {"config": json.dumps(rows)}, {"config_path": f"{tmp_path}/websites.yaml"})
    }
    assert len(digests) == 1
    assert execute(ApplyWebsitesOperator, config=rows)["applied"] == 1
    assert execute(CheckDriftOperator, config=rows)["changes"] == []
    for neither in ({}, {"config": rows, "config_path": f"{tmp_path}/websites.yaml"}):
        with pytest.raises(AirflowFailException, match="allowed: one of the two"):
            execute(PlanWebsitesOperator, **neither)


def test_what_an_export_cannot_write_is_told_and_never_deleted(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    for domain in ("a.example", "http://odd.example/"):
        analytics_sandbox.add_website(domain)
    file = f"{tmp_path}/export.yaml"
    assert execute(ExportWebsitesOperator, config_path=file)["left_out"] == 1
    assert "# id 2: omitted, and never deleted by a plan, domain='http://odd.example/'" in Path(file).read_text()
    plan = execute(PlanWebsitesOperator, config_path=file, prune=True)
    assert (plan["deletes"], plan["protected"]) == (0, 1)
    assert (
        "Not in the file, but protected (1): `http://odd.example/ (id 2): its domain is not allowed in a file`"
        in plan["markdown"]
    )


def test_exports_into_a_folder_of_any_storage_plan_to_nothing(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    attach("memory", fsspec.filesystem("memory"))
    for domain in ("a.one.example", "b.one.example", "a.two.example"):
        analytics_sandbox.add_website(domain)
    folder = "memory://files/websites"
    for name, number in (("one", 2), ("two", 1)):
        export = {"config_path": f"{folder}/{name}.yaml", "websites": [f"*.{name}.example"]}
        assert execute(ExportWebsitesOperator, **export)["websites"] == number
    plan = execute(PlanWebsitesOperator, config_path=folder, prune=True)
    assert (plan["websites"], plan["changes"]) == (3, [])


def test_a_website_that_moves_to_another_file_plans_nothing(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    one, two = tmp_path / "1.yaml", tmp_path / "2.yaml"
    one.write_text("websites: {a.example: {privacy: public}, b.example: {privacy: private}}")
    two.write_text("websites: {}")
    before = execute(PlanWebsitesOperator, config_path=str(tmp_path))
    one.write_text("websites: {a.example: {privacy: public}}")
    two.write_text("defaults: {privacy: private}\nwebsites: {b.example: }")
    after = execute(PlanWebsitesOperator, config_path=str(tmp_path))
    assert before["creates"] == 1
    assert before["digest"] == after["digest"]


def test_a_folder_without_files_is_refused(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match=r"no \*\.yaml file in this folder"):
        execute(PlanWebsitesOperator, config_path=str(tmp_path))
    assert not [one for one in analytics_sandbox.requests if one.operation != "account"]
