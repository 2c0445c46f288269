# SPDX-License-Identifier: Apache-2.0
"""Exclusion list operators: modes, guards, selectors, and requests (``operators/exclusions.py``)."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow_versions import times_logged
from distortion import Distortion, Website
from raw_server import Request
from reconciling import Night

from airflow_provider_analytics.exceptions import AnalyticsError, BulkError, NotAppliedError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator, SyncExcludedParamsOperator

#: Rejected in the run, or when the DAG is parsed.
REJECTED = (AirflowFailException, ValueError)


def test_merge_keeps_existing_entries_and_sends_only_differences(night: Night) -> None:
    night.add("a.example", exclude_ips="# typed by Ann\n9.9.9.9 # home\n203.0.113.7")
    night.add("b.example", exclude_ips="203.0.113.8\r\n  203.0.113.7 \r\n")
    night.add("c.example")
    result = night.sync(exclude_ips="203.0.113.7\n\n203.0.113.8 # Lyon\n")
    assert night.lists() == [
        "# typed by Ann\n9.9.9.9 # home\n203.0.113.7\n203.0.113.8",
        "203.0.113.8\r\n  203.0.113.7 \r\n",
        "203.0.113.7\n203.0.113.8",
    ]
    assert [result[name] for name in ("websites_compared", "updates", "applied", "unchanged")] == [3, 2, 2, 1]
    assert [result[name] for name in ("entries_added", "entries_removed", "verified")] == [3, 0, True]
    # Each website is read before its change, and again afterwards; the first one is read back twice.
    assert night.operations == {"list": 2, "show": 5, "update": 2}
    night.sandbox.clear_requests()
    again = night.sync("203.0.113.8", "::ffff:203.0.113.7")
    assert night.operations == {"list": 2}
    assert (again.keys(), again["applied"], again["changes"]) == (result.keys(), 0, [])


def test_guard_blocks_a_sync_before_any_change_is_sent(night: Night) -> None:
    night.add(10, exclude_ips="203.0.113.7\n203.0.113.8\n203.0.113.9")
    wiped = {"exclude_ips": "203.0.113.7 # the rest was lost", "mode": "replace"}
    with pytest.raises(AirflowFailException, match=r"^20 of 30 exclude_ips entries would be lost"):
        night.sync(**wiped)
    assert night.operations == {"list": 2}
    assert night.sync(**wiped, override_guards="entries_lost")["entries_removed"] == 20
    with pytest.raises(AirflowFailException, match=r"(?s)exclude_ips is empty\. .*override_guards=\['empty_list'\]"):
        night.sync(exclude_ips="# all gone\n", mode="replace")
    with pytest.raises(AirflowFailException, match="Not retried: someone has to review it first"):
        night.sync(mode="replace", override_guards="empty_list")
    night.sync(mode="replace", override_guards=["empty_list", "entries_lost"])
    assert set(night.lists()) <= {None, ""}


def test_entry_that_a_stale_list_omits_is_removed(night: Night, distortion: Distortion) -> None:
    """The list returns the rows from before the first run, as from a cache; a single website is returned correctly."""
    night.add(4, exclude_ips="10.0.0.1")

    def stale(method: str, path: str, record: Website) -> None:
        if path == "/websites":
            record["exclude_ips"] = "10.0.0.1"

    distortion.change = stale
    night.managed("192.0.2.1", "192.0.2.2")
    for _ in range(2):
        again = night.managed("192.0.2.1", "192.0.2.2")
        assert (again["applied"], again["verified"]) == (0, True)
    night.managed("192.0.2.1")
    assert night.lists() == ["10.0.0.1\n192.0.2.1"] * 4


def test_result_is_the_same_if_the_service_ignores_the_search(night: Night) -> None:
    night.add("shop.example other.example")
    night.sandbox.configure(ignored=["search"])
    with pytest.raises(AirflowFailException, match=r"search='shop' found 'other\.example'.*websites=\['\*shop\*'\]"):
        night.sync("192.0.2.1", websites={"search": "shop"})
    assert night.updated == set()


def test_sync_uses_selectors_exceptions_and_further_entries(night: Night) -> None:
    night.add("www.example.com shop.example.com old.example.com other.example.org")
    night.sandbox.change_website(2, favorite=True)
    chosen: dict[str, Any] = {"websites": ["*.example.com", 4], "except_websites": "OLD.example.com.\n"}
    night.sync("203.0.113.7", **chosen, per_website={"shop.*": "203.0.113.8 # till", "2": ["203.0.113.9"]})
    assert night.lists() == ["203.0.113.7", "203.0.113.7\n203.0.113.8\n203.0.113.9", None, "203.0.113.7"]
    night.execute(SyncExcludedParamsOperator, exclude_params=["gclid"], websites='{"favorite": true}')
    night.execute(SyncExcludedParamsOperator, exclude_params=["fbclid"], websites={"search": "other"})
    assert night.lists("exclude_params") == [None, "gclid", None, "fbclid"]
    unmatched: dict[str, Any] = {"override_guards": ["no_match"]}
    assert night.sync("1.1.1.1", **unmatched, websites=["www.example.com", "b.example"])["applied"] == 1
    assert night.sync("1.1.1.1", **unmatched, websites={"search": "zzz"})["websites_compared"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"websites": ["1.example", "b.exmaple", "77"]}, "websites: 'b.exmaple'; websites: '77'"),
        ({"websites": ["1.exmaple"]}, r"websites: '1\.exmaple' \(similar: 1\.example\)"),
        ({"websites": []}, "websites: an empty list"),
        ({"websites": {"search": "zzz"}}, "No website matches websites: {'search': 'zzz'}"),
        ({"except_websites": ["b.example"]}, "except_websites: 'b.example'"),
        ({"per_website": {"b.example": ["1.1.1.1"]}}, "per_website: 'b.example'"),
        ({"per_website": {"1.example": ["x"]}, "exclude_ips": "y"}, "(?s)line 1: 'y'.*entry 1: 'x'"),
        ({"per_website": '{"a.*": ["2.2.2.2"], "a.*": []}'}, r"per_website:1: a\.\* is a duplicate"),
        ({"per_website": "a.example"}, r"per_website='a\.example' is not allowed. Allowed: a dict"),
        (
            {"unmanage_websites": ["1.example"]},
            "unmanage_websites needs a managed list. Set state_path, and mode='managed' instead of 'merge'",
        ),
    ],
)
def test_bad_arguments_fail_without_a_retry_and_without_a_change(
    night: Night, arguments: dict[str, Any], message: str
) -> None:
    night.add(1)
    with pytest.raises(REJECTED, match=message):
        night.sync("203.0.113.7", **arguments)
    assert night.updated == set()


@pytest.mark.parametrize("operator", ["sync", "plan"])
def test_log_of_a_blocked_plan_names_the_guard_and_its_finding(
    night: Night, task_log: Callable[[], str], operator: str
) -> None:
    night.add(10, exclude_ips="1.1.1.1\n2.2.2.2")
    if operator == "sync":
        night.sync("3.3.3.3", mode="replace", dry_run=True)
    else:
        everywhere = {f"{number}.example": {"exclude_ips": ["3.3.3.3"]} for number in range(1, 11)}
        night.plan(config={"modes": {"exclude_ips": "replace"}, "websites": everywhere})
    blocked = "The guard entries_lost blocks this plan: 10 of 20 exclude_ips entries would be lost (50%, more than"
    log = task_log()
    assert f"{blocked} max_loss_fraction=0.3 allows)." in log
    assert log.index("No changes were sent.") < log.index(blocked)


@pytest.mark.parametrize("state", [False, True])
def test_internal_address_is_sent_with_one_warning(night: Night, task_log: Callable[[], str], state: bool) -> None:
    night.add(4)
    night.sync("192.168.0.7", "203.0.113.7", "127.0.0.1", **(night.state if state else {}))
    log = task_log()
    named = re.findall("contains private or loopback addresses.*instead of: ([0-9., ]+[0-9])", log)
    assert set(named) == {"192.168.0.7, 127.0.0.1"}
    assert times_logged(log, "contains private or loopback") == 1
    assert set(night.lists()) == {"192.168.0.7\n203.0.113.7\n127.0.0.1"}


def test_applied_change_is_audited(night: Night) -> None:
    night.add("1.example", exclude_ips="1.1.1.1")
    night.add("2.example", exclude_ips="2.2.2.2")
    night.managed("2.2.2.2", mode="replace")
    (file,) = night.folder.rglob("*.jsonl")
    assert file.name == "the_dag-manual__2026-01-02T03_04_05_00_00-sync--1-1.jsonl"
    assert re.fullmatch(r"127\.0\.0\.1_\d+-1/audit/\d{4}-\d\d-\d\d", file.parent.relative_to(night.folder).as_posix())
    (line,) = night.trail()
    assert line.pop("time").endswith("+00:00")
    run = {"dag_id": "the_dag", "run_id": "manual__2026-01-02T03:04:05+00:00", "task_id": "sync", "try_number": 1}
    change = {"action": "update", "website_id": "1", "domain": "1.example", "field": "exclude_ips"}
    assert line == {**run, **change, "before": ["1.1.1.1"], "after": ["2.2.2.2"]}


def test_website_can_be_restored_to_its_own_list(night: Night) -> None:
    night.add(3, exclude_ips="10.0.0.1")
    night.managed("203.0.113.7")
    night.sandbox.change_website(2, exclude_ips="10.0.0.1\n203.0.113.7\n10.0.0.2")
    # While it is excluded, it keeps the entries of the list; afterwards, it gets its own list again.
    protected = {"except_websites": ["2.example"]}
    night.managed("203.0.113.8", **protected)
    assert night.lists()[1] == "10.0.0.1\n203.0.113.7\n10.0.0.2"
    result = night.managed("203.0.113.8", **protected, unmanage_websites=["2.*"])
    assert (result["applied"], result["entries_removed"], result["verified"]) == (1, 1, True)
    assert night.lists() == ["10.0.0.1\n203.0.113.8", "10.0.0.1\n10.0.0.2", "10.0.0.1\n203.0.113.8"]
    with pytest.raises(REJECTED, match="unmanage_websites is not allowed with a filter in websites"):
        night.managed("203.0.113.8", **protected, unmanage_websites=["2.example"], websites={"search": "2"})


def test_list_can_be_a_file_and_further_entries_can_be_json(night: Night) -> None:
    night.add(1)
    file = night.folder / "office.csv"
    file.write_bytes(b"\xef\xbb\xbf203.0.113.7 # office\r\n\r\n203.0.113.8\r\n")
    for place, added in ((str(file), 2), (f"file://{file}", 0)):
        assert night.sync(exclude_ips=None, exclude_ips_path=place)["entries_added"] == added
    assert night.lists() == ["203.0.113.7\n203.0.113.8"]
    with pytest.raises(REJECTED, match="there is no such file"):
        night.sync(exclude_ips=None, exclude_ips_path=f"{night.folder}/none.txt")
    for both in ({"exclude_ips": None}, {"exclude_ips_path": str(file)}):
        with pytest.raises(REJECTED, match=r"are (missing|not allowed together)\. Set (only )?one of them"):
            night.sync(**both)
    assert night.sync("1.1.1.1", per_website='{"1.*": ["2.2.2.2"]}')["entries_added"] == 2
    with pytest.raises(ValueError, match="a template cannot be a key"):
        SyncExcludedIpsOperator(task_id="x", exclude_ips=["1.1.1.1"], per_website={"{{ params.domain }}": ["2.2.2.2"]})


def test_approved_plan_of_a_list_is_applied_completely_or_not_at_all(night: Night, distortion: Distortion) -> None:
    night.add(5, exclude_ips="10.0.0.1")
    plan = night.managed("1.1.1.1", "2.2.2.2", mode="merge", dry_run=True)
    assert plan["scope"].keys() == {"service", "account", "field", "mode", "max_loss_fraction"}
    approved: dict[str, Any] = {"mode": "merge", "approved_digest": plan["digest"]}
    for entries in (["1.1.1.1"], ["1.1.1.1", "2.2.2.2", "6.6.6.6"]):
        with pytest.raises(AirflowFailException, match="not the approved one"):
            night.managed(*entries, **approved)
    with pytest.raises(AirflowFailException, match="other settings: mode was 'merge', here it is 'replace'"):
        night.managed("1.1.1.1", "2.2.2.2", **{**approved, "mode": "replace"})
    assert night.updated == set()
    # A person types one of the entries, and another one: the rest of the plan is still the approved plan.
    night.sandbox.change_website(1, exclude_ips="10.0.0.1\n1.1.1.1\n10.0.0.9")
    distortion.failing = {("PATCH", "/websites/3"): 500}
    with pytest.raises(BulkError):
        night.managed("1.1.1.1", "2.2.2.2", **approved)
    distortion.failing = {}
    assert night.managed("1.1.1.1", "2.2.2.2", **approved)["applied"] == 1
    assert night.lists() == ["10.0.0.1\n1.1.1.1\n10.0.0.9\n2.2.2.2", *["10.0.0.1\n1.1.1.1\n2.2.2.2"] * 4]


def test_errors_do_not_contain_a_key_that_the_service_returns_in_its_records(
    night: Night, distortion: Distortion
) -> None:
    """The key is an entry, so a guard, a selector, and a failure would print it."""
    key = night.sandbox.api_key
    for number in range(12):
        night.add(f"{number}.example.com", exclude_ips=f"10.0.1.{number} # {key}\n10.0.0.{number}")
    distortion.failing = {("PATCH", "/websites/1"): 422}
    for arguments, said in (
        ({"mode": "replace"}, r"(?s)12 of 24 exclude_ips entries would be lost.*\*\*\*"),
        ({"except_websites": [f"x.{key}"]}, r"\*\*\*"),
        ({}, "1 website failed, 11 succeeded"),
    ):
        with pytest.raises((AirflowFailException, BulkError), match=said) as caught:
            night.sync("192.0.2.1", **arguments)
        assert key not in str(caught.value)


PART = "198.18.7.1"


@pytest.fixture
def domains(night: Night) -> list[Any]:
    night.sandbox.seed(940)
    return night.lists("domain")


def selected(night: Night, *websites: Any, **arguments: Any) -> tuple[int, Counter[str | None]]:
    """Return the number of websites that a dry run selects, and its requests."""
    night.sandbox.clear_requests()
    result = night.sync(PART, websites=list(websites), dry_run=True, **arguments)
    assert result["updates"] == result["websites_compared"]
    return result["websites_compared"], night.operations


@pytest.mark.usefixtures("domains")
def test_few_ids_are_read_singly_and_many_from_the_list(night: Night) -> None:
    assert selected(night, 1) == (1, {"show": 1})
    # The first page of the list contains the number of websites.
    assert selected(night, 1, 2) == (2, {"list": 1, "show": 2})
    assert selected(night, *range(1, 11)) == (10, {"list": 1, "show": 10})
    # The other pages are 11 more requests.
    assert selected(night, *range(1, 12)) == (11, {"list": 12})
    assert selected(night, *range(1, 501)) == (500, {"list": 12})
    assert selected(night, "*") == (940, {"list": 12})
    assert selected(night, 1, 2, except_websites=[2]) == (1, {"list": 1, "show": 2})
    # Missing websites are searched in the list, because a single "not found" might be wrong; for no website, nothing is
    # read.
    unmatched: dict[str, Any] = {"override_guards": ["no_match"]}
    assert selected(night, 1, 4711, **unmatched) == (1, {"account": 1, "list": 1, "show": 3})
    assert selected(night, **unmatched) == (0, {})
    night.sandbox.fault("show", target="/2$", status=422)
    assert selected(night, 1, 2)[0] == 2
    # A wrong base URL does not count as deleted websites.
    for operation in ("show", "account"):
        night.sandbox.fault(operation, status=404, times=None)
    with pytest.raises(AnalyticsError, match="404"):
        selected(night, 3, **unmatched)


def test_sync_looks_up_a_few_selected_domains(night: Night, domains: list[Any]) -> None:
    night.sandbox.configure(allow_duplicates=True)
    night.add("twice.example twice.example")
    assert selected(night, domains[0].upper()) == (1, {"list": 2, "show": 1})
    # The first page of the list, two searches of two requests, and a read of each website.
    assert selected(night, *domains[:2], 17) == (3, {"list": 5, "show": 3})
    # All websites of a domain are selected, and only the list contains all of them.
    assert selected(night, domains[0], "twice.example", 17)[0] == 4


@pytest.mark.usefixtures("domains")
def test_chunk_is_synced_with_the_fewest_requests_and_its_own_list(night: Night) -> None:
    result = night.managed(PART, websites=[1, 2, 3])
    assert (result["applied"], result["verified"]) == (3, True)
    # Read for the plan, right before the update, and to verify; two websites that are changed alone are verified twice.
    assert night.operations == {"account": 1, "list": 1, "show": 11, "update": 3}
    night.managed("198.18.7.2", websites=[1, 2, 3])
    assert ["198.18.7.2" in (item or "") for item in night.lists()] == [True] * 3 + [False] * 937
    assert not [item for item in night.lists() if PART in (item or "")]


@pytest.mark.parametrize("then", [None, 429, 409, 422, 503], ids=lambda status: f"then {status}")
def test_change_with_a_lost_response_is_found_on_the_website(
    night: Night, distortion: Distortion, monkeypatch: pytest.MonkeyPatch, then: int | None
) -> None:
    """The update is applied, its response is lost, and the next attempt is rejected."""
    night.add(1)
    connection = json.loads(os.environ["AIRFLOW_CONN_ANALYTICS_DEFAULT"])
    extra = {"max_retries": 1 if then else 0, "timeout": 5}
    monkeypatch.setattr("airflow_provider_analytics.api.transport.FIRST_BACKOFF", 0)
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps({**connection, "extra": extra}))
    spoilt: list[int] = []

    def spoil(request: Request) -> tuple[int, Any]:
        if len(spoilt) == 1 and then:
            spoilt.append(then)
            return then, {"message": "rejected"}
        answer = distortion.to_the_sandbox(request)
        if request.method == "PATCH" and not spoilt:
            spoilt.append(500)
            return 500, {"message": "lost"}
        return answer

    distortion.forward = spoil
    result = night.managed("192.0.2.1")
    assert (result["applied"], result["verified"]) == (1, True)
    assert spoilt == [500, *([then] if then else [])]
    assert [line["action"] for line in night.trail()] == ["update"]
    # The table has it as added, so the list can remove it later.
    night.managed("192.0.2.2")
    assert night.lists() == ["192.0.2.2"]


@pytest.mark.parametrize("is_restorable", [True, False])
def test_log_counts_only_entries_that_remain_after_a_failure(
    night: Night, task_log: Callable[[], str], is_restorable: bool
) -> None:
    night.add(30, privacy=1, exclude_ips="10.0.0.1")
    night.sandbox.configure(updates="reset others")
    if not is_restorable:
        night.sandbox.fault("update", skip=2, times=99, status=422)
    with pytest.raises((NotAppliedError, AirflowFailException)):
        night.sync("203.0.113.7", "203.0.113.8")
    remaining = "".join(night.lists()).count("203.0.113.")
    assert remaining == (0 if is_restorable else 4)
    counts = f"0 of 30 websites (2 failed, 28 not tried): {remaining} entries added, 0 removed."
    assert f"Updated exclude_ips on {counts}" in task_log()
