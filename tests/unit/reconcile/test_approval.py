"""What may be applied after an approval: all of it or nothing, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.reconcile.approval import ApprovedPlan
from airflow_provider_analytics.reconcile.plan import Change, FieldChange, Plan


def adding(number: int, before: tuple[str, ...] = (), entry: str = "1.1.1.1") -> Change:
    return Change("update", f"{number}.example", str(number), (FieldChange("exclude_ips", before, (*before, entry)),))


def setting(domain: str, website_id: str | None, **values: Any) -> Change:
    fields = tuple(FieldChange(name, None, value) for name, value in values.items())
    return Change("update" if website_id else "create", domain, website_id, fields)


NEW = setting("n.example", None, privacy="private", favorite=True)
GONE = Change("delete", "g.example", "9", ())
APPROVED = ApprovedPlan(Plan((adding(1), adding(2), NEW, GONE)))
ONE = {"id": 1, "domain": "1.example", "exclude_ips": None}
TWO = {"id": 2, "domain": "2.example", "exclude_ips": None}
DONE = {"id": 2, "domain": "2.example", "exclude_ips": "7.7.7.7\r\n::ffff:1.1.1.1"}
MADE = {"id": 5, "domain": "N.example.", "privacy": 1, "favorite": 0}
MARKED = {**MADE, "favorite": "1"}
DOOMED = {"id": 9, "domain": "g.example"}


@pytest.mark.parametrize(
    ("planned", "records"),
    [
        pytest.param((adding(1), adding(2), NEW, GONE), [ONE, TWO, DOOMED], id="nothing was done"),
        pytest.param((adding(1), NEW, GONE), [ONE, DONE, DOOMED], id="an update was applied"),
        pytest.param((adding(1, ("3.3.3.3",)), adding(2), NEW, GONE), [ONE, TWO, DOOMED], id="somebody typed an entry"),
        pytest.param(
            (adding(1), adding(2), setting("n.example", "5", favorite=True), GONE),
            [ONE, TWO, MADE, DOOMED],
            id="created",
        ),
        pytest.param((adding(1), adding(2)), [ONE, TWO, MARKED], id="the rest was done"),
        pytest.param((), [{**ONE, "exclude_ips": "1.1.1.1"}, DONE, MARKED], id="all was done"),
    ],
)
def test_what_is_left_of_an_approved_plan_may_be_applied(planned: tuple[Change, ...], records: list[Any]) -> None:
    APPROVED.raise_unless_whole(Plan(planned), records)


ALL = [ONE, TWO, DOOMED]


@pytest.mark.parametrize(
    ("planned", "records", "message"),
    [
        pytest.param(
            (adding(1), NEW, GONE),
            ALL,
            r"no longer planned: update 2\.example \(id 2\): exclude_ips add 1\.1\.1\.1",
            id="file cut",
        ),
        pytest.param((adding(1), adding(2), GONE), ALL, "no longer planned: create n.example", id="create dropped"),
        pytest.param((adding(1), adding(2), NEW), ALL, "no longer planned: delete g.example", id="deletion dropped"),
        pytest.param(
            (adding(1), adding(2), NEW, GONE, adding(3)), ALL, "not approved: update 3.example", id="another website"
        ),
        pytest.param(
            (adding(1, entry="6.6.6.6"), adding(2), NEW, GONE),
            ALL,
            "not approved: .*exclude_ips add 6.6.6.6",
            id="entry",
        ),
        pytest.param(
            (Change("update", "1.example", "1", (FieldChange("exclude_ips", ("8.8.8.8",), ("1.1.1.1",)),)),),
            ALL,
            "not approved: .*exclude_ips remove 8.8.8.8",
            id="typed by hand, and the file replaces",
        ),
        pytest.param(
            (setting("n.example", "5", privacy="public"),), [MADE], "not approved: .*privacy public", id="other value"
        ),
        pytest.param(
            (Change("delete", "n.example", "5", ()),),
            [MADE],
            "not approved: delete n.example",
            id="created, then deleted",
        ),
        pytest.param(
            (Change("delete", "g.example", "10", ()),),
            [{**DOOMED, "id": 10}],
            "not approved: delete g.example",
            id="the domain has another id now",
        ),
        pytest.param((), [], "no longer planned: update 1.example", id="websites are gone"),
        pytest.param(
            (adding(1), adding(2), NEW, Change("delete", "important.example", "9", ())),
            [ONE, TWO, {**DOOMED, "domain": "important.example"}],
            "not approved: delete important.example",
            id="the id has another domain now",
        ),
    ],
)
def test_anything_else_is_refused(planned: tuple[Change, ...], records: list[Any], message: str) -> None:
    with pytest.raises(GuardError, match=f"(?s)^The plan is not the approved one.*{message}"):
        APPROVED.raise_unless_whole(Plan(planned), records)


def test_right_before_a_change_only_what_was_approved_is_sent() -> None:
    def change_of(record: Any, _: Any) -> Change | None:
        before = tuple(record["exclude_ips"].split())
        fields = (FieldChange("exclude_ips", before, ("1.1.1.1",)),)
        return Change("update", record["domain"], str(record["id"]), fields) if before != ("1.1.1.1",) else None

    approved = APPROVED.only_approved(change_of)
    assert approved({**ONE, "exclude_ips": "1.1.1.1"}, {}) is None
    assert approved({**ONE, "exclude_ips": ""}, {}) is not None
    with pytest.raises(ValueError, match=r"since the plan was approved: .*exclude_ips remove 7\.7\.7\.7"):
        approved({**ONE, "exclude_ips": "7.7.7.7"}, {})


def test_a_setting_that_somebody_changed_since_is_another_change() -> None:
    def opening(before: str) -> Change:
        return Change("update", "a.example", "1", (FieldChange("privacy", before, "public"),))

    record = {"id": 1, "domain": "a.example", "privacy": 2}
    approved = ApprovedPlan(Plan((opening("private"),)))
    with pytest.raises(GuardError, match=r"not approved: .*privacy password → public"):
        approved.raise_unless_whole(Plan((opening("password"),)), [record])
