# SPDX-License-Identifier: Apache-2.0
"""No write reaches a website of somebody else, whatever happens between two attempts (``api/client.py``)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from raw_server import Request, answer_read, http
from wire_client import Time, served

import airflow_provider_analytics
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.exceptions import DomainError

MINE: dict[str, Any] = {"id": 7, "domain": "mine.example", "email": 0, "privacy": 1}
OTHERS: dict[str, Any] = {"id": 7, "domain": "new.example", "email": 0, "privacy": 1}


class Reused:
    """A service that rejects the first write, and then gives the id to a website of somebody else."""

    def __init__(self, rejection: bytes) -> None:
        self.stored = MINE
        self.writes = 0
        self._rejection = rejection

    def __call__(self, request: Request) -> bytes:
        if request.method == "GET":
            return answer_read(request, [self.stored])
        self.writes += 1
        if self.writes == 1:
            self.stored = OTHERS
            return self._rejection
        self.stored = {**self.stored, "email": 1}
        return http(200, {"data": self.stored})


WRITES: dict[str, Callable[[AnalyticsClient], Any]] = {
    "update": lambda client: client.update_website(7, email=True),
    "update with the domain": lambda client: client.update_website(7, expected_domain="mine.example", email=True),
    "delete": lambda client: client.delete_website(7),
    "delete with the domain": lambda client: client.delete_website(7, expected_domain="mine.example"),
}
# A delete that is answered with 503 might have been applied: see the next test.
REJECTED = [*((write, 429) for write in WRITES), *((write, 503) for write in WRITES if "update" in write)]


@pytest.mark.parametrize(("write", "status"), REJECTED)
def test_write_is_not_repeated_if_the_id_belongs_to_another_website_now(write: str, status: int) -> None:
    service = Reused(http(status, {"message": "slow down"}))
    with served(service, Time()) as (client, _), pytest.raises(DomainError) as caught:
        WRITES[write](client)
    assert service.writes == 1
    assert service.stored == OTHERS
    assert "'new.example'" in str(caught.value)
    assert "'mine.example'" in str(caught.value)
    assert caught.value.permanent


@pytest.mark.parametrize("status", [500, 502, 503])
def test_delete_that_might_have_been_applied_leaves_the_next_owner_of_the_id(status: int) -> None:
    """The id was given to a new website, or the domain was renamed and nothing was deleted: a person has to look."""
    service = Reused(http(status, {"message": "Server Error"}))
    with (
        served(service, Time()) as (client, _),
        pytest.raises(DomainError, match="check whether the website is deleted") as caught,
    ):
        client.delete_website(7)
    assert (service.writes, service.stored) == (1, OTHERS)
    assert caught.value.permanent


@pytest.mark.parametrize("write", ["update with the domain", "delete with the domain"])
@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"id": 7}, "has no domain, so it might not be 'mine.example'"),
        ({"id": 7, "domain": None}, "has no domain, so it might not be 'mine.example'"),
        (OTHERS, "'new.example', not 'mine.example'"),
    ],
)
def test_write_is_not_sent_if_the_domain_was_renamed_or_is_unknown(
    write: str, record: dict[str, Any], problem: str
) -> None:
    service = Reused(http(200))
    service.stored = record
    with served(service, Time()) as (client, _), pytest.raises(DomainError, match=re.escape(problem)):
        WRITES[write](client)
    assert service.writes == 0


def test_update_says_that_a_website_which_got_the_id_right_before_it_might_have_got_it() -> None:
    """No check can notice this: the id changes its owner between the fetch and the update."""
    service = Reused(http(200, {"data": OTHERS}))
    with served(service, Time()) as (client, _), pytest.raises(DomainError) as caught:
        client.update_website(7, email=True)
    assert "'new.example', not 'mine.example'" in str(caught.value)
    assert "It might have got this update, so check it." in str(caught.value)


def test_update_is_not_sent_with_other_texts_if_the_id_has_a_new_owner() -> None:
    """The service rejects the first text of a boolean; the second one is another attempt."""
    rejection = {"message": "Invalid.", "errors": {"favorite": ["The favorite field must be true or false."]}}
    service = Reused(http(422, rejection))
    with served(service, Time()) as (client, _), pytest.raises(DomainError, match=r"'new\.example'"):
        client.update_website(7, favorite=True)
    assert (service.writes, service.stored) == (1, OTHERS)


# A new writing step without the rule of ``AnalyticsClient.write_to`` fails here


PACKAGE = Path(airflow_provider_analytics.__file__).parent
#: Method that sends a write to the functions that call it. Of these, only creates do not pass ``write_to``.
CALLERS = {
    "send_update": {"AnalyticsClient.update_website.send_to", "Sender.update.send"},
    "send_delete": {"AnalyticsClient.delete_website", "Sender._delete"},
    "send_create": {"AnalyticsClient._create", "Sender._create"},
}
#: The functions that give a method other than GET to the transport.
SENDERS = {"AnalyticsClient.send_update", "AnalyticsClient.send_delete.send", "AnalyticsClient.send_create"}


def calls(node: ast.AST, within: str = "") -> Iterator[tuple[str, ast.Call]]:
    """Yield each call of an attribute, with the qualified name of the function that contains it."""
    for child in ast.iter_child_nodes(node):
        inside = within
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inside = f"{within}.{child.name}".lstrip(".")
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            yield within, child
        yield from calls(child, inside)


def all_calls() -> Iterator[tuple[str, ast.Call]]:
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] != "sandbox":
            yield from calls(ast.parse(path.read_text("utf-8")))


def test_writes_are_sent_only_by_functions_that_check_the_website_before() -> None:
    found: dict[str, set[str]] = {name: set() for name in CALLERS}
    for within, call in all_calls():
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr in found:
            found[call.func.attr].add(within)
    assert found == CALLERS


def test_transport_gets_a_write_from_three_functions_only() -> None:
    found = set()
    for within, call in all_calls():
        assert isinstance(call.func, ast.Attribute)
        is_request = call.func.attr in ("request", "once") and ast.unparse(call.func.value) == "self.transport"
        if is_request and ast.unparse(call.args[0]) != "'GET'":
            found.add(within)
    assert found == SENDERS
