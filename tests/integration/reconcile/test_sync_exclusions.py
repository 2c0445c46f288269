from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import allow_execute_in_this_thread, attach
from distortion import Distortion
from fixture_types import Execute

from airflow_provider_analytics.exceptions import BulkError, StoppedError, StorageError
from airflow_provider_analytics.hooks.object_storage import read_text
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
    arguments = {
        "exclude_ips": ["203.0.113.7"],
        "mode": "managed",
        "ledger_path": str(tmp_path / "ledger.json"),
        "audit_path": str(tmp_path / "audit"),
    }
    dry = execute(SyncExcludedIpsOperator, dry_run=True, **arguments)
    assert operations(analytics_sandbox) == {"account": 1, "list": 2}
    assert list(tmp_path.iterdir()) == []
    real = execute(SyncExcludedIpsOperator, **arguments)
    states = {**dry["states"], "applied": 1}
    assert {**dry, "dry_run": False, "applied": 1, "states": states, "verified": True, "markdown": None} == real
    assert "exclude_ips: add `203.0.113.7`" in dry["markdown"]
    assert dry["changes"] == ["update a.example (id 1): exclude_ips + 203.0.113.7"]


def test_managed_removes_only_what_it_added(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    for number in range(12):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips=f"10.0.0.{number} # typed\n203.0.113.7")
    ledger = f"file://{tmp_path}/state/ledger.json"

    def sync(*addresses: str) -> dict[str, Any]:
        analytics_sandbox.clear_requests()
        result: dict[str, Any] = execute(
            SyncExcludedIpsOperator,
            exclude_ips=addresses,
            mode="managed",
            ledger_path=ledger,
            max_loss_fraction=0.34,
        )
        return result

    assert sync("203.0.113.7", "203.0.113.8")["updates"] == 12
    assert sync("203.0.113.9", "203.0.113.8")["updates"] == 12
    assert lists(analytics_sandbox)["3.example"] == "10.0.0.3 # typed\n203.0.113.7\n203.0.113.8\n203.0.113.9"
    third = sync("203.0.113.9")
    assert third["entries_removed"] == 12
    assert lists(analytics_sandbox)["3.example"] == "10.0.0.3 # typed\n203.0.113.7\n203.0.113.9"
    sync("203.0.113.9")
    assert operations(analytics_sandbox) == {"account": 1, "list": 2}


def test_managed_needs_its_own_good_ledger(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    analytics_sandbox.add_website("a.example")
    ledger = tmp_path / "ledger.json"
    managed = {"exclude_ips": ["203.0.113.7"], "mode": "managed"}
    with pytest.raises(AirflowFailException, match="needs ledger"):
        execute(SyncExcludedIpsOperator, **managed)
    with pytest.raises(AirflowFailException, match=r"'ledger\.json' is not allowed; allowed: a URL"):
        execute(SyncExcludedIpsOperator, **managed, ledger_path="ledger.json")
    execute(SyncExcludedIpsOperator, **managed, ledger_path=str(ledger))
    good = ledger.read_text()
    with pytest.raises(AirflowFailException, match=r"list is 'the_dag\.sync', here it is 'the_dag\.other'") as caught:
        execute(SyncExcludedIpsOperator, **managed, ledger_path=str(ledger), task_id="other")
    execute(SyncExcludedIpsOperator, **managed, ledger_path=str(ledger), task_id="other", list_name="the_dag.sync")
    assert f"such as {tmp_path}/ledger-the_dag.other.json" in str(caught.value)
    # Two lists of one name are two fields of one ledger.
    execute(SyncExcludedParamsOperator, exclude_params=["a"], mode="managed", ledger_path=str(ledger))
    execute(SyncExcludedIpsOperator, **{**managed, "exclude_ips": ["203.0.113.8"]}, ledger_path=str(ledger))
    execute(SyncExcludedParamsOperator, exclude_params=["b"], mode="managed", ledger_path=str(ledger))
    (website,) = analytics_sandbox.websites()
    assert (website["exclude_ips"], website["exclude_params"]) == ("203.0.113.8", "b")
    ledger.write_text(good[:-20])
    analytics_sandbox.clear_requests()
    with pytest.raises(AirflowFailException, match="cannot be read"):
        execute(SyncExcludedIpsOperator, **managed, ledger_path=str(ledger))
    assert operations(analytics_sandbox) == {"account": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.json"]


def test_the_guard_trips_before_anything_is_sent(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    for number in range(10):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="203.0.113.7\n203.0.113.8\n203.0.113.9")
    wiped = {"exclude_ips": "203.0.113.7 # the rest was lost", "mode": "replace"}
    with pytest.raises(AirflowFailException, match=r"^20 of 30 exclude_ips entries would be lost"):
        execute(SyncExcludedIpsOperator, **wiped)
    assert operations(analytics_sandbox) == {"list": 2}
    assert execute(SyncExcludedIpsOperator, **wiped, force="True")["entries_removed"] == 20
    with pytest.raises(AirflowFailException, match=r"exclude_ips is empty: .* allow_empty=True"):
        execute(SyncExcludedIpsOperator, exclude_ips="# all gone\n", mode="replace")
    with pytest.raises(AirflowFailException, match="Not retried: someone has to review it first"):
        execute(SyncExcludedIpsOperator, exclude_ips=[], mode="replace", allow_empty=True)
    execute(SyncExcludedIpsOperator, exclude_ips=[], mode="replace", allow_empty=True, force=True)
    assert set(lists(analytics_sandbox).values()) <= {None, ""}


def test_a_moved_office_trips_nothing(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    for number in range(20):
        analytics_sandbox.add_website(f"{number}.example")
    arguments = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    execute(SyncExcludedIpsOperator, exclude_ips=["198.51.100.1"], **arguments)
    moved = execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.1"], **arguments)
    assert (moved["applied"], moved["entries_removed"], moved["unsafe"]) == (20, 20, None)
    assert set(lists(analytics_sandbox).values()) == {"203.0.113.1"}


def test_a_list_that_was_cut_trips_the_guard_and_a_dry_run_only_says_so(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    whole = [f"198.51.100.{number}" for number in range(20)]
    arguments = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    execute(SyncExcludedIpsOperator, exclude_ips=whole, **arguments)
    # By hand, the website has the other entries too, so that it loses nothing.
    analytics_sandbox.change_website(1, exclude_ips="\n".join(f"10.0.0.{number}" for number in range(50)))
    cut = whole[:5]
    dry = execute(SyncExcludedIpsOperator, exclude_ips=cut, dry_run=True, **arguments)
    assert dry["unsafe"].startswith("The list has 5 entries, in its last run it had 20: 75% fewer")
    with pytest.raises(AirflowFailException, match="The list has 5 entries, in its last run it had 20"):
        execute(SyncExcludedIpsOperator, exclude_ips=cut, **arguments)
    assert execute(SyncExcludedIpsOperator, exclude_ips=cut, force=True, **arguments)["applied"] == 1


def test_a_ledger_that_somebody_else_writes_is_refused(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    ledger = tmp_path / "ledger.json"

    def write(method: str, path: str) -> None:
        if path == "/websites":
            ledger.write_text("{}")

    distortion.before = write
    with pytest.raises(StorageError, match="was changed by another process during the run"):
        execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], mode="managed", ledger_path=str(ledger))
    assert "update" not in operations(analytics_sandbox)


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
    assert "Planned exclude_ips for 253 of 253 websites: 257 entries to add, 0 to remove\n" in log
    assert "\n252 websites: exclude_ips + 203.0.113.7 (0.example (id 1), 1.example (id 2), " in log
    assert ", and 242 more)\nupdate other.example (id 253): exclude_ips + 1.1.1.1, 1.1.1.2, 1.1.1.3, and 2 more" in log


def test_a_lost_ledger_is_told_and_matching_entries_can_be_adopted(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="10.0.0.1")
    ledger = tmp_path / "ledger.json"
    arguments: dict[str, Any] = {"mode": "managed", "ledger_path": str(ledger)}
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
    ledger.unlink()
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], adopt=True, **arguments)
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.2"], **arguments)
    assert lists(analytics_sandbox) == {"a.example": "10.0.0.1\n192.0.2.2"}
    with pytest.raises(AirflowFailException, match="adopt='all' is not allowed; allowed: "):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.2"], adopt="all", **arguments)


def test_every_failure_is_in_the_audit_trail_and_the_error_stays_short(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    for number in range(1, 41):
        analytics_sandbox.add_website(f"{number}.example")
    distortion.failing = {("PATCH", f"/websites/{number}"): 422 if number % 2 else 409 for number in range(1, 31)}
    with pytest.raises(BulkError) as caught:
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], audit_path=str(tmp_path))
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


def test_an_update_that_was_refused_is_not_owned(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    arguments = {"exclude_ips": ["192.0.2.1"], "mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    distortion.failing = {("PATCH", "/websites/1"): 422, ("PATCH", "/websites/2"): 500}
    with pytest.raises(BulkError):
        execute(SyncExcludedIpsOperator, **arguments)
    # 422 was not applied; of 500, nothing tells whether the service is still at it.
    claimed = {"2": {"domain": "b.example", "entries": {}, "claimed": {"exclude_ips": ["192.0.2.1"]}}}
    assert json.loads((tmp_path / "ledger.json").read_text())["websites"] == claimed


@pytest.mark.parametrize("then", ["the same list", "another list", "another list, and late"])
def test_an_update_that_is_applied_after_the_task_gave_up_is_owned(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path, then: str
) -> None:
    """A proxy gives up, and the service applies the update once nobody waits for it any more."""
    analytics_sandbox.add_website("a.example")
    arguments: dict[str, Any] = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
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
    arguments: dict[str, Any] = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    result = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], audit_path=f"{tmp_path}/audit", **arguments)
    assert (result["applied"], result["verified"]) == (1, True)
    (trail,) = (tmp_path / "audit").rglob("*.jsonl")
    assert [json.loads(line)["action"] for line in trail.read_text().splitlines()] == ["update"]
    distortion.answer = answer  # type: ignore[method-assign]
    # It is known as added, so that the list can take it away again.
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.2"], **arguments)
    assert lists(analytics_sandbox) == {"a.example": "192.0.2.2"}


def test_a_stale_list_disowns_nothing(
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
    arguments: dict[str, Any] = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
    for _ in range(2):
        again = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
        assert (again["updates"], again["verified"]) == (0, True)
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], force=True, **arguments)
    assert set(lists(analytics_sandbox).values()) == {"10.0.0.1\n192.0.2.1"}


def test_what_is_typed_beside_an_entry_of_the_list_stays(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    analytics_sandbox.add_website("a.example")
    arguments: dict[str, Any] = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1", "192.0.2.2"], **arguments)
    analytics_sandbox.change_website(1, exclude_ips="192.0.2.1\n192.0.2.2\n192.0.2.2 # my home")
    for _ in range(2):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
        assert lists(analytics_sandbox) == {"a.example": "192.0.2.1\n192.0.2.2 # my home"}


def test_two_runs_with_one_ledger_lose_nothing_of_it(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    """The second run takes the ledger over while the first one sends its updates."""
    analytics_sandbox.add_website("a.example")
    arguments: dict[str, Any] = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    begun: list[str] = []

    def run_too(method: str, path: str) -> None:
        if method == "PATCH" and not begun:
            begun.append(path)
            allow_execute_in_this_thread()
            execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.2"], **arguments)

    distortion.before = run_too
    with pytest.raises(
        StoppedError, match=r"1 of 1 websites changed\. The task was replaced by another process of try 1 of"
    ):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], **arguments)
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.3"], **arguments)
    assert lists(analytics_sandbox) == {"a.example": "192.0.2.3"}


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
    ledger = tmp_path / "ledger.json"
    with pytest.raises(
        BulkError, match=r"it was changed, but: id 2 now belongs to 'other\.example': b\.example \(id 2\)"
    ):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], mode="managed", ledger_path=str(ledger))
    assert list(json.loads(ledger.read_text())["websites"]) == ["1"]


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
        pytest.param({"websites": {"search": "zzz"}}, "no website matches websites: {'search': 'zzz'}", id="search"),
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
    arguments = {"exclude_ips": ["1.1.1.1"], "allow_no_match": True}
    assert execute(SyncExcludedIpsOperator, **arguments, websites=["a.example", "b.example"])["applied"] == 1
    assert execute(SyncExcludedIpsOperator, **arguments, websites={"search": "zzz"})["websites"] == 0


def test_each_applied_change_is_audited(analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path) -> None:
    analytics_sandbox.add_website("a.example", exclude_ips="1.1.1.1")
    analytics_sandbox.add_website("b.example", exclude_ips="2.2.2.2")
    execute(SyncExcludedIpsOperator, exclude_ips=["2.2.2.2"], mode="replace", audit_path=str(tmp_path))
    (file,) = tmp_path.rglob("*.jsonl")
    assert file.relative_to(tmp_path).as_posix() == "the_dag/manual__2026-01-02T03_04_05_00_00/sync--1-1.jsonl"
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
def test_a_thousand_websites_cost_the_arithmetic_minimum(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.seed(1000)
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"])
    # The list, a show and an update for each website, and the list again. Two websites are tried alone before.
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
    # Three websites are tried alone, and looked at again at the end: together their records show every setting.
    assert operations(analytics_sandbox) == {"list": 102, "show": 203, "update": 100}
    assert (result["websites"], result["applied"], result["unchanged"]) == (10_000, 100, 9_900)
    assert len(json.dumps(result)) < 3000


def test_ledger_and_audit_may_be_in_any_storage(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    # Airflow knows this storage only when it is attached.
    attach("memory", fsspec.filesystem("memory"))
    analytics_sandbox.add_website("a.example", exclude_ips="9.9.9.9")
    places = {"mode": "managed", "ledger_path": "memory://state/ledger.json", "audit_path": "memory://state/audit/"}
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.7"], **places)
    execute(SyncExcludedIpsOperator, exclude_ips=["203.0.113.8"], **places, try_number=2)
    assert lists(analytics_sandbox) == {"a.example": "9.9.9.9\n203.0.113.8"}
    run = "memory://state/audit/the_dag/manual__2026-01-02T03_04_05_00_00"
    assert [
        len((read_text(f"{run}/sync--1-{number}-0001.jsonl", "audit_path") or "").splitlines()) for number in (1, 2)
    ] == [1, 1]


def test_a_website_can_be_given_back_its_own_list(
    analytics_sandbox: SandboxServer, execute: Execute, tmp_path: Path
) -> None:
    for number in range(1, 4):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    arguments = {"exclude_ips": ["203.0.113.7"], "mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
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
    assert list(json.loads((tmp_path / "ledger.json").read_text())["websites"]) == ["1", "3"]
    assert execute(SyncExcludedIpsOperator, **arguments, release="2.example")["applied"] == 0
    for wrong, message in (
        ({"release": ["4.example"]}, "no website matches release: '4.example'"),
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
        with pytest.raises(AirflowFailException, match="are not allowed together; allowed: one of the two"):
            execute(SyncExcludedParamsOperator, **both)


def test_further_entries_may_be_the_text_of_an_object(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.add_website("a.example")
    result = execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], per_website='{"a.*": ["2.2.2.2"]}')
    assert result["entries_added"] == 2
    with pytest.raises(AirflowFailException, match=r"allowed: each key once; 'a\.\*' is there twice"):
        execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], per_website='{"a.*": ["2.2.2.2"], "a.*": []}')
    with pytest.raises(AirflowFailException, match=r"per_website='a\.example' is not allowed; allowed: a dict"):
        execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], per_website="a.example")
    with pytest.raises(ValueError, match="a template cannot be a key"):
        SyncExcludedIpsOperator(task_id="x", exclude_ips=["1.1.1.1"], per_website={"{{ params.domain }}": ["2.2.2.2"]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            {"plan_path": "/tmp/p.json"}, "allowed: both, to apply an approved plan.* or neither", id="plan only"
        ),
        pytest.param({"expected_digest": "0" * 64}, "allowed: both, to apply an approved plan", id="digest only"),
        pytest.param(
            {"plan_path": "/none/p.json", "expected_digest": "0" * 64},
            "there is no such file; allowed: the plan_path",
            id="no plan",
        ),
        pytest.param(
            {"dry_run": True, "plan_path": "/tmp/p.json", "expected_digest": "0" * 64},
            "dry_run=True with expected_digest is not allowed",
            id="both",
        ),
        pytest.param(
            {"mode": "managed", "ledger_path": "/tmp/l.json", "plan_path": "/tmp/p.json", "dry_run": True},
            "mode='managed' with plan_path needs list_name, the same for both tasks",
            id="no name",
        ),
    ],
)
def test_what_a_plan_needs(
    analytics_sandbox: SandboxServer, execute: Execute, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(AirflowFailException, match=message):
        execute(SyncExcludedIpsOperator, exclude_ips=["1.1.1.1"], **arguments)


def test_an_approved_plan_of_a_list_is_applied_whole_or_not_at_all(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, tmp_path: Path
) -> None:
    for number in range(1, 6):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips="10.0.0.1")
    arguments: dict[str, Any] = {"exclude_ips": ["1.1.1.1", "2.2.2.2"], "plan_path": f"{tmp_path}/plan.json"}
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


def spoil_rows(distortion: Distortion, **shown: Any) -> None:
    """Let the rows of the list show other values than the websites do."""
    answer = distortion.answer

    def spoiled(method: str, target: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        status, data = answer(method, target, headers, body)
        if method == "GET" and target.partition("?")[0].endswith("/websites"):
            found = json.loads(data)
            for website in found["data"]:
                website.update(shown)
            data = json.dumps(found).encode()
        return status, data

    distortion.answer = spoiled  # type: ignore[method-assign]


@pytest.mark.parametrize("shown", [None, "", "10.0.0.1"], ids=["null", "empty", "the first line"])
def test_losses_that_only_the_websites_show_are_guarded(
    analytics_sandbox: SandboxServer, distortion: Distortion, execute: Execute, shown: str | None
) -> None:
    entries = "\n".join(f"10.0.0.{number}" for number in range(1, 5))
    for number in range(12):
        analytics_sandbox.add_website(f"{number}.example", exclude_ips=entries)
    spoil_rows(distortion, exclude_ips=shown)
    with pytest.raises(BulkError, match="it would lose 3 exclude_ips entries that the list did not show"):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], mode="replace")
    lost = [website for website in analytics_sandbox.websites() if website["exclude_ips"] != entries]
    assert len(lost) <= 1  # a few entries may have been typed meanwhile
    execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], mode="replace", force=True)
    assert set(lists(analytics_sandbox).values()) == {"192.0.2.1"}


@pytest.mark.parametrize("lost", [1, 2])
def test_a_service_that_goes_down_in_the_middle_leaves_ledger_and_audit_true(
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
    ledger = tmp_path / "ledger.json"
    arguments: dict[str, Any] = {"mode": "managed", "ledger_path": str(ledger), "audit_path": f"{tmp_path}/audit"}
    told = "4 websites failed, 2 were not tried, 0 succeeded" if lost == 1 else "6 websites failed, 0 succeeded"
    with pytest.raises(BulkError, match=told):
        execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], max_workers=1, **arguments)
    assert sorted(json.loads(ledger.read_text())["websites"]) == sorted(updates)
    (trail,) = (tmp_path / "audit").rglob("*.jsonl")
    lines = [json.loads(line) for line in trail.read_text().splitlines()]
    assert [line["website_id"] for line in lines if line["action"] == "update"] == updates
    assert len([line for line in lines if line["action"] == "failed"]) == 6


def test_a_key_that_is_revoked_in_the_middle_leaves_ledger_and_audit_true(
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
    ledger = tmp_path / "ledger.json"
    with pytest.raises(AirflowFailException, match="API key rejected") as caught:
        execute(
            SyncExcludedIpsOperator,
            exclude_ips=["192.0.2.1"],
            mode="managed",
            ledger_path=str(ledger),
            audit_path=f"{tmp_path}/audit",
        )
    assert f" Stopped: {len(updates)} of 30 websites changed. " in str(caught.value)
    assert sorted(json.loads(ledger.read_text())["websites"]) == sorted(updates)
    (trail,) = (tmp_path / "audit").rglob("*.jsonl")
    actions = Counter(json.loads(line)["action"] for line in trail.read_text().splitlines())
    assert actions == {"update": len(updates), "failed": 30 - len(updates)}


def test_an_update_whose_response_is_lost_in_the_second_round_is_owned(
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
    arguments: dict[str, Any] = {"mode": "managed", "ledger_path": str(tmp_path / "ledger.json")}
    result = execute(SyncExcludedIpsOperator, exclude_ips=["192.0.2.1"], audit_path=f"{tmp_path}/audit", **arguments)
    assert (result["applied"], result["verified"], len(rounds)) == (1, True, 2)
    (trail,) = (tmp_path / "audit").rglob("*.jsonl")
    actions = [json.loads(line)["action"] for line in trail.read_text().splitlines()]
    assert actions == ["update", "update does not hold", "update"]
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
