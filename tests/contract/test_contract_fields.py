"""Parts 2, 3 and the rules of part 4: the fields, on the wire and in the sandbox."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import pytest
from contract_table import proves

from airflow_provider_analytics.api import fields
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.sandbox.requests import RecordedRequest
from airflow_provider_analytics.sandbox.server import SandboxServer


def last_write(sandbox: SandboxServer) -> RecordedRequest:
    """Return the last request that was no read."""
    return next(request for request in reversed(sandbox.requests) if request.method != "GET")


def last_form(sandbox: SandboxServer) -> list[tuple[str, str]]:
    """Return the form of the last write, decoded by another than this package's code."""
    return parse_qsl(last_write(sandbox).body.decode("ascii"), keep_blank_values=True, strict_parsing=True)


def write(client: AnalyticsClient, sandbox: SandboxServer, way: str, **settings: Any) -> dict[str, Any]:
    """Create or update a website with these settings, and return how the sandbox stores it."""
    if way == "create":
        website = client.create_website("new.example", **settings).record
    else:
        old = sandbox.add_website("old.example", **_others(settings))
        website = client.update_website(old["id"], **settings).record
    return next(stored for stored in sandbox.websites() if stored["id"] == website["id"])


def _others(settings: dict[str, Any]) -> dict[str, Any]:
    """Return other values than these for the same fields: an update to what is already there is not sent."""
    lists = dict.fromkeys(("exclude_ips", "exclude_params"), ("203.0.113.99", "other"))
    flags = dict.fromkeys(("privacy", "email", "exclude_bots", "favorite"), (0, 1))
    return {
        name: next(one for one in others if not fields.same_setting(name, one, settings[name]))
        for name, others in (lists | flags).items()
        if name in settings
    }


@proves("domain-values")
@pytest.mark.parametrize(
    "domain", ["example.com", "a.b-c.example", "münchen.example", "xn--mnchen-3ya.example", "intranet"]
)
def test_a_domain_name_is_sent_as_it_is(client: AnalyticsClient, sandbox: SandboxServer, domain: str) -> None:
    assert client.create_website(domain).record["domain"] == domain
    assert last_form(sandbox) == [("domain", domain)]


@proves("domain-values", "domain-default", "domain-create", "store-required")
@pytest.mark.parametrize(
    "domain", ["", " ", "http://a.example", "a.example/x", "a b.example", "a.example\n", None, 7, "a..b"]
)
def test_a_create_without_a_domain_name_is_refused_unsent(
    client: AnalyticsClient, sandbox: SandboxServer, domain: Any
) -> None:
    with pytest.raises(ValueError, match="domain="):
        client.create_website(domain)
    with pytest.raises(TypeError):
        client.create_website()  # type: ignore[call-arg]
    assert sandbox.requests == []


@proves("domain-create", "store-required")
def test_the_domain_is_all_that_a_create_has_to_send(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    client.create_website("new.example")
    assert last_write(sandbox).body == b"domain=new.example"
    assert [website["domain"] for website in sandbox.websites()] == ["new.example"]


@proves("domain-update", "update-domain")
def test_an_update_cannot_send_a_domain(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    with pytest.raises(ValueError, match="domain is not a field of this request"):
        client.update_website(1, domain="b.example")  # type: ignore[call-arg]
    assert sandbox.requests == []
    assert "domain" not in fields.UPDATE_FIELDS


WAYS = pytest.mark.parametrize("way", ["create", "update"])


@proves("privacy-values", "privacy-create", "privacy-update")
@WAYS
@pytest.mark.parametrize("setting", list(Privacy))
@pytest.mark.parametrize(
    "spelling", [lambda s: s, int, str, lambda s: s.name, lambda s: s.name.lower(), lambda s: f" {s} "]
)
def test_privacy_is_sent_as_its_number(
    client: AnalyticsClient, sandbox: SandboxServer, way: str, setting: Privacy, spelling: Callable[[Privacy], Any]
) -> None:
    assert write(client, sandbox, way, privacy=spelling(setting))["privacy"] == setting.value
    assert ("privacy", str(setting.value)) in last_form(sandbox)
    assert (Privacy.PUBLIC.value, Privacy.PRIVATE.value, Privacy.PASSWORD.value) == (0, 1, 2)


@proves("privacy-values")
@WAYS
@pytest.mark.parametrize("value", [3, -1, True, "", "secret", 1.0, [1]])
def test_another_privacy_is_refused_unsent(
    client: AnalyticsClient, sandbox: SandboxServer, way: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=r"privacy=.*0 \(public\), 1 \(private\), 2 \(password\)"):
        client.create_website("a.example", privacy=value) if way == "create" else client.update_website(
            1, privacy=value
        )
    assert sandbox.requests == []


@proves(
    "email-values", "email-create", "email-update", "exclude_bots-values", "exclude_bots-create", "exclude_bots-update"
)
@WAYS
@pytest.mark.parametrize("field", ["email", "exclude_bots"])
@pytest.mark.parametrize(("value", "sent"), [(True, 1), (False, 0), (1, 1), (0, 0), ("True", 1), ("false", 0)])
def test_a_flag_is_sent_as_0_or_1(
    client_with: Callable[..., AnalyticsClient], sandbox: SandboxServer, way: str, field: str, value: Any, sent: int
) -> None:
    # Whatever the format of booleans: these two are integers.
    for boolean_format in ("true/false", "1/0"):
        sandbox.reset()
        client = client_with(boolean_format=boolean_format)
        assert write(client, sandbox, way, **{field: value})[field] == sent
        assert (field, str(sent)) in last_form(sandbox)


@proves("email-values", "exclude_bots-values", "favorite-values")
@pytest.mark.parametrize("field", ["email", "exclude_bots", "favorite"])
@pytest.mark.parametrize("value", [2, -1, "yes", "", "None", 0.5, []])
def test_another_flag_is_refused_unsent(
    client: AnalyticsClient, sandbox: SandboxServer, field: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=f"{field}=.*allowed: True or False"):
        client.update_website(1, **{field: value})
    assert sandbox.requests == []


@proves("password-values", "password-create", "password-update")
@WAYS
@pytest.mark.parametrize("password", ["secret", "p ä+&=%\\'\"<>\U0001f511", " leading and trailing "])
def test_a_password_is_sent_as_it_is(client: AnalyticsClient, sandbox: SandboxServer, way: str, password: str) -> None:
    stored = write(client, sandbox, way, privacy=2, password=password)
    assert sandbox.stored_password(stored["id"]) == password
    assert ("password", password) in last_form(sandbox)


@proves("password-default")
def test_without_a_password_none_is_sent(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    client.create_website("a.example", privacy=2, password=None)
    assert [name for name, _ in last_form(sandbox)] == ["domain", "privacy"]
    assert sandbox.stored_password(1) is None


@proves("rule-password")
@WAYS
@pytest.mark.parametrize("privacy", [0, 1, None])
def test_a_password_has_no_effect_without_privacy_2(
    client: AnalyticsClient, sandbox: SandboxServer, caplog: pytest.LogCaptureFixture, way: str, privacy: int | None
) -> None:
    stored = write(client, sandbox, way, privacy=privacy, password="no-effect")
    assert ("password", "no-effect") in last_form(sandbox)
    assert sandbox.stored_password(stored["id"]) is None
    assert [message for message in caplog.messages if "has no effect" in message] == [
        f"The password has no effect: privacy is {'private' if privacy else 'public'}, and a password is used only "
        "with password."
    ]


@proves("rule-password")
def test_a_password_keeps_its_effect_on_a_website_with_privacy_2(
    client: AnalyticsClient, sandbox: SandboxServer
) -> None:
    website = sandbox.add_website("a.example", privacy=2)
    client.update_website(website["id"], password="new")
    assert sandbox.stored_password(website["id"]) == "new"


LISTS = pytest.mark.parametrize("field", ["exclude_params", "exclude_ips"])


@proves(
    "exclude_params-values",
    "exclude_params-create",
    "exclude_params-update",
    "exclude_ips-values",
    "exclude_ips-create",
    "exclude_ips-update",
    "rule-lines",
)
@WAYS
@LISTS
@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (["10.0.0.1", "10.0.0.2"], "10.0.0.1\n10.0.0.2"),
        ("10.0.0.1\n10.0.0.2", "10.0.0.1\n10.0.0.2"),
        ("10.0.0.1\r\n10.0.0.2\r\n\r\n", "10.0.0.1\n10.0.0.2"),
        (("192.0.2.1", " 2001:db8::1 "), "192.0.2.1\n2001:db8::1"),
        (["192.0.2.0/24"], "192.0.2.0/24"),
        ([], ""),
    ],
)
def test_a_list_is_sent_one_entry_per_line(
    client: AnalyticsClient, sandbox: SandboxServer, way: str, field: str, given: Any, sent: str
) -> None:
    assert (write(client, sandbox, way, **{field: given})[field] or "") == sent
    assert (field, sent) in last_form(sandbox)


@proves("rule-lines")
@LISTS
@pytest.mark.parametrize(
    "bad",
    [["a\nb"], [""], ["a", " "], [7], 7, "", "\n \n", b"a", {"a": 1}, ["a\u2028b"], "None", "a,b", ["a b"]],
)
def test_what_is_no_entry_per_line_is_refused_unsent(
    client: AnalyticsClient, sandbox: SandboxServer, field: str, bad: Any
) -> None:
    with pytest.raises(ValueError, match=field):
        client.update_website(1, **{field: bad})
    assert sandbox.requests == []


@proves("favorite-values", "favorite-update")
@pytest.mark.parametrize(("boolean_format", "texts"), [("true/false", ("false", "true")), ("1/0", ("0", "1"))])
@pytest.mark.parametrize("value", [False, True])
def test_favorite_is_sent_as_a_boolean(
    client_with: Callable[..., AnalyticsClient], sandbox: SandboxServer, boolean_format: str, texts: Any, value: bool
) -> None:
    assert write(client_with(boolean_format=boolean_format), sandbox, "update", favorite=value)["favorite"] is value
    assert last_form(sandbox) == [("favorite", texts[value])]


@proves("favorite-create")
def test_a_create_cannot_send_favorite(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    with pytest.raises(ValueError, match="favorite is not a field of this request"):
        client.create_website("a.example", favorite=True)  # type: ignore[call-arg]
    assert sandbox.requests == []


@proves(
    "favorite-default",
    "exclude_params-default",
    "exclude_ips-default",
    "privacy-default",
    "email-default",
    "exclude_bots-default",
    "rule-defaults",
)
def test_a_new_website_has_the_defaults(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    client.create_website(
        "a.example", privacy=None, email=None, exclude_bots=None, exclude_params=None, exclude_ips=None
    )
    assert last_form(sandbox) == [("domain", "a.example")]
    (stored,) = sandbox.websites()
    assert (stored["privacy"], stored["email"], stored["exclude_bots"]) == (0, 0, 1)
    assert not stored["exclude_params"]
    assert not stored["exclude_ips"]
    assert not stored["favorite"]


@proves("store-optional", "states")
def test_a_create_can_send_all_six_settings(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    client.create_website(
        "a.example",
        privacy=2,
        password="p",
        email=True,
        exclude_bots=False,
        exclude_params=["a"],
        exclude_ips=["192.0.2.1"],
    )
    assert last_write(sandbox).body == (
        b"domain=a.example&privacy=2&password=p&email=1&exclude_bots=0&exclude_params=a&exclude_ips=192.0.2.1"
    )
    (stored,) = sandbox.websites()
    assert (stored["privacy"], stored["email"], stored["exclude_bots"], stored["exclude_ips"]) == (2, 1, 0, "192.0.2.1")


SETTINGS: dict[str, Any] = {
    "privacy": 1, "password": "p", "email": True, "exclude_bots": False, "exclude_params": ["a"],
    "exclude_ips": ["192.0.2.1"], "favorite": True,
}  # fmt: skip


@proves("update-optional", "update-no-defaults")
@pytest.mark.parametrize("field", SETTINGS)
def test_an_update_sends_what_is_given_and_changes_nothing_else(
    client: AnalyticsClient, sandbox: SandboxServer, field: str
) -> None:
    before = sandbox.add_website(
        "a.example", privacy=2, email=0, exclude_bots=1, exclude_params="x", exclude_ips="192.0.2.9", password="old"
    )
    others = {name: None for name in SETTINGS if name != field}
    client.update_website(before["id"], **{field: SETTINGS[field]}, **others)
    assert [name for name, _ in last_form(sandbox)] == [field]
    (after,) = sandbox.websites()
    assert {name for name in before if before[name] != after[name]} == {field} - {"password"}


@proves("update-optional")
def test_an_update_of_nothing_is_refused_unsent(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    for settings in ({}, dict.fromkeys(SETTINGS)):
        with pytest.raises(ValueError, match="Nothing to update"):
            client.update_website(1, **settings)
    assert sandbox.requests == []


@proves("transitions", "states")
@pytest.mark.parametrize(("one", "other"), list(itertools.product(Privacy, repeat=2)))
def test_every_move_between_values_is_sent_and_taken(
    client: AnalyticsClient, sandbox: SandboxServer, one: Privacy, other: Privacy
) -> None:
    website = sandbox.add_website("a.example", privacy=one.value)
    assert client.update_website(website["id"], privacy=other).record["privacy"] == other
    for field in ("email", "exclude_bots", "favorite"):
        for value in (False, True, True, False, False):
            assert client.update_website(website["id"], **{field: value}).record[field] == value  # type: ignore[arg-type]


@proves("id-in-path")
@pytest.mark.parametrize(
    ("website_id", "path"),
    [(7, "7"), ("7", "7"), ("a-b_c", "a-b_c"), ("ä%", "%C3%A4%25"), ("a&b=c;d+", "a%26b%3Dc%3Bd%2B")],
)
def test_the_id_is_one_segment_of_the_path(
    client: AnalyticsClient, sandbox: SandboxServer, website_id: Any, path: str
) -> None:
    sandbox.fault(status=200, body={"id": website_id})
    client.get_website(website_id)
    assert sandbox.requests[-1].target == f"/api/v1/websites/{path}"


@proves("id-in-path")
@pytest.mark.parametrize(
    "website_id", ["", "None", ".", "..", "a/b", "a?b", "a#b", "a b", "a\nb", None, True, 1.5, "a\\b"]
)
def test_what_cannot_be_an_id_is_refused_unsent(
    client: AnalyticsClient, sandbox: SandboxServer, website_id: Any
) -> None:
    for call in (client.get_website, client.delete_website, lambda found: client.update_website(found, email=True)):
        with pytest.raises(ValueError, match="website_id="):
            call(website_id)
    assert sandbox.requests == []


@proves("id-sorts")
def test_newest_first_is_by_falling_id(client: AnalyticsClient, sandbox: SandboxServer) -> None:
    sandbox.seed(30)
    found = client.list_websites(sort_by="id", sort="desc")
    assert [website["id"] for website in found] == list(range(30, 0, -1))
    assert [website["created_at"] for website in found] == sorted((w["created_at"] for w in found), reverse=True)
