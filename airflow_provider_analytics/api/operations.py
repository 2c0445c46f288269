# SPDX-License-Identifier: Apache-2.0
"""Table of the operations of the service (interface.md, Operations)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """An operation.

    :param name: its name in documents, in faults of the sandbox, and in tests.
    :param methods: the methods of its requests, all with the same effect.
    :param path: path below ``/api/v1``; ``{id}`` is the id of a website.
    :param hook: method of the hook, and with the suffix ``Operator``, the operator.
    :param meaning: its effect, as a sentence for documents.
    """

    name: str
    methods: tuple[str, ...]
    path: str
    hook: str
    meaning: str

    @property
    def operator(self) -> str:
        """Name of the operator, such as ``ListWebsitesOperator``."""
        return f"{self.hook.title().replace('_', '')}Operator"


_WEBSITE = "/websites/{id}"
_TABLE = (
    Operation("list", ("GET",), "/websites", "list_websites", "List websites, with the query parameters below."),
    Operation("show", ("GET",), _WEBSITE, "get_website", "Show a website, without a payload."),
    Operation(
        "create",
        ("POST",),
        "/websites",
        "create_website",
        "Create a website (the interface says *store*), with form fields.",
    ),
    Operation("update", ("PATCH", "PUT"), _WEBSITE, "update_website", "Update a website, with form fields."),
    Operation("delete", ("DELETE",), _WEBSITE, "delete_website", "Delete a website, without a payload."),
    Operation("account", ("GET",), "/account", "get_account", "Show the account, without a payload."),
)
OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _TABLE}
