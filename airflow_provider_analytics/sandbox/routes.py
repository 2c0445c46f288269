"""The operations of the interface and where they are (part 4)."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Operation = Literal["list", "create", "show", "update", "delete", "account"]

PREFIX = "/api/v1"


class Route(NamedTuple):
    """One method on one path shape; update has two."""

    operation: Operation
    method: str
    path: str


ROUTES = (
    Route("list", "GET", "/websites"),
    Route("create", "POST", "/websites"),
    Route("show", "GET", "/websites/{id}"),
    Route("update", "PUT", "/websites/{id}"),
    Route("update", "PATCH", "/websites/{id}"),
    Route("delete", "DELETE", "/websites/{id}"),
    Route("account", "GET", "/account"),
)


def routes_of(path: str, root: str) -> list[Route]:
    """Return the routes whose path shape ``path`` has, below ``root``; none for a path of no operation."""
    return [
        route for route in ROUTES if re.fullmatch(re.escape(root + PREFIX) + route.path.replace("{id}", "[^/]+"), path)
    ]
