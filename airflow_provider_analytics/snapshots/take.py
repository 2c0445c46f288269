# SPDX-License-Identifier: Apache-2.0
"""Take a snapshot in four steps: read, check, describe, publish.

Nothing is written to the target until the list is proven complete and has passed the guards.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api.checks import one_of
from airflow_provider_analytics.api.listing import Listing, Proof, read_again
from airflow_provider_analytics.api.waiting import Stats
from airflow_provider_analytics.exceptions import GuardError, MissingPackageError, StorageError
from airflow_provider_analytics.guards import MAX_LOSS_FRACTION
from airflow_provider_analytics.readable import Redactor, counted, first_of, readable
from airflow_provider_analytics.snapshots import formats, snapshot_guards
from airflow_provider_analytics.snapshots.catalog import Partition, Snapshot, SnapshotSeries
from airflow_provider_analytics.snapshots.diff import (
    Missing,
    diff,
    find_missing,
    ignored_between,
    in_words,
    read_changes,
    write_changes,
)
from airflow_provider_analytics.snapshots.manifest import (
    VERSION,
    Column,
    Completeness,
    Fields,
    File,
    ListSource,
    Manifest,
    NewerVersionError,
    Previous,
)
from airflow_provider_analytics.snapshots.publish import OvertakenError, publish
from airflow_provider_analytics.storage import MAX_DATA_BYTES, new_token, temporary_folder

#: Maximum number of snapshots in a chart, including the current one.
MAX_HISTORY = 60
#: Maximum number of undocumented fields in a log line.
MAX_NEW_FIELDS = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SnapshotOptions:
    """Format and guards of a snapshot, with the defaults of the operator.

    :param format: ``jsonl``, ``csv``, or ``parquet``.
    :param compression: None or ``gzip``.
    :param exclude_ips_as: ``keep``, ``hash``, or ``drop``.
    :param ignore_fields: names of documented fields that do not count as changes.
    :param max_loss_fraction: largest loss allowed, for websites and for the values of a field.
    :param override_guards: names of the guards to override, see :data:`~.guards.GUARDS`.
    :param html_report: also write an HTML report.
    :raises ValueError: if a format or ``exclude_ips_as`` is not allowed.
    :raises MissingPackageError: if the package of the format is not installed.
    """

    format: str = "jsonl"
    compression: str | None = None
    exclude_ips_as: str = "keep"
    ignore_fields: tuple[str, ...] = ()
    max_loss_fraction: float = MAX_LOSS_FRACTION
    override_guards: frozenset[str] = frozenset()
    html_report: bool = False

    def __post_init__(self) -> None:
        formats.check_format(self.format, self.compression)
        one_of("exclude_ips_as", self.exclude_ips_as, formats.EXCLUDE_IPS_AS)


@dataclass(frozen=True)
class Origin:
    """The list to read, and its source.

    :param make_listing: starts reading the list; called again if the list changed while it was read.
    :param source: the source of the list.
    :param stats: request counts of the client so far.
    :param filters: filters of the list.
    :param secrets: secrets of the connection; a value that contains one is not stored.
    """

    make_listing: Callable[[], Listing]
    source: ListSource
    stats: Stats
    filters: dict[str, Any] = field(default_factory=dict)
    secrets: Redactor | None = None


@dataclass(frozen=True)
class EarlierSnapshots:
    """The snapshots that are already published.

    :param previous: the latest snapshot of an earlier day; None if there is none, or if its manifest is damaged.
    :param replaced: the snapshot of the same day; None if there is none, or if its manifest is damaged.
    :param other_day: the latest snapshot of an earlier day with a readable manifest; None if there is none.
    :param is_first: whether no earlier day is published.
    """

    previous: Snapshot | None
    replaced: Snapshot | None
    other_day: Snapshot | None
    is_first: bool


@dataclass(frozen=True)
class LocalList:
    """A complete list in a local file.

    :param data: the file.
    :param count: number of websites.
    :param proof: the proof that the list is complete.
    :param fields: differences between the records and the documented fields.
    :param observed_at: start time of the read that was proven complete.
    :param finished_at: time at which the list was proven complete.
    """

    data: Path
    count: int
    proof: Proof
    fields: Fields
    observed_at: datetime
    finished_at: datetime


def take_snapshot(
    series: SnapshotSeries,
    day: date,
    origin: Origin,
    *,
    options: SnapshotOptions,
    is_late: Callable[[datetime], bool] = lambda _: False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    writer: str | None = None,
) -> Snapshot:
    """Read the list, publish it as the snapshot of a day, and return the snapshot.

    If another run publishes the day at the same time, this is done once more.

    :param series: the snapshots with one name.
    :param day: day of the snapshot.
    :param origin: the list to read.
    :param options: format and guards.
    :param is_late: called with the start time of the read, before publishing. Returns whether the list is late
        for the day; raises an error if the list must not be stored for the day.
    :param clock: returns the current time.
    :param writer: identifies the task of the run; each try removes the files that earlier tries left behind.
    :raises GuardError: if a guard blocks it; nothing was written.
    :raises StorageError: if the storage fails, or the clock or the version of an earlier manifest is wrong. The last
        snapshot is unchanged.
    :raises IncompleteListError: if the list cannot be proven complete; nothing was written.
    """

    def take() -> Snapshot:
        earlier = look_back(series, day, clock(), options)

        def check_source(other: Manifest) -> None:
            with _overridable("other_source", options):
                snapshot_guards.check_source(origin.source, origin.filters, other)

        last_good = earlier.replaced or earlier.other_day
        if last_good:
            check_source(last_good.manifest)  # before reading the list, which might be long
        with temporary_folder() as temporary:
            local_list = read(origin, day, temporary, options=options, clock=clock)
            check(local_list, earlier, options)
            late = is_late(local_list.observed_at)
            # The token is created after reading, because other runs infer from its age whether this run might still
            # write.
            token = new_token(local_list.finished_at, writer)
            manifest = describe(local_list, origin, earlier, series, day, options=options, late=late, token=token)
            return publish(series, manifest, temporary, token, check_source)

    try:
        return take()
    except OvertakenError as error:
        log.info("%s The list is read again, and published after it.", error.problem)
    return take()


def look_back(series: SnapshotSeries, day: date, now: datetime, options: SnapshotOptions) -> EarlierSnapshots:
    """Return the snapshots that are already published. Damage to an earlier snapshot only logs a warning.

    :raises StorageError: if an earlier manifest is from a newer version of this package or was observed in the future,
        unless the guard is overridden.
    """
    older = series.published(before=day)
    newest = next(older, None)
    replaced = _read_or_warn(series.partition(day), options)
    previous = _read_or_warn(newest, options) if newest else None
    other_day = previous or _newest_readable(older, options)
    last = next(series.published(), None)
    later = _read_or_warn(last, options) if last and last.day > day else None
    with _overridable("clock_skew", options):
        for snapshot in filter(None, (replaced, previous, later)):
            snapshot_guards.check_clock(now, snapshot.manifest)
    return EarlierSnapshots(previous, replaced, other_day, is_first=newest is None)


def read(
    origin: Origin,
    day: date,
    directory: Path,
    *,
    options: SnapshotOptions,
    clock: Callable[[], datetime],
) -> LocalList:
    """Read the list into a local file, with its proof.

    :raises StorageError: if the file cannot be written.
    :raises IncompleteListError: if the list cannot be proven complete.
    """
    data = directory / formats.file_name("", options.format, options.compression)

    def write(listing: Listing) -> LocalList:
        observed_at = clock()
        report = formats.FieldReport()
        typed = formats.typed_columns(
            listing,
            snapshot_date=day.isoformat(),
            observed_at=formats.utc_text(observed_at),
            exclude_ips_as=options.exclude_ips_as,
            report=report,
            secrets=origin.secrets,
        )
        try:
            count = formats.FORMATS[options.format].write(typed, data, options.compression)
        except OSError as error:
            raise StorageError(
                f"Cannot write the list to the temporary folder {directory}: {error}.", "Check its free space."
            ) from error
        size = data.stat().st_size
        if size > MAX_DATA_BYTES:
            raise StorageError(
                f"The list takes {size:,} bytes on the disk, and {MAX_DATA_BYTES:,} are allowed. Nothing was published."
            )
        if listing.proof is None or listing.proof.websites != count:
            raise StorageError(f"{count} rows were written, but the list was proven with {listing.proof}.")
        return LocalList(data, count, listing.proof, report.fields(), observed_at, clock())

    return read_again(write, origin.make_listing)


def check(local_list: LocalList, earlier: EarlierSnapshots, options: SnapshotOptions) -> None:
    """Raise :class:`GuardError` if the list looks wrong.

    The list is compared with the snapshot that it replaces, and with the latest one of another day: otherwise, hourly
    snapshots could lose a fraction of the websites each hour.
    """
    limit = options.max_loss_fraction

    def check_websites(now: LocalList | Snapshot, before: Snapshot) -> None:
        count = _described(now).count
        snapshot_guards.check_websites(count, _missing(before, now, count), before.manifest, limit)

    def check_fields(now: LocalList | Snapshot, before: Snapshot) -> None:
        found = _described(now)
        snapshot_guards.check_fields(found.count, found.fields, before.manifest, limit)

    for guard, check_one in (("fewer_websites", check_websites), ("missing_fields", check_fields)):
        with _overridable(guard, options):
            is_accepted = False
            if earlier.replaced:
                check_one(local_list, earlier.replaced)
                # A loss since the other day that the replaced snapshot already had was accepted by a person.
                is_accepted = earlier.other_day is not None and _is_blocked(
                    check_one, earlier.replaced, earlier.other_day
                )
            if earlier.other_day and not is_accepted:
                check_one(local_list, earlier.other_day)


@contextmanager
def _overridable(guard: str, options: SnapshotOptions) -> Iterator[None]:
    """Log the finding of a guard instead of raising it, if the guard is overridden."""
    try:
        yield
    except GuardError as error:
        if guard not in options.override_guards:
            raise
        log.warning("Overridden guard %s: %s", guard, error.problem)


def _described(list_or_snapshot: LocalList | Snapshot) -> LocalList | Manifest:
    if isinstance(list_or_snapshot, Snapshot):
        return list_or_snapshot.manifest
    return list_or_snapshot


def _missing(before: Snapshot, now: LocalList | Snapshot, count: int) -> Missing:
    """Return the websites of an earlier snapshot that a later list lacks, by id and domain.

    If the rows of one of them cannot be read, the numbers are compared.
    """
    try:
        return find_missing(before.rows(), _stored_rows(now.data) if isinstance(now, LocalList) else now.rows())
    except (StorageError, MissingPackageError) as error:
        log.info("Only the numbers of websites are compared, because rows cannot be read: %s", error.text)
        return Missing(max(0, before.manifest.count - count))


def _is_blocked(check: Callable[..., None], *arguments: Any) -> bool:
    """Return whether a check raises the error of a guard."""
    try:
        check(*arguments)
    except GuardError:
        return True
    return False


def describe(
    local_list: LocalList,
    origin: Origin,
    earlier: EarlierSnapshots,
    series: SnapshotSeries,
    day: date,
    *,
    options: SnapshotOptions,
    late: bool,
    token: str,
) -> Manifest:
    """Return the manifest of a list; write the changes since the previous snapshot, and the report if requested.

    All files are in the folder of the list, under their final names.
    """
    name = formats.file_name(token, options.format, options.compression)
    data = local_list.data.rename(local_list.data.with_name(name))
    changes = data.with_name(f"_changes-{token}.jsonl")
    previous = _changes_since(earlier.previous, data, options, changes)
    since_replaced = changes.with_name(f"_replaced-{token}.jsonl") if previous else changes
    replaced = _changes_since(earlier.replaced, data, options, since_replaced)
    report = data.with_name(f"_report-{token}.html")
    manifest = Manifest(
        version=VERSION,
        snapshot_name=series.name,
        snapshot_date=day,
        observed_at=local_list.observed_at,
        finished_at=local_list.finished_at,
        late=late,
        count=local_list.count,
        proof=Completeness(method=local_list.proof.method, total=local_list.proof.total, pages=local_list.proof.pages),
        requests=origin.stats.requests,
        retries=origin.stats.retries,
        filters=origin.filters,
        source=origin.source,
        provider_version=__version__,
        format=options.format,
        compression=options.compression,
        exclude_ips_as=options.exclude_ips_as,
        files=_files(data, series, day, local_list.count),
        columns=[Column(name=name, type=kind) for name, kind in formats.COLUMNS.items()],
        fields=local_list.fields,
        ignored=list(options.ignore_fields),
        is_first=earlier.is_first,
        previous=previous,
        replaced_snapshot=replaced,
        changes_path=changes.name if previous or replaced else None,
        report=report.name if options.html_report else None,
    )
    if options.html_report:
        from airflow_provider_analytics.snapshots.html_report import render_report

        since = read_changes(changes) if manifest.changes_path else ()
        page = render_report(manifest, _stored_rows(data), since, history(series, day))
        report.write_text(page, encoding="utf-8")
    return manifest


def history(series: SnapshotSeries, before: date) -> list[tuple[date, int]]:
    """Return day and count of the last published snapshots before a day, oldest first, without unreadable ones."""
    counts = []
    for partition in islice(series.published(before), MAX_HISTORY - 1):
        with suppress(StorageError):
            if snapshot := partition.read():
                counts.append((partition.day, snapshot.manifest.count))
    return counts[::-1]


def what_changed(manifest: Manifest) -> str:
    """Return the changes since the previous snapshot as sentences for the log."""
    found = []
    if replaced := manifest.replaced_snapshot:
        found.append(
            f"It replaces the snapshot of {replaced.observed_at:%H:%M} UTC ({counted(replaced.count, 'website')}):\n"
            f"{in_words(replaced.counts)}."
        )
    if previous := manifest.previous:
        found.append(f"Since {previous.snapshot_date}: {in_words(previous.counts)}.")
    elif not manifest.is_first:
        found.append("It was not compared with the day before, because that snapshot is damaged.")
    elif not replaced:
        found.append("It is the first snapshot.")
    return " ".join(found)


def drift(fields: Fields) -> str | None:
    """Return the differences between the records and the documented fields as one line; None without differences."""
    invalid_values = [f"{name} ({count:,})" for name, count in fields.invalid_values.items()]
    parts = []
    if invalid_values:
        parts.append(f"values that do not fit: {', '.join(invalid_values)}")
    if fields.missing:
        parts.append(f"missing: {', '.join(fields.missing)}")
    if fields.new:
        parts.append(f"new: {first_of(fields.new, MAX_NEW_FIELDS, show=readable)}")
    return "; ".join(parts) or None


def _changes_since(previous: Snapshot | None, data: Path, options: SnapshotOptions, changes: Path) -> Previous | None:
    if previous is None:
        return None
    manifest = previous.manifest
    ignored = ignored_between(manifest, options.exclude_ips_as, options.ignore_fields)
    try:
        counts = write_changes(diff(previous.rows(), _stored_rows(data), ignored), changes)
    except (StorageError, MissingPackageError) as error:
        log.warning(
            "The snapshot of %s was not compared, because it cannot be read. %s", manifest.snapshot_date, error.text
        )
        return None
    return Previous(
        snapshot_date=manifest.snapshot_date,
        observed_at=manifest.observed_at,
        count=manifest.count,
        digest=previous.digest,
        **counts,
    )


def _read_or_warn(partition: Partition, options: SnapshotOptions) -> Snapshot | None:
    try:
        return partition.read()
    except NewerVersionError as error:
        with _overridable("newer_version", options):
            raise snapshot_guards.guard_error("newer_version", error.text) from error
    except StorageError as error:
        log.warning("Continuing without the snapshot of %s: %s", partition.day, error.text)
    return None


def _newest_readable(newest_first: Iterable[Partition], options: SnapshotOptions) -> Snapshot | None:
    for partition in newest_first:
        snapshot = _read_or_warn(partition, options)
        if snapshot:
            return snapshot
    return None


def _stored_rows(data: Path) -> Iterator[formats.Row]:
    with data.open("rb") as stored:
        yield from formats.read_rows(stored, data.name)


def _files(data: Path, series: SnapshotSeries, day: date, count: int) -> list[File]:
    """Return the data files of a snapshot. It has none without rows, because readers that infer types fail on it."""
    if not count:
        return []
    with data.open("rb") as stored:
        sha256 = hashlib.file_digest(stored, "sha256").hexdigest()
    path = f"{series.name}/{series.partition(day).data.name}/{data.name}"
    return [File(path=path, rows=count, bytes=data.stat().st_size, sha256=sha256)]
