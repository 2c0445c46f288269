"""A service whose reads come from replicas: some of them return what was stored before other writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import pytest
from raw_server import RawServer, Request, http
from wire_client import client_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import AnalyticsApiError, NotAppliedError, NotFoundError

DOMAIN = "shop.example.com"


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

    def add(self, **values: Any) -> None:
        self.stored.append({"id": len(self.stored) + 1, "privacy": 0, "email": 0, "exclude_ips": None, **values})

    def __call__(self, request: Request) -> bytes:
        path, _, _ = request.target.partition("?")
        if request.method == "GET":
            rows = self.earlier if self.stale and self.stale.pop(0) else self.stored
            if path.endswith("/account"):
                return http(200, {"data": {"id": 1}})
            if path.endswith("/websites"):
                newest = sorted(rows, key=lambda row: row["id"], reverse=request.query.get("sort", "desc") == "desc")
                return http(200, {"data": newest, "meta": {"total": len(rows)}})
            found = [row for row in rows if path.endswith(f"/{row['id']}")]
            return http(200, {"data": found[0]}) if found else http(404, {})
        self.before_write()
        self.writes.append(request.method)
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        if request.method == "POST":
            if any(row["domain"] == form["domain"] for row in self.stored):
                taken = {"message": "Taken.", "errors": {"domain": ["The domain has already been taken."]}}
                return http(422, taken)
            self.add(domain=form["domain"])
            return http(201, {"data": self.stored[-1]})
        found = [row for row in self.stored if path.endswith(f"/{row['id']}")]
        if not found:
            return http(404, {})
        if request.method == "DELETE":
            self.stored.remove(found[0])
            return http(204)
        found[0].update({name: int(value) for name, value in form.items() if name in ("privacy", "email")})
        return http(200, {"data": found[0]})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.client.CONFIRM_WAITS", (0,) * 4)


def serve(service: Replicated, use: Callable[[AnalyticsClient], Any]) -> Any:
    with RawServer(service) as server, client_of(server.url) as client:
        return use(client)


def test_a_website_that_another_task_has_just_created_is_found_behind_a_replica() -> None:
    # Two reads prove that the list is empty. Then the other task creates the website, and two reads are late.
    service = Replicated(stale=(False, False, True, True))
    service.before_write = lambda: service.add(domain=DOMAIN)
    written = serve(service, lambda client: client.ensure_website(DOMAIN, privacy="public"))
    assert (written.created, written.record["domain"], len(service.stored)) == (False, DOMAIN, 1)


def test_another_refused_value_is_not_waited_for() -> None:
    service = Replicated()

    def respond(request: Request) -> bytes:
        refused = {"message": "Bad.", "errors": {"exclude_ips": ["Bad."]}}
        return http(422, refused) if request.method == "POST" else service(request)

    with RawServer(respond) as server, client_of(server.url) as client:
        with pytest.raises(AnalyticsApiError):
            client.ensure_website(DOMAIN, exclude_ips=["192.0.2.1"])
        assert server.requests[-1].method == "POST"


def test_a_delete_that_another_client_did_a_moment_before_is_not_found() -> None:
    service = Replicated({"id": 1, "domain": DOMAIN}, stale=(True, True))
    service.stored.clear()
    with pytest.raises(NotFoundError):
        serve(service, lambda client: client.delete_website(1))


def test_a_delete_that_is_not_found_and_does_not_happen_is_said() -> None:
    service = Replicated({"id": 1, "domain": DOMAIN})

    def respond(request: Request) -> bytes:
        return http(404, {}) if request.method == "DELETE" else service(request)

    with RawServer(respond) as server, client_of(server.url) as client, pytest.raises(NotAppliedError, match="still"):
        client.delete_website(1)


def test_a_value_that_only_a_stale_read_shows_is_sent() -> None:
    service = Replicated({"id": 1, "domain": DOMAIN, "privacy": 1, "email": 0}, stale=(True,))
    service.stored[0]["privacy"] = 0
    serve(service, lambda client: client.update_website(1, privacy="private"))
    assert (service.stored[0]["privacy"], service.writes) == (1, ["PATCH"])


def test_a_value_that_another_task_overwrites_is_sent_once_more() -> None:
    service = Replicated({"id": 1, "domain": DOMAIN, "privacy": 0, "email": 0})

    def overwritten(request: Request) -> bytes:
        answer = service(request)
        if service.writes == ["PATCH"] and request.method == "PATCH":
            service.stored[0]["privacy"] = 0
        return answer

    with RawServer(overwritten) as server, client_of(server.url) as client:
        client.update_website(1, privacy="private")
    assert (service.stored[0]["privacy"], service.writes) == (1, ["PATCH", "PATCH"])


def test_a_new_website_that_a_replica_does_not_have_yet_is_updated() -> None:
    service = Replicated(stale=(True, True))
    service.add(domain=DOMAIN)
    serve(service, lambda client: client.update_website(1, privacy="private"))
    assert service.stored[0]["privacy"] == 1
