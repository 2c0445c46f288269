"""Taking a snapshot: read, check, publish. Nothing touches the target before the list is read and proven."""

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

#: Clocks of two machines may differ by so much.
CLOCK_SKEW = timedelta(minutes=5)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """How a snapshot is written and what it must hold; the defaults are those of the operator.

    :param file_format: ``jsonl``, ``csv`` or ``parquet``.
    :param compression: None, ``gzip`` or ``zstd``.
    :param exclude_ips_as: ``keep``, ``hash`` or ``drop``.
    :param min_websites: fewer websites are refused.
    :param max_drop_fraction: a larger loss against the last snapshot is refused.
    :param force: publish in spite of the guards, and of a manifest that cannot be read.
    :param report: write an HTML report too.
    """

    file_format: str = "jsonl"
    compression: str | None = None
    exclude_ips_as: str = "keep"
    min_websites: int = 0
    max_drop_fraction: float = MAX_LOSS_FRACTION
    force: bool = False
    report: bool = False

    def check(self) -> None:
        """Raise :class:`ValueError` for a value that is not allowed or whose extra is not installed."""
        formats.check_format(self.file_format, self.compression)
        one_of("exclude_ips_as", self.exclude_ips_as, rows.EXCLUDE_IPS_AS)
        whole_number("min_websites", self.min_websites, at_least=0)
        fraction("max_drop_fraction", self.max_drop_fraction)
        if self.report:
            for module in ("jinja2", "matplotlib"):
                formats.need_extra(module, "report", "report=True")


class Stats(Protocol):
    """Counts what a client sends; ``AnalyticsClient.stats`` does."""

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
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Snapshot:
    """Read the list and publish it as the snapshot of a day; return what was published.

    :param base: base path of the snapshots.
    :param make_listing: begins a reading of the list; called again where the list moved while it was read.
    :param stats: counts the requests of the readings.
    :param source: where the list comes from.
    :param now: start of the reading.
    :param filters: what the list was narrowed by.
    :param late: whether an older day is filled on purpose.
    :param clock: tells when the reading has ended.
    :raises UnsafePlanError: where a guard trips; nothing was written.
    :raises SnapshotError: where storage refuses or a manifest cannot be read; the last snapshot is untouched.
    :raises IncompleteListError: where the list cannot be proven complete; nothing was written.
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
            )
            try:
                file = formats.write_rows(typed, unnamed, options.file_format, options.compression)
            except OSError as error:
                raise SnapshotError(f"cannot write the list to the temporary folder {directory}: {error}") from error
            if listing.proof is None or listing.proof.websites != file.rows:
                raise SnapshotError(f"{file.rows} rows were written, the proof is {listing.proof}")
            return file, listing.proof, report

        file, proof, report = read_again(write, make_listing)
        finished = clock()
        # Named only now: the age of a name tells other runs whether its owner may still be writing, not reading.
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
    """Return the snapshot before that day, and what to measure against: the one of the day itself if there is one."""
    previous_day = latest_day(base, before=day)
    previous = _readable(base, previous_day, force=force) if previous_day else None
    replaced = _readable(base, day, force=force)
    for snapshot in (previous, replaced):
        if snapshot and snapshot.manifest.observed_at > now + CLOCK_SKEW and not force:
            raise SnapshotError(
                f"the snapshot in {snapshot.partition} was observed at {snapshot.manifest.observed_at}, this clock "
                f"says {now}: one of them is wrong. Correct the clock, or run the task once with force=True."
            )
    last_good = replaced or previous
    return previous, last_good.manifest if last_good else None


def _readable(base: StoragePath, day: date, *, force: bool) -> Snapshot | None:
    try:
        return read_snapshot(base, day)
    except SnapshotError as error:
        if not force:
            raise SnapshotError(f"{error} To go on without it, run the task once with force=True.") from error
        log.warning("Going on without an earlier snapshot, as told by force=True: %s", error)
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
                raise SnapshotError(f"{error} To go on without it, run the task once with force=True.") from error
            log.warning("Not compared with an earlier snapshot, as told by force=True: %s", error)
            return None
    return Previous(snapshot_date=previous.manifest.snapshot_date, digest=previous.digest, **counts)
