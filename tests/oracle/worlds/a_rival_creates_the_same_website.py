"""Someone else creates the same website between the look-up and the create: the task must not be green."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"allow_duplicates": True}
websites: Any = [{"domain": "a.example"}]
steps: Any = [
    {
        "do": "apply",
        "config": {"websites": {"new.example": {"privacy": 1}, "a.example": {"privacy": 1}}},
        "prune": False,
        "approved": False,
        "audit": False,
        "force": True,
        "max_workers": 1,
        "heal": False,
        "meanwhile": [(5, "hand", {"do": "add", "domain": "new.example", "twice": True})],
    }
]
replay(dialect, websites, steps)
