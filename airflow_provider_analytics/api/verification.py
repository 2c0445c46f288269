"""Whether a write was applied: *before + sent = expected*, compared with what the service shows.

The only place that decides it. A response to a write proves nothing, since it may repeat what was sent: the record
that is compared comes from a later read.
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

#: Fields that are compared; the domain is compared for itself, since no update changes it.
COMPARED = tuple(name for name in RECORD_FIELDS if name != "domain")

_SHOWN_ENTRIES = 3
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True)
class Comparison:
    """What a website shows, compared with what it should show.

    :param lacking: sent field to a phrase with the value shown and the value sent.
    :param besides: field that was not sent, and differs from before, to such a phrase.
    :param unverified: fields of which the record does not tell whether they are as expected.
    :param other_domain: the domain that is shown, if it is another one.
    :param by_others: whether a list has entries that neither were there before nor were sent: another process has
        changed the website.
    """

    lacking: Mapping[str, str] = field(default_factory=dict)
    besides: Mapping[str, str] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()
    other_domain: str | None = None
    by_others: bool = False

    @property
    def holds(self) -> bool:
        """Whether all that the record shows is as expected."""
        return not self.lacking and not self.besides and self.other_domain is None

    @property
    def is_verified(self) -> bool:
        """Whether the record shows all, and all of it is as expected."""
        return self.holds and not self.unverified


@dataclass(frozen=True)
class Expected:
    """What a website should show after a write.

    :param before: its record before the write; for a new website, what the interface says of one.
    :param sent: the values that were sent, normalised.
    :param domain: its domain; empty if it is not known.
    :param shared: lists of ``sent`` to which others may add at any time: nothing that is expected may be missing, and
        nothing that was removed may be there. Any other list that was sent has to be equal. To a list that was not
        sent, others may always add.
    :param compared: fields that are compared, besides those that were sent.
    """

    before: Mapping[str, Any]
    sent: Mapping[str, Any]
    domain: str = ""
    shared: frozenset[str] = frozenset()
    compared: tuple[str, ...] = COMPARED

    @classmethod
    def of_new(cls, domain: str, sent: Mapping[str, Any]) -> Expected:
        """Return what a new website should show: what was sent, and the defaults that the interface documents."""
        defaults = {name: one.default for name, one in FIELDS.items() if one.default is not None}
        return cls(defaults, sent, domain, compared=tuple(defaults))

    def following(self, lost: Self | None) -> Self:
        """Return what is expected after another update whose outcome is not known: what was there before it stays.

        :param lost: what that one expected; None if there is none.
        """
        if lost is None:
            return self
        sent = {**lost.sent, **self.sent}
        for name in self.shared & lost.sent.keys() & self.sent.keys():
            key = LINE_FIELDS[name].key
            both = (*normalise(name, lost.sent[name]), *normalise(name, self.sent[name]))
            lines = {line_key(line, key): line for line in both}
            sent[name] = tuple(lines.values())
        return replace(self, before=lost.before, sent=sent)

    def compare(self, shown: Mapping[str, Any]) -> Comparison:
        """Return how a record differs from what is expected."""
        lacking: dict[str, str] = {}
        besides: dict[str, str] = {}
        unverified = [name for name in self.sent if isinstance(FIELDS[name].kind, Secret)]
        for name in COMPARED:
            is_sent = name in self.sent
            if not is_sent and name not in self.compared:
                continue
            if not _is_given(name, shown) or not (is_sent or shows(name, self.before)):
                unverified.append(name)
                continue
            wanted = self.sent[name] if is_sent else self.before[name]
            is_shared = name in LINE_FIELDS and (name in self.shared or not is_sent)
            removable = (self.before[name] if shows(name, self.before) else ()) if is_shared else None
            difference = _difference(name, shown[name], wanted, removable)
            if difference:
                (lacking if is_sent else besides)[name] = difference
        by_others = any(self._strange(name, shown) for name in LINE_FIELDS)
        domain = shown.get("domain")
        is_other = bool(self.domain) and isinstance(domain, str) and not same_domain(domain, self.domain)
        return Comparison(lacking, besides, tuple(unverified), str(domain) if is_other else None, by_others)

    def _strange(self, name: str, shown: Mapping[str, Any]) -> bool:
        """Return whether a list has entries that neither were there before nor were sent.

        A service that writes entries in another case, or cuts them, is nobody else.
        """
        known = self._entries(name, self.before, self.sent)
        return not all(any(other.startswith(one) for other in known) for one in self._entries(name, shown))

    @staticmethod
    def _entries(name: str, *records: Mapping[str, Any]) -> set[str]:
        lines = (normalise(name, record[name]) for record in records if shows(name, record))
        return {LINE_FIELDS[name].key(line).casefold() for one in lines for line in one} - {""}


def shows(name: str, record: Mapping[str, Any]) -> bool:
    """Return whether a record shows a field in a form that is understood; null shows an empty list, or False."""
    return _is_given(name, record) and (name not in LINE_FIELDS or isinstance(normalise(name, record[name]), tuple))


def _is_given(name: str, record: Mapping[str, Any]) -> bool:
    """Return whether a record gives a field, in whatever form."""
    return name in record and (
        record[name] is not None or name in LINE_FIELDS or isinstance(FIELDS[name].kind, Boolean)
    )


def _difference(name: str, shown: Any, wanted: Any, removable: Any) -> str:
    """Return how a field differs, as a phrase of bounded length; empty if it does not.

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
    known = there if removable is None else {line_key(line, key) for line in normalise(name, removable)}
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
