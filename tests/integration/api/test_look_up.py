# SPDX-License-Identifier: Apache-2.0
"""Lookup of websites by domain, for creates, updates, and deletes (``api/client.py``)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fake_services import FakeService
from raw_server import Request, answer_read, http, list_body, rows
from wire_client import served

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.listing import requests_of_a_list
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    AnalyticsApiError,
    DomainError,
    IncompleteListError,
    NotAppliedError,
    NotFoundError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.operators.websites import (
    CreateWebsiteOperator,
    DeleteWebsiteOperator,
    UpdateWebsiteOperator,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

pytestmark = pytest.mark.usefixtures("patient")


def domains(sandbox: SandboxServer) -> list[str]:
    return [website["domain"] for website in sandbox.websites()]


def create_task(domain: str = "new.example", **arguments: Any) -> Any:
    return CreateWebsiteOperator(task_id="t", domain=domain, **arguments)


@pytest.mark.parametrize("stored_as", ["sent", "ascii", "unicode", "lower"])
@pytest.mark.parametrize(
    "domain", ["bücher.example", "Bücher.Example.", "xn--bcher-kva.example", "straße.example", "under_score.example"]
)
def test_create_every_night_creates_a_single_website(
    analytics_sandbox: SandboxServer, stored_as: str, domain: str
) -> None:
    analytics_sandbox.configure(domain_as=stored_as, allow_duplicates=True)
    for _ in range(3):
        create_task(domain).execute({})
    assert len(domains(analytics_sandbox)) == 1


@pytest.mark.parametrize(("status", "is_raised"), [(401, True), (403, True), (500, True), (404, False), (422, False)])
def test_only_a_search_that_the_service_does_not_know_falls_back_to_the_list(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, status: int, is_raised: bool
) -> None:
    website = analytics_sandbox.add_website("shop.example")
    analytics_sandbox.fault("list", target="search=", status=status, times=None)
    if is_raised:
        with pytest.raises(AnalyticsApiError, match=str(status)):
            client.find_website("shop.example")
        assert all("search=" in request.target for request in analytics_sandbox.requests)
    else:
        found = client.find_website("shop.example")
        assert found is not None
        assert found["id"] == website["id"]


def test_create_fails_if_the_response_has_another_website(
    client: AnalyticsClient, analytics_sandbox: SandboxServer
) -> None:
    other = analytics_sandbox.add_website("other.example")
    analytics_sandbox.fault("create", body={"data": {"id": other["id"], "domain": "new.example"}})
    with pytest.raises(DomainError, match=r"id 1 has the domain 'other\.example', not 'new\.example'"):
        client.create_website("new.example")


def test_create_does_not_return_another_website_of_the_domain_if_the_list_lacks_the_new_one() -> None:
    records = rows(1, 2)

    def respond(request: Request) -> bytes:
        if request.method == "POST":
            records.append({"id": 3, "domain": "new.example"})
            return http(201, {"data": {"id": 9, "domain": "new.example"}})
        return answer_read(request, records)

    reason = "with the id 9, but the website is not in the list"
    with served(respond) as (client, _), pytest.raises(AmbiguousWriteError, match=reason) as raised:
        client.ensure_website("new.example")
    assert raised.value.created == "9"


def test_field_that_only_the_last_row_of_a_page_has_is_completed_in_the_others() -> None:
    records = [*rows(1, email=1, privacy=0), *rows(2, 3, privacy=0)]
    with served(lambda request: answer_read(request, records)) as (client, _):
        found = client.complete_rows(client.list_websites())
    assert [row["email"] for row in found] == [0, 0, 1]


@pytest.mark.parametrize("hidden", [{}, {"domain": None}], ids=["no domain", "null"])
def test_row_without_a_domain_matters_only_if_the_domain_is_not_found(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, hidden: dict[str, None]
) -> None:
    rows: list[dict[str, Any]] = [{"id": 2, "domain": "found.example"}, {"id": 1, **hidden}]
    analytics_sandbox.fault("list", body=list_body({}, []), target="search=", times=None)
    analytics_sandbox.fault("list", body=list_body({"sort": "asc"}, rows), target="sort=asc", times=None)
    analytics_sandbox.fault("list", body=list_body({}, rows), times=None)
    assert client.find_website("found.example") == rows[0]
    with pytest.raises(
        UnexpectedResponseError, match=r"Website 1 is returned without a domain. It might be 'lost\.example'"
    ):
        client.find_website("lost.example")


@pytest.mark.parametrize(
    "options",
    [
        *({"search_matches": item} for item in ("part", "start", "label", "nothing")),
        {"ignored": ["search"]},
        {"fault": {"status": 404}},
        {"fault": {"body": []}},
        {"fault": {"body": {"data": [], "total": 3}}},
    ],
    ids=str,
)
def test_lookup_reads_the_whole_list_if_the_search_finds_nothing(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, options: dict[str, Any]
) -> None:
    """A search that finds a known website might not find other websites.

    It might be case-sensitive, know only one spelling of an internationalized domain, or lack a website in its index.
    """
    analytics_sandbox.seed(120)
    if "fault" in options:
        analytics_sandbox.fault("list", target="search=", times=None, **options["fault"])
    else:
        analytics_sandbox.configure(**options)
    for domain in ("xn--bcher-kva.example", "Shop.example", "www.shop.example", "shop.example.org"):
        analytics_sandbox.add_website(domain)
    for spelling in ("bücher.example", "shop.example", "SHOP.Example", "shop.example."):
        found = client.find_website(spelling)
        assert found is not None
        assert found["domain"] == ("xn--bcher-kva.example" if "cher" in spelling else "Shop.example")
    assert client.find_website("none.example") is client.find_website("op.example") is None


@pytest.mark.parametrize(
    ("domain", "stored_as"), [("www.shop.example", "without www"), ("straße.example", "IDNA 2003")]
)
def test_create_is_not_repeated_if_the_service_spells_the_domain_differently(
    analytics_sandbox: SandboxServer, domain: str, stored_as: str
) -> None:
    analytics_sandbox.configure(domain_as=stored_as, allow_duplicates=True)
    messages = []
    for _ in range(3):
        with pytest.raises(AirflowFailException, match=r"(?s)has the domain .*Not retried") as caught:
            create_task(domain).execute({})
        messages.append(str(caught.value))
    assert f"write domain='{domains(analytics_sandbox)[0]}'" in messages[0]
    assert [request.operation for request in analytics_sandbox.requests].count("create") == 1
    assert len(domains(analytics_sandbox)) == 1


@pytest.fixture
def raced(analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task creates the website between the lookup and the create."""
    create = AnalyticsClient.send_create

    def late(self: AnalyticsClient, domain: str, settings: Any) -> dict[str, Any] | None:
        analytics_sandbox.add_website(domain)
        if analytics_sandbox.websites()[0]["domain"] == "old.example":
            analytics_sandbox.seed(120)
        return create(self, domain, settings)

    monkeypatch.setattr(AnalyticsClient, "send_create", late)


@pytest.mark.usefixtures("raced")
@pytest.mark.parametrize(("before", "ids"), [([], "1, 2"), (["old.example"], "2, 123")])
def test_simultaneous_creates_of_a_domain_do_not_both_succeed(
    analytics_sandbox: SandboxServer, before: list[str], ids: str
) -> None:
    """More websites than a page between two creates do not hide the first one."""
    analytics_sandbox.configure(allow_duplicates=True)
    for domain in before:
        analytics_sandbox.add_website(domain)
    with pytest.raises(AirflowFailException, match=rf"2 websites have the domain 'new\.example': ids {ids}"):
        create_task().execute({})


@pytest.mark.parametrize("answers", [{}, {"empty_answers": ["delete"]}, {"delete_status": 204}], ids=str)
def test_delete_fails_if_the_website_remains(analytics_sandbox: SandboxServer, answers: dict[str, Any]) -> None:
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.configure(deletes="keep", **answers)
    with pytest.raises(NotAppliedError, match="website still exists after it was deleted"):
        DeleteWebsiteOperator(task_id="t", domain="a.example").execute({})


def test_update_by_domain_fails_if_the_id_belongs_to_another_domain(analytics_sandbox: SandboxServer) -> None:
    """The website was deleted after the lookup, and its id was reassigned."""
    analytics_sandbox.add_website("a.example")
    other = {"id": 1, "domain": "innocent.example", "privacy": 1}
    analytics_sandbox.fault("update", body={"data": other})
    analytics_sandbox.fault("show", body={"data": other}, times=None)
    with pytest.raises(AirflowFailException, match=r"has the domain 'innocent\.example', not 'a\.example'"):
        UpdateWebsiteOperator(task_id="t", domain="a.example", privacy=1).execute({})


def test_field_that_is_never_returned_is_logged_once(
    client: AnalyticsClient, analytics_sandbox: SandboxServer, caplog: pytest.LogCaptureFixture
) -> None:
    analytics_sandbox.add_website("a.example", privacy=2)
    for password in ("first-password", "second-password"):
        assert client.update_website(1, privacy="password", password=password).unverified == ("password",)
    messages = [message for message in caplog.messages if "does not return" in message]
    assert messages == ["The service does not return these fields, so they were not verified: password."]


def test_existing_website_has_also_the_fields_that_rows_lack(
    client: AnalyticsClient, analytics_sandbox: SandboxServer
) -> None:
    website = analytics_sandbox.add_website("a.example", privacy=1)
    analytics_sandbox.configure(list_hides=["privacy"])
    written = client.ensure_website("a.example")
    assert (written.record, written.created, written.sent) == (website, False, False)


# Services with a delay


@pytest.mark.parametrize("status", [404, 500, 403, 422])
@pytest.mark.parametrize("operation", ["show", "list"])
def test_error_after_a_create_says_that_the_website_exists_and_is_not_retried(
    analytics_sandbox: SandboxServer, monkeypatch: pytest.MonkeyPatch, operation: Any, status: int
) -> None:
    """A retry would take it for an existing website, or would create another one if the list is late."""
    fields = json.loads(analytics_sandbox.connection_json()) | {"extra": {"max_retries": 0}}
    monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(fields))
    skip = requests_of_a_list(0) if operation == "list" else 0  # those of the lookup
    analytics_sandbox.configure(list_hides=["privacy"])  # the new website can also be read singly
    analytics_sandbox.fault(operation, status=status, times=None, skip=skip)
    create = create_task("a.example")
    with pytest.raises(
        AirflowFailException, match=r"(?s)^Website a\.example was created, but not completed: .*Not retried"
    ):
        create.execute({})
    assert domains(analytics_sandbox) == ["a.example"]


@pytest.mark.parametrize("status", [403, 405, 422])
def test_delete_fails_if_the_website_cannot_be_read_and_is_in_the_list(
    analytics_sandbox: SandboxServer, status: int
) -> None:
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.configure(deletes="keep")
    analytics_sandbox.fault("show", status=status, times=None, skip=1)
    with pytest.raises(NotAppliedError, match="website still exists after it was deleted"):
        DeleteWebsiteOperator(task_id="t", website_id=1).execute({})


@pytest.mark.parametrize("status", [403, 405, 200])
def test_delete_succeeds_if_it_cannot_be_verified(analytics_sandbox: SandboxServer, status: int) -> None:
    analytics_sandbox.add_website("a.example")
    analytics_sandbox.fault("show", status=status, body={"data": None}, times=None, skip=1)
    assert DeleteWebsiteOperator(task_id="t", website_id=1).execute({})["deleted"] is True


def test_search_with_an_outdated_index_finds_no_deleted_website(analytics_sandbox: SandboxServer) -> None:
    """The index has a deleted website and a new one with the same domain: the delete found the first and succeeded."""
    analytics_sandbox.add_website("a.example")
    index = list_body({}, [{"id": 1, "domain": "a.example", "privacy": 0}])
    analytics_sandbox.fault("list", body=index, times=2)
    analytics_sandbox.remove_website(1)
    analytics_sandbox.add_website("a.example")

    result = DeleteWebsiteOperator(task_id="t", domain="a.example", ignore_if_missing=True).execute({})

    assert (result["deleted"], domains(analytics_sandbox)) == (True, [])


def test_search_with_an_outdated_index_finds_no_renamed_website(
    client: AnalyticsClient, analytics_sandbox: SandboxServer
) -> None:
    index = list_body({}, [{"id": 1, "domain": "a.example"}])
    analytics_sandbox.fault("list", body=index, times=2)
    analytics_sandbox.add_website("innocent.example")
    assert client.find_website("a.example") is None


def test_search_that_matches_every_website_is_not_read_completely(
    client: AnalyticsClient, analytics_sandbox: SandboxServer
) -> None:
    analytics_sandbox.seed(1050)
    analytics_sandbox.configure(ignored=["search"])
    client.find_website("none.example")
    searches = [request for request in analytics_sandbox.requests if dict(request.query).get("search")]
    assert len(searches) <= 6


# Replicas: some reads return the state before other writes


DOMAIN = "shop.example.com"


def website(**values: int) -> dict[str, Any]:
    return {"id": 1, "domain": DOMAIN, "privacy": 0, "email": 0, "exclude_ips": None, **values}


class Replicated:
    """A correct service with a unique rule for domains on its primary.

    :param stale: for each read in order, whether it returns the earlier state; later reads return the current state.
    """

    def __init__(self, *websites: dict[str, Any], stale: tuple[bool, ...] = ()) -> None:
        self.earlier = [dict(item) for item in websites]
        self.stored = [dict(item) for item in websites]
        self.stale = list(stale)
        self.writes: list[str] = []
        self.before_write: Callable[[], None] = lambda: None
        #: Method to its response, in place of a write.
        self.answers: dict[str, bytes] = {}

    def __call__(self, request: Request) -> bytes:
        if request.method == "GET":
            return answer_read(request, self.earlier if self.stale and self.stale.pop(0) else self.stored)
        if request.method in self.answers:
            return self.answers[request.method]
        self.before_write()
        self.writes.append(request.method)
        form = dict(parse_qsl(request.body.decode()))
        if request.method == "POST":
            if any(row["domain"] == form["domain"] for row in self.stored):
                return http(422, {"message": "Taken.", "errors": {"domain": ["The domain has already been taken."]}})
            self.stored.append(website())
            return http(201, {"data": self.stored[-1]})
        if request.method == "DELETE" or not self.stored:
            return http(404, {})
        self.stored[0].update({name: int(form[name]) for name in form.keys() & {"privacy", "email"}})
        return http(200, {"data": self.stored[0]})


def serve(service: Replicated, use: Callable[[AnalyticsClient], Any]) -> Any:
    with served(service) as (client, _):
        return use(client)


def test_website_created_by_another_task_is_found_behind_a_replica() -> None:
    # Two reads prove that the list is empty. Then the other task creates the website, and two reads are late.
    service = Replicated(stale=(False, False, True, True))
    service.before_write = lambda: service.stored.append(website())
    written = serve(service, lambda client: client.ensure_website(DOMAIN, privacy="public"))
    assert (written.created, written.record["domain"], len(service.stored)) == (False, DOMAIN, 1)


@pytest.mark.parametrize(("rejected", "last"), [("exclude_ips", "POST"), ("domain", "GET")])
def test_rejected_create_looks_for_the_website_only_if_its_domain_is_rejected(rejected: str, last: str) -> None:
    service = Replicated()
    service.answers["POST"] = http(422, {"message": "Bad.", "errors": {rejected: ["Bad."]}})
    with served(service) as (client, server):
        with pytest.raises(AnalyticsApiError, match=f"{rejected}: Bad"):
            client.ensure_website(DOMAIN, exclude_ips=["192.0.2.1"])
        assert server.requests[-1].method == last


def test_delete_with_status_404_succeeds_only_if_the_website_is_gone() -> None:
    """Another client deleted it a moment before, or the service only claims so."""
    service = Replicated(website(), stale=(True, True))
    service.stored.clear()
    with pytest.raises(NotFoundError):
        serve(service, lambda client: client.delete_website(1))
    with pytest.raises(NotAppliedError, match="still"):
        serve(Replicated(website()), lambda client: client.delete_website(1))


def test_update_sends_a_value_that_only_a_stale_read_returned() -> None:
    service = Replicated(website(privacy=1), stale=(True,))
    service.stored[0]["privacy"] = 0
    serve(service, lambda client: client.update_website(1, privacy="private"))
    assert (service.stored[0]["privacy"], service.writes) == (1, ["PATCH"])


def test_update_sends_a_value_again_if_another_task_overwrote_it() -> None:
    service = Replicated(website())

    def overwritten(request: Request) -> bytes:
        answer = service(request)
        if service.writes == ["PATCH"] and request.method == "PATCH":
            service.stored[0]["privacy"] = 0
        return answer

    with served(overwritten) as (client, _):
        client.update_website(1, privacy="private")
    assert (service.stored[0]["privacy"], service.writes) == (1, ["PATCH", "PATCH"])


def test_new_website_is_updated_behind_a_late_replica() -> None:
    service = Replicated(stale=(True, True))
    service.stored.append(website())
    serve(service, lambda client: client.update_website(1, privacy="private"))
    assert service.stored[0]["privacy"] == 1


# The first page of the list as the newest websites


@pytest.mark.parametrize(("websites", "requests"), [(0, 1), (99, 1), (100, 3), (150, 5)])
def test_first_page_is_the_whole_list_only_if_it_is_not_full(
    client: AnalyticsClient, analytics_sandbox: FakeService, websites: int, requests: int
) -> None:
    analytics_sandbox.seed(websites)
    assert len(client.newest_websites(None)) == websites
    assert len(analytics_sandbox.requests) == requests


def test_full_page_of_a_service_with_a_capped_total_is_not_the_whole_list(
    client: AnalyticsClient, analytics_sandbox: FakeService
) -> None:
    analytics_sandbox.seed(150)
    analytics_sandbox.configure(total_cap=100)
    with pytest.raises(IncompleteListError):
        client.newest_websites(None)


@pytest.mark.parametrize(("known", "requests"), [("150", 1), ("51", 1), ("50", 5)])
def test_first_page_is_enough_if_it_contains_the_known_website(
    client: AnalyticsClient, analytics_sandbox: FakeService, known: str, requests: int
) -> None:
    analytics_sandbox.seed(150)
    found = {str(record["id"]) for record in client.newest_websites(known)}
    assert {str(number) for number in range(int(known), 151)} <= found
    assert len(analytics_sandbox.requests) == requests
