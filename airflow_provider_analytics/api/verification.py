# SPDX-License-Identifier: Apache-2.0
"""Verification of writes: *before + sent = expected*, compared with the record that the service returns.

No other module decides whether a write was applied. A response to a write proves nothing, because it can repeat the
request. So the compared record comes from a later read.

A sent value that the service does not return was not applied. An *unsent change* is a value that was not sent and
differs from the fetch directly before the write. The service or another process can be its cause; the record does not
say which.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from airflow_provider_analytics import SITE
from airflow_provider_analytics.api.domains import same_domain
from airflow_provider_analytics.api.entries import line_key
from airflow_provider_analytics.api.fields import FIELDS, LINE_FIELDS, RECORD_FIELDS, normalize, raw_lines, same_setting
from airflow_provider_analytics.readable import first_of, readable

#: Fields that are compared. The domain is compared separately, because no update changes it.
COMPARED = tuple(name for name in RECORD_FIELDS if name != "domain")

#: Values of a new website that was created with its domain only, normalized. The interface documents no default of the
#: lists and of ``favorite``.
NEW_WEBSITE: Mapping[str, Any] = {
    name: normalize(name, FIELDS[name].omitted if FIELDS[name].default is None else FIELDS[name].default)
    for name in COMPARED
}

#: Number of equal reads in a row after which a value that is not in effect is not waited for any longer.
EQUAL_READS = 3
_MAX_NAMED_ENTRIES = 3
_MAX_CHARACTERS = 100

#: Field to a phrase with the returned value and the expected one.
Differences = Mapping[str, str]
#: Entry and comment of a line, see :func:`entries.line_key`.
LineKey = tuple[str, str]
#: Field to value.
Record = Mapping[str, Any]


@dataclass
class Comparison:
    """Differences between a record and the expected values.

    :param record: the record as the service returned it.
    :param not_applied: sent fields that the record does not contain as sent.
    :param unsent: unsent changes: fields that were not sent and have another value than before, and lists from which
        lines of others are missing. Lines that others add are normal, and not listed.
    :param missing: of these lists, the missing lines, for lists that were sent.
    :param unverified: fields that were sent, or returned before, and that the record does not contain.
    :param other_domain: the returned domain, if it is not the expected one.
    :param is_current: whether a sent value that differs from before is in effect, so that the read was not too early.
    """

    record: Record = field(default_factory=dict)
    not_applied: dict[str, str] = field(default_factory=dict)
    unsent: dict[str, str] = field(default_factory=dict)
    missing: dict[str, frozenset[str]] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()
    other_domain: str | None = None
    is_current: bool = False

    @property
    def is_applied(self) -> bool:
        """Whether everything that was sent is in effect."""
        return not self.not_applied and self.other_domain is None

    @property
    def is_as_expected(self) -> bool:
        """Whether everything that was sent is in effect, and nothing else changed."""
        return self.is_applied and not self.unsent

    @property
    def is_verified(self) -> bool:
        """Whether the record contains every compared field, and all are as expected."""
        return self.is_as_expected and not self.unverified


@dataclass(frozen=True)
class ExpectedRecord:
    """Expected values of a website after a write.

    :param before: its record before the write.
    :param sent: the values that were sent, normalized.
    :param domain: its domain; empty if it is unknown.
    :param shared: lists of ``sent`` to which others can add entries at any time, and which contain lines of others. Any
        other sent list must be equal.
    """

    before: Record
    sent: Record
    domain: str = ""
    shared: frozenset[str] = frozenset()

    @classmethod
    def of_new(cls, domain: str, sent: Record) -> ExpectedRecord:
        """Return the expected values of a new website: before the sent values, it had the documented defaults.

        Others can change it at once, and add to its lists.
        """
        defaults = {name: field.default for name, field in FIELDS.items() if field.default is not None}
        return cls({**defaults, **dict.fromkeys(LINE_FIELDS)}, sent, domain, shared=frozenset(LINE_FIELDS))

    def following(self, earlier: Self) -> Self:
        """Return the expected values after an earlier write to the same website; ``before`` is that write's.

        :param earlier: expected values after that write.
        """
        if not earlier.sent:
            return self
        later = self.since({**earlier.before, **earlier.sent})
        return replace(later, before=earlier.before, sent={**earlier.sent, **later.sent})

    def since(self, earlier: Record) -> Self:
        """Return the expected values of a website that had other values before ``before``.

        A sent list must also contain the earlier lines that this write did not remove. Otherwise, a list that is
        computed from the remaining lines would hide lost ones.

        :param earlier: its record at an earlier time.
        """
        sent = dict(self.sent)
        for name in self.shared & sent.keys():
            if has_value(name, earlier) and has_value(name, self.before):
                own = _by_key(name, self.sent)
                removed = _by_key(name, self.before).keys() - own.keys()
                kept = {key: line for key, line in _by_key(name, earlier).items() if key not in removed}
                sent[name] = tuple((kept | own).values())
        return replace(self, before=earlier, sent=sent)

    def compare(self, record: Record, allowed: Mapping[str, Collection[str]] | None = None) -> Comparison:
        """Return the differences between a record and the expected values.

        :param record: the record, with the fields that the service omits if they are empty (:func:`with_omitted`).
        :param allowed: list field to entries that the record can contain, although they were removed.
        """
        found = Comparison(record, unverified=tuple(name for name in self.sent if FIELDS[name].column is None))
        for name in COMPARED:
            if name in self.sent:
                self._compare_sent(name, record, found, (allowed or {}).get(name, ()))
                is_in_effect = name not in found.not_applied and name not in found.unverified
                if is_in_effect and not self._had(name):
                    found.is_current = True
            elif is_present(name, self.before):
                self._compare_unsent(name, record, found)
        domain = record.get("domain")
        if self.domain and isinstance(domain, str) and not same_domain(domain, self.domain):
            found.other_domain = domain
        return found

    def _had(self, name: str) -> bool:
        """Return whether the website had the sent value before, or its value before is unknown."""
        return not has_value(name, self.before) or same_setting(name, self.before[name], self.sent[name])

    def _compare_sent(self, name: str, record: Record, found: Comparison, allowed: Collection[str]) -> None:
        if not is_present(name, record):
            found.unverified += (name,)
        elif not has_value(name, record):
            found.not_applied[name] = f"is returned in an unknown form: {_text(name, record)}"
        elif name in LINE_FIELDS:
            self._compare_sent_lines(name, record, found, allowed)
        elif not same_setting(name, record[name], self.sent[name]):
            found.not_applied[name] = f"is {_text(name, record)}, expected {_text(name, self.sent)}"

    def _compare_sent_lines(self, name: str, record: Record, found: Comparison, allowed: Collection[str]) -> None:
        now, sent = _by_key(name, record), _by_key(name, self.sent)
        before: dict[LineKey, str] = {}
        if has_value(name, self.before):
            before = _by_key(name, self.before)
        missing, extra = sent.keys() - now.keys(), now.keys() - sent.keys()
        lines_of_others: set[LineKey] = set()
        if name in self.shared:
            lines_of_others = missing & before.keys()
            missing -= lines_of_others
            # Only removed lines: others might have added the rest.
            extra = {key for key in extra & before.keys() if key[0] not in allowed}
        if missing or extra:
            found.not_applied[name] = _phrase([sent[key] for key in missing], [now[key] for key in extra])
        if lines_of_others:
            found.missing[name] = frozenset(before[key] for key in lines_of_others)
            found.unsent[name] = _phrase(found.missing[name])

    def _compare_unsent(self, name: str, record: Record, found: Comparison) -> None:
        if not is_present(name, record):
            found.unverified += (name,)
        elif has_value(name, record) and has_value(name, self.before) and name in LINE_FIELDS:
            now, before = _by_key(name, record), _by_key(name, self.before)
            missing = before.keys() - now.keys()
            if missing:
                found.unsent[name] = _phrase([before[key] for key in missing])
        elif normalize(name, self.before[name]) != normalize(name, record[name]):
            found.unsent[name] = f"is {_text(name, record)}, was {_text(name, self.before)}"


def cause_of(expected: ExpectedRecord, record: Record) -> str:
    """Return why a sent value is not in the record, as a sentence; empty if the record does not reveal it."""
    for name in expected.sent:
        if is_present(name, record) and not has_value(name, record):
            return f"This form of {name} is not supported. Supported forms: {SITE}reference/interface/#supported-forms"
    for name in LINE_FIELDS.keys() & expected.sent.keys():
        stored, before = raw_lines(name, record.get(name)), raw_lines(name, expected.before.get(name))
        if not stored:
            continue
        if not expected.sent[name] and stored == before:
            return f"The service ignores an empty value of {name}."
        sent_bytes, stored_bytes = "\n".join(expected.sent[name]).encode(), "\n".join(stored).encode()
        is_cut = len(stored_bytes) < len(sent_bytes) and sent_bytes.startswith(stored_bytes)
        if is_cut and stored != before:
            sizes = f"{len(stored_bytes):,} of {len(sent_bytes):,} bytes"
            value = readable(", ".join(before or ()), _MAX_CHARACTERS) or "empty"
            return f"The service kept the first {sizes} of {name}. Shorten the list. Value before: {value}."
    return ""


def is_final(reads: Sequence[Comparison]) -> bool:
    """Return whether later reads of a website are likely to be like the last ones.

    Three reads in a row are equal, and the last one returned another value of the same write, so it was not too early.
    """
    last = reads[-EQUAL_READS:]
    is_equal = all(read.not_applied == last[0].not_applied and read.unsent == last[0].unsent for read in last)
    return len(last) == EQUAL_READS and is_equal and last[-1].is_current


def is_present(name: str, record: Record) -> bool:
    """Return whether a record contains a field in any form; null counts if it means an empty text or list, or False."""
    return name in record and (record[name] is not None or normalize(name, None) is not None)


def has_value(name: str, record: Record) -> bool:
    """Return whether a record contains a field in a known form."""
    if name in LINE_FIELDS:
        return is_present(name, record) and isinstance(normalize(name, record[name]), tuple)
    return is_present(name, record) and not isinstance(record[name], (dict, list))


def with_omitted(record: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return a record with the fields that the service omits if they are empty, false, or zero.

    Go's ``omitempty``, Laravel's ``whenNotNull``, and Jackson's ``NON_NULL`` do this. If other records have a field,
    its absence is a value. If no record has it, its value is unknown, and the record stays without it.

    :param known: the fields that other records of the account contain.
    """
    omitted = {}
    for name in COMPARED:
        if name in known and not is_present(name, record):
            omitted[name] = FIELDS[name].omitted
    return {**record, **omitted}


def present_fields(record: Record) -> set[str]:
    """Return the compared fields that a record contains."""
    return {name for name in COMPARED if is_present(name, record)}


def _by_key(name: str, values: Record) -> dict[LineKey, str]:
    """Return the lines of a list by entry and comment."""
    key = LINE_FIELDS[name].key
    return {line_key(line, key): line for line in normalize(name, values[name])}


def _phrase(missing: Iterable[str], extra: Iterable[str] = ()) -> str:
    """Return the differences of a list as a phrase of limited length."""
    phrases = []
    for verb, lines in (("lacks", sorted(missing)), ("still has", sorted(extra))):
        if lines:
            named = first_of([readable(line, _MAX_CHARACTERS) for line in lines], _MAX_NAMED_ENTRIES)
            phrases.append(f"{verb} {named}")
    return " and ".join(phrases)


def _text(name: str, values: Record) -> str:
    value = normalize(name, values[name])
    text = readable(str(value), _MAX_CHARACTERS)
    if isinstance(value, str):
        return f"'{text}'"
    return text
