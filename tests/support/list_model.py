# SPDX-License-Identifier: Apache-2.0
"""Servers with every plausible form of the list, as values: no sockets, but real bytes through the laravel."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import msgspec

from airflow_provider_analytics.api import laravel
from airflow_provider_analytics.readable import Redactor

#: Websites on a page of a list that changes.
PAGE_SIZE = 10
SIZES = (0, 1, 2, 10, 75, 99, 100, 101, 125, 200, 250, 300)
CAPPED_TOTAL = 100
#: Numbers at which rows are capped: small numbers, primes, round numbers, and numbers around the size of a page.
ROW_CAPS = (1, 2, 3, 7, 10, 11, 13, 25, 29, 30, 53, 60, 97, 99, 100, 101, 113, 199, 200, 211, 999)
ORDERS: dict[str, dict[str, str]] = {
    "newest first": {},
    "oldest first": {"sort": "asc"},
    "by domain": {"sort_by": "domain", "sort": "asc"},
}
#: Address of the lists that are functions.
URL = "https://stats.example.com/api/v1/websites"

AXES: dict[str, tuple[Any, ...]] = {
    "key": (None, "data", "websites"),
    "metadata": ("none", "top", "meta"),
    "total": ("right", "absent", "low", "high", "rows", "changing", "capped"),
    "numbers": ("all", "no last_page", "total only"),
    "echo": ("right", "absent", "wrong"),
    "text_numbers": (False, True),
    "page": ("honoured", "ignored", "from 0", "clamped", "repeated", "named p"),
    "links": ("null", "right", "always", "elsewhere"),
    "sort": ("honoured", "ignored"),
    "per_page": ("honoured", "ignored", 25),
    "size": SIZES,
}


@dataclass(frozen=True)
class Server:
    """One way to serve the list. The defaults are a well-behaved server.

    ``total``: ``rows`` counts the rows of the page only, ``changing`` is right on the first page only, ``capped`` stops
    at 100, and the last page with it; ``returned`` counts the rows up to ``row_cap``, ``kept`` leaves out deleted ones.
    ``page``: ``from 0`` counts explicit numbers from 0, ``clamped`` serves the last page for any later one,
    ``repeated`` serves page 2 again for page 3, ``named p`` reads another parameter.
    ``links``: to the next page, ``null`` on every page, ``right``, ``always`` there, or to ``elsewhere``.
    ``per_page``: a number is the largest page.
    ``row_cap``: the server returns no row after this one, whatever the order.
    ``deleted_every``: each website whose id is a multiple says that it is deleted.
    """

    key: str | None = "data"
    metadata: str = "meta"
    total: str = "right"
    numbers: str = "all"
    echo: str = "right"
    text_numbers: bool = False
    page: str = "honoured"
    links: str = "null"
    sort: str = "honoured"
    per_page: str | int = "honoured"
    size: int = 250
    row_cap: int | None = None
    deleted_every: int | None = None

    def __str__(self) -> str:
        default = Server()
        changed = [f"{name}={value}" for name, value in vars(self).items() if value != getattr(default, name)]
        return ", ".join(changed) or "well-behaved"

    def answer(self, query: Mapping[str, str]) -> bytes:
        """Return the body for a list request."""
        name = "p" if self.page == "named p" else "page"
        asked = int(query.get(name, "1"))
        size = int(query.get("per_page", "100"))
        if self.per_page == "ignored":
            size = max(1, self.size)
        elif isinstance(self.per_page, int):
            size = min(size, self.per_page)
        last = max(1, -(-self.size // size))
        served = {
            "honoured": asked,
            "named p": asked,
            "ignored": 1,
            "from 0": asked + ("page" in query),
            "clamped": min(asked, last),
            "repeated": 2 if asked == 3 else asked,
        }[self.page]
        descending = self.sort == "ignored" or query.get("sort", "desc") == "desc"
        ordered: Sequence[int] = range(1, self.size + 1)[:: -1 if descending else 1]
        if query.get("sort_by") == "domain":
            ordered = sorted(ordered, key=domain_of, reverse=descending)
        shown = ordered[: self.row_cap][(served - 1) * size : served * size]
        rows = [{"id": self._number(n), "domain": domain_of(n), **self._mark(n)} for n in shown]
        following = served - (self.page == "from 0") + 1
        link = {
            "null": None,
            "right": f"/api/v1/websites?sort=desc&{name}={following}" if served < last else None,
            "always": f"{URL}?{name}={following}",
            "elsewhere": f"https://elsewhere.example/?{name}=2" if served < last else None,
        }[self.links]
        return msgspec.json.encode(self._envelope(rows, asked, served, size, last, link))

    def _envelope(self, rows: list[Any], asked: int, served: int, size: int, last: int, link: str | None) -> Any:
        if self.key is None:
            return rows
        numbers: dict[str, Any] = {}
        if self.total != "absent":
            numbers["total"] = {
                "right": self.size,
                "low": max(0, self.size - 7),
                "high": self.size + 7,
                "rows": len(rows),
                "changing": self.size + served - 1,
                "capped": min(CAPPED_TOTAL, self.size),
                "returned": min(self.size if self.row_cap is None else self.row_cap, self.size),
                "kept": len(self.kept),
            }[self.total]
            if self.total == "capped":
                last = min(last, max(1, -(-CAPPED_TOTAL // size)))
        if self.numbers != "total only":
            numbers["per_page"] = size
        if self.numbers == "all":
            numbers["last_page"] = last
        if self.echo != "absent":
            numbers["current_page"] = served if self.echo == "right" else asked + 1
        numbers = {name: self._number(value) for name, value in numbers.items()}
        if self.metadata == "none":
            return {self.key: rows}
        if self.metadata == "top":
            return {self.key: rows, "next_page_url": link, **numbers}
        return {self.key: rows, "links": {"next": link}, "meta": numbers}

    def _number(self, value: int) -> int | str:
        return str(value) if self.text_numbers else value

    def _mark(self, n: int) -> dict[str, str]:
        return {"deleted_at": "2026-01-01"} if n not in self.kept else {}

    @property
    def kept(self) -> Sequence[int]:
        """The ids of the websites that are not deleted."""
        ids = range(1, self.size + 1)
        return [n for n in ids if n % self.deleted_every] if self.deleted_every else ids

    @property
    def is_well_behaved(self) -> bool:
        """Whether a client must get the complete list from this server."""
        has_numbers = self.metadata != "none" and self.key is not None
        is_named = self.page == "named p" and self.links == "right" and has_numbers and self.size > 100
        return (
            (self.page == "honoured" or is_named)
            and (self.sort, self.per_page) == ("honoured",) * 2
            and (self.row_cap is None or self.row_cap >= self.size)
            and not (has_numbers and self.links == "always")
            and (not has_numbers or (self.total in ("right", "absent", "returned") and self.echo != "wrong"))
        )

    def fewest_requests(self, query: Mapping[str, str]) -> int:
        """Return the minimum number of requests to a well-behaved server, for pages of 100."""
        order = {"sort_by": "id", "sort": "desc", **query}
        pages = max(1, -(-self.size // 100))
        has_numbers = self.key is not None and self.metadata != "none"
        # Page 1 once more if the response does not say that pages count from 1.
        tells = has_numbers and (self.echo == "right" or (self.links == "right" and self.size > 100))
        head = order != ORDER_OF_A_HEAD
        if not has_numbers or self.total == "absent":
            # Both directions, each up to the page without new websites.
            return head + 2 * (pages + (self.size > 0)) + (self.size > 0 and not tells)
        # Oldest first, the first page is the other end.
        other_end = order != {"sort_by": "id", "sort": "asc"}
        closing = pages > 1
        return head + pages + other_end + closing + (pages > 1 and not tells)


ORDER_OF_A_HEAD = {"sort_by": "id", "sort": "desc"}


def domain_of(n: int, times: int = 0) -> str:
    """Return the domain of a website by its id and the number of earlier websites: independent of the order of ids."""
    return f"{n * 7919 % 1009:04d}-{n}-{times}.example"


def opaque_id(n: int) -> str:
    """Return the id of a website as a text that is independent of the order of creation."""
    return f"{n * 7919 % 1009:04x}-{n}"


def servers() -> Iterator[Server]:
    """Yield every combination of the axes once; without metadata, the axes about metadata have no meaning."""
    for values in itertools.product(*AXES.values()):
        server = Server(*values)
        if server.key is None and server.metadata != "none":
            continue
        bare = server.key is None or server.metadata == "none"
        if bare and (server.total, server.numbers, server.echo, server.links) != ("absent", "all", "absent", "null"):
            continue
        yield server


def capped(row_caps: Iterable[int] = ROW_CAPS) -> Iterator[tuple[Server, str]]:
    """Yield servers that cap the rows, with a requested order."""
    totals = ("right", "rows", "returned", "absent")
    page_sizes: tuple[str | int, ...] = ("honoured", 25, 13)
    for cap in row_caps:
        sizes = sorted({max(0, cap - 1), cap, cap + 1, cap + 10, cap + 51, 2 * cap})
        shapes = itertools.product(sizes, totals, ("all", "total only"), ("honoured", "ignored"), ORDERS)
        for (size, total, numbers, sort, order), per_page in itertools.product(shapes, page_sizes):
            # A single website does not prove the order of the server.
            if cap > 1 or sort == "honoured":
                yield Server(total=total, numbers=numbers, sort=sort, per_page=per_page, size=size, row_cap=cap), order


def with_deleted() -> Iterator[tuple[Server, str]]:
    """Yield servers that return deleted websites, with a requested order."""
    totals = ("right", "kept", "rows", "absent")
    page_sizes: tuple[str | int, ...] = ("honoured", 25)
    shapes = itertools.product((1, 2, 10, 75, 100, 101, 250), (1, 3, 97), totals, ("none", "meta"), ORDERS)
    for (size, every, total, metadata, order), per_page in itertools.product(shapes, page_sizes):
        yield Server(total=total, per_page=per_page, metadata=metadata, size=size, deleted_every=every), order


def sample(count: int, seed: int) -> list[Server]:
    """Return distinct combinations: every one of the axes' values many times, the same ones for the same seed."""
    return random.Random(seed).sample(list(servers()), count)


def page_function(serve: Callable[[Mapping[str, str]], bytes]) -> Callable[..., laravel.Page]:
    """Return the page function of ``Listing`` for a server that is a function."""

    def fetch(query: dict[str, str], unwanted: Event | None = None) -> laravel.Page:
        head = {"Content-Type": "application/json"}
        return laravel.page(laravel.Answer("GET", "/api/v1/websites", 200, head, serve(query), Redactor()))

    return fetch


@dataclass
class MovingList:
    """A list that changes between two responses, randomly but repeatably.

    Ids rise; only the highest might be reassigned to another domain (kind ``again``). An ``undo`` deletes the newest
    website if it is new, a ``restore`` restores a deleted website, and a ``mark`` adds a deletion mark to a website.
    """

    random: random.Random
    ids: list[int]
    total: bool
    kinds: tuple[str, ...]
    most_changes: int = 3
    favorites: set[int] = field(default_factory=set)
    filtered: bool = False
    #: Ratio of no change to a change: a single change is the hardest to notice.
    quiet: int = 2
    #: Age of the total in responses: it comes from a cache, which is correct at the first response.
    lag: int = 0
    #: Maximum number of changes by which a replica is late, which serves one of four responses; 0: no replica.
    behind: int = 0
    #: Whether ids are text, independent of the order of creation; the list is sorted by them.
    opaque: bool = False

    def __post_init__(self) -> None:
        self._next = self._first_new = max(self.ids, default=0) + 1
        self._totals: list[int] = []
        #: Number of websites that had an id before.
        self._given: Counter[int] = Counter()
        self._off: set[int] = set()
        #: Websites that can be restored, and websites with a deletion mark.
        self._gone = self._some_of_the_ids("restore")
        self.ids = [n for n in self.ids if n not in self._gone]
        self._marked = self._some_of_the_ids("mark")
        #: The list before each change, and now: id to row.
        self._states = [self._rows()]
        #: The position of the state of the first response, and of the last one.
        self._first = self._last = -1
        for _ in range(self.behind):
            self._change()

    def _some_of_the_ids(self, kind: str) -> set[int]:
        return {n for n in self.ids if kind in self.kinds and self.random.random() < 0.2}

    def answer(self, query: Mapping[str, str]) -> bytes:
        """Return the body for a list request; then the list changes."""
        self._last = len(self._states) - 1
        if self.behind and self.random.random() < 0.25:
            self._last = max(0, self._last - self.random.randint(1, self.behind))
        self._first = self._last if self._first < 0 else self._first
        wanted = query.get("favorite")
        shown = self._states[self._last]
        ids = [n for n in shown if wanted is None or shown[n]["favorite"] == (wanted == "true")]
        ids.sort(key=lambda n: self._shown(shown[n])[query["sort_by"]], reverse=query["sort"] == "desc")
        first = (int(query.get("page", "1")) - 1) * PAGE_SIZE
        rows = [self._shown(shown[n]) for n in ids[first : first + PAGE_SIZE]]
        body: dict[str, Any] = {"data": rows}
        self._totals.append(len(ids))
        if self.total:
            body["total"] = self._totals[max(0, len(self._totals) - 1 - self.lag)]
        for _ in range(self.random.choice((*[0] * self.quiet, 1, self.most_changes))):
            self._change()
        return msgspec.json.encode(body)

    def _shown(self, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "id": opaque_id(row["id"])} if self.opaque else row

    @property
    def first(self) -> set[int]:
        """The ids in the list of the first response."""
        return self._ids_of(self._states[self._first])

    @property
    def last(self) -> set[int]:
        """The ids in the list of the last response."""
        return self._ids_of(self._states[self._last])

    @property
    def stayed(self) -> set[int]:
        """The ids in the list from the first response on without a break."""
        return set.intersection(*map(self._ids_of, self._states[self._first :]))

    @property
    def existed(self) -> set[int]:
        """The ids in the list at any time."""
        return set().union(*map(self._ids_of, self._states))

    def _ids_of(self, state: dict[int, dict[str, Any]]) -> set[int]:
        return {n for n, row in state.items() if (row["favorite"] or not self.filtered) and not row.get("deleted_at")}

    def _rows(self) -> dict[int, dict[str, Any]]:
        return {
            n: {"id": n, "domain": domain_of(n, self._given[n]), "favorite": n in self.favorites}
            | ({"deleted_at": "2026-01-01" if n in self._marked else None} if "mark" in self.kinds else {})
            for n in self.ids
        }

    def _change(self) -> None:
        kind = self.random.choice(self.kinds)
        if kind == "create":
            self._create()
        elif kind == "restore" and self._gone:
            self.ids.append(self._gone.pop())
        elif kind == "swap" and self.ids:
            # The total is unchanged.
            self._delete(self.random.choice(self.ids))
            self._create()
        elif kind == "again" and self.ids:
            # The highest id is free again, and reassigned: now, or by the next create.
            self._next = max(self.ids)
            self.ids.remove(self._next)
            self._given[self._next] += 1
        elif kind == "undo" and max(self.ids, default=0) >= self._first_new:
            self._delete(max(self.ids))
        elif kind == "delete" and self.ids:
            self._delete(self.random.choice(self.ids))
        elif kind == "mark" and self.ids:
            self._marked.add(self.random.choice(self.ids))
        elif kind == "flip" and self.ids:
            # A disabled website returns soon: the hardest case for a reader.
            if self._off and self.random.random() < 0.5:
                self.favorites.add(self._off.pop())
            elif self.favorites:
                gone = self.random.choice(sorted(self.favorites))
                self.favorites.remove(gone)
                self._off.add(gone)
        self._states.append(self._rows())

    def _create(self) -> None:
        self.ids.append(self._next)
        self._next += 1

    def _delete(self, n: int) -> None:
        self.ids.remove(n)
        self._gone.add(n)
