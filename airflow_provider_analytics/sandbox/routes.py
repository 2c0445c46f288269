"""Operations of the interface with their methods and paths (docs/interface.md, Operations)."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Operation = Literal["list", "create", "show", "update", "delete", "account"]

PREFIX = "/api/v1"


class Route(NamedTuple):
    """A method and path of an operation; update has two routes."""

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
    """Return the routes below ``root`` that match ``path``, whatever their method."""
    return [
        route for route in ROUTES if re.fullmatch(re.escape(root + PREFIX) + route.path.replace("{id}", "[^/]+"), path)
    ]
