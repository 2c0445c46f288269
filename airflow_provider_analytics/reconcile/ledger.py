"""The ledger of a managed list: the entries that the list added to each website. Pure functions on text.

The service cannot store who added an entry, so a separate file does. An entry that is not in the ledger counts as added
by hand and is never removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.reconcile.plan import website_of

_VERSION = 1


def parse_ledger(text: str, *, list_name: str, field: str) -> dict[str, dict[str, Any]]:
    """Parse a ledger: website id to ``{"domain": ..., "entries": [...]}``.

    :param list_name: name of the list that the ledger must belong to.
    :param field: field that the ledger must belong to.
    :raises ValueError: if the text is not a ledger, has another version, or belongs to another list or field.
    """
    try:
        data = json.loads(text)
        version, name, of_field = data["version"], data["list"], data["field"]
        websites = {
            website_id: {"domain": str(website["domain"]), "entries": [_text(one) for one in website["entries"]]}
            for website_id, website in data["websites"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the ledger cannot be read ({error!r}): restore its last good version, or delete it; "
            "without a ledger all entries count as added by hand, and none is removed"
        ) from error
    if version != _VERSION:
        raise ValueError(
            f"the ledger has version {version!r}; supported: {_VERSION}. Upgrade airflow-provider-analytics"
        )
    if (name, of_field) != (list_name, field):
        raise ValueError(
            f"the ledger belongs to the list {name!r} ({of_field}), not to {list_name!r} ({field}): "
            f"use another ledger_path for each list, or set list_name={name!r} if the list was renamed"
        )
    return websites


def owned_entries(ledger: Mapping[str, Mapping[str, Any]], records: Iterable[Mapping[str, Any]]) -> dict[str, Entries]:
    """Return the owned entries by website id; a website whose id now belongs to another domain owns none."""
    owned = {}
    for record in records:
        domain, website_id = website_of(record)
        website = ledger.get(website_id)
        if website and website["domain"] == domain:
            owned[website_id] = tuple(website["entries"])
    return owned


def render_ledger(
    ledger: Mapping[str, Mapping[str, Any]],
    records: Iterable[Mapping[str, Any]],
    owned: Mapping[str, Iterable[str]],
    *,
    list_name: str,
    field: str,
) -> str:
    """Return the text of the ledger, updated with the entries that these websites own; keep all other websites."""
    websites = dict(ledger)
    for record in records:
        domain, website_id = website_of(record)
        if website_id in owned:
            websites[website_id] = {"domain": domain, "entries": sorted(owned[website_id])}
    kept = {website_id: websites[website_id] for website_id in sorted(websites) if websites[website_id]["entries"]}
    data = {"version": _VERSION, "list": list_name, "field": field, "websites": kept}
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
