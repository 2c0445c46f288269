"""An update to what the website shows already: a read that is late could not tell what else it changed."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"updates": "reset others", "reads_behind": 1}
websites: Any = []
steps: Any = [
    {
        "do": "apply",
        "config": {
            "modes": {"exclude_params": "managed"},
            "websites": {
                "other.example": {"privacy": 1, "email": 1, "exclude_bots": 1, "exclude_ips": ["192.0.2.1"]},
                "b.example": {"privacy": 0, "email": 1, "exclude_bots": 1, "exclude_ips": ["192.0.2.1"]},
                "new.example": {"privacy": 1, "email": 1, "exclude_bots": 1, "exclude_ips": ["192.0.2.1"]},
                "a.example": {"privacy": 1, "email": 1, "exclude_bots": 1, "exclude_ips": ["192.0.2.1"]},
            },
        },
        "prune": False,
        "approved": True,
        "audit": False,
        "force": False,
        "max_workers": 8,
        "meanwhile": [],
        "heal": True,
    },
    {"do": "update", "domain": "new.example", "settings": {"exclude_bots": 1}, "heal": False},
]
replay(dialect, websites, steps)
