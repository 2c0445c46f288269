# SPDX-License-Identifier: Apache-2.0
"""The statements of the interface that an acceptance run verifies, and the result of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

#: ``FAILS``: tasks that need this fail. ``SET``: works with the extra. ``note``: differs, and the tasks adapt to it.
#: ``ok``: as documented. ``?``: not tested, or not visible.
Mark = Literal["FAILS", "SET", "note", "ok", "?"]
#: Extras of the connection by name.
Extras = dict[str, Any]

#: Name of the row about repeated steps, which the interface does not mention.
REPEATED = "repeated"

#: Statement to its text, as in docs/interface.md, in the order of the report.
STATEMENTS: Mapping[str, str] = {
    "operation-account": "Show the account: `GET /api/v1/account`, without a payload.",
    "operation-list": "List websites: `GET /api/v1/websites`, with the query parameters below.",
    "operation-create": "Create a website (the interface says *store*): `POST /api/v1/websites`, with form fields.",
    "rule-defaults": "If a create omits privacy, email or exclude_bots, the website gets 0, 0 and 1.",
    "operation-show": "Show a website: `GET /api/v1/websites/{id}`, without a payload.",
    "id-sorts": "Ids rise with the date of creation: sorting by `id` is sorting by that date.",
    "privacy-values": "an integer: 0 public, 1 private, 2 password",
    "password-values": "text",
    "email-values": "an integer: 0 off, 1 on",
    "exclude_bots-values": "an integer: 0 off, 1 on",
    "exclude_params-values": "text, a query parameter per line",
    "exclude_ips-values": "text, an IP address per line",
    "favorite-values": "a boolean",
    "rule-lines": "The two exclusion lists are texts with one entry per line.",
    "update-no-defaults": "Fields that an update omits stay as they are.",
    "update-methods": "`PUT` and `PATCH` do the same.",
    REPEATED: "A step that is repeated sends no write.",
    "search": "`search`: any text, without a default.",
    "favorite-filter": "`favorite`: a boolean that filters, without a default.",
    "sort-by": "`sort_by`: `id` (the default) or `domain`.",
    "sort": "`sort`: `desc` (the default) or `asc`.",
    "per-page": "`per_page`: websites per page, 10, 25, 50 or 100.",
    "operation-delete": "Delete a website: `DELETE /api/v1/websites/{id}`, without a payload.",
}


@dataclass(frozen=True)
class StatementResult:
    """The result for a statement, without values of other websites.

    :param name: key of :data:`STATEMENTS`.
    :param mark: consequence for the tasks.
    :param seen: observed behavior of the service, as sentences.
    :param tasks: reaction of the tasks, as a phrase.
    :param extras: extras of the connection to set.
    """

    name: str
    mark: Mark
    seen: str
    tasks: str
    extras: Extras = field(default_factory=dict)

    @property
    def statement(self) -> str:
        """Text of the statement; for a field, with its name."""
        text = STATEMENTS[self.name]
        if not self.name.endswith("-values"):
            return text
        return f"`{self.name.removesuffix('-values')}`: {text}."
