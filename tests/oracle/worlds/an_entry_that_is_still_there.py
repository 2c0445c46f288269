"""A removed entry is verified on a list of several writers, too: a read that is late still shows it."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"updates": "reset others", "reads_behind": 3}
websites: Any = [
    {"domain": "b.example", "privacy": 1, "email": 1, "favorite": True, "exclude_ips": "192.0.2.1\n2001:db8::1"}
]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["192.0.2.1", "192.0.2.2", "2001:db8::1"],
        "mode": "managed",
        "websites": None,
        "force": False,
        "max_workers": 1,
        "meanwhile": [(3, "fault", {"status": 202, "body": {}})],
        "heal": True,
    },
    {
        "do": "sync",
        "field": "exclude_ips",
        "entries": ["192.0.2.1"],
        "mode": "managed",
        "websites": ["new.example", "b.example", "other.example", "a.example"],
        "force": True,
        "max_workers": 1,
        "heal": False,
    },
]
replay(dialect, websites, steps)
