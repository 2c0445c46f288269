"""A plan: the changes to make on websites, as a value that can be shown, checked, approved and applied.

No I/O here. A plan never holds a password, only a reference to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_analytics.api.checks import fraction
from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, normalise, same_setting
from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.thresholds import MAX_LOSS_FRACTION, loses_too_much

Action = Literal["create", "update", "delete"]

_SHOWN_CHANGES = 100
_SHOWN_ENTRIES = 20
_SHOWN_CHARACTERS = 120
#: Number of websites, and of their entries, that a guard names.
_SHOWN_WORST = 5


@dataclass(frozen=True)
class FieldChange:
    """The change of one field. Values are normalised by :func:`normalise`.

    :param field: name of the field.
    :param before: current value; None if the website does not exist yet or its record does not show the field.
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


@dataclass(frozen=True)
class Change:
    """The change of one website.

    :param action: ``create``, ``update`` or ``delete``.
    :param domain: domain of the website.
    :param website_id: id of the website; None for a create.
    :param fields: changes of its fields, sorted by name. The pseudo field ``password_from`` names the source of the
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
        if not self.website_id:
            return self.domain
        return f"{self.domain} (id {self.website_id})" if self.domain else f"id {self.website_id}"

    @property
    def settings(self) -> dict[str, Any]:
        """Values to send, by field name."""
        return {
            change.field: list(change.after) if isinstance(change.after, tuple) else change.after
            for change in self.fields
        }

    @property
    def summary(self) -> str:
        """The change as one line of bounded length."""
        parts = []
        for change in self.fields if self.action != "delete" else ():
            if change.field in LINE_FIELDS:
                parts.append(f"{change.field} +{len(change.added)} -{len(change.removed)}")
            elif self.action == "create" or change.field == "password_from":
                parts.append(f"{change.field} {_short(change.after)}")
            else:
                parts.append(f"{change.field} {_short(change.before)} -> {_short(change.after)}")
        return ": ".join(filter(None, (f"{self.action} {self.website}", ", ".join(parts))))

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
    """Changes in a fixed order, with the counts that guards need. Plans are equal if their changes are equal.

    :param changes: the changes, sorted by domain.
    :param websites: number of websites compared, including unchanged ones.
    :param entries: list field to the number of distinct entries per compared website, summed up.
    :param scope: what the plan is bound to, such as service, account and settings; a part of the digest.
    """

    changes: tuple[Change, ...]
    websites: int = field(default=0, compare=False)
    entries: Mapping[str, int] = field(default_factory=dict, compare=False)
    scope: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", tuple(sorted(self.changes, key=_order)))

    @classmethod
    def of(cls, changes: Iterable[Change], compared: Iterable[Mapping[str, Any]]) -> Plan:
        """Return the plan of these changes, with the counts of the compared records."""
        websites = 0
        entries = dict.fromkeys(LINE_FIELDS, 0)
        for record in compared:
            websites += 1
            for name in LINE_FIELDS:
                entries[name] += len(_without(normalise(name, record.get(name)), ()))
        return cls(tuple(changes), websites, entries)

    @property
    def digest(self) -> str:
        """SHA-256 of the scope and the changes, as hex: equal if and only if the plans are equal."""
        parts = [dict(self.scope), *(change.to_dict() for change in self.changes)]
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

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

    def lost_entries(self, name: str) -> list[tuple[Change, int]]:
        """Return the changes after which a list field has fewer entries, and how many fewer; the worst first.

        An entry that is replaced by another one is not lost. Deleted websites do not count.
        """
        lost = [
            (website, len(_without(change.before, ())) - len(_without(change.after, ())))
            for website in self.changes
            if website.action != "delete"
            for change in website.fields
            if change.field == name
        ]
        return sorted(((website, fewer) for website, fewer in lost if fewer > 0), key=lambda item: -item[1])

    def added_entries(self, name: str) -> int:
        """Return the number of entries added to a list field."""
        return sum(len(change.added) for website in self.changes for change in website.fields if change.field == name)

    def raise_if_unsafe(self, max_removal_fraction: float = MAX_LOSS_FRACTION) -> None:
        """Raise :class:`UnsafePlanError` if the plan loses too large a fraction of the websites or entries.

        Compared are deleted websites with all compared websites, and per list field the entries by which lists get
        shorter with all entries. Totals below :data:`MIN_COUNTED` are not checked.

        :param max_removal_fraction: largest fraction allowed, 0 to 1.
        :raises ValueError: if ``max_removal_fraction`` is not between 0 and 1.
        """
        fraction("max_removal_fraction", max_removal_fraction)
        problems, worst = [], []
        deleted = [change.website for change in self.changes if change.action == "delete"]
        if loses_too_much(len(deleted), self.websites, max_removal_fraction):
            share = len(deleted) / self.websites
            problems.append(f"{len(deleted):,} of {self.websites:,} websites would be deleted ({share:.0%})")
            worst += deleted[:_SHOWN_WORST]
        for name in LINE_FIELDS:
            lost = self.lost_entries(name)
            there, fewer = self.entries.get(name, 0), sum(number for _, number in lost)
            if loses_too_much(fewer, there, max_removal_fraction):
                problems.append(f"{fewer:,} of {there:,} {name} entries would be lost ({fewer / there:.0%})")
                worst += [_losses(website, name) for website, _ in lost[:_SHOWN_WORST]]
        if problems:
            raise UnsafePlanError(
                f"{'; '.join(problems)}, more than max_removal_fraction={max_removal_fraction}. Nothing was sent. If "
                f"this is intended, set force=True. The most on: {'; '.join(worst)}. Plan digest {self.digest}."
            )

    def to_dict(self, limit: int | None = None) -> dict[str, Any]:
        """Return the plan as JSON-safe values.

        :param limit: None returns all changes in full, for :meth:`from_dict`; a number returns at most that many
            changes as one line each, so that the size is bounded.
        """
        shown = self.changes[:limit]
        return {
            "digest": self.digest,
            "scope": dict(self.scope),
            "websites": self.websites,
            "creates": self.count("create"),
            "updates": self.count("update"),
            "deletes": self.count("delete"),
            "entries_added": sum(self.added_entries(name) for name in LINE_FIELDS),
            "entries_removed": sum(self.removed_entries(name) for name in LINE_FIELDS),
            "changes": [change.to_dict() if limit is None else change.summary for change in shown],
            "changes_left_out": len(self.changes) - len(shown),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan from the result of :meth:`to_dict`; ``entries``, which guards need, is empty.

        :raises ValueError: if ``data`` is not a complete plan, or was edited.
        """
        try:
            changes = tuple(Change.from_dict(change) for change in data["changes"])
            plan = cls(changes, data["websites"], scope=data["scope"])
            digest = data["digest"]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"this is not a complete plan: {error!r}. Plan again") from error
        if plan.digest != digest:
            raise ValueError(f"the plan was edited: its digest is {plan.digest}, recorded is {digest}. Plan again")
        return plan

    def remainder_of(self, approved: Plan) -> bool:
        """Return whether every change of this plan is part of an approved plan, as it is after a crash.

        After an approved create was applied, an update that only sets its remaining settings is part of it.
        """
        whole = {(change.action, change.domain, change.website_id): change for change in approved.changes}
        for change in self.changes:
            created = whole.get(("create", change.domain, None))
            if created and change.action == "update":
                wanted = {one.field: one.after for one in created.fields}
                if any(wanted.get(one.field, one) != one.after for one in change.fields):
                    return False
            elif whole.get((change.action, change.domain, change.website_id)) != change:
                return False
        return True

    def unfulfilled(self, approved: Plan, records: Iterable[Mapping[str, Any]]) -> list[Change]:
        """Return the changes of an approved plan that are neither in this plan nor in effect.

        :param records: current records of the websites that the approved plan is about.
        """
        planned = {(change.action, change.domain, change.website_id) for change in self.changes}
        updated = {domain_key(change.domain) for change in self.changes if change.action == "update"}
        by_id: dict[str, Mapping[str, Any]] = {}
        by_domain: dict[str, Mapping[str, Any]] = {}
        for record in records:
            domain, website_id = website_of(record)
            by_id[website_id] = by_domain[domain_key(domain)] = record

        def is_in_effect(change: Change) -> bool:
            if change.action == "delete":
                return change.website_id not in by_id
            found = by_domain.get(domain_key(change.domain))
            if found is not None and change.action == "create" and domain_key(change.domain) in updated:
                return True  # created; this plan has the rest
            # What a password is cannot be seen.
            shown = [one for one in change.fields if one.field in FIELDS]
            return found is not None and all(same_setting(one.field, found.get(one.field), one.after) for one in shown)

        return [
            change
            for change in approved.changes
            if (change.action, change.domain, change.website_id) not in planned and not is_in_effect(change)
        ]

    def to_markdown(self, limit: int = _SHOWN_CHANGES) -> str:
        """Return the plan as Markdown, with at most ``limit`` changes and the number of the others."""
        counts = ", ".join(f"{self.count(action):,} to {action}" for action in ("create", "update", "delete"))
        lines = [f"**{counts}**, {self.websites:,} websites compared.", ""]
        if self.scope:
            lines += [", ".join(f"{name} {_code(value)}" for name, value in self.scope.items()), ""]
        lines.append(f"Digest `{self.digest}`")
        if not self.changes:
            lines += ["", "Nothing to change."]
        left = limit
        for action, title in (("delete", "Delete"), ("create", "Create"), ("update", "Update")):
            changes = [change for change in self.changes if change.action == action]
            if not changes:
                continue
            lines += ["", f"### {title} ({len(changes):,})", ""]
            for change in changes[: max(left, 0)]:
                lines.append(f"- {_code(change.website)}")
                if action != "delete":
                    lines += [f"    - {_markdown(one, new=action == 'create')}" for one in change.fields]
            if len(changes) > left:
                lines.append(f"- and {len(changes) - max(left, 0):,} more")
            left -= len(changes)
        return "\n".join(lines) + "\n"


def website_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the domain (empty if not shown) and the id of a record."""
    return str(record.get("domain") or ""), str(record["id"])


def _losses(website: Change, name: str) -> str:
    removed = next(change.removed for change in website.fields if change.field == name)
    more = f" and {len(removed) - _SHOWN_WORST:,} more" if len(removed) > _SHOWN_WORST else ""
    return f"{website.website} loses {', '.join(removed[:_SHOWN_WORST])}{more}"


def _order(change: Change) -> tuple[str, str, str]:
    return domain_key(change.domain), change.website_id or "", change.action


def _without(entries: Any, others: Any) -> tuple[str, ...]:
    """Return the distinct entries that are not in ``others``, without comment lines."""
    known = set(others) if isinstance(others, tuple) else set()
    if not isinstance(entries, tuple):
        return ()
    return tuple(dict.fromkeys(one for one in entries if one not in known and not one.startswith("#")))


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = "not shown" if value is None else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _code(value: Any) -> str:
    # Domains and entries come from the service: code spans keep them from being rendered as Markdown or HTML.
    return "`" + " ".join(_short(value).replace("`", "'").split()) + "`"


def _markdown(change: FieldChange, *, new: bool) -> str:
    if change.field not in LINE_FIELDS:
        if new or change.field == "password_from":
            return f"{change.field}: {_code(change.after)}"
        return f"{change.field}: {_code(change.before)} → {_code(change.after)}"
    parts = []
    for word, entries in (("add", change.added), ("remove", change.removed)):
        if entries:
            shown = ", ".join(_code(entry) for entry in entries[:_SHOWN_ENTRIES])
            more = len(entries) - _SHOWN_ENTRIES
            parts.append(f"{word} {shown}" + (f" and {more:,} more" if more > 0 else ""))
    return f"{change.field}: {'; '.join(parts) or 'comments only'}"
