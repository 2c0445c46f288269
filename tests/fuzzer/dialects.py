# SPDX-License-Identifier: Apache-2.0
"""Random behavior of services where the interface is open: a row of options for each open question."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

_CURSOR = {"paginator": "cursor", "page_parameter": "cursor"}
_WRITES = ["create", "update", "delete"]


def _each(option: str, *values: Any) -> list[dict[str, Any]]:
    return [{option: value} for value in values]


#: Question to the unusual behavior of services, as options of the fake services.
ROWS: dict[str, list[dict[str, Any]]] = {
    "what selects a page": [
        _CURSOR, {"metadata": "flat"}, {"metadata": "none"},
        {"links": "list"}, {"links": "absent"}, {"page_parameter": "p"},
        {"ignored": ["page"]}, {"behind_last": "last"}, {"list_key": None},
        {"list_key": "data.data"},
    ],
    "does per_page hold": [{"page_size_limit": 25}, {"page_size_limit": 7}, {"ignored": ["per_page"]}],
    "what does the total count": [
        {"total": "page"}, {"paginator": "simple"}, {"total_cap": 10}, {"total_offset": 1}, {"total_offset": -1},
    ],
    "are rows capped": [{"row_cap": 10}, {"row_cap": 25}],
    "does the order hold": [{"ignored": ["sort"]}],
    "does search find": [
        *_each("search_matches", "case", "start", "label", "exact", "late", "nothing"), {"ignored": ["search"]},
    ],
    "does favorite filter": [{"favorite_filter": "truth of text"}, {"ignored": ["favorite"]}],
    "what do rows show": [
        *_each("list_hides", ["exclude_ips", "exclude_params"], ["favorite"], ["domain"], ["privacy", "email"]),
    ],
    "where is the record": [{"record_key": None}, {"record_key": "website"}],
    # Without lists that are cut in responses, which test_misbehaving_services.py has: no known service does this, and
    # the run can only restore the cut list.
    "how is a list of entries written": [
        *_each("lists_as", "CR LF", "commas", "blanks", "br", "json", "array", "null"),
    ],
    "how are values written": [
        {"numbers_as_text": True}, *_each("favorite_as", "integer", "text", "null"), {"flags_as": "boolean"},
    ],
    "how are domains kept": [
        *_each("domain_as", "ascii", "unicode", "lower", "without www", "with www", "with scheme", "with port",
                   "with slash"),
    ],
    "can one domain be there twice": [{"allow_duplicates": True}],
    "what is not found": [*_each("missing", "410", "403", "200")],
    "what says that a website is deleted": [{"deletes": "mark"}, {"deletes": "keep"}],
    "how fresh are reads": [{"reads_behind": 1}, {"reads_behind": 3}],
    "do updates keep other fields": [
        {"updates": "reset others"}, {"updates": "absent is false"}, {"updates": "absent is zero", "omits": "empty"},
    ],
    "are empty fields omitted": [{"omits": "null"}, {"omits": "empty"}],
    "is a write stored as sent": [
        *_each("lists_stored", "new lines", "last line", "no comments", "no networks", "40 characters",
                   "normalized"),
        *_each("ignored_fields", ["exclude_ips"], ["privacy"]),
    ],
    "what does a write answer": [
        {"echoes": ["create", "update"]}, {"create_status": 204, "update_status": 204, "delete_status": 204},
        *_each("empty_answers", _WRITES), *_each("message_answers", _WRITES), {"short_answers": ["create", "update"]},
    ],
    "are secrets repeated": [
        {"extra_fields": {"token": "{api_key}", "page_password": "{password}"}},
        {"extra_fields": {"note": "made by {api_key} for {domain}"}},
    ],
}  # fmt: skip


#: Options of ordinary services, which most scenarios with simultaneous tasks use.
ORDINARY: list[dict[str, Any]] = [
    {},
    {"paginator": "simple"},
    _CURSOR,
    {"favorite_filter": "rule"},
    {"link_scheme": "other"},
    {"paginator": "simple", "link_scheme": "other"},
    {**_CURSOR, "link_scheme": "other"},
    # Counted, not timed, because the scenarios do not wait.
    {"reads_behind": 1},
    {"reads_behind": 2},
    {"list_hides": ["exclude_ips", "exclude_params"]},
    {"record_key": None},
    {"update_status": 204},
    {"numbers_as_text": True},
    {"omits": "null"},
    {"omits": "empty"},
]


def draw(chance: random.Random) -> dict[str, Any]:
    """Return the options of a dialect: most rows are ordinary, and some differ, in any combination."""
    options: dict[str, Any] = {}
    for row in chance.sample(sorted(ROWS), chance.choice((0, 1, 1, 2, 2, 3, 5))):
        for name, value in chance.choice(ROWS[row]).items():
            both = isinstance(value, list) and name in options
            options[name] = sorted({*options[name], *value}) if both else value
    return options


def extras(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extras of the connection for a user who knows the service."""
    return {"page_parameter": options["page_parameter"]} if "page_parameter" in options else {}
