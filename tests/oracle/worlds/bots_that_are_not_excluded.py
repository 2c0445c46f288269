"""A flag whose default is true tells most where it is false: two websites show that the others would be reset, too."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"updates": "reset others"}
websites: Any = [
    {
        "domain": "a.example",
        "privacy": 2,
        "exclude_bots": 1,
        "exclude_ips": "192.0.2.2\n10.0.0.1 # Ann",
        "exclude_params": "gclid # ads\nutm_*",
    },
    {
        "domain": "b.example",
        "privacy": 1,
        "email": 1,
        "exclude_bots": 0,
        "exclude_ips": "192.0.2.1\n# office\n10.0.0.1 # Ann",
    },
    {
        "domain": "c.example",
        "privacy": 1,
        "exclude_bots": 0,
        "exclude_ips": "192.0.2.1\n# office\n10.0.0.1 # Ann\n192.0.2.2",
    },
    {"domain": "www.e.example", "privacy": 2, "exclude_bots": 0, "exclude_params": "utm_*\nutm\nfbclid"},
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "websites": {
                "b.example": {
                    "privacy": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1"],
                    "exclude_params": ["fbclid", "ref", "utm"],
                },
                "www.e.example": {
                    "privacy": 1,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1"],
                    "exclude_params": ["fbclid", "ref", "utm"],
                },
                "a.shop.example": {
                    "privacy": 1,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1"],
                    "exclude_params": ["fbclid", "ref", "utm"],
                },
                "a.example": {
                    "privacy": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1"],
                    "exclude_params": ["fbclid", "ref", "utm"],
                },
                "x-shop.example": {
                    "privacy": 1,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1"],
                    "exclude_params": ["fbclid", "ref", "utm"],
                },
                "c.example": {
                    "privacy": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1"],
                    "exclude_params": ["fbclid", "ref", "utm"],
                },
            }
        },
        "prune": False,
        "approved": False,
        "audit": True,
        "force": False,
        "max_workers": 8,
        "heal": True,
    }
]
replay(dialect, websites, steps)
