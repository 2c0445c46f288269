# SPDX-License-Identifier: Apache-2.0
"""Websites of a sandbox, in memory: stored ones, and generated ones, which are repeatable by seed."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from airflow_provider_analytics.sandbox.laravel import DEFAULTS, WEBSITE_FIELDS

#: Maximum number of websites that are generated at once.
MAX_SEEDED = 100_000

_SHOWN = [field.name for field in WEBSITE_FIELDS if field.is_shown]
_PASSWORD_PRIVACY = 2

_ADJECTIVES = (
    "amber bold brisk calm clear copper crisp early fair gentle golden green happy humble ivory keen lively lucky "
    "mellow misty noble quiet rapid rustic silver solar steady sunny tidy vivid"
)
_NOUNS = (
    "acorn anchor bakery beacon bridge brook cedar cellar comet drum falcon forge garden harbor kettle lantern "
    "ledger maple meadow mill orchard pebble press river sail studio tailor trail valley workshop"
)
_PREFIXES = ("", "", "", "", "blog.", "docs.", "shop.", "www.")
# Names and addresses reserved for documentation (RFC 2606, 5737, 3849), which have no owner.
_SUFFIXES = (".example", ".example.com", ".example.net", ".example.org")
_IPV4_NETWORKS = ("192.0.2.", "198.51.100.", "203.0.113.")
_QUERY_PARAMETERS = ("utm_source", "utm_medium", "utm_campaign", "gclid", "fbclid", "ref", "session", "token")
_FIRST_CREATED = datetime(2021, 1, 4, 8, 0, tzinfo=UTC)

#: A website without its password, by the names of :data:`~.laravel.WEBSITE_FIELDS`.
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
        """Add ``count`` generated websites; the same seed and store give the same websites.

        :raises ValueError: for more than :data:`MAX_SEEDED`.
        """
        if count > MAX_SEEDED:
            raise ValueError(f"{count:,} websites are too many. Allowed: at most {MAX_SEEDED:,}")
        with self._lock:
            websites = self.websites()
            taken = {website["domain"].lower() for website in websites}
            for settings in generate_websites(count, seed, taken):
                self.add(**settings)

    def add(self, domain: str, **settings: Any) -> Website:
        """Add a website and return it; omitted settings take the defaults of the interface.

        :raises ValueError: for an unknown setting.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")
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
            msg = f"unknown settings {unknown}. Allowed: {', '.join(sorted(DEFAULTS))}"
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


def generate_websites(count: int, seed: int, taken: AbstractSet[str] = frozenset()) -> Iterator[dict[str, Any]]:
    """Yield ``count`` websites, oldest first, with distinct domains that are not in ``taken``.

    70 % are public, 20 % private and 10 % password-protected; 30 % exclude IP addresses, 25 % query parameters; 10 %
    are favorites. Other fields have their defaults: another draw would change all later websites, which tests,
    documents, and pictures contain.
    """
    rng = random.Random(seed)  # noqa: S311 - repeatable, not secret
    used = set(taken)
    created = _FIRST_CREATED
    for _ in range(count):
        domain = _new_domain(rng, used)
        used.add(domain)
        created += timedelta(minutes=rng.randint(1, 300))
        privacy = rng.choices((0, 1, 2), weights=(70, 20, 10))[0]
        yield {
            "domain": domain,
            "privacy": privacy,
            "password": f"sandbox-{rng.getrandbits(32):08x}" if privacy == 2 else None,
            "email": int(rng.random() < 0.25),
            "exclude_bots": int(rng.random() < 0.9),
            "exclude_params": _lines(rng, 0.25, lambda: rng.choice(_QUERY_PARAMETERS)),
            "exclude_ips": _lines(rng, 0.3, lambda: _address(rng)),
            "favorite": rng.random() < 0.1,
            "created_at": created.strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
        }


def _new_domain(rng: random.Random, used: AbstractSet[str]) -> str:
    prefix = rng.choice(_PREFIXES)
    adjective = rng.choice(_ADJECTIVES.split())
    noun = rng.choice(_NOUNS.split())
    suffix = rng.choice(_SUFFIXES)
    domain = f"{prefix}{adjective}-{noun}{suffix}"
    number = 2
    while domain in used:
        domain = f"{prefix}{adjective}-{noun}-{number}{suffix}"
        number += 1
    return domain


def _address(rng: random.Random) -> str:
    if rng.random() < 0.2:
        return f"2001:db8::{rng.randrange(1, 0xFFFF):x}"
    return f"{rng.choice(_IPV4_NETWORKS)}{rng.randrange(1, 255)}"


def _lines(rng: random.Random, share: float, entry: Callable[[], str]) -> str | None:
    if rng.random() >= share:
        return None
    lines = [entry() for _ in range(rng.randint(1, 4))]
    return "\n".join(dict.fromkeys(lines))
