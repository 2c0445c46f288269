"""A row of the list without a domain is the website with its id: the ledger still knows its entries."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"list_hides": ["domain"]}
websites: Any = [{"domain": "b.example", "privacy": 1, "favorite": True}]
steps: Any = [
    {
        "do": "sync",
        "field": "exclude_params",
        "entries": ["utm"],
        "mode": "managed",
        "websites": None,
        "force": True,
        "max_workers": 1,
        "meanwhile": [],
        "heal": True,
    },
    {
        "do": "sync",
        "field": "exclude_params",
        "entries": [],
        "mode": "managed",
        "websites": None,
        "force": True,
        "max_workers": 1,
        "meanwhile": [],
        "heal": False,
    },
]
replay(dialect, websites, steps)
