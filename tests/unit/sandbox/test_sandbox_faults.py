from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from airflow_provider_analytics.sandbox.faults import Drift, Fault, FaultQueue
from airflow_provider_analytics.sandbox.requests import Operation, RecordedRequest
from airflow_provider_analytics.sandbox.store import Store


def changed(fault: Fault) -> Response:
    return fault.apply(JSONResponse({"data": {}}, 201))


def request(operation: Operation = "list") -> RecordedRequest:
    return RecordedRequest(operation, "GET", "/", "http://sandbox", [], b"")


@pytest.mark.parametrize(
    ("fields", "commits"),
    [
        ({}, True),
        ({"delay": 1, "headers": {"X-A": "b"}}, True),
        ({"drift": {"create": 1}}, True),
        ({"status": 500}, False),
        ({"body": ""}, False),
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
    response = changed(Fault())

    assert (response.status_code, bytes(response.body)) == (201, b'{"data":{}}')


def test_not_carried_out_and_not_replaced_is_an_empty_200() -> None:
    response = Fault(commit=False).apply(None)

    assert (response.status_code, bytes(response.body)) == (200, b"")


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"message":"Server Error"}'),
        (418, b'{"message":"I\'m a Teapot"}'),
        (599, b'{"message":"Error"}'),
        (302, b""),
        (200, b""),
    ],
)
def test_a_status_alone_brings_its_usual_body(status: int, body: bytes) -> None:
    response = Fault(status=status).apply(None)

    assert (response.status_code, bytes(response.body)) == (status, body)


@pytest.mark.parametrize("name", ["Content-Type", "content-type", "CONTENT-TYPE"])
def test_header_names_have_no_letter_case(name: str) -> None:
    assert changed(Fault(headers={name: "text/csv"})).headers.getlist("content-type") == ["text/csv"]


@pytest.mark.parametrize(
    "fields",
    [
        {"operation": "lst"},
        {"skip": -1},
        {"times": 0},
        {"status": 100},
        {"status": 600},
        {"delay": -1},
        {"target": "["},
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

    taken = [queue.take(request()) for _ in range(4)]

    assert [fault.status if fault else None for fault in taken] == [429, 429, 500, None]
    assert [fault.operation for fault in queue.pending()] == ["show"]


def test_requests_that_meet_another_fault_are_counted_as_skipped() -> None:
    queue = FaultQueue()
    queue.add(Fault(status=429))
    queue.add(Fault(status=500, skip=2))

    taken = [queue.take(request()) for _ in range(4)]

    assert [fault.status if fault else None for fault in taken] == [429, None, 500, None]


def test_a_fault_without_end_stays_until_it_is_cleared() -> None:
    queue = FaultQueue()
    queue.add(Fault(times=None))

    assert all(queue.take(request()) for _ in range(5))
    queue.clear()
    assert queue.take(request()) is None


def test_a_named_website_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no website 'a\.example'"):
        Drift(delete=["a.example"]).apply(Store())
    with pytest.raises(ValueError, match="no website 7"):
        Drift(flip_favorite=[7]).apply(Store())
