"""Store of websites in SQLite: one table, one connection, one lock."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import idna

from airflow_provider_analytics.sandbox.fields import BOOLEANS, DEFAULTS, SHOWN, WEBSITE_FIELDS
from airflow_provider_analytics.sandbox.seeds import generate_websites

MEMORY = ":memory:"

# domain_key is the domain in lower case, for lookup, search and sorting.
_COLUMNS = [
    *(f"{field.name} {field.column}" for field in WEBSITE_FIELDS),
    "domain_key TEXT NOT NULL",
    "deleted_at TEXT",
]
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS website ({", ".join(_COLUMNS)});
CREATE INDEX IF NOT EXISTS website_domain ON website (domain_key, id);
CREATE INDEX IF NOT EXISTS website_favorite ON website (favorite, id);
"""
_SELECT = f"SELECT {', '.join(SHOWN)}, deleted_at FROM website"  # noqa: S608 - constants only
_EXISTS = "deleted_at IS NULL"
_PASSWORD_PRIVACY = 2
#: Templates of stored domains, by :attr:`Options.domain_as`.
_DOMAIN_TEMPLATES = {"with www": "www.{}", "with scheme": "https://{}", "with port": "{}:443", "with slash": "{}/"}
#: SQL condition and value template of a search, by :attr:`Options.search_matches`.
_SEARCHES = {
    "part": ("instr(domain_key, ?) > 0", "{}"),
    "late": ("instr(domain_key, ?) > 0", "{}"),
    "case": ("instr(domain, ?) > 0", "{}"),
    "exact": ("domain_key = ?", "{}"),
    "start": ("instr(domain_key, ?) = 1", "{}"),
    "label": ("instr('.' || domain_key || '.', ?) > 0", ".{}."),
    "nothing": ("? IS NULL", "{}"),
}

#: A website without its password: the fields of :data:`~airflow_provider_analytics.sandbox.fields.SHOWN` by name.
#: Exclusion lists are text with one entry per line, or None; ``created_at`` is ISO 8601 in UTC.
Website = dict[str, Any]


class DuplicateDomainError(ValueError):
    """An attempt to add a domain that is already in the store."""


class Store:
    """A thread-safe store of websites, in memory by default or in a file.

    Ids increase and are never reused until :meth:`clear`.
    """

    def __init__(self, path: str = MEMORY) -> None:
        self._lock = threading.RLock()
        self._random = random.Random(0)  # noqa: S311 - drift must be repeatable, not secret
        #: Copies before each write, oldest first, with the number of reads that still return the copy.
        self.earlier: deque[tuple[Store, list[int]]] = deque()
        #: Content of the search index; None before the first search.
        self.index: Store | None = None
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        try:
            # A file must survive the end of the process, but not a power failure.
            self._connection.execute("PRAGMA synchronous = OFF")
            self._connection.executescript(_SCHEMA)
        except sqlite3.Error:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the database. The store cannot be used afterwards."""
        with self._lock:
            self._connection.close()

    def clear(self) -> None:
        """Delete all websites and restart ids at 1. Nothing earlier is returned afterwards."""
        with self._lock:
            self.earlier.clear()
            self.index = None
            self._connection.execute("DELETE FROM website")
            self._connection.execute("DELETE FROM sqlite_sequence")
            self._random.seed(0)

    def seed(self, count: int, seed: int = 7) -> None:
        """Add ``count`` generated websites; the same seed and store give the same websites."""
        with self._lock:
            taken = {row[0] for row in self._connection.execute("SELECT domain_key FROM website")}
            self._insert(generate_websites(count, seed, taken))

    def count(self) -> int:
        """Return the number of websites."""
        with self._lock:
            return int(self._connection.execute(f"SELECT count(*) FROM website WHERE {_EXISTS}").fetchone()[0])  # noqa: S608

    def copy(self) -> Store:
        """Return an independent store in memory with the same websites."""
        copied = Store()
        with self._lock:
            self._connection.backup(copied._connection)
        return copied

    def add(self, domain: str, *, unique: bool = True, **settings: Any) -> Website:
        """Add a website and return it; omitted settings take the defaults of the interface.

        :param unique: reject a domain that is already in the store, ignoring case.
        :raises DuplicateDomainError: if ``unique`` and the domain is in the store.
        :raises ValueError: for an unknown setting.
        """
        _check_settings(settings)
        with self._lock:
            if unique and self.find(domain):
                raise DuplicateDomainError(domain)
            self._insert([{"domain": domain, "created_at": _now(), **settings}])
            return self._fetch("ORDER BY id DESC LIMIT 1")[0]

    def get(self, website_id: int, *, marked: bool = False) -> Website | None:
        """Return a website, or None if it does not exist.

        :param marked: whether to include a website that is marked as deleted.
        """
        with self._lock:
            rows = self._fetch("WHERE id = ?" if marked else f"WHERE id = ? AND {_EXISTS}", website_id)
        return rows[0] if rows else None

    def update(self, website_id: int, settings: Mapping[str, Any]) -> Website | None:
        """Change the given settings and return the website, or None if it does not exist.

        :raises ValueError: for an unknown setting.
        """
        _check_settings(settings)
        with self._lock:
            website = self.get(website_id)
            if website is None:
                return None
            changes = _effective_settings(settings, privacy=settings.get("privacy", website["privacy"]))
            if changes:
                assignments = ", ".join(f"{name} = ?" for name in changes)
                statement = f"UPDATE website SET {assignments} WHERE id = ?"  # noqa: S608 - names are checked
                self._connection.execute(statement, (*changes.values(), website_id))
            return self.get(website_id)

    def delete(self, website_id: int, *, mark: bool = False) -> bool:
        """Delete a website; return False if it does not exist.

        :param mark: keep the website and store the time of its deletion.
        """
        with self._lock:
            if mark:
                statement = f"UPDATE website SET deleted_at = ? WHERE id = ? AND {_EXISTS}"  # noqa: S608
                return self._connection.execute(statement, (_now(), website_id)).rowcount == 1
            return self._connection.execute("DELETE FROM website WHERE id = ?", (website_id,)).rowcount == 1

    def restore(self, website_id: int) -> bool:
        """Remove the deletion mark; return False if the website has no mark."""
        with self._lock:
            statement = "UPDATE website SET deleted_at = NULL WHERE id = ? AND deleted_at IS NOT NULL"
            return self._connection.execute(statement, (website_id,)).rowcount == 1

    def page(
        self,
        *,
        search: str = "",
        search_matches: str = "part",
        favorite: bool | None = None,
        sort_by: str = "id",
        descending: bool = True,
        limit: int | None = None,
        offset: int = 0,
        marked: bool = False,
    ) -> tuple[list[Website], int]:
        """Return a page of the matching websites, and the number of all matches.

        :param search: text to find in domains, ignoring case; empty for all.
        :param search_matches: which domains match; see :attr:`Options.search_matches`.
        :param limit: size of the page; None for no limit.
        :param marked: whether to include websites that are marked as deleted.
        """
        conditions: list[str] = [] if marked else [_EXISTS]
        values: list[Any] = []
        if search:
            condition, pattern = _SEARCHES[search_matches]
            conditions.append(condition)
            values.append(pattern.format(search if search_matches == "case" else search.lower()))
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
        """Return all websites, oldest first."""
        return self.page(descending=False)[0]

    def find(self, domain: str) -> list[Website]:
        """Return the websites of exactly this domain, ignoring case, oldest first."""
        with self._lock:
            return self._fetch(f"WHERE domain_key = ? AND {_EXISTS} ORDER BY id", domain.lower())

    def sample(self, count: int) -> list[Website]:
        """Return up to ``count`` random websites; :meth:`clear` restarts the random sequence."""
        with self._lock:
            websites = self.websites()
            return self._random.sample(websites, min(count, len(websites)))

    def password(self, website_id: int) -> str | None:
        """Return the stored password of a website, for assertions; responses never contain it."""
        with self._lock:
            row = self._connection.execute("SELECT password FROM website WHERE id = ?", (website_id,)).fetchone()
        return None if row is None else row[0]

    def passwords(self) -> dict[int, str | None]:
        """Return the stored password of every website, by id."""
        with self._lock:
            return {row["id"]: row["password"] for row in self._connection.execute("SELECT id, password FROM website")}

    def _fetch(self, clauses: str, *values: Any) -> list[Website]:
        rows = self._connection.execute(f"{_SELECT} {clauses}", values)
        found = [{**dict(row), **{name: bool(row[name]) for name in BOOLEANS}} for row in rows]
        return [
            {name: value for name, value in one.items() if name != "deleted_at" or value is not None} for one in found
        ]

    def _insert(self, websites: Iterable[Mapping[str, Any]]) -> None:
        rows = []
        for website in websites:
            row = {**DEFAULTS, "domain_key": website["domain"].lower()}
            row.update(_effective_settings(website, privacy=website.get("privacy", DEFAULTS["privacy"])))
            rows.append(row)
        if not rows:
            return
        names = list(rows[0])
        statement = f"INSERT INTO website ({', '.join(names)}) VALUES ({', '.join(':' + name for name in names)})"  # noqa: S608
        self._connection.execute("BEGIN")
        try:
            self._connection.executemany(statement, rows)
        except sqlite3.Error:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def normalise(domain: str, how: str) -> str:
    """Return a domain as a service may store it; ``how`` is an :attr:`Options.domain_as`."""
    if how == "lower":
        return domain.lower()
    if how == "without www":
        return domain.removeprefix("www.")
    if how in _DOMAIN_TEMPLATES:
        return _DOMAIN_TEMPLATES[how].format(domain.removeprefix("www."))
    try:
        if how == "IDNA 2003":
            return domain.encode("idna").decode()  # Python's codec
        if how == "ascii":
            return idna.encode(domain, uts46=True).decode()
        if how == "unicode":
            return idna.decode(domain, uts46=True)
    except UnicodeError:  # such as an underscore
        return domain.lower()
    return domain


def _check_settings(settings: Mapping[str, Any]) -> None:
    unknown = sorted(set(settings) - set(DEFAULTS))
    if unknown:
        msg = f"unknown settings {unknown}; allowed: {', '.join(sorted(DEFAULTS))}"
        raise ValueError(msg)


def _effective_settings(settings: Mapping[str, Any], *, privacy: int) -> dict[str, Any]:
    """Remove a password without effect (docs/interface.md, Rules) and replace empty text by None."""
    return {
        name: None if value == "" else value
        for name, value in settings.items()
        if name != "password" or privacy == _PASSWORD_PRIVACY
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
