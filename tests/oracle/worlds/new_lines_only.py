"""A website whose list was not sent kept it, which excused a service that keeps only the new lines."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_stored": "new lines"}
websites: Any = [
    {"domain": "b.example", "privacy": 0, "exclude_params": "ref\nsession_id\ngclid # ads\nutm_*"},
    {"domain": "d.example", "email": 1, "exclude_bots": 1, "exclude_params": "gclid # ads"},
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "managed", "exclude_params": "merge"},
            "websites": {
                "www.e.example": {"privacy": 1},
                "new.example": {
                    "privacy": 0,
                    "email": 1,
                    "exclude_bots": 0,
                    "exclude_ips": ["192.0.2.1", "192.0.2.2", "2001:db8::1"],
                },
                "d.example": {"privacy": 0, "exclude_ips": ["203.0.113.7"], "exclude_params": ["ref", "utm"]},
                "1.many.example": {"privacy": 0, "email": 1},
                "b.example": {"privacy": 1, "email": 1, "favorite": False},
                "2.many.example": {"privacy": 1, "exclude_bots": 0},
                "a.example": {"privacy": 1, "exclude_bots": 1},
                "shop.example": {
                    "privacy": 1,
                    "exclude_bots": 1,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "203.0.113.7"],
                },
            },
        },
        "prune": False,
        "approved": False,
        "audit": False,
        "force": True,
        "max_workers": 8,
        "meanwhile": [],
        "heal": False,
    }
]
replay(dialect, websites, steps)
