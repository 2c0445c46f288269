"""Servers that speak the list in every plausible way, as values: no socket, but real bytes through the dialect."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from airflow_provider_analytics.api import dialect

SIZES = (0, 1, 2, 10, 99, 100, 101, 200, 250, 300)
CAP = 25
CAPPED_TOTAL = 100
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
    "per_page": ("honoured", "ignored", "capped"),
    "size": SIZES,
}


@dataclass(frozen=True)
class Server:
    """One way to serve the list. The defaults are a well-behaved server.

    ``total``: ``rows`` counts the rows of the page only, ``changing`` is right on the first page only, ``capped`` stops
    at 100, and the last page with it.
    ``page``: ``from 0`` counts explicit numbers from 0, ``clamped`` serves the last page for any later one,
    ``repeated`` serves page 2 again for page 3, ``named p`` reads another parameter.
    ``links``: to the next page, ``null`` on every page, ``right``, ``always`` there, or to ``elsewhere``.
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
    per_page: str = "honoured"
    size: int = 250

    def __str__(self) -> str:
        default = Server()
        changed = [f"{name}={getattr(self, name)}" for name in AXES if getattr(self, name) != getattr(default, name)]
        return ", ".join(changed) or "well-behaved"

    def answer(self, query: Mapping[str, str]) -> bytes:
        """Return the body for a list request."""
        name = "p" if self.page == "named p" else "page"
        asked = int(query.get(name, "1"))
        size = {"honoured": int(query.get("per_page", "100")), "ignored": max(1, self.size), "capped": CAP}[
            self.per_page
        ]
        last = max(1, -(-self.size // size))
        served = {
            "honoured": asked,
            "named p": asked,
            "ignored": 1,
            "from 0": asked + ("page" in query),
            "clamped": min(asked, last),
            "repeated": 2 if asked == 3 else asked,
        }[self.page]
        ids = range(1, self.size + 1)
        newest_first = self.sort == "ignored" or query.get("sort", "desc") == "desc"
        ordered = ids[::-1] if newest_first else ids
        shown = ordered[(served - 1) * size : served * size]
        rows = [{"id": self._number(n), "domain": f"{n}.example"} for n in shown]
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

    @property
    def is_well_behaved(self) -> bool:
        """Whether a client must get the complete list from this server."""
        has_numbers = self.metadata != "none" and self.key is not None
        is_named = self.page == "named p" and self.links == "right" and has_numbers and self.size > 100
        return (
            (self.page == "honoured" or is_named)
            and (self.sort, self.per_page) == ("honoured",) * 2
            and not (has_numbers and self.links == "always")
            and (not has_numbers or (self.total in ("right", "absent") and self.echo != "wrong"))
        )

    @property
    def fewest_requests(self) -> int:
        """The arithmetic minimum of requests to a well-behaved server."""
        pages = max(1, -(-self.size // 100))
        has_numbers = self.key is not None and self.metadata != "none"
        # Page 1 once more where nothing tells whether pages count from 0 or from 1.
        tells = self.echo == "right" or (self.links == "right" and self.size > 100)
        probe = self.size >= 100 and not (has_numbers and tells)
        if not has_numbers or self.total == "absent":
            # Both directions, each up to the page that brings nothing.
            return 2 * (pages + (self.size > 0)) + probe
        # The page behind a last one that is full, or whose size is not known, and the oldest websites.
        is_full = self.size > 0 and (self.size % 100 == 0 or (self.size < 100 and self.numbers == "total only"))
        is_round = pages > 1 and self.size % 10 == 0
        behind = is_full + (is_full or is_round)
        # The closing head.
        closing = pages > 1
        return pages + behind + closing + probe


def servers() -> Iterator[Server]:
    """Yield every combination of the axes, once each: without metadata the axes about it mean nothing."""
    for values in itertools.product(*AXES.values()):
        server = Server(*values)
        if server.key is None and server.metadata != "none":
            continue
        bare = server.key is None or server.metadata == "none"
        if bare and (server.total, server.numbers, server.echo, server.links) != ("absent", "all", "absent", "null"):
            continue
        yield server


def sample(count: int, seed: int) -> list[Server]:
    """Return distinct combinations: every one of the axes' values many times, the same ones for the same seed."""
    return random.Random(seed).sample(list(servers()), count)


def page_function(serve: Callable[[Mapping[str, str]], bytes]) -> Callable[[dict[str, str]], dialect.Page]:
    """Return what ``Listing`` fetches pages with, for a server that is a function."""

    def fetch(query: dict[str, str]) -> dialect.Page:
        head = {"Content-Type": "application/json"}
        answer = dialect.Answer("GET", "/api/v1/websites", 200, head, serve(query), "")
        page = dialect.page(answer, URL)
        for row in page.rows:
            dialect.website_id(row, answer)
        return page

    return fetch


@dataclass
class MovingList:
    """A list that changes between two answers, by chance but repeatably.

    Ids rise; only the highest may be given again, to another domain (kind ``again``). ``stayed`` are the ids that
    matched the filter without a break since the start, ``existed`` those that ever existed.
    """

    random: random.Random
    ids: list[int]
    total: bool
    kinds: tuple[str, ...]
    page_size: int
    most_changes: int = 3
    #: Whether rows say if they are favourites; None: they say nothing.
    shows_favorite: bool = True
    favorites: set[int] = field(default_factory=set)
    stayed: set[int] = field(default_factory=set)
    existed: set[int] = field(default_factory=set)
    filtered: bool = False
    #: How much more often nothing changes than something: a single change is the hardest to see.
    quiet: int = 2
    #: How many answers ago a total was right: it comes from a cache, which is right at the first answer.
    lag: int = 0
    off: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.existed = set(self.ids)
        self.stayed = self._matching()
        self._next = max(self.ids, default=0) + 1
        self._totals: list[int] = []
        #: The ids in the list that the last answer was cut from.
        self.shown: set[int] = set()
        #: How many websites had an id before.
        self._given: Counter[int] = Counter()

    def answer(self, query: Mapping[str, str]) -> bytes:
        """Return the body for a list request; then the list changes."""
        wanted = query.get("favorite")
        ids = [n for n in self.ids if wanted is None or (n in self.favorites) == (wanted == "true")]
        ids.sort(key=self._domain if query["sort_by"] == "domain" else None, reverse=query["sort"] == "desc")
        first = (int(query.get("page", "1")) - 1) * self.page_size
        rows: list[dict[str, Any]] = [
            {"id": n, "domain": self._domain(n)} | ({"favorite": n in self.favorites} if self.shows_favorite else {})
            for n in ids[first : first + self.page_size]
        ]
        body: dict[str, Any] = {"data": rows}
        self._totals.append(len(ids))
        self.shown = set(ids)
        if self.total:
            total = self._totals[max(0, len(self._totals) - 1 - self.lag)]
            body["total"] = total
            body["per_page"] = self.page_size
            body["last_page"] = max(1, -(-total // self.page_size))
        for _ in range(self.random.choice((*[0] * self.quiet, 1, self.most_changes))):
            self._change()
            self.stayed &= self._matching()
        return msgspec.json.encode(body)

    def _change(self) -> None:
        kind = self.random.choice(self.kinds)
        if kind == "create":
            self.ids.append(self._next)
            self.existed.add(self._next)
            self._next += 1
        elif kind == "swap" and self.ids:
            # The total stays what it was.
            self.ids.remove(self.random.choice(self.ids))
            self.ids.append(self._next)
            self.existed.add(self._next)
            self._next += 1
        elif kind == "again" and self.ids:
            # The highest id is free again, and given again: now, or by the next create.
            self._next = max(self.ids)
            self.ids.remove(self._next)
            self._given[self._next] += 1
        elif kind == "delete" and self.ids:
            self.ids.remove(self.random.choice(self.ids))
        elif kind == "flip" and self.ids:
            # One that was switched off comes back soon: the hardest case for a reader.
            if self.off and self.random.random() < 0.5:
                back = self.off.pop()
                self.favorites.add(back)
            elif self.favorites:
                gone = self.random.choice(sorted(self.favorites))
                self.favorites.remove(gone)
                self.off.add(gone)

    def _matching(self) -> set[int]:
        return {n for n in self.ids if n in self.favorites} if self.filtered else set(self.ids)

    def _domain(self, n: int) -> str:
        return f"{n * 7919 % 1009:04d}-{n}-{self._given[n]}.example"
