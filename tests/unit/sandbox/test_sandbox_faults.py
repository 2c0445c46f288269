from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_analytics.sandbox.faults import Answer, Drift, Fault, FaultQueue, make_answer
from airflow_provider_analytics.sandbox.store import Store

REAL = Answer(201, {"content-type": "application/json"}, b'{"data": {}}')


def changed(fault: Fault, real: Answer | None = REAL) -> Answer:
    return make_answer(fault, real, authorization="Bearer KEY", form=b"password=a+b&privacy=2")


@pytest.mark.parametrize(
    ("fields", "commits"),
    [
        ({}, True),
        ({"delay": 1, "cut": 3, "gzip": True, "headers": {"X-A": "b"}, "options": {"total": "absent"}}, True),
        ({"drift": {"create": 1}}, True),
        ({"status": 500}, False),
        ({"body": ""}, False),
        ({"echo": True}, False),
        ({"drop": True}, False),
        ({"drop": True, "commit": True}, True),
        ({"status": 500, "commit": True}, True),
        ({"delay": 1, "commit": False}, False),
    ],
)
def test_a_request_is_carried_out_unless_its_answer_is_replaced_or_dropped(
    fields: dict[str, Any], commits: bool
) -> None:
    assert Fault(**fields).commits is commits


def test_a_fault_without_fields_changes_nothing() -> None:
    assert changed(Fault()) == REAL


def test_not_carried_out_and_not_replaced_is_an_empty_200() -> None:
    assert changed(Fault(commit=False), None) == Answer(200, {}, b"")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"message": "Internal Server Error", "errors": {}}'),
        (418, b'{"message": "I\'m a Teapot", "errors": {}}'),
        (599, b'{"message": "Error", "errors": {}}'),
        (302, b""),
        (200, b""),
    ],
)
def test_a_status_alone_brings_its_usual_body(status: int, body: bytes) -> None:
    answer = changed(Fault(status=status), None)

    assert (answer.status, answer.body) == (status, body)


@pytest.mark.parametrize("name", ["Content-Type", "content-type", "CONTENT-TYPE"])
def test_header_names_have_no_letter_case(name: str) -> None:
    assert changed(Fault(headers={name: "text/csv"})).headers == {"content-type": "text/csv"}


def test_the_echo_holds_key_and_fields() -> None:
    echoed = json.loads(changed(Fault(echo=True)).body)

    assert "Bearer KEY" in echoed["message"]
    assert "password=a+b&privacy=2" in echoed["message"]
    assert echoed["errors"] == {"password": ["a b"], "privacy": ["2"]}


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "lst"},
        {"skip": -1},
        {"times": 0},
        {"status": 100},
        {"status": 600},
        {"delay": -1},
        {"interval": -1},
        {"framing": "closed"},
        {"target": "["},
        {"options": {"colour": "red"}},
        {"options": {"total_offset": "many"}},
        {"drift": {"rename": 1}},
        {"colour": "red"},
    ],
)
def test_a_wrong_field_is_an_error_that_names_it(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        Fault(**fields)


def test_faults_apply_in_the_order_in_which_they_were_added() -> None:
    queue = FaultQueue()
    queue.add(Fault(operation="list", status=429, times=2))
    queue.add(Fault(operation="show", status=404))
    queue.add(Fault(operation="any", status=500))

    taken = [queue.take("list", "/") for _ in range(4)]

    assert [fault.status if fault else None for fault in taken] == [429, 429, 500, None]
    assert [fault.operation for fault in queue.pending()] == ["show"]


def test_requests_that_meet_another_fault_are_counted_as_skipped() -> None:
    queue = FaultQueue()
    queue.add(Fault(status=429))
    queue.add(Fault(status=500, skip=2))

    taken = [queue.take("list", "/") for _ in range(4)]

    assert [fault.status if fault else None for fault in taken] == [429, None, 500, None]


def test_a_fault_without_end_stays_until_it_is_cleared() -> None:
    queue = FaultQueue()
    queue.add(Fault(times=None))

    assert all(queue.take("list", "/") for _ in range(5))
    queue.clear()
    assert queue.take("list", "/") is None


def test_a_named_website_that_is_not_there_is_an_error() -> None:
    store = Store()
    try:
        with pytest.raises(ValueError, match=r"no website 'a\.example'"):
            Drift(delete=["a.example"]).apply(store)
        with pytest.raises(ValueError, match="no website 7"):
            Drift(flip_favorite=[7]).apply(store)
    finally:
        store.close()
