"""Lists that are not shown were cleared when a website was put back."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_as": "null"}
websites: Any = [
    {"domain": "a.example", "privacy": 0, "email": 0, "exclude_ips": None, "exclude_params": None},
    {
        "domain": "b.example",
        "privacy": 2,
        "exclude_bots": 1,
        "favorite": True,
        "exclude_ips": "10.0.0.1 # Ann\n# office\n192.0.2.2\n10.0.0.2",
        "exclude_params": "ref\nsession_id\nutm",
    },
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "managed", "exclude_params": "managed"},
            "websites": {
                "c.example": {"privacy": 0, "exclude_bots": 0, "exclude_params": ["fbclid", "page", "ref"]},
                "d.example": {"privacy": 0, "email": 0, "favorite": True},
                "other.example": {"privacy": 0, "exclude_bots": 1},
                "new.example": {
                    "privacy": 0,
                    "exclude_bots": 1,
                    "favorite": False,
                    "exclude_ips": ["192.0.2.1", "192.0.2.2", "2001:db8::1"],
                },
                "www.e.example": {"privacy": 0, "exclude_bots": 0, "exclude_params": []},
                "a.example": {"privacy": 1, "email": 0, "exclude_bots": 1, "exclude_ips": ["10.0.0.2", "192.0.2.1"]},
                "a.shop.example": {
                    "privacy": 1,
                    "email": 1,
                    "exclude_ips": ["10.0.0.2", "192.0.2.2"],
                    "exclude_params": ["fbclid", "page"],
                },
                "b.example": {
                    "privacy": 1,
                    "email": 1,
                    "exclude_bots": 1,
                    "favorite": False,
                    "exclude_params": ["fbclid", "page", "ref", "utm"],
                },
                "shop.example": {
                    "privacy": 0,
                    "email": 1,
                    "exclude_bots": 0,
                    "favorite": True,
                    "exclude_params": ["fbclid", "page", "ref", "utm"],
                },
                "x-shop.example": {"privacy": 0},
            },
        },
        "prune": False,
        "approved": False,
        "audit": False,
        "force": False,
        "max_workers": 8,
        "meanwhile": [],
        "heal": False,
    }
]
replay(dialect, websites, steps)
