# SPDX-License-Identifier: Apache-2.0
"""Every statement of the interface in our own words, with the tests that name it.

A test registers itself with :func:`proves`. ``make generate`` writes docs/reference/interface.md.
"""

from __future__ import annotations

import collections
import sys
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from airflow_provider_analytics.api.fields import (
    OPERATIONS,
    WEBSITE_FIELDS,
    Boolean,
    Domain,
    Field,
    Flag,
    Lines,
    Operation,
    PrivacyFlag,
    Secret,
)
from airflow_provider_analytics.api.laravel import API_PREFIX

Test = TypeVar("Test", bound=Callable[..., Any])

#: Base URL of links on the site to documents outside of it.
REPOSITORY = "https://github.com/airflow-provider-analytics/airflow-provider-analytics/blob/main"
#: Statements about each field, and the headings of their columns.
FIELD_COLUMNS = {"values": "Values", "default": "A new website has", "create": "Create", "update": "Update"}


@dataclass(frozen=True)
class Statement:
    """A statement of the interface."""

    id: str
    section: str
    text: str


@dataclass(frozen=True)
class OpenPoint:
    """A gap of the interface, and its treatment by this package."""

    id: str
    text: str
    answer: str


def _stated(section: str, **texts: str) -> list[Statement]:
    return [Statement(name.replace("_", "-"), section, text) for name, text in texts.items()]


#: Type of a field to its values, and to those of a new website if it has no default.
_TYPES: dict[type[Field], tuple[str, str]] = {
    Domain: ("a domain name (text)", "no default: a create must contain it"),
    PrivacyFlag: ("an integer: 0 public, 1 private, 2 password", ""),
    Secret: ("text", "none"),
    Flag: ("an integer: 0 off, 1 on", ""),
    Boolean: ("a boolean", "not documented"),
    Lines: ("text, {} per line", "none"),
    Field: ("text", "none"),
}


def _of_field(field: Field) -> tuple[str, ...]:
    """Return the statements about a field, in the order of the columns."""
    values, default = _TYPES[type(field)]
    if isinstance(field, Lines):
        values = values.format(field.entries.allowed.removesuffix(" per line or entry"))
    if default == "" and field.default is not None:
        default = str(field.to_column(field.default))
    required = "required" if isinstance(field, Domain) else "optional"
    sent = {True: required, False: "cannot be sent"}
    return values, default, sent[field.on_create], sent[field.on_update]


def _of_operation(operation: Operation) -> str:
    methods = " or ".join(f"`{method}`" for method in sorted(operation.methods, reverse=True))
    return f"`{operation.name}`: {methods} `{API_PREFIX}{operation.path}`. {operation.meaning}"


STATEMENTS: tuple[Statement, ...] = (
    *_stated(
        "Service",
        scope="A client manages the websites that are tracked and reads its own account.",
        base_url="All paths are below one base URL.",
        version_in_path="Every path starts with `/api/v1`.",
        account_read_only="The account can only be read.",
    ),
    *_stated(
        "Authentication",
        key_required="Every operation needs an API key.",
        key_header="The key goes into the header `Authorization` as a Bearer token.",
        key_account="A key belongs to one account, which is the one that the account operation returns.",
    ),
    *_stated(
        "Operations",
        **{f"operation_{operation.name}": _of_operation(operation) for operation in OPERATIONS.values()},
        form_encoding="Forms are `application/x-www-form-urlencoded`.",
        accept_header="List, show, and account requests send the header `Accept: application/json`.",
        id_in_path="A website is addressed by its id.",
        store_required="A create must contain the domain.",
        store_optional="It can contain every other field that can be sent on create.",
        update_optional="An update can contain one or more of the fields that can be sent on update.",
        update_no_defaults="No defaults apply on update.",
        update_domain="An update cannot change the domain.",
        update_methods="`PUT` and `PATCH` are accepted.",
    ),
    *(
        Statement(f"{field.name}-{column}", "Fields", text)
        for field in WEBSITE_FIELDS
        for column, text in zip(FIELD_COLUMNS, _of_field(field), strict=True)
    ),
    *_stated(
        "Rules",
        rule_password="A password has an effect only while privacy is 2.",
        rule_lines="The exclusion lists are texts with one entry per line.",
        rule_defaults="If a create omits privacy, email, or exclude_bots, the website gets 0, 0, and 1.",
        states="Only privacy, the flags and favorite have enumerated values.",
        id_sorts="Ids rise with the date of creation: sorting by `id` is sorting by that date.",
    ),
    *_stated(
        "List parameters",
        list_optional="All of them are optional.",
        search="`search`: any text, without a default.",
        search_by="`search_by`: the field that is searched. The only value and the default is `domain`.",
        favorite_filter="`favorite`: a boolean that filters, without a default.",
        sort_by="`sort_by`: `id` (the default) or `domain`.",
        sort="`sort`: `desc` (the default) or `asc`.",
        per_page="`per_page`: websites per page, 10, 25, 50, or 100.",
        per_page_limit="No other page size is accepted.",
        per_page_default="The default page size is 100.",
    ),
)

OPEN_POINTS: tuple[OpenPoint, ...] = (
    OpenPoint("response-bodies", "Response bodies",
        "The supported forms below. With another form of list, a task fails before its first write."),
    OpenPoint("website-record", "Fields of a website record",
        "Only `id` is required."),
    OpenPoint("account-record", "Fields of the account record", "Passed on as it is."),
    OpenPoint("status-codes", "Status codes",
        "200, 201, and 204 mean success. After a write with any 2xx, the website is read, after 202 for up to 31.5 s."),
    OpenPoint("page-parameter", "How a page of the list is selected",
        "By the links or cursors to the next page, otherwise by the query parameter `page` or the extra "
        "`page_parameter`."),
    OpenPoint("error-codes", "Error codes",
        "By the HTTP status, with a class for each that a caller can act on."),
    OpenPoint("error-payload", "Shape of error bodies",
        "See the supported forms."),
    OpenPoint("error-conditions", "Causes of errors", "Bad values are rejected before a request is sent."),
    OpenPoint("transitions", "Allowed changes of values", "All are allowed."),
    OpenPoint("rate-limits", "Rate limits",
        "`Retry-After` is obeyed. The extra `requests_per_minute` sets a limit."),
    OpenPoint("events", "Events", "Not used."),
    OpenPoint("compatibility", "Deprecation policy",
        "The client names its version in the header `User-Agent`."),
)  # fmt: skip

#: Part of a response to its supported forms. tests/integration/api/test_supported_forms.py has a test for each.
FORMS: dict[str, dict[str, str]] = {
    "list": {
        "bare": "a bare array",
        "data": "under `data`",
        "key": "under any other key, if it is the only list",
        "paginator": "a paginator under `data`, so that the list is under `data.data`",
        "numbered": "an object with numbered keys in place of an array",
        "empty": "`{}` or null with total 0",
    },
    "total": {"place": "`total`, beside the list or under `meta`", "none": "none: the list is read twice"},
    "page": {
        "number": "`page`, from 1 up",
        "parameter": "a number in another parameter, with the extra `page_parameter`",
        "link": "a link in `links.next` or `next_page_url`, with a number or a cursor",
        "cursor": "`next_cursor`, sent as `cursor`",
    },
    "record": {
        "bare": "bare",
        "data": "under `data`",
        "key": "under one other key, also beside a message",
        "none": "none in the response to a write: empty, a message, or not JSON, except a web page",
    },
    "status of a write": {"success": "any 2xx, after which the website is read"},
    "deleted website": {"mark": "`deleted_at` with a value"},
    "exclusion list": {
        "lines": "a text with an entry per line",
        "array": "an array of texts",
        "empty": "empty text, null, or a missing field",
    },
    "error": {
        "message": "a text under `message` or `error`",
        "fields": "messages by field under `errors`",
        "other": "anything else: its start is returned",
    },
    "rate limit": {"pause": "429 or 503 with `Retry-After`", "none": "429 or 503 without it: all requests slow down"},
    "privacy": {"numbers": "0, 1, and 2, also as text"},
    "boolean": {
        "json": "true and false",
        "numbers": "1 and 0",
        "texts": "these as texts",
        "omitted": "a missing field or null for false",
    },
    "id": {"number": "a number", "number as text": "a number as text", "text": "any other text, such as a UUID"},
}

#: Statement to the tests that name it, in the order in which they were loaded.
TESTS: dict[str, list[str]] = collections.defaultdict(list)


def proves(*statements: str) -> Callable[[Test], Test]:
    """Register a test for the statements that it proves."""

    def register(test: Test) -> Test:
        name = f"{test.__module__}.py::{test.__name__}"
        for statement in statements:
            if name not in TESTS[statement]:
                TESTS[statement].append(name)
        return test

    return register


def load() -> None:
    """Import every test module of this folder, so that all tests are registered."""
    # pytest has added it; ``make generate`` has not.
    if (support := str(Path(__file__).parents[1] / "support")) not in sys.path:
        sys.path.append(support)
    for path in sorted(Path(__file__).parent.glob("test_contract_*.py")):
        __import__(path.stem)


def render() -> str:
    """Return docs/reference/interface.md."""
    lines = [
        "# Service API",
        "",
        "Check whether your service fits, and what this package assumes where the API is silent. Every statement is",
        f"[tested]({REPOSITORY}/tests/contract/contract_table.py) with the package and its [sandbox](sandbox.md).",
        "",
    ]
    for section in _sections():
        lines += [f"## {section}", ""]
        if section == "Fields":
            lines += list(_field_table())
        else:
            lines += _list_and_text([statement.text for statement in STATEMENTS if statement.section == section])
        lines.append("")
    lines += ["## Not documented", "", "| Gap | This package |", "|---|---|"]
    lines += [f"| {point.text} | {point.answer} |" for point in OPEN_POINTS]
    lines += ["", "## Supported forms", ""]
    lines += [f"* **{part}**: {'; '.join(forms.values())}" for part, forms in FORMS.items()]
    lines += [
        "",
        "Not supported: any other form, for example fields in camelCase or under `attributes` (JSON:API), flags as",
        "on/off, and exclusion lists in one line, such as `gclid,fbclid`. A task fails before it changes such a",
        "website, and the message contains the returned value. The mode `replace` overwrites a list in any form, and",
        "the plan counts the lines that it has.",
        "",
        "<!-- Written by `make generate` from tests/contract/contract_table.py. -->",
    ]
    return "\n".join(lines) + "\n"


def _sections() -> Iterable[str]:
    return dict.fromkeys(statement.section for statement in STATEMENTS)


def _list_and_text(texts: Iterable[str]) -> Iterable[str]:
    """Yield statements that begin with a name as a list, and the others as a paragraph."""
    sentences, rows = [], []
    for text in texts:
        name, is_named, meaning = text.partition(": ")
        if is_named and name.startswith("`"):
            rows.append(f"* {name}: {meaning[0].lower()}{meaning[1:]}")
        else:
            sentences.append(text)
    if rows:
        yield from (*rows, "")
    yield from textwrap.wrap(" ".join(sentences), 120)


def _field_table() -> Iterable[str]:
    texts = {statement.id: statement.text for statement in STATEMENTS}
    yield f"| Field | Meaning | {' | '.join(FIELD_COLUMNS.values())} |"
    yield "|---|---|" + "---|" * len(FIELD_COLUMNS)
    for field in WEBSITE_FIELDS:
        cells = [texts[f"{field.name}-{column}"] for column in FIELD_COLUMNS]
        yield f"| `{field.name}` | {field.meaning} | {' | '.join(cells)} |"
