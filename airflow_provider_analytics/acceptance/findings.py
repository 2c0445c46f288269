# SPDX-License-Identifier: Apache-2.0
"""The findings of an acceptance run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_analytics.acceptance.statements import STATEMENTS, Extras, Mark, StatementResult
from airflow_provider_analytics.acceptance.transport import RequestLimitError
from airflow_provider_analytics.api.fields import FIELDS
from airflow_provider_analytics.exceptions import (
    AnalyticsApiError,
    AnalyticsConnectionError,
    IncompleteListError,
    NotAppliedError,
    UnexpectedResponseError,
)
from airflow_provider_analytics.readable import readable

WITH_EXTRA = "work if the extra is set"


class Findings(dict[str, StatementResult]):
    """The findings by statement."""

    @property
    def extras(self) -> Extras:
        """Extras to set."""
        extras: Extras = {}
        for finding in self.values():
            extras |= finding.extras
        return extras

    def add(self, name: str, mark: Mark, seen: str, tasks: str, extras: Extras | None = None) -> None:
        """Add a finding, unless there is a finding for the statement."""
        self.setdefault(name, StatementResult(name, mark, seen, tasks, extras or {}))

    def replace(self, name: str, mark: Mark, seen: str, tasks: str, extras: Extras | None = None) -> None:
        """Add a finding in place of an earlier finding for the statement."""
        self.pop(name, None)
        self.add(name, mark, seen, tasks, extras)

    def add_missing(self, seen: str) -> None:
        """Add a finding for each statement that was not tested."""
        for name in STATEMENTS:
            self.add(name, "?", seen, "verify it themselves, as far as they depend on it")

    def fails(self, name: str) -> bool:
        """Return whether there is a finding that tasks fail."""
        return name in self and self[name].mark == "FAILS"

    @contextmanager
    def errors_as(self, name: str, tasks: str) -> Iterator[None]:
        """Turn errors of the service inside the block into a finding."""
        try:
            yield
        except (AnalyticsApiError, UnexpectedResponseError, IncompleteListError, NotAppliedError) as error:
            self.add(name, "FAILS", reason(error), tasks)


def reason(error: Exception) -> str:
    """Return a description of an error without values of other websites."""
    if isinstance(error, IncompleteListError):
        return f"the list was not proven complete, by the check {error.check!r}."
    if isinstance(error, UnexpectedResponseError):
        return f"an unexpected response with status {error.status}."
    if isinstance(error, AnalyticsApiError):
        fields = list(filter(error.errors.__contains__, FIELDS))
        if not fields:
            return f"status {error.status}."
        return f"status {error.status} about {', '.join(fields)}."
    if isinstance(error, (NotAppliedError, RequestLimitError)):
        return readable(error.problem)
    if isinstance(error, AnalyticsConnectionError):
        return "the service did not respond."
    return f"{type(error).__name__}."
