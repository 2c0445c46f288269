# SPDX-License-Identifier: Apache-2.0
"""Odd values of some services: lone surrogates, and prefix lengths of single addresses (``api/dialect.py``)."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

import pytest
from raw_server import Request, answer_read, http
from wire_client import WEBSITE, served

from airflow_provider_analytics.exceptions import UnexpectedResponseError

ODD_VALUES = {
    "the first half": (rb'"caf\ud83d"', "caf\ufffd"),
    "the second half": (rb'"\ude00 x"', "\ufffd x"),
    "in capitals": (rb'"\uD83D"', "\ufffd"),
    "both halves in the wrong order": (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
    "beside a whole character": (rb'"\ud83d\ude00\ud83d"', "\U0001f600\ufffd"),
    "after a backslash": (rb'"\\ud83d\ud83d"', "\\ud83d\ufffd"),
    "not a number": (b"NaN", None),
    "infinite": (b"-Infinity", None),
}


@pytest.mark.parametrize("value", ODD_VALUES)
def test_value_that_json_does_not_allow_is_replaced_with_a_single_warning(
    value: str, caplog: pytest.LogCaptureFixture
) -> None:
    written, shown = ODD_VALUES[value]

    def respond(request: Request) -> bytes:
        answer = answer_read(request, [WEBSITE, {"id": 8, "domain": "8.example", "exclude_params": "MARK"}])
        body = answer.partition(b"\r\n\r\n")[2].replace(b'"MARK"', written)
        return http(200, body)

    with served(respond) as (client, _):
        for _ in range(2):
            found = {website["id"]: website for website in client.list_websites()}
            assert found[8]["exclude_params"] == shown
            assert found[7] == WEBSITE
        assert client.get_website(8)["exclude_params"] == shown
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "website 8" in warnings[0]
    assert "website 7" not in warnings[0]


@pytest.mark.parametrize("body", [rb'{"data": "\ud83d"', rb'["\ud83d", nan]', b'["' + b'\\ud83d"' + b"]" * 3], ids=str)
def test_invalid_json_with_a_lone_surrogate_is_still_an_error(body: bytes) -> None:
    with (
        served(http(200, body), max_retries=0) as (client, _),
        pytest.raises(UnexpectedResponseError, match="not JSON"),
    ):
        client.get_website(7)


@pytest.mark.parametrize("kept", ["192.0.2.7", "2001:db8::7"])
def test_service_that_returns_prefix_lengths_and_rejects_them_converges(kept: str) -> None:
    """As PostgreSQL's type ``cidr`` behind a validation of addresses."""
    length = 128 if ":" in kept else 32
    record: dict[str, Any] = {**WEBSITE, "exclude_ips": f"{kept}/{length}"}

    def respond(request: Request) -> bytes:
        if request.method != "PATCH":
            return answer_read(request, [record])
        lines = dict(parse_qsl(request.body.decode()))["exclude_ips"].split("\n")
        if any("/" in line for line in lines):
            return http(422, {"message": "Bad.", "errors": {"exclude_ips": ["Not an address."]}})
        record["exclude_ips"] = "\n".join(f"{line}/{128 if ':' in line else 32}" for line in lines)
        return http(200, {"data": record})

    def add(shown: dict[str, Any]) -> dict[str, Any]:
        return {"exclude_ips": (*shown["exclude_ips"].split("\n"), "198.51.100.9")}

    with served(respond) as (client, server):
        client.change_website(7, add)
        lines = [kept, "198.51.100.9"]
        assert not client.update_website(7, exclude_ips=lines).sent
        assert [request.method for request in server.requests].count("PATCH") == 1
