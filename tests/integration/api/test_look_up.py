"""Which website a domain is: look-ups, creates and deletes where services write domains in their own way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from wire_client import client_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import (
    DomainError,
    NotAppliedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    UpdateWebsiteOperator,
)
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
    analytics_sandbox.configure(domain_as="without www", echoes=echoes)
    with pytest.raises(AirflowFailException) as caught:
        CreateWebsiteOperator(task_id="t", domain="www.shop.example").execute({})
    for part in ("'www.shop.example'", "'shop.example'", "Website id 1", "write domain='shop.example'", "Not retried"):
        assert part in str(caught.value)


def test_a_create_answered_with_another_website_is_refused(
    client: AnalyticsClient, analytics_sandbox: SandboxServer
) -> None:
    other = analytics_sandbox.add_website("other.example")
    analytics_sandbox.fault("create", body={"data": {"id": other["id"], "domain": "new.example"}})
    with pytest.raises(DomainError, match=r"id 1 has the domain 'other\.example', not 'new\.example'"):
        client.create_website("new.example")


@pytest.mark.parametrize("hidden", [{}, {"domain": None}], ids=["no domain", "null"])
def test_a_row_without_a_domain_matters_only_where_the_domain_is_not_found(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, hidden: dict[str, None]
) -> None:
    rows = [{"id": 2, "domain": "found.example"}, {"id": 1, **hidden}]
    meta = {"total": 2, "current_page": 1, "last_page": 1, "per_page": 100}
    analytics_sandbox.fault("list", body={"data": [], "meta": {**meta, "total": 0}}, target="search=", times=None)
    analytics_sandbox.fault("list", body={"data": rows[::-1], "meta": meta}, target="sort=asc", times=None)
    analytics_sandbox.fault("list", body={"data": rows, "meta": meta}, times=None)
    assert client.find_website("found.example") == rows[0]
    with pytest.raises(UnexpectedResponseError, match=r"Website 1 shows no domain, so it may be 'lost\.example'"):
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


def posts(sandbox: SandboxServer) -> int:
    return [request.operation for request in sandbox.requests].count("create")


@pytest.mark.parametrize(
    ("domain", "stored_as"), [("www.shop.example", "without www"), ("straße.example", "IDNA 2003")]
)
def test_a_service_that_writes_the_domain_in_another_way_gets_one_website_and_no_more(
    analytics_sandbox: SandboxServer, domain: str, stored_as: str
) -> None:
    analytics_sandbox.configure(domain_as=stored_as, allow_duplicates=True)
    for _ in range(3):
        with pytest.raises(AirflowFailException, match="has the domain"):
            CreateWebsiteOperator(task_id="t", domain=domain).execute({})
    assert posts(analytics_sandbox) == len(domains(analytics_sandbox)) == 1


def test_both_spellings_of_a_domain_are_two_websites_of_one_domain(
    client: AnalyticsClient, analytics_sandbox: SandboxServer
) -> None:
    for domain in ("bücher.example", "xn--bcher-kva.example"):
        analytics_sandbox.add_website(domain)
    with pytest.raises(DomainError):
        client.find_website("bücher.example")


@pytest.mark.parametrize("status", [404, 422])
def test_a_search_that_is_refused_leads_to_the_whole_list(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, status: int
) -> None:
    analytics_sandbox.add_website("shop.example")
    analytics_sandbox.fault("list", target="search=", status=status, times=None)
    found = client.find_website("shop.example")
    assert found is not None
    assert client.find_website("none.example") is None


@pytest.fixture
def second_writer(analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task creates the website between the look-up and the create."""
    create = AnalyticsClient.send_create

    def raced(self: AnalyticsClient, domain: str, settings: Any) -> dict[str, Any] | None:
        analytics_sandbox.add_website(domain)
        return create(self, domain, settings)

    monkeypatch.setattr(AnalyticsClient, "send_create", raced)


@pytest.mark.usefixtures("second_writer")
def test_two_creates_at_the_same_time_are_not_both_green(analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.configure(allow_duplicates=True)
    with pytest.raises(AirflowFailException, match=r"2 websites have the domain 'new\.example': ids 1, 2"):
        CreateWebsiteOperator(task_id="t", domain="new.example").execute({})


def test_more_websites_than_a_page_between_two_creates_do_not_hide_the_first(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    analytics_sandbox.configure(allow_duplicates=True)
    analytics_sandbox.add_website("old.example")
    create = AnalyticsClient.send_create

    def raced(self: AnalyticsClient, domain: str, settings: Any) -> dict[str, Any] | None:
        analytics_sandbox.add_website(domain)
        analytics_sandbox.seed(120)
        return create(self, domain, settings)

    monkeypatch.setattr(AnalyticsClient, "send_create", raced)
    with pytest.raises(DomainError, match=r"2 websites have the domain 'new\.example': ids 2, 123"):
        client.ensure_website("new.example")


@pytest.mark.usefixtures("second_writer")
@pytest.mark.parametrize("if_exists", ["skip", "update", "fail"])
def test_a_domain_that_was_taken_meanwhile_exists(analytics_sandbox: SandboxServer, if_exists: str) -> None:
    create = CreateWebsiteOperator(task_id="t", domain="new.example", privacy=1, if_exists=if_exists)
    if if_exists == "fail":
        with pytest.raises(AirflowFailException, match="already exists"):
            create.execute({})
    else:
        result = create.execute({})
        assert result["website"]["privacy"] == (if_exists == "update")
        assert (result["created"], result["verified"]) == (False, if_exists == "update")
        assert result["differing"] == ([] if if_exists == "update" else ["privacy"])
    assert domains(analytics_sandbox) == ["new.example"]


# What an answer does not show


def test_what_a_short_answer_does_not_show_is_read(client: AnalyticsClient, analytics_sandbox: SandboxServer) -> None:
    analytics_sandbox.configure(short_answers=["create", "update"])
    website = client.create_website("a.example", privacy=1).record
    assert website["privacy"] == 1
    assert client.update_website(website["id"], exclude_ips=["192.0.2.1"]).record["exclude_ips"] == "192.0.2.1"
    analytics_sandbox.configure(ignored_fields=["privacy", "exclude_ips"])
    with pytest.raises(NotAppliedError, match="is not as it should be: privacy is 'public', expected 'private'"):
        client.create_website("b.example", privacy=1)
    many = [f"198.51.100.{number}" for number in range(1, 200)]
    with pytest.raises(NotAppliedError) as caught:
        client.update_website(2, exclude_ips=many)
    assert "exclude_ips lacks 198.51.100.1, 198.51.100.10, 198.51.100.100 and 196 more" in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ({}, NotAppliedError),
        ({"empty_answers": ["delete"]}, NotAppliedError),
        ({"delete_status": 204}, NotAppliedError),
    ],
    ids=str,
)
def test_a_delete_that_is_not_done_is_not_green(
    analytics_sandbox: SandboxServer, answers: dict[str, Any], kind: type[Exception]
) -> None:
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.configure(deletes="keep", **answers)
    with pytest.raises(NotAppliedError, match="website still exists after it was deleted"):
        DeleteWebsiteOperator(task_id="t", domain="a.example").execute({})


@pytest.mark.parametrize(
    "body",
    [
        {"success": 0},
        {"success": "false"},
        {"status": "error", "message": "no"},
    ],
    ids=str,
)
def test_a_delete_that_is_denied_with_status_200_is_an_error(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, body: dict[str, Any]
) -> None:
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.fault("delete", body=body)
    with pytest.raises(UnexpectedResponseError):
        client.delete_website(1)


def test_an_update_by_domain_is_about_that_domain(analytics_sandbox: SandboxServer) -> None:
    """The website was deleted after the look-up, and its id given again."""
    analytics_sandbox.add_website("a.example")
    other = {"id": 1, "domain": "innocent.example", "privacy": 1}
    analytics_sandbox.fault("update", body={"data": other})
    analytics_sandbox.fault("show", body={"data": other}, times=None)
    with pytest.raises(AirflowFailException, match=r"has the domain 'innocent\.example', not 'a\.example'"):
        UpdateWebsiteOperator(task_id="t", domain="a.example", privacy=1).execute({})


def test_a_field_that_is_never_returned_is_told_once(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, caplog: pytest.LogCaptureFixture
) -> None:
    analytics_sandbox.add_website("a.example", privacy=2)
    for password in ("first-password", "second-password"):
        assert client.update_website(1, password=password).unverified == ("password",)
    told = [message for message in caplog.messages if "does not return" in message]
    assert told == ["The service does not return password: not verified."]


# Services that take a moment


@pytest.mark.parametrize("late", ["not there", "as before"])
def test_a_service_that_takes_a_moment_to_show_a_create_is_asked_again(
    analytics_sandbox: SandboxServer, late: str
) -> None:
    before = {"id": 1, "domain": "a.example", "privacy": 0}
    meta = {"total": 1, "current_page": 1, "last_page": 1, "per_page": 100}
    rows = {"data": [], "meta": {**meta, "total": 0}} if late == "not there" else {"data": [before], "meta": meta}
    analytics_sandbox.fault("list", body=rows, times=1, skip=lists_of_a_look_up(analytics_sandbox))
    analytics_sandbox.fault("show", **({"status": 404} if late == "not there" else {"body": {"data": before}}))
    result = CreateWebsiteOperator(task_id="t", domain="a.example", privacy=1).execute({})
    assert result["website"]["privacy"] == 1
    assert result["created"] is result["verified"] is True


def lists_of_a_look_up(sandbox: SandboxServer) -> int:
    """Return how many pages of the list a look-up in an empty service reads."""
    with client_of(sandbox.url, api_key=sandbox.api_key) as client:
        client.look_up("none.example")
    read = [request.operation for request in sandbox.requests].count("list")
    sandbox.clear_requests()
    return read


@pytest.mark.parametrize("status", [404, 500, 403, 422])
@pytest.mark.parametrize("operation", ["show", "list"])
def test_what_fails_after_a_create_says_that_the_website_exists_and_is_not_retried(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch, operation: Any, status: int
) -> None:
    """A retry would take it as one that was there before, or would create another one if the list is late."""
    fields = json.loads(analytics_sandbox.connection_json()) | {"extra": {"max_retries": 0}}
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(fields))
    skip = lists_of_a_look_up(analytics_sandbox) if operation == "list" else 0
    analytics_sandbox.configure(list_hides=["privacy"])  # so that the new website is shown by itself, too
    analytics_sandbox.fault(operation, status=status, times=None, skip=skip)
    create = CreateWebsiteOperator(task_id="t", domain="a.example")
    with pytest.raises(AirflowFailException, match=r"(?s)^Created website a\.example, but: .*Not retried"):
        create.execute({})
    assert domains(analytics_sandbox) == ["a.example"]


@pytest.mark.parametrize("status", [403, 405, 200])
def test_a_delete_that_cannot_be_checked_counts_as_done(analytics_sandbox: SandboxServer, status: int) -> None:
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.fault("show", status=status, body={"data": None}, times=None)
    assert DeleteWebsiteOperator(task_id="t", website_id=1).execute({})["deleted"] is True


def test_a_search_with_an_old_index_finds_no_deleted_website(analytics_sandbox: SandboxServer) -> None:
    """A deleted website in the index, and a new one of its domain: the delete found the deleted one, and was green."""
    analytics_sandbox.add_website("a.example")
    meta = {"total": 1, "current_page": 1, "last_page": 1, "per_page": 100}
    index = {"data": [{"id": 1, "domain": "a.example", "privacy": 0}], "meta": meta}
    analytics_sandbox.fault("list", body=index, times=2)
    analytics_sandbox.remove_website(1)
    analytics_sandbox.add_website("a.example")

    result = DeleteWebsiteOperator(task_id="t", domain="a.example", ignore_missing=True).execute({})

    assert (result["deleted"], domains(analytics_sandbox)) == (True, [])


def test_a_search_that_finds_everything_is_not_read_to_its_end(
    client: AnalyticsClient, analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.seed(1050)
    analytics_sandbox.configure(ignored=["search"])
    client.find_website("none.example")
    searches = [request for request in analytics_sandbox.requests if dict(request.query).get("search")]
    assert len(searches) <= 6
