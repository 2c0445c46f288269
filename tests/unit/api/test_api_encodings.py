"""What goes onto the wire, decoded by the standard library: nothing is lost or added on the way."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operations import write
from raw_server import RawServer, http
from wire_client import client_of

from airflow_provider_analytics.api import fields
from airflow_provider_analytics.api.client import website_path
from airflow_provider_analytics.api.fields import Privacy
from airflow_provider_analytics.api.settings import Settings
from airflow_provider_analytics.api.transport import Transport
from airflow_provider_analytics.exceptions import AnalyticsConnectionError

TEXTS = ("false", "true")
texts = st.text(st.characters(codec="utf-8"))
lines = texts.map(str.strip).filter(lambda text: len(text.splitlines()) == 1)
flags = st.none() | st.booleans()
update_settings = st.fixed_dictionaries(
    {},
    optional={
        "privacy": st.none() | st.sampled_from(Privacy),
        "password": st.none() | lines.filter(lambda text: text != "***"),
        "email": flags,
        "exclude_bots": flags,
        "exclude_params": st.none() | st.lists(st.from_regex(r"[a-z_\[\]~*.]{1,9}[a-z]", fullmatch=True)),
        "exclude_ips": st.none() | st.lists(st.ip_addresses(v=4).map(str).filter(lambda one: one != "0.0.0.0")),
        "favorite": flags,
    },
)


@given(given_settings=update_settings)
def test_a_form_comes_back_as_it_was_given(given_settings: dict[str, Any]) -> None:
    wanted = {name: value for name, value in given_settings.items() if value is not None}
    if not wanted:
        with pytest.raises(ValueError, match="Nothing to update"):
            fields.check_update(**given_settings)
        return
    form = fields.form(fields.check_update(**given_settings), TEXTS)
    back = dict(parse_qsl(urlencode(form), keep_blank_values=True, strict_parsing=True))
    assert back.keys() == wanted.keys()
    for name, value in wanted.items():
        if name in fields.LINE_FIELDS:
            assert (back[name].split("\n") if back[name] else []) == value
        elif name == "password":
            assert back[name] == value
        else:
            assert fields.same_setting(name, back[name], value)


@given(search=st.none() | texts, favorite=flags, size=st.none() | st.sampled_from(fields.PAGE_SIZES))
def test_a_query_comes_back_as_it_was_given(search: str | None, favorite: bool | None, size: int | None) -> None:
    query = fields.list_query(boolean_texts=TEXTS, search=search, favorite=favorite, per_page=size)
    back = dict(parse_qsl(urlencode(query), keep_blank_values=True))
    assert back.get("search") == search
    assert back.get("favorite") == (None if favorite is None else TEXTS[favorite])
    assert back.get("per_page") == (None if size is None else str(size))


segments = st.lists(st.sampled_from([*"abXZ09-_~ä", "%20", "%C3%A4", "b.c"]), min_size=1, max_size=6).map("".join)


def test_every_base_url_is_joined_with_the_path() -> None:
    @settings(deadline=None, max_examples=50)
    @given(
        path=st.lists(segments, max_size=3),
        slashes=st.sampled_from(["", "/", "///"]),
        website_id=st.from_regex(r"[A-Za-z0-9_%&+=;:@ä-]+", fullmatch=True).filter(lambda text: text != "None"),
    )
    def join(path: list[str], slashes: str, website_id: str) -> None:
        below = "".join(f"/{segment}" for segment in path)
        with client_of(f"{server.url}{below}{slashes}") as client:
            write(client, "DELETE", website_path(website_id))
        target = server.requests[-1].target
        assert unquote(target) == f"{unquote(below)}/api/v1/websites/{website_id}"
        assert target.endswith(f"/api/v1{website_path(website_id)}")

    with RawServer([http(204, kind=None)]) as server:
        join()


@pytest.mark.parametrize("host", ["*.example.com", f"{'a' * 70}.example.com"])
def test_a_host_that_no_request_can_be_sent_to_is_an_error_of_this_package(host: str) -> None:
    transport = Transport(Settings(base_url=f"https://{host}", api_key="key"), sleep=lambda seconds: None)
    with pytest.raises(AnalyticsConnectionError, match="not a valid address") as caught:
        transport.request("GET", "/account")
    assert (caught.value.sent, caught.value.transient, transport.stats.retries) == (False, False, 0)


@pytest.mark.parametrize("bad", [{"favourite": True}, {"page": 2}, {"perpage": 10}])
def test_an_unknown_filter_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="is not a field of this request"):
        fields.list_query(boolean_texts=TEXTS, **bad)
