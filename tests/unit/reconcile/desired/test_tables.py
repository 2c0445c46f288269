# SPDX-License-Identifier: Apache-2.0
"""Tables of managed lists: owned, removed, and recent entries (``reconcile/desired/tables.py``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.reconcile.desired.list_lines import EntrySource, Resolution
from airflow_provider_analytics.reconcile.desired.tables import EVERYWHERE, Identity, ListTables, Run, Table, entries_of

OFFICE = Identity("https://stats.example.com", "1", "office")
VPN = replace(OFFICE, list="vpn")
TODAY = datetime(2026, 11, 23, 1, 30, tzinfo=UTC)
RUN = Run("dag/run", "sync", TODAY)
A = {"id": 1, "domain": "www.a.example", "exclude_ips": "1.1.1.1\n2.2.2.2"}
B = {"id": 2, "domain": "b.example", "exclude_ips": "1.1.1.1"}


def ips(**scopes: str) -> dict[str, dict[str, dict[str, EntrySource]]]:
    """Return the rows of a run: scope (``everywhere`` for all websites) to entries separated by blanks."""
    named = {EVERYWHERE if scope == "everywhere" else scope: entries.split() for scope, entries in scopes.items()}
    return {"exclude_ips": {scope: dict.fromkeys(entries, EntrySource()) for scope, entries in named.items()}}


def after(*nights: Mapping[str, Any], days: int = 1, identity: Identity = OFFICE) -> ListTables:
    """Return the tables of the last of some runs of a list, ``days`` apart; the last one is today."""
    before = table = Table(identity)
    for number, scopes in enumerate(nights, 1 - len(nights)):
        at = TODAY + number * timedelta(days=days)
        before, table = table, table.with_run(scopes, {}, msgspec.structs.replace(RUN, began=at), at.date())
    return ListTables(before, (), RUN, TODAY.date(), nights[-1])


@pytest.mark.parametrize(("days", "is_there"), [(90, True), (91, False)])
def test_removed_entry_is_forgotten_after_90_days(days: int, is_there: bool) -> None:
    removed = after(ips(everywhere="1.1.1.1"), ips(everywhere=""))
    later = removed.table.with_run(ips(everywhere=""), {}, RUN, TODAY.date() + timedelta(days=days))
    assert ("1.1.1.1" in later.rows["exclude_ips"][EVERYWHERE]) is is_there


def test_entry_that_returns_has_been_on_the_list_since_its_return() -> None:
    def since(*nights: str) -> str:
        return (
            after(*(ips(everywhere=night) for night in nights)).table.rows["exclude_ips"][EVERYWHERE]["1.1.1.1"].since
        )

    assert since("1.1.1.1", "1.1.1.1", "1.1.1.1") == "2026-11-21"
    assert since("1.1.1.1", "", "1.1.1.1") == "2026-11-23"
    assert since("", "1.1.1.1", "1.1.1.1") == "2026-11-22"


@pytest.mark.parametrize("scope", ["everywhere", "www.a.example", "*.a.example", "1"])
def test_list_owns_its_current_and_removed_entries_on_its_websites(scope: str) -> None:
    lists = after(ips(**{scope: "1.1.1.1 2.2.2.2"}), ips(**{scope: "2.2.2.2"}))
    assert set(lists.owned("exclude_ips", A)) == {"1.1.1.1", "2.2.2.2"}
    assert set(lists.owned("exclude_ips", B)) == ({"1.1.1.1", "2.2.2.2"} if scope == "everywhere" else set())
    assert lists.owned("exclude_params", A) == ()


@pytest.mark.parametrize(
    ("other", "days", "kept"),
    [
        pytest.param([ips(everywhere="1.1.1.1")], 0, True, id="of all websites"),
        pytest.param([ips(**{"www.a.example": "1.1.1.1"})], 0, True, id="of this website"),
        pytest.param([ips(**{"*.a.example": "1.1.1.1"})], 0, True, id="of a pattern"),
        pytest.param([ips(**{"b.example": "1.1.1.1"})], 0, False, id="of another website"),
        pytest.param([ips(everywhere="1.1.1.1"), ips(everywhere="")], 0, False, id="already removed"),
        pytest.param([ips(everywhere="1.1.1.1")], 30, True, id="30 days ago"),
        pytest.param([ips(everywhere="1.1.1.1")], 31, False, id="31 days ago"),
    ],
)
def test_entries_of_another_list_are_kept_for_30_days_after_its_last_run(
    other: list[Any], days: int, kept: bool
) -> None:
    mine = after(ips(everywhere="1.1.1.1 2.2.2.2"), ips(everywhere=""))
    vpn = after(*other, identity=VPN).table
    both = replace(mine, others=[vpn], today=mine.today + timedelta(days=days))
    assert set(both.owned("exclude_ips", A)) == {"2.2.2.2"} | (set() if kept else {"1.1.1.1"})
    assert both.kept("exclude_ips", A) == ({"1.1.1.1": "vpn"} if kept else {})


@pytest.mark.parametrize(
    ("before", "now", "is_doubted"),
    [
        ("3.3.3.3", "", True),
        ("1.1.1.1", "", False),  # the row contains it: it can be removed
        ("3.3.3.3", "3.3.3.3", False),
        ("", "3.3.3.3", False),
    ],
)
def test_list_row_without_a_removed_entry_is_read_again(before: str, now: str, is_doubted: bool) -> None:
    lists = after(ips(everywhere=before), ips(everywhere=now))
    assert lists.doubts(A) is is_doubted
    # Once is enough: a website without the entry is not read in every run.
    assert not after(ips(everywhere=before), ips(everywhere=now), ips(everywhere=now)).doubts(A)


def test_list_items_are_its_distinct_entries_and_host_names() -> None:
    scopes = ips(everywhere="1.1.1.1 2.2.2.2", **{"b.example": "2.2.2.2"})
    scopes["exclude_ips"][EVERYWHERE] |= dict.fromkeys(["3.3.3.3", "3.3.3.4"], EntrySource(names=("vpn.example.com",)))
    assert after(ips(everywhere="9.9.9.9"), scopes).table.items("exclude_ips").keys() == {
        "1.1.1.1",
        "2.2.2.2",
        "vpn.example.com",
    }


TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
NAMES = st.lists(TEXTS, max_size=2).map(tuple)
SOURCES = st.builds(EntrySource, TEXTS, st.none() | st.dates(), TEXTS, NAMES, TEXTS, TEXTS)
ROWS = st.dictionaries(
    st.sampled_from(["exclude_ips", "exclude_params"]),
    st.dictionaries(TEXTS, st.dictionaries(TEXTS, SOURCES, min_size=1, max_size=3), max_size=3),
)


@given(rows=ROWS, names=st.dictionaries(TEXTS, st.builds(Resolution, st.tuples(TEXTS), st.just(TODAY))))
def test_stored_table_is_read_unchanged(rows: Any, names: Any) -> None:
    table = Table(OFFICE, rows, names, RUN)
    assert Table.parse(table.render(), "x").checked(OFFICE, "x") == table


def test_equal_rows_of_a_thousand_websites_are_stored_once() -> None:
    source = EntrySource("it@example.com", date(2027, 1, 31), "office Berlin")
    scopes = {f"{number}.example": {"1.1.1.1": source, "2.2.2.2": source} for number in range(1000)}
    text = after({"exclude_ips": scopes}).table.render()
    assert [text.count(item) for item in ("it@example.com", '"1.1.1.1"', '"7.example"')] == [1, 1, 1]


STORED = """{
 "version": 2,
 "service": "https://stats.example.com",
 "account": "1",
 "list": "office",
 "run": {
  "name": "dag/run",
  "task": "sync",
  "began": "2026-11-24T01:30:00.500000Z"
 },
 "names": {
  "vpn.example.com": {
   "addresses": [
    "192.0.2.1"
   ],
   "at": "2026-11-24T01:30:00.500000Z"
  }
 },
 "sources": [
  {
   "owner": "zo\u00eb@example.com",
   "until": "2027-01-31",
   "names": [
    "vpn.example.com"
   ],
   "since": "2026-11-24"
  },
  {},
  {
   "left": "2026-11-23"
  }
 ],
 "rows": {
  "exclude_ips": [
   {
    "scopes": [
     "*",
     "shop.example"
    ],
    "entries": {
     "192.0.2.1": 0,
     "192.0.2.2": 1,
     "192.0.2.3": 2
    }
   }
  ]
 }
}
"""


def test_stored_table_keeps_its_format() -> None:
    at = datetime(2026, 11, 24, 1, 30, 0, 500_000, UTC)
    vpn = EntrySource("zo\u00eb@example.com", date(2027, 1, 31), names=("vpn.example.com",), since="2026-11-24")
    entries = {"192.0.2.2": EntrySource(), "192.0.2.1": vpn, "192.0.2.3": EntrySource(removed_on="2026-11-23")}
    rows = {"exclude_ips": {"shop.example": entries, "*": entries}}
    names = {"vpn.example.com": Resolution(("192.0.2.1",), at)}
    identity = Identity("https://stats.example.com", "1", "office")
    table = Table(identity, rows, names, Run("dag/run", "sync", at))
    assert table.render() == STORED
    assert Table.parse(STORED, "x") == table


TABLE = json.loads(after(ips(everywhere="1.1.1.1")).table.render())


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": []},
        {"rows": {"exclude_ips": [{"scopes": ["*"]}]}},
        {"rows": {"exclude_ips": [{"scopes": ["*"], "entries": {"1.1.1.1": 7}}]}},
        {"sources": [{"until": "soon"}]},
        {"run": {"name": "a", "task": "b", "began": "2026-11-23T01:30:00"}},
        {"names": {"vpn.example.com": {"addresses": 7, "at": TODAY.isoformat()}}},
        *("", "{", "null", '{"version": 2}'),
    ],
)
def test_invalid_table_is_rejected(wrong: Any) -> None:
    text = wrong if isinstance(wrong, str) else json.dumps({**TABLE, **wrong})
    with pytest.raises(GuardError, match=r"(?s)not a list table: s3://state/x\.json.*Restore .* or delete it"):
        Table.parse(text, "s3://state/x.json")


@pytest.mark.parametrize(
    ("version", "remedy"),
    [(3, "Upgrade airflow-provider-analytics"), (1, "delete the file: the list manages its entries again")],
)
def test_table_of_another_version_is_rejected(version: int, remedy: str) -> None:
    with pytest.raises(GuardError, match=f"(?s)has version {version}, but this package supports 2. File: x.*{remedy}"):
        Table.parse(json.dumps({**TABLE, "version": version}), "x")


@pytest.mark.parametrize(
    ("name", "value"), [("service", "https://other.example"), ("account", "2"), ("account", None), ("list", "vpn")]
)
def test_table_of_another_list_is_rejected(name: str, value: Any) -> None:
    with pytest.raises(GuardError, match=f"{name} is .*, here it is {value!r}. File: x"):
        Table.parse(json.dumps(TABLE), "x").checked(replace(OFFICE, **{name: value}), "x")


def test_announced_run_records_no_removed_entry() -> None:
    before = after(ips(everywhere="1.1.1.1 2.2.2.2")).table
    announced = before.with_run(ips(everywhere="1.1.1.1"), {}, RUN, TODAY.date(), only_announced=True)
    assert announced.rows["exclude_ips"][EVERYWHERE]["2.2.2.2"].removed_on == ""
    written = before.with_run(ips(everywhere="1.1.1.1"), {}, RUN, TODAY.date())
    assert written.rows["exclude_ips"][EVERYWHERE]["2.2.2.2"].removed_on == "2026-11-23"


def test_entry_removed_from_a_single_scope_is_still_on_the_list() -> None:
    lists = after(ips(everywhere="1.1.1.1"), ips(everywhere="", **{"www.a.example": "1.1.1.1"}))
    assert lists.table.entries_of("exclude_ips", A)["1.1.1.1"].removed_on == ""
    assert lists.table.entries_of("exclude_ips", B)["1.1.1.1"].removed_on == "2026-11-23"


def test_entries_with_a_comment_are_not_plain() -> None:
    record = {"id": 1, "domain": "a.example", "exclude_ips": "1.1.1.1 # Ann\n2.2.2.2\n# Bob"}
    assert entries_of("exclude_ips", record) == {"1.1.1.1", "2.2.2.2"}
    assert entries_of("exclude_ips", record, plain=True) == {"2.2.2.2"}
