"""Records that say that their website is deleted: they count for the proof of the list, and no one gets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from raw_server import RawServer, Request, http
from wire_client import client_of

from airflow_provider_analytics.exceptions import IncompleteListError, NotFoundError
from airflow_provider_analytics.snapshots.manifest import ListSource
from airflow_provider_analytics.snapshots.take import Origin, SnapshotOptions, read

Record = dict[str, Any]

GONE = {"deleted_at": "2026-11-20"}
DELETED: list[Record] = [
    {"deleted": True},
    {"deleted": 1},
    {"deleted": "true"},
    {"deleted_at": "2026-11-20T03:00:00Z"},
    {"deleted_at": 1_795_000_000},
    {"deleted": False, "deleted_at": "2026-11-20"},
]
NOT_DELETED: list[Record] = [
    {"deleted": False},
    {"deleted": 0},
    {"deleted": None},
    {"deleted": ""},
    {"deleted": "false"},
    {"deleted": "0"},
    {"deleted_at": None},
    {"deleted_at": "null"},
    {"deleted_at": "0000-00-00 00:00:00"},
    {"status": "active"},
    {"status": None},
    {"status": 1},
]


def records(size: int, marks: Mapping[int, Record]) -> list[Record]:
    return [{"id": n, "domain": f"{n}.example", "favorite": n % 2 == 0, **marks.get(n, {})} for n in range(1, size + 1)]


def service(stored: list[Record], total: int | None) -> Callable[[Request], bytes]:
    """Return a service that shows these records, with this total."""

    def respond(request: Request) -> bytes:
        website_id = request.target.partition("?")[0].removeprefix("/api/v1/websites").removeprefix("/")
        if website_id:
            return http(200, {"data": next(one for one in stored if str(one["id"]) == website_id)})
        query = request.query
        found = [one for one in stored if query.get("search", "") in one["domain"]]
        found.sort(key=lambda one: one[query["sort_by"]], reverse=query["sort"] == "desc")
        size, page = int(query["per_page"]), int(query.get("page", "1"))
        counted = len(found) if total == len(stored) else total
        meta = {"current_page": page} | ({} if total is None else {"total": counted})
        return http(200, {"data": found[(page - 1) * size : page * size], "meta": meta})

    return respond


@pytest.mark.parametrize("mark", DELETED, ids=str)
def test_a_record_that_says_so_is_deleted(mark: Record) -> None:
    with RawServer(service(records(3, {2: mark}), 3)) as server, client_of(server.url) as client:
        listing = client.iter_websites()
        assert [website["id"] for website in listing] == [3, 1]
        assert listing.proof is not None
        assert (listing.proof.websites, listing.proof.total) == (2, 3)
        with pytest.raises(NotFoundError, match="the record says that the website is deleted"):
            client.get_website(2)
        with pytest.raises(NotFoundError):
            client.change_website(2, lambda record: {"email": True})
        assert "PATCH /api/v1/websites/2" not in server.sent
        assert client.is_gone("2")


@pytest.mark.parametrize("mark", NOT_DELETED, ids=str)
def test_a_record_that_does_not_say_so_is_there(mark: Record) -> None:
    stored = records(3, {2: mark})
    with RawServer(service(stored, 3)) as server, client_of(server.url) as client:
        assert client.list_websites() == stored[::-1]
        assert client.get_website(2) == stored[1]


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("query", [{}, {"sort": "asc"}, {"sort_by": "domain"}, {"per_page": 10}], ids=str)
@pytest.mark.parametrize("deleted", [{250}, {1}, {*range(101, 201)}, {*range(1, 251)}, {*range(1, 251, 2)}], ids=len)
def test_a_list_of_several_pages_has_no_deleted_website(
    deleted: set[int], query: dict[str, Any], counted: bool
) -> None:
    stored = records(250, dict.fromkeys(deleted, GONE))
    with RawServer(service(stored, 250 if counted else None)) as server, client_of(server.url) as client:
        assert {website["id"] for website in client.list_websites(**query)} == set(range(1, 251)) - deleted


@pytest.mark.parametrize("size", [60, 250])
def test_a_list_of_favorites_has_none_either(size: int) -> None:
    stored = [{**one, "favorite": True} for one in records(size, {4: {"deleted": True}, 7: {"deleted": True}})]
    expected = {one["id"] for one in stored} - {4, 7}
    with RawServer(service(stored, size)) as server, client_of(server.url) as client:
        listing = client.iter_websites(favorite=True)
        assert {website["id"] for website in listing} == expected
        assert listing.proof is not None
        assert (listing.proof.websites, listing.proof.total) == (len(expected), size)


@pytest.mark.parametrize("query", [{}, {"sort": "asc"}, {"sort_by": "domain"}], ids=str)
@pytest.mark.parametrize(
    ("size", "deleted"),
    [(30, {1}), (30, {30}), (100, {50}), (101, {1}), (110, set(range(1, 11))), (250, {1, 2, 3}), (300, {300})],
    ids=str,
)
def test_a_total_that_leaves_out_deleted_websites_is_refused(size: int, deleted: set[int], query: Any) -> None:
    """Up to that total, the rows are only a part of the list."""
    stored = records(size, dict.fromkeys(deleted, GONE))
    with (
        RawServer(service(stored, size - len(deleted))) as server,
        client_of(server.url) as client,
        pytest.raises(IncompleteListError) as caught,
    ):
        client.list_websites(**query)
    assert caught.value.check in ("total", "other end")


def test_a_domain_is_looked_up_among_the_websites_that_exist() -> None:
    stored = records(5, {2: {"deleted": True}, 4: {"deleted": True, "domain": "5.example"}})
    with RawServer(service(stored, 5)) as server, client_of(server.url) as client:
        assert client.find_website("2.example") is None
        found = client.find_website("5.example")
        assert found is not None
        assert found["id"] == 5


def test_a_snapshot_has_none_and_its_count_agrees(tmp_path: Path) -> None:
    stored = records(150, dict.fromkeys(range(1, 51), GONE))
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    with RawServer(service(stored, 150)) as server, client_of(server.url) as client:
        origin = Origin(client.iter_websites, ListSource(url=server.url, account_id="1"), client.stats)
        reading = read(origin, date(2026, 11, 20), tmp_path, now=noon, options=SnapshotOptions(), clock=lambda: noon)
    assert reading.count == reading.proof.websites == 100
    assert len(reading.data.read_text().splitlines()) == 100
    assert reading.proof.total == 150
