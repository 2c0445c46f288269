"""The API key and website passwords leave the client in one header and one form field, and nowhere else."""

from __future__ import annotations

import base64
import html
import json
import logging
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from operations import OPERATIONS
from raw_server import RawServer, Reply, Request, http
from wire_client import KEY, client_of, do

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AnalyticsConfigError, AnalyticsError
from airflow_provider_analytics.readable import Redactor

PASSWORD = "pä ss\"w'o\\r/d&<+>%41\U0001f511"

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "JSON": lambda text: json.dumps(text),
    "JSON, not ASCII": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON as PHP writes it": lambda text: json.dumps(text).replace("/", "\\/"),
    "HTML": html.escape,
    "HTML, quotes as PHP writes them": lambda text: html.escape(text, quote=False)
    .replace("'", "&#039;").replace('"', "&quot;"),
    "percent": lambda text: quote(text, safe=""),
    "percent as browsers write it": lambda text: quote(text, safe="!'()*~"),
    "form": quote_plus,
    "Basic": lambda text: base64.b64encode(f":{text}".encode()).decode(),
}  # fmt: skip


def everything_about(error: BaseException) -> str:
    """Return all that could show a secret: text, representation, arguments, pickle, traceback, attributes."""
    again = pickle.loads(pickle.dumps(error))
    shown = "".join(traceback.format_exception(error))
    earlier = [everything_about(before) for before in getattr(error, "earlier", ())]
    return "\n".join(
        [str(error), repr(error), str(again), shown, str(vars(error)), repr(pickle.dumps(error)), *earlier]
    )


def leaked(text: str, secret: str) -> list[str]:
    """Return the encodings in which the secret stands in the text."""
    return [name for name, encode in ENCODINGS.items() if encode(secret).strip('"') in text]


def create(client: AnalyticsClient) -> Any:
    return client.create_website("new.example", privacy=2, password=PASSWORD)


@pytest.mark.parametrize("status", [200, 201, 302, 400, 401, 422, 429, 500])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_answer_that_echoes_the_secrets_is_redacted(
    encoding: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    encode = ENCODINGS[encoding]

    def respond(request: Request) -> bytes:
        echo = f"You sent {encode(KEY)} and {encode(PASSWORD)}."
        return http(status, echo.encode(), kind="text/html", headers=[("Location", f"/?{quote(KEY)}")])

    with RawServer(respond) as server, client_of(server.url, max_retries=1) as client:
        with pytest.raises(AnalyticsError) as caught:
            create(client)
        shown = everything_about(caught.value) + caplog.text + str(caplog.records)
        shown += repr(client) + repr(client.settings) + str(vars(client))
    assert leaked(shown, KEY) == leaked(shown, PASSWORD) == []
    assert "***" in str(caught.value)


@pytest.mark.parametrize("encoding", ["plain", "percent", "HTML"])
def test_the_messages_of_an_error_answer_are_redacted(encoding: str) -> None:
    encode = ENCODINGS[encoding]
    body = {"message": f"bad {encode(KEY)}", "errors": {f"f{encode(KEY)}": [f"not {encode(PASSWORD)}"], "n": [[KEY]]}}
    with (
        RawServer([http(422, body)]) as server,
        client_of(server.url) as client,
        pytest.raises(AnalyticsError) as caught,
    ):
        create(client)
    shown = everything_about(caught.value)
    assert leaked(shown, KEY) == leaked(shown, PASSWORD) == []
    assert "bad ***" in shown


def test_a_secret_at_the_point_where_a_text_is_cut_is_not_shown_in_part() -> None:
    for blank in range(0, 16_500, 250):
        body = b" " * blank + f"{KEY} {KEY}".encode()
        with (
            RawServer([http(500, body)]) as server,
            client_of(server.url, max_retries=0) as client,
            pytest.raises(AnalyticsError) as caught,
        ):
            client.get_account()
        assert KEY[:6] not in str(caught.value)
    for before in range(150, 210):
        with (
            RawServer([http(500, b"x" * before + KEY.encode())]) as server,
            client_of(server.url, max_retries=0) as client,
            pytest.raises(AnalyticsError) as caught,
        ):
            client.get_account()
        assert KEY[:4] not in str(caught.value)


secrets = (
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zs")), min_size=4, max_size=30)
    .map(str.strip)
    .filter(lambda text: len(text) >= 4 and len(text.splitlines()) == 1 and len(set(text)) > 2)
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(secret=secrets, encoding=st.sampled_from(sorted(ENCODINGS)))
@example("p!w&x'()", "percent as browsers write it")
def test_every_way_of_writing_a_secret_is_redacted(secret: str, encoding: str) -> None:
    redact = Redactor()
    redact.add(secret)
    shown = redact(f"value={ENCODINGS[encoding](secret)};")
    assert secret not in shown
    assert ENCODINGS[encoding](secret).strip('"') not in shown
    assert "***" in shown


def test_a_text_without_a_secret_is_shown_as_it_is() -> None:
    redact = Redactor()
    assert redact("nothing hidden") == "nothing hidden"
    redact.add("")
    redact.add("inner")
    redact.add("an inner secret")
    assert redact('100% of {"a": "&lt;b\\u0041"} \\') == '100% of {"a": "&lt;b\\u0041"} \\'
    assert redact("this is an inner secret, inner") == "this is ***, ***"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_key_is_in_one_header_and_nowhere_else(operation: str) -> None:
    with RawServer([http(500, {"message": "no"})]) as server, client_of(server.url, max_retries=0) as client:
        with pytest.raises(AnalyticsError):
            do(client, operation)
        for request in server.requests:
            assert request.raw.count(KEY.encode()) == 1
            assert request.headers["authorization"] == f"Bearer {KEY}"


def test_a_password_is_in_the_body_only() -> None:
    with RawServer([http(201, {"id": 1})]) as server, client_of(server.url) as client:
        create(client)
        client.update_website(1, password=PASSWORD)
        writes = [request for request in server.requests if request.method != "GET"]
        assert [request.method for request in writes] == ["POST", "PATCH"]
        for request in writes:
            assert quote_plus(PASSWORD).encode() in request.body
            assert quote_plus(PASSWORD).encode() not in request.raw.removesuffix(request.body)


def test_a_netrc_entry_does_not_replace_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\ndefault login a password b\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    with RawServer([http(200, {"id": 1})]) as server, client_of(server.url) as client:
        client.get_website(1)
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_no_cookie_is_kept() -> None:
    with RawServer([http(200, {"id": 1}, headers=[("Set-Cookie", "a=b")])]) as server, client_of(server.url) as client:
        client.get_website(1)
        client.get_website(1)
        assert "cookie" not in server.requests[1].headers


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_redirect_carries_the_key_to_another_host(operation: str, status: int) -> None:
    with RawServer([http(200, {"id": 7})]) as other:
        replies = [http(status, b"", headers=[("Location", f"{other.url}/api/v1/websites")])]
        with RawServer(replies) as server, client_of(server.url) as client:
            with pytest.raises(AnalyticsError):
                do(client, operation)
            assert len(server.requests) == 1
        assert (other.connections, other.requests) == (0, [])


@pytest.mark.parametrize("key", ["two words", "line\nend", "schlüssel", "tab\there", "***", "", "   "])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(AnalyticsConfigError) as caught:
        Settings(base_url="https://stats.example.com", api_key=key)
    assert key.strip() in ("", "***") or key not in everything_about(caught.value)


@pytest.mark.parametrize("password", ["two\nlines", "", "***", 7, b"bytes"])
def test_a_password_that_cannot_be_sent_is_refused_without_showing_it(password: Any) -> None:
    with client_of("http://127.0.0.1:9") as client, pytest.raises(ValueError, match="password") as caught:
        client.create_website("a.example", privacy=2, password=password)
    assert password in ("", "***") or repr(password) not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["https://user:hush@stats.example.com", "https://hush@stats.example.com", "user:hush@stats.example.com"]
)
def test_a_base_url_that_holds_a_secret_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(AnalyticsConfigError) as caught:
        Settings(base_url=url, api_key=KEY)
    assert "hush" not in everything_about(caught.value)


def test_the_settings_show_neither_key_nor_proxies() -> None:
    shown = repr(
        Settings(base_url="https://stats.example.com", api_key=KEY, proxies={"https": "http://me:hush@proxy.example"})
    )
    assert KEY not in shown
    assert "hush" not in shown


def test_the_password_of_a_proxy_is_redacted() -> None:
    def respond(request: Request) -> Reply:
        return Reply(http(502, b"for me:p@ss/word, me:p%40ss%2Fword", kind="text/plain"))

    with RawServer(respond) as proxy:
        proxies = {"http": f"http://me:p%40ss%2Fword@127.0.0.1:{proxy.port}"}
        with (
            client_of("http://stats.example.test", allow_insecure_http=True, proxies=proxies, max_retries=0) as client,
            pytest.raises(AnalyticsError) as caught,
        ):
            client.get_account()
        assert proxy.requests[0].headers["proxy-authorization"].startswith("Basic ")
    assert "for me:***, me:***" in str(caught.value)
