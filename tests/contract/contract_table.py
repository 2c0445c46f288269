"""Every statement of the interface in our own words, and the tests that name it.

``python tests/contract/contract_table.py`` runs those tests and writes ``docs/contract.md``.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "contract.md"

Test = TypeVar("Test", bound=Callable[..., Any])


@dataclass(frozen=True)
class Statement:
    """One thing that the interface says, or leaves open (``shown`` is False); ``part`` is where."""

    id: str
    part: str
    text: str
    shown: bool = True


def _stated(part: str, **texts: str) -> list[Statement]:
    return [Statement(name.replace("_", "-"), part, text) for name, text in texts.items()]


def _open(part: str, **texts: str) -> list[Statement]:
    return [Statement(name.replace("_", "-"), part, text, shown=False) for name, text in texts.items()]


STATEMENTS: tuple[Statement, ...] = (
    *_stated(
        "1",
        scope="A client with a key manages the tracked websites and reads its own account.",
        base_url="Paths are below a base URL.",
        account_read_only="The account has one operation, which reads it.",
    ),
    *_stated(
        "2",
        domain_type="domain: text that is a domain name.",
        domain_required="domain: has to be given on create; there is no default.",
        domain_create="domain: sent on create.",
        domain_update="domain: not among the fields of an update.",
        privacy_values="privacy: an integer, 0 public, 1 private, 2 password.",
        privacy_default="privacy: 0 for a new website.",
        privacy_settable="privacy: sent on create and on update.",
        password_type="password: text; protects the statistics page.",
        password_default="password: none unless given.",
        password_settable="password: sent on create and on update.",
        email_values="email: an integer, 0 off, 1 on (reports by e-mail).",
        email_default="email: 0 for a new website.",
        email_settable="email: sent on create and on update.",
        exclude_bots_values="exclude_bots: an integer, 0 off, 1 on (common bots are not counted).",
        exclude_bots_default="exclude_bots: 1 for a new website.",
        exclude_bots_settable="exclude_bots: sent on create and on update.",
        exclude_params_type="exclude_params: text, a query parameter per line.",
        exclude_params_default="exclude_params: none unless given.",
        exclude_params_settable="exclude_params: sent on create and on update.",
        exclude_ips_type="exclude_ips: text, an IP address per line.",
        exclude_ips_default="exclude_ips: none unless given.",
        exclude_ips_settable="exclude_ips: sent on create and on update.",
        favorite_type="favorite: a boolean.",
        favorite_default="favorite: no default.",
        favorite_create="favorite: not among the fields of a create.",
        favorite_update="favorite: sent on update.",
        id_in_path="A website is addressed by its id in the path.",
        id_sorts="Sorting by id is sorting by date of creation.",
    ),
    *_open(
        "2",
        website_record="Fields of a website record in an answer.",
        account_record="Fields of the account record in an answer.",
    ),
    *_stated("3", states="Privacy, the two flags and favorite are the only enumerated states."),
    *_open("3", transitions="Which moves between values are allowed: none is ruled out."),
    *_stated(
        "4",
        form_encoding="Bodies of create and update are form-encoded.",
        accept_header="List, show and account ask for JSON in the Accept header.",
        operation_list="List: GET /api/v1/websites with query parameters.",
        operation_show="Show: GET /api/v1/websites/{id}, nothing sent.",
        operation_create="Store: POST /api/v1/websites with form fields.",
        operation_update="Update: PUT or PATCH /api/v1/websites/{id} with form fields.",
        operation_delete="Delete: DELETE /api/v1/websites/{id}, nothing sent.",
        operation_account="Show account: GET /api/v1/account, nothing sent.",
    ),
    *_open(
        "4",
        response_bodies="Bodies of the answers of all operations.",
        status_codes="Status codes of the answers of all operations.",
        page_parameter="How a page of the list is selected.",
    ),
    *_stated(
        "4, list",
        list_optional="All list parameters may be left out.",
        search="search: any text; no default.",
        search_by="search_by: domain, which is also the default.",
        favorite_filter="favorite: a boolean that filters; no default.",
        sort_by="sort_by: id or domain; id by default.",
        sort="sort: desc or asc; desc by default.",
        per_page="per_page: 10, 25, 50 or 100.",
        per_page_default="per_page: 100 by default.",
    ),
    *_stated(
        "4, store",
        store_required="Only the domain has to be given.",
        store_optional="The six settings may be given, with the values of part 2.",
    ),
    *_stated(
        "4, update",
        update_optional="Each of the seven settings may be given or left out.",
        update_no_defaults="What is left out stays as it is.",
        update_domain="An update cannot change the domain.",
        update_methods="PUT and PATCH do the same on the same path.",
    ),
    *_stated(
        "4, rules",
        rule_password="A password counts with privacy 2 only.",
        rule_lines="Several entries stand in one text, one per line.",
        rule_defaults="Left out of a create: privacy 0, email 0, exclude_bots 1.",
    ),
    *_stated(
        "5",
        key_required="Every operation needs an API key.",
        key_header="The key is sent as Bearer token in the Authorization header.",
        key_account="The account operation returns the account of the key.",
    ),
    *_open("6", events="Events."),
    *_open(
        "7",
        error_codes="Codes of errors.",
        error_payload="Shape of an error body.",
        error_conditions="Conditions of errors.",
    ),
    *_stated("8", per_page_limit="No other per_page than 10, 25, 50 and 100 is taken."),
    *_open("8", rate_limits="Rate limits and quotas."),
    *_stated("9", version_in_path="Every path begins with /api/v1."),
    *_open("9", compatibility="Policy of deprecation and compatibility."),
)

#: Statement to the tests that name it, in the order in which they were loaded.
TESTS: dict[str, list[str]] = collections.defaultdict(list)


def proves(*statements: str) -> Callable[[Test], Test]:
    """Register a test for the statements that it shows to hold."""

    def register(test: Test) -> Test:
        name = f"{test.__module__}.py::{test.__name__}"
        for statement in statements:
            if name not in TESTS[statement]:
                TESTS[statement].append(name)
        return test

    return register


def load() -> None:
    """Import every test module of this folder, so that all tests are registered."""
    for path in sorted(Path(__file__).parent.glob("test_contract_*.py")):
        __import__(path.stem)


def render(outcomes: dict[str, str]) -> str:
    """Return the document; ``outcomes`` is what became of each test, ``passed`` for those left out."""
    lines = [
        "# Contract table",
        "",
        "Every statement of the interface, in our words, with the tests in `tests/contract/` that hold the client and",
        "the sandbox to it. For what the interface does not show, the tests hold what this package does there.",
        "Written by `python tests/contract/contract_table.py`; a test keeps it up to date.",
        "",
        f"{len(STATEMENTS)} statements, {sum(not statement.shown for statement in STATEMENTS)} of them not shown.",
        "",
        "| Part | Statement | Tests | Status |",
        "|---|---|---|---|",
    ]
    for statement in STATEMENTS:
        names = TESTS[statement.id]
        status = sorted({outcomes.get(name, "passed") for name in names})
        text = statement.text if statement.shown else f"Not shown: {statement.text[0].lower()}{statement.text[1:]}"
        tests = "<br>".join(f"`{name}`" for name in names)
        lines.append(f"| {statement.part} | {text} | {tests} | {', '.join(status) or 'untested'} |")
    return "\n".join(lines) + "\n"


class _Outcomes:
    """pytest plugin that notes what became of each test; a parametrised one passes when all of it does."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path, _, test = report.nodeid.partition("::")
        name = f"{Path(path).name}::{test.partition('[')[0]}"
        if report.failed or report.skipped:
            self.found[name] = report.outcome


def main() -> int:
    """Run the tests and write the document; return pytest's exit status."""
    outcomes = _Outcomes()
    folder = str(Path(__file__).parent)
    deselected = "--deselect=tests/contract/test_contract_document.py::test_the_document_is_up_to_date"
    status = pytest.main(["-q", "-p", "no:cacheprovider", deselected, folder], plugins=[outcomes])
    sys.path.insert(0, folder)
    # This module runs as __main__; the tests have registered themselves with the one they imported.
    table = __import__("contract_table")
    table.load()
    DOCUMENT.write_text(table.render(outcomes.found), encoding="utf-8")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
