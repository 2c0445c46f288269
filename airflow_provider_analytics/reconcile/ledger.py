"""The ledger of a managed list: which entries it has added to which website. Text in, text out.

The service has no place for such a mark, so it is kept beside it. Without a ledger an entry counts as typed
by hand, and stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.reconcile.plan import website_of

_VERSION = 1


def parse_ledger(text: str, *, list_name: str, field: str) -> dict[str, dict[str, Any]]:
    """Return the ledger's websites: id to ``{"domain": ..., "entries": [...]}``.

    :param list_name: the list that the ledger must belong to.
    :raises ValueError: if the text is no ledger, or the ledger of another list or field.
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
            f"the ledger cannot be read ({error!r}): put its last good version back, or remove it; "
            f"without it, all entries count as typed by hand and none is removed"
        ) from error
    if version != _VERSION:
        raise ValueError(f"the ledger has version {version!r}; this package reads version {_VERSION}")
    if (name, of_field) != (list_name, field):
        raise ValueError(
            f"the ledger belongs to the list {name!r} ({of_field}), not to {list_name!r} ({field}): "
            f"give each list a ledger of its own, or list_name={name!r} if the list was renamed"
        )
    return websites


def owned_entries(ledger: Mapping[str, Mapping[str, Any]], records: Iterable[Mapping[str, Any]]) -> dict[str, Entries]:
    """Return per website id the entries that the ledger says were added; another domain under the id does not count."""
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
    """Return the ledger's text after these records own these entries; other websites stay as they are."""
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
