"""A stop after the first website did not name it, although the service had reset its fields."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"updates": "reset others", "lists_as": "null"}
websites: Any = [
    {
        "domain": "a.example",
        "privacy": 2,
        "exclude_bots": 0,
        "exclude_ips": "192.0.2.2\n192.0.2.1\n2001:db8::1",
        "exclude_params": "gclid # ads\nref\nutm",
    },
    {"domain": "b.example", "email": 1, "favorite": True, "exclude_ips": "10.1.0.0/16"},
    {"domain": "c.example", "privacy": 0, "email": 0, "exclude_bots": 1, "exclude_ips": "192.0.2.1\n# office"},
    {"domain": "d.example", "privacy": 0, "exclude_ips": "2001:db8::1\n10.0.0.1 # Ann"},
    {
        "domain": "www.e.example",
        "privacy": 2,
        "exclude_ips": "192.0.2.2\n10.0.0.1 # Ann\n10.1.0.0/16\n192.0.2.1",
        "exclude_params": "utm_*",
    },
    {"domain": "shop.example", "exclude_bots": 0, "exclude_ips": "10.1.0.0/16\n10.0.0.2"},
    {
        "domain": "a.shop.example",
        "privacy": 2,
        "email": 0,
        "exclude_bots": 0,
        "favorite": True,
        "exclude_ips": "192.0.2.1\n10.0.0.1 # Ann",
        "exclude_params": "gclid # ads\nref",
    },
    {
        "domain": "x-shop.example",
        "email": 1,
        "exclude_ips": "10.0.0.2\n192.0.2.2\n10.0.0.1 # Ann\n2001:db8::1",
        "exclude_params": "ref",
    },
    {
        "domain": "0.many.example",
        "privacy": 1,
        "exclude_bots": 1,
        "favorite": True,
        "exclude_ips": "10.0.0.1 # Ann\n192.0.2.1",
    },
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "managed", "exclude_params": "managed"},
            "websites": {
                "a.shop.example": {
                    "privacy": 1,
                    "email": 1,
                    "exclude_bots": 0,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"],
                },
                "new.example": {"privacy": 1, "email": 0, "exclude_bots": 0},
                "1.many.example": {
                    "privacy": 0,
                    "email": 1,
                    "exclude_bots": 1,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "2001:db8::1", "203.0.113.7"],
                    "exclude_params": ["fbclid", "page", "ref"],
                },
                "2.many.example": {
                    "privacy": 0,
                    "email": 0,
                    "exclude_ips": ["192.0.2.2"],
                    "exclude_params": ["fbclid", "page", "ref"],
                },
                "x-shop.example": {"privacy": 0, "exclude_ips": ["10.0.0.2", "192.0.2.1"]},
                "3.many.example": {"privacy": 1, "exclude_bots": 1},
                "a.example": {"privacy": 0, "exclude_bots": 1, "exclude_params": ["fbclid", "ref", "utm"]},
                "b.example": {"privacy": 0, "exclude_bots": 0, "exclude_params": ["fbclid", "page"]},
                "www.e.example": {"privacy": 0, "email": 1, "favorite": False, "exclude_params": ["page"]},
                "0.many.example": {
                    "privacy": 1,
                    "email": 1,
                    "exclude_bots": 0,
                    "favorite": True,
                    "exclude_ips": ["192.0.2.1", "192.0.2.2", "203.0.113.7"],
                },
                "shop.example": {
                    "privacy": 1,
                    "favorite": False,
                    "exclude_ips": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"],
                    "exclude_params": ["fbclid", "page", "ref", "utm"],
                },
            },
        },
        "prune": False,
        "approved": True,
        "audit": True,
        "force": True,
        "max_workers": 1,
        "meanwhile": [(16, "stop")],
        "heal": False,
    }
]
replay(dialect, websites, steps)
