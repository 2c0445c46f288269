"""Comments come back in capitals on the last website that had them in small letters, after the service was trusted."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_stored": "normalized"}
websites: Any = [
    {"domain": "a.example", "email": 1, "exclude_bots": 1, "exclude_ips": "# office"},
    {
        "domain": "d.example",
        "exclude_ips": "10.0.0.2\n192.0.2.1\n# office\n10.0.0.1 # Ann",
        "exclude_params": "gclid # ads\nref",
    },
    {
        "domain": "shop.example",
        "privacy": 1,
        "exclude_bots": 0,
        "favorite": True,
        "exclude_ips": "2001:db8::1\n# office\n10.1.0.0/16\n192.0.2.2",
        "exclude_params": "fbclid\ngclid # ads",
    },
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["10.0.0.2", "192.0.2.1", "192.0.2.2", "203.0.113.7"],
        "mode": "merge",
        "websites": None,
        "force": True,
        "max_workers": 1,
        "meanwhile": [],
        "heal": False,
    },
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["10.0.0.2", "2001:db8::1"],
        "mode": "merge",
        "websites": None,
        "force": True,
        "max_workers": 1,
        "heal": False,
    },
]
replay(dialect, websites, steps)
