# SPDX-License-Identifier: Apache-2.0
"""Lists of other frameworks' paginators, and the report of the probe (``api/listing.py``, ``probe.py``)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from paginators import STYLES
from raw_server import RawServer, Request, answer_read, http, rows
from wire_client import KEY, served

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import IncompleteListError
from airflow_provider_analytics.probe import LimitedReader, Probe
from airflow_provider_analytics.readable import Redactor

ORDERS: tuple[dict[str, Any], ...] = ({}, {"sort": "asc"}, {"sort_by": "domain", "sort": "asc"})


def respond_in_style(request: Request, style: str, records: list[dict[str, Any]]) -> bytes:
    respond, _ = STYLES[style]
    is_list = request.path == "/api/v1/websites"
    return respond(request, records) if is_list else answer_read(request, records)


@pytest.mark.parametrize("websites", [0, 100, 130, 250])
@pytest.mark.parametrize("style", STYLES)
def test_list_is_read_completely_for_each_paginator(style: str, websites: int) -> None:
    records = rows(*range(1, websites + 1))
    with served(partial(respond_in_style, style=style, records=records)) as (client, server):
        for query in ORDERS:
            listing = client.iter_websites(**query)
            assert {website["id"] for website in listing} == set(range(1, websites + 1))
            assert listing.proof is not None
            assert listing.proof.pages <= 2 * (websites // 30 + 2) + 2
        assert {request.path for request in server.requests} == {"/api/v1/websites"}


@pytest.mark.parametrize("style", STYLES)
def test_probe_reports_the_page_parameter_of_each_paginator(style: str) -> None:
    records = rows(*range(1, 131))
    _, parameter = STYLES[style]
    with RawServer(partial(respond_in_style, style=style, records=records)) as server:
        settings = Settings(base_url=server.url, api_key=KEY)
        with LimitedReader(settings) as reader:
            probe = Probe(reader)
            probe.run()
    found = {finding.name: finding for finding in probe.findings}
    assert (found["list"].mark, probe.extras) == ("ok", {})
    assert f"pages by `{parameter}`" in found["list"].text


def test_probe_finds_the_parameter_of_a_token_with_another_name() -> None:
    def respond(request: Request) -> bytes:
        target = request.target.replace("&page_token=", "&ignored=").replace("&token=", "&page_token=")
        renamed = Request(request.method, target, request.headers, b"", request.raw)
        return respond_in_style(renamed, "next_page_token", rows(*range(1, 131)))

    with RawServer(respond) as server, LimitedReader(Settings(base_url=server.url, api_key=KEY)) as reader:
        probe = Probe(reader)
        probe.run()
    assert probe.extras == {"page_parameter": "token"}


@pytest.mark.parametrize(
    ("parameter", "meta"), [("offset", {}), ("offset", {"total": 250}), ("page[offset]", {"total": 250})], ids=str
)
def test_probe_finds_an_offset_that_the_service_does_not_link(parameter: str, meta: dict[str, int]) -> None:
    records = rows(*range(1, 251))

    def respond(request: Request) -> bytes:
        found = records if request.query.get("sort") == "asc" else records[::-1]
        first = int(request.query.get(parameter, "0"))
        is_list = request.path == "/api/v1/websites"
        return http(200, {"data": found[first : first + 100], **meta}) if is_list else answer_read(request, records)

    with RawServer(respond) as server, LimitedReader(Settings(base_url=server.url, api_key=KEY)) as reader:
        probe = Probe(reader)
        probe.run()
    assert probe.extras == {"page_parameter": parameter}
    with served(respond, **probe.extras) as (client, _):
        assert len(client.list_websites()) == 250


@pytest.mark.parametrize("behind", ["more websites", "the first page again", "new websites"])
def test_cursor_after_the_complete_total_is_followed_once(behind: str) -> None:
    """A total might be capped, so a further page with other websites is an error, unless they are new."""

    def respond(request: Request) -> bytes:
        records = rows(*range(1, 141)) if behind == "more websites" else rows(*range(1, 131))
        records = records if request.query["sort"] == "asc" else records[::-1]
        last = {
            "more websites": records[130:],
            "the first page again": records[:10],
            "new websites": rows(*range(141, 151)),
        }[behind]
        page = {None: records[:100], "b": records[100:130], "c": last}[request.query.get("cursor")]
        following = {None: "b", "b": "c", "c": "c"}[request.query.get("cursor")]
        return http(200, {"data": page, "total": 130, "next_cursor": following})

    with served(respond) as (client, server):
        if behind != "more websites":
            assert len(client.list_websites()) == 130
            assert sum(request.query.get("cursor") == "c" for request in server.requests) == 1
        else:
            with pytest.raises(IncompleteListError):
                client.list_websites()


@pytest.mark.parametrize(
    "header",
    [
        '<{}>; rel="next"',
        "<{}>; rel=next",
        '<{}>; title="more"; rel="next"',
        '<{}>; rel="last next"',
        '</api/v1/websites?p=9>; rel="last", <{}>; rel="next", </api/v1/websites?p=1>; rel="prev"',
    ],
)
def test_next_page_is_read_from_each_form_of_the_header(header: str) -> None:
    answer = dialect.Answer(
        "GET", "/api/v1/websites", 200, {"Link": header.format("/api/v1/websites?p=2")}, b"[]", Redactor()
    )
    assert dialect.page(answer).following == dialect.Selection("p", "2")
    others = {"Link": '<?p=2>; rel="nextpage", <?p=3>; rel="prev"; title="next"'}
    assert dialect.page(dialect.Answer("GET", "/api/v1/websites", 200, others, b"[]", Redactor())).following is None
