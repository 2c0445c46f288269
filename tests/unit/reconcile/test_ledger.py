from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_analytics.reconcile.ledger import Identity, Ledger, OwnedWebsite, Try
from airflow_provider_analytics.reconcile.plan import Change, FieldChange

OFFICES = Identity("https://stats.example.com", "1", "offices")
IPS = ("exclude_ips",)
RECORD = {"id": 1, "domain": "a.example", "exclude_ips": "9.9.9.9\n1.1.1.1"}


def owning(*entries: str, domain: str = "a.example") -> Ledger:
    return Ledger(OFFICES, websites={"1": OwnedWebsite(domain, {"exclude_ips": entries})})


def update(before: tuple[str, ...], after: tuple[str, ...], number: str | None = "1") -> Change:
    action: Any = "update" if number else "create"
    return Change(action, "a.example", number, (FieldChange("exclude_ips", before, after),))


def settled(ledger: Ledger, *sent: Change, planned: tuple[Change, ...] = (), **how: Any) -> Any:
    claimed = ledger.claim(planned or sent, IPS)
    after = ledger.settle([RECORD], sent, {"exclude_ips": ("1.1.1.1",)}, claimed=claimed, fields=IPS, **how)
    return {key: dict(website.owned) for key, website in Ledger.parse(after.render(), OFFICES).websites.items()}


def test_a_ledger_is_read_as_it_was_written() -> None:
    ledger = replace(owning("2.2.2.2", "1.1.1.1"), lists={"exclude_ips": ("2.2.2.2",), "exclude_params": ()})
    again = Ledger.parse(ledger.render(), OFFICES)
    assert again.owned(RECORD) == {"exclude_ips": ("1.1.1.1", "2.2.2.2")}
    assert again.lists == {"exclude_ips": ("2.2.2.2",)}
    website = OwnedWebsite("a.example", *({"exclude_ips": (f"{number}.1.1.1",)} for number in range(1, 4)))
    assert Ledger.parse(Ledger(OFFICES, websites={"1": website}).render(), OFFICES).websites == {"1": website}


def test_a_ledger_tells_its_owner_and_whether_changes_are_outstanding() -> None:
    owner = Try("dag.sync[3]", "run", 2, "token", "2026-11-21T10:00:00+00:00")
    for settled_at in (None, "2026-11-21T10:00:09+00:00"):
        again = Ledger.parse(replace(owning("2.2.2.2"), owner=replace(owner, settled=settled_at)).render(), OFFICES)
        assert again.owner == replace(owner, settled=settled_at)
        assert again.is_open is (settled_at is None)
    assert str(owner) == "try 2 of dag.sync[3] in run run"
    # Before 0.2 ledgers had none.
    assert Ledger.parse(owning("2.2.2.2").render(), OFFICES).is_open is False


@pytest.mark.parametrize(
    ("other", "began", "replaces"),
    [
        ({}, "09", True),
        ({}, "11", False),  # of a run that was deleted and made again
        ({"number": 2}, "09", False),
        ({"number": 3}, "09", False),
        ({"run": "next"}, "09", False),
        ({"task": "dag.sync[4]"}, "09", False),
    ],
)
def test_a_try_replaces_the_earlier_ones_of_its_task_and_run(other: dict[str, Any], began: str, replaces: bool) -> None:
    later = Try("dag.sync[3]", "run", 2, "token", "2026-11-21T10:00:00+00:00")
    earlier = replace(later, **{"number": 1, **other})
    assert later.replaces(earlier, f"2026-11-21T{began}:00:00+00:00") is replaces


OPEN = Try("dag.sync", "run", 1, "token", "2026-11-21T10:00:00+00:00")


def test_what_a_try_that_did_not_settle_has_claimed_stays_owned_until_it_is_seen() -> None:
    """Its update may be under way, and may add what it claimed; what the ledger owned before cannot appear any more."""
    claims = owning("1.1.1.1", "7.7.7.7").claim([update((), ("3.3.3.3",))], IPS)
    assert settled(claims) == {"1": {"exclude_ips": ("1.1.1.1",)}}
    left = replace(claims, owner=OPEN)
    assert settled(left) == {"1": {"exclude_ips": ("1.1.1.1", "3.3.3.3")}}
    # Carried once: the run after that has seen whether it arrived.
    after = left.settle([RECORD], (), {}, fields=IPS)
    assert settled(replace(after, owner=replace(OPEN, settled="then"))) == {"1": {"exclude_ips": ("1.1.1.1",)}}


def test_what_this_run_removed_after_a_killed_try_may_be_typed_by_a_person() -> None:
    """The killed try had not claimed it: no request of it can add it again."""
    left = replace(owning("1.1.1.1", "9.9.9.9").claim([update((), ("3.3.3.3",))], IPS), owner=OPEN)
    removed = update(("9.9.9.9", "1.1.1.1"), ("1.1.1.1",))
    assert settled(left, removed) == {"1": {"exclude_ips": ("1.1.1.1", "3.3.3.3")}}


def test_a_change_that_adds_more_than_is_claimed_is_not_covered() -> None:
    claims = owning("1.1.1.1").claim([update((), ("3.3.3.3",))], IPS)
    assert claims.covers(update((), ("1.1.1.1", "3.3.3.3")), IPS)
    assert not claims.covers(update((), ("4.4.4.4",)), IPS)
    assert claims.covers(update((), ("4.4.4.4",)), ["exclude_params"])


def test_what_is_claimed_is_what_a_plan_adds_besides_what_is_owned() -> None:
    claimed = owning("7.7.7.7").claim([update(("9.9.9.9",), ("9.9.9.9", "1.1.1.1"))], IPS)
    assert claimed.owned(RECORD) == {"exclude_ips": ("7.7.7.7", "1.1.1.1")}
    assert owning("7.7.7.7").claim([update((), ("x",))], ["exclude_params"]).owned(RECORD) == {
        "exclude_ips": ("7.7.7.7",)
    }


@pytest.mark.parametrize(
    ("sent", "owned"),
    [
        pytest.param([(("9.9.9.9",), ("9.9.9.9", "1.1.1.1"))], ["1.1.1.1"], id="added"),
        pytest.param([(("9.9.9.9", "7.7.7.7"), ("9.9.9.9", "1.1.1.1"))], ["1.1.1.1"], id="replaced"),
        pytest.param([(("9.9.9.9", "1.1.1.1"), ("9.9.9.9", "1.1.1.1", "2.2.2.2"))], ["2.2.2.2"], id="typed meanwhile"),
        pytest.param(
            [((), ("1.1.1.1",)), (("2.2.2.2",), ("2.2.2.2", "1.1.1.1"))], ["1.1.1.1"], id="sent twice, overwritten once"
        ),
    ],
)
def test_what_is_owned_follows_from_what_was_sent(sent: list[Any], owned: list[str]) -> None:
    changes = [update(before, after) for before, after in sent]
    assert settled(owning("7.7.7.7"), *changes) == {"1": {"exclude_ips": tuple(owned)}}


def test_without_a_change_what_is_still_there_stays_owned() -> None:
    assert settled(owning("1.1.1.1", "7.7.7.7")) == {"1": {"exclude_ips": ("1.1.1.1",)}}


def test_a_change_that_was_refused_is_not_owned_and_an_unclear_one_is() -> None:
    planned = (update(("9.9.9.9", "1.1.1.1"), ("9.9.9.9", "1.1.1.1", "3.3.3.3")),)
    assert settled(owning(), planned=planned) == {}
    assert settled(owning(), planned=planned, unclear={"1"}) == {"1": {"exclude_ips": ("3.3.3.3",)}}


def test_a_website_is_known_by_its_domain_while_it_is_created() -> None:
    created = update((), ("3.3.3.3",), None)
    claimed = Ledger(OFFICES).claim([created], IPS)
    # After a kill, it is found by its domain; afterwards by its id.
    new = {"id": 5, "domain": "a.example", "exclude_ips": "3.3.3.3"}
    assert claimed.owned(new) == {"exclude_ips": ("3.3.3.3",)}
    after = claimed.settle([new], [], {}, fields=IPS)
    assert after.websites == {"5": OwnedWebsite("a.example", {"exclude_ips": ("3.3.3.3",)})}
    assert settled(Ledger(OFFICES), replace(created, website_id="5")) == {"5": {"exclude_ips": ("3.3.3.3",)}}


def test_matching_entries_are_adopted() -> None:
    desired = {"1": {"exclude_ips": ("1.1.1.1", "2.2.2.2")}}
    assert Ledger(OFFICES).adopt([RECORD], desired).owned(RECORD) == {"exclude_ips": ("1.1.1.1",)}


def test_websites_that_are_not_touched_stay_in_the_ledger_and_deleted_ones_do_not() -> None:
    other = OwnedWebsite("z.example", {"exclude_ips": ("9.9.9.9",)})
    ledger = Ledger(OFFICES, websites={"7": other, "8": other})
    after = ledger.settle([], [Change("delete", "z.example", "8", ())], {}, fields=IPS)
    assert after.websites == {"7": other}


def test_an_id_that_means_another_website_now_owns_nothing() -> None:
    assert owning("1.1.1.1", domain="before.example").owned(RECORD) == {}


GOOD = '"version": 1, "service": "https://stats.example.com", "account": "1", "list": "offices"'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 1}',
        f'{{{GOOD}, "lists": {{}}, "websites": []}}',
        f'{{{GOOD}, "lists": {{"exclude_ips": [7]}}, "websites": {{}}}}',
        f'{{{GOOD}, "lists": {{"excluded": []}}, "websites": {{}}}}',
        f'{{{GOOD}, "lists": {{}}, "websites": {{"1": {{"domain": "a"}}}}}}',
        f'{{{GOOD}, "lists": {{}}, "websites": {{"1": {{"domain": 7, "entries": {{}}}}}}}}',
        f'{{{GOOD}, "lists": {{}}, "websites": {{"1": {{"domain": "a", "entries": {{"exclude_ips": [7]}}}}}}}}',
        f'{{{GOOD}, "lists": {{}}, "websites": {{}}, "owner": {{"task": "a"}}}}',
    ],
)
def test_a_corrupt_ledger_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"The ledger .*cannot be read"):
        Ledger.parse(text, OFFICES)


@pytest.mark.parametrize(
    ("name", "value"), [("service", "https://other.example"), ("account", "2"), ("account", None), ("list", "vpn")]
)
def test_the_ledger_of_something_else_is_refused_with_the_path_to_write_instead(name: str, value: Any) -> None:
    other = replace(OFFICES, **{name: value})
    with pytest.raises(ValueError, match=f"{name} is .*, here it is {value!r}") as caught:
        Ledger.parse(owning("1.1.1.1").render(), other, "s3://state/offices.json")
    assert f"such as s3://state/offices-{other.list}.json" in str(caught.value)


def test_a_ledger_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2"):
        Ledger.parse(owning().render().replace('"version": 1', '"version": 2'), OFFICES)
