# SPDX-License-Identifier: Apache-2.0
"""Guards that prevent the publication of a list that is complete but looks wrong.

Each guard has a name. A person who has checked its finding overrides the guard by this name:
``override_guards=["fewer_websites"]``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_analytics.api.fields import RECORD_FIELDS
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.guards import are_websites_lost, loses_too_much
from airflow_provider_analytics.readable import counted, readable
from airflow_provider_analytics.snapshots.diff import Missing
from airflow_provider_analytics.snapshots.manifest import Fields, ListSource, Manifest
from airflow_provider_analytics.snapshots.run_day import CLOCK_SKEW


def check_websites(count: int, missing: Missing, last_good: Manifest, max_loss_fraction: float) -> None:
    """Raise :class:`GuardError` if too many websites of an earlier snapshot are missing.

    :param count: number of websites now.
    :param missing: websites of the earlier snapshot that are missing, by id and domain.
    :param last_good: the earlier snapshot.
    :param max_loss_fraction: largest loss allowed, as a fraction of its number. Unless it is 1, an empty list after a
        non-empty one is always blocked.
    """
    before, lost = last_good.count, missing.count
    if not are_websites_lost(lost, before, count, max_loss_fraction):
        return
    found = f"The list has {counted(count, 'website')}, {lost / before:.0%} fewer than {before:,} on"
    if lost != before - count:
        found = f"The list lacks {lost:,} of {before:,} websites ({lost / before:.0%}) of"
    raise guard_error(
        "fewer_websites",
        f"{found} {last_good.observed_at:%Y-%m-%d %H:%M} UTC.\n{missing.text}"
        f"This is more than max_loss_fraction={max_loss_fraction} allows.",
    )


def check_source(source: ListSource, filters: dict[str, Any], last_good: Manifest) -> None:
    """Raise :class:`GuardError` if the last snapshot has another service, account, or filters."""
    now, then = _identity(source, filters), _identity(last_good.source, last_good.filters)
    differing = []
    for name, value in now.items():
        if then.get(name) != value:
            differing.append(f"{name} was {readable(repr(then.get(name)))}, is {value!r}")
    if differing:
        raise guard_error(
            "other_source",
            f"The snapshot of {last_good.snapshot_date} is of another list: {'; '.join(differing)}. Check the "
            "connection, and give each list its own snapshot_name.",
        )


def check_fields(websites: int, fields: Fields, last_good: Manifest, max_loss_fraction: float) -> None:
    """Raise :class:`GuardError` if a documented field has lost its values since the last snapshot.

    A value is lost if it does not fit its type. All values are lost if no record has the field. The guard ignores
    fields that had no values before; the log and the manifest list such fields.

    :param websites: number of websites.
    :param max_loss_fraction: largest fraction of the values that can be lost, for 10 websites or more. Unless it is 1,
        the loss of all values is always blocked.
    """
    if not last_good.count or not websites:
        return
    for name in RECORD_FIELDS:
        if name in fields.missing and name in last_good.fields.partial:
            continue  # the service omits empty values: the last favorite, or the last list, was cleared
        before, now = _unusable(name, last_good.count, last_good.fields), _unusable(name, websites, fields)
        lost_all = now == 1 and before < 1 and max_loss_fraction < 1
        if lost_all or loses_too_much(round((now - before) * websites), websites, max_loss_fraction):
            finding = f"{now:.1%} of the values of {name} do not fit its type ({before:.1%} before)"
            if name in fields.missing:
                finding = f"No website has the field {name} any more"
            raise guard_error(
                "missing_fields",
                f"{finding}: its column would be null, but had values in the snapshot of {last_good.snapshot_date}.",
            )


def check_clock(now: datetime, earlier: Manifest) -> None:
    """Raise :class:`GuardError` if an earlier snapshot was observed in the future."""
    if earlier.observed_at <= now + CLOCK_SKEW:
        return
    found = (
        f"The clock says {now:%Y-%m-%d %H:%M} UTC, but the snapshot of {earlier.snapshot_date} was observed at "
        f"{earlier.observed_at:%Y-%m-%d %H:%M} UTC. One of the two is wrong. If it is the clock, correct it."
    )
    if earlier.snapshot_date > now.date():
        found += f" If it is the snapshot, delete its two folders dt={earlier.snapshot_date}."
    raise guard_error("clock_skew", found)


def guard_error(guard: str, found: str) -> GuardError:
    """Return the error of a guard that blocks the snapshot.

    :param guard: its name.
    :param found: its finding.
    """
    return GuardError(found, "Nothing was published.", guard)


def _unusable(name: str, websites: int, fields: Fields) -> float:
    """Return the fraction of the websites without a usable value for a field."""
    return 1.0 if name in fields.missing else fields.invalid_values.get(name, 0) / websites


def _identity(source: ListSource, filters: dict[str, Any]) -> dict[str, object]:
    try:
        parts = urlsplit(source.url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:  # a stored manifest can contain anything
        return {"scheme": source.url, "account": source.account_id, "filters": filters}
    return {
        "scheme": parts.scheme,
        "host": parts.hostname,
        "port": port,
        "sub-path": parts.path.rstrip("/"),
        "account": source.account_id,
        "filters": filters,
    }
