"""The sandbox's websites in SQLite: one table, one connection, one lock."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from airflow_provider_analytics.sandbox.seeds import generate_websites

MEMORY = ":memory:"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS website (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    domain TEXT NOT NULL,
    domain_key TEXT NOT NULL,
    privacy INTEGER NOT NULL,
    password TEXT,
    email INTEGER NOT NULL,
    exclude_bots INTEGER NOT NULL,
    exclude_params TEXT,
    exclude_ips TEXT,
    favorite INTEGER NOT NULL,
    created_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS website_domain ON website (domain_key, id);
CREATE INDEX IF NOT EXISTS website_favorite ON website (favorite, id);
"""
_SHOWN = (
    "id", "domain", "privacy", "email", "exclude_bots", "exclude_params", "exclude_ips", "favorite", "created_at",
)  # fmt: skip
_SELECT = f"SELECT {', '.join(_SHOWN)} FROM website"  # noqa: S608 - constants only
_DEFAULTS: dict[str, Any] = {
    "privacy": 0,
    "password": None,
    "email": 0,
    "exclude_bots": 1,
    "exclude_params": None,
    "exclude_ips": None,
    "favorite": False,
}
_SETTINGS = frozenset(_DEFAULTS)
_PASSWORD_PRIVACY = 2

Website = dict[str, Any]
"""A website as the sandbox knows it, without its password: ``id``, ``domain``, ``privacy``, ``email``,
``exclude_bots`` (int), ``exclude_params``, ``exclude_ips`` (text with an entry per line, or None),
``favorite`` (bool), ``created_at`` (ISO 8601, UTC)."""


class DuplicateDomainError(ValueError):
    """The domain is already in the store and duplicates are not wanted."""


class Store:
    """Websites, in memory by default or in a file which survives a restart.

    Usable from several threads. Ids rise and are never given twice, except after :meth:`clear`.
    """

    def __init__(self, path: str = MEMORY) -> None:
        self._lock = threading.RLock()
        self._random = random.Random(0)  # noqa: S311 - drift must be repeatable, not secret
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        try:
            # Surviving the end of this process is enough; a power cut may lose the last writes.
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the database; the store cannot be used afterwards."""
        with self._lock:
            self._connection.close()

    def clear(self) -> None:
        """Delete every website and begin again with id 1."""
        with self._lock:
            self._connection.execute("DELETE FROM website")
            self._connection.execute("DELETE FROM sqlite_sequence")
            self._random.seed(0)

    def seed(self, count: int, seed: int = 7) -> None:
        """Add ``count`` invented websites; the same seed on the same store gives the same websites."""
        with self._lock:
            taken = {row[0] for row in self._connection.execute("SELECT domain_key FROM website")}
            self._insert(generate_websites(count, seed, taken))

    def count(self) -> int:
        """Return how many websites there are."""
        with self._lock:
            return int(self._connection.execute("SELECT count(*) FROM website").fetchone()[0])

    def add(self, domain: str, *, unique: bool = True, **settings: Any) -> Website:
        """Add one website and return it; settings left out take the defaults of the interface (part 2, rule 3).

        Raises :class:`DuplicateDomainError` when ``unique`` and the domain is there already (letter case ignored).
        """
        _check_settings(settings)
        with self._lock:
            if unique and self.find(domain):
                raise DuplicateDomainError(domain)
            self._insert([{"domain": domain, "created_at": _now(), **settings}])
            return self._fetch("ORDER BY id DESC LIMIT 1")[0]

    def get(self, website_id: int) -> Website | None:
        """Return the website of this id, or None."""
        with self._lock:
            rows = self._fetch("WHERE id = ?", website_id)
        return rows[0] if rows else None

    def update(self, website_id: int, settings: Mapping[str, Any]) -> Website | None:
        """Change the given settings and return the website, or None when there is none of this id."""
        _check_settings(settings)
        with self._lock:
            website = self.get(website_id)
            if website is None:
                return None
            changes = _with_effect(settings, privacy=settings.get("privacy", website["privacy"]))
            if changes:
                assignments = ", ".join(f"{name} = ?" for name in changes)
                statement = f"UPDATE website SET {assignments} WHERE id = ?"  # noqa: S608 - names are checked
                self._connection.execute(statement, (*changes.values(), website_id))
            return self.get(website_id)

    def delete(self, website_id: int) -> bool:
        """Delete the website of this id; False when there is none."""
        with self._lock:
            return self._connection.execute("DELETE FROM website WHERE id = ?", (website_id,)).rowcount == 1

    def page(
        self,
        *,
        search: str = "",
        favorite: bool | None = None,
        sort_by: str = "id",
        descending: bool = True,
        limit: int | None = None,
        offset: int = 0,
    ) -> tuple[list[Website], int]:
        """Return one page of the matching websites, and how many match altogether.

        ``search`` is a part of the domain, letter case ignored. Without ``limit`` the page holds all of them.
        """
        conditions: list[str] = []
        values: list[Any] = []
        if search:
            conditions.append("instr(domain_key, ?) > 0")
            values.append(search.casefold())
        if favorite is not None:
            conditions.append("favorite = ?")
            values.append(favorite)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        direction = "DESC" if descending else "ASC"
        keys = {"id": "id {0}", "domain": "domain_key {0}, id {0}"}[sort_by].format(direction)
        with self._lock:
            total = self._connection.execute(f"SELECT count(*) FROM website {where}", values).fetchone()[0]  # noqa: S608
            rows = self._fetch(
                f"{where} ORDER BY {keys} LIMIT ? OFFSET ?", *values, -1 if limit is None else limit, offset
            )
        return rows, int(total)

    def websites(self) -> list[Website]:
        """Return every website, oldest first."""
        return self.page(descending=False)[0]

    def find(self, domain: str) -> list[Website]:
        """Return the websites of exactly this domain (letter case ignored), oldest first."""
        with self._lock:
            return self._fetch("WHERE domain_key = ? ORDER BY id", domain.casefold())

    def sample(self, count: int) -> list[Website]:
        """Return websites taken at random, at most ``count``; after :meth:`clear` the choices repeat themselves."""
        with self._lock:
            websites = self.websites()
            return self._random.sample(websites, min(count, len(websites)))

    def password(self, website_id: int) -> str | None:
        """Return the stored password of a website: for assertions only, no answer ever holds it."""
        with self._lock:
            row = self._connection.execute("SELECT password FROM website WHERE id = ?", (website_id,)).fetchone()
        return None if row is None else row[0]

    def _fetch(self, clauses: str, *values: Any) -> list[Website]:
        rows = self._connection.execute(f"{_SELECT} {clauses}", values)
        return [{**dict(row), "favorite": bool(row["favorite"])} for row in rows]

    def _insert(self, websites: Iterable[Mapping[str, Any]]) -> None:
        rows = []
        for website in websites:
            row = {**_DEFAULTS, "domain_key": website["domain"].casefold(), "password": None}
            row.update(_with_effect(website, privacy=website.get("privacy", _DEFAULTS["privacy"])))
            rows.append(row)
        if not rows:
            return
        names = list(rows[0])
        statement = f"INSERT INTO website ({', '.join(names)}) VALUES ({', '.join(':' + name for name in names)})"  # noqa: S608
        self._connection.execute("BEGIN")
        self._connection.executemany(statement, rows)
        self._connection.execute("COMMIT")


def _check_settings(settings: Mapping[str, Any]) -> None:
    unknown = sorted(set(settings) - _SETTINGS)
    if unknown:
        msg = f"unknown settings {unknown}; known are {sorted(_SETTINGS)}"
        raise ValueError(msg)


def _with_effect(settings: Mapping[str, Any], *, privacy: int) -> dict[str, Any]:
    """Leave out a password that has no effect (part 4, rule 1) and store empty text as none."""
    return {
        name: None if value == "" else value
        for name, value in settings.items()
        if name != "password" or privacy == _PASSWORD_PRIVACY
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
