# SPDX-License-Identifier: Apache-2.0
"""A plan: the changes that bring websites to their desired state. Values and pure functions on records.

A :class:`Plan` has a :class:`Change` for each website that differs, and a change has a :class:`FieldChange` for each
field. For example, a plan that adds an address to one website::

    Plan(changes=(
        Change("update", "www.example.com", "7", (
            FieldChange("exclude_ips", before=("192.0.2.1",), after=("192.0.2.1", "198.51.100.7")),
        )),
    ))

:func:`plan_changes` returns the plan for all websites, and :func:`change_of` the change of one existing website. It is
called twice for each website: for the plan, and with a record that is fetched immediately before the update.

A plan can be displayed, checked, approved, and applied. It never contains a password, only a reference to it.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import (
    FIELDS,
    LINE_FIELDS,
    PASSWORD_FROM,
    SETTABLE_FIELDS,
    Privacy,
    count_entries,
    normalize,
    raw_lines,
    website_name,
    website_of,
)
from airflow_provider_analytics.api.verification import Record, has_value
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.readable import first_of, readable
from airflow_provider_analytics.reconcile.desired.desired_state import DesiredState, DesiredWebsite
from airflow_provider_analytics.reconcile.desired.yaml_values import Place, Problem, ProblemsError

Action = Literal["create", "update", "delete"]
#: Id and domain key of a website; None and the domain key of one that is created.
WebsiteKey = tuple[str | None, str]

_MAX_CHARACTERS = 120
#: Maximum number of effects in the summary of a change.
_MAX_EFFECTS = 3


class Effect(NamedTuple):
    """An effect of a change on a field or on a website, such as ``exclude_ips add 192.0.2.1``.

    Websites with the same effect have equal effects, so that a plan can be displayed by effect.

    :param field: name of the field; empty for the website.
    :param verb: ``add``, ``remove``, or ``comments only`` for a list; ``create`` or ``delete`` for a website; otherwise
        empty.
    :param value: the entry, or the new value.
    :param before: the current value of a field that is not a list; None if it is unknown.
    """

    field: str
    verb: str
    value: Any = None
    before: Any = None

    def text(self, show: Callable[[str], str] = str) -> str:
        """Return the effect as text of bounded length, without the field.

        :param show: formats a value, which can come from the service.
        """
        words = [self.verb]
        if self.before is not None:
            words.append(f"{show(short(self.before))} →")
        if self.value is not None:
            words.append(show(short(self.value)))
        return " ".join(filter(None, words))


@dataclass(frozen=True)
class FieldChange:
    """The change of one field. Values are normalized by :func:`normalize`.

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
        return _entries_only_in(self.after, self.before) if self.field in LINE_FIELDS else ()

    @property
    def removed(self) -> tuple[str, ...]:
        """Entries removed from a list; empty for other fields."""
        return _entries_only_in(self.before, self.after) if self.field in LINE_FIELDS else ()

    @property
    def fewer(self) -> int:
        """Number of entries by which a list gets shorter; negative if it gets longer."""
        return count_entries(self.field, self.before) - count_entries(self.field, self.after)

    @property
    def opens(self) -> bool:
        """Whether a statistics page becomes public."""
        public = Privacy.PUBLIC.label
        return self.field == "privacy" and self.after == public and self.before != public


@dataclass(frozen=True)
class Change:
    """The change of one website.

    :param action: ``create``, ``update``, or ``delete``.
    :param domain: domain of the website.
    :param website_id: id of the website; None for a create.
    :param fields: changes of its fields, sorted by name. The pseudo field ``password_from`` is the source of the
        password (``connection:NAME`` or ``variable:NAME``).
    :param record: the record that it was computed from; empty for a create. It is not part of the approval.
    """

    action: Action
    domain: str
    website_id: str | None
    fields: tuple[FieldChange, ...]
    record: Record = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(sorted(self.fields, key=lambda change: change.field)))

    @property
    def website(self) -> str:
        """Name of the website for logs and errors."""
        return website_name(self.domain, self.website_id)

    @property
    def key(self) -> WebsiteKey:
        """Id and domain key of the website."""
        return self.website_id, domain_key(self.domain)

    @property
    def settings(self) -> dict[str, Any]:
        """Values to send, by field name."""
        return {change.field: _to_json(change.after) for change in self.fields}

    @property
    def opens(self) -> bool:
        """Whether the statistics page becomes public."""
        return self.action != "delete" and any(change.opens for change in self.fields)

    @property
    def effects(self) -> Iterator[Effect]:
        """The effects on the website and on its fields."""
        if self.action != "update":
            yield Effect("", self.action)
        if self.action != "delete":
            for change in self.fields:
                yield from _effects_of(change)

    @property
    def summary(self) -> str:
        """The change as one line of bounded length."""
        effects = [f"{effect.field} {effect.text()}" for effect in self.effects if effect.field]
        if not effects:
            return f"{self.action} {self.website}"
        return f"{self.action} {self.website}: {first_of(effects, _MAX_EFFECTS)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON-safe values, for :meth:`from_dict`."""
        return {
            "action": self.action,
            "domain": self.domain,
            "website_id": self.website_id,
            "fields": {change.field: [_to_json(change.before), _to_json(change.after)] for change in self.fields},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Change:
        """Return the change from the result of :meth:`to_dict`."""
        fields = []
        for name, (before, after) in data["fields"].items():
            fields.append(FieldChange(name, _from_json(before), _from_json(after)))
        return cls(data["action"], data["domain"], data["website_id"], tuple(fields))


def _effects_of(change: FieldChange) -> Iterator[Effect]:
    """Yield the effects of the change of a field."""
    if change.field not in LINE_FIELDS:
        yield Effect(change.field, "", change.after, change.before)
        return
    for entry in change.added:
        yield Effect(change.field, "add", entry)
    for entry in change.removed:
        yield Effect(change.field, "remove", entry)
    if not change.added and not change.removed:
        yield Effect(change.field, "comments only")


@dataclass(frozen=True)
class Plan:
    """Changes in a fixed order, with the information that an approver needs.

    Plans are equal if their digests are equal.

    :param changes: the changes, sorted by domain.
    :param websites_compared: number of websites compared, including unchanged ones.
    :param protected: websites that are not in the file and are not deleted, and why.
    :param warnings: further information for the approver, one sentence each.
    :param scope: service, account, and settings, for which alone the plan is valid; part of the digest. For example,
        ``{"service": "https://stats.example.com", "account": "1", "max_loss_fraction": 0.3}``.
    :param findings: name of a guard that blocks the plan to its finding (:func:`plan_guards.check_guards`).
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
        parts = [dict(self.scope), self.override_guards, *map(Change.to_dict, self.changes)]
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def arguments(self) -> dict[str, Any]:
        """The settings for which alone the plan is valid, and the overridden guards."""
        return {**self.scope, "override_guards": list(self.override_guards)}

    @property
    def password_sources(self) -> dict[str, list[str]]:
        """Password reference to the domains that get the password."""
        found: dict[str, list[str]] = {}
        for change in self.changes:
            if PASSWORD_FROM in change.settings:
                found.setdefault(change.settings[PASSWORD_FROM], []).append(change.domain)
        return found

    @functools.cached_property
    def by_website(self) -> dict[WebsiteKey, Change]:
        """The change of each website."""
        return {change.key: change for change in self.changes}

    @property
    def made_public(self) -> list[Change]:
        """The changes by which a statistics page becomes public."""
        return [change for change in self.changes if change.opens]

    def count(self, action: Action) -> int:
        """Return the number of changes with this action."""
        return [change.action for change in self.changes].count(action)

    @property
    def guard_message(self) -> str | None:
        """The findings of the guards as text; None if there are none."""
        return "\n".join(self.findings.values()) or None

    def raise_if_blocked(self) -> None:
        """Raise :class:`GuardError` if a guard blocks the plan."""
        if self.findings:
            raise GuardError(self.guard_message or "", "No changes were sent.", ", ".join(self.findings))

    def report(self, limit: int) -> dict[str, Any]:
        """Return a summary of the plan, as JSON-safe values of bounded size.

        :param limit: maximum number of changes, one line each. Deletions and pages that become public come first.
        """
        listed = sorted(self.changes, key=_order_in_a_report)[:limit]
        entries_added = entries_removed = 0
        for change in self.changes:
            if change.action == "delete":
                continue
            for field_change in change.fields:
                entries_added += len(field_change.added)
                entries_removed += len(field_change.removed)
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
            "entries_added": entries_added,
            "entries_removed": entries_removed,
            "changes": [change.summary for change in listed],
            "changes_omitted": len(self.changes) - len(listed),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-safe values, for :meth:`from_dict`."""
        return {
            "digest": self.digest,
            "scope": dict(self.scope),
            "override_guards": list(self.override_guards),
            "changes": list(map(Change.to_dict, self.changes)),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """Return the plan from the result of :meth:`to_dict`.

        :raises ValueError: if ``data`` is not a complete plan, or was edited.
        """
        try:
            changes = tuple(map(Change.from_dict, data["changes"]))
            plan = cls(changes, scope=data["scope"], override_guards=tuple(data["override_guards"]))
            is_as_written = plan.digest == data["digest"]
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(f"this is not a complete plan: {error!r}. Plan again") from error
        if not is_as_written:
            raise ValueError(f"the plan was edited. Plan again. Its digest is {plan.digest}, not {data['digest']}")
        return plan


def _order(change: Change) -> tuple[str, str, str]:
    return domain_key(change.domain), change.website_id or "", change.action


def _order_in_a_report(change: Change) -> tuple[bool, bool]:
    return change.action != "delete", not change.opens


def _entries_only_in(entries: Any, others: Any) -> tuple[str, ...]:
    """Return the distinct entries that are not in ``others``, without comment lines.

    :param entries: the lines of a list; None, or a text in an unknown form, has no entries.
    """
    if not isinstance(entries, tuple):
        return ()
    return _difference(entries, others if isinstance(others, tuple) else ())


# Cached, because many websites have the same list.
@functools.lru_cache(maxsize=1 << 8)
def _difference(entries: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    known = set(others)
    return tuple(dict.fromkeys(entry for entry in entries if entry not in known and not entry.startswith("#")))


def _to_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _from_json(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def short(value: Any) -> str:
    """Return a value as readable text of bounded length; a flag as in a YAML file."""
    if isinstance(value, bool):
        return str(value).lower()
    return readable(str(value), _MAX_CHARACTERS)


def plan_changes(desired: DesiredState, records: Sequence[Record], scope: Mapping[str, Any] | None = None) -> Plan:
    """Return the plan for these websites.

    :param scope: settings for which alone the plan is valid, see :class:`Plan`.
    :raises ProblemsError: with every website that cannot be planned.
    """
    compared = list(filter(desired.is_compared, records))
    problems = list(desired.problems)
    changes: list[Change] = []
    for record in compared:
        if str(record["id"]) in desired.deleted_ids:
            changes.append(deletion(record))
            continue
        try:
            change = change_of(desired, record)
        except ValueError as error:
            problems.append(_problem(desired, record, str(error)))
            continue
        if change is not None:
            changes.append(change)
    for website in desired.created:
        try:
            changes.append(creation(website))
        except ValueError as error:
            problems.append((website.place, str(error)))
    if problems:
        raise ProblemsError(problems)
    return Plan(tuple(changes), len(compared), tuple(desired.protected), tuple(desired.warnings), scope or {})


def _problem(desired: DesiredState, record: Record, problem: str) -> Problem:
    """Return the problem of a website, with its place in the file; without a file, its name is the place."""
    website = desired.of(record)
    if website is None or not website.place.source:
        return Place(website_name(*website_of(record))), problem
    return website.place, problem


def creation(website: DesiredWebsite) -> Change:
    """Return the change that creates a website.

    :raises ValueError: if the privacy or the password is missing.
    """
    privacy = website.settings.get("privacy")
    if privacy is None:
        raise ValueError(
            f"{website.domain} is new and has no privacy. If it existed and was deleted, remove it from the file. "
            "Otherwise, set privacy for it, in a group, or in defaults: without it, the service would create a public "
            "statistics page"
        )
    values = dict(website.settings)
    for name, entry_list in website.lists.items():
        values[name] = entry_list.new_lines(entry_list.entries)
    values.pop(PASSWORD_FROM, None)
    changes = []
    for name, value in values.items():
        # A new website has these anyway: an empty list, and a False that a create request cannot set.
        is_default = value == () or (not value and not FIELDS[name].on_create)
        if not is_default:
            changes.append(FieldChange(name, None, value))
    if privacy == "password":
        changes.append(_password_change(website, website.domain))
    return Change("create", website.domain, None, tuple(changes))


def deletion(record: Record) -> Change:
    """Return the change that deletes a website, with all fields of its record."""
    changes = [FieldChange(name, normalize(name, record[name]), None) for name in SETTABLE_FIELDS if name in record]
    return Change("delete", *website_of(record), tuple(changes), record)


def change_of(desired: DesiredState, record: Record, earlier: Record | None = None) -> Change | None:
    """Return the change of an existing website, or None if it needs no change.

    A field that is missing in the record is sent. A password is sent when ``privacy`` becomes ``password``. Records do
    not contain passwords, so a changed password cannot be detected.

    :param earlier: its record before this run changed it. Entries that this run has removed since, and that another
        list has now, are restored.
    :raises ValueError: if a list cannot be changed (:meth:`DesiredState.unreadable`), or the password is missing.
    """
    website = desired.of(record)
    if website is None:
        return None
    why = desired.unreadable(record)
    if why:
        raise ValueError(why)
    domain, website_id = website_of(record)
    changes = []
    for name in website.compared:
        if name in LINE_FIELDS:
            change = _list_change(desired, website, name, record, earlier or {})
        else:
            change = FieldChange(name, _value(name, record), website.settings[name])
        # A field that no record has can be omitted because it is empty everywhere.
        is_omitted = change.before is None and change.after == normalize(name, FIELDS[name].omitted)
        if change.before == change.after or is_omitted:
            continue
        changes.append(change)
        if name == "privacy" and change.after == "password":
            changes.append(_password_change(website, domain))
    if not changes:
        return None
    return Change("update", domain, website_id, tuple(changes), record)


def _value(name: str, record: Record) -> Any:
    """Return the normalized value of a field; None if the record does not contain it in a known form."""
    if not has_value(name, record):
        return None
    return normalize(name, record[name])


def _list_change(
    desired: DesiredState, website: DesiredWebsite, name: str, record: Record, earlier: Record
) -> FieldChange:
    """Return the change of a list; its lines before and after it can be equal."""
    mode = desired.modes[name]
    before = _value(name, record)
    if mode == "replace" and name in record:
        before = raw_lines(name, record[name])  # so that guards count the lost lines
    after = website.lists[name].entries
    if before is not None:
        after = reconcile(name, before, after, mode, desired.removable(name, record))
    after = _with_comments(website, name, before, after)
    return FieldChange(name, before, after + _restored_lines(desired, name, after, record, earlier))


def _with_comments(website: DesiredWebsite, name: str, before: Entries | None, after: Entries) -> Entries:
    """Return the lines of a list, with the comments to send with the added entries."""
    entry_list = website.lists[name]
    if not entry_list.lines or not after:
        return after
    if not before:
        return entry_list.new_lines(after)
    lines = []
    for line in after:
        # The list of the website has its own comment lines, so only the line of an added entry is sent.
        *_comments, own_line = entry_list.lines.get(line, (line,))
        lines.append(line if line in before else own_line)
    return tuple(lines)


def _restored_lines(desired: DesiredState, name: str, after: Entries, record: Record, earlier: Record) -> Entries:
    """Return the lines that the website had before this run, and that another list has now."""
    kept = desired.kept(name, record)
    if not kept or not has_value(name, earlier):
        return ()
    key = LINE_FIELDS[name].key
    missing = set(kept) - set(map(key, after))
    return tuple(line for line in normalize(name, earlier[name]) if key(line) in missing)


def _password_change(website: DesiredWebsite, domain: str) -> FieldChange:
    """Return the change that sets the password of the statistics page."""
    reference = website.settings.get(PASSWORD_FROM)
    if reference is None:
        raise ValueError(
            f"{domain} has privacy: password, but no {PASSWORD_FROM}. Set it, here or in defaults, to "
            "variable:page_password_NAME or connection:page_password_NAME, or use privacy: private"
        )
    return FieldChange(PASSWORD_FROM, None, reference)


# Cached, because many websites have the same list and get the same list.
@functools.lru_cache(maxsize=1 << 8)
def reconcile(name: str, current: Entries, desired: Entries, mode: str, owned: Entries = ()) -> Entries:
    """Return the reconciled lines of a list.

    Remaining lines keep their text, comment, and position; new entries are appended. Lists are compared as sets: if
    nothing is added or removed, ``current`` is returned. For example, in mode ``managed``::

        reconcile("exclude_ips", ("192.0.2.1", "192.0.2.2 # Ann"), ("192.0.2.3",), "managed", ("192.0.2.1",))
        # ("192.0.2.2 # Ann", "192.0.2.3")

    :param name: field of the website that contains the list.
    :param current: lines of the website's list.
    :param desired: entries as :meth:`EntryType.parse` returns them.
    :param mode: ``"merge"`` adds missing entries; ``"replace"`` makes the list equal to ``desired``; ``"managed"`` adds
        missing entries and removes the entries in ``owned`` that are no longer desired, except for lines with a
        comment.
    :param owned: entries that the list can remove.
    """
    key = LINE_FIELDS[name].key
    present = set(map(key, current))
    removable = {"merge": set(), "managed": present & set(owned), "replace": present - {""}}[mode]
    unwanted = removable - set(desired)

    def is_kept(line: str) -> bool:
        # A line with a comment belongs to people.
        return key(line) not in unwanted or (mode == "managed" and "#" in line)

    after = (*filter(is_kept, current), *(entry for entry in desired if entry not in present))
    if mode == "replace" and not any(map(key, after)):
        # The comments belong to the removed entries. A list with only comments is not changed.
        return () if unwanted else current
    return after
