"""Which website a domain is: look-ups, creates and deletes where services write domains in their own way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from wire_client import client_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import OtherDomainError, UnexpectedResponseError
from airflow_provider_analytics.operators.websites import CreateWebsiteOperator, DeleteWebsiteOperator
from airflow_provider_analytics.sandbox.server import SandboxServer


@pytest.fixture
def client(analytics_sandbox: SandboxServer) -> Iterator[AnalyticsClient]:
    with client_of(analytics_sandbox.url, api_key=analytics_sandbox.api_key) as made:
        yield made


def domains(sandbox: SandboxServer) -> list[str]:
    return [website["domain"] for website in sandbox.websites()]


def test_a_delete_by_domain_removes_no_other_website(analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.add_website("strasse.example")
    DeleteWebsiteOperator(task_id="t", domain="straße.example").execute({})
    assert domains(analytics_sandbox) == ["strasse.example"]


@pytest.mark.parametrize("stored_as", ["sent", "ascii", "unicode", "lower"])
@pytest.mark.parametrize(
    "domain", ["bücher.example", "Bücher.Example.", "xn--bcher-kva.example", "straße.example", "under_score.example"]
)
def test_a_create_every_night_is_one_website(analytics_sandbox: SandboxServer, stored_as: str, domain: str) -> None:
    analytics_sandbox.configure(domain_as=stored_as, allow_duplicates=True)
    for _ in range(3):
        CreateWebsiteOperator(task_id="t", domain=domain).execute({})
    assert len(domains(analytics_sandbox)) == 1


@pytest.mark.parametrize("echoes", [[], ["create"]], ids=str)
def test_a_create_that_becomes_another_domain_says_what_to_write(
    analytics_sandbox: SandboxServer, echoes: list[str]
) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    analytics_sandbox.configure(domain_as="without www", echoes=echoes)
    with pytest.raises(AirflowFailException) as caught:
        CreateWebsiteOperator(task_id="t", domain="www.shop.example").execute({})
    for part in ("'www.shop.example'", "'shop.example'", "website id 1", "write domain='shop.example'", "Not retried"):
        assert part in str(caught.value)


def test_a_create_answered_with_another_website_is_refused(
    client: AnalyticsClient, analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.fault("create", body={"data": {"id": 5, "domain": "other.example"}})
    with pytest.raises(OtherDomainError) as caught:
        client.create_website("new.example")
    assert (caught.value.domain, caught.value.shown, caught.value.website_id) == ("new.example", "other.example", "5")


@pytest.mark.parametrize("hidden", [{}, {"domain": None}], ids=["no domain", "null"])
def test_a_row_without_a_domain_matters_only_where_the_domain_is_not_found(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, hidden: dict[str, None]
) -> None:
    rows = [{"id": 2, "domain": "found.example"}, {"id": 1, **hidden}]
    meta = {"total": 2, "current_page": 1, "last_page": 1, "per_page": 100}
    analytics_sandbox.fault("list", body={"data": [], "meta": {**meta, "total": 0}}, target="search=", times=None)
    analytics_sandbox.fault("list", body={"data": rows, "meta": meta}, times=None)
    assert client.find_website("found.example") == rows[0]
    with pytest.raises(UnexpectedResponseError, match=r"Website 1 has no domain, so it may be 'lost\.example'"):
        client.find_website("lost.example")


@pytest.mark.parametrize("search", ["part", "start", "label", "nothing"])
def test_what_a_search_does_not_find_is_looked_for_in_the_whole_list(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, search: str
) -> None:
    """No search that finds a known website can be trusted to find every other one.

    It may be case-sensitive, know only one spelling of an internationalised domain, or lack a website in its index.
    """
    analytics_sandbox.seed(120)
    analytics_sandbox.configure(search_matches=search)
    analytics_sandbox.add_website("xn--bcher-kva.example")
    analytics_sandbox.add_website("Shop.example")
    for domain in ("bücher.example", "shop.example"):
        found = client.find_website(domain)
        assert found is not None
    assert client.find_website("none.example") is None
