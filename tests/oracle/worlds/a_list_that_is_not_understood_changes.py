"""A list in a form that is not understood is compared as it is shown: it was reset."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"updates": "reset others", "lists_as": "json"}
websites: Any = [{"domain": "www.e.example", "email": 0, "exclude_ips": "10.0.0.1 # Ann", "exclude_params": "utm_*"}]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "merge", "exclude_params": "managed"},
            "websites": {
                "x-shop.example": {"privacy": 1, "email": 1},
                "a.example": {"privacy": 1, "email": 1},
                "c.example": {"privacy": 0, "email": 1},
                "other.example": {"privacy": 0, "email": 1},
                "shop.example": {"privacy": 0, "email": 1},
                "www.e.example": {"privacy": 1, "email": 1},
            },
        },
        "prune": True,
        "approved": False,
        "audit": False,
        "force": True,
        "max_workers": 1,
        "heal": False,
    }
]
replay(dialect, websites, steps)
