"""A list on many websites is a file that names one field: planned both ways, the plans are equal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tables import owning

from airflow_provider_analytics.reconcile.exclusions import ExclusionList
from airflow_provider_analytics.reconcile.maintained import Listed
from airflow_provider_analytics.reconcile.plan import Plan
from airflow_provider_analytics.reconcile.websites_as_code import WebsitesAsCode
from airflow_provider_analytics.reconcile.websites_file import parse_websites

ADDRESSES = ("10.0.0.1", "10.0.0.2", "10.1.0.0/16", "2001:db8::1", "192.0.2.7", "203.0.113.9")
PARAMS = ("utm_source", "gclid", "utm_*", "fbclid", "ref", "session")
SPELLINGS = ("{}", "{} # Ann", "  {}", "{}\t# of the office")


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Websites with lists of any kind, and a list that is wanted on some of them."""
    name = draw(st.sampled_from(["exclude_ips", "exclude_params"]))
    entries = ADDRESSES if name == "exclude_ips" else PARAMS
    lists = st.lists(st.sampled_from(entries), unique=True, max_size=4)
    lines = st.lists(
        st.one_of(
            st.builds(lambda how, entry: how.format(entry), st.sampled_from(SPELLINGS), st.sampled_from(entries)),
            st.sampled_from(["# only a comment", ""]),
        ),
        max_size=5,
    )
    numbers = draw(st.lists(st.integers(1, 9), unique=True, min_size=1, max_size=6))
    shown = st.one_of(lines.map("\n".join), lines.map("\r\n".join), lines, st.none(), st.just("a, b, c"), st.just(7))
    records = []
    for number in numbers:
        record = {"id": number, "domain": f"{number}.example", "privacy": 1}
        if draw(st.integers(0, 5)):
            record[name] = draw(shown)
        records.append(record)
    return {
        "name": name,
        "mode": draw(st.sampled_from(["merge", "replace", "managed"])),
        "records": records,
        "entries": draw(lists),
        "extra": {str(number): draw(lists) for number in draw(st.sets(st.sampled_from(numbers)))},
        "spared": draw(st.sets(st.sampled_from(numbers), max_size=len(numbers) - 1)),
        "owned": {str(number): draw(lists) for number in numbers},
    }


def planned(source: ExclusionList | WebsitesAsCode, world: dict[str, Any]) -> Plan | Exception:
    name, records = world["name"], world["records"]
    desired = source.resolve(records)
    if source.managed:
        desired = replace(desired, tables=owning(name, world["owned"]))
    try:
        return desired.plan(records)
    except Exception as error:
        return error


@given(worlds())
def test_a_list_on_many_websites_is_a_file_that_names_one_field(world: dict[str, Any]) -> None:
    name, entries, extra = world["name"], world["entries"], world["extra"]
    chosen = [record for record in world["records"] if record["id"] not in world["spared"]]
    ids = {str(record["id"]) for record in chosen}
    as_list = ExclusionList(
        name,
        world["mode"],
        Listed.of(tuple(entries)),
        websites=tuple(record["domain"] for record in chosen),
        per_website={number: Listed.of(tuple(more)) for number, more in extra.items() if number in ids},
    )
    websites = {
        record["domain"]: {name: list(dict.fromkeys([*entries, *extra.get(str(record["id"]), [])]))}
        for record in chosen
    }
    as_file = parse_websites({"modes": {name: world["mode"]}, "networks": "send", "websites": websites})
    one, other = planned(as_list, world), planned(as_file, world)
    if isinstance(one, Exception) or isinstance(other, Exception):
        # Refused both ways, for the same websites.
        for record in chosen:
            assert (f"{record['domain']} (id" in str(one)) == (f"config websites.{record['domain']}:" in str(other))
        assert isinstance(one, Exception)
        assert isinstance(other, Exception)
        return
    assert one.changes == other.changes
    assert one.websites == other.websites
