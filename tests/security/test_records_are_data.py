"""Records are data: what protects secrets must not alter them, and what names a secret must not leave."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from fixture_types import Execute, Serving
from hypothesis import given
from hypothesis import strategies as st
from secret_forms import parts_in
from wire_client import KEY, client_of

from airflow_provider_analytics.operators.account import GetAccountOperator
from airflow_provider_analytics.operators.exclusions import SyncExcludedParamsOperator
from airflow_provider_analytics.operators.snapshots import SnapshotWebsitesOperator
from airflow_provider_analytics.operators.websites import GetWebsiteOperator, UpdateWebsiteOperator
from airflow_provider_analytics.snapshots.catalog import read_snapshot

#: Headers that a proxy in front may require, and that are no secrets.
HEADERS = {"X-Tenant": "acme", "X-Api-Version": "2", "X-Region": "www"}


def records_of(base: Path, day: str) -> list[dict[str, Any]]:
    snapshot = read_snapshot(str(base), day)
    assert snapshot is not None
    return [json.loads(row["record"]) for row in snapshot.rows()]


def test_short_headers_alter_no_record(
    serving: Serving, execute: Execute, logged: Callable[[], str], tmp_path: Path
) -> None:
    websites = [
        {"id": number, "domain": f"www.acme-{number}.example.com", "visits": 2, "note": "2 of acme"}
        for number in (22, 12, 2)
    ]
    with serving(*websites, headers=HEADERS):
        taken = execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
        assert execute(GetWebsiteOperator, website_id=2) == websites[2]
    assert records_of(tmp_path, taken["snapshot_date"]) == websites
    assert "Read website www.acme-2.example.com (id 2)" in logged()


@pytest.mark.parametrize("password", ["acme", "2222", "example"])
def test_a_short_password_of_a_website_alters_no_record(
    password: str, serving: Serving, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", json.dumps({"conn_type": "generic", "password": password}))
    website = {"id": 2222, "domain": "acme.example.com", "privacy": 2, "note": "acme 2222 example"}
    with serving(website):
        assert (
            execute(UpdateWebsiteOperator, website_id=2222, privacy=2, password_from="connection:page_password")[
                "website"
            ]
            == website
        )


def test_a_password_within_a_value_hides_the_value_and_nothing_else(
    serving: Serving, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_PAGE_PASSWORD", '{"conn_type": "generic", "password": "marketing"}')
    website = {"id": 7, "domain": "marketing.example.com", "privacy": 2, "note": "see marketing", "other": "sales"}
    with serving(website):
        returned = execute(UpdateWebsiteOperator, website_id=7, privacy=2, password_from="connection:page_password")
    assert returned["website"] == {**website, "note": "***"}


texts = st.one_of(st.text(), st.text("2acmewx \n%&\u200b", max_size=9))
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), texts
)
names = st.text("2acmewx_&%\u200b\u202e\n", max_size=5)


@given(st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(names, inner), max_leaves=12))
def test_what_is_let_through_is_unchanged_character_by_character(value: Any) -> None:
    with client_of("http://127.0.0.1:9", headers=HEADERS) as client:
        record = {"id": 1, "domain": "a.example", "more": value}
        assert client.for_output(record) == record
        assert json.dumps(client.for_output([record, record])) == json.dumps([record, record])


SECRET = {
    "password": "x", "passwd": "x", "passphrase": "x", "api_token": "x", "api_key": "x", "access_token": "x",
    "remember_token": "x", "private_key": "x", "authorization": "x", "two_factor_secret": "x", "apiKey": "x",
    "Api-Token": 7, "share": {"secret": "x", "kept": 1},
}  # fmt: skip
KEPT = {"visits": 5, "password_protected": True, "expires_at": "2026-01-01", "has_password": False}


def test_no_key_that_names_a_secret_is_in_xcom_or_in_a_snapshot(
    serving: Serving, execute: Execute, tmp_path: Path
) -> None:
    website = {"id": 1, "domain": "a.example", **SECRET, **KEPT}
    with serving(website):
        returned = execute(GetWebsiteOperator, website_id=1)
        taken = execute(SnapshotWebsitesOperator, base_path=str(tmp_path))
        assert execute(GetAccountOperator) == {"id": 1}
    expected = {"id": 1, "domain": "a.example", **KEPT, "share": {"kept": 1}}
    assert returned == expected
    assert records_of(tmp_path, taken["snapshot_date"]) == [expected]
    assert not [name for name in taken["fields"]["new"] if name in SECRET.keys() - {"share"}]


#: A credential of an extra header. Unlike the key, records may have it in an id or a domain.
TOKEN = "tk-live-" + "".join(f"{number:03}x" for number in range(8))


@pytest.mark.parametrize(
    ("where", "record", "arguments"),
    [
        ("website a.example (id 1)", {"exclude_params": f"x\n{TOKEN}"}, {}),
        ("website id ***", {"id": TOKEN, "domain": ""}, {}),
        ("website ***.example (id 1)", {"domain": f"{TOKEN}.example"}, {}),
        ("its settings", {}, {"list_name": f"list of {TOKEN}"}),
    ],
)
def test_a_plan_with_a_secret_in_any_value_is_not_written(
    serving: Serving, execute: Execute, tmp_path: Path, where: str, record: dict[str, Any], arguments: dict[str, Any]
) -> None:
    website = {"id": 1, "domain": "a.example", "exclude_params": "", **record}
    arguments = {"exclude_params": ["y"], "dry_run": True, "state_path": f"{tmp_path}/state", **arguments}
    message = re.escape(f"contains a secret of the connection, in {where}")
    with serving(website, headers={"X-Token": TOKEN}), pytest.raises(AirflowFailException, match=message) as caught:
        execute(SyncExcludedParamsOperator, **arguments)
    assert parts_in(str(caught.value), TOKEN) == []
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_repeats_the_base_url_is_no_secret(
    serving: Serving, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving({"id": 1, "domain": "a.example", "exclude_params": ""}) as url:
        connection = {"conn_type": "analytics", "host": url, "password": KEY}
        extra = {"headers": {"Origin": url}}
        monkeypatch.setenv("AIRFLOW_CONN_ANALYTICS_DEFAULT", json.dumps({**connection, "extra": extra}))
        result = execute(SyncExcludedParamsOperator, exclude_params=["y"], dry_run=True, state_path=f"{tmp_path}/state")
    assert result["scope"]["service"] == url
