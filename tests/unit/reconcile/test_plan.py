from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan

VALUES = st.none() | st.booleans() | st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=3).map(tuple)
CHANGES = st.builds(
    Change,
    st.sampled_from(["create", "update", "delete"]),
    st.sampled_from(["a.example", "b.example", "c.example"]),
    st.none() | st.sampled_from(["1", "2"]),
    st.lists(
        st.builds(FieldChange, st.sampled_from(["privacy", "exclude_ips", "favorite"]), VALUES, VALUES),
        max_size=3,
        unique_by=lambda change: change.field,
    ).map(tuple),
)
PLANS = st.lists(CHANGES, max_size=3, unique_by=lambda change: (change.action, change.domain, change.website_id)).map(
    lambda changes: Plan(tuple(changes))
)


def update(number: int, before: tuple[str, ...], after: tuple[str, ...]) -> Change:
    return Change("update", f"{number:04}.example", str(number), (FieldChange("exclude_ips", before, after),))


def addresses(count: int) -> tuple[str, ...]:
    return tuple(f"10.0.0.{number}" for number in range(count))


@settings(deadline=None)
@given(one=PLANS, other=PLANS)
def test_digests_are_equal_if_and_only_if_the_plans_are(one: Plan, other: Plan) -> None:
    assert (one == other) == (one.digest == other.digest)


@settings(deadline=None)
@given(
    changes=st.lists(CHANGES, max_size=4, unique_by=lambda change: (change.action, change.domain, change.website_id))
)
def test_the_order_of_the_changes_is_no_part_of_a_plan(changes: list[Change]) -> None:
    assert Plan(tuple(changes)).digest == Plan(tuple(reversed(changes))).digest


@settings(deadline=None)
@given(plan=PLANS)
def test_a_plan_survives_json(plan: Plan) -> None:
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_an_edited_plan_is_refused() -> None:
    data = Plan((update(1, (), ("1.1.1.1",)),)).to_dict()
    data["changes"][0]["fields"]["exclude_ips"][1] = ["6.6.6.6"]
    with pytest.raises(ValueError, match="was edited"):
        Plan.from_dict(data)
    with pytest.raises(ValueError, match="not a complete plan"):
        Plan.from_dict(Plan((update(1, (), ("1.1.1.1",)),)).to_dict(limit=5))


@pytest.mark.parametrize(
    ("there", "removed", "fraction", "safe"),
    [
        pytest.param(10, 3, 0.3, True, id="equal is safe"),
        pytest.param(10, 4, 0.3, False, id="greater is not"),
        pytest.param(9, 9, 0.3, True, id="fewer than ten are not counted"),
        pytest.param(100, 31, 0.3, False, id="31 of 100"),
        pytest.param(10, 10, 1.0, True, id="all allowed"),
        pytest.param(10, 1, 0.0, False, id="none allowed"),
        pytest.param(10, 0, 0.0, True, id="none removed"),
    ],
)
def test_guards(there: int, removed: int, fraction: float, safe: bool) -> None:
    before = addresses(there)
    entries = Plan.of([update(1, before, before[removed:])], [{"id": 1, "exclude_ips": "\n".join(before)}])
    gone = [Change("delete", f"{number}.example", str(number), ()) for number in range(removed)]
    websites = Plan.of(gone, [{"id": number} for number in range(there)])
    for plan in (entries, websites):
        if safe:
            plan.raise_if_unsafe(fraction)
        else:
            with pytest.raises(UnsafePlanError, match=f"{removed} of {there}.*Nothing was sent"):
                plan.raise_if_unsafe(fraction)


def test_what_is_replaced_is_not_lost() -> None:
    """A moved office: every address is another one, and every list is as long as before."""
    before, after = ("198.51.100.1", "198.51.100.2"), ("203.0.113.1", "203.0.113.2")
    records = [{"id": number, "exclude_ips": "\n".join(before)} for number in range(50)]
    Plan.of([update(number, before, after) for number in range(50)], records).raise_if_unsafe(0)


def test_a_guard_names_the_five_worst_websites_and_their_entries() -> None:
    records = [{"id": number, "exclude_ips": "\n".join(addresses(20))} for number in range(1, 9)]
    plan = Plan.of([update(number, addresses(20), addresses(20)[number:]) for number in range(1, 9)], records)
    with pytest.raises(UnsafePlanError) as caught:
        plan.raise_if_unsafe(0.1)
    text = str(caught.value)
    assert text.startswith("36 of 160 exclude_ips entries would be lost (22%)")
    assert "0008.example (id 8) loses 10.0.0.0, 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4 and 3 more; 0007.example" in text
    assert "0003.example" not in text


def test_adding_is_never_unsafe_and_comments_are_not_counted() -> None:
    record = {"id": 1, "exclude_ips": "\n".join(["# a"] * 20 + ["1.1.1.1"])}
    plan = Plan.of([update(1, ("# a", "1.1.1.1"), addresses(50))], [record])
    assert plan.entries["exclude_ips"] == 1
    plan.raise_if_unsafe(0)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, 30, float("nan")])
def test_a_fraction_is_between_0_and_1(fraction: float) -> None:
    with pytest.raises(ValueError, match="allowed: 0 to 1"):
        Plan(()).raise_if_unsafe(fraction)


def test_what_is_left_after_a_crash_is_part_of_what_was_approved() -> None:
    one, two = update(1, (), ("1.1.1.1",)), update(2, (), ("1.1.1.1",))
    new = Change(
        "create", "n.example", None, (FieldChange("privacy", None, "private"), FieldChange("favorite", None, True))
    )
    marked = Change("update", "n.example", "9", (FieldChange("favorite", False, True),))
    approved = Plan((one, two, new))
    for rest in ((), (one,), (two, new), (marked,)):
        assert Plan(rest).remainder_of(approved)
    elsewhere = update(3, (), ("1.1.1.1",))
    moved = update(1, ("5.5.5.5",), ("5.5.5.5", "1.1.1.1"))
    opened = Change("update", "n.example", "9", (FieldChange("privacy", "private", "public"),))
    for rest in ((elsewhere,), (moved,), (opened,), (Change("delete", "n.example", "9", ()),)):
        assert not Plan(rest).remainder_of(approved)


def test_return_values_and_markdown_are_bounded() -> None:
    many = Plan(tuple(update(number, (), addresses(250)) for number in range(5000)))
    short = many.to_dict(limit=20)
    assert (len(short["changes"]), short["changes_left_out"]) == (20, 4980)
    assert len(json.dumps(short)) < 3000
    text = many.to_markdown()
    assert "and 4,900 more" in text
    assert "and 230 more" in text
    assert len(text) < 60_000


def test_markdown_of_every_kind_of_change() -> None:
    plan = Plan(
        (
            Change("create", "new.example", None, (FieldChange("privacy", None, "private"),)),
            Change(
                "update",
                "old.example",
                "7",
                (
                    FieldChange("privacy", "public", "password"),
                    FieldChange("password_from", None, "variable:stats"),
                    FieldChange("exclude_ips", ("1.1.1.1", "2.2.2.2 # x`y|<b>"), ("1.1.1.1", "3.3.3.3")),
                ),
            ),
            Change("delete", "gone.example", "8", (FieldChange("privacy", "public", None),)),
        ),
        websites=12,
    )
    assert plan.to_markdown() == (
        "**1 to create, 1 to update, 1 to delete**, 12 websites compared.\n"
        "\n"
        f"Digest `{plan.digest}`\n"
        "\n### Delete (1)\n\n"
        "- `gone.example (id 8)`\n"
        "\n### Create (1)\n\n"
        "- `new.example`\n"
        "    - privacy: `private`\n"
        "\n### Update (1)\n\n"
        "- `old.example (id 7)`\n"
        "    - exclude_ips: add `3.3.3.3`; remove `2.2.2.2 # x'y|<b>`\n"
        "    - password_from: `variable:stats`\n"
        "    - privacy: `public` → `password`\n"
    )
    assert "Nothing to change." in Plan(()).to_markdown()
