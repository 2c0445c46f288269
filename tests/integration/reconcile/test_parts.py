"""A sync of a part of the websites: what it reads, counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from distortion import Distortion
from fixture_types import Execute

from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.operators.exclusions import SyncExcludedIpsOperator
from airflow_provider_analytics.sandbox.server import SandboxServer

NEW = "198.18.7.1"


@pytest.fixture
def websites(analytics_sandbox: SandboxServer) -> list[dict[str, Any]]:
    analytics_sandbox.seed(940)
    return analytics_sandbox.websites()


def operations(sandbox: SandboxServer) -> Counter[str | None]:
    return Counter(request.operation for request in sandbox.requests)


def sync(execute: Execute, sandbox: SandboxServer, **arguments: Any) -> tuple[Counter[str | None], dict[str, Any]]:
    """Return the requests of a dry run and its result: what is sent and checked later is another matter."""
    sandbox.clear_requests()
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW], dry_run=True, **arguments)
    return operations(sandbox), result


def test_a_few_ids_are_shown_and_more_are_read_from_the_list(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]]
) -> None:
    ids = [website["id"] for website in websites]
    for number, expected in {
        1: {"show": 1},
        # The first page of the list tells how long it is.
        2: {"list": 1, "show": 2},
        10: {"list": 1, "show": 10},
        # The other pages are 11 more requests.
        11: {"list": 12},
        500: {"list": 12},
    }.items():
        asked, result = sync(execute, analytics_sandbox, websites=ids[:number])
        assert (number, asked) == (number, expected)
        assert (result["websites"], result["updates"]) == (number, number)


def test_a_wrong_base_url_is_not_taken_for_websites_that_are_gone(
    analytics_sandbox: SandboxServer, execute: Execute
) -> None:
    analytics_sandbox.seed(5)
    for operation in ("show", "account"):
        analytics_sandbox.fault(operation, status=404, times=None)
    with pytest.raises(AnalyticsError, match="404"):
        execute(SyncExcludedIpsOperator, exclude_ips=[NEW], websites=[3], accept=["no_match"])


def test_a_short_list_is_read_with_two_requests(analytics_sandbox: SandboxServer, execute: Execute) -> None:
    analytics_sandbox.seed(99)
    asked, result = sync(execute, analytics_sandbox, websites=["1", "2", "3"])
    assert (asked, result["websites"]) == ({"list": 2}, 3)


def test_domains_are_looked_up(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]]
) -> None:
    analytics_sandbox.configure(allow_duplicates=True)
    twice = analytics_sandbox.add_website("twice.example")["domain"]
    analytics_sandbox.add_website("twice.example")
    domains = [website["domain"] for website in websites[:3]]
    asked, result = sync(execute, analytics_sandbox, websites=[domains[0].upper()])
    assert (asked, result["websites"]) == ({"list": 2, "show": 1}, 1)
    # The first page of the list, two searches of two requests, and a show of each.
    asked, result = sync(execute, analytics_sandbox, websites=[*domains[:2], 17])
    assert (asked, result["websites"]) == ({"list": 5, "show": 3}, 3)
    # All websites of a domain are selected; which these are, only the list can tell.
    _, result = sync(execute, analytics_sandbox, websites=[*domains[:1], twice, 17])
    assert result["websites"] == 4


def test_what_a_look_up_does_not_find_is_looked_for_in_the_list(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]]
) -> None:
    with pytest.raises(Exception, match=r"No website matches websites: 'missing.example'"):
        sync(execute, analytics_sandbox, websites=["missing.example"])
    with pytest.raises(Exception, match=r"No website matches websites: '4711'"):
        sync(execute, analytics_sandbox, websites=[4711])
    asked, result = sync(execute, analytics_sandbox, websites=[1, 4711], accept=["no_match"])
    assert (result["websites"], asked["show"], asked["list"]) == (1, 3, 1)  # one "not found" may be wrong
    # Nothing to select, nothing to read.
    asked, result = sync(execute, analytics_sandbox, websites=[], accept=["no_match"])
    assert (result["websites"], asked) == (0, {})


def test_globs_need_the_list_and_exclusions_are_looked_up_too(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]]
) -> None:
    asked, _ = sync(execute, analytics_sandbox, websites=["*"])
    assert asked == {"list": 12}
    asked, result = sync(execute, analytics_sandbox, websites=[1, 2], except_websites=[2])
    assert (asked, result["websites"]) == ({"list": 1, "show": 2}, 1)


def test_a_website_that_cannot_be_shown_is_read_from_the_list(
    analytics_sandbox: SandboxServer, execute: Execute, distortion: Distortion, websites: list[dict[str, Any]]
) -> None:
    distortion.failing = {("GET", "/websites/2"): 500}
    _, result = sync(execute, analytics_sandbox, websites=[1, 2])
    assert result["websites"] == 2


def test_a_part_is_synced_with_the_fewest_requests_and_its_own_list(
    analytics_sandbox: SandboxServer, execute: Execute, websites: list[dict[str, Any]], tmp_path: Path
) -> None:
    arguments: dict[str, Any] = {
        "websites": [1, 2, 3],
        "state_path": str(tmp_path),
    }
    analytics_sandbox.clear_requests()
    result = execute(SyncExcludedIpsOperator, exclude_ips=[NEW], **arguments)
    assert (result["applied"], result["verified"]) == (3, True)
    # Shown to plan, right before the update, and to check; two that are changed alone are checked twice.
    assert operations(analytics_sandbox) == {"account": 1, "list": 1, "show": 10, "update": 3}
    execute(SyncExcludedIpsOperator, exclude_ips=["198.18.7.2"], **arguments)
    lists = {website["id"]: website["exclude_ips"] or "" for website in analytics_sandbox.websites()}
    assert {number for number, entries in lists.items() if "198.18.7.2" in entries} == {1, 2, 3}
    assert not [number for number, entries in lists.items() if NEW in entries]
