"""A service that resets what is not sent kept a list that was sent: so the loss was laid on a person."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"updates": "reset others"}
websites: Any = [
    {
        "domain": "shop.example",
        "email": 1,
        "exclude_bots": 1,
        "exclude_ips": "10.0.0.1 # Ann\n# office\n10.0.0.2\n192.0.2.1",
        "exclude_params": "fbclid\ngclid # ads\nref",
    },
    {
        "domain": "x-shop.example",
        "privacy": 2,
        "exclude_bots": 1,
        "exclude_ips": "192.0.2.2\n# office\n192.0.2.1\n2001:db8::1",
        "exclude_params": "utm_*\ngclid # ads",
    },
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "merge"},
            "websites": {
                "x-shop.example": {
                    "privacy": 0,
                    "email": 0,
                    "exclude_bots": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "2001:db8::1", "203.0.113.7"],
                    "exclude_params": [],
                },
                "shop.example": {"privacy": 0, "email": 0, "exclude_bots": 0, "exclude_params": ["page"]},
            },
        },
        "prune": False,
        "approved": False,
        "audit": True,
        "force": False,
        "max_workers": 1,
        "heal": True,
    }
]
replay(dialect, websites, steps)
