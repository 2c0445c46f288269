"""Pages selected as the service says, and lists that are read with several requests at the same time."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_server import RawServer, Reply, Request, http
from wire_client import KEY, Time, client_of

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.dialect import Page
from airflow_provider_analytics.api.listing import AT_ONCE, Listing, Query
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    IncompleteListError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.sandbox.server import SandboxServer

ClientWith = Callable[..., AnalyticsClient]


SHAPES: dict[str, dict[str, Any]] = {
    "links name another parameter": {"page_parameter": "p"},
    "a flat link": {"page_parameter": "p", "metadata": "flat"},
    "a parameter with brackets": {"page_parameter": "page[number]"},
    "from 0": {"first_page": 0},
    "a cursor in a link": {"paginator": "cursor", "page_parameter": "after"},
    "a cursor alone": {"paginator": "cursor", "page_parameter": "cursor", "links": "absent"},
    "a list below data": {"list_key": "data.data"},
    "a bare list": {"list_key": None},
}


@pytest.mark.parametrize("websites", [0, 1, 100, 101, 250])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_list_is_read_whole(
    client_with: ClientWith, analytics_sandbox: SandboxServer, shape: str, websites: int
) -> None:
    analytics_sandbox.seed(websites)
    analytics_sandbox.configure(strict_parameters=False, **SHAPES[shape])
    queries: tuple[dict[str, Any], ...] = ({}, {"sort": "asc"}, {"sort_by": "domain", "sort": "asc"})
    for query in queries:
        found = client_with().list_websites(**query)
        assert {website["id"] for website in found} == set(range(1, websites + 1))


@pytest.mark.parametrize("websites", [101, 300])
@pytest.mark.parametrize("options", [{"links": "absent"}, {"metadata": "none"}], ids=str)
def test_pages_that_count_from_0_need_links(
    client_with: ClientWith, analytics_sandbox: SandboxServer, websites: int, options: dict[str, Any]
) -> None:
    analytics_sandbox.seed(websites)
    analytics_sandbox.configure(first_page=0, **options)
    with pytest.raises(IncompleteListError, match="extra page_parameter") as caught:
        client_with().list_websites()
    assert caught.value.check == "page number"


@pytest.mark.parametrize("name", ["items", "data.items", "result.websites"])
def test_the_list_key_is_a_setting(client_with: ClientWith, analytics_sandbox: SandboxServer, name: str) -> None:
    analytics_sandbox.seed(120)
    analytics_sandbox.configure(list_key=name)
    assert len(client_with(list_key=name).list_websites()) == 120
    with pytest.raises(UnexpectedResponseError, match=r"under 'other\.key', which the extra list_key names"):
        client_with(list_key="other.key").list_websites()


@pytest.mark.parametrize("cap", [100, 200, 230])
@pytest.mark.parametrize("links", ["given", "absent"])
def test_a_total_that_is_capped_is_not_believed(
    client_with: ClientWith, analytics_sandbox: SandboxServer, cap: int, links: str
) -> None:
    analytics_sandbox.seed(250)
    analytics_sandbox.configure(total_cap=cap, links=links)
    with pytest.raises(IncompleteListError):
        client_with().list_websites()


@pytest.mark.parametrize("websites", [100, 200, 230])
@pytest.mark.parametrize("query", [{}, {"favorite": False}], ids=str)
def test_a_round_number_of_websites_in_an_order_that_is_ignored_may_be_the_newest_only(
    client_with: ClientWith, analytics_sandbox: SandboxServer, websites: int, query: dict[str, Any]
) -> None:
    for number in range(websites):
        analytics_sandbox.add_website(f"{number}.example", favorite=False)
    analytics_sandbox.configure(ignored=["sort"], links="absent")
    with pytest.raises(IncompleteListError, match="'sort order'"):
        client_with().list_websites(**query)


@pytest.mark.parametrize("websites", [1, 99, 100, 200, 201])
@pytest.mark.parametrize("behind", ["not found", "last"])
@pytest.mark.parametrize("metadata", ["meta", "none"])
def test_a_page_behind_the_last_may_be_refused_or_the_last_one_again(
    client_with: ClientWith,
    analytics_sandbox: SandboxServer,
    behind: str,
    websites: int,
    metadata: str,
) -> None:
    analytics_sandbox.seed(websites)
    analytics_sandbox.configure(behind_last=behind, metadata=metadata)
    assert len(client_with().list_websites()) == websites


@pytest.mark.parametrize("websites", [101, 201, 301])
def test_a_page_that_vanishes_while_the_list_is_read_is_a_list_that_moved(
    client_with: ClientWith, analytics_sandbox: SandboxServer, websites: int
) -> None:
    analytics_sandbox.seed(websites)
    analytics_sandbox.configure(behind_last="not found")
    analytics_sandbox.fault("list", commit=True, drift={"delete": 1})
    assert len(client_with().list_websites()) == websites - 1


QUERIES: dict[str, dict[str, Any]] = {
    "newest first": {},
    "oldest first": {"sort": "asc"},
    "by domain": {"sort_by": "domain", "sort": "asc"},
    "search": {"search": "example"},
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("metadata", ["meta", "none"])
@pytest.mark.parametrize(
    ("websites", "cap"),
    [(2, 1), (60, 30), (60, 59), (150, 97), (250, 100), (250, 113), (250, 150), (250, 240), (1050, 999)],
)
def test_rows_that_are_capped_at_any_number_are_noticed(
    client_with: ClientWith, analytics_sandbox: SandboxServer, websites: int, cap: int, metadata: str, query: str
) -> None:
    analytics_sandbox.seed(websites)
    analytics_sandbox.configure(total_cap=cap, row_cap=cap, metadata=metadata)
    with pytest.raises(IncompleteListError) as caught:
        client_with().list_websites(**QUERIES[query])
    assert caught.value.check in ("other end", "both directions")


def test_an_offset_in_the_links_is_followed() -> None:
    def respond(request: Request) -> bytes:
        offset = int(request.query.get("offset", "0"))
        ids = sorted(range(1, 251), reverse=request.query["sort"] == "desc")[offset : offset + 100]
        link = f"/api/v1/websites?offset={offset + 100}" if offset + 100 < 250 else None
        return http(200, {"results": [{"id": n} for n in ids], "count": 250, "next": link})

    with RawServer(respond) as server, client_of(server.url) as client:
        assert len(client.list_websites()) == 250


def page_of(query: dict[str, str], size: int, **meta: Any) -> dict[str, Any]:
    number, per_page = int(query.get("page", "1")), int(query["per_page"])
    ids = sorted(range(1, size + 1), reverse=query["sort"] == "desc")[(number - 1) * per_page : number * per_page]
    last = -(-size // per_page)
    numbers = {"total": size, "current_page": number, "last_page": last, "per_page": per_page}
    return {"data": [{"id": n, "domain": f"{n}.example"} for n in ids], "meta": {**numbers, **meta}}


LINKS: dict[str, Any] = {
    "another list": "/api/v1/websites/7/pages?page=2",
    "another path": "/other/websites?page=2",
    "another version": "https://127.0.0.1/api/v2/websites?page=2",
    "another port than there is": "http://127.0.0.1:x/api/v1/websites",
    "no query": "/api/v1/websites",
    "two parameters": "/api/v1/websites?page=2&token=x",
    "no link": "nonsense",
    "a number": 2,
    "an object": {"href": "/api/v1/websites?page=2"},
    "null": None,
}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_that_says_nothing_changes_nothing_and_is_never_followed(link: str) -> None:
    def respond(request: Request) -> bytes:
        body = page_of(request.query, 250)
        if int(request.query.get("page", "1")) < 3:
            body["links"] = {"next": LINKS[link]}
        return http(200, body)

    with RawServer(respond) as server, client_of(server.url) as client:
        assert len(client.list_websites()) == 250
        assert {request.target.partition("?")[0] for request in server.requests} == {"/api/v1/websites"}


def test_a_link_on_the_page_that_should_be_the_last_is_a_contradiction() -> None:
    def respond(request: Request) -> bytes:
        following = int(request.query.get("page", "1")) + 1
        return http(200, {**page_of(request.query, 250), "links": {"next": f"/api/v1/websites?page={following}"}})

    with (
        RawServer(respond) as server,
        client_of(server.url) as client,
        pytest.raises(IncompleteListError, match="page 3 completes the total of 250, but links") as caught,
    ):
        client.list_websites()
    assert caught.value.check == "next link"


def test_a_cursor_that_comes_again_ends_the_reading() -> None:
    def respond(request: Request) -> bytes:
        first = [1, 2] if "cursor" in request.query else [3, 4]
        if request.query["sort"] == "asc":
            first = [1, 2]
        return http(200, {"data": [{"id": n} for n in first], "next_cursor": "again"})

    with RawServer(respond) as server, client_of(server.url) as client:
        with pytest.raises(IncompleteListError, match="2 websites were found in one direction only"):
            list(client.iter_websites())
        assert len(server.requests) == 5


def test_a_long_list_tells_its_progress(
    client_with: ClientWith,
    analytics_sandbox: SandboxServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("airflow_provider_analytics.api.listing.PROGRESS_SECONDS", 0)
    caplog.set_level("INFO")
    analytics_sandbox.seed(1250)
    client_with().list_websites()
    assert "Reading: 1,200 of 1,250 websites" in caplog.messages


# Several requests at the same time


class Held:
    """Serves a list, and lets no page that can be read ahead go before so many requests wait at the same time.

    :param last: number of the last page that is held; a multiple of ``parties`` and one more.
    """

    def __init__(self, size: int, parties: int, last: int) -> None:
        self.size = size
        self.last = last
        self.most = self.now = 0
        self._lock = threading.Lock()
        self._barrier = threading.Barrier(parties)

    def __call__(self, request: Request) -> bytes:
        query = request.query
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        if 2 <= int(query.get("page", "1")) <= self.last:
            self._barrier.wait(30)
        with self._lock:
            self.now -= 1
        return http(200, page_of(query, self.size))


@pytest.mark.parametrize("parallel", [1, 2, 4, 16])
def test_so_many_pages_are_requested_at_the_same_time_and_given_out_in_order(parallel: int) -> None:
    last = 4 * parallel + 1
    size = last * 100 - 50
    service = Held(size, parallel, last)
    with RawServer(service) as server, client_of(server.url, parallel_requests=parallel) as client:
        for _ in range(2):
            assert [website["id"] for website in client.iter_websites()] == list(range(size, 0, -1))
        # Each is kept for the next list, when all of them are idle.
        assert server.connections == parallel
    assert service.most == parallel


def test_a_thread_that_has_its_page_begins_the_next_one_before_the_consumer_takes_it() -> None:
    others = threading.Barrier(2)

    def respond(request: Request) -> bytes:
        # Page 2 is held until pages 3 and 4 were asked for, both by the other one of two threads.
        if request.query.get("page") in ("2", "4"):
            others.wait(30)
        return http(200, page_of(request.query, 450))

    with RawServer(respond) as server, client_of(server.url, parallel_requests=2) as client:
        assert len(client.list_websites()) == 450
        # Held until it times out, page 2 would be asked for again.
        assert [request.query.get("page") for request in server.requests].count("2") == 1


def test_pages_that_come_at_once_are_read_by_the_thread_that_asks_until_one_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()  # as it is by default
    now = 0.0
    read_by: dict[int, str] = {}

    def fetch(query: Query, unwanted: threading.Event | None = None) -> Page:
        nonlocal now
        number = int(query.get("page", "1"))
        read_by.setdefault(number, threading.current_thread().name)
        now += 4 * AT_ONCE if number == 4 else 0
        found = page_of(query, 950)
        return Page(found["data"], total=950, current_page=number)

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    assert len(list(Listing(fetch, {}, parallel=4))) == 950
    here = threading.current_thread().name
    assert [number for number, name in sorted(read_by.items()) if name == here] == [1, 2, 3, 4]
    _join_readers()


IDS = st.one_of(
    st.integers(0, 300),
    st.integers(10**17, 10**19),
    st.integers(0, 300).map(str),
    st.sampled_from(["007", "-1", "7a", "7.0", "b9f1"]),
)


@given(st.lists(IDS, min_size=11, max_size=60, unique_by=str), st.data())
def test_ids_of_any_kind_are_told_apart(ids: list[int | str], data: st.DataObject) -> None:
    def fetch(query: Query) -> Page:
        at, size = int(query.get("page", "1")) - 1, int(query["per_page"])
        found = shown if query["sort"] == "desc" else shown[::-1]
        rows = [{"id": one} for one in found[at * size : (at + 1) * size]]
        return Page(rows, total=len(shown), current_page=at + 1)

    shown = ids
    assert [row["id"] for row in Listing(fetch, {"per_page": "10"})] == ids
    shown = [*ids, data.draw(st.sampled_from(ids))]
    with pytest.raises(IncompleteListError, match=r"of earlier pages|websites were found"):
        list(Listing(fetch, {"per_page": "10"}))


def test_no_request_is_begun_and_no_thread_left_once_the_consumer_stops_or_a_page_fails() -> None:
    def whole(request: Request) -> bytes:
        return http(200, page_of(request.query, 5000))

    with RawServer(whole) as server, client_of(server.url, parallel_requests=4) as client:
        assert len(list(islice(client.iter_websites(), 150))) == 150
        _join_readers()
        # Two pages were taken, and as many are ahead as two for each of four threads.
        assert len(server.requests) <= 10

    def failing(request: Request) -> bytes:
        query = request.query
        return http(403) if query.get("page") == "3" else http(200, page_of(query, 5000))

    with RawServer(failing) as server, client_of(server.url, parallel_requests=4) as client:
        with pytest.raises(AnalyticsApiError):
            client.list_websites()
        _join_readers()
        assert len(server.requests) <= 10


def test_a_list_that_is_dropped_ends_at_once() -> None:
    def respond(request: Request) -> bytes:
        return http(200, page_of(request.query, 5000))

    with RawServer(respond) as server, client_of(server.url, parallel_requests=4) as client:
        gc.disable()
        try:
            for website in client.iter_websites():
                if website["id"] < 4850:
                    break
            _join_readers()
        finally:
            gc.enable()
        assert len(server.requests) <= 10


def test_an_id_that_repeats_the_key_is_in_no_error_and_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")

    def respond(request: Request) -> bytes:
        return http(200, {"data": [{"id": KEY}, {"id": KEY}], "meta": {"total": 2}})

    with RawServer(respond) as server, client_of(server.url) as client:
        with pytest.raises(UnexpectedResponseError, match="shows the API key in an id or in a domain") as caught:
            client.list_websites()
        assert KEY not in repr(caught.value) + str(caught.value) + caplog.text


def test_a_page_that_was_told_to_wait_is_given_up_once_another_one_fails() -> None:
    asked, is_told = 50, threading.Event()

    def respond(request: Request) -> bytes:
        page = request.query.get("page")
        if page == "3":
            is_told.set()
            return http(429, headers=[("Retry-After", str(asked))])
        if page == "2":
            assert is_told.wait(30)
            return http(403)
        return http(200, page_of(request.query, 5000))

    with RawServer(respond) as server:
        settings = Settings(base_url=server.url, api_key=KEY)
        began = time.monotonic()
        with AnalyticsClient(settings, Transport(settings)) as client, pytest.raises(AnalyticsApiError):
            client.list_websites()
        assert time.monotonic() - began < asked / 2
        _join_readers()
        assert [request.query.get("page") for request in server.requests].count("3") == 1


class StoppedError(BaseException):
    """As Airflow raises it where a task is stopped or times out."""


def test_a_task_that_is_stopped_waits_for_nothing_and_nothing_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = threading.Event()

    def respond(request: Request) -> bytes | Reply:
        if "page" not in request.query:
            return http(200, page_of(request.query, 5000))
        waiting.set()
        return Reply(then="hang")

    def stop(_: Any) -> None:
        assert waiting.wait(30)
        raise StoppedError

    monkeypatch.setattr("concurrent.futures.Future.result", stop)
    time = Time()
    with RawServer(respond) as server, client_of(server.url, time, timeout=0.3, parallel_requests=4) as client:
        with pytest.raises(StoppedError):
            client.list_websites()
        _join_readers()
        # Page 1, and the four that were read ahead.
        assert len(server.requests) <= 5
    assert time.slept == []


def _join_readers() -> None:
    """Wait for the threads that read ahead: each ends with the request that it has begun."""
    for thread in threading.enumerate():
        if thread.name.startswith("analytics-list"):
            thread.join(30)
            assert not thread.is_alive()


def test_retry_after_of_a_page_holds_for_all_of_them() -> None:
    time = Time()
    refused = threading.Event()

    def respond(request: Request) -> bytes:
        query = request.query
        if query.get("page") == "3" and not refused.is_set():
            refused.set()
            return http(429, headers=[("Retry-After", "20")])
        return http(200, page_of(query, 950))

    with RawServer(respond) as server, client_of(server.url, time, parallel_requests=2) as client:
        assert len(client.list_websites()) == 950
    assert max(time.slept) == 20.0
    assert time.now >= 1020.0


@pytest.mark.parametrize("totals", [[60], [60, 61]], ids=["the same each time", "another one each time"])
def test_a_list_that_does_not_fit_is_called_changed_only_if_it_changed(totals: list[int]) -> None:
    readings = 0

    def respond(request: Request) -> bytes:
        nonlocal readings
        readings += "page" not in request.query
        rows = [{"id": number, "domain": f"{number}.example"} for number in range(30, 0, -1)]
        return http(200, {"data": rows, "meta": {"total": totals[readings % len(totals)]}})

    with (
        RawServer(respond) as server,
        client_of(server.url) as client,
        pytest.raises(IncompleteListError) as caught,
    ):
        client.list_websites()
    assert ("The list changed during each reading." in str(caught.value)) == (len(totals) > 1)
