# SPDX-License-Identifier: Apache-2.0
"""Every way in which a list might be served and a write be processed: ``make fault-matrix`` tries every combination.

A case of a list is correct if the client returns exactly the websites of the server, or rejects the list with a typed
error, and if a well-behaved server gets no more requests than necessary. A case of a changing list is correct if no
website is missing that existed all the time, and no website is present that never existed; and, if the read ended
with a second first page while the totals are correct, if it returns the list of that moment. For writes see
``write_matrix.py``.
"""

from __future__ import annotations

import collections
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

from list_model import ORDERS, PAGE_SIZE, MovingList, Server, capped, page_function, sample, servers, with_deleted
from write_matrix import Writer, service, write, writers

from airflow_provider_analytics.api import listing
from airflow_provider_analytics.api.listing import Listing
from airflow_provider_analytics.exceptions import IncompleteListError, UnexpectedResponseError

NO_QUERY: Mapping[str, str] = {}
#: The axes around the ordinary structure, in every combination.
_ORDINARY = {"key": "data", "metadata": "meta", "text_numbers": False, "numbers": "all"}


def read(
    serve: Callable[[Mapping[str, str]], bytes], query: dict[str, str], parallel: int = 1
) -> tuple[list[str], Listing]:
    """Read a list once through the dialect, without a socket; return the ids and the listing with its proof."""
    listing = Listing(page_function(serve), query, parallel=parallel)
    return [str(row["id"]) for row in listing], listing


class OutOfOrder:
    """Replaces a pool of threads: pages are served in random but repeatable order."""

    def __init__(self, chance: random.Random) -> None:
        self._random = chance
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.was_asked = False

    def __call__(self, **_: Any) -> OutOfOrder:
        return self

    def submit(self, fetch: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.was_asked = True
        future = Answered(self)
        self._waiting.append((future, partial(fetch, *arguments)))
        return future

    def answer_one(self) -> None:
        future, fetch = self._waiting.pop(self._random.randrange(len(self._waiting)))
        try:
            future.set_result(fetch())
        except IncompleteListError as error:
            future.set_exception(error)

    def shutdown(self, **_: Any) -> None:
        for future, _fetch in self._waiting:
            future.cancel()
        self._waiting.clear()


class Answered(Future[Any]):
    """A requested page; others might be served first."""

    def __init__(self, pool: OutOfOrder) -> None:
        super().__init__()
        self._pool = pool

    def result(self, timeout: float | None = None) -> Any:
        while not self.done():
            self._pool.answer_one()
        return super().result()


def still(server: Server, query: Mapping[str, str] = NO_QUERY) -> str | None:
    """Try a server whose list does not change; return the problem, or None."""
    requests = 0

    def serve(query: Mapping[str, str]) -> bytes:
        nonlocal requests
        requests += 1
        return server.answer(query)

    try:
        got, listing = read(serve, dict(query))
    except (IncompleteListError, UnexpectedResponseError) as error:
        return f"a well-behaved server was rejected: {error}" if server.is_well_behaved else None
    if sorted(map(int, got)) != list(server.kept):
        return f"{len(got)} of {len(server.kept)} websites were taken for all of them ({listing.proof})"
    if server.is_well_behaved and "per_page" not in query and requests != server.fewest_requests(query):
        return f"{requests} requests instead of {server.fewest_requests(query)}"
    if listing.proof is None or (listing.proof.websites, listing.proof.pages) != (len(got), requests):
        return f"the proof is wrong: {listing.proof} after {requests} requests"
    return None


@dataclass(frozen=True)
class Move:
    """A kind of changing list, read in a certain way."""

    query: tuple[tuple[str, str], ...] = ()
    total: bool = True
    kinds: tuple[str, ...] = ("create", "delete")
    parallel: int = 1
    quiet: int = 2
    lag: int = 0
    behind: int = 0
    #: Whether ids are text, independent of the order of creation.
    opaque: bool = False
    #: Whether websites may be missing: at most as many as returned, after a restore or by a late replica.
    may_lose: bool = False
    #: Minimum number of accepted reads; the others meet a change.
    taken: float = 0.05

    def try_once(self, seed: int) -> tuple[str | None, bool]:
        """Return the problem of a read (or None), and whether the list was accepted."""
        chance = random.Random(seed)
        ids = list(range(1, chance.randint(0, 45) + 1))
        query = dict(self.query)
        moving = MovingList(
            chance, ids, self.total, self.kinds, chance.choice((1, 2, 4)),
            favorites=set(ids) if "favorite" in query else set(), filtered="favorite" in query,
            quiet=self.quiet, lag=self.lag, behind=self.behind, opaque=self.opaque,
        )  # fmt: skip
        try:
            # Pages that are requested together are read in sequence, and none of these waits for a network.
            slow = mock.patch.object(listing, "AT_ONCE", 0)
            pool = OutOfOrder(chance)
            with slow, mock.patch.object(listing, "ThreadPoolExecutor", pool):
                found, read_list = read(moving.answer, {"per_page": "10", **query}, self.parallel)
            got = {int(website_id.rpartition("-")[2]) for website_id in found}
        except IncompleteListError:
            return None, False
        if self.parallel > 1 and len(moving.first) > 3 * PAGE_SIZE and not pool.was_asked:
            return "no page was read while another one was", True
        lost = moving.stayed - got
        if len(lost) > (len(got - moving.first) if self.may_lose else 0):
            return f"lost {sorted(lost)}", True
        if invented := got - moving.existed:
            return f"invented {sorted(invented)}", True
        is_closed = (
            read_list.proof is not None and read_list.proof.method == "closed reading" and "favorite" not in query
        )
        is_exact = is_closed and not (self.lag or self.may_lose)
        # A website might have its deletion mark only in the middle of the read.
        marked = moving.first - moving.last if "mark" in self.kinds else set()
        if is_exact and not moving.last <= got <= moving.last | marked:
            return f"read {sorted(got)}, the list was {sorted(moving.first)}, and is {sorted(moving.last)}", True
        return None, True


_SWAPS = ("create", "delete", "again", "swap", "swap")
_FLIPS = ("create", "delete", "flip", "flip", "flip", "flip")
#: Changes that break a condition of the proof.
_BACK = ("create", "delete", "restore", "restore")
#: Possible changes of a list, in any order.
_IN_ANY_ORDER: dict[str, dict[str, Any]] = {
    "with total": {},
    "no total": {"total": False, "quiet": 3},
    "out of order": {"kinds": _SWAPS, "parallel": 4, "quiet": 12},
    "late totals": {"kinds": _SWAPS, "parallel": 4, "quiet": 12, "lag": 3},
    "total of the first page": {"kinds": _SWAPS, "parallel": 4, "quiet": 12, "lag": 10_000},
    # A list that only grows is read once, unless a complete page is new.
    "growing": {"kinds": ("create",), "quiet": 4, "taken": 0.9},
    "growing, out of order": {"kinds": ("create",), "parallel": 4, "quiet": 4, "taken": 0.9},
    "new ones come and go": {"kinds": ("create", "undo"), "parallel": 4, "quiet": 12, "taken": 0.5},
}
_OPAQUE_IDS: dict[str, dict[str, Any]] = {
    "with total": {"quiet": 12},
    "no total": {"total": False, "quiet": 12},
    "growing": {"kinds": ("create",), "quiet": 12},
    "out of order": {"kinds": _SWAPS, "parallel": 4, "quiet": 12},
}
MOVES = {
    **{
        f"{order}, {what}": Move(tuple(query.items()), **how)
        for order, query in ORDERS.items()
        for what, how in _IN_ANY_ORDER.items()
    },
    **{
        f"opaque ids, {order}, {what}": Move(tuple(query.items()), opaque=True, **how)
        for order, query in ORDERS.items()
        for what, how in _OPAQUE_IDS.items()
    },
    "newest first, deleted rows are shown": Move(kinds=("create", "delete", "mark"), quiet=12),
    "by domain, deleted rows are shown": Move((("sort_by", "domain"),), kinds=("create", "delete", "mark"), quiet=12),
    "newest first, restored": Move(kinds=("create", "restore"), quiet=12),
    "newest first, restored and deleted": Move(kinds=_BACK, quiet=12, may_lose=True),
    "by domain, restored and deleted": Move((("sort_by", "domain"),), kinds=_BACK, quiet=12, may_lose=True),
    "newest first, a replica that lacks creates": Move(kinds=("create",), quiet=12, behind=3),
    "newest first, a replica that shows deleted ones": Move(kinds=("delete",), quiet=12, behind=3),
    "newest first, a replica": Move(quiet=12, behind=3, may_lose=True),
    "favorites, with total": Move((("favorite", "true"),), kinds=_FLIPS),
    "favorites, no total": Move((("favorite", "true"),), total=False, kinds=_FLIPS),
    "favorites by domain": Move((("favorite", "true"), ("sort_by", "domain")), kinds=_FLIPS),
}


#: Groups of cases that are run only on request, because each takes minutes.
LONG = ("every shape", "faults, ordinary shape", "writes")


def groups(complete: bool = False) -> dict[str, Callable[[], list[Any]]]:
    """Return functions that return the cases of a group: servers, also with an order; moves with a seed; and writers.

    There are hundreds of thousands of servers, so a test run makes them only for the groups that it tries.
    """
    found: dict[str, Callable[[], list[Any]]] = {
        "well-behaved servers": lambda: [server for server in servers() if server.is_well_behaved],
        "faults, ordinary shape": lambda: [server for server in servers() if _is_ordinary(server)],
        "faults, bare list": lambda: [server for server in servers() if server.key is None],
        "faults, any shape": lambda: sample(3000, seed=7),
        "capped rows": lambda: list(capped((1, 7, 30, 101))),
    }
    if complete:
        found = {"every shape": lambda: list(servers()), "capped rows": lambda: list(capped())}
    found["deleted rows"] = lambda: list(with_deleted())
    for name, move in MOVES.items():
        # A replica is behind at the decisive moment only in a few reads.
        reads = 500 if move.behind else 100
        if complete:
            reads = 5000
        found[f"moving: {name}"] = partial(_reads, move, reads)
    found["writes"] = lambda: list(writers())
    return found


def _reads(move: Move, count: int) -> list[tuple[Move, int]]:
    return [(move, seed) for seed in range(count)]


def _is_ordinary(server: Server) -> bool:
    return all(getattr(server, name) == value for name, value in _ORDINARY.items())


def run(cases: Iterable[Any]) -> tuple[collections.Counter[str], list[str]]:
    """Try the cases; return the numbers of tried, correct, and failed cases, and the failures."""
    counts: collections.Counter[str] = collections.Counter()
    failures = []
    writing = contextlib.ExitStack()
    sandbox = None
    for case in cases:
        if isinstance(case, Writer):
            sandbox = sandbox or writing.enter_context(service())
            problem = write(sandbox, case)
        elif isinstance(case, Server):
            problem = still(case)
        elif isinstance(case[0], Server):
            problem = still(case[0], ORDERS[case[1]])
        else:
            problem, taken = case[0].try_once(case[1])
            counts["taken"] += taken
        counts["tried"] += 1
        counts["failed" if problem else "held"] += 1
        if problem:
            failures.append(f"{case}: {problem}")
    writing.close()
    return counts, failures
