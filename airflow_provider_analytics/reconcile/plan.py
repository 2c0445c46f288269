"""A plan: the changes to make on websites, as a value that can be displayed, checked, approved and applied.

No I/O. A plan never contains a password, only a reference to it.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import (
    LINE_FIELDS,
    PASSWORD_FROM,
    Privacy,
    count_entries,
    normalise,
    raw_lines,
)
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import readable

Action = Literal["create", "update", "delete"]

_MAX_CHARACTERS = 120
#: Maximum number of list entries in one line.
_MAX_ENTRIES = 3
#: Order of changes in the output: deletions and pages that become public come first.
_OUTPUT_ORDER = ("delete", "open", "create", "update")


@dataclass(frozen=True)
class FieldChange:
    """The change of one field. Values are normalized by :func:`normalise`.

    :param field: name of the field.
    :param before: current value; None if the website does not exist yet or its record does not contain the field.
    :param after: desired value; None if the website is deleted.
    """

    field: str
    before: Any
    after: Any

    @property
    def added(self) -> tuple[str, ...]:
        """Entries added to a list; empty for other fields."""
        return _without(self.after, self.before) if self.field in LINE_FIELDS else ()

    @property
    def removed(self) -> tuple[str, ...]:
        """Entries removed from a list; empty for other fields."""
        return _without(self.before, self.after) if self.field in LINE_FIELDS else ()

    @property
    def fewer(self) -> int:
        """By how many entries a list gets shorter; negative if it gets longer."""
        return count_entries(self.field, self.before) - count_entries(self.field, self.after)

    @property
    def opens(self) -> bool:
        """Whether a statistics page becomes public."""
        public = Privacy.PUBLIC.label
        return self.field == "privacy" and self.after == public and self.before != public


@dataclass(frozen=True)
class Change:
    """The change of one website.

    :param action: ``create``, ``update`` or ``delete``.
    :param domain: domain of the website.
    :param website_id: id of the website; None for a create.
    :param fields: changes of its fields, sorted by name. The pseudo field ``password_from`` is the source of the
        password (``connection:NAME`` or ``variable:NAME``).
    """

    action: Action
    domain: str
    website_id: str | None
    fields: tuple[FieldChange, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(sorted(self.fields, key=lambda change: change.field)))

    @property
    def website(self) -> str:
        """Name of the website for logs and errors."""
        return website_name(self.domain, self.website_id)

    @property
    def settings(self) -> dict[str, Any]:
        """Values to send, by field name."""
        return {
            change.field: list(change.after) if isinstance(change.after, tuple) else change.after
            for change in self.fields
        }

    @property
    def opens(self) -> bool:
        """Whether the statistics page becomes public."""
        return self.action != "delete" and any(change.opens for change in self.fields)

    @property
    def summary(self) -> str:
        """The change as one line of bounded length."""
        return ": ".join(filter(None, (f"{self.action} {self.website}", self.what)))

    @property
    def what(self) -> str:
        """The changed fields as text of bounded length; empty for a deletion."""
        parts = []
        for change in self.fields if self.action != "delete" else ():
            if change.field in LINE_FIELDS:
                found = [*_signed("+", change.added), *_signed("-", change.removed)]
                parts.append(" ".join([change.field, *(found or ["comments only"])]))
            elif self.action == "create" or change.field == "password_from":
                parts.append(f"{change.field} {short(change.after)}")
            else:
                parts.append(f"{change.field} {short(change.before)} -> {short(change.after)}")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON-safe values, for :meth:`from_dict`."""
        return {
            "action": self.action,
            "domain": self.domain,
            "website_id": self.website_id,
            "fields": {change.field: [_listed(change.before), _listed(change.after)] for change in self.fields},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        """Return the change from the result of :meth:`to_dict`."""
        fields = tuple(
            FieldChange(name, _tupled(before), _tupled(after)) for name, (before, after) in data["fields"].items()
        )
        return cls(data["action"], data["domain"], data["website_id"], fields)


@dataclass(frozen=True)
class Plan:
    """Changes in a fixed order, with the information that an approver needs.

    Plans are equal if their digests are equal.

    :param changes: the changes, sorted by domain.
    :param websites: number of websites compared, including unchanged ones.
    :param entries: list field to the total number of distinct entries on each compared website that is not deleted.
    :param closed: number of compared websites that are not deleted and whose record does not have a public page.
    :param protected: websites that are not in the file and are not deleted, and why.
    :param warnings: further information for the approver, one sentence each.
    :param scope: what the plan is bound to, such as service, account and settings; part of the digest.
    :param findings: name of a guard that refuses the plan to its finding (:func:`guards.guarded`).
    :param accept: names of the guards that are overridden; part of the digest.
    """

    changes: tuple[Change, ...]
    websites: int = field(default=0, compare=False)
    entries: Mapping[str, int] = field(default_factory=dict, compare=False)
    closed: int = field(default=0, compare=False)
    protected: tuple[str, ...] = field(default=(), compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    scope: Mapping[str, Any] = field(default_factory=dict)
    findings: Mapping[str, str] = field(default_factory=dict, compare=False)
    accept: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", tuple(sorted(self.changes, key=_order)))

    @classmethod
    def of(
        cls,
        changes: Iterable[Change],
        compared: Iterable[Mapping[str, Any]],
        protected: Iterable[str] = (),
        scope: Mapping[str, Any] | None = None,
        warnings: Iterable[str] = (),
    ) -> Plan:
        """Return the plan of these changes, with the counts of the compared records."""
        changes = tuple(changes)
        deleted = {change.website_id for change in changes if change.action == "delete"}
        websites = closed = 0
        entries = dict.fromkeys(LINE_FIELDS, 0)
        for record in compared:
            websites += 1
            if str(record["id"]) in deleted:  # its entries would hide losses on the other websites
                continue
            closed += normalise("privacy", record.get("privacy")) != Privacy.PUBLIC.label
            for name in LINE_FIELDS:
                entries[name] += count_entries(name, raw_lines(name, record.get(name)))
        return cls(changes, websites, entries, closed, tuple(protected), tuple(warnings), scope or {})

    @property
    def digest(self) -> str:
        """SHA-256 of everything that is approved, as hex; equal if and only if the plans are equal."""
        parts = [dict(self.scope), self.accept, *(change.to_dict() for change in self.changes)]
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def password_sources(self) -> dict[str, list[str]]:
        """Password reference to the domains that get the password."""
        found: dict[str, list[str]] = {}
        for change in self.changes:
            if PASSWORD_FROM in change.settings:
                found.setdefault(change.settings[PASSWORD_FROM], []).append(change.domain)
        return found

    @property
    def opened(self) -> tuple[Change, ...]:
        """The changes by which a statistics page becomes public."""
        return tuple(change for change in self.changes if change.opens)

    @property
    def shown(self) -> list[Change]:
        """The changes in output order: deletions and pages that become public come first."""
        return sorted(self.changes, key=lambda change: _OUTPUT_ORDER.index("open" if change.opens else change.action))

    def count(self, action: Action) -> int:
        """Return the number of changes with this action."""
        return sum(change.action == action for change in self.changes)

    def removed_entries(self, name: str) -> int:
        """Return the number of entries removed from a list field, not counting deleted websites."""
        return sum(
            len(change.removed)
            for website in self.changes
            if website.action != "delete"
            for change in website.fields
            if change.field == name
        )

    def added_entries(self, name: str) -> int:
        """Return the number of entries added to a list field."""
        return sum(len(change.added) for website in self.changes for change in website.fields if change.field == name)

    def lost_entries(self, name: str) -> list[tuple[Change, int]]:
        """Return the changes after which a list field has fewer entries, and how many fewer; the worst first.

        Replacing an entry is not a loss. Deleted websites do not count.
        """
        lost = [
            (website, change.fewer)
            for website in self.changes
            if website.action != "delete"
            for change in website.fields
            if change.field == name
        ]
        return sorted(((website, fewer) for website, fewer in lost if fewer > 0), key=lambda item: -item[1])

    @property
    def unsafe(self) -> str | None:
        """The findings of the guards as text; None if there are none."""
        return "\n".join(self.findings.values()) or None

    def raise_if_unsafe(self) -> None:
        """Raise :class:`GuardError` if a guard refuses the plan."""
        if self.findings:
            raise GuardError(self.unsafe or "", "Nothing was sent.", ", ".join(self.findings))

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Return the plan as JSON-safe values.

        :param limit: maximum number of changes, one line each, so that the size is bounded. None includes all changes
            in full, for :meth:`from_dict`.
        """
        shown = self.changes if limit is None else self.shown[:limit]
        return {
            "digest": self.digest,
            "scope": dict(self.scope),
            "guards": list(self.findings),
            "unsafe": self.unsafe,
            "accept": list(self.accept),
            "websites": self.websites,
            "creates": self.count("create"),
            "updates": self.count("update"),
            "deletes": self.count("delete"),
            "opened": len(self.opened),
            "protected": len(self.protected),
            "entries_added": sum(self.added_entries(name) for name in LINE_FIELDS),
            "entries_removed": sum(self.removed_entries(name) for name in LINE_FIELDS),
            "changes": [change.to_dict() if limit is None else change.summary for change in shown],
            "changes_left_out": len(self.changes) - len(shown),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan from the result of :meth:`to_dict`, without the counts that guards need.

        :raises ValueError: if ``data`` is not a complete plan, or was edited.
        """
        try:
            changes = tuple(Change.from_dict(change) for change in data["changes"])
            plan = cls(changes, data["websites"], scope=data["scope"], accept=tuple(data["accept"]))
            digest = data["digest"]
            found = plan.digest
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"this is not a complete plan: {error!r}. Plan again") from error
        if found != digest:
            raise ValueError(f"the plan was edited: its digest is {found}, recorded is {digest}. Plan again")
        return plan


def website_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the domain (empty if missing) and the id of a record."""
    return str(record.get("domain") or ""), str(record["id"])


def website_name(domain: str, website_id: str | None) -> str:
    """Return the readable name of a website for logs and errors."""
    if not website_id:
        return readable(domain)
    return f"{readable(domain)} (id {website_id})" if domain else f"id {website_id}"


def _signed(sign: str, entries: tuple[str, ...]) -> list[str]:
    """Return the first added or removed entries of a list, as text with a sign."""
    more = f", and {len(entries) - _MAX_ENTRIES:,} more" if len(entries) > _MAX_ENTRIES else ""
    return [f"{sign} {', '.join(map(short, entries[:_MAX_ENTRIES]))}{more}"] if entries else []


def _order(change: Change) -> tuple[str, str, str]:
    return domain_key(change.domain), change.website_id or "", change.action


def _without(entries: Any, others: Any) -> tuple[str, ...]:
    """Return the distinct entries that are not in ``others``, without comment lines."""
    return _difference(entries, others if isinstance(others, tuple) else ()) if isinstance(entries, tuple) else ()


# Cached, because many websites have the same list.
@functools.lru_cache(maxsize=1 << 8)
def _difference(entries: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    known = set(others)
    return tuple(dict.fromkeys(one for one in entries if one not in known and not one.startswith("#")))


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def short(value: Any) -> str:
    """Return a value as readable text of bounded length."""
    return readable("not shown" if value is None else str(value), _MAX_CHARACTERS)
