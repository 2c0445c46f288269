"""A ledger knows a website by its domain, in whatever form the service shows it."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"domain_as": "with port"}
websites: Any = [
    {
        "domain": "www.e.example",
        "email": 1,
        "favorite": True,
        "exclude_ips": "# office\n10.0.0.2\n192.0.2.2\n10.0.0.1 # Ann",
    }
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "managed"},
            "websites": {
                "new.example": {"privacy": 0, "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"]},
                "c.example": {"privacy": 1, "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"]},
                "d.example": {"privacy": 0, "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"]},
                "shop.example": {"privacy": 1, "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"]},
                "other.example": {"privacy": 0, "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"]},
                "a.example": {"privacy": 1, "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"]},
            },
        },
        "prune": False,
        "approved": False,
        "audit": False,
        "force": True,
        "max_workers": 8,
        "meanwhile": [],
        "heal": False,
    },
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "managed", "exclude_params": "merge"},
            "websites": {
                "shop.example": {"privacy": 0, "email": 0, "exclude_bots": 1, "exclude_params": ["page", "ref"]},
                "new.example": {
                    "privacy": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "2001:db8::1"],
                    "exclude_params": ["fbclid", "page", "ref", "utm"],
                },
                "www.e.example": {"privacy": 1, "email": 1},
                "b.example": {"privacy": 1, "email": 0, "exclude_bots": 0, "favorite": True, "exclude_params": []},
                "other.example": {
                    "privacy": 1,
                    "email": 1,
                    "favorite": True,
                    "exclude_ips": ["2001:db8::1"],
                    "exclude_params": ["fbclid", "page", "ref", "utm"],
                },
            },
        },
        "prune": False,
        "approved": True,
        "audit": False,
        "force": True,
        "max_workers": 8,
        "meanwhile": [],
        "heal": False,
    },
]
replay(dialect, websites, steps)
