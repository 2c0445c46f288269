# SPDX-License-Identifier: Apache-2.0
"""The desired state of websites, before it is compared with their records. Values, without I/O.

A list for many websites is a special case of a file with one field. Both become a :class:`DesiredState`, and
``plan/changes.py`` computes the changes that lead to it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.api.domains import domain_key
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import LINE_FIELDS, PASSWORD_FROM, raw_lines
from airflow_provider_analytics.api.verification import Record, has_value
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList
from airflow_provider_analytics.reconcile.desired.tables import ListTables
from airflow_provider_analytics.reconcile.desired.yaml_values import Place, Problem
from airflow_provider_analytics.reconcile.records import SETTABLE_FIELDS, website_of

MODES = ("merge", "replace", "managed")
#: Characters of a line in an error.
_MAX_LINE = 60

_NO_PLACE = Place("")


@dataclass(frozen=True)
class DesiredWebsite:
    """The desired state of one website.

    For example, ``DesiredWebsite({"privacy": "private"}, {"exclude_ips": EntryList.of(("192.0.2.1",))})``.

    :param values: field to normalized value; only the given fields, without the lists.
    :param lists: list field to its list, with sources and comments.
    :param domain: domain, as written in the file; empty if the website was selected from the records.
    :param place: place of the definition, for messages; empty if the website was selected from the records.
    :param ignored: fields that are sent when the website is created, and not changed afterwards.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    lists: Mapping[str, EntryList] = field(default_factory=dict)
    domain: str = ""
    place: Place = _NO_PLACE
    ignored: frozenset[str] = frozenset()

    @functools.cached_property
    def settings(self) -> Mapping[str, Any]:
        """Field to normalized value, such as ``{"privacy": "private", "exclude_ips": ("192.0.2.1",)}``."""
        settings = dict(self.values)
        for name, entry_list in self.lists.items():
            settings[name] = entry_list.entries
        return settings

    @property
    def compared(self) -> list[str]:
        """Fields that are compared with the record of an existing website."""
        return [name for name in self.settings if name != PASSWORD_FROM and name not in self.ignored]


@dataclass(frozen=True)
class DesiredState:
    """The desired state of all websites.

    :param by_id: website id to desired state.
    :param by_domain: domain key (:func:`domains.domain_key`) to desired state; used if the id is not in ``by_id``.
    :param created: websites to create.
    :param deleted_ids: ids of websites to delete.
    :param protected: websites that are not deleted because they are protected, as text for people.
    :param warnings: information for the approver, one sentence each.
    :param problems: websites that cannot be planned, found while the list was compared.
    :param modes: list field to its mode: ``merge``, ``replace``, or ``managed``.
    :param tables: the tables of managed lists.
    """

    by_id: Mapping[str, DesiredWebsite] = field(default_factory=dict)
    by_domain: Mapping[str, DesiredWebsite] = field(default_factory=dict)
    created: Sequence[DesiredWebsite] = ()
    deleted_ids: frozenset[str] = frozenset()
    protected: Sequence[str] = ()
    warnings: Sequence[str] = ()
    problems: Sequence[Problem] = ()
    modes: Mapping[str, str] = field(default_factory=dict)
    tables: ListTables | None = None

    def of(self, record: Record) -> DesiredWebsite | None:
        """Return the desired state of a website; None if it is left unchanged, or deleted."""
        domain, website_id = website_of(record)
        return self.by_id.get(website_id) or self.by_domain.get(domain_key(domain))

    def is_compared(self, record: Record) -> bool:
        """Return whether a website has a desired state, or is to be deleted."""
        return str(record["id"]) in self.deleted_ids or self.of(record) is not None

    @functools.cached_property
    def compared_fields(self) -> frozenset[str]:
        """Fields that are compared on any website."""
        names: set[str] = set()
        for website in (*self.by_id.values(), *self.by_domain.values()):
            names.update(website.compared)
        return frozenset(names)

    def missing_fields(self, record: Record) -> frozenset[str]:
        """Return the fields that a plan needs, and that a record lacks."""
        # All fields that any website compares, because guards count the entries of all of them. The tables of lists
        # have entries for single domains.
        fields = self.compared_fields | {"domain"}
        if str(record["id"]) in self.deleted_ids:
            fields = frozenset({*SETTABLE_FIELDS, "domain"})  # the plan contains all fields of deleted websites
        return fields - record.keys()

    def is_doubtful(self, record: Record) -> bool:
        """Return whether a record might be stale: it lacks an entry that leaves its list with this run."""
        return self.tables is not None and self.tables.doubts(record)

    @property
    def shared(self) -> frozenset[str]:
        """List fields that keep the entries that are not on this list."""
        return frozenset(name for name in LINE_FIELDS if self.modes.get(name) != "replace")

    def removable(self, name: str, record: Record) -> Entries:
        """Return the entries of a list field that a managed list can remove from a website."""
        if self.tables is None or self.modes.get(name) != "managed":
            return ()
        return self.tables.owned(name, record)

    def kept(self, name: str, record: Record) -> Mapping[str, str]:
        """Return the entries of a list field that cannot be removed, because other lists have them.

        :return: entry to the name of the other list, such as ``{"192.0.2.1": "vpn"}``.
        """
        if self.tables is None or self.modes.get(name) != "managed":
            return {}
        return self.tables.kept(name, record)

    def unreadable(self, record: Record) -> str:
        """Return why a list of a website cannot be changed without losing its entries; empty if all can be changed."""
        website = self.of(record)
        if website is None:
            return ""
        for name in website.compared:
            if name in self.shared and not has_value(name, record):
                return _why_unreadable(name, record, self.modes[name])
        return ""


def _why_unreadable(name: str, record: Record, mode: str) -> str:
    if name not in record:
        return (
            f"No record contains {name}, so its current entries are unknown, and mode={mode!r} could lose them. If all "
            "lists are empty, add one entry to a website in the service, and run the task again"
        )
    lines = raw_lines(name, record[name])
    if not lines:
        value = readable(str(record[name]), _MAX_LINE)
        return (
            f"The service returns {name} as '{value}'. This form is not supported, so mode={mode!r} would lose its "
            "current entries. Exclude the website"
        )
    return (
        f"The service returns {name} with the line '{readable(lines[-1], _MAX_LINE)}', which has several entries or is "
        f"cut off. This form is not supported, so mode={mode!r} would lose entries. Correct it on the website: one "
        "entry per line"
    )
