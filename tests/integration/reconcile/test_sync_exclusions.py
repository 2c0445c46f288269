from __future__ import annotations

import json
import os
import re
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import attach
from distortion import Distortion
from fixture_types import Execute

from airflow_provider_analytics.exceptions import BulkError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


def lists(sandbox: SandboxServer, field: str = "exclude_ips") -> dict[str, str | None]:
    return {website["domain"]: website[field] for website in sandbox.websites()}


def operations(sandbox: SandboxServer) -> Counter[str | None]:
    return Counter(request.operation for request in sandbox.requests)


def test_merge_keeps_what_is_there_and_sends_only_differences(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="# typed by Ann\n9.9.9.9 # home\n203.0.113.7")
    analytics_sandbox.add_website("b.example", exclude_ips="203.0.113.8\r\n  203.0.113.7 \r\n")
    analytics_sandbox.add_website("c.example")
    result = execute(SyncExcludedIpsOperator, exclude_ips="203.0.113.7\n\n203.0.113.8 # Lyon\n")
    assert lists(analytics_sandbox) == {
        "a.example": "# typed by Ann\n9.9.9.9 # home\n203.0.113.7\n203.0.113.8",
        "b.example": "203.0.113.8\r\n  203.0.113.7 \r\n",
        "c.example": "203.0.113.7\n203.0.113.8",
    }
    assert (result["websites"], result["updates"], result["applied"], result["unchanged"]) == (3, 2, 2, 1)
    assert (result["entries_added"], result["entries_removed"]) == (3, 0)
    # Each website is shown before it is changed, and again afterwards: the list would take as many requests.
    assert operations(analytics_sandbox) == {"list": 2, "show": 5, "update": 2}
    assert result["verified"] is True
    analytics_sandbox.clear_requests()
    again = execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.8", "::ffff:203.0.113.7"])
    assert operations(analytics_sandbox) == {"list": 2}
    assert again.keys() == result.keys()
    assert (again["applied"], again["changes"]) == (0, [])


def test_a_dry_run_returns_the_same_shape_and_digest_and_sends_nothing(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    arguments = {"exclude_ips": ["203.0.113.7"], "state_path": str(tmp_path)}
    dry = execute(SyncExcludedIpsOperator, dry_run=True, **arguments)
    assert operations(analytics_sandbox) == {"account": 1, "list": 2}
    assert {path.parent.name for path in tmp_path.rglob("*.*") if path.is_file()} == {"plans"}
    real = execute(SyncExcludedIpsOperator, **arguments)
    states = {**dry["states"], "applied": 1}
    assert {**dry, "dry_run": False, "applied": 1, "states": states, "verified": True, "markdown": None} == real
    assert "exclude_ips: add `203.0.113.7`" in dry["markdown"]
    assert dry["changes"] == ["update a.example (id 1): exclude_ips add 203.0.113.7"]


def test_a_managed_list_removes_what_left_it_but_no_line_with_a_comment(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    for number in range(12):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips=f"10.0.0.{number} # typed\n203.0.113.7")

    def sync(*addresses: str) -> dict[str, Any]:
        analytics_sandbox.clear_requests()
        result: dict[str, Any] = execute(
            SyncExcludedIpsOperator, exclude_ips=addresses, state_path=f"file://{tmp_path}/state"
        )
        return result

    assert sync("203.0.113.7", "203.0.113.8", "10.0.0.3")["updates"] == 12
    third = sync("203.0.113.9")
    assert (third["entries_added"], third["entries_removed"], third["unsafe"]) == (12, 35, None)
    assert lists(analytics_sandbox)["3.example"] == "10.0.0.3 # typed\n203.0.113.9"
    sync("203.0.113.9")
    assert operations(analytics_sandbox) == {"account": 1, "list": 2}


def test_the_guard_trips_before_anything_is_sent(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    for number in range(10):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="203.0.113.7\n203.0.113.8\n203.0.113.9")
    wiped = {"exclude_ips": "203.0.113.7 # the rest was lost", "mode": "replace"}
    with pytest.raises(AirflowFailException, match=r"^20 of 30 exclude_ips entries would be lost"):
        execute(SyncExcludedIpsOperator, **wiped)
    assert operations(analytics_sandbox) == {"list": 2}
    assert execute(SyncExcludedIpsOperator, **wiped, accept="loss")["entries_removed"] == 20
    with pytest.raises(AirflowFailException, match=r"(?s)exclude_ips is empty\. .*accept=\['empty'\]"):
        execute(SyncExcludedIpsOperator, exclude_ips="# all gone\n", mode="replace")
    with pytest.raises(AirflowFailException, match="Not retried: someone has to review it first"):
        execute(SyncExcludedIpsOperator, exclude_ips=[], mode="replace", accept="empty")
    execute(SyncExcludedIpsOperator, exclude_ips=[], mode="replace", accept=["empty", "loss"])
    assert set(lists(analytics_sandbox).values()) <= {None, ""}


def test_a_list_that_was_cut_trips_the_guard_and_a_dry_run_only_says_so(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    whole = [f"198.51.100.{number}" for number in range(20)]
    arguments = {"state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, exclude_ips=whole, **arguments)
    # Someone removed them all, so that the website loses nothing.
    analytics_sandbox.change_website(1, exclude_ips="\n".join(f"10.0.0.{number}" for number in range(50)))
    cut = whole[:5]
    dry = execute(SyncExcludedIpsOperator, exclude_ips=cut, dry_run=True, **arguments)
    assert dry["unsafe"].startswith("15 of 20 entries left the list 'the_dag.sync' (75%, allowed 30%)")
    with pytest.raises(AirflowFailException, match=r"(?s)15 of 20 entries left the list .*accept=\['loss'\]"):
        execute(SyncExcludedIpsOperator, exclude_ips=cut, **arguments)
    assert execute(SyncExcludedIpsOperator, exclude_ips=cut, accept=["loss"], **arguments)["applied"] == 1


def test_a_sync_that_finds_nothing_to_change_says_so(
    analytics_sandbox: SandboxServer, execute: Execute, task_log: Callable[[], str]
) -> None:
    for number in range(3):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="203.0.113.7")
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"])
    log = task_log()
    assert "Nothing to sync: exclude_ips is as wanted on 3 websites" in log
    assert "Changing" not in log
    assert "Synced" not in log


def test_equal_changes_are_one_line_of_the_log(
    analytics_sandbox: SandboxServer, execute: Execute, task_log: Callable[[], str]
) -> None:
    for number in range(252):
        analytics_sandbox.add_website(f"{number}.example")
    analytics_sandbox.add_website("other.example", exclude_ips="203.0.113.7")
    lists = {"other.example": ["203.0.113.7", "1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5"]}
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"], per_website=lists, mode="replace", dry_run=True)
    log = task_log()
    assert "Planned exclude_ips for 253 of 253 websites: 257 entries to add, 0 to remove" in log
    assert "\n- exclude_ips: add `203.0.113.7` on 252 websites: `0.example (id 1)`, `1.example (id 2)`, " in log
    assert " and 232 more\n- exclude_ips: add `1.1.1.1` on 1 website: `other.example (id 253)`\n" in log


def test_every_failure_is_in_the_audit_trail_and_the_error_stays_short(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    for number in range(1, 41):
        analytics_sandbox.add_website(f"{number}.example")
    distortion.failing = {("PATCH", f"/websites/{number}"): 422 if number % 2 else 409 for number in range(1, 31)}
    with pytest.raises(BulkError) as caught:
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], state_path=str(tmp_path))
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("30 websites failed, 10 succeeded. The service ")
    assert len(lines) == 3
    assert all(" and 10 more." in line for line in lines[:2])
    assert lines[2].startswith("Service: ")
    (trail,) = tmp_path.rglob("*.jsonl")
    written = [json.loads(line) for line in trail.read_text().splitlines()]
    failed = [line["website"] for line in written if line["action"] == "failed"]
    assert sorted(failed) == sorted(f"{number}.example (id {number})" for number in range(1, 31))
    assert len(written) == 40


@pytest.mark.parametrize("then", ["the same list", "another list", "another list, and late"])
def test_an_update_that_is_applied_after_the_task_gave_up_is_owned(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path, then: str
) -> None:
    """A proxy gives up, and the service applies the update once nobody waits for it any more."""
    analytics_sandbox.add_website("a.example")
    arguments: dict[str, Any] = {"state_path": str(tmp_path)}
    distortion.failing = {("PATCH", "/websites/1"): 504}
    with pytest.raises(BulkError):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
    distortion.failing = {}
    if "late" not in then:
        analytics_sandbox.change_website(1, exclude_ips="192.0.2.1")
    tried = ["192.0.2.1"] if then == "the same list" else ["192.0.2.9"]
    execute(SyncExcludedIpsOperator, exclude_ips=tried, **arguments)
    if "late" in then:
        analytics_sandbox.change_website(1, exclude_ips="192.0.2.1")
    for _ in range(2):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.9"], **arguments)
    assert lists(analytics_sandbox) == {"a.example": "192.0.2.9"}


@pytest.mark.parametrize("then", [None, 429, 409, 422, 503], ids=lambda status: f"then {status}")
def test_a_change_whose_response_was_lost_is_told_by_the_website(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path, then: int | None
) -> None:
    """The update is applied, its response is lost, and the next attempt is refused."""
    analytics_sandbox.add_website("a.example")
    connection = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])
    extra = {"max_retries": 1 if then else 0, "timeout": 5}
    os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"] = json.dumps({**connection, "extra": extra})
    answer = distortion.answer

    def lose(method: str, *rest: Any) -> tuple[int, bytes]:
        status, data = answer(method, *rest)
        if method == "PATCH" and (method, "/websites/1") not in distortion.failing:
            if then:
                distortion.failing = {("GET", "/websites/1"): then, ("PATCH", "/websites/1"): then}
            return 500, b"{}"
        distortion.failing = {}
        return status, data

    distortion.answer = lose  # type: ignore[method-assign, assignment]
    arguments: dict[str, Any] = {"state_path": str(tmp_path)}
    result = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
    assert (result["applied"], result["verified"]) == (1, True)
    (trail,) = tmp_path.rglob("*.jsonl")
    assert [json.loads(line)["action"] for line in trail.read_text().splitlines()] == ["update"]
    distortion.answer = answer  # type: ignore[method-assign]
    # It is known as added, so that the list can take it away again.
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.2"], **arguments)
    assert lists(analytics_sandbox) == {"a.example": "192.0.2.2"}


def test_an_entry_that_a_stale_list_does_not_show_is_removed(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    """The rows of the list are those of before the first run, as from a cache; a website itself is shown as it is."""
    for number in range(1, 5):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    answer = distortion.answer

    def stale(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        status, data = answer(method, target, headers, body)
        if method == "GET" and target.partition("?")[0].endswith("/websites"):
            found = json.loads(data)
            for website in found["data"]:
                website["exclude_ips"] = "10.0.0.1"
            data = json.dumps(found).encode()
        return status, data

    distortion.answer = stale  # type: ignore[method-assign]
    arguments: dict[str, Any] = {"state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
    for _ in range(2):
        again = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
        assert (again["applied"], again["verified"]) == (0, True)
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
    assert set(lists(analytics_sandbox).values()) == {"10.0.0.1\n192.0.2.1"}


def test_what_is_typed_beside_an_entry_of_the_list_stays(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    arguments: dict[str, Any] = {"state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
    analytics_sandbox.change_website(1, exclude_ips="192.0.2.1\n192.0.2.2\n192.0.2.2 # my home")
    for _ in range(2):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
        assert lists(analytics_sandbox) == {"a.example": "192.0.2.1\n192.0.2.2 # my home"}


def test_an_id_that_is_given_to_another_website_before_the_update_is_no_success(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    answer = distortion.answer

    def reuse(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        status, data = answer(method, target, headers, body)
        if any(one.operation == "update" and one.path.endswith("/2") for one in analytics_sandbox.requests):
            data = data.replace(b"b.example", b"other.example")
        return status, data

    distortion.answer = reuse  # type: ignore[method-assign]
    with pytest.raises(BulkError, match=r"The id 2 belongs to 'other\.example' now.*: b\.example \(id 2\)"):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], state_path=str(tmp_path))


def test_a_service_that_ignores_the_search_changes_nothing(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    for domain in ("shop.example", "other.example"):
        analytics_sandbox.add_website(domain)
    analytics_sandbox.configure(ignored=["search"])
    with pytest.raises(AirflowFailException, match=r"search='shop' found 'other\.example'.*websites=\['\*shop\*'\]"):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], websites={"search": "shop"})
    assert operations(analytics_sandbox)["update"] == 0


def test_selectors_exceptions_and_further_entries(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    for domain in ("www.example.com", "shop.example.com", "old.example.com", "other.example.org"):
        analytics_sandbox.add_website(domain, favorite=domain.startswith("shop"))
    execute(
        SyncExcludedIpsOperator,
        exclude_ips=["203.0.113.7"],
        websites=["*.example.com", 4],
        except_websites="OLD.example.com.\n",
        per_website={"shop.*": "203.0.113.8 # till", "2": ["203.0.113.9"]},
    )
    assert lists(analytics_sandbox) == {
        "www.example.com": "203.0.113.7",
        "shop.example.com": "203.0.113.7\n203.0.113.8\n203.0.113.9",
        "old.example.com": None,
        "other.example.org": "203.0.113.7",
    }
    execute(SyncExcludedParamsOperator, exclude_params=["gclid"], websites={"favorite": True})
    execute(SyncExcludedParamsOperator, exclude_params=["fbclid"], websites={"search": "other"})
    assert lists(analytics_sandbox, "exclude_params") == {
        "www.example.com": None,
        "shop.example.com": "gclid",
        "old.example.com": None,
        "other.example.org": "fbclid",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"websites": ["a.example", "b.exmaple", "77"]}, "websites: 'b.exmaple'; websites: '77'", id="selector"
        ),
        pytest.param({"websites": []}, "websites: an empty list", id="no selector"),
        pytest.param({"websites": {"search": "zzz"}}, "No website matches websites: {'search': 'zzz'}", id="search"),
        pytest.param({"websites": {"favourite": True}}, "did you mean favorite", id="filter"),
        pytest.param({"except_websites": ["b.example"]}, "except_websites: 'b.example'", id="exception"),
        pytest.param({"per_website": {"b.example": ["1.1.1.1"]}}, "per_website: 'b.example'", id="per website"),
        pytest.param(
            {"per_website": {"a.example": ["x"]}, "exclude_ips": "y"}, "line 1: 'y'.*entry 1: 'x'", id="all problems"
        ),
        pytest.param({"mode": "merged"}, "did you mean merge", id="mode"),
        pytest.param({"networks": "exapnd"}, "did you mean expand", id="networks"),
        pytest.param({"max_loss_fraction": 30}, "allowed: 0 to 1", id="fraction"),
        pytest.param({"dry_run": "perhaps"}, "dry_run='perhaps'", id="flag"),
    ],
)
def test_bad_arguments_fail_without_a_retry_and_without_a_change(
    analytics_sandbox: SandboxServer, execute: Execute, arguments: dict[str, Any], message: str
) -> None:
    analytics_sandbox.add_website("a.example")
    with pytest.raises(AirflowFailException, match=message):
        execute(SyncExcludedIpsOperator, **{"exclude_ips": ["203.0.113.7"], **arguments})
    assert operations(analytics_sandbox)["update"] == 0


def test_selectors_without_a_match_may_be_allowed(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.add_website("a.example")
    arguments = {"exclude_ips": ["1.1.1.1"], "accept": ["no_match"]}
    assert execute(SyncExcludedIpsOperator, **arguments, websites=["a.example", "b.example"])["applied"] == 1
    assert execute(SyncExcludedIpsOperator, **arguments, websites={"search": "zzz"})["websites"] == 0


def test_each_applied_change_is_audited(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="1.1.1.1")
    analytics_sandbox.add_website("b.example", exclude_ips="2.2.2.2")
    execute(SyncExcludedIpsOperator, exclude_ips=["2.2.2.2"], mode="replace", state_path=str(tmp_path))
    (file,) = tmp_path.rglob("*.jsonl")
    assert file.name == "the_dag-manual__2026-01-02T03_04_05_00_00-sync--1-1.jsonl"
    assert re.fullmatch(r"127\.0\.0\.1_\d+-1/audit/\d{4}-\d\d-\d\d", file.parent.relative_to(tmp_path).as_posix())
    (line,) = map(json.loads, file.read_text().splitlines())
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "dag_id": "the_dag",
        "run_id": "manual__2026-01-02T03:04:05+00:00",
        "task_id": "sync",
        "try_number": 1,
        "action": "update",
        "website_id": "1",
        "domain": "a.example",
        "field": "exclude_ips",
        "before": ["1.1.1.1"],
        "after": ["2.2.2.2"],
    }


@pytest.mark.slow  # a thousand websites
@pytest.mark.chosen
def test_a_thousand_websites_cost_the_arithmetic_minimum(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.seed(1000)
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"])
    # The list, a show and an update for each website, and the list again. Two websites are changed alone before.
    assert operations(analytics_sandbox) == {"list": 24, "show": 1002, "update": 1000}
    for website_id in range(1, 38):
        analytics_sandbox.change_website(website_id, exclude_ips="198.51.100.1")
    analytics_sandbox.clear_requests()
    result = execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"])
    assert operations(analytics_sandbox) == {"list": 24, "show": 39, "update": 37}
    assert (result["updates"], len(result["changes"]), result["changes_left_out"]) == (37, 20, 17)


@pytest.mark.slow  # ten thousand websites
def test_ten_thousand_websites_with_a_hundred_differences(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.seed(10_000)
    for website in analytics_sandbox.websites():
        analytics_sandbox.change_website(website["id"], exclude_ips=None if website["id"] % 100 == 0 else "203.0.113.7")
    result = execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"])
    # Three websites are changed alone, and read back: together their records show every setting.
    assert operations(analytics_sandbox) == {"list": 102, "show": 203, "update": 100}
    assert (result["websites"], result["applied"], result["unchanged"]) == (10_000, 100, 9_900)
    assert len(json.dumps(result)) < 3000


def test_the_state_may_be_in_any_storage(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    # Airflow knows this storage only when it is attached.
    attach("memory", fsspec.filesystem("memory"))
    analytics_sandbox.add_website("a.example", exclude_ips="9.9.9.9")
    folder = f"memory://{uuid.uuid4().hex}"
    places = {"state_path": f"{folder}/state"}
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"], **places)
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.8"], **places, try_number=2)
    assert lists(analytics_sandbox) == {"a.example": "9.9.9.9\n203.0.113.8"}
    files = fsspec.filesystem("memory").find(folder.removeprefix("memory:/"))
    assert sorted(re.sub(r".*-sync-|.*/", "", file) for file in files) == [
        "-1-1-0001.jsonl",
        "-1-2-0001.jsonl",
        "the_dag.sync.json",
    ]


def test_a_website_can_be_given_back_its_own_list(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    for number in range(1, 4):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    arguments = {"exclude_ips": ["203.0.113.7"], "state_path": str(tmp_path)}
    execute(SyncExcludedIpsOperator, **arguments)
    analytics_sandbox.change_website(2, exclude_ips="10.0.0.1\n203.0.113.7\n10.0.0.2")
    # Excluded, it keeps what the list has added; released, it gets its own list back.
    arguments = {**arguments, "exclude_ips": ["203.0.113.8"], "except_websites": ["2.example"]}
    execute(SyncExcludedIpsOperator, **arguments)
    assert lists(analytics_sandbox)["2.example"] == "10.0.0.1\n203.0.113.7\n10.0.0.2"
    result = execute(SyncExcludedIpsOperator, **arguments, release=["2.*"])
    assert (result["applied"], result["entries_removed"], result["verified"]) == (1, 1, True)
    assert lists(analytics_sandbox) == {
        "1.example": "10.0.0.1\n203.0.113.8",
        "2.example": "10.0.0.1\n10.0.0.2",
        "3.example": "10.0.0.1\n203.0.113.8",
    }
    assert execute(SyncExcludedIpsOperator, **arguments, release="2.example")["applied"] == 0
    for wrong, message in (
        ({"release": ["4.example"]}, "No website matches release: '4.example'"),
        (
            {"release": ["2.example"], "mode": "merge"},
            "release is not allowed with mode='merge'; allowed: mode='managed'",
        ),
        ({"release": ["2.example"], "websites": {"search": "2"}}, "release is not allowed with a filter in websites"),
    ):
        with pytest.raises(AirflowFailException, match=message):
            execute(SyncExcludedIpsOperator, **{**arguments, **wrong})


def test_a_list_may_be_a_file(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    analytics_sandbox.add_website("a.example")
    file = tmp_path / "office.csv"
    file.write_bytes(b"\xef\xbb\xbf203.0.113.7 # office\r\n\r\n203.0.113.8\r\n")
    for place in (str(file), f"file://{file}"):
        assert execute(SyncExcludedIpsOperator, exclude_ips_path=place.strip())["entries_added"] in (2, 0)
    assert lists(analytics_sandbox) == {"a.example": "203.0.113.7\n203.0.113.8"}
    with pytest.raises(AirflowFailException, match="there is no such file; allowed: a text file"):
        execute(SyncExcludedParamsOperator, exclude_params_path=f"{tmp_path}/none.txt")
    for both in ({}, {"exclude_params": ["a"], "exclude_params_path": str(file)}):
        with pytest.raises(AirflowFailException, match=r"are (missing|not allowed together); allowed: one"):
            execute(SyncExcludedParamsOperator, **both)


def test_further_entries_may_be_the_text_of_an_object(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.add_website("a.example")
    result = execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], per_website='{"a.*": ["2.2.2.2"]}')
    assert result["entries_added"] == 2
    with pytest.raises(AirflowFailException, match=r"per_website:1: a\.\* is a duplicate"):
        execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], per_website='{"a.*": ["2.2.2.2"], "a.*": []}')
    with pytest.raises(AirflowFailException, match=r"per_website='a\.example' is not allowed; allowed: a dict"):
        execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], per_website="a.example")
    with pytest.raises(ValueError, match="a template cannot be a key"):
        SyncExcludedIpsOperator(task_id="x", exclude_ips=["1.1.1.1"], per_website={"{{ params.domain }}": ["2.2.2.2"]})


def test_an_approved_plan_of_a_list_is_applied_whole_or_not_at_all(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    for number in range(1, 6):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    arguments: dict[str, Any] = {"exclude_ips": ["1.1.1.1", "2.2.2.2"], "state_path": str(tmp_path), "mode": "merge"}
    plan = execute(SyncExcludedIpsOperator, dry_run=True, **arguments)
    assert plan["scope"].keys() == {"service", "account", "field", "mode", "max_loss_fraction"}
    approved = {**arguments, "expected_digest": plan["digest"]}
    for changed in (
        {"exclude_ips": ["1.1.1.1"]},  # cut
        {"exclude_ips": ["1.1.1.1", "2.2.2.2", "6.6.6.6"]},
        {"websites": ["1.example"]},
        {"mode": "replace"},
    ):
        with pytest.raises(AirflowFailException, match=r"not the approved one|other settings: mode was 'merge'"):
            execute(SyncExcludedIpsOperator, **{**approved, **changed})
    assert operations(analytics_sandbox)["update"] == 0
    # Somebody types one of the entries, and another one: the rest of the plan is still that which was approved.
    analytics_sandbox.change_website(1, exclude_ips="10.0.0.1\n1.1.1.1\n10.0.0.9")
    distortion.failing = {("PATCH", "/websites/3"): 500}
    with pytest.raises(BulkError):
        execute(SyncExcludedIpsOperator, **approved)
    distortion.failing = {}
    assert execute(SyncExcludedIpsOperator, **approved)["applied"] == 1
    assert lists(analytics_sandbox) == {
        "1.example": "10.0.0.1\n1.1.1.1\n10.0.0.9\n2.2.2.2",
        **{f"{number}.example": "10.0.0.1\n1.1.1.1\n2.2.2.2" for number in range(2, 6)},
    }


@pytest.mark.slow  # a thousand updates among ten thousand websites
def test_what_ten_thousand_websites_cost(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.seed(10_000)
    for number in range(1, 10_001):
        analytics_sandbox.change_website(number, exclude_ips="203.0.113.7" if number % 20 else None)
    analytics_sandbox.clear_requests()
    pages = 100 + 2  # the oldest websites, and the newest again
    result = execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"])
    assert (result["applied"], result["verified"]) == (500, True)
    assert operations(analytics_sandbox) == {"list": 2 * pages, "show": 502, "update": 500}


@pytest.mark.parametrize("lost", [1, 2])
def test_a_service_that_goes_down_in_the_middle_leaves_a_true_audit_trail(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path, lost: int
) -> None:
    for number in range(1, 7):
        analytics_sandbox.add_website(f"{number}.example")
    answer = distortion.answer
    updates: list[str] = []

    def go_down(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if len(updates) == lost:
            return 503, b"{}"
        status, data = answer(method, target, headers, body)
        if method == "PATCH":
            updates.append(target.rpartition("/")[2])
        return status, data

    distortion.answer = go_down  # type: ignore[method-assign]
    arguments: dict[str, Any] = {"state_path": str(tmp_path)}
    with pytest.raises(BulkError, match="6 websites failed, 0 succeeded"):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], parallel_requests=1, **arguments)
    (trail,) = tmp_path.rglob("*.jsonl")
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    assert [line["website_id"] for line in lines if line["action"] == "update"] == updates
    assert len([line for line in lines if line["action"] == "failed"]) == 6


def test_a_key_that_is_revoked_in_the_middle_leaves_a_true_audit_trail(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    for number in range(1, 31):
        analytics_sandbox.add_website(f"{number}.example")
    answer = distortion.answer
    updates: list[str] = []

    def revoke(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if len(updates) >= 5:
            return 401, b"{}"
        status, data = answer(method, target, headers, body)
        if method == "PATCH":
            updates.append(target.rpartition("/")[2])
        return status, data

    distortion.answer = revoke  # type: ignore[method-assign]
    with pytest.raises(AirflowFailException, match="API key rejected") as caught:
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], state_path=str(tmp_path))
    assert f" Stopped: {len(updates)} of 30 websites changed. " in str(caught.value)
    (trail,) = tmp_path.rglob("*.jsonl")
    actions = Counter(json.loads(line)["action"] for line in trail.read_text().splitlines())
    assert actions == {"update": len(updates), "failed": 30 - len(updates)}


def test_an_update_whose_response_is_lost_in_the_second_round_is_removed_by_the_next_run(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    answer = distortion.answer
    rounds: list[str] = []

    def overwrite_then_lose(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        status, data = answer(method, target, headers, body)
        if method == "PATCH":
            rounds.append(target)
            if len(rounds) == 1:
                analytics_sandbox.change_website(1, exclude_ips=None)
            else:
                return 500, b"{}"
        return status, data

    distortion.answer = overwrite_then_lose  # type: ignore[method-assign]
    arguments: dict[str, Any] = {"state_path": str(tmp_path)}
    with pytest.raises(BulkError, match="1 website failed"):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
    assert (len(rounds), lists(analytics_sandbox)) == (2, {"a.example": "192.0.2.1"})
    distortion.answer = answer  # type: ignore[method-assign]
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.2"], **arguments)
    assert lists(analytics_sandbox) == {"a.example": "192.0.2.2"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"exclude_ips": ["x" * 9000]},
        {"exclude_ips": ["x" * 500] * 3000},
        {"exclude_ips": ["192.0.2.1"], "websites": [f"{number}.missing.example" for number in range(3000)]},
        {"exclude_ips": ["192.0.2.1"], "websites": ["y" * 5000]},
        {"exclude_ips": ["192.0.2.1"], "mode": "z" * 9000},
    ],
)
def test_errors_stay_below_4_kb(analytics_sandbox: SandboxServer, execute: Execute, arguments: dict[str, Any]) -> None:
    analytics_sandbox.add_website("a.example")
    with pytest.raises(AirflowFailException) as caught:
        execute(SyncExcludedIpsOperator, **arguments)
    assert len(str(caught.value).encode()) < 4096


def test_a_key_that_a_service_shows_in_its_records_is_in_no_error(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute
) -> None:
    """As entries: a guard, a selector and a failure would name them."""
    key = analytics_sandbox.api_key
    for number in range(12):
        analytics_sandbox.add_website(f"{number}.example.com", exclude_ips=f"10.0.1.{number} # {key}\n10.0.0.{number}")
    distortion.failing = {("PATCH", "/websites/1"): 422}
    errors = []
    for arguments in ({"mode": "replace"}, {"except_websites": [f"x.{key}"]}, {}):
        with pytest.raises((AirflowFailException, BulkError)) as caught:
            execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
        errors.append(str(caught.value))
    assert "12 of 24 exclude_ips entries would be lost" in errors[0]
    assert "1 website failed, 11 succeeded" in errors[2]
    assert "***" in errors[0]
    assert "***" in errors[1]
    for error in errors:
        assert key not in error


def test_a_list_that_is_not_one_entry_per_line_fails_alone(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    """A colleague typed two addresses into one line of one website."""
    for number in range(1, 6):
        analytics_sandbox.add_website(f"{number}.example")
    analytics_sandbox.change_website(3, exclude_ips="198.51.100.1, 198.51.100.2")
    with pytest.raises(BulkError, match=r"1 website failed, 4 succeeded.*: 3\.example \(id 3\)"):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"])
    assert [website["exclude_ips"] for website in analytics_sandbox.websites()] == [
        "192.0.2.1" if number != 3 else "198.51.100.1, 198.51.100.2" for number in (1, 2, 3, 4, 5)
    ]
