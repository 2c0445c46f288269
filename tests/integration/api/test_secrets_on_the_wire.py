# SPDX-License-Identifier: Apache-2.0
"""Secrets on the wire: the API key and page passwords are sent in one header and one form field (``readable.py``).

Logs and errors contain no part of them, in any form that the service, a proxy, or a person uses.
"""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from airflow_versions import VERSION, names_that_airflow_masks
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from operations import OPERATIONS
from raw_server import RawServer, Reply, Request, answer_read, http
from secret_forms import FORMS, leaked, parts_in
from wire_client import KEY, client_of, do, error_of, served

from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import RECORD_FIELDS
from airflow_provider_analytics.exceptions import AnalyticsError
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.readable import (
    MASK,
    SENSITIVE_NAMES,
    Redactor,
    is_secret_key,
    readable,
    without_secrets,
)

PASSWORD = "pä ss\"w'o\\r/d&<+>%41\U0001f511"
#: Longer than the visible part of a header, so that each cut is within it.
LONG_KEY = "sk_live_" + "".join(f"{number:03}x" for number in range(60))
SHOWN_IN_A_NAME = "returns a secret in an id or in a domain"


def everything_about(error: BaseException) -> str:
    """Return everything that could contain a secret: text, representation, arguments, pickle, traceback, attributes."""
    pickled = pickle.dumps(error)
    shown = [str(error), repr(error), str(pickle.loads(pickled)), str(vars(error)), repr(pickled)]
    earlier = [everything_about(before) for before in getattr(error, "earlier", ())]
    return "\n".join([*shown, *traceback.format_exception(error), *earlier])


def create(client: AnalyticsClient) -> Any:
    return client.create_website("new.example", privacy=2, password=PASSWORD)


@pytest.mark.parametrize("status", [200, 302, 401, 422, 500])
@pytest.mark.parametrize("form", FORMS)
def test_response_that_echoes_the_secrets_is_redacted(form: str, status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    write = FORMS[form]
    echo = f"You sent {write(KEY)} and {write(PASSWORD)}."
    page = http(status, echo.encode(), kind="text/html", headers=[("Location", f"/?{quote(KEY)}")])
    errors = {f"f{write(KEY)}": [f"not {write(PASSWORD)}"], "n": [[KEY]]}
    for reply in (page, http(status, {"error": True, "message": f"bad {write(KEY)}", "errors": errors})):
        with served(reply, max_retries=1) as (client, _):
            with pytest.raises(AnalyticsError) as caught:
                create(client)
            shown = everything_about(caught.value) + caplog.text + str(caplog.records)
            shown += repr(client) + repr(client.settings) + str(vars(client))
        assert leaked(shown, KEY) == leaked(shown, PASSWORD) == []
        assert "***" in str(caught.value)


SENDING = [
    (level, name)
    for level in (AnalyticsClient, AnalyticsHook)
    for name, method in vars(level).items()
    if not name.startswith("_") and str(getattr(method, "__annotations__", {}).get("settings")).startswith("Unpack")
]


@pytest.mark.parametrize(("level", "name"), SENDING)
def test_password_in_an_error_of_the_service_is_hidden_by_each_method_that_sends_it(
    level: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def respond(request: Request) -> bytes:
        if request.method != "GET":
            return http(422, {"message": f"The value {PASSWORD} is too weak."})
        return answer_read(request, records=[{"id": 8, "domain": "known.example", "privacy": 1}])

    website: int | str = 8 if name == "update_website" else "new.example"
    with RawServer(respond) as server:
        connection = {"conn_type": "analytics", "host": server.url, "password": KEY}
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps(connection))
        with (
            AnalyticsHook() if level is AnalyticsHook else client_of(server.url) as sender,
            pytest.raises(AnalyticsError, match=r"The value \*\*\* is too weak") as caught,
        ):
            getattr(sender, name)(website, privacy=2, password=PASSWORD)
    assert leaked(everything_about(caught.value), PASSWORD) == []


def test_each_level_has_the_methods_that_send_a_password() -> None:
    for level in (AnalyticsClient, AnalyticsHook):
        names = {name for owner, name in SENDING if owner is level}
        assert names == {"create_website", "ensure_website", "update_website"}


@pytest.mark.parametrize("length", [10, 60, 110, 160])
def test_secret_at_the_end_of_a_text_that_the_service_cut_is_not_partly_visible(length: int) -> None:
    cut = LONG_KEY[:length]
    bodies: tuple[Any, ...] = (cut.encode(), {"message": cut}, f"<title>{cut}</title>".encode())
    replies: list[bytes | Reply] = [http(500, body) for body in bodies]
    for reply in (*replies, Reply(http(500, cut.encode(), length=1000), "close")):
        error = error_of(reply, api_key=LONG_KEY)
        assert cut[2:8] not in f"{error}\n{error!r}\n{vars(error)}"


HEADERS = [
    (302, "Location"), (200, "Content-Type"), (200, "Content-Encoding"), (503, "Retry-After"), (500, "X-Request-Id"),
]  # fmt: skip


@pytest.mark.parametrize("blanks", range(0, 260, 20))
def test_truncated_header_or_status_line_contains_no_part_of_a_secret(blanks: int) -> None:
    value = f"{'x' * blanks}{LONG_KEY}"
    replies = [http(status, b"x", kind=None, headers=[(header, value)]) for status, header in HEADERS]
    for reply in (*replies, f"{value}\r\n\r\n".encode()):
        error = error_of(reply, api_key=LONG_KEY)
        assert parts_in(f"{error}\n{error!r}\n{vars(error)}", LONG_KEY) == []


def test_invalid_header_line_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer = f"HTTP/1.1 200 OK\r\n{LONG_KEY}\r\nContent-Length: 2\r\n\r\n[]".encode()
    assert parts_in(f"{error_of(Reply(answer, 'close'), api_key=LONG_KEY)}{caplog.text}", LONG_KEY) == []


@pytest.mark.parametrize("name", ["id", "domain"])
@pytest.mark.parametrize("operation", ["list", "show", "create", "account"])
def test_id_or_domain_that_contains_a_secret_is_an_error(
    name: str, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    record = {"id": 1, "domain": "new.example", name if operation != "account" else "id": f"x{LONG_KEY}"}
    reply = http(200, {"data": [{"id": 2}, record] if operation == "list" else record})
    error = error_of(reply, lambda client: do(client, operation), match=SHOWN_IN_A_NAME, api_key=LONG_KEY)
    assert parts_in(f"{everything_about(error)}{caplog.text}", LONG_KEY) == []


def test_ids_and_domains_can_contain_a_short_header_that_is_not_a_secret() -> None:
    # Otherwise, the only website of a tenant could not be read.
    record = {"id": 7, "domain": "www.acme-corp.example"}
    with served(http(200, record), headers={"X-Tenant": "acme-corp", "Host": "www.acme-corp.example"}) as (client, _):
        assert client.for_output(client.get_website(7)) == record


secrets = (
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf", "Zs")), min_size=4, max_size=30)
    .map(str.strip)
    .filter(lambda text: len(text) >= 4 and len(text.splitlines()) == 1 and len(set(text)) > 2)
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(secret=secrets, form=st.sampled_from(sorted(FORMS)), before=st.sampled_from(["", "&", "%4", "x\\\\"]))
@example("p!w&x'()", "percent as browsers write it", "")
@example("q&amp;uo%41ted\\n-key-x", "HTML", "x\\\\")
def test_every_form_of_a_secret_is_redacted(secret: str, form: str, before: str) -> None:
    redact = Redactor()
    redact.add(secret)
    text = f"{before}{FORMS[form](secret)}; to us"
    shown = redact(text)
    assert secret not in shown
    assert FORMS[form](secret).strip('"') not in shown
    assert "***" in shown
    if len(secret) >= 8:
        assert redact.finds(text)
        assert without_secrets({"note": text}, redact) == {"note": "***"}


@given(st.text(), st.integers(0, 40), st.sampled_from(["escape", "fold", "keep"]), st.booleans())
def test_truncated_text_contains_no_part_of_a_secret(text: str, limit: int, breaks: Any, is_part: bool) -> None:
    redact = Redactor()
    redact.add(LONG_KEY)
    for shown in (
        f"{text}{LONG_KEY}{text}",
        f"{LONG_KEY}{text}",
        quote(f"{text}{LONG_KEY}"),
        "x" * 16_300 + LONG_KEY,
        " " * 16_300 + LONG_KEY,
    ):
        assert parts_in(readable(shown, 10 + limit, breaks=breaks, is_part=is_part), LONG_KEY) == []


def test_text_without_a_secret_is_unchanged() -> None:
    redact = Redactor()
    assert redact("nothing hidden") == "nothing hidden"
    redact.add("")
    redact.add("inner")
    redact.add("an inner secret")
    assert redact('100% of {"a": "&lt;b\\u0041"} \\') == '100% of {"a": "&lt;b\\u0041"} \\'
    assert redact("this is an inner secret, inner") == "this is ***, ***"


# Sent requests


def test_neither_netrc_nor_a_cookie_changes_a_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\ndefault login a password b\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    with served(http(200, {"id": 1}, headers=[("Set-Cookie", "a=b")])) as (client, server):
        for _ in range(2):
            client.get_website(1)
        assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}
        assert "cookie" not in server.requests[1].headers


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_redirect_to_another_host_does_not_receive_the_key(operation: str, status: int) -> None:
    with RawServer([http(200, {"id": 7})]) as other:
        with served(http(status, b"", headers=[("Location", f"{other.url}/elsewhere")])) as (client, server):
            with pytest.raises(AnalyticsError, match=rf"\b{status}\b") as caught:
                do(client, operation)
            assert len(server.requests) == 1
        assert f"{other.url}/elsewhere" in str(caught.value)
        assert (other.connections, other.requests) == (0, [])


@pytest.mark.parametrize(
    ("password", "part"),
    [
        ("two\nlines", "one line"), ("", "not empty"), ("***", "is \'\\*\\*\\*\'"), ("s3cret\n", "blanks"),
        ("\ts3cret", "blanks"), (7, ""), (b"bytes", ""),
    ],
)  # fmt: skip
def test_unsendable_password_is_rejected_without_printing_it(password: Any, part: str) -> None:
    with client_of("http://127.0.0.1:9") as client, pytest.raises(ValueError, match=f"password.*{part}") as caught:
        client.create_website("a.example", privacy=2, password=password)
    assert password in ("", "***") or str(password).strip() not in str(caught.value)


def test_credentials_of_proxies_and_headers_are_hidden() -> None:
    def respond(request: Request) -> bytes:
        text = f"for me:p@ss/word, me:p%40ss%2Fword, {request.headers['proxy-authorization']}, client-1234"
        return http(502, {"message": text})

    headers = {"CF-Access-Client-Id": "client-1234"}
    with RawServer(respond) as proxy:
        url = f"http://me:p%40ss%2Fword@127.0.0.1:{proxy.port}"
        client = client_of(
            "http://stats.example.test", allow_insecure_http=True, proxies={"http": url}, headers=headers
        )
        with client, pytest.raises(AnalyticsError) as caught:
            client.get_account()
        sent = proxy.requests[0].headers
    assert sent["proxy-authorization"].startswith("Basic ")
    assert sent["cf-access-client-id"] == "client-1234"
    assert "for me:***, me:***, Basic ***, ***" in str(caught.value)


# Secrets in output data


SECRETS = ("s3cr/t+key", 'quo"ted\\', "pässwort", "12345", "123456789")


def redactor() -> Redactor:
    redact = Redactor()
    for secret in SECRETS:
        redact.add(secret)
    return redact


def by_structure(value: Any, secrets: Redactor) -> Any:
    """The documented result of :func:`without_secrets`, without its fast check of the whole data."""
    if isinstance(value, dict):
        return {
            name: by_structure(inner, secrets)
            for name, inner in value.items()
            if (isinstance(inner, bool) or not is_secret_key(name)) and not secrets.finds(name)
        }
    if isinstance(value, list):
        return [by_structure(inner, secrets) for inner in value]
    return MASK if type(value) in (str, int, float) and secrets.finds(str(value)) else value


texts = st.one_of(
    st.text(),
    st.sampled_from(["line\nline", "a\\nb", "&", "100%", "a+b", "\\", '"', "Password", "\ud800", "secret"]),
    st.builds(lambda write, secret: write(secret), st.sampled_from([*FORMS.values()]), st.sampled_from(SECRETS)),
)
values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.sampled_from([12345, 123456789]), st.floats(allow_nan=False), texts
)
data = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)


@given(data)
def test_cached_redaction_equals_redaction_of_every_value(found: Any) -> None:
    secrets = redactor()
    assert without_secrets(found, secrets) == by_structure(found, secrets)


def test_secret_names_equal_the_names_that_airflow_masks() -> None:
    assert names_that_airflow_masks() <= SENSITIVE_NAMES
    assert VERSION < (3, 3) or names_that_airflow_masks() == SENSITIVE_NAMES


@pytest.mark.parametrize(
    "name",
    ["Password", "site_password", "two_factor_secret", "apiKey", "X-Api-Key", "private.key", "Proxy-Authorization",
     " remember_token ", "tokens_used"],
)  # fmt: skip
def test_key_that_names_a_secret_is_dropped_at_any_depth(name: str) -> None:
    assert without_secrets([{"id": 1, "more": {name: "x", "kept": [{name: 7}]}}]) == [{"id": 1, "more": {"kept": [{}]}}]


@pytest.mark.parametrize("name", ["id", *RECORD_FIELDS, "compass", "key", "proxied", "ads_network", "notes", "name"])
def test_key_that_names_no_secret_is_kept(name: str) -> None:
    assert without_secrets({name: "x", "more": {name: 7}}) == {name: "x", "more": {name: 7}}


def test_boolean_is_not_a_secret() -> None:
    assert without_secrets({"has_password": True, "token": False, "secret": None, "api_key": 7}) == {
        "has_password": True,
        "token": False,
    }


def test_ids_and_domains_are_redacted_if_the_secret_became_known_after_they_were_read() -> None:
    records = [{"id": "pässwort", "domain": "pässwort.example", "site": {"id": "pässwort"}}]
    assert without_secrets(records, redactor()) == [{"id": "***", "domain": "***", "site": {"id": "***"}}]
    assert without_secrets(records) == records
