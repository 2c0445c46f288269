"""A managed list took its own entries away, and the comments of people with them."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {}
websites: Any = [
    {
        "domain": "3.many.example",
        "privacy": 1,
        "email": 1,
        "exclude_bots": 1,
        "exclude_ips": "# office",
        "exclude_params": "ref\nutm",
    }
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["10.0.0.2", "192.0.2.2", "2001:db8::1", "203.0.113.7"],
        "mode": "managed",
        "websites": None,
        "force": False,
        "max_workers": 1,
        "meanwhile": [],
        "heal": False,
    },
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": [],
        "mode": "managed",
        "websites": ["shop.example", "www.e.example", "3.many.example"],
        "force": True,
        "max_workers": 8,
        "meanwhile": [],
        "heal": True,
    },
]
replay(dialect, websites, steps)
