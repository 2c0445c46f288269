"""The options of ``tests/support/zoo.py`` change the answers as they say, on the wire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_types import Call
from operations import WRITES, endpoints
from zoo import Zoo, ZooOptions

from airflow_provider_analytics.sandbox.options import Options

METADATA = {"current_page", "per_page", "last_page", "from", "to", "total", "path"}
LINKS = {"links", "first_page_url", "last_page_url", "prev_page_url", "next_page_url"}


@pytest.fixture(scope="module")
def _analytics_sandbox_server() -> Iterator[Zoo]:
    with Zoo() as server:
        yield server


@pytest.fixture
def three(analytics_sandbox: Zoo) -> Zoo:
    """A sandbox with three websites."""
    for domain in ("shop.example", "shopping.example", "www.shop.example"):
        analytics_sandbox.add_website(domain, favorite=domain == "shopping.example")
    return analytics_sandbox


def at(body: Any, path: str) -> Any:
    """Return what stands at a path of a JSON document, such as ``meta.total``."""
    for part in filter(None, path.split(".")):
        body = body[part]
    return body


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


@pytest.mark.parametrize(
    ("options", "place", "beside"),
    [
        ({}, "data", {"links", "meta"}),
        ({"list_key": "websites"}, "websites", {"links", "meta"}),
        ({"metadata": "flat"}, "data", METADATA | LINKS),
        ({"metadata": "none"}, "data", set()),
        ({"links": "absent"}, "data", {"meta"}),
        ({"links": "absent", "metadata": "flat"}, "data", METADATA),
        ({"list_key": "data.data", "metadata": "flat"}, "data.data", set()),
        *(({"list_key": None, "metadata": metadata}, "", set()) for metadata in ("meta", "flat", "none")),
    ],
    ids=str,
)
def test_where_a_list_stands(call: Call, three: Zoo, options: dict[str, Any], place: str, beside: set[str]) -> None:
    three.configure(**options)
    body = call("GET", "/websites").json()
    assert ids(at(body, place)) == [3, 2, 1]
    assert set(body if place else ()) - {place.partition(".")[0]} == beside
    if "meta" in beside:
        assert set(body["meta"]) == METADATA | ({"links"} if "links" in beside else set())


@pytest.mark.parametrize("key", ["data", "website", None])
def test_a_record_bare_or_under_a_key(call: Call, three: Zoo, key: str | None) -> None:
    three.configure(record_key=key)
    requests = [("GET", "/websites/1"), ("PATCH", "/websites/1"), ("POST", "/websites"), ("GET", "/account")]
    for method, path in requests:
        body = call(method, path, data={"domain": "d.example"} if method == "POST" else {}).json()
        assert "id" in at(body, key or "")
        assert key is None or list(body) == [key]


#: Options, the request, where in the response, and what stands there.
SHOWN: list[tuple[dict[str, Any], str, str, Any]] = [
    ({"numbers_as_text": True}, "/websites", "meta.total", "3"),
    ({"numbers_as_text": True}, "/websites/1", "data.id", "1"),
    ({"numbers_as_text": True}, "/websites/1", "data.favorite", False),
    *(
        ({"favorite_as": how}, "/websites/1", "data.favorite", value)
        for how, value in (("boolean", False), ("integer", 0), ("text", "false"), ("null", None))
    ),
    ({"flags_as": "boolean", "numbers_as_text": True}, "/websites/1", "data.exclude_bots", True),
    ({"flags_as": "boolean", "numbers_as_text": True}, "/websites/1", "data.privacy", "0"),
    *(
        ({"metadata": metadata, "total_offset": offset}, "/websites", f"{place}total", total)
        for metadata, place in (("meta", "meta."), ("flat", ""))
        for offset, total in ((0, 3), (2, 5), (-3, 0))
    ),
    *(
        ({"current_page": how, "ignored": {"page"}}, "/websites?page=2", "meta.current_page", number)
        for how, number in (("served", 1), ("asked", 2), ("wrong", 3))
    ),
    ({"extra_fields": {"url": "https://{domain}/"}}, "/websites/1", "data.url", "https://shop.example/"),
]


@pytest.mark.parametrize(("options", "path", "place", "value"), SHOWN, ids=str)
def test_what_a_response_shows(
    call: Call, three: Zoo, options: dict[str, Any], path: str, place: str, value: Any
) -> None:
    three.configure(**options)
    found = at(call("GET", path).json(), place)
    assert (found, type(found)) == (value, type(value))


#: Options, the query, and the websites of the list.
LISTED: list[tuple[dict[str, Any], str, list[int]]] = [
    ({"page_parameter": "p"}, "p=2", []),
    ({"ignored": {"page"}}, "page=2", [3, 2, 1]),
    ({"ignored": {"sort"}}, "sort=asc", [3, 2, 1]),
    ({"ignored": {"sort"}}, "sort_by=domain&sort=asc", [3, 2, 1]),
    ({"ignored": {"search"}}, "search=nothing", [3, 2, 1]),
    ({"ignored": {"favorite"}}, "favorite=true", [3, 2, 1]),
    ({"search_matches": "part"}, "search=SHOP", [3, 2, 1]),
    ({"search_matches": "start"}, "search=SHOP", [2, 1]),
    ({"search_matches": "label"}, "search=SHOP", [3, 1]),
    ({"search_matches": "nothing"}, "search=SHOP", []),
    *(({"favorite_filter": "truth of text"}, f"favorite={text}", [2]) for text in ("false", "true")),
    *(({"favorite_filter": "truth of text"}, f"favorite={text}", [3, 1]) for text in ("0", "")),
    ({"strict_parameters": False}, "colour=red", [3, 2, 1]),
]


@pytest.mark.parametrize(("options", "query", "found"), LISTED, ids=str)
def test_what_a_list_finds(call: Call, three: Zoo, options: dict[str, Any], query: str, found: list[int]) -> None:
    three.configure(**options)
    assert ids(call("GET", f"/websites?{query}").json()["data"]) == found
    assert call("GET", "/websites?sort=up").status_code == 422


@pytest.mark.parametrize(
    ("options", "sizes", "last"),
    [
        ({}, [30, 30, 5], 3),
        ({"page_size_limit": None, "ignored": {"per_page"}}, [65, 0, 0], 1),
        ({"page_size_limit": 25, "ignored": {"per_page"}}, [25, 25, 15], 3),
        ({"page_size_limit": 10}, [10, 10, 10], 7),
        ({"total_cap": 40}, [30, 30, 5], 2),
        ({"row_cap": 40}, [30, 10, 0], 3),
    ],
    ids=str,
)
def test_the_pages_of_a_list(
    call: Call, analytics_sandbox: Zoo, options: dict[str, Any], sizes: list[int], last: int
) -> None:
    analytics_sandbox.seed(65)
    analytics_sandbox.configure(**{"page_size_limit": 30, **options})
    pages = [call("GET", f"/websites?page={page}").json() for page in (1, 2, 3)]
    assert [len(page["data"]) for page in pages] == sizes
    assert pages[0]["meta"]["last_page"] == last
    assert (pages[1]["links"]["next"] is None) == (last <= 2)


def test_a_page_may_be_another_than_is_asked_for(call: Call, analytics_sandbox: Zoo) -> None:
    analytics_sandbox.seed(30)
    analytics_sandbox.configure(page_offset=-1)
    pages = [call("GET", f"/websites?per_page=10&page={page}").json() for page in (1, 2, 3)]
    assert [(page["data"][0]["id"], page["meta"]["current_page"]) for page in pages] == [(30, 1), (30, 1), (20, 2)]


@pytest.mark.parametrize("paginator", ["length", "simple", "cursor"])
@pytest.mark.parametrize(("metadata", "place"), [("meta", "links.next"), ("flat", "next_page_url")])
@pytest.mark.parametrize("first_page", [0, 1])
def test_links_lead_from_page_to_page_and_keep_the_query(
    call: Call, analytics_sandbox: Zoo, paginator: str, metadata: str, place: str, first_page: int
) -> None:
    analytics_sandbox.seed(35)
    analytics_sandbox.configure(paginator=paginator, metadata=metadata, first_page=first_page, page_parameter="p")
    found, link = [], "/api/v1/websites?per_page=10&sort=asc"
    while link:
        body = call("GET", link.partition("/api/v1")[2]).json()
        found += ids(body["data"])
        link = at(body, place)
    assert found == list(range(1, 36))


def test_records_of_a_list_can_lack_fields(call: Call, three: Zoo) -> None:
    three.configure(list_hides={"favorite", "exclude_ips"})
    (row, *_) = call("GET", "/websites").json()["data"]
    assert call("GET", "/websites/1").json()["data"].keys() - row.keys() == {"favorite", "exclude_ips"}


# Writes


@pytest.mark.parametrize("status", [200, 201, 202, 204])
@pytest.mark.parametrize(("operation", "method", "path"), endpoints(*WRITES))
@pytest.mark.parametrize("empty", [True, False])
def test_write_statuses_and_empty_answers(
    call: Call, three: Zoo, operation: str, method: str, path: str, status: int, empty: bool
) -> None:
    three.configure(**{f"{operation}_status": status, "empty_answers": {operation} if empty else set()})
    answer = call(method, path, data={"domain": "d.example"} if operation == "create" else {})
    assert (answer.status_code, answer.content == b"") == (status, empty or status == 204)
    assert len(three.websites()) == {"create": 4, "update": 3, "delete": 2}[operation]


@pytest.mark.parametrize(
    ("how", "sent", "stored"),
    [
        ("sent", "WWW.Bücher.example", "WWW.Bücher.example"),
        ("ascii", "bücher.example", "xn--bcher-kva.example"),
        ("unicode", "xn--bcher-kva.example", "bücher.example"),
        ("lower", "WWW.Example.com", "www.example.com"),
        ("without www", "www.example.com", "example.com"),
    ],
)
def test_how_a_domain_is_stored(call: Call, analytics_sandbox: Zoo, how: str, sent: str, stored: str) -> None:
    analytics_sandbox.configure(domain_as=how)
    assert call("POST", "/websites", data={"domain": sent}).json()["data"]["domain"] == stored


def test_fields_can_be_accepted_and_not_stored(call: Call, three: Zoo) -> None:
    three.configure(ignored_fields={"privacy"})
    record = call("PATCH", "/websites/1", data={"privacy": "1", "email": "1"}).json()["data"]
    assert (record["privacy"], record["email"]) == (0, 1)
    three.configure(strict_parameters=False, message_answers={"update"})
    answer = call("PATCH", "/websites/1", data={"email": "0", "colour": "red"})
    assert answer.json() == {"message": "The update was successful."}
    assert three.websites()[0]["email"] == 0


def test_a_proxy_can_ask_for_headers(call: Call, three: Zoo) -> None:
    three.configure(required_headers={"CF-Access-Client-Id": "team"})
    refused = call("GET", "/account")
    assert (refused.status_code, refused.headers["CF-Ray"]) == (403, "8f00sandbox-AMS")
    assert "<title>Access denied</title>" in refused.text
    assert call("GET", "/account", headers={"CF-Access-Client-Id": "team"}).status_code == 200


# Options


@pytest.mark.parametrize(
    "options",
    [
        {"colour": "red"},
        {"metadata": "elsewhere"},
        {"ignored": {"colour"}},
        {"ignored_fields": {"privcy"}},
        {"create_status": 500},
        {"total": "maybe"},
        {"preset": "x"},
    ],
    ids=str,
)
def test_a_wrong_option_is_an_error_and_changes_nothing(analytics_sandbox: Zoo, options: dict[str, Any]) -> None:
    before = analytics_sandbox.options
    with pytest.raises(ValueError, match=next(iter(options))):
        analytics_sandbox.configure(**options)
    assert analytics_sandbox.options == before


@pytest.mark.repository
@pytest.mark.parametrize("option", sorted(ZooOptions.model_fields.keys() - Options.model_fields.keys()))
def test_a_test_of_the_package_plays_each_option(option: str) -> None:
    used = re.compile(rf'\b{option}("\]?: |=)')
    paths = Path(__file__).parents[2].rglob("*.py")
    others = (path for path in paths if path.parent.name != "sandbox" and path.name != "zoo.py")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in others)
