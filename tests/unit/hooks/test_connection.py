# SPDX-License-Identifier: Apache-2.0
"""Connections: every notation gives the same client, or all of its problems at once (``hooks/connection.py``)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import certifi
import pytest
from airflow.models.connection import Connection
from pydantic import TypeAdapter

from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.exceptions import AnalyticsConfigError
from airflow_provider_analytics.get_provider_info import CONNECTION_TYPE
from airflow_provider_analytics.hooks.analytics import AnalyticsHook
from airflow_provider_analytics.hooks.connection import EXTRAS, settings_from_connection

CA_BUNDLE = certifi.where()
KEY = "k3y/With+Odd:@Signs%"
BASE_URL = "https://Stats.Example.com:8443/App"
EXTRA: dict[str, Any] = {"timeout": 5, "verify": False, "max_retries": 0, "proxies": {"https": "http://proxy:3128"}}


def stored(host: str, port: int | None = None, extra: dict[str, Any] | None = None) -> Connection:
    """Return a connection as the metadata database stores it."""
    return Connection("stats", "analytics", host=host, port=port, password=KEY, extra=json.dumps(extra))


def settings_of(host: str | None = "https://stats.example.com", **fields: Any) -> Settings:
    """Return the settings of a connection from any source; Airflow's own classes reject some of these values."""
    given: dict[str, Any] = {"port": None, "schema": None, "login": None, "password": KEY, "extra": None, **fields}
    if isinstance(given["extra"], dict):
        given["extra"] = json.dumps(given["extra"])
    connection: Any = SimpleNamespace(conn_type="analytics", host=host, **given)
    return settings_from_connection(connection, "c")


def problems_of(host: str | None = "https://stats.example.com", **fields: Any) -> Sequence[str]:
    with pytest.raises(AnalyticsConfigError) as caught:
        settings_of(host, **fields)
    assert "Connection 'c'" in str(caught.value)
    assert KEY not in str(caught.value)
    assert KEY not in repr(caught.value)
    return caught.value.problems


def as_json(**changes: Any) -> str:
    fields = {"conn_type": "analytics", "host": BASE_URL, "password": KEY, "extra": EXTRA}
    return json.dumps({name: value for name, value in {**fields, **changes}.items() if value is not None})


def as_uri(base_url: str, query: str = "") -> str:
    return f"analytics://:{quote(KEY, safe='')}@{quote(base_url, safe='')}{query}"


NO_PORT = "https://Stats.Example.com/App"
FLAT = f"?timeout=5&verify=false&max_retries=0&proxies={quote(json.dumps(EXTRA['proxies']), safe='')}"
UNSET: dict[str, None] = dict.fromkeys(EXTRAS)

SPELLINGS = {
    "json": lambda: as_json(),
    "json, white space around it": lambda: as_json(host=f" {BASE_URL} ", password=f" {KEY}\n"),
    "json, scheme in capitals": lambda: as_json(host=BASE_URL.replace("https", "HTTPS")),
    "json, port apart": lambda: as_json(host=NO_PORT, port=8443),
    "json, port apart as text": lambda: as_json(host=NO_PORT, port="8443"),
    "json, port twice": lambda: as_json(port=8443),
    "json, unset extras are null": lambda: as_json(extra={**UNSET, **EXTRA}),
    "json, unset extras are empty": lambda: as_json(extra={**dict.fromkeys(EXTRAS, " "), **EXTRA}),
    "json, extras as text": lambda: as_json(
        extra={"timeout": "5", "verify": "False", "max_retries": "0", "proxies": json.dumps(EXTRA["proxies"])}
    ),
    "json, as the form of Airflow 2 tests it": lambda: as_json(
        extra={f"{prefix}{name}": value for prefix in ("extra__analytics__", "") for name, value in EXTRA.items()}
    ),
    "json, a login that nobody reads": lambda: as_json(login="someone"),
    "uri, whole base URL as host": lambda: as_uri(BASE_URL, FLAT),
    "uri, slash before the query": lambda: as_uri(BASE_URL, f"/{FLAT}"),
    "uri, port apart": lambda: f"{as_uri(NO_PORT)}:8443{FLAT}",
    "uri, extras in one": lambda: as_uri(BASE_URL, f"?__extra__={quote(json.dumps(EXTRA), safe='')}"),
    "uri, scheme before the key": lambda: as_uri(BASE_URL, FLAT).replace(
        f":{quote(KEY, safe='')}@https%3A%2F%2F", f"https://:{quote(KEY, safe='')}@"
    ),
    "get_uri": lambda: stored(BASE_URL, extra=EXTRA).get_uri(),
    "get_uri, null extras": lambda: stored(BASE_URL, extra={**UNSET, **EXTRA}).get_uri(),
    "as_json": lambda: stored(BASE_URL, extra=EXTRA).as_json(),
}


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_every_spelling_in_the_environment_gives_the_same_client(
    monkeypatch: pytest.MonkeyPatch, spell: Callable[[], str]
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STATS", spell())
    with AnalyticsHook("stats") as hook:
        assert hook.client.settings == Settings(base_url=BASE_URL, api_key=KEY, source="connection 'stats'", **EXTRA)


BASE_URLS = [
    ("stats.example.com:8443", None, "https://stats.example.com:8443"),
    ("stats.example.com/app/", None, "https://stats.example.com/app"),
    ("  https://stats.example.com/app//  ", None, "https://stats.example.com/app"),
    ("https://stats.example.com/a/b", 8443, "https://stats.example.com:8443/a/b"),
    ("https://stats.example.com:/app", 8443, "https://stats.example.com:8443/app"),
    ("https://stats.example.com/a@b", 8443, "https://stats.example.com:8443/a@b"),
    ("https://[2001:db8::1]/app", 8443, "https://[2001:db8::1]:8443/app"),
    ("2001:db8::1", 8443, "https://[2001:db8::1]:8443"),
    ("2001:db8::1", None, "https://[2001:db8::1]"),
    ("http://127.8.8.8:80", None, "http://127.8.8.8"),
    ("https://STATS.example.com:443/", None, "https://stats.example.com"),
    ("https://stats.example.com:80", None, "https://stats.example.com:80"),
    ("https://stats.example.com:0443/app", None, "https://stats.example.com/app"),
    ("https://stats.example.com:/app", None, "https://stats.example.com/app"),
    ("https://[2001:DB8::1]:443", None, "https://[2001:db8::1]"),
    ("http://[::1]:8000/app", None, "http://[::1]:8000/app"),
    ("http://LOCALHOST:8000", None, "http://localhost:8000"),
]


@pytest.mark.parametrize(("host", "port", "expected"), BASE_URLS)
def test_base_url_is_built_from_host_port_and_schema(host: str, port: int | None, expected: str) -> None:
    assert settings_of(host, port=port).base_url == expected


EXTRA_VALUES: list[tuple[str, Any, Any]] = [
    ("timeout", 2.5, 2.5),
    ("timeout", "2.5", 2.5),
    ("max_retries", 2.0, 2),
    ("requests_per_minute", "90", 90),
    ("verify", "true", True),
    ("verify", 0, False),
    ("verify", "FALSE", False),
    ("verify", f" {CA_BUNDLE} ", CA_BUNDLE),
    ("verify", "\t \n", True),  # blank text never turns it off
    ("proxies", {}, {}),
    ("proxies", '{"http": "http://proxy:3128"}', {"http": "http://proxy:3128"}),
    ("client_cert", "", None),
    ("headers", {"CF-Access-Client-Id": "abc"}, {"CF-Access-Client-Id": "abc"}),
    ("headers", '{"X-Pass": "two words"}', {"X-Pass": "two words"}),
    ("parallel_requests", "16", 16),
    ("page_parameter", " p ", "p"),
    ("page_parameter", "page[number]", "page[number]"),
    ("update_method", "put", "PUT"),
    ("allow_insecure_http", "True", True),
]


@pytest.mark.parametrize(("name", "value", "expected"), EXTRA_VALUES)
def test_connection_extra_sets_the_client_setting_of_the_same_name(name: str, value: Any, expected: Any) -> None:
    read = getattr(settings_of(extra={name: value}), name)
    assert (type(read) is bool) == (type(expected) is bool)
    assert read == expected


def test_connection_form_and_settings_allow_the_same_values() -> None:
    """Airflow checks the values of the form by the schema of each extra, before the client reads them."""
    allowed = TypeAdapter(Settings).json_schema()["properties"]
    limits = ("minimum", "maximum", "exclusiveMinimum", "enum")
    for name, field in CONNECTION_TYPE["conn-fields"].items():
        own = next((item for item in allowed[name].get("anyOf", ()) if item["type"] != "null"), allowed[name])
        assert {key: own[key] for key in limits if key in own} == {
            key: value for key, value in field["schema"].items() if key in limits
        }, name


def test_default_of_an_extra_is_the_documented_one() -> None:
    defaults = Settings(base_url="https://stats.example.com", api_key="k")
    for name, field in CONNECTION_TYPE["conn-fields"].items():
        default = getattr(defaults, name)
        _, is_documented, documented = field["description"].rpartition("Default: ")
        if is_documented and isinstance(default, (int, float)):
            assert json.loads(documented.removesuffix(".")) == default, name


#: Rejected base URLs, and the parts of the problem.
BAD_HOSTS: list[tuple[tuple[str | None, ...], list[str]]] = [
    ((None, "", "  "), ["Base URL", "missing", "https://stats.example.com"]),
    (("ftp://stats.example.com", "file:///etc/passwd"), ["has the scheme", "https, http"]),
    (
        (
            "https://", "https:///app", "https:/stats.example.com", "https://stats example.com", "https://[2001:db8",
            "https://stats.example.com\\app", "https://stats.example.com:http", "https://stats.example.com:99999",
            "https://stats.example.com:0", "https://https://stats.example.com", "https://.example.com",
            "https://a..example.com", "https://a.example/100%",
        ),
        ["not a URL"],
    ),
    (("https://stats.example.com?page=1", "https://stats.example.com/#top"), ["a query or a fragment"]),
    (
        tuple(f"https://stats.example.com{path}" for path in ("/api/v1", "/app/api/v1/", "/API/v1/websites")),
        ["/api/v1", "Remove it"],
    ),
    (
        (
            "http://stats.example.com", "http://10.0.0.1:8000", "http://localhost.example.com",
            "http://127.0.0.1.example.com", "http://0x7f.1", "http://[::ffff:8.8.8.8]",
        ),
        ["in clear", "https", "allow_insecure_http"],
    ),
]  # fmt: skip
#: Extra to its rejected values, and the parts of the problem.
BAD_EXTRAS: list[tuple[str, list[Any], list[str]]] = [
    ("timeuot", [5, None], ["'timeuot'", "'timeout'"]),
    ("Timeout", [5], ["'Timeout'", "'timeout'"]),
    ("verify_ssl", [False], ["'verify_ssl'", "'verify'"]),
    ("xyz", [1], ["'xyz'", *EXTRAS]),
    ("api_key", ["x"], ["'api_key'", "Enter the key in the field API key"]),
    ("timeout", [0, -1, 601, "soon", "nan", 10**400, [30]], ["Allowed: a number of seconds above 0, up to 600"]),
    ("max_retries", [-1, 11, 1.5, "inf"], ["Allowed: a whole number, 0 to 10"]),
    ("requests_per_minute", [1, 1e20], ["Allowed: a whole number, 2 to 100000"]),
    ("parallel_requests", [0, 17], ["Allowed: a whole number, 1 to 16"]),
    ("verify", ["/no/such/file", "yes", 3, []], ["Allowed: true, false"]),
    ("client_cert", ["/no/such.pem", f"{__file__},/no/key", 3], ["is not allowed"]),
    ("page_parameter", ["a b", 3], ["parameter name"]),
    ("update_method", ["POST", 1], ["PATCH, PUT"]),
    ("allow_insecure_http", ["perhaps"], ["True or False"]),
    # These values might be secrets, so they are not printed.
    (
        "proxies",
        ["http://proxy:3128", ["http://proxy:3128"], {"https": None}, {"ftp": "http://p:3128"}],
        ["JSON object"],
    ),
    ("headers", ["X-Pass: a"], ["headers", "JSON object"]),
    ("headers", [{"X Pass": "a"}], ["headers", "'X Pass'", "name"]),
    ("headers", [{"X-Pass": "h1dden\nX: b"}, {"X-Pass": 3}], ["headers", "X-Pass", "one line of printable ASCII text"]),
    ("headers", [{"authorization": "Basic abc"}], ["Authorization", "API key", "Proxy-Authorization"]),
]


def shown(name: str, value: Any) -> str:
    return "" if name in ("proxies", "headers") else f"={value!r}"[:12]


PROBLEMS: list[tuple[dict[str, Any], list[str]]] = [
    *(({"host": host}, parts) for hosts, parts in BAD_HOSTS for host in hosts),
    *(
        ({"extra": {name: value}}, parts if f"'{name}'" in parts[0] else [*parts, f"{name}{shown(name, value)}"])
        for name, values, parts in BAD_EXTRAS
        for value in values
    ),
    ({"host": "", "port": 8443}, ["Base URL", "missing"]),
    ({"host": "https://stats.example.com:8443", "port": 443}, ["8443", "443", "two different ports"]),
    ({"port": "https"}, ["Port 'https' is not a number"]),
    ({"schema": "app"}, ["schema='app'", "a sub-path belong in the Base URL"]),
    ({"schema": "https", "host": "stats.example.com"}, ["schema='https'", "the scheme"]),
    ({"password": " \n"}, ["API key", "missing"]),
    ({"password": "***"}, ["'***'", "mask"]),
    ({"password": "k3y\nk3y"}, ["API key", "line break"]),
    ({"password": "schlüssel"}, ["API key", "ASCII"]),
    ({"extra": "{"}, ["extra", "JSON"]),
    ({"extra": "[]"}, ["extra", "JSON object"]),
    ({"extra": '{"timeout": Infinity}'}, ["timeout=inf", "600"]),
    ({"password": "Bearer k3y"}, ["API key", "starts with 'Bearer'"]),
    ({"password": '"k3y-in-quotes"'}, ["API key", "is in quotes"]),
    ({"host": "https://${ANALYTICS_HOST}"}, ["is not a URL"]),
    ({"host": "https://<your-host>"}, ["is not a URL"]),
]


@pytest.mark.parametrize(("fields", "expected"), PROBLEMS, ids=[str(fields)[:60] for fields, _ in PROBLEMS])
def test_problem_names_the_field_the_value_and_the_allowed_values(fields: dict[str, Any], expected: list[str]) -> None:
    problems = problems_of(**fields)
    assert len(problems) == 1
    for part in expected:
        assert part in problems[0]


def test_all_problems_are_reported_at_once() -> None:
    problems = problems_of(
        "ftp://stats.example.com",
        password="***",
        schema="app",
        extra={"timeout": 0, "max_retries": "x", "verify": "/no/such/file", "timeuot": 1, "proxies": 3, "page": 1},
    )
    parts = ("'ftp'", "'***'", "schema=", "timeout=0", "max_retries='x'", "verify=", "'timeuot'", "proxies", "'page'")
    assert len(problems) == len(parts)
    for part in parts:
        assert any(part in problem for problem in problems), part


def test_key_in_the_login_gets_a_hint_and_is_not_printed() -> None:
    problems = problems_of(password="", login=KEY)
    assert problems == (
        "The login is not used. Enter the API key in the field API key (password).",
        "The API key is missing. Enter it in the field API key of the connection.",
    )


@pytest.mark.parametrize("fields", [{}, {"port": 8443}, {"schema": "app"}], ids=str)
@pytest.mark.parametrize(
    "host",
    [
        "https://user:s3cret@stats.example.com:1", "https://s3cret@stats.example.com", "s3cret@stats.example.com",
        "https://me:s3cret@stats.example.com?x", "https://me:s3cret#@stats.example.com", "https:/me:s3cret@a.example",
        "https://me:s3cret@[2001:db8", "https://[::1?token=s3cret", "https://a.example:x?token=s3cret",
        "https://a.example?token=s3cret", "https://a.example/app?token=s3cret#x", "https://a.example#s3cret",
        "ftp://a.example?token=s3cret", "http://a.example/api/v1?token=s3cret",
    ],
)  # fmt: skip
def test_secret_in_the_host_is_not_printed(host: str, fields: dict[str, Any]) -> None:
    with pytest.raises(AnalyticsConfigError) as caught:
        settings_of(host, **fields)
    assert "s3cret" not in str(caught.value) + repr(vars(caught.value))
    if host.split("s3cret")[1].startswith("@stats") and "?" not in host:
        assert "contains a user name or password" in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"host": f"ftp://{quote(KEY, safe='')}.example.com"},
        {"host": f"https://stats.example.com/?key={quote(KEY, safe='')}"},
        {"host": f"https://stats.example.com/?key={KEY}"},
        {"schema": KEY},
        {"extra": {"timeout": KEY}},
        {"extra": {"proxies": {"https": KEY}}},
        {"extra": {KEY: 1}},
        {"extra": {"page_parameter": f"{KEY} "}},
        {"extra": {"update_method": KEY.upper()}, "password": KEY.upper()},
    ],
    ids=lambda fields: ",".join(fields),
)
def test_key_in_a_wrong_field_is_not_printed(fields: dict[str, Any]) -> None:
    shown = " ".join(problems_of(**fields))
    key = fields.get("password", KEY)
    assert key not in shown
    assert quote(key, safe="") not in shown


def test_empty_ca_path_never_turns_verification_off() -> None:
    with pytest.raises(AnalyticsConfigError, match="verify=''"):
        Settings(base_url="https://stats.example.com", api_key=KEY, verify="")


DOCUMENT = (Path(__file__).parents[3] / "docs" / "connection.md").read_text(encoding="utf-8")


def test_documented_variables_define_the_same_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = re.findall(r"^export .*$", DOCUMENT, re.MULTILINE)
    found = []
    for line in variables:
        export, assignment = shlex.split(line)
        name, _, value = assignment.partition("=")
        monkeypatch.setenv(name, value)
        connection = AnalyticsHook.get_connection("analytics_default")
        found.append(settings_from_connection(connection, "analytics_default"))  # type: ignore[arg-type]
        assert export == "export"
    wanted = Settings(
        base_url="https://stats.example.com/app", api_key="KEY", timeout=10, source="connection 'analytics_default'"
    )
    assert found == [wanted, wanted]
    assert {settings.api_key for settings in found} == {"KEY"}


def test_ipv6_address_in_a_connection_uri() -> None:
    uri = Connection(conn_id="stats", uri="analytics://:KEY@[2001:db8::1]:8443")
    assert settings_from_connection(uri, "stats").base_url == "https://[2001:db8::1]:8443"


def test_values_of_a_secrets_backend_that_are_not_text() -> None:
    connection: Any = SimpleNamespace(
        conn_type="analytics",
        host="stats.example.com",
        port="8443",
        schema=None,
        login=7,
        password=12345678,
        extra={"timeout": 5},
    )
    settings = settings_from_connection(connection, "c")
    assert (settings.api_key, settings.timeout, settings.base_url) == ("12345678", 5, "https://stats.example.com:8443")
