"""The rows hide the lists, so the website with a comment was not among the first."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"list_hides": ["exclude_ips", "exclude_params"], "lists_stored": "no comments"}
websites: Any = [
    {
        "domain": "a.shop.example",
        "email": 0,
        "exclude_bots": 0,
        "favorite": True,
        "exclude_ips": "10.1.0.0/16\n10.0.0.2",
        "exclude_params": "ref",
    },
    {
        "domain": "x-shop.example",
        "privacy": 1,
        "email": 0,
        "favorite": True,
        "exclude_ips": "192.0.2.1\n10.1.0.0/16\n# office\n2001:db8::1",
    },
    {"domain": "3.many.example", "privacy": 1, "email": 1, "exclude_bots": 1},
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "merge", "exclude_params": "merge"},
            "websites": {
                "b.example": {
                    "privacy": 1,
                    "email": 0,
                    "exclude_bots": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "2001:db8::1"],
                },
                "a.example": {
                    "privacy": 1,
                    "email": 0,
                    "exclude_bots": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "2001:db8::1"],
                },
                "a.shop.example": {
                    "privacy": 1,
                    "email": 0,
                    "exclude_bots": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "2001:db8::1"],
                },
                "3.many.example": {
                    "privacy": 1,
                    "email": 0,
                    "exclude_bots": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "2001:db8::1"],
                },
                "x-shop.example": {
                    "privacy": 1,
                    "email": 0,
                    "exclude_bots": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "2001:db8::1"],
                },
            },
        },
        "prune": False,
        "approved": True,
        "audit": True,
        "force": False,
        "max_workers": 1,
        "heal": True,
    }
]
replay(dialect, websites, steps)
