# SPDX-License-Identifier: Apache-2.0
"""Parts 2 and 3 and the rules of part 4 of the interface: fields on the wire and in the sandbox (``api/fields.py``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

import pytest
from contract_table import proves
from field_values import VALUES

from airflow_provider_analytics.api import fields
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.sandbox.laravel import DEFAULTS
from airflow_provider_analytics.sandbox.server import SandboxServer

Clients = Callable[..., AnalyticsClient]
WAYS = pytest.mark.parametrize("way", ["create", "update"])


def last_body(sandbox: SandboxServer) -> bytes:
    """Return the body of the last write request."""
    return next(request.body for request in reversed(sandbox.requests) if request.method != "GET")


def last_form(sandbox: SandboxServer) -> list[tuple[str, str]]:
    """Return the form of the last write, decoded without this package's code."""
    return parse_qsl(last_body(sandbox).decode("ascii"), keep_blank_values=True, strict_parsing=True)


def write(client: AnalyticsClient, sandbox: SandboxServer, way: str, **settings: Any) -> dict[str, Any]:
    """Create or update a website with these settings, and return its stored record."""
    if way == "create":
        website = client.create_website("new.example", **settings).record
    else:
        old = sandbox.add_website("old.example", **_others(settings))
        website = client.update_website(old["id"], **settings).record
    return next(stored for stored in sandbox.websites() if stored["id"] == website["id"])


def _others(settings: dict[str, Any]) -> dict[str, Any]:
    """Return other values for the same fields: an update to the current value is not sent."""
    found = {}
    for name in settings.keys() & set(fields.RECORD_FIELDS):
        others: tuple[Any, ...] = ("203.0.113.99", "other")
        if fields.FIELDS[name].column in ("integer", "boolean"):
            others = (0, 1)
        found[name] = next(other for other in others if not fields.same_setting(name, other, settings[name]))
    return found


DOMAINS = ["example.com", "a.b-c.example", "münchen.example", "xn--mnchen-3ya.example", "intranet"]
FLAG = [(True, "1"), (False, "0"), (1, "1"), (0, "0"), ("True", "1"), ("false", "0")]
LINES = [
    (["10.0.0.1", "10.0.0.2"], "10.0.0.1\n10.0.0.2"),
    ("10.0.0.1\n10.0.0.2", "10.0.0.1\n10.0.0.2"),
    ("10.0.0.1\r\n10.0.0.2\r\n\r\n", "10.0.0.1\n10.0.0.2"),
    (("192.0.2.1", " 2001:db8::1 "), "192.0.2.1\n2001:db8::1"),
    (["192.0.2.0/24"], "192.0.2.0/24"),
    ([], ""),
]
#: Field to values of a user, and the texts that are sent.
SENT: dict[str, list[tuple[Any, str]]] = {
    **{name: [(value.given, value.sent)] for name, value in VALUES.items()},
    "privacy": [
        (spelling, str(number))
        for number, name in enumerate(("public", "private", "password"))
        for spelling in (Privacy(number), number, str(number), name, name.upper(), f" {name} ")
    ],
    "password": [(text, text) for text in ("secret", "p ä+&=%\\'\"<>\U0001f511", "blanks in between")],
    "email": FLAG,
    "exclude_bots": FLAG,
    "exclude_params": LINES,
    "exclude_ips": LINES,
    "favorite": [(True, "1"), (False, "0")],
}


@proves(*(f"{field}-{column}" for field in SENT for column in ("values", "create", "update")), "rule-lines")
@proves("transitions", "states")
@WAYS
@pytest.mark.parametrize(("field", "given", "sent"), [(name, *pair) for name, pairs in SENT.items() for pair in pairs])
def test_value_is_sent_as_text_and_stored(
    client: AnalyticsClient, sandbox: SandboxServer, way: str, field: str, given: Any, sent: str
) -> None:
    if way == "create" and SETTINGS[field][1] is None:
        with pytest.raises(ValueError, match=f"{field} is not a field of this request"):
            client.create_website("a.example", **{field: given})
        assert sandbox.requests == []
        return
    website = write(client, sandbox, way, **{"privacy": 2} if field == "password" else {}, **{field: given})
    stored = sandbox.stored_password(website["id"]) if field == "password" else website[field]
    assert (field, sent) in last_form(sandbox)
    if isinstance(stored, bool):
        stored = int(stored)
    assert ("" if stored is None else str(stored)) == sent


NO_FLAG: list[Any] = [2, -1, "yes", "", "None", 0.5, []]
NO_LINES: list[Any] = [
    "",
    "\n \n",
    b"a",
    {"a": 1},
    "None",
    "a,b",
    7,
    *([item] for item in ("a\nb", "", 7, "a\u2028b", "a b")),
]
#: Field to the message, and rejected values.
REJECTED: dict[str, tuple[str, list[Any]]] = {
    "domain": ("domain=", ["", " ", "http://a.example", "a.example/x", "a b.example", "a.example\n", None, 7, "a..b"]),
    "privacy": (r"privacy=.*public \(0\), private \(1\), password \(2\)", [3, -1, True, "", "secret", 1.0, [1]]),
    **{name: (f"{name}=.*Allowed: True or False", NO_FLAG) for name in ("email", "exclude_bots", "favorite")},
    **{name: (name, NO_LINES) for name in ("exclude_params", "exclude_ips")},
}


@proves(*(f"{field}-values" for field in REJECTED), "rule-lines", "domain-create", "store-required")
@pytest.mark.parametrize(("field", "bad"), [(field, bad) for field, (_, values) in REJECTED.items() for bad in values])
def test_client_rejects_another_value_before_the_request(
    client: AnalyticsClient, sandbox: SandboxServer, field: str, bad: Any
) -> None:
    message = REJECTED[field][0]
    if field != "favorite":
        with pytest.raises(ValueError, match=message):
            client.create_website(**{"domain": "a.example", field: bad})
    if field != "domain":
        with pytest.raises(ValueError, match=message):
            client.update_website(1, **{field: bad})
    assert sandbox.requests == []


@proves("domain-values", "domain-create", "domain-default", "store-required", "domain-update", "update-domain")
@pytest.mark.parametrize("domain", DOMAINS)
def test_create_sends_the_domain_unchanged_and_updates_send_none(
    client: AnalyticsClient, sandbox: SandboxServer, domain: str
) -> None:
    with pytest.raises(ValueError, match="domain is not a field of this request"):
        client.update_website(1, domain=domain)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"favorit is not a field of this request\. The closest is 'favorite'"):
        client.update_website(1, favorit=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        client.create_website()  # type: ignore[call-arg]
    assert sandbox.requests == []
    assert client.create_website(domain).record["domain"] == domain
    assert last_form(sandbox) == [("domain", domain)]


@proves("rule-password", "password-default")
@WAYS
@pytest.mark.parametrize("privacy", [0, "private", None])
def test_password_is_rejected_without_privacy_2(
    client: AnalyticsClient, sandbox: SandboxServer, way: str, privacy: Any
) -> None:
    website = sandbox.add_website("b.example", privacy=2)
    send = partial(client.create_website, "a.example")
    if way == "update":
        send = partial(client.update_website, website["id"])
    with pytest.raises(ValueError, match=r"privacy=.* is not allowed. Allowed: 'password': with another privacy"):
        send(privacy=privacy, password="p")
    assert sandbox.requests == []
    client.update_website(website["id"], privacy=2, password="new")
    assert sandbox.stored_password(website["id"]) == "new"


#: Setting to an argument, the text that a create sends for it (None: it cannot send it), the value that the sandbox
#: stores by default, and the value that it stores for the argument. In the order of the form.
SETTINGS: dict[str, tuple[Any, str | None, Any, Any]] = {
    **{name: (value.given, value.sent, DEFAULTS[name], value.stored) for name, value in VALUES.items()},
    "privacy": (2, "2", 0, 2),
    "password": ("p", "p", None, None),
    "email": (True, "1", 0, 1),
    "exclude_bots": (False, "0", 1, 0),
    "exclude_params": (["a"], "a", None, "a"),
    "exclude_ips": (["192.0.2.1"], "192.0.2.1", None, "192.0.2.1"),
    "favorite": (True, None, False, True),
}


@proves(
    *(f"{field}-default" for field in SETTINGS if field != "password"),
    "rule-defaults", "store-optional", "states", "domain-create", "store-required",
)  # fmt: skip
def test_create_accepts_all_settings_or_none(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    sent = {name: text for name, (_, text, _, _) in SETTINGS.items() if text is not None}
    client.create_website("a.example", **dict.fromkeys(sent))
    assert last_body(sandbox) == b"domain=a.example"
    client.create_website("b.example", **{name: SETTINGS[name][0] for name in sent})
    assert last_form(sandbox) == [("domain", "b.example"), *sent.items()]
    by_default, with_settings = sandbox.websites()
    for name, (_, text, default, stored) in SETTINGS.items():
        if name != "password":
            assert by_default[name] == default, name
            assert with_settings[name] == (default if text is None else stored), name


@proves("update-optional", "update-no-defaults")
@pytest.mark.parametrize("field", SETTINGS)
def test_update_sends_only_the_given_fields(client: AnalyticsClient, sandbox: SandboxServer, field: str) -> None:
    lists = {"exclude_params": "x", "exclude_ips": "192.0.2.9"}
    before = sandbox.add_website("a.example", privacy=1, email=0, exclude_bots=1, **lists)
    given = ["privacy", field] if field == "password" else [field]  # not allowed without it
    client.update_website(before["id"], **{name: SETTINGS[name][0] if name in given else None for name in SETTINGS})
    assert [name for name, _ in last_form(sandbox)] == given
    (after,) = sandbox.websites()
    assert {name for name in before if before[name] != after[name]} == set(given) - {"password"}


@proves("id-in-path")
@pytest.mark.parametrize(
    ("website_id", "path"),
    [(7, "7"), ("7", "7"), ("a-b_c", "a-b_c"), ("ä%", "%C3%A4%25"), ("a&b=c;d+", "a%26b%3Dc%3Bd%2B")],
)
def test_id_is_a_single_segment_of_the_path(
    client: AnalyticsClient, sandbox: SandboxServer, website_id: Any, path: str
) -> None:
    sandbox.fault(status=200, body={"id": website_id})
    client.get_website(website_id)
    assert sandbox.requests[-1].target == f"/api/v1/websites/{path}"


NO_IDS = ["", "None", ".", "..", "a/b", "a?b", "a#b", "a b", "a\nb", None, True, 1.5, "a\\b"]


@proves("id-in-path")
@pytest.mark.parametrize("website_id", NO_IDS)
def test_client_rejects_an_invalid_id_before_the_request(
    client: AnalyticsClient, sandbox: SandboxServer, website_id: Any
) -> None:
    for call in (client.get_website, client.delete_website, lambda found: client.update_website(found, email=True)):
        with pytest.raises(ValueError, match="website_id="):
            call(website_id)
    assert sandbox.requests == []
