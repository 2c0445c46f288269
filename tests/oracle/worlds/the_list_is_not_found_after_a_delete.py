"""A list that is not found says nothing of the website: the delete was confirmed before."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"missing": "200"}
websites: Any = [
    {
        "domain": "b.example",
        "privacy": 2,
        "email": 0,
        "exclude_ips": "# office\n10.1.0.0/16\n10.0.0.1 # Ann",
        "exclude_params": None,
    }
]
steps: Any = [{"do": "delete", "domain": "b.example", "meanwhile": [(6, "fault", {"status": 404})], "heal": True}]
replay(dialect, websites, steps)
