"""The ledger of a managed list: the entries that the list added to each website. Pure functions on text.

The service cannot store who added an entry, so a separate file does. An entry that is not in the ledger counts as added
by hand and is never removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.reconcile.plan import website_of

_VERSION = 1


@dataclass(frozen=True)
class Identity:
    """What a ledger belongs to: with another one, its ids and entries mean something else.

    :param service: base URL of the service.
    :param account: id of the account; None if the account does not show one.
    :param list: name of the list.
    :param field: field of the website that holds the list.
    """

    service: str
    account: str | None
    list: str
    field: str


@dataclass(frozen=True)
class Ledger:
    """The entries that a list owns on each website, and the list as it was.

    :param identity: what it belongs to.
    :param entries: the list of the last run.
    :param websites: website id to ``{"domain": ..., "entries": [...]}``.
    """

    identity: Identity
    entries: Entries = ()
    websites: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, identity: Identity) -> Self:
        """Return the ledger of a text.

        :param identity: what it must belong to.
        :raises ValueError: if the text is not a ledger, has another version, or belongs to something else.
        """
        try:
            data = json.loads(text)
            version, found = data["version"], {name: data[name] for name in asdict(identity)}
            entries = tuple(_text(entry) for entry in data["entries"])
            websites = {
                website_id: {"domain": str(website["domain"]), "entries": [_text(one) for one in website["entries"]]}
                for website_id, website in data["websites"].items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"The ledger cannot be read ({error!r}): restore its last good version, or delete it; without a ledger "
                "all entries count as added by hand, and none is removed"
            ) from error
        if version != _VERSION:
            raise ValueError(
                f"The ledger has version {version!r}; supported: {_VERSION}. Upgrade airflow-provider-analytics"
            )
        differing = [name for name, value in asdict(identity).items() if found[name] != value]
        if differing:
            told = "; ".join(f"{name} is {found[name]!r}, here it is {getattr(identity, name)!r}" for name in differing)
            raise ValueError(f"The ledger belongs to something else: {told}. Give each list a ledger_path of its own")
        return cls(identity, entries, websites)

    def owned(self, records: Iterable[Mapping[str, Any]]) -> dict[str, Entries]:
        """Return the owned entries by website id; a website whose id now belongs to another domain owns none."""
        owned = {}
        for record in records:
            domain, website_id = website_of(record)
            website = self.websites.get(website_id)
            if website and website["domain"] == domain:
                owned[website_id] = tuple(website["entries"])
        return owned

    def with_owned(
        self, records: Iterable[Mapping[str, Any]], owned: Mapping[str, Iterable[str]], entries: Entries
    ) -> Self:
        """Return the ledger with the entries that these websites own now; all other websites are kept.

        :param entries: the list of this run.
        """
        websites = dict(self.websites)
        for record in records:
            domain, website_id = website_of(record)
            if website_id in owned:
                websites[website_id] = {"domain": domain, "entries": sorted(set(owned[website_id]))}
        return replace(self, entries=entries, websites=websites)

    def render(self) -> str:
        """Return the text of the ledger."""
        kept = {one: self.websites[one] for one in sorted(self.websites) if self.websites[one]["entries"]}
        data = {"version": _VERSION, **asdict(self.identity), "entries": sorted(self.entries), "websites": kept}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
