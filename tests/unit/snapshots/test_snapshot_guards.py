from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.snapshots.manifest import Source
from airflow_provider_analytics.snapshots.reader import read_snapshot
from airflow_provider_analytics.storage import StoragePath

Make = Callable[..., Any]
NIGHT = timedelta(days=1)


@pytest.mark.parametrize(
    ("before", "after", "fraction", "trips"),
    [
        (10, 7, 0.3, False),  # exactly 30 per cent
        (10, 6, 0.3, True),
        (9, 0, 0.3, False),  # too few to count
        (100, 120, 0.0, False),
        (100, 99, 0.0, True),
        (100, 0, 1.0, False),
        (1000, 699, 0.3, True),
    ],
)
def test_a_large_loss_is_refused(
    take: Make, make_websites: Make, base: StoragePath, before: int, after: int, fraction: float, trips: bool
) -> None:
    first = take(base, make_websites(before))
    night = first.manifest.observed_at + NIGHT
    if trips:
        with pytest.raises(UnsafePlanError, match=f"The list has {after} websites.*{before}.*force=True"):
            take(base, make_websites(after), night, max_drop_fraction=fraction)
        assert read_snapshot(base, night.date()) is None
        assert take(base, make_websites(after), night, max_drop_fraction=fraction, force=True).manifest.count == after
    else:
        assert take(base, make_websites(after), night, max_drop_fraction=fraction).manifest.count == after


def test_a_rerun_is_measured_against_what_it_would_replace(take: Make, make_websites: Make, base: StoragePath) -> None:
    first = take(base, make_websites(100))
    with pytest.raises(UnsafePlanError):
        take(base, make_websites(10))
    kept = read_snapshot(base, first.manifest.snapshot_date)
    assert kept is not None
    assert kept.digest == first.digest
    assert sum(1 for _ in kept.rows()) == 100


def test_min_websites(take: Make, make_websites: Make, base: StoragePath) -> None:
    assert take(base, make_websites(3), min_websites=3).manifest.count == 3
    with pytest.raises(UnsafePlanError, match="2 websites, fewer than min_websites=3"):
        take(base, make_websites(2), min_websites=3)


@pytest.mark.parametrize(
    "other",
    [
        {"source": Source(host="other.example.com", account_id="1")},
        {"source": Source(host="stats.example.com", account_id="2")},
        {"filters": {"favorite": True}},
    ],
)
def test_another_list_does_not_go_into_the_same_place(
    take: Make, make_websites: Make, base: StoragePath, other: dict[str, Any]
) -> None:
    first = take(base, make_websites(3))
    night = first.manifest.observed_at + NIGHT
    with pytest.raises(UnsafePlanError, match=r"another list.*base_path"):
        take(base, make_websites(3), night, **other)
    take(base, make_websites(3), night, force=True, **other)


@pytest.mark.parametrize(
    "options",
    [
        {"min_websites": -1},
        {"max_drop_fraction": 1.1},
        {"max_drop_fraction": -0.1},
        {"file_format": "xml"},
        {"compression": "rar"},
        {"exclude_ips_as": "maybe"},
    ],
)
def test_bad_options_are_refused_before_anything_is_read(
    take: Make, base: StoragePath, options: dict[str, Any]
) -> None:
    name = next(iter(options)).removeprefix("file_")
    with pytest.raises(ValueError, match=f"{name}=.*allowed"):
        take(base, "a listing that would fail", **options)
