# SPDX-License-Identifier: Apache-2.0
"""Ids without an order: complete lists and unique creates while others create websites (``api/listing.py``)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from raw_server import Request, answer_read, http
from wire_client import served

from airflow_provider_analytics.exceptions import DomainError


def _scrambled(n: int) -> str:
    return hashlib.sha256(str(n).encode()).hexdigest()


#: Kind of an id to the id of a website.
IDS: dict[str, Callable[[int], str]] = {
    "19 digits as text": lambda n: str(10**18 + int(_scrambled(n)[:12], 16)),
    "UUIDv4": lambda n: str(uuid.UUID(f"{_scrambled(n)[:12]}4{_scrambled(n)[12:15]}8{_scrambled(n)[15:30]}")),
}


class Service:
    """A service with such ids, which sorts by them, without a unique domain."""

    def __init__(self, size: int, kind: str, **meta: Any) -> None:
        self.make_id = IDS[kind]
        self.websites: list[dict[str, Any]] = []
        for n in range(size):
            self.create(f"{n}.example")
        self._meta = meta
        #: Called before each list request.
        self.meanwhile: Callable[[], object] = lambda: None

    def create(self, domain: str) -> dict[str, Any]:
        self.websites.append({"id": self.make_id(len(self.websites)), "domain": domain})
        return self.websites[-1]

    def __call__(self, request: Request) -> bytes:
        if request.method == "POST":
            return http(201, {"data": self.create(request.body.decode().removeprefix("domain="))})
        if request.path.endswith("/websites"):
            self.meanwhile()
        return answer_read(request, self.websites, **self._meta)


ORDERS: tuple[dict[str, Any], ...] = ({}, {"sort": "asc"}, {"sort_by": "domain", "sort": "asc"})


@pytest.mark.parametrize("meta", [{}, {"total": None}], ids=str)
@pytest.mark.parametrize("size", [90, 250])
@pytest.mark.parametrize("kind", IDS)
def test_list_with_opaque_ids_is_read_again_after_a_website_was_created(
    kind: str, size: int, meta: dict[str, Any]
) -> None:
    """Their order does not say which websites are new, so a new one is a list that changed."""
    for query in ORDERS:
        service = Service(size, kind, **meta)
        created: list[Any] = []

        def create_one() -> None:
            if not created:  # noqa: B023
                created.append(service.create("new.example"))  # noqa: B023

        with served(service) as (client, _):
            next(iter(client.iter_websites(**query)))
            service.meanwhile = create_one
            found = [website["id"] for website in client.list_websites(**query)]
        assert sorted(found) == sorted(website["id"] for website in service.websites)


@pytest.mark.parametrize("kind", IDS)
def test_second_website_of_a_domain_is_found_among_opaque_ids(kind: str) -> None:
    """Another task creates the domain between the lookup and the create; the new websites are not the first ones."""
    service = Service(250, kind)
    with served(service) as (client, server):
        find = client.look_up

        def look_up(domain: str) -> Any:
            found = find(domain)
            service.create(domain)
            return found

        client.look_up = look_up  # type: ignore[method-assign]
        with pytest.raises(DomainError, match="2 websites have the domain"):
            client.ensure_website("new.example")
        assert server.sent.count("POST /api/v1/websites") == 1
