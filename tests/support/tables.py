"""Tables of managed lists as values, for tests of plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime

from airflow_provider_analytics.reconcile.lists import Identity, Lists, Run, Table
from airflow_provider_analytics.reconcile.maintained import EntrySource


def owning(name: str, scopes: Mapping[str, Iterable[str]]) -> Lists:
    """Return the tables of a list that has had these entries: scope to entries of a list field."""
    rows = {name: {scope: dict.fromkeys(entries, EntrySource()) for scope, entries in scopes.items()}}
    run = Run("dag/run", "sync", datetime(2026, 11, 23, tzinfo=UTC))
    table = Table(Identity("https://stats.example.com", "1", "office"), rows, run=run)
    return Lists(table, table, (), date(2026, 11, 23), {}, run)
