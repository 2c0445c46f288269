# SPDX-License-Identifier: Apache-2.0
"""Websites of a sandbox, in memory."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

from airflow_provider_analytics.sandbox.form_fields import DEFAULTS, WEBSITE_FIELDS
from airflow_provider_analytics.sandbox.seeds import generate_websites

_SHOWN = [field.name for field in WEBSITE_FIELDS if field.is_shown]
_PASSWORD_PRIVACY = 2

#: A website without its password, by the names of :data:`~.form_fields.WEBSITE_FIELDS`.
#: Exclusion lists are text with one entry per line, or None; ``created_at`` is ISO 8601 in UTC.
Website = dict[str, Any]


class Store:
    """A thread-safe store of websites.

    Ids increase and are never reused until :meth:`clear`. A stored website is replaced, never changed, so that a copy
    of the store can share it.
    """

    def __init__(self) -> None:
        # For what reads and writes; a single step needs none.
        self._lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        """Delete all websites and restart ids at 1."""
        self._websites: dict[int, Website] = {}
        self._passwords: dict[int, str | None] = {}
        self._last_id = 0
        self._random = random.Random(0)  # noqa: S311 - drift must be repeatable, not secret

    def copy(self) -> Self:
        """Return an independent store with the same websites."""
        copied = type(self)()
        copied._websites = dict(self._websites)
        return copied

    def seed(self, count: int, seed: int = 7) -> None:
        """Add ``count`` generated websites; the same seed and store give the same websites."""
        with self._lock:
            websites = self.websites()
            taken = {website["domain"].lower() for website in websites}
            for settings in generate_websites(count, seed, taken):
                self.add(**settings)

    def add(self, domain: str, **settings: Any) -> Website:
        """Add a website and return it; omitted settings take the defaults of the interface.

        :raises ValueError: for an unknown setting.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        created_at = settings.pop("created_at", now)
        with self._lock:
            self._last_id += 1
            fresh = {**DEFAULTS, "id": self._last_id, "created_at": created_at}
            return self._put(fresh, {"domain": domain, **settings})

    def get(self, website_id: int) -> Website | None:
        """Return a website, or None if it does not exist."""
        return self._websites.get(website_id)

    def update(self, website_id: int, settings: Mapping[str, Any]) -> Website | None:
        """Change the given settings and return the website, or None if it does not exist.

        :raises ValueError: for an unknown setting.
        """
        with self._lock:
            before = self._websites.get(website_id)
            return before and self._put(before, settings)

    def delete(self, website_id: int) -> Website | None:
        """Delete a website and return it, or None if it does not exist."""
        self._passwords.pop(website_id, None)
        return self._websites.pop(website_id, None)

    def websites(self) -> list[Website]:
        """Return all websites, oldest first."""
        return list(self._websites.values())

    def find(self, domain: str) -> list[Website]:
        """Return the websites of exactly this domain, ignoring case, oldest first."""
        wanted = domain.lower()
        return [website for website in self.websites() if website["domain"].lower() == wanted]

    def sample(self, count: int) -> list[Website]:
        """Return up to ``count`` random websites; :meth:`clear` restarts the random sequence."""
        websites = self.websites()
        size = min(count, len(websites))
        return self._random.sample(websites, size)

    def password(self, website_id: int) -> str | None:
        """Return the stored password of a website, for assertions; responses never contain it."""
        return self._passwords.get(website_id)

    def _put(self, before: Website, settings: Mapping[str, Any]) -> Website:
        unknown = sorted(settings.keys() - {"domain", *DEFAULTS})
        if unknown:
            msg = f"unknown settings {unknown}; allowed: {', '.join(sorted(DEFAULTS))}"
            raise ValueError(msg)
        after = {**before, **settings}
        for name in settings:
            if after[name] == "":
                after[name] = None
        # A password has no effect otherwise (interface.md, Rules).
        if "password" in settings and after["privacy"] == _PASSWORD_PRIVACY:
            self._passwords[after["id"]] = after["password"]
        shown = {name: after[name] for name in _SHOWN}
        self._websites[shown["id"]] = shown
        return shown
