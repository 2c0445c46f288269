"""A stop came between the update of a website and its read: the error did not name it."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"metadata": "none", "updates": "reset others"}
websites: Any = [
    {"domain": "a.example", "privacy": 0, "exclude_params": None},
    {"domain": "b.example"},
    {"domain": "c.example", "privacy": 1, "email": 1, "exclude_bots": 1, "exclude_ips": "192.0.2.2"},
    {"domain": "d.example", "privacy": 0, "email": 1, "favorite": True, "exclude_params": "ref"},
    {"domain": "www.e.example", "privacy": 0, "email": 0, "exclude_ips": None},
    {
        "domain": "shop.example",
        "privacy": 1,
        "exclude_bots": 1,
        "exclude_ips": "10.0.0.1 # Ann\n# office\n192.0.2.2\n192.0.2.1",
        "exclude_params": "session_id\ngclid # ads\nref\nfbclid",
    },
    {
        "domain": "a.shop.example",
        "exclude_bots": 0,
        "favorite": True,
        "exclude_ips": None,
        "exclude_params": "gclid # ads\nsession_id",
    },
    {
        "domain": "x-shop.example",
        "privacy": 1,
        "email": 0,
        "exclude_bots": 1,
        "exclude_ips": "10.0.0.1 # Ann",
        "exclude_params": "utm_*\nutm\ngclid # ads",
    },
    {
        "domain": "0.many.example",
        "email": 1,
        "exclude_bots": 1,
        "favorite": True,
        "exclude_ips": "192.0.2.2\n10.0.0.1 # Ann\n10.1.0.0/16\n2001:db8::1",
    },
    {
        "domain": "1.many.example",
        "privacy": 1,
        "email": 1,
        "exclude_bots": 0,
        "exclude_ips": "10.0.0.2\n# office\n192.0.2.2",
        "exclude_params": "fbclid\nutm_*\ngclid # ads",
    },
    {
        "domain": "2.many.example",
        "privacy": 0,
        "email": 1,
        "exclude_ips": "192.0.2.1",
        "exclude_params": "utm\nsession_id\nutm_*",
    },
    {
        "domain": "3.many.example",
        "privacy": 2,
        "email": 0,
        "exclude_ips": None,
        "exclude_params": "ref\ngclid # ads\nutm_*\nutm",
    },
    {"domain": "4.many.example", "privacy": 1, "email": 0, "exclude_bots": 1, "exclude_ips": "10.0.0.2\n# office"},
    {"domain": "5.many.example", "email": 0, "exclude_bots": 1, "exclude_params": "gclid # ads\nfbclid"},
    {"domain": "7.many.example", "privacy": 1, "exclude_ips": "# office", "exclude_params": "utm"},
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "websites": {
                "7.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "a.shop.example": {"privacy": 0, "email": 1, "favorite": False},
                "14.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "18.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "10.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "6.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "4.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "20.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "9.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "0.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "13.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "x-shop.example": {"privacy": 1, "email": 1, "favorite": False},
                "3.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "15.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "16.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "21.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "1.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "11.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "www.e.example": {"privacy": 0, "email": 1, "favorite": False},
                "d.example": {"privacy": 1, "email": 1, "favorite": False},
                "other.example": {"privacy": 0, "email": 1, "favorite": False},
                "2.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "new.example": {"privacy": 1, "email": 1, "favorite": False},
                "19.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "12.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "8.many.example": {"privacy": 0, "email": 1, "favorite": False},
                "a.example": {"privacy": 1, "email": 1, "favorite": False},
                "b.example": {"privacy": 0, "email": 1, "favorite": False},
                "shop.example": {"privacy": 1, "email": 1, "favorite": False},
                "5.many.example": {"privacy": 1, "email": 1, "favorite": False},
                "17.many.example": {"privacy": 1, "email": 1, "favorite": False},
            }
        },
        "prune": False,
        "approved": True,
        "audit": False,
        "force": True,
        "max_workers": 8,
        "meanwhile": [(25, "stop")],
        "heal": False,
    }
]
replay(dialect, websites, steps)
