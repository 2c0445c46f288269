"""A line that the service cuts was taken for that of another process, and three websites were ruined."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"lists_as": "cut"}
websites: Any = [
    {"domain": "a.example", "exclude_params": "gclid # ads\nref"},
    {"domain": "d.example", "privacy": 0, "exclude_bots": 0, "exclude_params": "utm_*"},
    {
        "domain": "www.e.example",
        "privacy": 1,
        "exclude_ips": "192.0.2.2\n10.0.0.2\n192.0.2.1\n# office",
        "exclude_params": "session_id",
    },
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_params",
        "entries": ["fbclid", "page", "ref", "utm"],
        "mode": "merge",
        "websites": None,
        "force": False,
        "max_workers": 1,
        "heal": True,
    }
]
replay(dialect, websites, steps)
