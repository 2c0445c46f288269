"""A search shows the entry that somebody removed, and the website that somebody deleted, as they were before."""

from __future__ import annotations

from typing import Any

from soak import replay

dialect: Any = {"search_matches": "late"}
websites: Any = [{"domain": "a.example", "exclude_ips": "192.0.2.2"}, {"domain": "b.example"}]
sync: Any = {
    "do": "sync",
    "field": "exclude_ips",
    "entries": ["192.0.2.2"],
    "mode": "merge",
    "websites": ["a.example"],
    "force": False,
    "max_workers": 1,
    "meanwhile": [],
    "heal": False,
}
removed: Any = {"do": "untype", "domain": "a.example", "field": "exclude_ips", "value": "192.0.2.2"}
steps: Any = [
    sync,
    {"do": "hand", "edits": [removed]},
    sync,
    {"do": "hand", "edits": [{"do": "delete", "domain": "a.example"}, {"do": "add", "domain": "a.example"}]},
    {"do": "delete", "domain": "a.example", "meanwhile": [], "heal": False},
]
replay(dialect, websites, steps)
