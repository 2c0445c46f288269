# SPDX-License-Identifier: Apache-2.0
"""The desired state of websites, before it is compared with their records. Values, without I/O.

A list for many websites is a special case of a file with one field. Both become a :class:`DesiredState`, and
``plan/changes.py`` computes the changes that lead to it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_analytics.api.checks import invalid_together
from airflow_provider_analytics.api.domains import check_domain, domain_key, is_pattern, matches, might_become
from airflow_provider_analytics.api.entries import Entries
from airflow_provider_analytics.api.fields import (
    LINE_FIELDS,
    PASSWORD_FROM,
    SETTABLE_FIELDS,
    raw_lines,
    website_name,
    website_of,
)
from airflow_provider_analytics.api.verification import Record, has_value, is_present
from airflow_provider_analytics.readable import readable
from airflow_provider_analytics.reconcile.desired.list_lines import EntryList, EntrySource
from airflow_provider_analytics.reconcile.desired.tables import ListTables, Rows
from airflow_provider_analytics.reconcile.desired.yaml_values import Place, Problem

if TYPE_CHECKING:
    from airflow_provider_analytics.api.client import AnalyticsClient
    from airflow_provider_analytics.reconcile.service_websites import Websites


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
    :param create_only: whether existing websites are left unchanged.
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
    create_only: bool = False

    def of(self, record: Record) -> DesiredWebsite | None:
        """Return the desired state of a website; None if it is left unchanged, or deleted."""
        domain, website_id = website_of(record)
        return self.by_id.get(website_id) or self.by_domain.get(domain_key(domain))

    def of_new(self, record: Record) -> DesiredState:
        """Return the desired state for a website that this run has created: no field is ignored."""
        website = self.of(record)
        if website is None:
            return self
        return replace(self, by_id={str(record["id"]): replace(website, ignored=frozenset())})

    def only_at_first(self, domain: str) -> frozenset[str]:
        """Return the fields of a new website that later runs do not change."""
        website = self.by_domain.get(domain_key(domain))
        if website is None:
            return frozenset()
        if self.create_only:
            return frozenset(website.settings)
        return website.ignored

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
        """Return whether a record might be stale: it lacks an entry that this run removes from its list."""
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
        """Return why a website cannot be changed, or only by losing entries of a list; empty if it can be changed."""
        website = self.of(record)
        if website is None:
            return ""
        for name in website.compared:
            if name in self.shared and not has_value(name, record):
                return _why_unreadable(name, record, self.modes[name])
            if name not in LINE_FIELDS and is_present(name, record) and not has_value(name, record):
                value = readable(str(record[name]), _MAX_LINE)
                return f"The service returns {name} as '{value}'. This form is not supported"
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


@dataclass
class WebsitesAsCode:
    """The content of one or several files, and how to handle websites that are not in it.

    For example, the file ``websites: {www.example.com: {privacy: private}}`` has
    ``by_domain={"www.example.com": DesiredWebsite({"privacy": "private"}, domain="www.example.com")}``.

    :param by_domain: domain key (:func:`domains.domain_key`) to website, with defaults and groups applied.
    :param modes: list field to its mode: ``merge``, ``replace``, or ``managed``, see :func:`changes.reconcile`.
    :param protected: domains, or patterns, of websites that are never deleted.
    :param parts: list field to the lists of defaults, groups and websites.
    :param prune: also delete the websites that are not in the file, unless they are protected.
    :param create_only: only create websites, and leave existing ones unchanged.
    """

    by_domain: dict[str, DesiredWebsite] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    protected: list[str] = field(default_factory=list)
    parts: dict[str, list[EntryList]] = field(default_factory=dict)
    prune: bool = False
    create_only: bool = False

    def __post_init__(self) -> None:
        if self.prune and self.create_only:
            raise invalid_together(prune=True, create_only=True)

    @property
    def protected_patterns(self) -> list[str]:
        """The protected patterns, without the protected websites of the file, which are not deleted anyway."""
        return list(filter(is_pattern, self.protected))

    @property
    def websites(self) -> list[DesiredWebsite]:
        """The websites, in the order of the files."""
        return list(self.by_domain.values())

    @property
    def managed(self) -> list[str]:
        """List fields that need a table: those that a website sets, in mode ``managed``."""
        return [name for name, mode in self.modes.items() if mode == "managed" and name in self.parts]

    @property
    def scopes(self) -> Rows:
        """List field to domain to the entries of this run; none for a field that is not managed, or not any more."""
        rows: dict[str, dict[str, Mapping[str, EntrySource]]] = {name: {} for name in LINE_FIELDS}
        for name in self.managed:
            for key, website in self.by_domain.items():
                if name in website.lists:
                    rows[name][key] = website.lists[name].recorded
        return rows

    def read(self, client: AnalyticsClient) -> Websites:
        """Read the complete list."""
        from airflow_provider_analytics.reconcile.service_websites import (
            Websites,  # slow, and not needed to check files
        )

        return Websites(client, client.list_websites(), complete=True)

    def resolve(self, records: Sequence[Record]) -> DesiredState:
        """Return the desired state of each website."""
        ids: dict[str, list[str]] = {}  # domain key to the ids of its websites
        not_in_the_files = []
        for record in records:
            domain, website_id = website_of(record)
            key = domain_key(domain)
            ids.setdefault(key, []).append(website_id)
            if key not in self.by_domain:
                not_in_the_files.append(record)
        created = {key: website for key, website in self.by_domain.items() if key not in ids}
        deleted_ids, protected = self._prune(not_in_the_files)
        warnings, problems = self._unused_protections(records), list(self._problems(ids))
        duplicates = list(self._duplicates(ids))
        if self.create_only:  # existing websites are not changed
            warnings += [text for _place, text in duplicates]
        else:
            problems += duplicates
        return DesiredState(
            by_domain=created if self.create_only else self.by_domain,
            created=list(created.values()),
            deleted_ids=deleted_ids,
            protected=protected,
            warnings=warnings,
            problems=problems,
            modes=self.modes,
            create_only=self.create_only,
        )

    def _prune(self, not_in_the_files: Sequence[Record]) -> tuple[frozenset[str], list[str]]:
        """Return the ids of the websites to delete, and the websites that are protected, each with the reason."""
        deleted_ids: set[str] = set()
        protected: list[str] = []
        if not self.prune:
            return frozenset(), protected
        patterns = self.protected_patterns
        for record in not_in_the_files:
            domain, website_id = website_of(record)
            why = _why_protected(domain, patterns)
            if why is None:
                deleted_ids.add(website_id)
            else:
                protected.append(f"{website_name(domain, website_id)}: {why}")
        return frozenset(deleted_ids), protected

    def _unused_protections(self, records: Sequence[Record]) -> list[str]:
        """Return a warning for each protected domain or pattern that matches no website."""
        domains = [domain for domain, _website_id in map(website_of, records)]
        keys = set(map(domain_key, domains))
        warnings = []
        for name in self.protected:
            is_used = domain_key(name) in keys
            if is_pattern(name):
                is_used = any(matches(name, domain) for domain in domains)
            if not is_used:
                warnings.append(f"{name} is protected, but no website matches it")
        return warnings

    def _duplicates(self, ids: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
        """Yield the domains that have several websites.

        :param ids: as for :meth:`_problems`.
        """
        for key, website in self.by_domain.items():
            if len(ids.get(key, ())) > 1:
                several = f"several websites have the domain {website.domain}: ids {', '.join(ids[key])}"
                yield website.place, f"{several}. Delete all but one"

    def _problems(self, ids: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
        """Yield why websites cannot be planned.

        :param ids: domain key to the ids of its websites; the empty key for websites without a domain.
        """
        for key, website in self.by_domain.items():
            if key in ids:
                continue
            # A service that drops "www." would create the same website in each run.
            for other in sorted(might_become(website.domain) & ids.keys() - self.by_domain.keys()):
                yield (
                    website.place,
                    f"{website.domain} does not exist, but {other} (id {ids[other][0]}) does: the service might write "
                    "the domain in this way. Use its spelling; if these are two websites, list both",
                )
            for website_id in ids.get("", ()):
                yield website.place, f"the record of website {website_id} has no domain: it might be {website.domain}"


def _why_protected(domain: str, patterns: Iterable[str]) -> str | None:
    """Return why a website that is not in the file is not deleted; None if it can be deleted.

    :param patterns: the protected patterns.
    """
    try:
        check_domain(domain)
    except ValueError:
        return "its domain is not allowed in a file"
    for pattern in patterns:
        if matches(pattern, domain):
            return f"{pattern} is protected"
    return None
