"""What keeps a list that is whole, but looks wrong, from being published.

Percentages count only from :data:`MIN_COUNTED` websites up and trip only when they are exceeded, as in octoDNS.
"""

from __future__ import annotations

from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.snapshots.manifest import Manifest, Source

#: Below so many websites a fraction says nothing: one of three is a third.
MIN_COUNTED = 10
MAX_DROP_FRACTION = 0.3

_ACCEPT = "If that is right, run the task once with force=True."


def check_limits(min_websites: int, max_drop_fraction: float) -> None:
    """Raise :class:`ValueError` for limits that cannot be meant."""
    if min_websites < 0:
        raise ValueError(f"min_websites={min_websites!r} is not allowed; allowed: 0 or more")
    if not 0 <= max_drop_fraction <= 1:
        raise ValueError(f"max_drop_fraction={max_drop_fraction!r} is not allowed; allowed: 0 to 1")


def check_count(count: int, last_good: Manifest | None, *, min_websites: int, max_drop_fraction: float) -> None:
    """Raise :class:`UnsafePlanError` where there are fewer websites than anybody expects.

    :param last_good: manifest of the last published snapshot, if there is one.
    :param min_websites: fewer than so many are refused.
    :param max_drop_fraction: a loss of more than this part of the last snapshot is refused.
    """
    if count < min_websites:
        raise UnsafePlanError(f"the list has {count} websites, fewer than min_websites={min_websites}. {_ACCEPT}")
    if last_good is None or last_good.count < MIN_COUNTED:
        return
    dropped = (last_good.count - count) / last_good.count
    if dropped > max_drop_fraction:
        raise UnsafePlanError(
            f"the list has {count} websites, the snapshot of {last_good.snapshot_date} has {last_good.count}: "
            f"{dropped:.1%} fewer, more than max_drop_fraction={max_drop_fraction}. {_ACCEPT}"
        )


def check_same_list(source: Source, filters: dict[str, object], last_good: Manifest | None) -> None:
    """Raise :class:`UnsafePlanError` where the snapshots so far are of another account, service or selection."""
    if last_good is None:
        return
    now = {"host": source.host, "account": source.account_id, "filters": filters}
    then = {"host": last_good.source.host, "account": last_good.source.account_id, "filters": last_good.filters}
    differing = [f"{name} {then[name]!r}, now {now[name]!r}" for name in now if now[name] != then[name]]
    if differing:
        raise UnsafePlanError(
            f"the snapshot of {last_good.snapshot_date} in this base path is of another list: "
            f"{'; '.join(differing)}. Give each list its own base_path. {_ACCEPT}"
        )
