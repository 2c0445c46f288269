# SPDX-License-Identifier: Apache-2.0
"""Websites as code: plan, apply, drift, export, and exact comparison of domains (``operators/websites_as_code.py``)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSkipException
from distortion import Distortion
from fixture_types import Execute
from reconciling import Night

from airflow_provider_analytics import storage
from airflow_provider_analytics.api.fields import RECORD_FIELDS
from airflow_provider_analytics.exceptions import BulkError, StorageError
from airflow_provider_analytics.operators.reconciling import passwords_of
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    GetWebsiteOperator,
)
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator
from airflow_provider_analytics.readable import Redactor
from airflow_provider_analytics.reconcile.plan.changes import Plan
from airflow_provider_analytics.sandbox.server import SandboxServer

#: Rejected in the run, or when the DAG is parsed.
REJECTED = (AirflowFailException, ValueError)

FILE = """\
defaults:
  privacy: private
  exclude_ips: [203.0.113.7]
websites:
  1.example:
  new.example:
    privacy: password
    password_from: connection:page_password
    favorite: true
"""
PRIVATE = "websites: {1.example: {privacy: private}}"


def test_stored_plan_names_all_websites(night: Night) -> None:
    """The plan that an approver sees can be shortened."""
    night.add(60)
    websites = {f"{number}.example": {"privacy": "private"} for number in range(1, 61)}
    plan = night.plan(config={"websites": websites}, **night.state)
    [stored] = night.folder.rglob(f"plans/{plan['digest']}.md")
    named = [{*re.findall(r"\d+\.example", text)} for text in (stored.read_text(), plan["markdown"])]
    assert named[0] == websites.keys() > named[1]


def test_plan_after_apply_is_empty(
    night: Night, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic", "password": "hunter2-hunter"}))
    night.add(2, exclude_ips="9.9.9.9")
    night.write(FILE)
    plan = night.plan(**night.state)
    assert night.operations == {"account": 1, "list": 2}
    assert [plan[name] for name in ("creates", "updates", "deletes", "applied")] == [1, 1, 0, 0]
    assert plan["digest"] in plan["markdown"]
    [plan_path] = night.folder.rglob(f"plans/{plan['digest']}.json")
    assert Plan.from_dict(json.loads(plan_path.read_text())).digest == plan["digest"]
    assert "password_from: `connection:page_password`" in plan_path.with_suffix(".md").read_text()

    answer = {"chosen_options": ["Approve"], "params_input": {"approved_digest": plan["digest"]}}
    approved = {**night.state, "approved_digest": answer}
    applied = night.apply(**approved)
    states = {**plan["states"], "applied": 2}
    # Records do not contain the password.
    done = {"dry_run": False, "applied": 2, "states": states, "unverified": ["password"], "markdown": None}
    assert applied == {**plan, **done}
    new = night.sandbox.websites()[-1]
    assert (new["domain"], new["privacy"], new["favorite"]) == ("new.example", 2, True)
    assert night.lists() == ["9.9.9.9\n203.0.113.7", "9.9.9.9", "203.0.113.7"]
    assert night.sandbox.stored_password(new["id"]) == "hunter2-hunter"
    assert {(line["domain"], line["field"]) for line in night.trail()} == {
        *(("1.example", field) for field in ("exclude_ips", "privacy")),
        *(("new.example", field) for field in ("exclude_ips", "favorite", "password_from", "privacy")),
    }
    for text in (json.dumps(night.trail()), plan_path.read_text(), json.dumps(applied), *capfd.readouterr()):
        assert "hunter2" not in text

    # All of it is in effect: a retry succeeds.
    night.sandbox.clear_requests()
    assert night.apply(**approved)["applied"] == 0
    assert night.operations == {"account": 1, "list": 2}
    assert night.drift(**night.state)["changes"] == []


def test_apply_accepts_only_the_approved_plan(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    night.add(1)
    before = night.sandbox.websites()
    night.write(PRIVATE)
    digest = night.plan(**night.state)["digest"]
    with SandboxServer() as another, monkeypatch.context() as elsewhere:
        another.add_website("1.example")
        elsewhere.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", another.connection_json())
        with pytest.raises(AirflowFailException, match="The plan is not the approved one"):
            night.apply(**night.state, approved_digest=digest)
        assert [website["privacy"] for website in another.websites()] == [0]
    night.write("websites: {1.example: {privacy: private, email: true}}")
    # An empty template must not apply an unapproved plan.
    for expected in (digest, "None", "", None, "0" * 64):
        with pytest.raises(AirflowFailException, match=r"not approved|no longer planned|not the approved one"):
            night.apply(**night.state, approved_digest=expected)
    assert night.sandbox.websites() == before
    assert night.apply()["applied"] == 1


def test_pruning_is_optional_and_guarded_and_its_override_is_part_of_the_approval(night: Night) -> None:
    night.add(11)
    night.write("websites: {1.example: {privacy: public}}")
    assert night.plan()["deletes"] == 0
    prune: dict[str, Any] = {**night.state, "prune": True}
    plan = night.plan(**prune)
    assert plan["guard_message"].startswith("10 of 11 websites would be deleted")
    assert "**This plan cannot be applied without override_guards=many_deleted:**" in plan["markdown"]
    for arguments in ({**prune, "approved_digest": plan["digest"]}, {"prune": "true"}):
        with pytest.raises(AirflowFailException, match="10 of 11 websites would be deleted"):
            night.apply(**arguments)
    # The approver did not accept the finding of the guard.
    with pytest.raises(AirflowFailException, match=r"override_guards was \[\], here it is \['many_deleted'\]"):
        night.apply(**prune, override_guards="many_deleted", approved_digest=plan["digest"])
    assert len(night.sandbox.websites()) == 11
    accepted = night.plan(**prune, override_guards="many_deleted")
    assert (accepted["guard_message"], accepted["override_guards"]) == (None, ["many_deleted"])
    assert "**Guards that were overridden:** many_deleted" in accepted["markdown"]
    # The accepted guard is part of the approval.
    night.sandbox.remove_website(11)
    with pytest.raises(AirflowFailException, match="9 of 10 websites would be deleted"):
        night.apply(**prune, approved_digest=plan["digest"])
    applied = night.apply(**prune, override_guards="many_deleted", approved_digest=accepted["digest"])
    assert (applied["applied"], applied["verified"]) == (9, True)
    assert night.lists("domain") == ["1.example"]


@pytest.mark.parametrize("reference", ["connection:page_password", "connection:page_password_nope"])
def test_missing_password_stops_the_run_before_any_change(
    night: Night, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic"}))
    config = {f"{n}.example": {"privacy": "password", "password_from": reference} for n in range(4)}
    message = f"No password was found in password_from='{reference}' of 0.example, 1.example, 2.example and 1 more"
    with pytest.raises(AirflowFailException, match=message):
        night.apply(config={"websites": config})
    assert night.operations == {"account": 1, "list": 2}


def test_error_of_the_secrets_backend_is_not_reported_as_a_missing_password(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> Any:
        raise ConnectionError("The backend of the secrets does not respond")

    monkeypatch.setattr("airflow_provider_analytics.operators.reconciling.BaseHook.get_connection", fail)
    with pytest.raises(ConnectionError, match="does not respond"):
        passwords_of({"connection:page_password": ["1.example"]}, Redactor())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff\xfew\x00", r"^websites\.yaml:1: cannot be read: .*. Allowed: a"),
        (Path.mkdir, r"no \*\.yaml or \*\.yml file in this folder"),
        (lambda file: None, "there is no such file"),
        (b"websites:\n  twice.example:\n", r"websites\.yaml:2: several websites.*ids 2, 1"),
    ],
    ids=["UTF-16", "a folder", "no file", "duplicates"],
)
def test_bad_websites_files_fail_without_a_retry(night: Night, content: Any, message: str) -> None:
    night.add("twice.example Twice.example.")
    night.file.write_bytes(content) if isinstance(content, bytes) else content(night.file)
    with pytest.raises(AirflowFailException, match=message):
        night.apply()
    assert night.operations.keys() <= {"account", "list"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"state_path": True}, "state_path=True is not allowed. Allowed: a URL"),
        ({"config_path": "websites.yaml"}, "config_path='websites.yaml' is not allowed. Allowed: a URL such as"),
        ({"config_path": None, "config": "websites.yaml"}, "config='websites.yaml' .* the path of a file belongs in"),
    ],
)
def test_unreadable_path_is_named(night: Night, arguments: dict[str, Any], message: str) -> None:
    night.write(PRIVATE)
    with pytest.raises(REJECTED, match=message):
        night.plan(**arguments)
    assert night.operations.keys() <= {"account"}


def test_check_drift_fails_skips_or_logs_by_on_drift(night: Night, caplog: pytest.LogCaptureFixture) -> None:
    night.add(1)
    night.write(PRIVATE)
    with pytest.raises(REJECTED, match=r"privacy: `public` → `private` on 1 website: `1\.example"):
        night.drift()
    with caplog.at_level("INFO"), pytest.raises(AirflowSkipException):
        night.drift(on_drift="skip")
    assert "Skipped: The websites differ from" in caplog.text
    assert night.drift(on_drift="log")["updates"] == 1
    for neither in ({"config": None}, {"config": [], "config_path": str(night.file)}):
        with pytest.raises(REJECTED, match=r"Set (only )?one of them"):
            night.drift(**neither)
    with pytest.raises(REJECTED, match=r"on_drift='reprot' is not allowed. Allowed: fail, skip, log"):
        night.drift(on_drift="reprot")
    assert night.operations["update"] == 0


def test_result_counts_the_websites_by_their_change(night: Night) -> None:
    night.add(3)
    new = {f"new-{number}.example": {"privacy": "public"} for number in range(25)}
    night.write({"websites": {"1.example": {"privacy": "private"}, "2.example": {"privacy": "public"}, **new}})
    planned = night.plan()
    counts = ("websites_compared", "creates", "updates", "deletes", "unchanged", "changes_omitted", "applied")
    assert [planned[name] for name in counts] == [2, 25, 1, 0, 1, 6, 0]
    assert len(planned["changes"]) == 20
    applied = night.apply()
    assert [applied[name] for name in counts] == [2, 25, 1, 0, 1, 6, 26]
    assert applied["states"] == {
        "unchanged": 0, "applied": 26, "unclear": 0, "failed": 0, "rejected": 0, "not_tried": 0,
    }  # fmt: skip
    assert [night.plan()[name] for name in counts] == [27, 0, 0, 0, 27, 0, 0]


def test_drift_error_has_at_most_twenty_effects(night: Night) -> None:
    night.add(30)
    night.write({"websites": {f"{number}.example": {"exclude_ips": [f"192.0.2.{number}"]} for number in range(1, 31)}})
    with pytest.raises(REJECTED, match=r"The websites differ from .*: 30 websites") as caught:
        night.drift()
    assert str(caught.value).count("exclude_ips: add") == 20


def test_unreadable_website_does_not_count_as_new(night: Night, distortion: Distortion) -> None:
    night.add(2)
    night.write(PRIVATE)
    distortion.hidden_in_lists = {"privacy"}
    distortion.failing = {("GET", "/websites/1"): 500}
    for approved_digest in ("any", "0" * 64):
        with pytest.raises(BulkError, match=r"1\.example"):
            night.apply(**night.state, approved_digest=approved_digest)
    with pytest.raises(BulkError, match=r"1\.example"):
        night.plan()
    with pytest.raises(BulkError, match=r"1\.example"):
        night.execute(ExportWebsitesOperator, output_path=str(night.folder / "export.yaml"))
    assert not (night.folder / "export.yaml").exists()
    distortion.failing = {}
    night.sandbox.clear_requests()
    assert night.plan()["updates"] == 1
    assert night.operations == {"account": 1, "list": 2, "show": 1}


def test_value_in_an_unknown_form_is_not_planned(night: Night, distortion: Distortion) -> None:
    """The first record of each page represents the others, so it is usual here."""
    night.add("0.example 1.example 2.example")
    night.write(PRIVATE)

    def as_object(_: str, __: str, record: dict[str, Any]) -> None:
        if record.get("domain") == "1.example":
            record["privacy"] = {"value": record["privacy"], "label": "Public"}

    distortion.change = as_object
    with pytest.raises(BulkError, match=r"The service returns privacy as .* This form is not supported"):
        night.plan()


def test_export_of_two_websites_with_a_domain_fails_and_names_what_to_do(night: Night) -> None:
    night.sandbox.configure(allow_duplicates=True)
    night.add("a.example a.example b.example")
    message = (
        r"(?s)Several websites have the domain a\.example: ids \d, \d\..*Not retried: resolve the duplicates first\."
    )
    with pytest.raises(AirflowFailException, match=message):
        night.execute(ExportWebsitesOperator, output_path=str(night.folder / "out.yaml"))
    assert not (night.folder / "out.yaml").exists()


def test_export_of_a_snapshot_with_too_much_text_fails(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    night.add(2)
    base = str(night.folder / "snapshots")
    taken = SnapshotWebsitesOperator(task_id="snapshot", base_path=base, partition_date=None).execute({})
    monkeypatch.setattr(storage, "MAX_EXPORTED", 100)
    export = {"output_path": str(night.folder / "out.yaml"), "base_path": base}
    with pytest.raises(StorageError, match=r"manifest\.json is too large.*records to export or more, and 100 are"):
        night.execute(ExportWebsitesOperator, snapshot_date=taken["snapshot_date"], **export)
    assert not (night.folder / "out.yaml").exists()


def test_plan_of_an_export_in_any_storage_is_empty(night: Night, memory: Any) -> None:
    night.add("a.one.example b.one.example a.two.example")
    folder = f"memory://{night.folder.name}/websites"
    for name, number in (("one", 2), ("two", 1)):
        export = {"output_path": f"{folder}/{name}.yaml", "websites": [f"*.{name}.example"]}
        assert night.execute(ExportWebsitesOperator, **export)["websites_exported"] == number
    plan = night.plan(config_path=folder, prune=True)
    assert (plan["websites_compared"], plan["changes"]) == (3, [])


def test_deletion_contains_the_deleted_record(night: Night, distortion: Distortion) -> None:
    night.add("kept.example")
    night.add("gone.example", privacy=1, exclude_ips="1.1.1.1\n2.2.2.2", favorite=True)
    night.write("websites: {kept.example: {privacy: public}}")
    distortion.hidden_in_lists = {"exclude_ips", "favorite"}
    prune: dict[str, Any] = {**night.state, "prune": True}
    plan = night.plan(**prune)
    # Read singly, because the rows of the list lack fields; the remaining website is not read.
    assert night.operations == {"account": 1, "list": 2, "show": 1}
    (written,) = night.folder.glob(f"*/plans/{plan['digest']}.json")
    assert json.loads(written.read_text())["changes"][0]["fields"]["exclude_ips"] == [["1.1.1.1", "2.2.2.2"], None]
    night.sandbox.change_website(2, email=1)  # after the approval: the deleted record is the last one
    approved = {**prune, "approved_digest": plan["digest"]}
    night.apply(**approved)
    assert night.lists("domain") == ["kept.example"]
    assert {line["action"] for line in night.trail()} == {"delete"}
    switches = {"email": True, "exclude_bots": True, "favorite": True}
    lists: dict[str, Any] = {"exclude_params": [], "exclude_ips": ["1.1.1.1", "2.2.2.2"]}
    before = {line["field"]: line["before"] for line in night.trail()}
    assert before.keys() == set(RECORD_FIELDS) - {"domain"}
    assert before == before | {"privacy": "private", **switches, **lists}
    assert night.apply(**approved)["applied"] == 0


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        *(("privacy", label, number) for number, label in enumerate(("public", "private"))),
        *((name, value, int(value)) for name in ("email", "exclude_bots") for value in (False, True)),
        *(("favorite", value, value) for value in (False, True)),
        *(("exclude_params", value, "\n".join(value) or None) for value in ([], ["utm", "ref"])),
        *(("exclude_ips", value, "\n".join(value) or None) for value in ([], ["192.0.2.1", "192.0.2.2"])),
    ],
)
def test_new_website_gets_each_value_of_the_file(night: Night, name: str, value: Any, stored: Any) -> None:
    """Also a value that looks like an omitted one; with an approval, it is sent only if it is in the plan."""
    config = {"websites": {"new.example": {"privacy": "private", name: value}}}
    digest = night.plan(config=config)["digest"]
    assert night.apply(config=config, approved_digest=digest)["verified"] is True
    assert [website[name] for website in night.sandbox.websites()] == [stored]
    assert night.plan(config=config)["changes"] == []


def test_guard_counts_the_lists_of_all_compared_websites_even_if_list_rows_omit_them(night: Night) -> None:
    for domain, number in (("a.example", 5), ("b.example", 6)):
        night.add(domain, exclude_ips="\n".join(f"192.0.2.{item}" for item in range(number)))
    night.sandbox.configure(list_hides=["exclude_ips"])
    websites = {"a.example": {"exclude_ips": []}, "b.example": {"email": True}}
    plan = night.plan(config={"modes": {"exclude_ips": "replace"}, "websites": websites})
    assert plan["guard_message"].startswith("5 of 11 exclude_ips entries would be lost")


@pytest.mark.parametrize("is_remainder", [False, True])
@pytest.mark.parametrize(
    ("is_updated", "problem"),
    [
        (False, r"since the plan was approved: .*exclude_ips remove 10\.0\.0\.2"),
        (True, r"exclude_ips lacks 192\.0\.2\.1 and still has 10\.0\.0\.1, 10\.0\.0\.2"),
    ],
    ids=["before its update", "after its update"],
)
def test_approved_change_is_not_sent_if_the_website_changed_meanwhile(
    night: Night, distortion: Distortion, is_updated: bool, problem: str, is_remainder: bool
) -> None:
    """The file replaces the list: an entry typed by hand would be removed without an approval.

    So would it in the rest of a plan that an earlier try applied in part.
    """
    night.write(
        "modes: {exclude_ips: replace}\ndefaults: {exclude_ips: [192.0.2.1]}\nwebsites: {1.example: , 2.example: }"
    )
    night.add(2, exclude_ips="10.0.0.1")
    digest = night.plan(**night.state)["digest"]
    typed: list[object] = []
    if is_remainder:
        distortion.failing = {("PATCH", "/websites/1"): 500}
        with pytest.raises(BulkError, match="1 website failed, 1 succeeded"):
            night.apply(**night.state, approved_digest=digest)
        distortion.failing = {}
        night.sandbox.clear_requests()

    def type_in(method: str, path: str) -> None:
        is_read = (method, path) == ("GET", "/websites/1")
        if is_read and ("1" in night.updated) == is_updated and not typed:
            typed.append(night.sandbox.change_website(1, exclude_ips="10.0.0.1\n10.0.0.2"))

    distortion.before = type_in
    with pytest.raises(BulkError, match=problem):
        night.apply(**night.state, approved_digest=digest)
    assert night.lists() == ["10.0.0.1\n10.0.0.2", "192.0.2.1"]


def test_domain_with_and_without_www_are_two_websites_of_a_file(night: Night) -> None:
    """A service might store one of them as the other, so a single create needs a file that names both."""
    night.add("shop.example")
    with pytest.raises(AirflowFailException, match="If these are two websites, list both domains"):
        night.execute(CreateWebsiteOperator, domain="www.shop.example")
    both = {"shop.example": {}, "www.shop.example": {"privacy": "private"}}
    assert night.apply(config={"websites": both})["applied"] == 1
    assert [website["domain"] for website in night.sandbox.websites()] == ["shop.example", "www.shop.example"]


def test_export_of_a_selector_without_a_website_cannot_be_overridden(night: Night) -> None:
    night.add(2)
    export: dict[str, Any] = {"output_path": str(night.folder / "out.yaml"), "websites": ["3.example"]}
    with pytest.raises(AirflowFailException, match=r"No website matches websites: '3\.example'") as caught:
        night.execute(ExportWebsitesOperator, **export)
    assert "override_guards" not in str(caught.value)


NEAR = ["example.com", "example.com/blog", "example.com:8080", "https://example.com", "example.com/shop"]
IP = "203.0.113.7"


def excluded(night: Night, address: str = IP) -> list[str]:
    return [website["domain"] for website in night.sandbox.websites() if address in (website["exclude_ips"] or "")]


@pytest.mark.parametrize("domain", NEAR)
def test_sync_selects_or_excepts_only_the_website_of_exactly_this_domain(domain: str, night: Night) -> None:
    night.add(" ".join([*NEAR, "other.example"]))
    assert night.sync(IP, websites=[domain, "other.example"], mode="merge")["verified"] is True
    assert excluded(night) == [domain, "other.example"]
    night.sync("198.51.100.1", except_websites=[domain, "other.example"])
    assert excluded(night, "198.51.100.1") == [item for item in NEAR if item != domain]


def test_file_changes_and_deletes_only_the_website_of_exactly_this_domain(night: Night) -> None:
    night.add(" ".join(NEAR))
    result = night.apply(config={"websites": {"example.com": {"exclude_ips": [IP]}}}, prune=True)
    assert (result["updates"], result["deletes"], excluded(night)) == (1, 0, ["example.com"])


def test_export_and_single_operators_find_the_website_of_exactly_this_domain(
    night: Night, execute_task: Execute
) -> None:
    night.add(" ".join(NEAR))
    path = str(night.folder / "exported.yaml")
    exported = execute_task(ExportWebsitesOperator, output_path=path)
    assert (exported["websites_exported"], exported["omitted"]) == (1, len(NEAR) - 1)
    assert execute_task(GetWebsiteOperator, domain="example.com")["id"] == 1
    assert execute_task(DeleteWebsiteOperator, domain="EXAMPLE.com.")["deleted"] is True
    assert [website["domain"] for website in night.sandbox.websites()] == NEAR[1:]


@pytest.mark.parametrize("other", ["xn--i-7iq.example", "I❤.example.", "i❤.EXAMPLE"])
def test_file_with_two_spellings_of_an_emoji_domain_is_rejected(other: str, night: Night) -> None:
    config = {"websites": {"i❤.example": {"privacy": "private"}, other: {"privacy": "private"}}}
    with pytest.raises(AirflowFailException, match="is a duplicate of"):
        night.apply(config=config)
    assert not night.sandbox.websites()


def test_file_with_a_typographic_quote_creates_no_website(night: Night) -> None:
    with pytest.raises(AirflowFailException, match="a typographic quote, dash, or bracket"):
        night.apply(config={"websites": {"“shop.example”": {"privacy": "private"}}})
    assert not night.sandbox.requests
