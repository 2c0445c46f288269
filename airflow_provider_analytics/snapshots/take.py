"""Take a snapshot: read, check, publish. Nothing is written to the target before the list is proven complete."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import msgspec

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api.checks import fraction, one_of, whole_number
from airflow_provider_analytics.api.listing import Listing, Proof, read_again
from airflow_provider_analytics.api.redaction import without_secrets
from airflow_provider_analytics.exceptions import SnapshotError
from airflow_provider_analytics.snapshots import formats, guards, layout, rows
from airflow_provider_analytics.snapshots.diff import KINDS, compare, ignored_fields, read_changes, write_changes
from airflow_provider_analytics.snapshots.manifest import (
    VERSION,
    Column,
    Completeness,
    Fields,
    File,
    Manifest,
    Previous,
    Source,
)
from airflow_provider_analytics.snapshots.publish import publish
from airflow_provider_analytics.snapshots.reader import Snapshot, history, latest_day, read_snapshot
from airflow_provider_analytics.storage import StoragePath, new_token
from airflow_provider_analytics.thresholds import MAX_LOSS_FRACTION

#: Accepted difference between the clocks of two machines.
CLOCK_SKEW = timedelta(minutes=5)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """Format and guards of a snapshot; the defaults are those of the operator.

    :param file_format: ``jsonl``, ``csv`` or ``parquet``.
    :param compression: None, ``gzip`` or ``zstd``.
    :param exclude_ips_as: ``keep``, ``hash`` or ``drop``.
    :param min_websites: smallest number of websites allowed.
    :param max_drop_fraction: largest loss allowed, as a fraction of the last snapshot.
    :param force: ignore the guards, and earlier manifests that cannot be read.
    :param report: also write an HTML report.
    """

    file_format: str = "jsonl"
    compression: str | None = None
    exclude_ips_as: str = "keep"
    min_websites: int = 0
    max_drop_fraction: float = MAX_LOSS_FRACTION
    force: bool = False
    report: bool = False

    def check(self) -> None:
        """Raise :class:`ValueError` if a value is not allowed or its extra is not installed."""
        formats.check_format(self.file_format, self.compression)
        one_of("exclude_ips_as", self.exclude_ips_as, rows.EXCLUDE_IPS_AS)
        whole_number("min_websites", self.min_websites, at_least=0)
        fraction("max_drop_fraction", self.max_drop_fraction)
        if self.report:
            for module in ("jinja2", "matplotlib"):
                formats.need_extra(module, "report", "report=True")


class Stats(Protocol):
    """Request counts of a client, such as ``AnalyticsClient.stats``."""

    requests: int
    retries: int


def take_snapshot(
    base: StoragePath,
    day: date,
    make_listing: Callable[[], Listing],
    *,
    stats: Stats,
    source: Source,
    now: datetime,
    options: Options,
    filters: dict[str, Any] | None = None,
    late: bool = False,
    clean: rows.Clean = without_secrets,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Snapshot:
    """Read the list, publish it as the snapshot of a day, and return the snapshot.

    :param base: base path of the snapshots.
    :param day: day of the snapshot.
    :param make_listing: starts reading the list; called again if the list changed while it was read.
    :param stats: request counts of the client.
    :param source: where the list comes from.
    :param now: when reading the list begins.
    :param options: format and guards.
    :param filters: filters of the list.
    :param late: whether the list is stored under an earlier day on request.
    :param clean: removes secrets from a record, such as ``AnalyticsClient.for_output``.
    :param clock: returns the current time.
    :raises ValueError: if an option is not allowed; nothing was written.
    :raises UnsafePlanError: if a guard trips; nothing was written.
    :raises SnapshotError: if the storage fails or an earlier manifest cannot be read; the last snapshot is unchanged.
    :raises IncompleteListError: if the list cannot be proven complete; nothing was written.
    """
    filters = filters or {}
    options.check()
    partition = layout.partition_path(base, day)
    previous, last_good = _earlier_snapshots(base, day, now, force=options.force)
    if not options.force:
        guards.check_same_list(source, filters, last_good)
    with tempfile.TemporaryDirectory(prefix="analytics-snapshot-") as temporary:
        directory = Path(temporary)
        unnamed = directory / formats.file_name("", options.file_format, options.compression)

        def write(listing: Listing) -> tuple[File, Proof, rows.FieldReport]:
            report = rows.FieldReport()
            typed = rows.typed_rows(
                listing,
                snapshot_date=day.isoformat(),
                observed_at=formats.utc_text(now),
                exclude_ips_as=options.exclude_ips_as,
                report=report,
                clean=clean,
            )
            try:
                file = formats.write_rows(typed, unnamed, options.file_format, options.compression)
            except OSError as error:
                raise SnapshotError(f"cannot write the list to the temporary folder {directory}: {error}") from error
            if listing.proof is None or listing.proof.websites != file.rows:
                raise SnapshotError(f"{file.rows} rows were written, but the list was proven with {listing.proof}")
            return file, listing.proof, report

        file, proof, report = read_again(write, make_listing)
        finished = clock()
        # Named only now, after reading: other runs infer from the age of a name whether its run may still be writing.
        token = new_token(finished)
        data = unnamed.rename(directory / formats.file_name(token, options.file_format, options.compression))
        if not options.force:
            guards.check_count(
                file.rows,
                last_good,
                min_websites=options.min_websites,
                max_drop_fraction=options.max_drop_fraction,
            )
        changes = directory / "changes.jsonl"
        manifest = Manifest(
            version=VERSION,
            dataset=layout.DATASET,
            snapshot_date=day,
            observed_at=now,
            finished_at=finished,
            late=late,
            count=file.rows,
            proof=Completeness(method=proof.method, total=proof.total, pages=proof.pages),
            requests=stats.requests,
            retries=stats.retries,
            filters=filters,
            source=source,
            provider_version=__version__,
            format=options.file_format,
            compression=options.compression,
            exclude_ips_as=options.exclude_ips_as,
            files=[msgspec.structs.replace(file, name=data.name)],
            columns=[Column(name=name, type=kind) for name, kind in rows.COLUMNS.items()],
            fields=Fields(new=report.new, missing=report.missing, misfits=dict(report.misfits)),
            previous=_compare_with(previous, data, options, changes),
            report=f"report-{token}.html" if options.report else None,
        )
        files = [data]
        if manifest.report:
            from airflow_provider_analytics.snapshots.report import render_report

            with data.open("rb") as stored:
                page = render_report(
                    manifest, formats.read_rows(stored, data.name), read_changes(changes), history(base, before=day)
                )
            (directory / manifest.report).write_text(page, encoding="utf-8")
            files.append(directory / manifest.report)
        return Snapshot(partition, manifest, publish(partition, manifest, files, token, finished))


def _earlier_snapshots(
    base: StoragePath, day: date, now: datetime, *, force: bool
) -> tuple[Snapshot | None, Manifest | None]:
    """Return the snapshot before a day, and the manifest that guards compare with: that of the same day, if any."""
    previous_day = latest_day(base, before=day)
    previous = _readable(base, previous_day, force=force) if previous_day else None
    replaced = _readable(base, day, force=force)
    for snapshot in (previous, replaced):
        if snapshot and snapshot.manifest.observed_at > now + CLOCK_SKEW and not force:
            raise SnapshotError(
                f"the snapshot in {snapshot.partition} was observed at {snapshot.manifest.observed_at}, but the clock "
                f"says {now}: one of them is wrong. Correct the clock, or run the task once with force=True."
            )
    last_good = replaced or previous
    return previous, last_good.manifest if last_good else None


def _readable(base: StoragePath, day: date, *, force: bool) -> Snapshot | None:
    try:
        return read_snapshot(base, day)
    except SnapshotError as error:
        if not force:
            raise SnapshotError(f"{error} To continue without it, run the task once with force=True.") from error
        log.warning("Ignored an earlier snapshot because of force=True: %s", error)
        return None


def _compare_with(previous: Snapshot | None, data: Path, options: Options, changes: Path) -> Previous | None:
    counts = dict.fromkeys(KINDS, 0)
    with changes.open("wb") as file, data.open("rb") as stored:
        if previous is None:
            return None
        try:
            ignore = ignored_fields(previous.manifest.exclude_ips_as, options.exclude_ips_as)
            current = formats.read_rows(stored, data.name)
            counts = write_changes(compare(previous.rows(), current, ignore), file)
        except SnapshotError as error:
            if not options.force:
                raise SnapshotError(f"{error} To continue without it, run the task once with force=True.") from error
            log.warning("Skipped the comparison with an earlier snapshot because of force=True: %s", error)
            return None
    return Previous(snapshot_date=previous.manifest.snapshot_date, digest=previous.digest, **counts)
