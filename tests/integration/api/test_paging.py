# SPDX-License-Identifier: Apache-2.0
"""Complete lists: pages, favorites, and deleted websites (``api/listing.py``, ``api/client.py``)."""

from __future__ import annotations

import gc
import json
import threading
import time as real_time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, islice
from typing import Any

import pytest
from distortion import Distortion
from fake_services import FakeService
from hypothesis import given
from hypothesis import strategies as st
from raw_server import Reply, Request, answer_read, http, list_body, rows
from wire_client import Time, served, waiting_client_of

from airflow_provider_analytics.api.client import AnalyticsClient, Meant
from airflow_provider_analytics.api.laravel import Page
from airflow_provider_analytics.api.listing import WAITS_BETWEEN_READS, Listing, Query
from airflow_provider_analytics.exceptions import AnalyticsApiError, IncompleteListError, NotFoundError
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.server import SandboxServer

ClientWith = Callable[..., AnalyticsClient]
PATH = "/api/v1/websites"

#: Address of the service in its links, behind a proxy.
ADDRESSES = {
    "the same": None,
    "another scheme": f"https://127.0.0.1{PATH}",
    "another host": f"http://app.internal:8080{PATH}",
    "another prefix": f"https://stats.example.com/tenant{PATH}",
    "a relative link": "",
}


@pytest.mark.parametrize("kind", ["length", "simple", "cursor"])
@pytest.mark.parametrize(("name", "metadata"), [("page", "flat"), ("p", "meta")])
@pytest.mark.parametrize("address", ADDRESSES)
def test_list_of_several_pages_is_complete_for_each_paginator(
    analytics_sandbox: FakeService, kind: str, name: str, metadata: str, address: str
) -> None:
    """Laravel's three paginators, directly and as resource collections."""
    analytics_sandbox.seed(250)
    analytics_sandbox.configure(paginator=kind, page_parameter=name, metadata=metadata)
    between = Distortion(analytics_sandbox)
    place, shown = f"{analytics_sandbox.url}{PATH}", ADDRESSES[address]

    def elsewhere(request: Request) -> tuple[int, Any]:
        status, content = between.to_the_sandbox(request)
        return status, json.loads(json.dumps(content).replace(place, place if shown is None else shown))

    between.forward = elsewhere
    with served(between, api_key=analytics_sandbox.api_key) as (client, server):
        for order in ("desc", "asc"):
            listing = client.iter_websites(sort=order, search="e")
            assert {website["id"] for website in listing} == set(range(1, 251))
            assert listing.proof is not None
            assert listing.proof.method == ("closed reading" if kind == "length" else "both directions")
        assert {request.path for request in server.requests} == {PATH}


@pytest.mark.parametrize("order", [{}, {"sort": "asc"}, {"sort_by": "domain"}], ids=str)
@pytest.mark.parametrize("kind", ["length", "simple", "cursor"])
@pytest.mark.parametrize("every", [1, 3])
def test_list_is_read_once_while_other_users_create_websites(
    client: AnalyticsClient, analytics_sandbox: FakeService, kind: str, every: int, order: dict[str, Any]
) -> None:
    analytics_sandbox.seed(250)
    analytics_sandbox.configure(paginator=kind)
    requests = count(1)

    def create(request: RecordedRequest) -> None:
        if (number := next(requests)) % every == 0:
            analytics_sandbox.add_website(f"new-{number}.example")

    analytics_sandbox.meanwhile(create)
    ids = [website["id"] for website in client.list_websites(**order)]
    assert client.stats.lists_read_again == 0
    assert len(ids) == len(set(ids))
    assert set(range(1, 251)) <= set(ids)


def test_many_websites_are_created_at_the_same_time(client_with: ClientWith, analytics_sandbox: FakeService) -> None:
    analytics_sandbox.seed(1000)
    domains = [f"new-{number}.example" for number in range(12)]
    ready = threading.Barrier(len(domains))

    def create(domain: str) -> tuple[bool, int]:
        client = client_with()
        ready.wait(30)
        return client.ensure_website(domain).created, client.stats.lists_read_again

    with ThreadPoolExecutor(len(domains)) as pool:
        assert set(pool.map(create, domains)) == {(True, 0)}
    new = sorted(website["domain"] for website in analytics_sandbox.websites() if website["id"] > 1000)
    assert new == sorted(domains)


@pytest.mark.parametrize("size", [9, 250])
def test_total_cached_for_two_seconds_does_not_exhaust_the_reads(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the waits are those of a real read
    time = Time()
    fresh_at = time.now + 2

    def respond(request: Request) -> bytes:
        return http(200, list_body(request.query, rows(*range(size)), total=size - (time.now < fresh_at)))

    with served(respond, time) as (client, _):
        assert len(client.list_websites()) == size
        assert client.stats.lists_read_again == len(time.slept)
        assert client.stats.waited == sum(time.slept)
    assert list(WAITS_BETWEEN_READS[: len(time.slept)]) == time.slept


def pages_of(size: int, **special: Callable[[Request], bytes | Reply]) -> Callable[[Request], bytes | Reply]:
    """Return a service with this number of websites; ``page3`` responds in place of page 3."""

    def respond(request: Request) -> bytes | Reply:
        answer = special.get(f"page{request.query.get('page', 1)}")
        return answer(request) if answer else http(200, list_body(request.query, rows(*range(1, size + 1))))

    return respond


LINKS: dict[str, Any] = {
    "another list": f"{PATH}/7/pages?part=2",
    "another path": "/other/websites?part=2",
    "another version": "https://127.0.0.1/api/v2/websites?part=2",
    "another port than there is": f"http://127.0.0.1:x{PATH}",
    "no query": PATH,
    "two parameters": f"{PATH}?page=2&token=x",
    "no link": "nonsense",
    "a number": 2,
    "an object": {"href": f"{PATH}?page=2"},
    "null": None,
}


@pytest.mark.parametrize("link", LINKS)
def test_next_link_without_a_page_parameter_is_ignored(link: str) -> None:
    def respond(request: Request) -> bytes:
        links = {"next": LINKS[link]} if request.query.get("page") != "3" else {}
        return http(200, {**list_body(request.query, rows(*range(1, 251))), "links": links})

    with served(respond) as (client, server):
        assert len(client.list_websites()) == 250
        assert {request.path for request in server.requests} == {PATH}


def test_reading_ends_if_a_cursor_is_repeated() -> None:
    def respond(request: Request) -> bytes:
        is_first = request.query["sort"] == "desc" and "cursor" not in request.query
        return http(200, {"data": rows(3, 4) if is_first else rows(1, 2), "next_cursor": "again"})

    with served(respond) as (client, server):
        with pytest.raises(IncompleteListError, match="2 websites found in one direction only"):
            list(client.iter_websites())
        assert len(server.requests) == 4


def test_progress_of_a_long_list_is_logged(
    client: AnalyticsClient,
    analytics_sandbox: FakeService,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.listing.PROGRESS_SECONDS", 0)
    caplog.set_level("INFO")
    analytics_sandbox.seed(1250)
    client.list_websites()
    assert "Reading: 1,200 of 1,250 websites." in caplog.messages


# Several requests at the same time


@pytest.mark.parametrize("parallel", [1, 2, 4, 16])
def test_pages_are_requested_in_parallel_up_to_the_limit_and_returned_in_order(parallel: int) -> None:
    """As many requests wait at the same time as the limit allows, before a page is read."""
    last = 4 * parallel + 1
    size = last * 100 - 50
    together, lock = threading.Barrier(parallel), threading.Lock()
    under_way: list[int] = [0]

    def respond(request: Request) -> bytes:
        with lock:
            under_way.append(under_way[-1] + 1)
        if 2 <= int(request.query.get("page", "1")) <= last:
            together.wait(30)
        with lock:
            under_way.append(under_way[-1] - 1)
        return http(200, list_body(request.query, rows(*range(1, size + 1))))

    with served(respond, parallel_requests=parallel) as (client, server):
        for _ in range(2):
            assert [website["id"] for website in client.iter_websites()] == list(range(size, 0, -1))
        # Each is kept for the next list, when all of them are idle.
        assert server.connections == max(under_way) == parallel


IDS = st.one_of(
    st.integers(0, 300),
    st.integers(10**17, 10**19),
    st.integers(0, 300).map(str),
    st.sampled_from(["007", "-1", "7a", "7.0", "b9f1"]),
)


@given(st.lists(IDS, min_size=11, max_size=60, unique_by=str), st.data())
def test_repeated_id_of_any_type_is_an_incomplete_list(ids: list[int | str], data: st.DataObject) -> None:
    def fetch(query: Query) -> Page:
        at, size = int(query.get("page", "1")) - 1, int(query["per_page"])
        found = shown if query["sort"] == "desc" else shown[::-1]
        return Page([{"id": item} for item in found[at * size : (at + 1) * size]], len(shown), at + 1)

    shown = ids
    assert [row["id"] for row in Listing(fetch, {"per_page": "10"})] == ids
    shown = [*ids, data.draw(st.sampled_from(ids))]
    with pytest.raises(IncompleteListError, match=r"of earlier pages|but the list has"):
        list(Listing(fetch, {"per_page": "10"}))


@pytest.mark.parametrize("end", ["the consumer stops", "the list is dropped", "a page fails"])
def test_reading_stops_requests_and_threads_when_it_ends_early(end: str) -> None:
    special = {"page3": lambda _: http(403)} if end == "a page fails" else {}
    with served(pages_of(5000, **special), parallel_requests=4) as (client, server):
        gc.disable()
        try:
            if end == "a page fails":
                with pytest.raises(AnalyticsApiError):
                    client.list_websites()
            elif end == "the consumer stops":
                assert len(list(islice(client.iter_websites(), 150))) == 150
            else:
                for website in client.iter_websites():
                    if website["id"] < 4850:
                        break
            _join_readers()
        finally:
            gc.enable()
        # Two pages were consumed, and two more for each of four threads are read ahead.
        assert len(server.requests) <= 10


def test_waiting_page_is_abandoned_if_another_page_fails() -> None:
    asked, is_told = 50, threading.Event()

    def reject(request: Request) -> bytes:
        is_told.set()
        return http(429, headers=[("Retry-After", str(asked))])

    def fail(request: Request) -> bytes:
        assert is_told.wait(30)
        return http(403)

    with served(pages_of(5000, page2=fail, page3=reject)) as (_, server), waiting_client_of(server.url) as client:
        began = real_time.monotonic()
        with pytest.raises(AnalyticsApiError):
            client.list_websites()
        assert real_time.monotonic() - began < asked / 2
        _join_readers()
        assert [request.query.get("page") for request in server.requests].count("3") == 1


def _join_readers() -> None:
    """Wait for the threads that read: each ends with its current request."""
    for thread in threading.enumerate():
        if thread.name.startswith("analytics-list"):
            thread.join(30)
            assert not thread.is_alive()


FILTERS: dict[str, dict[str, Any]] = {
    "honoured": {},
    "ignored": {"ignored": ["favorite"]},
    "false is true": {"favorite_filter": "truth of text"},
    "only numbers": {"favorite_filter": "rule"},
}


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (30, 120), (120, 30)], ids=str)
@pytest.mark.parametrize("shown_as", ["boolean", "integer", "text", "null"])
@pytest.mark.parametrize("filtered", FILTERS)
def test_list_of_favorites_is_correct_or_rejected(
    client_with: ClientWith,
    analytics_sandbox: SandboxServer,
    filtered: str,
    shown_as: str,
    sizes: tuple[int, int],
    wanted: bool,
) -> None:
    for number in range(sum(sizes)):
        analytics_sandbox.add_website(f"{number}.example", favorite=number < sizes[0])
    first = range(1, sizes[0] + 1)
    expected = set(first) if wanted else set(range(1, sum(sizes) + 1)) - set(first)
    analytics_sandbox.configure(favorite_as=shown_as, **FILTERS[filtered])
    # Without the filter, no website contradicts it if all or none are favorites.
    is_right = filtered != "ignored" or sizes == (0, 0)
    is_right |= filtered == "ignored" and len(expected) == sum(sizes)
    if is_right:
        assert {website["id"] for website in client_with().list_websites(favorite=wanted)} == expected
        if expected and sum(sizes) <= 100 and filtered in ("honoured", "ignored"):
            assert len(analytics_sandbox.requests) == 2
    else:
        with pytest.raises(IncompleteListError, match=r".check 'favorite'.: .* without it"):
            client_with().list_websites(favorite=wanted)


def test_cache_between_client_and_service_does_not_make_a_list_old() -> None:
    """It returns a stored response, unless the request forbids that, as a proxy does for a service without headers."""
    stored, kept = rows(1, 2), {}

    def respond(request: Request) -> bytes:
        if request.target not in kept or "no-cache" in request.headers.get("Cache-Control", ""):
            kept[request.target] = answer_read(request, stored)
        return kept[request.target]

    with served(respond) as (client, _):
        for expected in ([2, 1], [3, 2, 1]):
            assert [website["id"] for website in client.list_websites()] == expected
            stored += rows(3)


Record = dict[str, Any]

DELETED: list[Record] = [{"deleted_at": "2026-11-20T03:00:00Z"}, {"deleted_at": 1_795_000_000}]
NOT_DELETED: list[Record] = [{"deleted_at": None}, {"deleted_at": ""}, {"status": "active"}, {"deleted": False}]


def records(size: int, deleted: Iterable[int], mark: Record, **fields: Any) -> list[Record]:
    return [{**row, **(mark if row["id"] in deleted else {})} for row in rows(*range(1, size + 1), **fields)]


def stored_service(stored: list[Record], **meta: Any) -> Callable[..., bytes]:
    return partial(answer_read, records=stored, **meta)


@pytest.mark.parametrize("mark", DELETED, ids=str)
def test_record_marked_as_deleted_counts_as_deleted(mark: Record) -> None:
    # The fourth one had the domain of the third one.
    stored = [*records(3, {2}, mark), {"id": 4, "domain": "3.example", **mark}]
    with served(stored_service(stored)) as (client, server):
        listing = client.iter_websites()
        assert [website["id"] for website in listing] == [3, 1]
        assert listing.proof is not None
        assert (listing.proof.websites, listing.proof.total) == (2, 4)
        with pytest.raises(NotFoundError, match="the record says that the website is deleted"):
            client.get_website(2)
        with pytest.raises(NotFoundError):
            client.write_to(Meant(2), "PATCH", lambda _: client.send_update(Meant(2), {"email": True}))
        assert "PATCH /api/v1/websites/2" not in server.sent
        assert client.is_gone("2")
        assert client.find_website("2.example") is None
        assert client.find_website("3.example") == stored[2]


@pytest.mark.parametrize("meta", [{}, {"total": None}], ids=["closed reading", "both directions"])
def test_website_that_is_created_and_deleted_during_the_read_is_not_in_the_list(meta: dict[str, Any]) -> None:
    stored = rows(*range(1, 102))

    def respond(request: Request) -> bytes:
        if request.query.get("page") == "2":
            stored[101:] = records(103, {102}, DELETED[0])[101:]
        return answer_read(request, stored, **meta)

    with served(respond) as (client, _):
        listing = client.iter_websites()
        assert {website["id"] for website in listing} == {*range(1, 102), 103}
        assert listing.proof is not None
        assert listing.proof.websites == 102


@pytest.mark.parametrize("mark", NOT_DELETED, ids=str)
def test_record_without_a_deletion_mark_exists(mark: Record) -> None:
    stored = records(3, {2}, mark)
    with served(stored_service(stored)) as (client, _):
        assert client.list_websites() == stored[::-1]
        assert client.get_website(2) == stored[1]
