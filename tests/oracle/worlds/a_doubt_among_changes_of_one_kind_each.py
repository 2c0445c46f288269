"""One website lost what it had, and all other changes alone seemed to tell nothing new."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_stored": "new lines"}
websites: Any = [
    {"domain": "a.example", "privacy": 1, "exclude_bots": 0, "exclude_ips": "10.0.0.2\n192.0.2.1"},
    {"domain": "b.example", "privacy": 1, "exclude_bots": 0, "exclude_params": "gclid # ads"},
    {"domain": "d.example", "privacy": 1, "email": 1, "exclude_bots": 1},
    {
        "domain": "shop.example",
        "privacy": 1,
        "favorite": True,
        "exclude_ips": "192.0.2.1\n2001:db8::1\n10.0.0.1 # Ann\n10.1.0.0/16",
    },
    {
        "domain": "a.shop.example",
        "privacy": 2,
        "favorite": True,
        "exclude_ips": "# office\n10.0.0.2",
        "exclude_params": "22\n33",
    },
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["10.0.0.2", "203.0.113.7"],
        "mode": "managed",
        "websites": None,
        "force": False,
        "max_workers": 1,
        "meanwhile": [],
        "heal": True,
    },
    {
        "do": "find",
        "domain": "d.example",
        "meanwhile": [(2, "hand", {"do": "type", "domain": "a.example", "field": "exclude_params", "value": "11"})],
        "heal": False,
    },
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "managed"},
            "websites": {
                "shop.example": {"privacy": 1, "exclude_bots": 1, "exclude_params": ["44", "22", "33"]},
                "c.example": {"privacy": 1, "email": 1},
                "a.shop.example": {"privacy": 0, "exclude_ips": ["203.0.113.7"], "exclude_params": ["11", "33"]},
                "a.example": {"privacy": 1, "email": 1, "favorite": True, "exclude_params": ["11", "22", "33"]},
                "www.e.example": {"privacy": 0, "email": 0, "favorite": True, "exclude_ips": ["203.0.113.7"]},
                "other.example": {
                    "privacy": 1,
                    "email": 1,
                    "exclude_ips": ["192.0.2.1", "2001:db8::1", "203.0.113.7"],
                    "exclude_params": [],
                },
                "b.example": {"privacy": 0, "email": 0, "exclude_bots": 0},
                "new.example": {"privacy": 0, "email": 1, "favorite": True, "exclude_params": ["44"]},
                "d.example": {
                    "privacy": 1,
                    "email": 1,
                    "exclude_ips": ["10.0.0.2", "192.0.2.2", "2001:db8::1", "203.0.113.7"],
                },
            },
        },
        "prune": False,
        "approved": False,
        "audit": False,
        "force": False,
        "max_workers": 1,
        "heal": True,
    },
]
replay(dialect, websites, steps)
