# SPDX-License-Identifier: Apache-2.0
"""Operators that take, compare, and prune snapshots of the website list."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.providers.common.compat.sdk import Asset

from airflow_provider_analytics.api.checks import invalid
from airflow_provider_analytics.assets import (
    SCHEME,
    asset_uri,
    can_partition,
    is_partitioned,
    openlineage_name,
    partitioned_uri,
)
from airflow_provider_analytics.exceptions import GuardError
from airflow_provider_analytics.guards import MAX_LOSS_FRACTION, parse_guards
from airflow_provider_analytics.operators.base import (
    AnalyticsBaseOperator,
    FailWithoutRetry,
    ProviderBaseOperator,
    arguments_of,
    check_rendered_arguments,
    check_value,
    is_literal,
    path_text,
    permanent_failure,
    require_run,
    skipped,
)
from airflow_provider_analytics.operators.links import SnapshotFolderLink, SnapshotReportLink
from airflow_provider_analytics.readable import counted, first_of, readable

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_analytics.snapshots.catalog import Snapshot, SnapshotSeries
    from airflow_provider_analytics.snapshots.manifest import Manifest
    from airflow_provider_analytics.snapshots.run_day import RunDay
    from airflow_provider_analytics.snapshots.take import SnapshotOptions
    from airflow_provider_analytics.storage import StoragePath

#: Keys that a snapshot needs in the context of a run.
_CONTEXT_KEYS = ("dag", "dag_run", "outlet_events", "ti")
#: Maximum number of undocumented fields in XCom and the asset event.
MAX_FIELDS = 50
#: Maximum number of changes in an error.
SHOWN_CHANGES = 10
#: Maximum number of days in a log line.
MAX_DAYS = 20


def snapshot_asset(
    analytics_conn_id: str = "analytics_default",
    *,
    snapshot_name: str = "websites",
    search: str | None = None,
    favorite: bool | None = None,
    partitioned: bool = False,
) -> Asset:
    """Return the asset of a list of websites.

    Its address is ``analytics://<analytics_conn_id>/<snapshot_name>``, with the filters as query.

    A DAG with ``schedule=[snapshot_asset()]`` runs after each snapshot.

    :param analytics_conn_id: id of the connection.
    :param snapshot_name: name of the snapshots.
    :param search: ``search`` of the snapshot task.
    :param favorite: ``favorite`` of the snapshot task.
    :param partitioned: return the asset whose events use the day of the snapshot as partition key, for
        ``PartitionedAssetTimetable``.
    :raises ValueError: if ``partitioned`` is set and this Airflow version does not support partition keys of events.
    """
    uri = asset_uri(analytics_conn_id, snapshot_name, search=search, favorite=favorite)
    if not partitioned:
        return Asset(uri)
    if not can_partition():
        raise ValueError("partitioned=True is not allowed before Airflow 3.3, where nothing would update the asset")
    return Asset(partitioned_uri(uri))


class SnapshotWebsitesOperator(AnalyticsBaseOperator):
    """Write the complete list of websites as a dated snapshot that a warehouse can load.

    Guide: https://airflow-provider-analytics.github.io/airflow-provider-analytics/snapshots/

    Readers get the complete snapshot or nothing. Passwords are never written.

    The day is ``partition_date``, or the day of the run in the time zone of the DAG. A list that is read on another day
    is late. The event of ``asset`` has the return value as extra.

    .. code-block:: python

        SnapshotWebsitesOperator(task_id="snapshot", base_path="s3://my-bucket/analytics", compression="gzip")

    :param base_path: folder of the snapshots (URL or absolute path). (templated)
    :param snapshot_name: name of the snapshots and their folder, one for each connection and filter; default
        ``websites``. (templated)
    :param format: ``jsonl`` (default), ``csv``, or ``parquet`` (extra ``parquet``). (templated)
    :param compression: ``gzip``, or None (default); Parquet then uses snappy. (templated)
    :param exclude_ips_as: ``keep`` (default) writes ``exclude_ips`` unchanged, ``hash`` each entry as its SHA-256,
        ``drop`` nothing. (templated)
    :param partition_date: day of the snapshot, a date with or without a time; default: the day of the run. (templated)
    :param on_late: for a late list that would replace a snapshot, or whose day ended more than 12 hours ago: ``fail``
        (default), ``skip``, or ``publish`` (marked as late). (templated)
    :param search: only websites that the service's search finds. (templated)
    :param favorite: only favorites (True) or only others (False). (templated)
    :param ignore_fields: documented fields that do not count as changes. (templated)
    :param max_loss_fraction: largest fraction of the websites, and of the values of a field, that can be lost; default
        0.3. (templated)
    :param override_guards: guards to override in this run: ``fewer_websites``, ``other_source``, ``missing_fields``,
        ``clock_skew``, ``newer_version``. (templated)
    :param html_report: also write an HTML report; default False. (templated)
    :param asset: asset that the snapshot updates; default: ``snapshot_asset`` of the same arguments. Required if one of
        them or ``base_path`` is a template.
    :param analytics_conn_id: id of a connection of type ``analytics``. (templated)
    :return: a dict with these keys:

        * ``path`` (string, such as ``"s3://my-bucket/analytics/websites/dt=2026-11-21"``): folder of the data files.
        * ``manifest`` (string, such as ``"s3://my-bucket/analytics/_websites/dt=2026-11-21/_manifest.json"``): the
          manifest.
        * ``digest`` (string, such as ``"7c11..."``): SHA-256 of the manifest.
        * ``snapshot_name`` (string, such as ``"websites"``): name of the snapshots.
        * ``snapshot_date`` (date, such as ``"2026-11-21"``): day of the snapshot.
        * ``observed_at`` (time, such as ``"2026-11-21T00:00:04.082314+00:00"``): start of the read, in UTC.
        * ``late`` (boolean, such as ``false``): true if the list was read on another day.
        * ``count`` (number, such as ``60``): websites in the snapshot.
        * ``is_first`` (boolean, such as ``false``): true if no earlier day has a snapshot.
        * ``previous`` (date or null, such as ``"2026-11-20"``): day of the previous snapshot; null if there is none, or
          it is damaged.
        * ``removed`` (number or null, such as ``1``): websites removed since ``previous``; null without it.
        * ``privacy_changed`` (number or null, such as ``0``): websites whose privacy changed since ``previous``; also
          counted in ``changed``.
        * ``changed`` (number or null, such as ``2``): websites changed since ``previous``.
        * ``added`` (number or null, such as ``3``): websites added since ``previous``.
        * ``replaced_snapshot`` (object or null, such as ``null``): the snapshot of the same day that this one replaces:
          ``observed_at``, ``count``, and the same four numbers.
        * ``fields`` (object, such as ``{"new": ["created_at"], "missing": [], "invalid_values": {}}``): undocumented
          fields, documented fields that no website has, and numbers of mistyped values.
        * ``files`` (list of strings, such as
          ``["s3://my-bucket/.../websites-20261121T000004Z-5f0c1d2e-9b1f.jsonl.gz"]``): data files; empty if there are
          no websites.
        * ``changes_path`` (string or null, such as ``null``): JSON Lines file with all changes since ``previous``, or
          else ``replaced_snapshot``.
        * ``report`` (string or null, such as ``null``): the HTML report.

    :raises AirflowFailException: without a retry, if a guard blocks the snapshot, or the list is late and
        ``on_late="fail"``.
    :raises AirflowSkipException: if the list is late and ``on_late="skip"``.
    :raises IncompleteListError: if the list cannot be proven complete.
    :raises StorageError: if the storage fails or the clock is wrong; the last snapshot is unchanged.
    """

    operator_extra_links = (SnapshotFolderLink(), SnapshotReportLink())

    def __init__(
        self,
        *,
        base_path: str,
        snapshot_name: str = "websites",
        format: str = "jsonl",  # noqa: A002 - the usual word in warehouses
        compression: str | None = None,
        exclude_ips_as: str = "keep",
        partition_date: date | str | None = None,
        on_late: str = "fail",
        search: str | None = None,
        favorite: bool | None = None,
        ignore_fields: Iterable[str] = (),
        max_loss_fraction: float = MAX_LOSS_FRACTION,
        override_guards: Iterable[str] = (),
        html_report: bool = False,
        asset: Asset | None = None,
        analytics_conn_id: str = "analytics_default",
        **kwargs: Any,
    ) -> None:
        super().__init__(analytics_conn_id=analytics_conn_id, **kwargs)
        self.base_path = base_path
        self.snapshot_name = snapshot_name
        self.format = format
        self.compression = compression
        self.exclude_ips_as = exclude_ips_as
        self.partition_date = partition_date
        self.on_late = on_late
        self.search = search
        self.favorite = favorite
        self.ignore_fields = ignore_fields
        self.max_loss_fraction = max_loss_fraction
        self.override_guards = override_guards
        self.html_report = html_report
        if asset is None:
            self._check_identity()
            asset = snapshot_asset(
                self.analytics_conn_id, snapshot_name=snapshot_name, search=search, favorite=favorite
            )
        if not hasattr(asset, "uri"):
            raise invalid("asset", asset, "an Asset, such as snapshot_asset('my_conn')")
        self.asset = asset
        is_ours = urlsplit(asset.uri).scheme == SCHEME
        if is_ours and is_partitioned(asset.uri):
            raise ValueError(
                f"asset={asset.uri!r} is not allowed. Allowed: snapshot_asset(...) without partitioned=True, because "
                "the operator adds the partitioned asset to the outlets itself"
            )
        self.outlets = [*self.outlets, asset]
        #: The same asset with partition keys: an event without a key does not start a partitioned consumer.
        self.partitioned_asset: Asset | None = None
        if is_ours and can_partition():
            self.partitioned_asset = Asset(partitioned_uri(asset.uri))
            self.outlets.append(self.partitioned_asset)
        #: Data of the lineage: the manifest if a snapshot was published, and its folder if the task found it.
        self.published: Manifest | None = None
        self.data_uri = ""
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def _check_identity(self) -> None:
        """Raise :class:`ValueError` when a DAG file is parsed, if the asset is known only at run time."""
        for name in ("base_path", "snapshot_name", "search", "favorite", "analytics_conn_id"):
            value = path_text(getattr(self, name))
            if is_literal(value, self.starts_of_templates):
                check_value(name, value)
            is_known = value is None or isinstance(value, (str, int))
            if not is_known or not is_literal(value, self.starts_of_templates):
                raise ValueError(
                    f"asset is required, because {name}={value!r} is known only at run time. Give the asset that the "
                    "snapshot updates, such as asset=snapshot_asset('my_conn', snapshot_name='my_websites')"
                )

    def execute(self, context: Context) -> dict[str, Any]:
        """Take the snapshot."""
        from airflow_provider_analytics.api.laravel import account_id
        from airflow_provider_analytics.api.listing import WHY_COMPLETE
        from airflow_provider_analytics.hooks.connection import storage_path
        from airflow_provider_analytics.snapshots.catalog import snapshot_series
        from airflow_provider_analytics.snapshots.manifest import ListSource
        from airflow_provider_analytics.snapshots.take import MAX_NEW_FIELDS, Origin, drift, take_snapshot, what_changed

        now = datetime.now(UTC)
        with self.connected(context) as hook:
            if context:
                require_run(context, _CONTEXT_KEYS, "A snapshot")
            options = self._options()
            filters = self._filters()
            series = snapshot_series(storage_path(str(self.base_path), "base_path"), str(self.snapshot_name))
            self.data_uri = _uri(series.data)
            run_day = self._day(context, now)
            self._is_late(run_day, series, now)  # before the list is read: it might be long
            origin = Origin(
                make_listing=lambda: hook.iter_websites(**filters),
                source=ListSource(url=hook.client.base_url, account_id=account_id(hook.get_account())),
                stats=hook.client.stats,
                filters=filters,
                secrets=hook.client.redact,
            )
            snapshot = take_snapshot(
                series,
                run_day.day,
                origin,
                options=options,
                is_late=lambda observed_at: self._is_late(run_day, series, observed_at),
                writer=_writer(context),
            )
        self._announce(context, snapshot)
        manifest = snapshot.manifest
        late = " (late)" if manifest.late else ""
        self.log.info(
            "Published %s as %s%s. %s\nThe list is complete: %s.\n%s",
            counted(manifest.count, "website"),
            manifest.snapshot_date,
            late,
            what_changed(manifest),
            WHY_COMPLETE[manifest.proof.method],
            snapshot.partition.data,
        )
        if manifest.late:
            self.log.warning(
                "The list was read at %s, and stored late as the snapshot of %s.",
                manifest.observed_at,
                manifest.snapshot_date,
            )
        fields = manifest.fields
        if fields.missing or fields.invalid_values:
            self.log.warning("The fields of the websites differ from the documented ones: %s.", drift(fields))
        elif fields.new:  # a new field is harmless and can remain for years
            new = first_of(fields.new, MAX_NEW_FIELDS, show=readable)
            self.log.info("The websites have undocumented fields, which are only in the column record: %s.", new)
        return describe(snapshot)

    def _options(self) -> SnapshotOptions:
        from airflow_provider_analytics.api.checks import flag, fraction, names
        from airflow_provider_analytics.snapshots.take import SnapshotOptions

        return SnapshotOptions(
            format=self.format,
            compression=self.compression or None,
            exclude_ips_as=self.exclude_ips_as,
            ignore_fields=names("ignore_fields", self.ignore_fields),
            max_loss_fraction=fraction("max_loss_fraction", self.max_loss_fraction),
            override_guards=parse_guards(self.override_guards),
            html_report=flag("html_report", self.html_report),
        )

    def _filters(self) -> dict[str, Any]:
        from airflow_provider_analytics.api.checks import flag

        filters: dict[str, Any] = {"search": self.search} if self.search else {}
        if self.favorite is not None:
            filters["favorite"] = flag("favorite", self.favorite)
        return filters

    def _day(self, context: Context, now: datetime) -> RunDay:
        """Return the day of the run; outside of a run, the day of a manual run that starts now."""
        from airflow_provider_analytics.snapshots.run_day import choose_day

        if not context:
            return choose_day(getattr(self.get_dag(), "timezone", "UTC"), now, partition_date=self.partition_date)
        dag_run: Any = context["dag_run"]
        return choose_day(
            context["dag"].timezone,
            now,
            partition_date=self.partition_date,
            run_partition_date=context.get("partition_date"),
            run_type=str(getattr(dag_run.run_type, "value", dag_run.run_type)),
            data_interval_end=context.get("data_interval_end"),
            logical_date=context.get("logical_date"),
            # Airflow 2 has no run_after, but always a logical date.
            run_after=getattr(dag_run, "run_after", None),
        )

    def _is_late(self, run_day: RunDay, series: SnapshotSeries, now: datetime) -> bool:
        """Return whether a list that is read now is late; raise if ``on_late`` does not allow publishing it."""
        if not run_day.is_late(now):
            return False
        problem = run_day.late_problem(now, is_published=series.partition(run_day.day).is_published)
        if problem is None or self.on_late == "publish":
            return True
        if self.on_late == "skip":
            raise skipped(f"{problem} Skipped because of on_late='skip'.")
        raise GuardError(
            problem,
            "Nothing was published. To publish it anyway, marked as late, set on_late='publish'.\n"
            f"To skip such runs, set on_late='skip'. {run_day.source_text(now)}",
        )

    def _announce(self, context: Context, snapshot: Snapshot) -> None:
        """Emit the asset event, if there is a run, and note the manifest for the lineage."""
        self.published = manifest = snapshot.manifest
        if context:
            events = context["outlet_events"]
            events[self.asset].extra = describe(snapshot)
            if self.partitioned_asset:
                event: Any = events[self.partitioned_asset]
                event.extra = describe(snapshot)
                event.add_partitions(manifest.snapshot_date.isoformat())

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the lineage for OpenLineage; called only if its provider is installed."""
        from airflow_provider_analytics.operators.lineage import snapshot_lineage

        target = openlineage_name(self.data_uri) if self.data_uri else None
        return snapshot_lineage(openlineage_name(self.asset.uri), target, self.published)

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> Any:
        """Return the lineage of a failed task: its input, and the dataset if the task found it."""
        return self.get_openlineage_facets_on_complete(task_instance)


class CompareSnapshotsOperator(ProviderBaseOperator):
    """Compare two snapshots field by field: removed, changed, and added websites.

    All changes are written to ``_since-<previous>.jsonl`` in the folder of the current manifest, removed websites and
    changes of privacy first. A later snapshot of the same day does not update this file.

    .. code-block:: python

        CompareSnapshotsOperator(task_id="compare", base_path="s3://my-bucket/analytics", on_change="log")

    :param base_path: folder of the snapshots (URL or absolute path). (templated)
    :param snapshot_name: name of the snapshots; default ``websites``. (templated)
    :param current: day of the newer snapshot; default: the latest one. In the DAG that takes the snapshot, pass its
        day: ``"{{ ti.xcom_pull('snapshot', map_indexes=ti.map_index)['snapshot_date'] }}"``. (templated)
    :param previous: day of the older snapshot; default: the latest one before ``current``, if it is not damaged.
        (templated)
    :param on_change: if websites changed: ``fail``, ``skip`` downstream tasks, or ``log`` (default). (templated)
    :param ignore_fields: documented fields that do not count; default: those of the current snapshot. (templated)
    :return: a dict with these keys:

        * ``path`` (string, such as ``"s3://my-bucket/analytics/websites/dt=2026-11-21"``): folder of the newer
          snapshot.
        * ``current`` (date, such as ``"2026-11-21"``): day of the newer snapshot.
        * ``is_first`` (boolean, such as ``false``): true if no earlier day has a snapshot.
        * ``previous`` (date or null, such as ``"2026-11-20"``): day of the earlier snapshot; null if there is none, or
          it is damaged.
        * ``removed`` (number, such as ``1``): websites removed since ``previous``.
        * ``privacy_changed`` (number, such as ``0``): websites whose privacy changed; also counted in ``changed``.
        * ``changed`` (number, such as ``2``): websites changed.
        * ``added`` (number, such as ``3``): websites added.
        * ``changes`` (list of objects, such as ``[]``): the first 50 changes.
        * ``changes_omitted`` (number, such as ``0``): further changes.
        * ``changes_path`` (string or null, such as ``null``): JSON Lines file with all changes.

    :raises AirflowFailException: without a retry, if websites changed and ``on_change="fail"``, or a day has no
        snapshot.
    :raises AirflowSkipException: if websites changed and ``on_change="skip"``.
    :raises StorageError: if a snapshot cannot be read or the result cannot be written.
    """

    operator_extra_links = (SnapshotFolderLink(),)

    def __init__(
        self,
        *,
        base_path: str,
        snapshot_name: str = "websites",
        current: str | None = None,
        previous: str | None = None,
        on_change: str = "log",
        ignore_fields: Iterable[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.base_path = base_path
        self.snapshot_name = snapshot_name
        self.current = current
        self.previous = previous
        self.on_change = on_change
        self.ignore_fields = ignore_fields
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Compare the snapshots, write the file, and return the counts and the first changes."""
        from airflow_provider_analytics.api.checks import names
        from airflow_provider_analytics.hooks.connection import storage_path
        from airflow_provider_analytics.snapshots.catalog import snapshot_series
        from airflow_provider_analytics.snapshots.diff import count_changes, diff_snapshots, in_lines, in_words

        with FailWithoutRetry():
            check_rendered_arguments(self)
            result = diff_snapshots(
                snapshot_series(storage_path(str(self.base_path), "base_path"), str(self.snapshot_name)),
                current=_date(self.current),
                previous=_date(self.previous),
                ignored=names("ignore_fields", self.ignore_fields),
            )
        if result["previous"] is None:
            reason = "the last snapshot before %s is damaged"
            if result["is_first"]:
                reason = "no day before %s has a snapshot"
            self.log.info(f"Nothing to compare: {reason}.\nFolder: %s", result["current"], result["path"])
            return result
        counts = in_words(result)
        summary = f"{counts}, from {result['previous']} to {result['current']}"
        self.log.info("Compared the websites of %s and %s: %s.", result["previous"], result["current"], counts)
        if count_changes(result) and self.on_change != "log":
            changes = "\n".join(in_lines(result, SHOWN_CHANGES))
            message = f"The website list changed: {summary}.\n{changes}\nAll changes: {result['changes_path']}."
            if self.on_change == "skip":
                raise skipped(message)
            raise permanent_failure(message, "on_change='fail' is set")
        return result


class PruneSnapshotsOperator(ProviderBaseOperator):
    """Remove old snapshots; keep a number of daily, weekly, and monthly ones.

    Only days, weeks, and months with an undamaged snapshot count, so nothing expires during a pause. The newest
    snapshot is never removed. Leftovers of killed runs are also removed, but no files of others.

    .. code-block:: python

        PruneSnapshotsOperator(task_id="prune", base_path="s3://my-bucket/analytics", keep_days=30, keep_months=24)

    :param base_path: folder of the snapshots (URL or absolute path). (templated)
    :param snapshot_name: name of the snapshots; default ``websites``. (templated)
    :param keep_days: days whose snapshot is kept; default 0. One of the three numbers must be at least 1. (templated)
    :param keep_weeks: ISO weeks whose newest snapshot is kept; default 0. (templated)
    :param keep_months: months whose newest snapshot is kept; default 0. (templated)
    :param remove_damaged: also remove damaged snapshots that are not kept; default False. (templated)
    :param dry_run: remove nothing. (templated)
    :return: a dict with these keys:

        * ``path`` (string, such as ``"s3://my-bucket/analytics/websites"``): folder of the snapshots.
        * ``dry_run`` (boolean, such as ``false``): true if nothing was removed.
        * ``kept`` (number, such as ``120``): snapshots that are kept.
        * ``removed`` (list of dates, such as ``["2026-08-20"]``): days whose snapshot was removed.
        * ``damaged`` (object, such as ``{}``): day of each damaged snapshot to its problem.
        * ``orphaned_files`` (list of dates, such as ``[]``): other days from which files of interrupted runs were
          removed.
        * ``unknown`` (list of dates, such as ``[]``): days with files that no manifest lists; they are kept.
        * ``files`` (number, such as ``3``): removed files.

    :raises AirflowFailException: without a retry, if there are only days without a manifest, or a folder is a symbolic
        link.
    :raises StorageError: if the storage fails.
    """

    def __init__(
        self,
        *,
        base_path: str,
        snapshot_name: str = "websites",
        keep_days: int = 0,
        keep_weeks: int = 0,
        keep_months: int = 0,
        remove_damaged: bool = False,
        dry_run: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.base_path = base_path
        self.snapshot_name = snapshot_name
        self.keep_days = keep_days
        self.keep_weeks = keep_weeks
        self.keep_months = keep_months
        self.remove_damaged = remove_damaged
        self.is_dry_run = dry_run  # BaseOperator.dry_run is a method
        self.check_arguments()

    template_fields = arguments_of(__init__)

    def execute(self, context: Context) -> dict[str, Any]:
        """Remove the snapshots that are not kept."""
        from airflow_provider_analytics.api.checks import flag, whole_number
        from airflow_provider_analytics.hooks.connection import storage_path
        from airflow_provider_analytics.snapshots.catalog import snapshot_series
        from airflow_provider_analytics.snapshots.retention import Retention, plan_pruning, prune

        with FailWithoutRetry():
            check_rendered_arguments(self)
            retention = Retention(
                days=whole_number("keep_days", self.keep_days, at_least=0),
                weeks=whole_number("keep_weeks", self.keep_weeks, at_least=0),
                months=whole_number("keep_months", self.keep_months, at_least=0),
            )
            if retention == Retention(0):
                raise ValueError(
                    "keep_days, keep_weeks, and keep_months are all 0, so all snapshots except the newest would be "
                    "removed. Set at least one of them to 1 or more"
                )
            dry_run = flag("dry_run", self.is_dry_run)
            series = snapshot_series(storage_path(str(self.base_path), "base_path"), str(self.snapshot_name))
            pruning = plan_pruning(
                series, retention, datetime.now(UTC), remove_damaged=flag("remove_damaged", self.remove_damaged)
            )
            for day, problem in pruning.damaged.items():
                fate = "removed" if day in pruning.removed else "kept"
                self.log.warning("The snapshot of %s is damaged, and is %s: %s.", day, fate, problem.rstrip("."))
            if pruning.unknown:
                days = ", ".join(map(str, pruning.unknown[:MAX_DAYS]))
                self.log.warning(
                    "Kept the files of %s, because no manifest lists them: %s.",
                    counted(len(pruning.unknown), "day"),
                    days,
                )
            prune(series, pruning, dry_run=dry_run)
        removed = f"{counted(len(pruning.removed), 'snapshot')} ({counted(pruning.count, 'file')})"
        if dry_run:
            self.log.info("Dry run: would remove %s and keep %s.", removed, len(pruning.kept))
        else:
            self.log.info("Removed %s and kept %s.", removed, len(pruning.kept))
        return {
            "path": str(series.data),
            "dry_run": dry_run,
            "kept": len(pruning.kept),
            "removed": list(map(str, pruning.removed)),
            "damaged": {str(day): problem for day, problem in pruning.damaged.items()},
            "orphaned_files": list(map(str, pruning.orphaned_files)),
            "unknown": list(map(str, pruning.unknown)),
            "files": pruning.count,
        }


def describe(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as plain JSON values of bounded size, for XCom and the asset event."""
    from airflow_provider_analytics.snapshots.diff import COUNTS

    manifest, partition = snapshot.manifest, snapshot.partition
    previous = None
    counts: dict[str, int | None] = dict.fromkeys(COUNTS)
    if manifest.previous:
        previous = manifest.previous.snapshot_date.isoformat()
        counts.update(manifest.previous.counts)
    replaced: dict[str, Any] | None = None
    if manifest.replaced_snapshot:
        replaced = {
            "observed_at": manifest.replaced_snapshot.observed_at.isoformat(),
            "count": manifest.replaced_snapshot.count,
            **manifest.replaced_snapshot.counts,
        }
    return {
        "path": str(partition.data),
        "manifest": str(partition.manifest),
        "digest": snapshot.digest,
        "snapshot_name": manifest.snapshot_name,
        "snapshot_date": manifest.snapshot_date.isoformat(),
        "observed_at": manifest.observed_at.isoformat(),
        "late": manifest.late,
        "count": manifest.count,
        "is_first": manifest.is_first,
        "previous": previous,
        **counts,
        "replaced_snapshot": replaced,
        "fields": {
            "new": manifest.fields.new[:MAX_FIELDS],
            "missing": manifest.fields.missing,
            "invalid_values": manifest.fields.invalid_values,
        },
        "files": list(map(str, snapshot.files)),
        "changes_path": str(partition.about / manifest.changes_path) if manifest.changes_path else None,
        "report": str(partition.about / manifest.report) if manifest.report else None,
    }


def _writer(context: Context) -> str | None:
    """Return a text that identifies a task of a run, the same for all its tries; None outside of a run."""
    found = [getattr(context.get("ti"), name, None) for name in ("dag_id", "run_id", "task_id", "map_index")]
    return None if None in found else json.dumps(found, default=str)


def _date(text: str | None) -> date | None:
    """Return a day. An empty template, which renders to "" or "None", has no day."""
    from airflow_provider_analytics.snapshots.run_day import parse_day

    if text is None or str(text) in {"", "None"}:
        return None
    return parse_day(str(text))


def _uri(path: StoragePath) -> str:
    text = str(path)
    return text if "://" in text else f"file://{text}"
