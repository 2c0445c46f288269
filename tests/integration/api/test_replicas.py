"""A service whose reads come from replicas: some of them return what was stored before other writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from raw_server import Request, answer_read, http
from wire_client import served

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import AnalyticsApiError, NotAppliedError, NotFoundError

DOMAIN = "shop.example.com"


def website(**values: int) -> dict[str, Any]:
    return {"id": 1, "domain": DOMAIN, "privacy": 0, "email": 0, "exclude_ips": None, **values}


class Replicated:
    """A faithful service with a unique rule for domains on its primary.

    :param stale: for each read in order, whether it returns the earlier state; all later ones return what is stored.
    """

    def __init__(self, *websites: dict[str, Any], stale: tuple[bool, ...] = ()) -> None:
        self.earlier = [dict(one) for one in websites]
        self.stored = [dict(one) for one in websites]
        self.stale = list(stale)
        self.writes: list[str] = []
        self.before_write: Callable[[], None] = lambda: None
        #: Method to the answer to it, in place of a write.
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


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0,) * 4)


def serve(service: Replicated, use: Callable[[AnalyticsClient], Any]) -> Any:
    with served(service) as (client, _):
        return use(client)


def test_a_website_that_another_task_has_just_created_is_found_behind_a_replica() -> None:
    # Two reads prove that the list is empty. Then the other task creates the website, and two reads are late.
    service = Replicated(stale=(False, False, True, True))
    service.before_write = lambda: service.stored.append(website())
    written = serve(service, lambda client: client.ensure_website(DOMAIN, privacy="public"))
    assert (written.created, written.record["domain"], len(service.stored)) == (False, DOMAIN, 1)


def test_another_refused_value_is_not_waited_for() -> None:
    service = Replicated()
    service.answers["POST"] = http(422, {"message": "Bad.", "errors": {"exclude_ips": ["Bad."]}})
    with served(service) as (client, server):
        with pytest.raises(AnalyticsApiError):
            client.ensure_website(DOMAIN, exclude_ips=["192.0.2.1"])
        assert server.requests[-1].method == "POST"


def test_a_delete_of_what_is_not_found_is_believed_once_it_is_gone() -> None:
    """A moment before, another client deleted it; or the service only says so."""
    service = Replicated(website(), stale=(True, True))
    service.stored.clear()
    with pytest.raises(NotFoundError):
        serve(service, lambda client: client.delete_website(1))
    with pytest.raises(NotAppliedError, match="still"):
        serve(Replicated(website()), lambda client: client.delete_website(1))


def test_a_value_that_only_a_stale_read_shows_is_sent() -> None:
    service = Replicated(website(privacy=1), stale=(True,))
    service.stored[0]["privacy"] = 0
    serve(service, lambda client: client.update_website(1, privacy="private"))
    assert (service.stored[0]["privacy"], service.writes) == (1, ["PATCH"])


def test_a_value_that_another_task_overwrites_is_sent_once_more() -> None:
    service = Replicated(website())

    def overwritten(request: Request) -> bytes:
        answer = service(request)
        if service.writes == ["PATCH"] and request.method == "PATCH":
            service.stored[0]["privacy"] = 0
        return answer

    with served(overwritten) as (client, _):
        client.update_website(1, privacy="private")
    assert (service.stored[0]["privacy"], service.writes) == (1, ["PATCH", "PATCH"])


def test_a_new_website_that_a_replica_does_not_have_yet_is_updated() -> None:
    service = Replicated(stale=(True, True))
    service.stored.append(website())
    serve(service, lambda client: client.update_website(1, privacy="private"))
    assert service.stored[0]["privacy"] == 1
