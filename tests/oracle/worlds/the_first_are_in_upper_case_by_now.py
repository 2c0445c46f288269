"""A service that stores upper case: the websites that were tried first had been written so in the night before."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_stored": "normalized"}
websites: Any = [
    {
        "domain": "a.shop.example",
        "privacy": 1,
        "email": 1,
        "exclude_bots": 0,
        "favorite": True,
        "exclude_ips": "10.0.0.2\n# office",
    },
    {"domain": "3.many.example", "favorite": True, "exclude_ips": "10.0.0.2\n10.0.0.1 # Ann", "exclude_params": None},
    {
        "domain": "5.many.example",
        "privacy": 1,
        "exclude_bots": 1,
        "exclude_ips": "192.0.2.1\n10.0.0.1 # Ann\n192.0.2.2",
        "exclude_params": "fbclid\nutm_*",
    },
    {
        "domain": "9.many.example",
        "privacy": 2,
        "email": 0,
        "exclude_bots": 0,
        "exclude_ips": "10.0.0.1 # Ann",
        "exclude_params": "fbclid\nref",
    },
    {
        "domain": "17.many.example",
        "privacy": 0,
        "email": 0,
        "exclude_bots": 1,
        "favorite": True,
        "exclude_ips": "192.0.2.2\n192.0.2.1\n10.0.0.1 # Ann\n10.1.0.0/16",
        "exclude_params": "gclid # ads\nutm_*\nfbclid\nref",
    },
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["2001:db8::1"],
        "mode": "merge",
        "websites": None,
        "force": False,
        "max_workers": 8,
        "heal": False,
    },
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["2001:db8::1"],
        "mode": "managed",
        "websites": None,
        "force": True,
        "max_workers": 1,
        "meanwhile": [],
        "heal": False,
    },
]
replay(dialect, websites, steps)
