"""Deleted websites counted as entries that stay, so the guard let 8 of 12 entries go."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {}
websites: Any = [
    {
        "domain": "a.example",
        "email": 0,
        "exclude_bots": 0,
        "exclude_ips": "10.0.0.2\n10.0.0.1 # Ann\n192.0.2.2\n2001:db8::1",
    },
    {"domain": "b.example", "exclude_ips": "# office\n10.1.0.0/16", "exclude_params": "session_id\nutm_*\ngclid # ads"},
    {"domain": "c.example", "privacy": 1, "email": 0, "exclude_ips": None},
    {"domain": "www.e.example", "exclude_bots": 0, "exclude_params": "session_id\nutm\ngclid # ads\nutm_*"},
    {
        "domain": "shop.example",
        "privacy": 1,
        "email": 0,
        "exclude_bots": 1,
        "exclude_ips": "192.0.2.2\n10.0.0.2",
        "exclude_params": "fbclid\nutm_*\ngclid # ads\nref",
    },
    {
        "domain": "a.shop.example",
        "privacy": 2,
        "email": 1,
        "exclude_bots": 1,
        "favorite": True,
        "exclude_ips": None,
        "exclude_params": None,
    },
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_params",
        "entries": ["page", "ref", "utm"],
        "mode": "merge",
        "websites": None,
        "force": False,
        "max_workers": 8,
        "heal": True,
    },
    {
        "do": "apply",
        "config": {
            "websites": {
                "x-shop.example": {"privacy": 1, "email": 0},
                "d.example": {"privacy": 0, "exclude_params": ["fbclid", "ref"]},
                "a.shop.example": {"privacy": 0, "email": 1},
                "www.e.example": {"privacy": 0, "exclude_bots": 1, "exclude_params": ["fbclid", "page", "ref", "utm"]},
                "shop.example": {"privacy": 1, "email": 0, "exclude_ips": [], "exclude_params": []},
                "new.example": {"privacy": 0, "email": 1, "favorite": False},
            }
        },
        "prune": True,
        "approved": False,
        "audit": False,
        "force": False,
        "max_workers": 1,
        "heal": False,
    },
]
replay(dialect, websites, steps)
