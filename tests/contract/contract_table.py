"""Every statement of the interface in our own words, with the tests that name it: the content of docs/interface.md.

A test registers itself with :func:`proves`. ``make generate`` writes the page.
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from airflow_provider_analytics.api.fields import WEBSITE_FIELDS

Test = TypeVar("Test", bound=Callable[..., Any])

#: What is stated of each field, and the heading of its column.
FIELD_COLUMNS = {"values": "Values", "default": "A new website has", "create": "Create", "update": "Update"}


@dataclass(frozen=True)
class Statement:
    """One thing that the interface says."""

    id: str
    section: str
    text: str


@dataclass(frozen=True)
class OpenPoint:
    """One thing that the interface does not show, and what this package does about it."""

    id: str
    text: str
    answer: str


def _stated(section: str, **texts: str) -> list[Statement]:
    return [Statement(name.replace("_", "-"), section, text) for name, text in texts.items()]


_OPTIONAL = ("optional", "optional")
#: Field to what is stated of it, in the order of the columns.
_FIELDS = {
    "domain": ("a domain name (text)", "no default: a create must name it", "required", "cannot be sent"),
    "privacy": ("an integer: 0 public, 1 private, 2 password", "0", *_OPTIONAL),
    "password": ("text", "none", *_OPTIONAL),
    "email": ("an integer: 0 off, 1 on", "0", *_OPTIONAL),
    "exclude_bots": ("an integer: 0 off, 1 on", "1", *_OPTIONAL),
    "exclude_params": ("text, a query parameter per line", "none", *_OPTIONAL),
    "exclude_ips": ("text, an IP address per line", "none", *_OPTIONAL),
    "favorite": ("a boolean", "nothing is said", "cannot be sent", "optional"),
}

STATEMENTS: tuple[Statement, ...] = (
    *_stated(
        "Service",
        scope="A client manages the websites that are tracked, and reads its own account.",
        base_url="All paths lie below one base URL.",
        version_in_path="Every path begins with `/api/v1`.",
        account_read_only="The account can only be read.",
    ),
    *_stated(
        "Authentication",
        key_required="Every operation needs an API key.",
        key_header="The key goes into the header `Authorization` as a Bearer token.",
        key_account="A key belongs to one account, which is the one that the account operation shows.",
    ),
    *_stated(
        "Operations",
        operation_list="List websites: `GET /api/v1/websites`, with the query parameters below.",
        operation_show="Show a website: `GET /api/v1/websites/{id}`, without a payload.",
        operation_create="Create a website (the interface says *store*): `POST /api/v1/websites`, with form fields.",
        operation_update="Update a website: `PUT` or `PATCH /api/v1/websites/{id}`, with form fields.",
        operation_delete="Delete a website: `DELETE /api/v1/websites/{id}`, without a payload.",
        operation_account="Show the account: `GET /api/v1/account`, without a payload.",
        form_encoding="Forms are `application/x-www-form-urlencoded`.",
        accept_header="List, show and account ask for `application/json` in the header `Accept`.",
        id_in_path="A website is addressed by its id.",
        store_required="A create must name the domain;",
        store_optional="it may set every other field that a create can send.",
        update_optional="An update may set any of the fields that it can send, each of them or only one.",
        update_no_defaults="What an update leaves out stays as it is.",
        update_domain="An update cannot change the domain.",
        update_methods="`PUT` and `PATCH` do the same.",
    ),
    *(
        Statement(f"{field}-{column}", "Fields", text)
        for field, texts in _FIELDS.items()
        for column, text in zip(FIELD_COLUMNS, texts, strict=True)
    ),
    *_stated(
        "Rules",
        rule_password="A password has an effect only while privacy is 2.",
        rule_lines="The two exclusion lists are texts with one entry per line.",
        rule_defaults="A create that leaves out privacy, email or exclude_bots gives the website 0, 0 and 1.",
        states="Privacy, the two flags and favorite are the only settings whose values are enumerated.",
        id_sorts="Ids rise with the date of creation: sorting by `id` is sorting by that date.",
    ),
    *_stated(
        "List parameters",
        list_optional="All of them may be left out.",
        search="`search`: any text; no default.",
        search_by="`search_by`: the field that is searched, `domain`; that is the default.",
        favorite_filter="`favorite`: a boolean that filters; no default.",
        sort_by="`sort_by`: `id` (the default) or `domain`.",
        sort="`sort`: `desc` (the default) or `asc`.",
        per_page="`per_page`: websites per page: 10, 25, 50 or 100;",
        per_page_limit="no other number is accepted;",
        per_page_default="100 is the default.",
    ),
)

OPEN_POINTS: tuple[OpenPoint, ...] = (
    OpenPoint("response-bodies", "Response bodies",
        "A record may stand bare, under `data` or under one other key, a list also below `data`, with its numbers "
        "beside it or under `meta`. The extra `list_key` names the list."),
    OpenPoint("website-record", "Fields of a website record", "Only `id` is required; the rest is passed on as it is."),
    OpenPoint("account-record", "Fields of the account record", "Passed on as it is."),
    OpenPoint("status-codes", "Status codes",
        "200, 201 and 204 mean success. After 202, 203, 205 and 206, a write counts as sent, and the website is "
        "read."),
    OpenPoint("page-parameter", "How a page of the list is selected",
        "As the links to the next page say; else by the query parameter `page`, from 1 or 0 up. The extra "
        "`page_parameter` changes it. A complete list must prove that pages were selected."),
    OpenPoint("error-codes", "Error codes",
        "By the HTTP status: one exception class for each that a caller can act on."),
    OpenPoint("error-payload", "Shape of error bodies",
        "`message`, `error`, `detail` or `title`, and messages by field under `errors`; else the beginning of the "
        "body."),
    OpenPoint("error-conditions", "What causes errors", "Bad values are refused before anything is sent."),
    OpenPoint("transitions", "Which values may follow which", "None is ruled out."),
    OpenPoint("rate-limits", "Rate limits",
        "`Retry-After` and the usual rate-limit headers are obeyed. Without them, all requests slow down after "
        "429 and 503. An extra sets a limit."),
    OpenPoint("events", "Events", "Not used."),
    OpenPoint("compatibility", "Policy of deprecation", "The client names its version in the header `User-Agent`."),
)  # fmt: skip

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
    # pytest has put it there; ``make generate`` has not.
    if (support := str(Path(__file__).parents[1] / "support")) not in sys.path:
        sys.path.append(support)
    for path in sorted(Path(__file__).parent.glob("test_contract_*.py")):
        __import__(path.stem)


def render() -> str:
    """Return docs/interface.md."""
    load()
    numbers: dict[str, int] = {}

    def held(statement: str) -> str:
        for name in TESTS[statement]:
            numbers.setdefault(name, len(numbers) + 1)
        return "".join(f" [{numbers[name]}]" for name in TESTS[statement])

    lines = [
        "# The interface",
        "",
        "What is known of the HTTP interface of the analytics service, in our own words. Nothing else is: what the",
        "documentation of the service does not show stands at the end, with what this package does about it.",
        "A number in brackets names a [test](#tests) that holds the package and its [sandbox](sandbox.md) to the "
        "statement.",
        "This page is written by `make generate`.",
        "",
    ]
    for section in dict.fromkeys(statement.section for statement in STATEMENTS):
        lines += [f"## {section}", ""]
        found = [statement for statement in STATEMENTS if statement.section == section]
        if section == "Fields":
            lines += list(_field_table(held))
        else:
            lines += [f"- {statement.text}{held(statement.id)}" for statement in found]
        lines.append("")
    lines += ["## Not documented", "", "| What | What this package does |", "|---|---|"]
    lines += [f"| {point.text} | {point.answer}{held(point.id)} |" for point in OPEN_POINTS]
    lines += [
        "",
        "Each of these assumptions stands in `airflow_provider_analytics/api/dialect.py`; the table at its head names",
        "the extra that changes it, where there is one.",
        "",
        "## Tests",
        "",
        f"{len(STATEMENTS)} statements and {len(OPEN_POINTS)} open points are held by these tests in "
        "`tests/contract/`:",
        "",
        *(f"{number}. `{name}`" for name, number in numbers.items()),
        "",
        *(f"[{number}]: #tests" for number in numbers.values()),
    ]
    return "\n".join(lines) + "\n"


def _field_table(held: Callable[[str], str]) -> Iterable[str]:
    texts = {statement.id: statement.text for statement in STATEMENTS}
    yield f"| Field | Meaning | {' | '.join(FIELD_COLUMNS.values())} |"
    yield "|---|---|" + "---|" * len(FIELD_COLUMNS)
    for field in WEBSITE_FIELDS:
        cells = [f"{texts[f'{field.name}-{column}']}{held(f'{field.name}-{column}')}" for column in FIELD_COLUMNS]
        yield f"| `{field.name}` | {field.meaning} | {' | '.join(cells)} |"
