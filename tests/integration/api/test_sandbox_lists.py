"""Complete lists over a socket, from the sandbox a user has as well."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from raw_server import RawServer, Request, http
from wire_client import Time, client_of
from zoo import Zoo

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.listing import WAITS_BETWEEN_READINGS
from airflow_provider_analytics.exceptions import (
    AmbiguousWriteError,
    DomainError,
    IncompleteListError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, read


@pytest.fixture(scope="module")
def server() -> Iterator[Zoo]:
    with Zoo() as running:
        yield running


@pytest.fixture
def sandbox(server: Zoo) -> Zoo:
    server.reset()
    return server


@pytest.fixture
def client(sandbox: Zoo) -> Iterator[AnalyticsClient]:
    with client_of(sandbox.url, api_key=sandbox.api_key) as made:
        yield made


SHAPES: list[dict[str, Any]] = [
    {"list_key": None},
    {"metadata": "none"},
    {"metadata": "flat"},
    {"list_key": "sites"},
    {},
]
BEHAVIOUR: list[dict[str, Any]] = [
    {},
    {"numbers_as_text": True},
    {"paginator": "simple"},
    {"total_offset": -7},
    {"total_offset": 7},
    {"current_page": "wrong"},
    {"ignored": ["page"]},
    {"ignored": ["sort"]},
    {"ignored": ["per_page"]},
    {"page_size_limit": 25},
    {"page_size_limit": 25, "ignored": ["page"], "current_page": "absent"},
    {"page_offset": -1, "current_page": "absent"},
]


@pytest.mark.parametrize("websites", [1, 60, 130])
@pytest.mark.parametrize(("shape", "behaviour"), list(itertools.product(SHAPES, BEHAVIOUR)), ids=str)
def test_a_list_is_whole_or_refused(
    client: AnalyticsClient, sandbox: Zoo, shape: dict[str, Any], behaviour: dict[str, Any], websites: int
) -> None:
    sandbox.seed(websites)
    sandbox.configure(**shape, **behaviour)
    try:
        found = client.list_websites()
    except (IncompleteListError, UnexpectedResponseError):
        assert behaviour not in ({}, {"numbers_as_text": True}, {"paginator": "simple"}, {"page_size_limit": 25})
    else:
        assert sorted(int(website["id"]) for website in found) == list(range(1, websites + 1))


@pytest.mark.parametrize(
    ("websites", "requests"), [(0, 2), (1, 2), (100, 2), (101, 4), (200, 4), (250, 5), (251, 5), (10_000, 102)]
)
def test_requests_on_the_wire_are_the_arithmetic_minimum(
    client: AnalyticsClient, sandbox: Zoo, websites: int, requests: int
) -> None:
    sandbox.seed(websites)
    found = {website["id"] for website in client.iter_websites()}
    assert len(found) == websites
    assert len(sandbox.requests) == client.stats.requests == requests


@pytest.mark.parametrize("paginator", ["length", "simple"])
@pytest.mark.parametrize(
    "drift", [{"create": 1}, {"delete": 1}, {"create": 1, "delete": 1}, {"delete": 30}, {"flip_favorite": 5}], ids=str
)
def test_a_list_that_moves_once_is_read_again(
    client: AnalyticsClient, sandbox: Zoo, drift: dict[str, int], paginator: str
) -> None:
    sandbox.seed(250)
    sandbox.configure(paginator=paginator)
    before = {website["id"] for website in sandbox.websites()}
    sandbox.fault("list", commit=True, skip=1, drift=drift)
    found = {website["id"] for website in client.list_websites()}
    after = {website["id"] for website in sandbox.websites()}
    assert found >= before & after
    assert found <= before | after


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("query", [{}, {"sort": "asc"}, {"sort_by": "domain"}, {"search": "e"}], ids=str)
def test_a_list_that_only_grows_is_read_once(sandbox: Zoo, query: dict[str, Any], parallel: int) -> None:
    sandbox.seed(950)
    sandbox.fault("list", commit=True, times=None, drift={"create": 1})
    with client_of(sandbox.url, api_key=sandbox.api_key, parallel_requests=parallel) as client:
        listing = client.iter_websites(**query)
        found = [website["id"] for website in listing]
        assert listing.proof is not None
        assert listing.proof.method == "closed reading"
        assert len(found) == listing.total
        # The list as the last request found it: the one before it created the newest website.
        assert set(found) == set(range(1, len(found) + 1))
        assert 950 < len(found) <= 950 + len(sandbox.requests)
        if parallel == 1:
            assert len(found) == 950 + len(sandbox.requests) - 1


def test_many_websites_are_created_at_the_same_time(sandbox: Zoo) -> None:
    sandbox.seed(1000)
    domains = [f"new-{number}.example" for number in range(24)]
    ready = threading.Barrier(len(domains))

    def create(domain: str) -> tuple[bool, int]:
        with client_of(sandbox.url, api_key=sandbox.api_key) as client:
            ready.wait(30)
            return client.ensure_website(domain).created, client.stats.lists_read_again

    with ThreadPoolExecutor(len(domains)) as pool:
        assert set(pool.map(create, domains)) == {(True, 0)}
    assert sorted(website["domain"] for website in sandbox.websites() if website["id"] > 1000) == sorted(domains)


def test_a_list_that_never_rests_is_given_up(client: AnalyticsClient, sandbox: Zoo) -> None:
    sandbox.seed(250)
    sandbox.fault("list", commit=True, times=None, drift={"create": 1, "delete": 1})
    with pytest.raises(IncompleteListError, match="Gave up after 4 attempts"):
        client.list_websites()
    listing = client.iter_websites()
    with pytest.raises(IncompleteListError):
        list(listing)
    assert listing.proof is None


def test_a_page_that_fails_once_is_asked_for_again(client: AnalyticsClient, sandbox: Zoo) -> None:
    sandbox.seed(250)
    for fault in ({"status": 503}, {"drop": True}, {"headers": {"Content-Length": "100000"}}):
        sandbox.clear_requests()
        sandbox.fault("list", skip=1, **fault)
        assert len(client.list_websites()) == 250
        assert len(sandbox.requests) == 6


@pytest.mark.parametrize("search", [{}, {"ignored": ["search"]}], ids=str)
def test_a_website_is_found_by_exactly_its_domain(
    client: AnalyticsClient, sandbox: Zoo, search: dict[str, Any]
) -> None:
    sandbox.seed(120)
    sandbox.configure(**search)
    for domain in ("shop.find-me.example", "find-me.example", "find-me.example.org"):
        sandbox.add_website(domain)
    for spelling in ("find-me.example", "Find-Me.EXAMPLE", "find-me.example."):
        found = client.find_website(spelling)
        assert found is not None
        assert found["domain"] == "find-me.example"
    assert client.find_website("me.example") is None


def test_that_a_search_finds_nothing_is_not_believed(client: AnalyticsClient, sandbox: Zoo) -> None:
    sandbox.add_website("find-me.example")
    bodies: tuple[Any, ...] = ([], {"data": [], "total": 3})
    for body in bodies:
        sandbox.fault("list", target="search=", body=body, times=2)
        found = client.find_website("find-me.example")
        assert found is not None
        sandbox.clear_faults()


def test_two_websites_of_one_domain_are_an_error(client: AnalyticsClient, sandbox: Zoo) -> None:
    for domain in ("twice.example", "Twice.example"):
        sandbox.add_website(domain)
    with pytest.raises(DomainError, match="ids 1, 2"):
        client.find_website("twice.example")


def test_a_create_dropped_after_the_commit_is_one_website_after_the_next_try(
    client: AnalyticsClient, sandbox: Zoo
) -> None:
    sandbox.fault("create", drop=True, commit=True)
    with pytest.raises(AmbiguousWriteError):
        client.ensure_website("new.example")
    assert client.ensure_website("new.example").record["domain"] == "new.example"
    assert [website["domain"] for website in sandbox.websites()] == ["new.example"]
    assert [request.operation for request in sandbox.requests].count("create") == 1


class CachedTotal:
    """Counts the websites once in two seconds, and shows every website at once."""

    def __init__(self, time: Time, size: int) -> None:
        self._time = time
        self._size = size
        self._total, self._until = size - 1, time.now + 2

    def __call__(self, request: Request) -> bytes:
        if self._time.now >= self._until:
            self._total, self._until = self._size, self._time.now + 2
        query = request.query
        ids = sorted(range(1, self._size + 1), reverse=query["sort"] == "desc")
        size, page = int(query["per_page"]), int(query.get("page", "1"))
        rows = [{"id": n, "domain": f"{n}.example"} for n in ids[(page - 1) * size : page * size]]
        return http(200, {"data": rows, "meta": {"total": self._total, "current_page": page}})


@pytest.mark.parametrize("size", [9, 250])
@pytest.mark.parametrize("by", ["the client", "a snapshot"])
def test_a_total_that_is_cached_for_two_seconds_does_not_use_up_all_readings(
    size: int, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()  # the waits are those of a real reading
    time = Time()
    with RawServer(CachedTotal(time, size)) as server, client_of(server.url, time) as client:
        if by == "the client":
            assert len(client.list_websites()) == size
        else:
            noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
            origin = Origin(client.iter_websites, ListSource(url=server.url, account_id="1"), client.stats)
            reading = read(origin, noon.date(), tmp_path, now=noon, options=SnapshotOptions(), clock=lambda: noon)
            assert reading.count == size
        assert client.stats.lists_read_again == len(time.slept)
        assert client.stats.waited == sum(time.slept)
    assert list(WAITS_BETWEEN_READINGS[: len(time.slept)]) == time.slept
