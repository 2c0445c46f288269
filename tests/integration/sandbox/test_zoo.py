"""The options of ``tests/support/zoo.py`` change the answers as they say, on the wire."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from fixture_types import Call
from operations import WRITES, endpoints
from zoo import Zoo, ZooOptions

from airflow_provider_analytics.sandbox.options import Options

METADATA = {"current_page", "per_page", "last_page", "from", "to", "total", "path"}
LINKS = {"links", "first_page_url", "last_page_url", "prev_page_url", "next_page_url"}


def ids(answer: requests.Response, key: str | None = "data") -> list[int]:
    body = answer.json()
    return [website["id"] for website in (body if key is None else body[key])]


@pytest.fixture(scope="module")
def _analytics_sandbox_server() -> Iterator[Zoo]:
    with Zoo() as server:
        yield server


@pytest.fixture
def three(analytics_sandbox: Zoo) -> Zoo:
    """A sandbox with three websites."""
    for domain in ("c.example", "a.example", "b.example"):
        analytics_sandbox.add_website(domain)
    return analytics_sandbox


@pytest.mark.parametrize("key", ["data", "websites"])
@pytest.mark.parametrize("metadata", ["meta", "flat", "none"])
def test_an_enveloped_list(call: Call, three: Zoo, key: str, metadata: str) -> None:
    three.configure(list_key=key, metadata=metadata)

    body = call("GET", "/websites").json()

    assert [website["id"] for website in body.pop(key)] == [3, 2, 1]
    if metadata == "meta":
        assert set(body) == {"links", "meta"}
        assert set(body["meta"]) == METADATA | {"links"}
    else:
        assert set(body) == (METADATA | LINKS if metadata == "flat" else set())


@pytest.mark.parametrize("metadata", ["meta", "flat", "none"])
def test_a_bare_list_has_no_metadata(call: Call, three: Zoo, metadata: str) -> None:
    three.configure(list_key=None, metadata=metadata)

    assert [website["id"] for website in call("GET", "/websites").json()] == [3, 2, 1]


@pytest.mark.parametrize("key", ["data", "website", None])
def test_a_record_bare_or_under_a_key(call: Call, three: Zoo, key: str | None) -> None:
    three.configure(record_key=key)
    answers = [
        call("GET", "/websites/1"),
        call("PATCH", "/websites/1"),
        call("POST", "/websites", data={"domain": "d.example"}),
        call("GET", "/account"),
    ]

    for answer in answers:
        body = answer.json()
        assert "id" in (body if key is None else body[key])
        assert key is None or list(body) == [key]


def test_numbers_as_text(call: Call, three: Zoo) -> None:
    three.configure(numbers_as_text=True)

    body = call("GET", "/websites").json()
    record = call("GET", "/websites/1").json()["data"]

    assert body["meta"]["total"] == "3"
    assert body["meta"]["current_page"] == "1"
    assert (record["id"], record["privacy"], record["exclude_bots"], record["favorite"]) == ("1", "0", "1", False)
    assert call("DELETE", "/websites/1").json() == {"id": "1", "object": "website", "deleted": True}


@pytest.mark.parametrize(
    ("rendering", "value"), [("boolean", False), ("integer", 0), ("text", "false"), ("null", None)]
)
def test_favorite_rendering(call: Call, three: Zoo, rendering: str, value: object) -> None:
    three.configure(favorite_as=rendering)

    rendered = call("GET", "/websites/1").json()["data"]["favorite"]

    assert (rendered, type(rendered)) == (value, type(value))


def test_flags_rendering(call: Call, three: Zoo) -> None:
    three.configure(flags_as="boolean", numbers_as_text=True)

    record = call("GET", "/websites/1").json()["data"]

    assert (record["email"], record["exclude_bots"], record["privacy"]) == (False, True, "0")


@pytest.mark.parametrize("status", [200, 201, 202, 204])
@pytest.mark.parametrize(
    ("operation", "method", "path"),
    endpoints(*WRITES),
)
@pytest.mark.parametrize("empty", [True, False])
def test_write_statuses_and_empty_answers(
    call: Call, three: Zoo, operation: str, method: str, path: str, status: int, empty: bool
) -> None:
    three.configure(**{f"{operation}_status": status, "empty_answers": {operation} if empty else set()})

    answer = call(method, path, data={"domain": "d.example"} if operation == "create" else {})

    assert answer.status_code == status
    assert (answer.content == b"") == (empty or status == 204)
    assert len(three.websites()) == {"create": 4, "update": 3, "delete": 2}[operation]


def test_the_page_parameter_may_have_another_name(call: Call, three: Zoo) -> None:
    three.configure(page_parameter="p")

    assert ids(call("GET", "/websites?p=2")) == []
    assert call("GET", "/websites?page=2").status_code == 422


@pytest.mark.parametrize(
    ("ignored", "query", "found"),
    [
        ("page", "page=2", [3, 2, 1]),
        ("sort", "sort=asc", [3, 2, 1]),
        ("sort", "sort_by=domain", [3, 2, 1]),
        ("search", "search=nothing", [3, 2, 1]),
        ("favorite", "favorite=true", [3, 2, 1]),
    ],
)
def test_an_ignored_parameter_is_checked_and_has_no_effect(
    call: Call, three: Zoo, ignored: str, query: str, found: list[int]
) -> None:
    assert ids(call("GET", f"/websites?{query}")) != found

    three.configure(ignored={ignored})

    assert ids(call("GET", f"/websites?{query}")) == found
    assert call("GET", "/websites?sort=up").status_code == 422


def test_without_per_page_a_page_holds_the_whole_list(call: Call, analytics_sandbox: Zoo) -> None:
    analytics_sandbox.seed(120)
    analytics_sandbox.configure(ignored={"per_page"})

    first, second = (call("GET", f"/websites?per_page=10&page={page}") for page in (1, 2))

    assert ids(first) == list(range(120, 0, -1))
    assert first.json()["meta"]["last_page"] == 1
    assert ids(second) == []


@pytest.mark.parametrize("ignored", [set(), {"per_page"}])
def test_a_page_size_limit(call: Call, analytics_sandbox: Zoo, ignored: set[str]) -> None:
    analytics_sandbox.seed(65)
    analytics_sandbox.configure(page_size_limit=30, ignored=ignored)

    third = call("GET", "/websites?page=3")

    assert ids(third) == [5, 4, 3, 2, 1]
    assert (third.json()["meta"]["per_page"], third.json()["meta"]["last_page"]) == (30, 3)
    asked_less = 30 if ignored else 10
    assert len(ids(call("GET", "/websites?per_page=10"))) == asked_less


def test_page_offset(call: Call, analytics_sandbox: Zoo) -> None:
    analytics_sandbox.seed(30)
    analytics_sandbox.configure(page_offset=-1)

    answers = [call("GET", f"/websites?per_page=10&page={page}") for page in (1, 2, 3)]

    assert [ids(answer)[0] for answer in answers] == [30, 30, 20]
    assert [answer.json()["meta"]["current_page"] for answer in answers] == [1, 1, 2]


@pytest.mark.parametrize("metadata", ["meta", "flat"])
@pytest.mark.parametrize(("offset", "total"), [(0, 3), (2, 5), (-3, 0)])
def test_a_wrong_total(call: Call, three: Zoo, metadata: str, offset: int, total: int) -> None:
    three.configure(total_offset=offset, metadata=metadata)

    body = call("GET", "/websites").json()

    assert (body["meta"] if metadata == "meta" else body)["total"] == total


@pytest.mark.parametrize(("rendering", "number"), [("served", 1), ("asked", 2), ("wrong", 3), ("absent", None)])
def test_the_page_number_in_the_metadata(call: Call, three: Zoo, rendering: str, number: int | None) -> None:
    three.configure(current_page=rendering, ignored={"page"})

    assert call("GET", "/websites?page=2").json()["meta"].get("current_page") == number


@pytest.mark.parametrize(
    "options",
    [
        {"colour": "red"},
        {"metadata": "elsewhere"},
        {"ignored": {"colour"}},
        {"create_status": 500},
        {"total": "maybe"},
        {"preset": "x"},
    ],
)
def test_a_wrong_option_is_an_error_and_changes_nothing(analytics_sandbox: Zoo, options: dict[str, Any]) -> None:
    before = analytics_sandbox.options

    with pytest.raises(ValueError, match=next(iter(options))):
        analytics_sandbox.configure(**options)

    assert analytics_sandbox.options == before


def walk(call: Call, link: str | None, read: Callable[[Any], str | None]) -> list[int]:
    """Follow the links that pages name, and return the ids in the order of the pages."""
    ids: list[int] = []
    while link:
        body = call("GET", link.partition("/api/v1")[2]).json()
        ids += [website["id"] for website in body["data"]]
        link = read(body)
    return ids


@pytest.mark.parametrize("paginator", ["length", "simple", "cursor"])
@pytest.mark.parametrize("metadata", ["meta", "flat"])
@pytest.mark.parametrize("first_page", [0, 1])
def test_links_lead_from_page_to_page_and_keep_the_query(
    call: Call, analytics_sandbox: Zoo, paginator: str, metadata: str, first_page: int
) -> None:
    analytics_sandbox.seed(35)
    analytics_sandbox.configure(paginator=paginator, metadata=metadata, first_page=first_page, page_parameter="p")
    ids = walk(
        call,
        "/api/v1/websites?per_page=10&sort=asc",
        lambda body: body["links"]["next"] if metadata == "meta" else body["next_page_url"],
    )
    assert ids == list(range(1, 36))


def test_links_can_be_absent(call: Call, three: Zoo) -> None:
    three.configure(links="absent")
    assert set(call("GET", "/websites").json()) == {"data", "meta"}
    three.configure(metadata="flat")
    assert set(call("GET", "/websites").json()) == {"data", *METADATA}


def test_a_list_in_an_object_in_an_object(call: Call, three: Zoo) -> None:
    three.configure(list_key="data.data", metadata="flat")
    body = call("GET", "/websites").json()
    assert set(body) == {"data"}
    assert len(body["data"]["data"]) == body["data"]["total"] == 3


def test_a_capped_total(call: Call, analytics_sandbox: Zoo) -> None:
    analytics_sandbox.seed(35)
    analytics_sandbox.configure(total_cap=20)
    body = call("GET", "/websites?per_page=10&page=2").json()
    assert (body["meta"]["total"], body["meta"]["last_page"], body["links"]["next"]) == (20, 2, None)
    assert len(call("GET", "/websites?per_page=10&page=3").json()["data"]) == 10


@pytest.mark.parametrize(
    ("matches", "found"), [("part", {1, 2, 3}), ("start", {1, 2}), ("label", {1, 3}), ("nothing", set())]
)
def test_what_a_search_matches(call: Call, analytics_sandbox: Zoo, matches: str, found: set[int]) -> None:
    for domain in ("shop.example", "shopping.example", "www.shop.example", "blog.example"):
        analytics_sandbox.add_website(domain)
    analytics_sandbox.configure(search_matches=matches)
    assert {website["id"] for website in call("GET", "/websites?search=SHOP").json()["data"]} == found


@pytest.mark.parametrize(("text", "found"), [("false", {1}), ("0", {2}), ("true", {1}), ("", {2})])
def test_favorite_by_the_truth_of_text(call: Call, analytics_sandbox: Zoo, text: str, found: set[int]) -> None:
    analytics_sandbox.add_website("a.example", favorite=True)
    analytics_sandbox.add_website("b.example")
    analytics_sandbox.configure(favorite_filter="truth of text")
    assert {website["id"] for website in call("GET", f"/websites?favorite={text}").json()["data"]} == found


def test_records_of_a_list_can_lack_fields(call: Call, three: Zoo) -> None:
    three.configure(list_hides={"favorite", "exclude_ips"})
    (row, *_) = call("GET", "/websites").json()["data"]
    assert call("GET", "/websites/1").json()["data"].keys() - row.keys() == {"favorite", "exclude_ips"}


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
    with pytest.raises(ValueError, match="no fields"):
        three.configure(ignored_fields={"privcy"})


def test_a_write_can_be_answered_with_a_message(call: Call, three: Zoo) -> None:
    three.configure(message_answers={"update"})
    assert call("PATCH", "/websites/1", data={"privacy": "1"}).json() == {"message": "The update was successful."}
    assert three.websites()[0]["privacy"] == 1


def test_records_can_reveal_more_than_they_should(call: Call, three: Zoo) -> None:
    three.change_website(1, privacy=2, password="open sesame")
    three.configure(extra_fields={"stats_password": "{password}", "share_url": "https://{domain}/?k={password}"})
    record = call("GET", "/websites/1").json()["data"]
    assert record["stats_password"] == "open sesame"
    assert record["share_url"] == f"https://{record['domain']}/?k=open sesame"


def test_a_proxy_can_ask_for_headers(call: Call, three: Zoo) -> None:
    three.configure(required_headers={"CF-Access-Client-Id": "team"})
    refused = call("GET", "/account")
    assert (refused.status_code, refused.headers["CF-Ray"]) == (403, "8f00sandbox-AMS")
    assert "<title>Access denied</title>" in refused.text
    assert call("GET", "/account", headers={"CF-Access-Client-Id": "team"}).status_code == 200


def test_unknown_names_can_be_left_unread(call: Call, analytics_sandbox: Zoo) -> None:
    analytics_sandbox.configure(strict_parameters=False)

    assert call("GET", "/websites?colour=red").status_code == 200
    assert call("POST", "/websites", data={"domain": "a.example", "favorite": "true"}).status_code == 201
    assert analytics_sandbox.websites()[0]["favorite"] is False


@pytest.mark.repository
@pytest.mark.parametrize("option", sorted(ZooOptions.model_fields.keys() - Options.model_fields.keys()))
def test_a_test_of_the_package_plays_each_option(option: str) -> None:
    used = re.compile(rf'\b{option}("\]?: |=)')
    paths = Path(__file__).parents[2].rglob("*.py")
    others = (path for path in paths if path.parent.name != "sandbox" and path.name != "zoo.py")
    assert any(used.search(path.read_text(encoding="utf-8")) for path in others)
