# SPDX-License-Identifier: Apache-2.0
"""A plan: the changes to make on websites, as a value that can be displayed, checked, approved and applied.

No I/O. A plan never contains a password, only a reference to it.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.fields import LINE_FIELDS, PASSWORD_FROM, Privacy, count_entries
from airflow_provider_analytics.api.verification import Record
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import first_of, readable

Action = Literal["create", "update", "delete"]

_MAX_CHARACTERS = 120
#: Maximum number of effects in the summary of a change.
_MAX_EFFECTS = 3


class Effect(NamedTuple):
    """What happens to a field or to a website; equal for websites with the same effect.

    :param field: name of the field; empty for the website.
    :param verb: ``add``, ``remove`` or ``comments only`` for a list; ``create`` or ``delete`` for a website; otherwise
        empty.
    :param value: the entry, or the new value.
    :param before: the current value of a field that is no list; None if it is unknown.
    """

    field: str
    verb: str
    value: Any = None
    before: Any = None

    def text(self, show: Callable[[str], str] = str) -> str:
        """Return the effect as text of bounded length, without the field.

        :param show: formats a value, which may come from the service.
        """
        before = f"{show(short(self.before))} →" if self.before is not None else ""
        value = show(short(self.value)) if self.value is not None else ""
        return " ".join(filter(None, (self.verb, before, value)))


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
        return {change.field: _listed(change.after) for change in self.fields}

    @property
    def opens(self) -> bool:
        """Whether the statistics page becomes public."""
        return self.action != "delete" and any(change.opens for change in self.fields)

    @property
    def effects(self) -> Iterator[Effect]:
        """What happens to the website and to its fields."""
        if self.action != "update":
            yield Effect("", self.action)
        for item in self.fields if self.action != "delete" else ():
            if item.field not in LINE_FIELDS:
                yield Effect(item.field, "", item.after, item.before)
                continue
            yield from (Effect(item.field, "add", entry) for entry in item.added)
            yield from (Effect(item.field, "remove", entry) for entry in item.removed)
            if not item.added and not item.removed:
                yield Effect(item.field, "comments only")

    @property
    def summary(self) -> str:
        """The change as one line of bounded length."""
        effects = [f"{effect.field} {effect.text()}" for effect in self.effects if effect.field]
        return f"{self.action} {self.website}" + (f": {first_of(effects, _MAX_EFFECTS)}" if effects else "")

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
    :param websites_compared: number of websites compared, including unchanged ones.
    :param protected: websites that are not in the file and are not deleted, and why.
    :param warnings: further information for the approver, one sentence each.
    :param scope: what the plan is bound to, such as service, account and settings; part of the digest.
    :param findings: name of a guard that refuses the plan to its finding (:func:`plan_guards.guarded`).
    :param override_guards: names of the guards that are overridden; part of the digest.
    """

    changes: tuple[Change, ...]
    websites_compared: int = field(default=0, compare=False)
    protected: tuple[str, ...] = field(default=(), compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    scope: Mapping[str, Any] = field(default_factory=dict)
    findings: Mapping[str, str] = field(default_factory=dict, compare=False)
    override_guards: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", tuple(sorted(self.changes, key=_order)))

    @property
    def digest(self) -> str:
        """SHA-256 of everything that is approved, as hex; equal if and only if the plans are equal."""
        parts = [dict(self.scope), self.override_guards, *(change.to_dict() for change in self.changes)]
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
    def made_public(self) -> list[Change]:
        """The changes by which a statistics page becomes public."""
        return [change for change in self.changes if change.opens]

    def count(self, action: Action) -> int:
        """Return the number of changes with this action."""
        return sum(change.action == action for change in self.changes)

    @property
    def guard_message(self) -> str | None:
        """The findings of the guards as text; None if there are none."""
        return "\n".join(self.findings.values()) or None

    def raise_if_blocked(self) -> None:
        """Raise :class:`GuardError` if a guard refuses the plan."""
        if self.findings:
            raise GuardError(self.guard_message or "", "Nothing was sent.", ", ".join(self.findings))

    def report(self, limit: int) -> dict[str, Any]:
        """Return what the plan does, as JSON-safe values of bounded size.

        :param limit: maximum number of changes, one line each. Deletions and pages that become public come first.
        """
        shown = sorted(self.changes, key=lambda change: (change.action != "delete", not change.opens))[:limit]
        fields = [item for change in self.changes if change.action != "delete" for item in change.fields]
        return {
            "digest": self.digest,
            "scope": dict(self.scope),
            "blocked_by": list(self.findings),
            "guard_message": self.guard_message,
            "override_guards": list(self.override_guards),
            "websites_compared": self.websites_compared,
            "creates": self.count("create"),
            "updates": self.count("update"),
            "deletes": self.count("delete"),
            "made_public": len(self.made_public),
            "protected": len(self.protected),
            "entries_added": sum(len(item.added) for item in fields),
            "entries_removed": sum(len(item.removed) for item in fields),
            "changes": [change.summary for change in shown],
            "changes_omitted": len(self.changes) - len(shown),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-safe values, for :meth:`from_dict`."""
        changes = [change.to_dict() for change in self.changes]
        return {
            "digest": self.digest,
            "scope": dict(self.scope),
            "override_guards": list(self.override_guards),
            "changes": changes,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan from the result of :meth:`to_dict`.

        :raises ValueError: if ``data`` is not a complete plan, or was edited.
        """
        try:
            changes = tuple(Change.from_dict(change) for change in data["changes"])
            plan = cls(changes, scope=data["scope"], override_guards=tuple(data["override_guards"]))
            is_as_written = plan.digest == data["digest"]
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"this is not a complete plan: {error!r}. Plan again") from error
        if not is_as_written:
            raise ValueError(f"the plan was edited: its digest is {plan.digest}, not {data['digest']}. Plan again")
        return plan


def website_of(record: Record) -> tuple[str, str]:
    """Return the domain (empty if missing) and the id of a record."""
    return str(record.get("domain") or ""), str(record["id"])


def website_name(domain: str, website_id: str | None) -> str:
    """Return the readable name of a website for logs and errors."""
    if not website_id:
        return readable(domain)
    return f"{readable(domain)} (id {website_id})" if domain else f"id {website_id}"


def _order(change: Change) -> tuple[str, str, str]:
    return domain_key(change.domain), change.website_id or "", change.action


def _without(entries: Any, others: Any) -> tuple[str, ...]:
    """Return the distinct entries that are not in ``others``, without comment lines."""
    return _difference(entries, others if isinstance(others, tuple) else ()) if isinstance(entries, tuple) else ()


# Cached, because many websites have the same list.
@functools.lru_cache(maxsize=1 << 8)
def _difference(entries: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    known = set(others)
    return tuple(dict.fromkeys(entry for entry in entries if entry not in known and not entry.startswith("#")))


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def short(value: Any) -> str:
    """Return a value as readable text of bounded length."""
    return readable(str(value), _MAX_CHARACTERS)
