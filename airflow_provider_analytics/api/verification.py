"""Verification of writes: *before + sent = expected*, compared with the record that the service returns.

No other module decides whether a write was applied. A response to a write proves nothing, because it may repeat the
request. So the compared record comes from a later read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.entries import line_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, RECORD_FIELDS, normalise, same_setting
from airflow_provider_analytics.api.kinds import Boolean, Secret
from airflow_provider_analytics.readable import readable

#: Fields that are compared. The domain is compared separately, because no update changes it.
COMPARED = tuple(name for name in RECORD_FIELDS if name != "domain")

_SHOWN_ENTRIES = 3
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Comparison:
    """Differences between a record and the expected values.

    :param lacking: sent field to a phrase with the returned value and the sent value.
    :param besides: field that was not sent but differs from before, to such a phrase.
    :param unverified: fields that the record cannot verify.
    :param other_domain: the returned domain, if it is not the expected one.
    :param by_others: whether a list has entries that were neither there before nor sent: another process changed the
        website.
    """

    lacking: Mapping[str, str] = field(default_factory=dict)
    besides: Mapping[str, str] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()
    other_domain: str | None = None
    by_others: bool = False

    @property
    def holds(self) -> bool:
        """Whether every field in the record is as expected."""
        return not self.lacking and not self.besides and self.other_domain is None

    @property
    def is_verified(self) -> bool:
        """Whether the record contains every compared field, and all are as expected."""
        return self.holds and not self.unverified


@dataclass(frozen=True)
class Expected:
    """Expected values of a website after a write.

    :param before: its record before the write; for a new website, the documented defaults.
    :param sent: the values that were sent, normalized.
    :param domain: its domain; empty if it is unknown.
    :param shared: lists of ``sent`` to which others may add entries at any time: only missing entries, and removed ones
        that are still there, are differences. Any other sent list must be equal. Others may always add entries to a
        list that was not sent.
    :param compared: fields to compare in addition to those sent.
    """

    before: Mapping[str, Any]
    sent: Mapping[str, Any]
    domain: str = ""
    shared: frozenset[str] = frozenset()
    compared: tuple[str, ...] = COMPARED

    @classmethod
    def of_new(cls, domain: str, sent: Mapping[str, Any]) -> Expected:
        """Return the expected values of a new website: the sent values and the documented defaults."""
        defaults = {name: one.default for name, one in FIELDS.items() if one.default is not None}
        return cls(defaults, sent, domain, compared=tuple(defaults))

    def following(self, lost: Self | None) -> Self:
        """Return the expected values after an earlier update whose outcome is unknown; ``before`` is that update's.

        :param lost: expected values of that update; None if there was none.
        """
        if lost is None:
            return self
        sent = {**lost.sent, **self.sent}
        for name in self.shared & lost.sent.keys() & self.sent.keys():
            key = LINE_FIELDS[name].key
            both = (*normalise(name, lost.sent[name]), *normalise(name, self.sent[name]))
            lines = {line_key(line, key): line for line in both}
            sent[name] = tuple(lines.values())
        return replace(self, before=lost.before, sent=sent, compared=lost.compared)

    def compare(self, shown: Mapping[str, Any]) -> Comparison:
        """Return the differences between a record and the expected values."""
        lacking: dict[str, str] = {}
        besides: dict[str, str] = {}
        unverified = [name for name in self.sent if isinstance(FIELDS[name].kind, Secret)]
        for name in COMPARED:
            is_sent = name in self.sent
            if not is_sent and name not in self.compared:
                continue
            if not _is_present(name, shown) or not (is_sent or shows(name, self.before)):
                unverified.append(name)
                # A list in a form that is not understood changes nevertheless.
                if not is_sent and name in shown and shown[name] != self.before.get(name, shown[name]):
                    was, now = (readable(str(one), _SHOWN_CHARACTERS) for one in (self.before[name], shown[name]))
                    besides[name] = f"is shown as '{now}', was '{was}'"
                continue
            wanted = self.sent[name] if is_sent else self.before[name]
            is_shared = name in LINE_FIELDS and (name in self.shared or not is_sent)
            known = normalise(name, self.before[name]) if shows(name, self.before) else ()
            removable = known if is_shared else None
            difference = _difference(name, shown[name], wanted, removable)
            if difference:
                (lacking if is_sent else besides)[name] = difference
        by_others = any(self._has_unknown_entries(name, shown) for name in LINE_FIELDS)
        domain = shown.get("domain")
        is_other = bool(self.domain) and isinstance(domain, str) and not same_domain(domain, self.domain)
        return Comparison(lacking, besides, tuple(unverified), str(domain) if is_other else None, by_others)

    def _has_unknown_entries(self, name: str, shown: Mapping[str, Any]) -> bool:
        """Return whether a list has entries that were neither there before nor sent.

        Entries that the service cuts, or writes in another case, do not count.
        """
        known = self._entries(name, self.before, self.sent)
        return not all(any(other.startswith(one) for other in known) for one in self._entries(name, shown))

    @staticmethod
    def _entries(name: str, *records: Mapping[str, Any]) -> set[str]:
        lines = (normalise(name, record[name]) for record in records if shows(name, record))
        return {LINE_FIELDS[name].key(line).casefold() for one in lines for line in one} - {""}


def shows(name: str, record: Mapping[str, Any]) -> bool:
    """Return whether a record contains a field in a known form; null means an empty list, or False."""
    return _is_present(name, record) and (name not in LINE_FIELDS or isinstance(normalise(name, record[name]), tuple))


def _is_present(name: str, record: Mapping[str, Any]) -> bool:
    """Return whether a record contains a field in any form."""
    return name in record and (
        record[name] is not None or name in LINE_FIELDS or isinstance(FIELDS[name].kind, Boolean)
    )


def _difference(name: str, shown: Any, wanted: Any, removable: Any) -> str:
    """Return the difference in a field as a phrase of limited length; empty if there is none.

    :param removable: of a list to which others may add, its lines before; None if nothing may be added.
    """
    if name not in LINE_FIELDS:
        if same_setting(name, shown, wanted):
            return ""
        return f"is '{_text(name, shown)}', expected '{_text(name, wanted)}'"
    if not isinstance(normalise(name, shown), tuple):
        return f"is shown in a form that is not understood: '{readable(str(shown), _SHOWN_CHARACTERS)}'"
    key = LINE_FIELDS[name].key
    there = {line_key(line, key): line for line in normalise(name, shown)}
    expected = {line_key(line, key): line for line in normalise(name, wanted)}
    known = there if removable is None else {line_key(line, key) for line in removable}
    parts = []
    for verb, lines in (
        ("lacks", [line for one, line in expected.items() if one not in there]),
        ("has besides", [line for one, line in there.items() if one not in expected and one in known]),
    ):
        if lines:
            more = f" and {len(lines) - _SHOWN_ENTRIES:,} more" if len(lines) > _SHOWN_ENTRIES else ""
            listed = ", ".join(readable(line, _SHOWN_CHARACTERS) for line in sorted(lines)[:_SHOWN_ENTRIES])
            parts.append(f"{verb} {listed}{more}")
    return " and ".join(parts)


def _text(name: str, value: Any) -> str:
    return readable(str(normalise(name, value)), _SHOWN_CHARACTERS)
