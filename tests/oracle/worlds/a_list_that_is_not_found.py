"""A list that was answered with 404 counted as a website that does not exist: the delete was green."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"search_matches": "nothing"}
websites: Any = [
    {
        "domain": "c.example",
        "privacy": 1,
        "email": 0,
        "exclude_ips": "# office\n10.0.0.1 # Ann",
        "exclude_params": "fbclid\nutm\nutm_*\nref",
    }
]
steps: Any = [{"do": "delete", "domain": "c.example", "meanwhile": [(3, "fault", {"status": 404})], "heal": False}]
replay(dialect, websites, steps)
