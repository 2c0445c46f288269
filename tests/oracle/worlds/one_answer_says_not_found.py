"""One wrong answer 404 took a website out of the work, green."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"list_hides": ["exclude_ips", "exclude_params"]}
websites: Any = [
    {
        "domain": "a.example",
        "privacy": 1,
        "email": 0,
        "exclude_bots": 1,
        "exclude_ips": "192.0.2.1\n10.1.0.0/16\n10.0.0.1 # Ann",
        "exclude_params": "ref\nfbclid\nutm_*",
    },
    {"domain": "b.example", "privacy": 1, "exclude_params": "utm_*\nref"},
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["203.0.113.7"],
        "mode": "managed",
        "websites": None,
        "force": False,
        "max_workers": 1,
        "meanwhile": [(5, "fault", {"status": 404})],
        "heal": False,
    }
]
replay(dialect, websites, steps)
