"""Operators that take and compare snapshots of the website list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote, urlsplit

from airflow.providers.common.compat.sdk import AirflowSkipException, Asset, BaseOperator

from airflow_provider_analytics.exceptions import UnsafePlanError
from airflow_provider_analytics.operators.base import AnalyticsOperator, FailWithoutRetry, permanent_failure
from airflow_provider_analytics.operators.links import REPORT_URL_KEY, SnapshotReportLink
from airflow_provider_analytics.thresholds import MAX_LOSS_FRACTION

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.hooks.analytics import AnalyticsHook
    from airflow_provider_analytics.operators.task_arguments import TaskArguments
    from airflow_provider_analytics.snapshots.reader import Snapshot
    from airflow_provider_analytics.snapshots.run_day import Partition
    from airflow_provider_analytics.storage import StoragePath

LATE = ("fail", "skip", "label")
ON_CHANGE = ("report", "fail", "skip")


def snapshot_asset(analytics_conn_id: str = "analytics_default") -> Asset:
    """Return the asset for the website list of a connection.

    ``SnapshotWebsitesOperator`` adds it to its outlets. A DAG with ``schedule=[snapshot_asset()]`` runs after each
    snapshot; the extra of the event has path, manifest, count and digest.
    """
    return Asset(f"analytics://{quote(analytics_conn_id, safe='')}/websites")


class SnapshotWebsitesOperator(AnalyticsOperator):
    """Write the complete list of websites as a dated snapshot that a warehouse can load (docs/snapshots.md).

    The snapshot is written to ``<base_path>/websites/snapshot_date=YYYY-MM-DD/``; running the task again replaces it.
    Readers see all of a snapshot or none of it. Passwords are never written.

    The day is the first of: the argument ``partition_date``, the run's partition date, the end of its data interval,
    its logical date, its ``run_after``; in the time zone of the DAG. The service returns only its current list, so a
    run whose day ended more than ``late_tolerance`` ago fails, unless ``late`` allows it.

    Emits an event of ``asset`` with the return value as extra.

    .. code-block:: python

        SnapshotWebsitesOperator(task_id="snapshot", base_path="s3://my-bucket/analytics", compression="gzip")

    :param base_path: folder of the snapshots: a URL that Airflow's ``ObjectStoragePath`` supports, or an absolute path.
        (templated)
    :param format: ``jsonl`` (default), ``csv``, or ``parquet`` (extra ``parquet``). (templated)
    :param compression: None (default), ``gzip``, or ``zstd`` (extra ``zstd``); Parquet uses snappy if None. (templated)
    :param exclude_ips_as: how IP addresses are written: unchanged (``keep``, default), each as its SHA-256 (``hash``),
        or not at all (``drop``). (templated)
    :param partition_date: day of the snapshot, a date or a date with a time; default: that of the run. (templated)
    :param late: what to do if the day ended more than ``late_tolerance`` ago: ``fail`` (default, without a retry),
        ``skip``, or ``label``: write the current list under that day, with ``late`` true in the manifest. (templated)
    :param late_tolerance: how long after the day, or after the point in time, of the run the list may be read; default
        one day. (templated)
    :param search: only websites that the service's search finds; needs its own base path. (templated)
    :param favorite: only favourites (True) or only others (False); needs its own base path. (templated)
    :param min_websites: smallest number of websites allowed; default 0. (templated)
    :param max_drop_fraction: largest fraction of the last snapshot's websites that may be gone; default 0.3; checked
        from 10 websites up. (templated)
    :param force: ignore these guards, and earlier manifests that cannot be read. (templated)
    :param report: also write an HTML report (extra ``report``); default False. (templated)
    :param report_base_url: web URL of ``base_path``, for the link to the report; not needed if ``base_path`` is a web
        URL itself. (templated)
    :param asset: asset that the snapshot updates; default ``snapshot_asset(analytics_conn_id)``.
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict: ``path``, ``manifest``, ``digest``, ``snapshot_date``, ``observed_at``, ``late``, ``count``, the
        day of the snapshot before (``previous``), the numbers of websites ``added``, ``removed`` and ``changed`` since
        (all None for the first snapshot), ``files`` and ``report``.
    :raises AirflowFailException: without a retry, if an argument is not allowed, a guard trips, the day ended more than
        ``late_tolerance`` ago, or the connection cannot be used.
    :raises AirflowSkipException: if the day ended more than ``late_tolerance`` ago and ``late="skip"``.
    :raises IncompleteListError: if the list cannot be proven complete.
    :raises SnapshotError: if the storage fails or an earlier manifest cannot be read; the last snapshot is unchanged.
    """

    template_fields: Sequence[str] = (
        "base_path",
        "format",
        "compression",
        "exclude_ips_as",
        "partition_date",
        "late",
        "late_tolerance",
        "search",
        "favorite",
        "min_websites",
        "max_drop_fraction",
        "force",
        "report",
        "report_base_url",
        "analytics_conn_id",
    )
    operator_extra_links = (SnapshotReportLink(),)

    def __init__(
        self,
        *,
        base_path: str,
        format: str = "jsonl",  # noqa: A002 - the word that every warehouse uses
        compression: str | None = None,
        exclude_ips_as: str = "keep",
        partition_date: date | str | None = None,
        late: str = "fail",
        late_tolerance: timedelta = timedelta(days=1),
        search: str | None = None,
        favorite: bool | None = None,
        min_websites: int = 0,
        max_drop_fraction: float = MAX_LOSS_FRACTION,
        force: bool = False,
        report: bool = False,
        report_base_url: str | None = None,
        asset: Asset | None = None,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.base_path = base_path
        self.format = format
        self.compression = compression
        self.exclude_ips_as = exclude_ips_as
        self.partition_date = partition_date
        self.late = late
        self.late_tolerance = late_tolerance
        self.search = search
        self.favorite = favorite
        self.min_websites = min_websites
        self.max_drop_fraction = max_drop_fraction
        self.force = force
        self.report = report
        self.report_base_url = report_base_url
        self.asset = asset or snapshot_asset(analytics_conn_id)
        self.outlets = [*self.outlets, self.asset]
        self.data_uris: list[str] = []

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the snapshot."""
        now = datetime.now(UTC)
        with self.connected() as hook:
            partition, late = self._partition(context, now)
            snapshot = self._take(hook, partition.day, now, late=late)
        self._announce(context, snapshot)
        manifest = snapshot.manifest
        self.log.info(
            "Published %s websites to %s (observed at %s, completeness proven by: %s)",
            manifest.count,
            snapshot.partition,
            now,
            manifest.proof.method,
        )
        return describe(snapshot)

    def _partition(self, context: Context, now: datetime) -> tuple[Partition, bool]:
        """Return the run's partition and whether it is late; raise if ``late`` does not allow that."""
        from airflow_provider_analytics.api.checks import one_of
        from airflow_provider_analytics.snapshots.run_day import choose_partition, is_early, is_late

        one_of("late", self.late, LATE)
        partition = choose_partition(
            context["dag"].timezone,
            partition_date=self.partition_date or context.get("partition_date"),
            data_interval_end=context.get("data_interval_end"),
            logical_date=context.get("logical_date"),
            # Airflow 2 has no run_after, but always a logical date.
            run_after=getattr(context["dag_run"], "run_after", None),
        )
        named = f"The run is for {partition.day} (its {partition.named_by})"
        if is_early(partition, now, self.late_tolerance):
            raise UnsafePlanError(f"{named}, but the clock says {now}: correct partition_date or the clock.")
        if not is_late(partition, now, self.late_tolerance):
            return partition, False
        explained = (
            f"{named}, more than late_tolerance={self.late_tolerance} ago; the clock says {now}. The service returns "
            f"only its current list, which is not the list of that day."
        )
        if self.late == "fail":
            raise UnsafePlanError(f"{explained} To proceed, set late='skip', late='label' or a longer late_tolerance.")
        if self.late == "skip":
            raise AirflowSkipException(f"{explained} Skipped because of late='skip'.")
        self.log.warning("Labelling the current list with an earlier day because of late='label'. %s", explained)
        return partition, True

    def _take(self, hook: AnalyticsHook, day: date, now: datetime, *, late: bool) -> Snapshot:
        from airflow_provider_analytics.api.checks import flag, fraction, whole_number
        from airflow_provider_analytics.hooks.object_storage import storage_path
        from airflow_provider_analytics.snapshots.manifest import Source
        from airflow_provider_analytics.snapshots.take import Options, take_snapshot

        options = Options(
            file_format=self.format,
            compression=self.compression or None,
            exclude_ips_as=self.exclude_ips_as,
            min_websites=whole_number("min_websites", self.min_websites, at_least=0),
            max_drop_fraction=fraction("max_drop_fraction", self.max_drop_fraction),
            force=flag("force", self.force),
            report=flag("report", self.report),
        )
        options.check()
        filters: dict[str, Any] = {"search": self.search} if self.search else {}
        if self.favorite is not None:
            filters["favorite"] = flag("favorite", self.favorite)
        account_id = hook.get_account().get("id")
        return take_snapshot(
            storage_path(str(self.base_path), "base_path"),
            day,
            lambda: hook.iter_websites(**filters),
            stats=hook.client.stats,
            source=Source(
                host=urlsplit(hook.client.base_url).hostname or "",
                account_id=None if account_id is None else str(account_id),
            ),
            now=now,
            options=options,
            filters=filters,
            late=late,
            clean=hook.client.for_output,
        )

    def _announce(self, context: Context, snapshot: Snapshot) -> None:
        """Emit the asset event and the lineage, and store the link to the report."""
        from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

        manifest = snapshot.manifest
        collector = get_hook_lineage_collector()  # type: ignore[no-untyped-call]
        context["outlet_events"][self.asset].extra = describe(snapshot)
        self.data_uris = [_uri(snapshot.partition / file.name) for file in manifest.files]
        for uri in self.data_uris:
            collector.add_output_asset(context=self, uri=uri)
        url = None
        if manifest.report:
            relative = f"{snapshot.partition.name}/{manifest.report}"
            if self.report_base_url:
                url = f"{self.report_base_url.rstrip('/')}/websites/{relative}"
            else:
                url = _uri(snapshot.partition / manifest.report)
        # Stored without a report as well: Airflow asks for it after the task, and logs an error where there is nothing.
        is_link = url is not None and urlsplit(url).scheme in {"http", "https", "file"}
        context["ti"].xcom_push(key=REPORT_URL_KEY, value=url if is_link else None)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the written files for OpenLineage; called only if its provider is installed."""
        from airflow.providers.common.compat.openlineage.facet import Dataset
        from airflow.providers.openlineage.extractors import OperatorLineage  # type: ignore[import-not-found,unused-ignore]

        return OperatorLineage(outputs=[Dataset(*_openlineage_name(uri)) for uri in self.data_uris])


class CompareSnapshotsOperator(BaseOperator):
    """Compare two snapshots: websites added, removed and changed, field by field (docs/snapshots.md).

    All changes are written to ``_comparison/since-<previous>.jsonl`` and ``.md`` in the folder of the current snapshot;
    the return value is of bounded size.

    .. code-block:: python

        CompareSnapshotsOperator(task_id="compare", base_path="s3://my-bucket/analytics", on_change="report")

    :param base_path: base path of the snapshots: a URL or an absolute path. (templated)
    :param current: day of the newer snapshot, YYYY-MM-DD; default: the latest published one. (templated)
    :param previous: day of the older snapshot; default: the latest published one before ``current``. (templated)
    :param on_change: what to do if websites changed: ``report`` (default), ``fail`` (without a retry) or ``skip`` (skip
        downstream tasks); both files are written in any case. (templated)
    :param ignore_fields: names of fields to ignore, such as a counter that changes every night. (templated)
    :param max_changes: maximum number of changes returned; default 50. (templated)
    :return: a dict: ``path``, ``current`` and ``previous`` day, the numbers of websites ``added``, ``removed`` and
        ``changed``, the first ``changes`` and whether there are more (``truncated``), and the files with all changes
        (``jsonl``, ``markdown``). If there is no earlier snapshot, ``previous`` is None and the numbers are 0.
    :raises AirflowFailException: without a retry, if websites changed and ``on_change="fail"``, an argument is not
        allowed, or a day has no snapshot.
    :raises AirflowSkipException: if websites changed and ``on_change="skip"``.
    :raises SnapshotError: if a snapshot cannot be read or the result cannot be written.
    """

    template_fields: Sequence[str] = ("base_path", "current", "previous", "on_change", "ignore_fields", "max_changes")

    def __init__(
        self,
        *,
        base_path: str,
        current: str | None = None,
        previous: str | None = None,
        on_change: str = "report",
        ignore_fields: Iterable[str] = (),
        max_changes: int = 50,
        **kwargs: Unpack[TaskArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.base_path = base_path
        self.current = current
        self.previous = previous
        self.on_change = on_change
        self.ignore_fields = ignore_fields
        self.max_changes = max_changes

    def execute(self, context: Context) -> dict[str, Any]:
        """Compare the snapshots, write both files, and return the counts and the first changes."""
        from airflow_provider_analytics.api.checks import one_of, whole_number
        from airflow_provider_analytics.hooks.object_storage import storage_path
        from airflow_provider_analytics.snapshots.compare import compare_snapshots

        with FailWithoutRetry():
            one_of("on_change", self.on_change, ON_CHANGE)
            result = compare_snapshots(
                storage_path(str(self.base_path), "base_path"),
                current=_day(self.current),
                previous=_day(self.previous),
                ignore=tuple(self.ignore_fields),
                max_changes=whole_number("max_changes", self.max_changes, at_least=0),
            )
        counts = f"{result['added']} added, {result['removed']} removed, {result['changed']} changed"
        summary = f"{result['previous']} to {result['current']}: {counts}"
        self.log.info("Compared %s", summary)
        if result["added"] or result["removed"] or result["changed"]:
            if self.on_change == "fail":
                raise permanent_failure(
                    f"The website list changed, {summary}. See {result['markdown']}.", "on_change='fail' asks for it"
                )
            if self.on_change == "skip":
                raise AirflowSkipException(f"The website list changed, {summary}. See {result['markdown']}")
        return result


def describe(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as plain JSON values of bounded size, for XCom and the asset event."""
    from airflow_provider_analytics.snapshots.layout import MANIFEST

    manifest = snapshot.manifest
    previous = manifest.previous
    return {
        "path": str(snapshot.partition),
        "manifest": str(snapshot.partition / MANIFEST),
        "digest": snapshot.digest,
        "snapshot_date": manifest.snapshot_date.isoformat(),
        "observed_at": manifest.observed_at.isoformat(),
        "late": manifest.late,
        "count": manifest.count,
        "previous": previous.snapshot_date.isoformat() if previous else None,
        "added": previous.added if previous else None,
        "removed": previous.removed if previous else None,
        "changed": previous.changed if previous else None,
        "files": [str(snapshot.partition / file.name) for file in manifest.files],
        "report": str(snapshot.partition / manifest.report) if manifest.report else None,
    }


def _day(text: str | None) -> date | None:
    from airflow_provider_analytics.snapshots.run_day import parse_day

    return None if text is None or str(text) in {"", "None"} else parse_day(str(text))


def _uri(path: StoragePath) -> str:
    text = str(path)
    return text if "://" in text else f"file://{text}"


def _openlineage_name(uri: str) -> tuple[str, str]:
    """Return the OpenLineage namespace and name of a file."""
    scheme, host, path = urlsplit(uri)[:3]
    return ("file", path) if scheme == "file" else (f"{scheme}://{host}", path.lstrip("/"))
