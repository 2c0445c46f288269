# SPDX-License-Identifier: Apache-2.0
"""The steps about updates: each field alone, both update methods, and the repetition of each update.

All fields get other values first (the first round), and then their first values again (the second round). So each
field is sent alone while every other field has a value that an update could reset: a value that differs from its
default. Each update is repeated; the repetition finds nothing to change, and must send no write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_analytics.acceptance.findings import WITH_EXTRA, reason
from airflow_provider_analytics.acceptance.state import OldRecordError, RunState
from airflow_provider_analytics.acceptance.statements import REPEATED, Extras
from airflow_provider_analytics.api import dialect
from airflow_provider_analytics.api.client import AnalyticsClient
from airflow_provider_analytics.api.dialect import Record
from airflow_provider_analytics.api.fields import (
    FIELDS,
    LINE_FIELDS,
    UPDATE_FIELDS,
    check_update,
    normalise,
    same_setting,
)
from airflow_provider_analytics.api.verification import Comparison, ExpectedRecord, present_fields
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsError,
    NotFoundError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import counted

_OTHER_METHOD = {"PATCH": "PUT", "PUT": "PATCH"}
_PAGE_PASSWORD = "acceptance-page-password"  # noqa: S105 - of the disposable website
#: Field to the settings that are sent in the first round. A password needs the privacy *password*. The favorite is the
#: last one: the filter by favorites and the other update method are tested next, and another update might reset it.
FIRST_ROUND: Mapping[str, Mapping[str, Any]] = {
    "privacy": {"privacy": "private"},
    "password": {"privacy": "password", "password": _PAGE_PASSWORD},
    "email": {"email": True},
    "exclude_bots": {"exclude_bots": False},
    "exclude_params": {"exclude_params": ["acceptance_a", "acceptance_b"]},
    "exclude_ips": {"exclude_ips": ["192.0.2.1", "2001:db8::1"]},
    "favorite": {"favorite": True},
}
#: The same of the second round: the defaults, and a network.
SECOND_ROUND: Mapping[str, Mapping[str, Any]] = {
    "privacy": {"privacy": "public"},
    "password": {"password": f"{_PAGE_PASSWORD}-2"},
    "email": {"email": False},
    "exclude_bots": {"exclude_bots": True},
    "exclude_params": {"exclude_params": []},
    "exclude_ips": {"exclude_ips": ["192.0.2.1", "198.51.100.0/24"]},
    "favorite": {"favorite": False},
}
#: Settings that are sent with the other update method between the rounds.
BETWEEN_ROUNDS: Mapping[str, Any] = {"privacy": "private"}


@dataclass
class UpdateStep:
    """The result of an update and of its repetition.

    :param method: update method.
    :param settings: the settings.
    :param is_sent: whether the update was sent.
    :param can_reset: whether a field that was not sent had another value than its default.
    :param error: why the service rejected it; None if the service accepted it.
    :param comparison: the website after it; empty after an error.
    :param is_repeated: whether the repetition sent a write.
    """

    method: str
    settings: Mapping[str, Any]
    is_sent: bool = False
    can_reset: bool = False
    error: AnalyticsError | None = None
    comparison: Comparison = field(default_factory=Comparison)
    is_repeated: bool = False

    @property
    def works(self) -> bool:
        """Whether the service accepted and stored all values, as far as it returns them."""
        return self.error is None and not self.comparison.not_applied

    @property
    def problem(self) -> str:
        """Description of the failure."""
        if self.error:
            return f"The update failed: {reason(self.error).removesuffix('.')}"
        return "; ".join(map(" ".join, self.comparison.not_applied.items()))


class Updates:
    """The updates of a run.

    :param state: state of the run.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._findings = state.findings
        self._sent: list[UpdateStep] = []
        #: Whether all updates were sent.
        self._is_complete = False

    @property
    def made_favorite(self) -> bool:
        """Whether the first round marked the website as a favorite."""
        return any(update.works and "favorite" in update.settings for update in self._sent)

    def run_first_round(self) -> None:
        """Give each field another value than its default."""
        for name, settings in FIRST_ROUND.items():
            self._state.step = f"update {name}"
            self._update_field(name, settings)

    def run_second_round(self) -> None:
        """Send one update with the other method, give each field its first value again, and conclude."""
        self._state.step = "the other update method"
        self._update_with_other_method()
        for name, settings in SECOND_ROUND.items():
            self._state.step = f"update {name} again"
            self._update_field(name, settings)
        self._is_complete = True
        self.conclude()

    def _update_field(self, name: str, settings: Mapping[str, Any]) -> None:
        """Send an update of one field. If it does not work, try other extras."""
        row = f"{name}-values"
        if self._findings.fails(row):
            return
        update = self._update(settings)
        if update.works:
            self._add_stored(name, update)
            return
        for extras in self._alternatives(name):
            other = self._update(settings, extras)
            if other.works:
                if "update_method" in extras:
                    row = "update-methods"  # it concerns all fields
                self._findings.replace(row, "SET", f"{update.problem}. It works with the extra.", WITH_EXTRA, extras)
                self._add_stored(name, other)
                return
        self._findings.replace(row, "FAILS", f"{update.problem}.", f"fail if they change {name}")

    def _update(self, settings: Mapping[str, Any], extras: Extras | None = None) -> UpdateStep:
        """Send an update, verify it, and repeat it."""
        client = self._state.client(extras)
        update = UpdateStep(client.settings.update_method, check_update(**settings))
        try:
            self._send_and_repeat(client, update)
        except (AnalyticsApiError, UnexpectedResponseError) as error:
            update.error = error
        self._sent.append(update)
        return update

    def _send_and_repeat(self, client: AnalyticsClient, update: UpdateStep) -> None:
        transport = self._state.transport
        expected: list[ExpectedRecord] = []

        def work_out(record: Record) -> Mapping[str, Any] | None:
            if not transport.is_read_current and not self._is_known(record):
                raise OldRecordError
            # As AnalyticsClient.update_website: an update that changes nothing is not sent.
            expected.append(ExpectedRecord(record, update.settings, self._state.stored_domain))
            if expected[-1].compare(record).is_verified:
                return None
            return update.settings

        sent = transport.writes
        self._state.proven(lambda: client.change_website(self._state.website_id, work_out))
        update.is_sent = transport.writes > sent
        if not update.is_sent:
            return
        update.can_reset = _can_reset(expected[0].before, update.settings)
        update.comparison = self._read_after(client, expected[0])
        self._state.record = dict(update.comparison.record)
        if update.works:
            sent = transport.writes
            self._state.proven(lambda: client.change_website(self._state.website_id, work_out))
            update.is_repeated = transport.writes > sent

    def _read_after(self, client: AnalyticsClient, expected: ExpectedRecord) -> Comparison:
        """Read the website after an update. An unexpected record is read again, while the service can be late."""
        website_id = self._state.website_id
        reset = set(self._reset_fields(client.settings.update_method))

        def read() -> Comparison:
            return expected.compare(client.read_website(website_id))

        def is_expected(comparison: Comparison) -> bool:
            return comparison.is_applied and reset.issuperset(comparison.unsent)

        if reset:
            # An earlier update was read again and again. One more read proves further fields.
            comparison = self._state.proven(read, is_expected)
            if comparison.is_applied:
                return comparison
        else:
            with suppress(NotFoundError):
                comparison = read()
                if is_expected(comparison):
                    return comparison
        comparison = client.read_until(website_id, expected)
        if comparison.is_as_expected:
            self._state.transport.is_late = True
        return comparison

    def _is_known(self, record: Record) -> bool:
        """Return whether a record has the same values as the record after the last write."""
        known = self._state.record
        for name in present_fields(record) & present_fields(known):
            if normalise(name, record[name]) != normalise(name, known[name]):
                return False
        return True

    def _alternatives(self, name: str) -> Iterator[Extras]:
        """Yield extras that may help if a field is rejected or not stored."""
        current = self._state.client().settings
        if name == "favorite":
            for boolean_format in dialect.BOOLEAN_FORMATS:
                if boolean_format != current.boolean_format:
                    yield {"boolean_format": boolean_format}
        if not self._any_works():
            yield {"update_method": _OTHER_METHOD[current.update_method]}

    def _any_works(self) -> bool:
        return any(update.works for update in self._sent)

    def _add_stored(self, name: str, update: UpdateStep) -> None:
        """Add the finding for a stored field."""
        row = f"{name}-values"
        if not update.is_sent:
            return
        if name in update.comparison.unverified:
            tasks = "send it in each run, and cannot verify it"
            if name == "password":
                self._findings.add(row, "ok", "Accepted, but not returned.", tasks)
            else:
                self._findings.add(row, "note", "Accepted, but not returned.", tasks)
        elif name in update.comparison.record:
            seen = f"Stored, and returned as {_form(update.comparison.record[name])}."
            self._findings.add(row, "ok", seen, "verify it")

    def _update_with_other_method(self) -> None:
        """Send one update with the other method, while all other fields could be reset."""
        if "update-methods" in self._findings:
            return
        current = self._state.client().settings.update_method
        method = _OTHER_METHOD[current]
        update = self._update(BETWEEN_ROUNDS, {"update_method": method})
        if not update.works:
            seen = f"{method} does not work: {update.problem}."
            self._findings.add("update-methods", "note", seen, f"use {current}")

    # Conclusions

    def conclude(self) -> None:
        """Add the findings about all updates."""
        method = self._state.client().settings.update_method
        self._conclude_resets(method, _OTHER_METHOD[method])
        self._conclude_methods(method, _OTHER_METHOD[method])
        self._conclude_records()
        self._conclude_repetitions()
        self._conclude_lines()

    def _conclude_resets(self, method: str, other_method: str) -> None:
        name = "update-no-defaults"
        reset = self._reset_fields(method)
        reset_by_other = self._reset_fields(other_method)
        if not reset and not self._is_complete:
            seen = f"{method} kept them in {counted(len(self._sent), 'update')}; not all were sent."
            self._findings.add(name, "?", seen, "change single websites first, to find out")
        elif not reset:
            seen = f"{method} keeps them. Each field was sent alone while all others could be reset."
            self._findings.add(name, "ok", seen, "send only the fields that change")
        elif self._could_reset(other_method) and not reset_by_other:
            seen = f"{method} resets {', '.join(reset)}, {other_method} keeps them."
            self._findings.add(name, "SET", seen, WITH_EXTRA, {"update_method": other_method})
        else:
            tasks = "stop after two websites, restore them, and fail; with a single website, fail without restoring it"
            self._findings.add(name, "FAILS", f"{method} resets {', '.join(reset)}.", tasks)

    def _conclude_methods(self, method: str, other_method: str) -> None:
        reset_by_other = self._reset_fields(other_method)
        if reset_by_other and not self._reset_fields(method):
            seen = f"{other_method} resets {', '.join(reset_by_other)}, {method} keeps them."
            tasks = f"use {method}; do not set the extra update_method"
            self._findings.add("update-methods", "note", seen, tasks)
        elif any(update.works for update in self._sent if update.method == other_method):
            self._findings.add("update-methods", "ok", "Both work.", f"use {method}")

    def _could_reset(self, method: str) -> bool:
        """Return whether an update with a method worked while it could have reset a field."""
        return any(update.works and update.can_reset for update in self._sent if update.method == method)

    def _reset_fields(self, method: str) -> list[str]:
        """Return the fields that updates with a method changed although they did not send them."""
        names: set[str] = set()
        for update in self._sent:
            if update.method == method and update.is_sent:
                names.update(update.comparison.unsent)
        return list(filter(names.__contains__, UPDATE_FIELDS))

    def _conclude_records(self) -> None:
        names: set[str] = set()
        for update in self._sent:
            names.update(update.comparison.unverified)
        hidden = [name for name in sorted(names) if FIELDS[name].column]
        if hidden:
            seen = f"Records lack {', '.join(hidden)}."
            self._findings.add("operation-show", "note", seen, "send these fields in each run, and cannot verify them")
        elif any(update.is_sent for update in self._sent):
            self._findings.add("operation-show", "ok", "Records have all fields.", "verify each change with it")

    def _conclude_repetitions(self) -> None:
        if not self._any_works():
            return
        hidden: set[str] = set()
        for update in self._sent:
            if not update.is_repeated:
                continue
            if not update.comparison.unverified:
                self._findings.add(REPEATED, "FAILS", "Writes were sent again.", "send the same values in each run")
                return
            hidden.update(update.comparison.unverified)
        seen = "No write was sent again."
        if hidden:
            seen = (
                f"No write was sent again, except for {', '.join(sorted(hidden))}, which the service does not return."
            )
        self._findings.add(REPEATED, "ok", seen, "send nothing if nothing differs")

    def _conclude_lines(self) -> None:
        for update in self._sent:
            record = update.comparison.record
            for name in LINE_FIELDS:
                if update.works and name in update.settings and record.get(name):
                    seen = f"Returned as {_form_of_lines(record[name])}."
                    self._findings.add("rule-lines", "ok", seen, "compare them as sets of entries")
        if any(self._findings.fails(f"{name}-values") for name in LINE_FIELDS):
            seen = "See the rows of the two lists."
            self._findings.add("rule-lines", "FAILS", seen, "fail if they change these lists")


def _can_reset(record: Mapping[str, Any], sent: Mapping[str, Any]) -> bool:
    """Return whether a field that is not sent has another value than its default."""
    for name in UPDATE_FIELDS:
        is_visible = FIELDS[name].column is not None and name in record
        if is_visible and name not in sent and not same_setting(name, record[name], FIELDS[name].default):
            return True
    return False


def _form(value: object) -> str:
    """Return how a value is written in JSON."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "an array"
    return "null"


def _form_of_lines(value: object) -> str:
    """Return how a list is written in JSON."""
    if isinstance(value, str) and "\r\n" in value:
        return "text with a carriage return and a line feed after each entry"
    if isinstance(value, str):
        return "text with a line feed after each entry"
    return _form(value)
