"""The first attempt of an update resets other fields and its answer is lost; the second one looked at what it left."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"updates": "reset others"}
websites: Any = [
    {"domain": "b.example", "favorite": True, "exclude_ips": None, "exclude_params": "fbclid\ngclid # ads"}
]
steps: Any = [
    {
        "do": "update",
        "domain": "b.example",
        "settings": {"privacy": 1, "favorite": False},
        "meanwhile": [(4, "fault", {"drop": True, "commit": True})],
        "heal": False,
    }
]
replay(dialect, websites, steps)
