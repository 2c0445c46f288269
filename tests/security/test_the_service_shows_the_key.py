"""The API key, as a service, a proxy or a person writes it: no part of it is in a log, an error or data."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from fixture_types import Execute
from hypothesis import given
from hypothesis import strategies as st
from raw_server import RawServer, Reply, http
from wire_client import client_of

from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AnalyticsConfigError, AnalyticsError, UnexpectedResponseError
from airflow_provider_analytics.hooks.connection import settings_from_connection
from airflow_provider_analytics.operators.exclusions import SyncExcludedParamsOperator
from airflow_provider_analytics.readable import Redactor, readable

#: Longer than what is shown of a header, so that each cut is within it.
KEY = "sk_live_" + "".join(f"{number:03}x" for number in range(60))
#: A credential of an extra header. Unlike the key, records may have it in an id or a domain.
TOKEN = "tk-live-" + "".join(f"{number:03}x" for number in range(8))


def parts_in(text: str, secret: str = KEY) -> list[str]:
    """Return the parts of a secret, of six characters each, that a text shows."""
    return [secret[at : at + 6] for at in range(8, len(secret) - 6) if secret[at : at + 6] in text]


def error_of(reply: bytes | Reply, **settings: Any) -> str:
    with (
        RawServer([reply]) as server,
        client_of(server.url, api_key=KEY, max_retries=0, **settings) as client,
        pytest.raises(AnalyticsError) as caught,
    ):
        client.get_account()
    return f"{caught.value}\n{caught.value!r}\n{vars(caught.value)}"


@pytest.mark.parametrize("blanks", range(0, 260, 20))
@pytest.mark.parametrize(
    ("status", "header"),
    [(302, "Location"), (200, "Content-Type"), (200, "Content-Encoding"), (503, "Retry-After"), (500, "X-Request-Id")],
)
def test_no_header_that_is_cut_shows_a_part(status: int, header: str, blanks: int) -> None:
    value = f"{'x' * blanks}{KEY}"
    assert parts_in(error_of(http(status, b"x", kind=None, headers=[(header, value)]))) == []


@pytest.mark.parametrize("blanks", range(0, 80, 8))
def test_no_status_line_that_is_cut_shows_a_part(blanks: int) -> None:
    assert parts_in(error_of(f"{'x' * blanks}{KEY}\r\n\r\n".encode())) == []


def test_no_line_that_is_no_header_is_logged(logged: Callable[[], str]) -> None:
    answer = f"HTTP/1.1 200 OK\r\n{KEY}\r\nContent-Length: 2\r\n\r\n[]".encode()
    assert parts_in(error_of(Reply(answer, "close"))) == []
    assert parts_in(logged()) == []


@pytest.mark.parametrize(
    "write",
    [
        str, quote, quote_plus, json.dumps, html.escape,
        lambda text: base64.b64encode(f":{text}".encode()).decode(),
        lambda text: base64.b64encode(f"{text}:".encode()).decode(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("secret", [KEY, "17|Zq&4/x<yä", "q&amp;uo%41ted\\n-key-x"])
def test_it_is_found_as_urls_json_html_and_basic_write_it(secret: str, write: Callable[[str], str]) -> None:
    secrets = Redactor()
    secrets.add(secret)
    for before in ("", "&", "%4", "x\\\\"):
        text = f"{before}{write(secret)}; to us"
        assert "***" in readable(text, None)
        assert parts_in(readable(text, None), write(secret).strip('"')) == []
        assert secrets.finds(text)
        assert without_secrets({"note": text}, secrets) == {"note": "***"}


def test_a_body_that_ends_within_it_shows_no_part() -> None:
    for length in range(10, len(KEY), 17):
        cut = http(500, KEY[:length].encode(), length=1000)
        assert parts_in(error_of(Reply(cut, "close"))) == []
        assert parts_in(error_of(http(500, KEY[:length].encode()))) == []


@given(st.text(), st.integers(0, 40), st.sampled_from(["escape", "fold", "keep"]), st.booleans())
def test_no_text_around_it_and_no_cut_shows_a_part(text: str, limit: int, breaks: Any, is_part: bool) -> None:
    secrets = Redactor()
    secrets.add(KEY)
    for shown in (f"{text}{KEY}{text}", f"{KEY}{text}", quote(f"{text}{KEY}"), "x" * 16_300 + KEY):
        assert parts_in(readable(shown, 10 + limit, breaks=breaks, is_part=is_part)) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://stats.example.com?token={}", "https://stats.example.com/app?token={}#x", "https://stats.example.com#{}",
        "ftp://stats.example.com?token={}", "https://stats.example.com:x?token={}", "https://[::1?token={}",
        "http://stats.example.com/api/v1?token={}", "https://me:{}@stats.example.com?x", "https://me:{}#@stats.example.com",
        "https:/me:{}@stats.example.com",
    ],
)  # fmt: skip
def test_the_error_that_refuses_a_base_url_does_not_show_a_secret_in_it(url: str) -> None:
    secret = "s3cret-of-the-url"
    with pytest.raises(AnalyticsConfigError) as caught:
        Settings(base_url=url.format(secret), api_key=KEY)
    assert secret not in str(caught.value) + repr(vars(caught.value))

    connection: Any = SimpleNamespace(
        conn_type="analytics", host=url.format(secret), port=8443, schema="app", login=None, password=KEY, extra=None
    )
    with pytest.raises(AnalyticsConfigError) as caught:
        settings_from_connection(connection, "a")
    assert secret not in str(caught.value) + repr(vars(caught.value))


@pytest.mark.parametrize("name", ["id", "domain"])
@pytest.mark.parametrize("operation", ["list", "show", "create"])
def test_a_record_whose_id_or_domain_contains_it_is_an_error(name: str, operation: str) -> None:
    record = {"id": 1, "domain": "new.example", name: f"x{KEY}"}
    body = {"data": [record] if operation == "list" else record}
    with RawServer([http(200, body)]) as server, client_of(server.url, api_key=KEY, max_retries=0) as client:
        calls: dict[str, Callable[[], Any]] = {
            "list": client.list_websites,
            "show": lambda: client.get_website(1),
            "create": lambda: client.create_website("new.example"),
        }
        with pytest.raises(AnalyticsError, match="shows the API key in an id or in a domain") as caught:
            calls[operation]()
    assert parts_in(str(caught.value)) == []


def test_an_account_whose_id_contains_it_is_an_error() -> None:
    body = {"data": {"id": KEY}}
    with (
        RawServer([http(200, body)]) as server,
        client_of(server.url, api_key=KEY, max_retries=0) as client,
        pytest.raises(UnexpectedResponseError, match="shows the API key in an id or in a domain"),
    ):
        client.get_account()


@pytest.mark.parametrize(
    ("where", "record", "arguments"),
    [
        ("website a.example (id 1)", {"exclude_params": f"x\n{TOKEN}"}, {}),
        ("website id ***", {"id": TOKEN, "domain": ""}, {}),
        ("website ***.example (id 1)", {"domain": f"{TOKEN}.example"}, {}),
        ("its settings", {}, {"list_name": f"list of {TOKEN}"}),
    ],
)
def test_a_plan_with_it_in_any_value_is_not_written(
    serving: Callable[..., RawServer],
    connect: Callable[..., None],
    execute: Execute,
    tmp_path: Path,
    where: str,
    record: dict[str, Any],
    arguments: dict[str, Any],
) -> None:
    with serving({"id": 1, "domain": "a.example", "exclude_params": "", **record}) as server:
        connect(server.url, headers={"X-Token": TOKEN})
        with pytest.raises(Exception, match=re.escape(f"contains a secret of the connection, in {where}")) as caught:
            execute(
                SyncExcludedParamsOperator,
                exclude_params=["y"],
                dry_run=True,
                state_path=f"{tmp_path}/state",
                **arguments,
            )
    assert parts_in(str(caught.value), TOKEN) == []
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_repeats_the_base_url_is_no_secret(
    serving: Callable[..., RawServer], connect: Callable[..., None], execute: Execute, tmp_path: Path
) -> None:
    with serving({"id": 1, "domain": "a.example", "exclude_params": ""}) as server:
        connect(server.url, headers={"Origin": server.url})
        result = execute(SyncExcludedParamsOperator, exclude_params=["y"], dry_run=True, state_path=f"{tmp_path}/state")
    assert result["scope"]["service"] == server.url
