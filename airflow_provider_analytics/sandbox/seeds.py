# SPDX-License-Identifier: Apache-2.0
"""Generated websites for a sandbox, repeatable by seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import Any

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
            "created_at": created.isoformat(timespec="seconds").replace("+00:00", "Z"),
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
