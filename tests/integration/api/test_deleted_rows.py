"""Records that say that their website is deleted: they count for the proof of the list, and no one gets them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
from raw_server import answer_read, rows
from wire_client import error_of, served

from airflow_provider_analytics.exceptions import IncompleteListError, NotFoundError

Record = dict[str, Any]

DELETED: list[Record] = [
    {"deleted": True}, {"deleted": 1}, {"deleted": "true"}, {"deleted_at": "2026-11-20T03:00:00Z"},
    {"deleted_at": 1_795_000_000}, {"deleted": False, "deleted_at": "2026-11-20"},
]  # fmt: skip
NOT_DELETED: list[Record] = [
    {"deleted": False}, {"deleted": 0}, {"deleted": None}, {"deleted": ""}, {"deleted": "false"}, {"deleted": "0"},
    {"deleted_at": None}, {"deleted_at": "null"}, {"deleted_at": "0000-00-00 00:00:00"}, {"status": "active"},
    {"status": None}, {"status": 1},
]  # fmt: skip


def records(size: int, deleted: Iterable[int], mark: Record, **fields: Any) -> list[Record]:
    return [{**one, **(mark if one["id"] in deleted else {})} for one in rows(*range(1, size + 1), **fields)]


def service(stored: list[Record], **meta: Any) -> Callable[..., bytes]:
    return partial(answer_read, records=stored, **meta)


@pytest.mark.parametrize("mark", DELETED, ids=str)
def test_a_record_that_says_so_is_deleted(mark: Record) -> None:
    with served(service(records(3, {2}, mark))) as (client, server):
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
        assert client.find_website("2.example") is None


@pytest.mark.parametrize("mark", NOT_DELETED, ids=str)
def test_a_record_that_does_not_say_so_is_there(mark: Record) -> None:
    stored = records(3, {2}, mark)
    with served(service(stored)) as (client, _):
        assert client.list_websites() == stored[::-1]
        assert client.get_website(2) == stored[1]


@pytest.mark.parametrize("query", [{}, {"sort": "asc"}, {"sort_by": "domain"}], ids=str)
@pytest.mark.parametrize(
    ("size", "deleted"),
    [(30, {1}), (30, {30}), (100, {50}), (101, {1}), (110, set(range(1, 11))), (250, {1, 2, 3}), (300, {300})],
    ids=str,
)
def test_a_total_that_leaves_out_deleted_websites_is_refused(size: int, deleted: set[int], query: Any) -> None:
    """Up to that total, the rows are only a part of the list."""
    respond = service(records(size, deleted, DELETED[3]), total=size - len(deleted))
    error = error_of(respond, lambda client: client.list_websites(**query), IncompleteListError)
    assert error.check in ("total", "other end")


def test_a_domain_is_looked_up_among_the_websites_that_exist() -> None:
    with served(service([*records(5, {4}, {"deleted": True, "domain": "5.example"})])) as (client, _):
        found = client.find_website("5.example")
        assert found is not None
        assert found["id"] == 5
