# SPDX-License-Identifier: Apache-2.0
"""Exact comparison of domains, except for case, a trailing dot, and punycode (``api/domains.py``, ``operators``)."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute
from reconciling import Night

from airflow_provider_analytics.operators.websites import DeleteWebsiteOperator, GetWebsiteOperator
from airflow_provider_analytics.operators.websites_as_code import ExportWebsitesOperator

NEAR = ["example.com", "example.com/blog", "example.com:8080", "https://example.com", "example.com/shop"]
IP = "203.0.113.7"


def excluded(night: Night) -> list[str]:
    return [website["domain"] for website in night.sandbox.websites() if website["exclude_ips"] == IP]


@pytest.mark.parametrize("domain", NEAR)
def test_sync_selects_only_the_website_of_exactly_this_domain(domain: str, night: Night) -> None:
    night.add(" ".join([*NEAR, "other.example"]))
    assert night.sync(IP, websites=[domain, "other.example"], mode="merge")["verified"] is True
    assert excluded(night) == [domain, "other.example"]


@pytest.mark.parametrize("domain", NEAR)
def test_sync_excepts_only_the_website_of_exactly_this_domain(domain: str, night: Night) -> None:
    night.add(" ".join(NEAR))
    night.sync(IP, except_websites=[domain])
    assert excluded(night) == [item for item in NEAR if item != domain]


def test_file_changes_and_deletes_only_the_website_of_exactly_this_domain(night: Night) -> None:
    night.add(" ".join(NEAR))
    result = night.apply(config={"websites": {"example.com": {"exclude_ips": [IP]}}}, prune=True)
    assert (result["updates"], result["deletes"], excluded(night)) == (1, 0, ["example.com"])


def test_export_and_single_operators_find_the_website_of_exactly_this_domain(
    night: Night, execute_task: Execute
) -> None:
    night.add(" ".join(NEAR))
    path = str(night.folder / "exported.yaml")
    assert execute_task(ExportWebsitesOperator, output_path=path)["omitted"] == len(NEAR) - 1
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
