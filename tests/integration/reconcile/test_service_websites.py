# SPDX-License-Identifier: Apache-2.0
"""Websites of the service, read with the list or singly (``reconcile/service_websites.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_services import FakeService
from reconciling import Night

from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.reconcile.service_websites import complete_records, read_websites

FIELDS = ("privacy", "exclude_ips", "favorite")


@pytest.fixture
def hook(analytics_sandbox: FakeService) -> Any:
    with AnalyticsHook() as made:
        yield made


def test_fetched_website_keeps_the_domain_of_the_list_if_it_was_renamed_in_between(
    analytics_sandbox: FakeService, hook: AnalyticsHook
) -> None:
    """The plan is for the domain in the list, and the change fails because the id belongs to another domain."""
    for domain in ("a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    rows: list[dict[str, Any]] = [{"id": 1, "domain": "a.example"}, {"id": 2}]
    analytics_sandbox.change_website(1, domain="renamed.example")
    records, failures = complete_records(hook.client, rows, lambda row: {"exclude_ips"} - row.keys())
    assert [record["domain"] for record in records] == ["a.example", "b.example"]
    assert all("exclude_ips" in record for record in records)
    assert failures == {}


def test_renamed_website_is_not_changed(night: Night) -> None:
    night.add(3)
    night.sandbox.configure(list_hides=["exclude_ips"])
    renamed: list[str] = []

    def rename(request: Any) -> None:
        if request.operation == "show" and not renamed:
            renamed.append(request.path.rpartition("/")[2])
            night.sandbox.change_website(int(renamed[0]), domain="renamed.example")

    night.sandbox.meanwhile(rename)
    websites = {f"{number}.example": {"exclude_ips": ["192.0.2.1"]} for number in range(1, 4)}
    with pytest.raises(Exception, match=r"has the domain 'renamed\.example', not '"):
        night.apply(config={"websites": websites}, **night.state)
    found = {website["domain"]: website["exclude_ips"] for website in night.sandbox.websites()}
    assert found.pop("renamed.example") is None
    assert set(found.values()) == {"192.0.2.1"}


@pytest.mark.parametrize("hidden", [[], ["exclude_ips"], ["exclude_ips", "favorite"], [*FIELDS]], ids=str)
def test_result_is_verified_although_list_rows_lack_some_fields(
    night: Night, task_log: Callable[[], str], hidden: list[str]
) -> None:
    night.add(8, privacy=1)
    night.sandbox.configure(list_hides=hidden)
    settings = {"privacy": "public", "exclude_ips": ["192.0.2.1"], "favorite": True}
    websites = {f"{number}.example": settings for number in range(1, 9)}
    result = night.apply(config={"websites": websites}, override_guards=["made_public"])
    assert (result["applied"], result["verified"], result["unverified"]) == (8, True, [])
    reason = f"Fetching 8 of 8 websites one by one, because list rows lack {', '.join(sorted(hidden))}."
    assert (reason in task_log()) == bool(hidden)


@pytest.mark.parametrize(
    ("lacking", "fields", "reads_the_list"),
    [
        ({}, FIELDS, True),
        ({1: "privacy"}, FIELDS, False),
        ({8: "favorite"}, FIELDS, False),
        (dict.fromkeys(range(1, 9), "favorite"), FIELDS, False),
        (dict.fromkeys(range(1, 9), "favorite"), ("privacy", "exclude_ips"), True),
    ],
)
def test_list_is_read_again_only_if_each_row_has_each_field(
    analytics_sandbox: FakeService,
    hook: AnalyticsHook,
    lacking: dict[int, str],
    fields: tuple[str, ...],
    reads_the_list: bool,
) -> None:
    for number in range(1, 9):
        analytics_sandbox.add_website(f"{number}.example")
    websites = read_websites(hook.client, None)
    for record in websites.records:
        record.pop(lacking.get(int(record["id"]), ""), None)  # type: ignore[attr-defined]
    read = websites.read_again([str(number) for number in range(1, 9)], fields)
    assert (read.listed is not None) is reads_the_list
    assert read.found.keys() == {str(number) for number in range(1, 9)}
    assert all(name in record for record in read.found.values() for name in fields)


def test_newest_website_has_the_highest_id(analytics_sandbox: FakeService, hook: AnalyticsHook) -> None:
    for number in range(1, 12):
        analytics_sandbox.add_website(f"{number}.example")
    assert read_websites(hook.client, None).newest == "11"
