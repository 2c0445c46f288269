"""Verification of writes: *before + sent = expected*, compared with the record that the service returns.

No other module decides whether a write was applied. A response to a write proves nothing, because it may repeat the
request. So the compared record comes from a later read.

What was sent and is not returned was not applied. What was not sent may be changed by others at any time, so it is only
an *unexpected change*. Some unexpected changes are *lost values*: services that drop what is not sent cause these, and
other tools hardly ever do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.entries import line_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, RECORD_FIELDS, normalise, same_setting
from airflow_provider_analytics.readable import readable

#: Fields that are compared. The domain is compared separately, because no update changes it.
COMPARED = tuple(name for name in RECORD_FIELDS if name != "domain")

_SHOWN_ENTRIES = 3
_SHOWN_CHARACTERS = 100

#: Field to a phrase with the returned value and the expected one.
Differences = Mapping[str, str]
#: Entry and comment of a line, see :func:`entries.line_key`.
LineKey = tuple[str, str]
#: Field to value.
Record = Mapping[str, Any]


@dataclass
class Comparison:
    """Differences between a record and the expected values.

    :param not_applied: sent fields that the record does not contain as sent.
    :param unexpected: values and lines that were not sent, and differ from before.
    :param lost: field to its value before, for unexpected changes that services cause: a value fell back to its
        default, all lines of others are gone, or a comment is gone; not if someone else wrote other lines instead.
    :param kept: fields that were not sent, could have been lost, and are as before.
    :param is_reset: whether a sent list, or all that was not sent, lost values: the service may have done it.
    :param unverified: fields that were sent, or returned before, and that the record does not contain.
    :param other_domain: the returned domain, if it is not the expected one.
    """

    not_applied: dict[str, str] = field(default_factory=dict)
    unexpected: dict[str, str] = field(default_factory=dict)
    lost: dict[str, Any] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    is_reset: bool = False
    unverified: tuple[str, ...] = ()
    other_domain: str | None = None

    @property
    def holds(self) -> bool:
        """Whether everything that was sent is in effect, and nothing else was lost."""
        return not self.not_applied and not self.lost and self.other_domain is None

    @property
    def is_verified(self) -> bool:
        """Whether the record contains every compared field, and all are as expected."""
        return self.holds and not self.unexpected and not self.unverified


@dataclass(frozen=True)
class Expected:
    """Expected values of a website after a write.

    :param before: its record before the write.
    :param sent: the values that were sent, normalized.
    :param domain: its domain; empty if it is unknown.
    :param shared: lists of ``sent`` to which others may add entries at any time, and which contain lines of others. Any
        other sent list must be equal.
    """

    before: Record
    sent: Record
    domain: str = ""
    shared: frozenset[str] = frozenset()

    @classmethod
    def of_new(cls, domain: str, sent: Record) -> Expected:
        """Return the expected values of a new website: before the sent values, it had the documented defaults.

        Others may change it at once, and add to its lists.
        """
        defaults = {name: one.default for name, one in FIELDS.items() if one.default is not None}
        return cls({**defaults, **dict.fromkeys(LINE_FIELDS)}, sent, domain, shared=frozenset(LINE_FIELDS))

    def following(self, earlier: Self | None) -> Self:
        """Return the expected values after an earlier write to the same website; ``before`` is that write's.

        :param earlier: expected values after that write; None if there was none.
        """
        if earlier is None:
            return self
        sent = {**earlier.sent, **self.sent}
        for name in self.shared & earlier.sent.keys() & self.sent.keys():
            sent[name] = tuple((_by_key(name, earlier.sent) | _by_key(name, self.sent)).values())
        return replace(self, before=earlier.before, sent=sent)

    def compare(self, shown: Record, spared: Mapping[str, Collection[str]] | None = None) -> Comparison:
        """Return the differences between a record and the expected values.

        :param spared: list field to entries that may be there, although they were removed.
        """
        found = Comparison(unverified=tuple(name for name in self.sent if FIELDS[name].column is None))
        for name in COMPARED:
            is_sent = name in self.sent
            if name in LINE_FIELDS and shows(name, shown) and (is_sent or shows(name, self.before)):
                self._compare_lines(name, shown, found, (spared or {}).get(name, ()))
            elif is_sent:
                self._compare_sent(name, shown, found)
            elif _is_present(name, self.before):
                self._compare_unsent(name, shown, found)
        found.is_reset = bool(found.lost.keys() & self.sent.keys() or (found.lost and not found.kept))
        domain = shown.get("domain")
        if self.domain and isinstance(domain, str) and not same_domain(domain, self.domain):
            found.other_domain = domain
        return found

    def _compare_sent(self, name: str, shown: Record, found: Comparison) -> None:
        if not _is_present(name, shown):
            found.unverified += (name,)
        elif name in LINE_FIELDS:
            found.not_applied[name] = f"is shown in a form that is not understood: '{_text(name, shown)}'"
        elif not same_setting(name, shown[name], self.sent[name]):
            found.not_applied[name] = f"is '{_text(name, shown)}', expected '{_text(name, self.sent)}'"

    def _compare_unsent(self, name: str, shown: Record, found: Comparison) -> None:
        is_known = shows(name, shown) and shows(name, self.before)
        if not is_known:
            found.unverified += (name,)
        if not _is_present(name, shown):
            return
        # A list in a form that is not understood changes nevertheless.
        was, now = normalise(name, self.before[name]), normalise(name, shown[name])
        if was != now:
            found.unexpected[name] = f"is '{_text(name, shown)}', was '{_text(name, self.before)}'"
            if now == default_of(name):
                found.lost[name] = was
        elif is_known and was not in (default_of(name), ()):
            found.kept += (name,)

    def _compare_lines(self, name: str, shown: Record, found: Comparison, spared: Collection[str]) -> None:
        is_sent = name in self.sent
        is_exact = is_sent and name not in self.shared
        now = _by_key(name, shown)
        before = _by_key(name, self.before) if shows(name, self.before) else {}
        wanted = _by_key(name, self.sent) if is_sent else before
        missing, extra = wanted.keys() - now.keys(), now.keys() - wanted.keys()
        of_others = set[LineKey]() if is_exact else before.keys() & wanted.keys()
        gone = missing & of_others
        not_applied = _differences(
            lacks=[wanted[one] for one in missing - gone],
            has_besides=[now[one] for one in extra if is_exact or (one in before and one[0] not in spared)],
        )
        if not_applied:
            found.not_applied[name] = not_applied
        if gone:
            found.unexpected[name] = _differences(lacks=[before[one] for one in gone])
            if _is_lost(gone, of_others, extra, before.keys()):
                found.lost[name] = normalise(name, self.before[name])
        elif of_others and not is_sent:
            found.kept += (name,)


def shows(name: str, record: Record) -> bool:
    """Return whether a record contains a field in a known form; null means an empty list, or False."""
    return _is_present(name, record) and (name not in LINE_FIELDS or isinstance(normalise(name, record[name]), tuple))


def default_of(name: str) -> Any:
    """Return the documented default of a field, normalized; a new website is no favorite."""
    default = FIELDS[name].default
    return False if default is None else default


def _is_present(name: str, record: Record) -> bool:
    """Return whether a record contains a field in any form."""
    return name in record and (record[name] is not None or normalise(name, None) is not None)


def _is_lost(
    gone: Collection[LineKey], of_others: Collection[LineKey], extra: Collection[LineKey], before: Collection[LineKey]
) -> bool:
    """Return whether a service may have lost lines of others, and nobody wrote others instead.

    :param gone: the missing lines of others.
    :param extra: the lines that were not expected.
    :param before: the lines before the write.
    """
    # No service writes another comment, or an entry that was not sent.
    edited = {entry for entry, comment in extra if comment}
    lost = {(entry, comment) for entry, comment in gone if not comment or entry not in edited}
    written = {entry for entry, _ in extra} - {entry for entry, _ in before}
    return bool(lost) and not written and (len(lost) == len(of_others) or any(comment for _, comment in lost))


def _by_key(name: str, values: Record) -> dict[LineKey, str]:
    """Return the lines of a list by what identifies them."""
    key = LINE_FIELDS[name].key
    return {line_key(line, key): line for line in normalise(name, values[name])}


def _differences(**by_verb: Iterable[str]) -> str:
    """Return the differences of a list as a phrase of limited length; empty if there are none."""
    parts = []
    for verb, lines in by_verb.items():
        listed = sorted(lines)
        if listed:
            shown = ", ".join(readable(line, _SHOWN_CHARACTERS) for line in listed[:_SHOWN_ENTRIES])
            more = f" and {len(listed) - _SHOWN_ENTRIES:,} more" if len(listed) > _SHOWN_ENTRIES else ""
            parts.append(f"{verb.replace('_', ' ')} {shown}{more}")
    return " and ".join(parts)


def _text(name: str, values: Record) -> str:
    return readable(str(normalise(name, values[name])), _SHOWN_CHARACTERS)
