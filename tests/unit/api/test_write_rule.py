# SPDX-License-Identifier: Apache-2.0
"""Every write passes the rule of ``AnalyticsClient.write_to``: a new writing step without it fails here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import airflow_provider_analytics

PACKAGE = Path(airflow_provider_analytics.__file__).parent
#: Method that sends a write to the functions that call it. Of these, only creates do not pass ``write_to``.
WRITES = {
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
    found: dict[str, set[str]] = {name: set() for name in WRITES}
    for within, call in all_calls():
        assert isinstance(call.func, ast.Attribute)
        if call.func.attr in found:
            found[call.func.attr].add(within)
    assert found == WRITES


def test_transport_gets_a_write_from_three_functions_only() -> None:
    found = set()
    for within, call in all_calls():
        assert isinstance(call.func, ast.Attribute)
        is_request = call.func.attr in ("request", "once") and ast.unparse(call.func.value) == "self.transport"
        if is_request and ast.unparse(call.args[0]) != "'GET'":
            found.add(within)
    assert found == SENDERS
