"""A list that is shown in another form cannot be sent back: the website was said to be as it was."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_as": "blanks", "updates": "reset others"}
websites: Any = [
    {"domain": "d.example", "privacy": 0, "email": 1, "favorite": True, "exclude_params": "ref"},
    {
        "domain": "shop.example",
        "privacy": 1,
        "exclude_bots": 1,
        "exclude_ips": "10.0.0.1 # Ann\n# office\n192.0.2.2\n192.0.2.1",
        "exclude_params": "session_id\ngclid # ads\nref\nfbclid",
    },
]
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_ips": "managed"},
            "websites": {
                "6.many.example": {"privacy": 0, "email": 1},
                "14.many.example": {"privacy": 0, "email": 1},
                "7.many.example": {"privacy": 0, "email": 1},
                "other.example": {"privacy": 0, "email": 1},
                "17.many.example": {"privacy": 1, "email": 1},
                "12.many.example": {"privacy": 1, "email": 1},
                "1.many.example": {"privacy": 0, "email": 1},
                "shop.example": {"privacy": 1, "email": 1},
                "9.many.example": {"privacy": 1, "email": 1},
                "2.many.example": {"privacy": 0, "email": 1},
                "d.example": {"privacy": 1, "email": 1},
            },
        },
        "prune": False,
        "approved": False,
        "audit": False,
        "force": False,
        "max_workers": 8,
        "meanwhile": [],
        "heal": False,
    }
]
replay(dialect, websites, steps)
