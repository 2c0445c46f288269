# SPDX-License-Identifier: Apache-2.0
"""Lists of other frameworks' paginators (``api/listing.py``)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from paginators import STYLES
from raw_server import Request, answer_read, http, rows
from wire_client import served

from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.exceptions import IncompleteListError
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
