"""The API key, and what a service, a proxy or a person makes of it: no part of it is in a log, an error or data."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

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
SPLITTERS = {
    "line break": "\n",
    "line break and indentation": "\r\n    ",
    "escaped line break": "\\n",
    "zero-width space": "\u200b",
    "soft hyphen": "\xad",
    "word joiner": "\u2060",
    "NUL": "\0",
    "escape code": "\x1b",
    "direction mark": "\u202e",
    "variation selector": "\ufe0f",
    "combining joiner": "\u034f",
    "HTML entity": "&#8203;",
    "HTML name": "&shy;",
    "JSON escape": "\\u200b",
    "percent": "%E2%80%8B",
    "thousands": "\u200b" * 5000,
}


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


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "latin-1"])
def test_no_encoding_of_a_body_shows_it(charset: str) -> None:
    body = f"You sent {KEY} to us".encode(charset)
    assert "You sent ***" in error_of(http(500, body, kind="text/plain"))


@pytest.mark.parametrize("charset", ["cp037", "utf-7", "iso-8859-1", "windows-1252", "utf-16", "no-such-charset"])
def test_the_encoding_that_a_header_names_is_used(charset: str) -> None:
    body = f"You sent {KEY} to us".encode("utf-8" if charset.startswith("no") else charset)
    assert "You sent ***" in error_of(http(500, body, kind=f'text/plain; charset="{charset}"'))


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_nothing_within_it_hides_it(splitter: str) -> None:
    split = SPLITTERS[splitter].join((KEY[:3], KEY[3:20], KEY[20:]))
    for body in (split.encode(), json.dumps({"message": split}).encode(), f"<title>{split}</title>".encode()):
        assert parts_in(error_of(http(500, body))) == []


@pytest.mark.parametrize(
    "between",
    ["\u200b\n   ", " \u200b\n ", " \n\u200b ", "&#82\u200b03;", "%E2%80\u200b%8B", "\\u20\n0b"],
)
def test_what_hides_and_what_is_escaped_may_be_mixed(between: str) -> None:
    secrets = Redactor()
    secrets.add(KEY)
    split = f"You sent {KEY[:20]}{between}{KEY[20:]} to us"
    assert readable(split, None) == "You sent *** to us"
    assert secrets.finds(split)
    assert without_secrets({"note": split}, secrets) == {"note": "***"}


@pytest.mark.parametrize(
    "written", ["my\nbig long secret", "my big long\n  secret", "my\nbig\nlong secret", "my\nbig\nlong\nsecret"]
)
def test_a_secret_with_blanks_may_be_broken_at_any_of_them(written: str) -> None:
    secrets = Redactor()
    secrets.add("my big long secret")
    assert readable(f"You sent {written} to us", None) == "You sent *** to us"
    for note in (written, f"You sent {written} to us"):
        assert without_secrets({"note": note}, secrets) == {"note": "***"}


@pytest.mark.parametrize("secret", [KEY, "q&amp;uo%41ted\\n-key-x", "k%2541&amp;lt;b\\u0041c", "sk_live_of_me&l"])
def test_it_is_found_whatever_escapes_it_has_or_makes_with_its_neighbors(secret: str) -> None:
    secrets = Redactor()
    secrets.add(secret)
    for write in (str, html.escape, quote, json.dumps, lambda text: html.escape(quote(json.dumps(text)))):
        for before in ("", "&", "%4", "x\\\\"):
            shown = f"{before}{write(secret)}t; to us"
            assert parts_in(readable(shown, None), secret) == []
            assert secrets.finds(shown)


@pytest.mark.parametrize("part", ["&a", "&", "%25", "amp;", "\\", " \n", "\u200b ", "&#000", "\\u005c", "%", "&#38;"])
def test_the_time_for_a_text_grows_with_its_length_only(part: str) -> None:
    secrets = Redactor()
    secrets.add(KEY)
    text = "&" + part * (200_000 // len(part))
    started = time.process_time()
    readable(text, None)
    secrets.finds(text)
    assert time.process_time() - started < 5


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


def test_a_plan_with_it_in_a_list_is_not_written(
    serving: Callable[..., RawServer], connect: Callable[..., None], execute: Execute, tmp_path: Path
) -> None:
    with serving({"id": 1, "domain": "a.example", "exclude_params": f"x\n{KEY}"}) as server:
        connect(server.url, password=KEY)
        with pytest.raises(Exception, match="contains a secret of the connection") as caught:
            execute(SyncExcludedParamsOperator, exclude_params=["y"], dry_run=True, plan_path=f"{tmp_path}/plan")
    assert parts_in(str(caught.value)) == []
    assert list(tmp_path.iterdir()) == []
