"""Comments of the list that is sent are dropped; a website with comments in the other list was tried alone."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_stored": "no comments"}
websites: Any = [
    {
        "domain": "a.example",
        "privacy": 1,
        "email": 1,
        "exclude_bots": 0,
        "exclude_ips": "2001:db8::1\n# office",
        "exclude_params": "fbclid\ngclid # ads",
    },
    {
        "domain": "d.example",
        "exclude_bots": 0,
        "exclude_ips": "10.1.0.0/16\n10.0.0.1 # Ann\n# office\n2001:db8::1",
        "exclude_params": "ref\ngclid # ads",
    },
    {
        "domain": "a.shop.example",
        "exclude_bots": 0,
        "exclude_ips": "10.0.0.1 # Ann\n10.1.0.0/16",
        "exclude_params": "session_id\nutm_*\nutm\nref",
    },
    {
        "domain": "4.many.example",
        "privacy": 1,
        "exclude_bots": 0,
        "exclude_ips": "2001:db8::1\n10.0.0.2\n# office\n10.1.0.0/16",
        "exclude_params": "utm_*",
    },
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["10.0.0.2", "192.0.2.2", "203.0.113.7"],
        "mode": "merge",
        "websites": None,
        "force": True,
        "max_workers": 1,
        "meanwhile": [],
        "heal": False,
    },
    {
        "do": "sync",
        "field": "exclude_params",
        "entries": ["page", "ref", "utm"],
        "mode": "managed",
        "websites": None,
        "force": True,
        "max_workers": 8,
        "heal": False,
    },
]
replay(dialect, websites, steps)
