# SPDX-License-Identifier: Apache-2.0
"""About 300 requests, and the comparable form of their responses, to compare the sandbox with another server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import requests
from operations import PREFIX

_FORM = "application/x-www-form-urlencoded"
_JSON = {"Accept": "application/json"}
#: Headers that clients read. Others, such as ``Date``, are those of the web server.
_HEADERS = ("allow", "content-type", "location", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining")
_LONG_LIST = "\n".join(f"198.51.100.{number}" for number in range(200))

_FILTERS = {
    "search": ("site", "SITE", "", "none", "site-1.", "  site-1  ", "ü", "site-1 site", "a&b"),
    "search_by": ("domain", "", "id", "email"),
    "favorite": ("true", "false", "1", "0", "on", "off", "yes", "no", "", "2", "abc", " 1 "),
    "sort_by": ("id", "domain", "", "ID", "name", " id "),
    "sort": ("asc", "desc", "", "ASC", "up"),
    "per_page": ("10", "25", "50", "100", "", "5", "0", "-1", "ten", "010", "10.0", "1000", " 10 "),
    "page": ("1", "2", "3", "99", "0", "-1", "x", "", "1.5", " 2 ", "+2", "1e1", "9" * 30),
}
_QUERIES = (
    "",
    *(f"per_page=10&page={number}" for number in (1, 2, 7, 8, 9, 13, 14, 15, 20)),
    "per_page=10&page=2&sort=asc",
    "per_page=10&sort_by=domain&sort=asc&search=site&favorite=false",
    "search=site&search=none",
    "search=",
    "search",
    "&&",
    "per_page=10&&page=2",
    "per_page=11&sort=up&sort_by=name",
)
_NUMBERS = ("0", "1", "2", "3", "-1", "", " ", "00", "01", "1.0", "+1", " 1 ", "1e0", "abc", "true", "null", "\uff11")
_TEXTS = ("a", "", " ", " a ", "a\nb", "a\r\nb", "\na\n", "ä\U0001f600", "0", "null")
_VALUES = {
    "privacy": _NUMBERS,
    "email": _NUMBERS,
    "exclude_bots": _NUMBERS,
    "password": (*_TEXTS, "x" * 255, "x" * 256, "ä" * 255),
    "exclude_params": _TEXTS,
    "exclude_ips": (*_TEXTS, _LONG_LIST),
    "favorite": ("1", "0", "true", "false", "", " ", "2", "yes", "on", "True", " 1 ", "01", "null"),
}
_DOMAINS = (
    "new.example",
    "new.example",
    "NEW2.example",
    " trimmed.example ",
    "bücher.example",
    "xn--bcher-kva.example",
    "dot.example.",
    "_dmarc.example",
    "localhost",
    "192.0.2.1",
    "port.example:443",
    "https://scheme.example",
    "path.example/a",
    "",
    " ",
    "a b.example",
    "-a.example",
    "a-.example",
    "a..example",
    ".example",
    "*.example",
    f"{'l' * 63}.example",
    f"{'l' * 64}.example",
    f"{'long.' * 48}example",
    f"{'long.' * 50}example",
    f"{'long.' * 52}example",
    "\U0001f600.example",
    "a.example\nb.example",
)
_IDS = ("1", "12", "999", "0", "-1", "012", "abc", "9" * 18, "9" * 30, "%31", "13%20", "ü")
_PATHS = ("", "/", "/websites/", "/websites/1/", "/account/", "/account/1", "/websites/1/2", "/nothing", "/Websites")
_ACCEPTS = (
    None, "*/*", "text/html", "text/html, application/json", "application/json, */*", "application/problem+json",
)  # fmt: skip
_FAILING = (("GET", "/websites/999"), ("GET", "/nothing"), ("PUT", "/account"), ("GET", "/websites?per_page=5"))
_AUTHORIZATIONS = (
    None, "", "Bearer", "Bearer wrong", "Basic {key}", "{key}", "bearer {key}", "Bearer  {key}", "Bearer {key}x",
)  # fmt: skip


@dataclass(frozen=True)
class ParityRequest:
    """A request, by its path below the prefix."""

    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str | None] = field(default_factory=dict)

    def __str__(self) -> str:
        body = "" if self.body is None else self.body.decode()[:60]
        headers = [f"{name}: {value}" for name, value in self.headers.items() if value != _FORM]
        return " ".join([self.method, self.path, body, *headers])

    def send(self, url: str, api_key: str) -> requests.Response:
        """Send it, and do not follow a redirect."""
        given = {"Authorization": "Bearer {key}", **_JSON, **self.headers}
        headers = {name: value and value.format(key=api_key) for name, value in given.items()}
        prepared = requests.Request(self.method, f"{url}{PREFIX}{self.path}", data=self.body).prepare()
        prepared.url = f"{url}{PREFIX}{self.path}"
        prepared.headers.update({name: value for name, value in headers.items() if value is not None})
        with requests.Session() as session:
            return session.send(prepared, allow_redirects=False, timeout=30)


def _form(method: str, path: str, *pairs: tuple[str, str]) -> ParityRequest:
    return ParityRequest(method, path, urlencode(pairs).encode(), {"Content-Type": _FORM})


def parity_requests() -> Iterator[ParityRequest]:
    """Yield the requests in their order: later ones depend on the websites of earlier ones, and on 150 of the start."""
    yield _form("PATCH", "/websites/3", ("favorite", "1"))
    for name, texts in _FILTERS.items():
        for text in texts:
            yield ParityRequest("GET", f"/websites?{name}={quote(text)}")
    for query in _QUERIES:
        yield ParityRequest("GET", f"/websites?{query}")
    for name, values in _VALUES.items():
        for value in values:
            yield _form("PATCH", "/websites/1", (name, value))
    for name in ("privacy", "password", "exclude_ips"):
        for value in ("", "1", "x"):
            yield _form("POST", "/websites", ("domain", f"{name}-{value}.example"), (name, value))
    for domain in _DOMAINS:
        yield _form("POST", "/websites", ("domain", domain))
    yield _form("POST", "/websites")
    yield _form("POST", "/websites", ("privacy", "9"), ("email", "9"))
    yield _form("PUT", "/websites/1", ("privacy", "1"), ("email", "1"), ("favorite", "1"))
    yield _form("PUT", "/websites/1")
    yield _form("PUT", "/websites/999", ("privacy", "9"))
    yield _form("PATCH", "/websites/1")
    for website_id in _IDS:
        for method in ("GET", "PATCH", "DELETE"):
            if website_id not in ("1", "%31") or method != "DELETE":
                yield ParityRequest(method, f"/websites/{website_id}")
    for path in _PATHS:
        yield ParityRequest("GET", path)
    for path in ("/websites", "/websites/1", "/account"):
        for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
            if (method, path) != ("DELETE", "/websites/1"):
                yield ParityRequest(method, path)
    for accept in _ACCEPTS:
        for method, path in (("GET", "/account"), *_FAILING):
            yield ParityRequest(method, path, headers={"Accept": accept})
        yield ParityRequest("GET", "/account", headers={"Accept": accept, "Authorization": None})
    for authorization in _AUTHORIZATIONS:
        yield ParityRequest("GET", "/account", headers={"Authorization": authorization})
    for method, path in (*_FAILING, ("POST", "/websites")):
        yield ParityRequest(method, path, headers={"Authorization": "Bearer wrong"})
    for content_type in (f"{_FORM}; charset=utf-8", _FORM.upper()):
        yield ParityRequest("PATCH", "/websites/1", b"email=1", {"Content-Type": content_type})
    for body in (b"domain", b"a=b&&c=d", b"domain=+", b"domain=c.example&domain=+d.example&favorite=1&color=red&id=7"):
        yield ParityRequest("POST", "/websites", body, {"Content-Type": _FORM})
    for body in (b"email=1&&privacy=1", b"email=1&", b"email", b"email=%31", b"exclude_ips=a+b", b"=1"):
        yield ParityRequest("PATCH", "/websites/1", body, {"Content-Type": _FORM})
    yield ParityRequest("DELETE", "/websites/2")
    yield ParityRequest("DELETE", "/websites/2")
    yield _form("POST", "/websites", ("domain", "site-2.example"))


def form_of(response: requests.Response, url: str) -> dict[str, Any]:
    """Return what must be equal: status, headers, and body without texts for people, times, and the address."""
    headers = {name: response.headers[name].replace(url, "URL") for name in _HEADERS if name in response.headers}
    if "x-ratelimit-remaining" in headers:
        headers["x-ratelimit-remaining"] = "number"  # a new minute can begin
    if "allow" in headers:
        headers["allow"] = " ".join(sorted(re.split(", ?", headers["allow"])))
    content_type = headers.pop("content-type", "").partition(";")[0]
    body: Any = bool(response.text)
    if response.text and content_type == "application/json":
        body = _form_of(response.json(), url)
    return {"status": response.status_code, "type": content_type, **headers, "body": body}


def _form_of(value: Any, url: str, name: str = "") -> Any:
    if name == "errors":
        return sorted(value)
    if isinstance(value, dict):
        return {key: _form_of(item, url, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_form_of(item, url) for item in value]
    if name == "message":
        return "text"
    if name == "created_at":
        return re.sub("[0-9]", "9", value)
    return value.replace(url, "URL") if isinstance(value, str) else value
