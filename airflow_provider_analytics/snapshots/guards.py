"""Guards that keep a complete list that looks wrong from being published."""

from __future__ import annotations

from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.snapshots.manifest import Manifest, Source
from airflow_provider_analytics.thresholds import loses_too_much

_ACCEPT = "Nothing was published. If this is expected, run the task once with force=True."


def check_count(count: int, last_good: Manifest | None, *, min_websites: int, max_drop_fraction: float) -> None:
    """Raise :class:`UnsafePlanError` if there are fewer websites than expected.

    :param last_good: manifest of the last published snapshot, or None.
    :param min_websites: smallest number of websites allowed.
    :param max_drop_fraction: largest loss allowed, as a fraction of the last snapshot.
    """
    if count < min_websites:
        raise UnsafePlanError(f"The list has {count} websites, fewer than min_websites={min_websites}. {_ACCEPT}")
    if last_good and loses_too_much(last_good.count - count, last_good.count, max_drop_fraction):
        dropped = (last_good.count - count) / last_good.count
        raise UnsafePlanError(
            f"The list has {count} websites, the snapshot of {last_good.snapshot_date} has {last_good.count}: "
            f"{dropped:.1%} fewer, more than max_drop_fraction={max_drop_fraction}. {_ACCEPT}"
        )


def check_same_list(source: Source, filters: dict[str, object], last_good: Manifest | None) -> None:
    """Raise :class:`UnsafePlanError` if the last snapshot is of another host, account or filter."""
    if last_good is None:
        return
    now = {"host": source.host, "account": source.account_id, "filters": filters}
    then = {"host": last_good.source.host, "account": last_good.source.account_id, "filters": last_good.filters}
    differing = [f"{name} {then[name]!r}, now {now[name]!r}" for name in now if now[name] != then[name]]
    if differing:
        raise UnsafePlanError(
            f"The snapshot of {last_good.snapshot_date} in this base path is of another list: "
            f"{'; '.join(differing)}. Give each list its own base_path. {_ACCEPT}"
        )
