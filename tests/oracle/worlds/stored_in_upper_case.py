"""Each website had other fields to change, so none of the first ones had sent a list."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_stored": "normalized"}
websites: Any = [
    {"domain": "c.example", "email": 0, "exclude_bots": 0, "favorite": True, "exclude_params": "ref\nsession_id"},
    {"domain": "d.example", "exclude_bots": 0, "exclude_params": "utm_*"},
    {
        "domain": "www.e.example",
        "privacy": 0,
        "exclude_bots": 0,
        "favorite": True,
        "exclude_ips": "# office\n10.0.0.1 # Ann\n192.0.2.2\n2001:db8::1",
        "exclude_params": "fbclid\ngclid # ads\nsession_id",
    },
    {
        "domain": "shop.example",
        "privacy": 1,
        "email": 0,
        "exclude_bots": 1,
        "exclude_ips": "2001:db8::1\n192.0.2.1",
        "exclude_params": "gclid # ads\nutm",
    },
    {"domain": "a.shop.example", "privacy": 1, "email": 0, "exclude_params": "utm\nref\ngclid # ads\nsession_id"},
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "websites": {
                "c.example": {"privacy": 0, "email": 1, "exclude_params": ["fbclid", "ref", "utm"]},
                "shop.example": {"privacy": 0, "exclude_bots": 0},
                "www.e.example": {
                    "privacy": 1,
                    "exclude_bots": 0,
                    "favorite": False,
                    "exclude_params": ["fbclid", "page", "ref", "utm"],
                },
                "new.example": {"privacy": 1, "email": 0},
                "other.example": {"privacy": 0, "email": 1},
                "2.many.example": {"privacy": 0, "exclude_bots": 0},
                "a.shop.example": {"privacy": 0, "email": 1, "favorite": True},
                "d.example": {"privacy": 1, "email": 1, "exclude_bots": 0, "exclude_params": ["page", "ref"]},
                "3.many.example": {
                    "privacy": 1,
                    "exclude_bots": 1,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "203.0.113.7"],
                    "exclude_params": [],
                },
                "x-shop.example": {"privacy": 0, "exclude_bots": 1},
                "1.many.example": {"privacy": 1, "exclude_bots": 1},
            }
        },
        "prune": False,
        "approved": True,
        "audit": False,
        "force": False,
        "max_workers": 1,
        "meanwhile": [],
        "heal": True,
    }
]
replay(dialect, websites, steps)
