"""Laravel's three paginators, as they are and as resource collections, with the links that a proxy leaves behind."""

from __future__ import annotations

from itertools import count
from typing import Any
from urllib.parse import urlencode

import pytest
from raw_server import RawServer, Request, http
from wire_client import client_of
from zoo import Zoo

from airflow_provider_analytics.sandbox.requests import RecordedRequest

PATH = "/api/v1/websites"
#: Where the service believes that it is.
ADDRESSES = {
    "the same": "",
    "another scheme": "https://127.0.0.1",
    "another host": "http://app.internal:8080",
    "another prefix": "https://stats.example.com/tenant",
    "a relative link": "?",
}
WEBSITES = 250


class Paginator:
    """A service with one of the paginators: ``length``, ``simple`` or ``cursor``.

    :param name: name of the query parameter that selects a page; other parameters are kept in the links.
    """

    def __init__(self, kind: str, *, is_resource: bool, address: str, name: str) -> None:
        self.kind = kind
        self.is_resource = is_resource
        self.address = address
        self.name = name

    def __call__(self, request: Request) -> bytes:
        query = request.query
        per_page = int(query["per_page"])
        first = int(query.get(self.name, "0" if self.kind == "cursor" else "1"))
        start = first if self.kind == "cursor" else (first - 1) * per_page
        ids = sorted(range(1, WEBSITES + 1), reverse=query["sort"] == "desc")
        rows = [{"id": n, "domain": f"{n}.example"} for n in ids[start : start + per_page]]
        has_more = start + per_page < WEBSITES
        page = getattr(self, self.kind)(request, first, start, per_page, has_more)
        if not self.is_resource:
            return http(200, {"data": rows, **page})
        places = ("first", "last", "prev", "next")
        links = {place: page.get(f"{place}_page_url") for place in places}
        meta = {name: value for name, value in page.items() if not name.endswith("_page_url")}
        return http(200, {"data": rows, "links": links, "meta": meta})

    def link(self, request: Request, value: int | None) -> str | None:
        if value is None:
            return None
        kept = {name: text for name, text in request.query.items() if name != self.name}
        query = urlencode(kept | {self.name: value})
        if self.address == "?":
            return f"?{query}"
        return f"{self.address or 'http://' + request.headers['host']}{PATH}?{query}"

    def simple(self, request: Request, page: int, start: int, per_page: int, has_more: bool) -> dict[str, Any]:
        return {
            "current_page": page,
            "first_page_url": self.link(request, 1),
            "from": start + 1,
            "next_page_url": self.link(request, page + 1 if has_more else None),
            "path": f"{self.address}{PATH}",
            "per_page": per_page,
            "prev_page_url": self.link(request, page - 1 if page > 1 else None),
            "to": min(start + per_page, WEBSITES),
        }

    def length(self, request: Request, page: int, start: int, per_page: int, has_more: bool) -> dict[str, Any]:
        last = -(-WEBSITES // per_page)
        numbers = [{"url": self.link(request, n), "label": str(n), "active": n == page} for n in range(1, last + 1)]
        return {
            **self.simple(request, page, start, per_page, has_more),
            "last_page": last,
            "last_page_url": self.link(request, last),
            "links": [
                {"url": None, "label": "&laquo; Previous", "active": False},
                *numbers,
                {"url": self.link(request, page + 1 if has_more else None), "label": "Next &raquo;", "active": False},
            ],
            "total": WEBSITES,
        }

    def cursor(self, request: Request, at: int, start: int, per_page: int, has_more: bool) -> dict[str, Any]:
        following = start + per_page if has_more else None
        before = max(0, start - per_page) if start else None
        return {
            "path": f"{self.address}{PATH}",
            "per_page": per_page,
            "next_cursor": None if following is None else str(following),
            "next_page_url": self.link(request, following),
            "prev_cursor": None if before is None else str(before),
            "prev_page_url": self.link(request, before),
        }


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("is_resource", [False, True], ids=["raw", "resource"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [("length", "page"), ("length", "p"), ("simple", "page"), ("simple", "p"), ("cursor", "cursor"), ("cursor", "at")],
)
def test_a_list_of_several_pages_is_complete(kind: str, name: str, is_resource: bool, address: str) -> None:
    service = Paginator(kind, is_resource=is_resource, address=ADDRESSES[address], name=name)
    with RawServer(service) as server, client_of(server.url) as client:
        for order in ("desc", "asc"):
            listing = client.iter_websites(sort=order, search="example")
            found = [website["id"] for website in listing]
            assert sorted(found) == list(range(1, WEBSITES + 1))
            assert listing.proof is not None
            assert listing.proof.method == ("closed reading" if kind == "length" else "both directions")
        assert {request.target.partition("?")[0] for request in server.requests} == {PATH}


@pytest.mark.parametrize("is_resource", [False, True], ids=["raw", "resource"])
@pytest.mark.parametrize("address", ["", "https://other.example/elsewhere?"])
def test_a_cursor_counts_where_the_link_says_nothing(address: str, is_resource: bool) -> None:
    class Unusable(Paginator):
        def link(self, request: Request, value: int | None) -> str | None:
            return address or None

    service = Unusable("cursor", is_resource=is_resource, address="", name="cursor")
    with RawServer(service) as server, client_of(server.url) as client:
        assert len(client.list_websites()) == WEBSITES


@pytest.mark.parametrize("order", [{}, {"sort": "asc"}, {"sort_by": "domain"}], ids=str)
@pytest.mark.parametrize("preset", ["length", "simple", "cursor"])
@pytest.mark.parametrize("every", [1, 3])
def test_a_list_is_read_once_while_colleagues_create_websites(
    analytics_sandbox: Zoo, preset: str, every: int, order: dict[str, Any]
) -> None:
    analytics_sandbox.seed(WEBSITES)
    analytics_sandbox.configure(preset=preset)
    requests = count(1)

    def create(request: RecordedRequest) -> None:
        number = next(requests)
        if number % every == 0:
            analytics_sandbox.add_website(f"new-{number}.example")

    analytics_sandbox.meanwhile(create)
    with client_of(analytics_sandbox.url, api_key=analytics_sandbox.api_key) as client:
        ids = [website["id"] for website in client.list_websites(**order)]
        assert client.stats.lists_read_again == 0
    assert len(ids) == len(set(ids))
    assert set(range(1, WEBSITES + 1)) <= set(ids)
