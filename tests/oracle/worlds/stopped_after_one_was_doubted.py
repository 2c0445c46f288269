"""A website that is not as expected is named, whenever the work ends: here while all are read again."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"updates": "reset others"}
websites: Any = [
    {"domain": "a.example", "favorite": True, "exclude_ips": None, "exclude_params": None},
    {
        "domain": "b.example",
        "privacy": 1,
        "exclude_bots": 0,
        "favorite": True,
        "exclude_ips": "2001:db8::1\n10.1.0.0/16\n# office\n192.0.2.2",
        "exclude_params": "utm_*\nfbclid\nref",
    },
    {
        "domain": "c.example",
        "privacy": 1,
        "email": 1,
        "exclude_ips": "192.0.2.1",
        "exclude_params": "fbclid\nref\nutm_*\nutm",
    },
    {"domain": "d.example", "exclude_bots": 0, "exclude_ips": "10.1.0.0/16", "exclude_params": None},
    {
        "domain": "www.e.example",
        "privacy": 1,
        "email": 0,
        "favorite": True,
        "exclude_ips": "2001:db8::1\n192.0.2.1\n# office\n192.0.2.2",
        "exclude_params": "fbclid\ngclid # ads\nutm_*\nsession_id",
    },
    {"domain": "shop.example", "privacy": 2},
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_params": "merge"},
            "websites": {
                "b.example": {"privacy": 1, "email": 1, "exclude_ips": ["2001:db8::1"]},
                "www.e.example": {"privacy": 0, "email": 1, "exclude_ips": ["2001:db8::1"]},
                "shop.example": {"privacy": 0, "email": 1, "exclude_ips": ["2001:db8::1"]},
                "other.example": {"privacy": 1, "email": 1, "exclude_ips": ["2001:db8::1"]},
            },
        },
        "prune": False,
        "approved": False,
        "audit": False,
        "force": True,
        "max_workers": 8,
        "meanwhile": [(16, "stop")],
        "heal": False,
    }
]
replay(dialect, websites, steps)
