"""Take a snapshot in four steps: read, check, describe, publish.

Nothing is written to the target until the list is proven complete and has passed the guards.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from airflow_provider_analytics import __version__
from airflow_provider_analytics.api.checks import fraction, one_of, whole_number
from airflow_provider_analytics.api.listing import Listing, Proof, read_again
from airflow_provider_analytics.api.stats import Stats
from airflow_provider_analytics.exceptions import StorageError
from airflow_provider_analytics.guards import GUARDS, MAX_LOSS_FRACTION
from airflow_provider_analytics.readable import Redactor, readable
from airflow_provider_analytics.snapshots import formats, guards, rows
from airflow_provider_analytics.snapshots.diff import COUNTS, Selection, diff, in_words, read_changes, write_changes
from airflow_provider_analytics.snapshots.layout import Dataset
from airflow_provider_analytics.snapshots.manifest import (
    VERSION,
    Column,
    Completeness,
    Counted,
    Fields,
    File,
    Manifest,
    NewerVersionError,
    Previous,
    Source,
)
from airflow_provider_analytics.snapshots.publish import publish
from airflow_provider_analytics.snapshots.reader import (
    Snapshot,
    newest_day,
    published_days,
    read_partition,
)
from airflow_provider_analytics.storage import new_token, temporary_folder

#: Maximum number of snapshots in a chart, including the current one.
MAX_HISTORY = 60
#: Maximum number of undocumented fields in a log line.
MAX_NEW_FIELDS = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """Format and guards of a snapshot, with the defaults of the operator.

    :param file_format: ``jsonl``, ``csv`` or ``parquet``.
    :param compression: None, ``gzip`` or ``zstd``.
    :param exclude_ips_as: ``keep``, ``hash`` or ``drop``.
    :param selection: the fields that count as changes.
    :param min_websites: smallest number of websites allowed.
    :param max_loss_fraction: largest loss allowed, for websites and for the values of a field.
    :param accept: names of the guards to override, see :data:`~.guards.GUARDS`.
    :param report: also write an HTML report.
    """

    file_format: str = "jsonl"
    compression: str | None = None
    exclude_ips_as: str = "keep"
    selection: Selection = field(default_factory=Selection)
    min_websites: int = 0
    max_loss_fraction: float = MAX_LOSS_FRACTION
    accept: frozenset[str] = frozenset()
    report: bool = False

    def check(self) -> None:
        """Raise :class:`ValueError` if a value is not allowed or its extra is not installed."""
        formats.check_format(self.file_format, self.compression)
        one_of("exclude_ips_as", self.exclude_ips_as, rows.EXCLUDE_IPS_AS)
        whole_number("min_websites", self.min_websites, at_least=0)
        fraction("max_loss_fraction", self.max_loss_fraction)
        for name in self.accept:
            one_of("accept", name, GUARDS)
        if self.report:
            # Matplotlib logs messages about fonts on first use, which do not belong in a task log.
            logging.getLogger("matplotlib").setLevel(logging.ERROR)
            for module in ("jinja2", "matplotlib"):
                formats.need_extra(module, "report", "report=True")


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
    source: Source
    stats: Stats
    filters: dict[str, Any] = field(default_factory=dict)
    secrets: Redactor | None = None


@dataclass(frozen=True)
class Earlier:
    """The snapshots that are already published.

    :param previous: the latest snapshot of an earlier day; None if there is none, or if its manifest is damaged.
    :param last_good: manifest that the guards compare with: that of the same day, or otherwise of the latest earlier
        day with a readable manifest; None if there is none.
    :param is_first: whether no earlier day is published.
    :param replaced: the snapshot of the same day; None if there is none, or if its manifest is damaged.
    """

    previous: Snapshot | None
    replaced: Snapshot | None
    last_good: Manifest | None
    is_first: bool

    @property
    def baseline(self) -> list[Counted]:
        """The snapshots that limit the loss of websites."""
        if self.replaced:
            return self.replaced.manifest.baseline
        return [_counted(self.last_good)] if self.last_good else []


@dataclass(frozen=True)
class Reading:
    """A complete list in a local file.

    :param data: the file.
    :param count: number of websites.
    :param proof: the proof that the list is complete.
    :param fields: differences between the records and the documented fields.
    :param observed_at: when the reading that was proven complete began.
    :param finished_at: when the list was proven complete.
    """

    data: Path
    count: int
    proof: Proof
    fields: rows.FieldReport
    observed_at: datetime
    finished_at: datetime


@dataclass(frozen=True)
class Description:
    """A manifest with the local files that it names.

    :param manifest: the manifest.
    :param data: the data file; None if there are no websites.
    :param beside: file name to local file, for the files stored next to the manifest.
    :param token: the unique part of the names.
    """

    manifest: Manifest
    data: Path | None
    beside: dict[str, Path]
    token: str


def take_snapshot(
    dataset: Dataset,
    day: date,
    origin: Origin,
    *,
    options: Options,
    now: datetime | None = None,
    is_late: Callable[[datetime], bool] = lambda _: False,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    writer: str | None = None,
) -> Snapshot:
    """Read the list, publish it as the snapshot of a day, and return the snapshot.

    :param dataset: the dataset.
    :param day: day of the snapshot.
    :param origin: the list to read.
    :param options: format and guards.
    :param now: start time of every reading of the list; None for the time of the clock.
    :param is_late: called with the start time of the reading, just before publishing. Returns whether the list is late
        for the day; raises an error if the list must not be stored for the day.
    :param clock: returns the current time.
    :param writer: identifies the task of the run; each try removes the files that earlier tries left behind.
    :raises ValueError: if an option is not allowed; nothing was written.
    :raises GuardError: if a guard trips; nothing was written.
    :raises StorageError: if the storage fails, or the clock or the version of an earlier manifest is wrong. The last
        snapshot is unchanged.
    :raises IncompleteListError: if the list cannot be proven complete; nothing was written.
    """
    options.check()
    earlier = look_back(dataset, day, now or clock(), options)
    if guards.applies("source", options.accept):  # before reading the list, which may be long
        guards.check_source(origin.source, origin.filters, earlier.last_good)
    with temporary_folder() as temporary:
        reading = read(origin, day, temporary, now=now, options=options, clock=clock)
        check(reading, earlier, options)
        late = is_late(reading.observed_at)
        described = describe(reading, origin, earlier, dataset, day, options=options, late=late, writer=writer)
        is_late(reading.observed_at)  # another run may have published during the comparison
        return publish(
            dataset, described.manifest, described.data, described.beside, described.token, reading.finished_at
        )


def look_back(dataset: Dataset, day: date, now: datetime, options: Options) -> Earlier:
    """Return the snapshots that are already published. Damage to an earlier snapshot only logs a warning.

    :raises StorageError: if an earlier manifest is from a newer version of this package or was observed in the future,
        unless the guard is overridden.
    """
    previous_day = newest_day(dataset, before=day)
    replaced = _read_or_warn(dataset, day, options)
    previous = _read_or_warn(dataset, previous_day, options) if previous_day else None
    last_good = replaced or previous
    if last_good is None and previous_day:
        older = (_read_or_warn(dataset, found, options) for found in published_days(dataset, before=previous_day))
        last_good = next((snapshot for snapshot in older if snapshot), None)
    if guards.applies("clock", options.accept):
        guards.check_clock(now, [found.manifest for found in (replaced, previous) if found])
    return Earlier(previous, replaced, last_good.manifest if last_good else None, is_first=previous_day is None)


def read(
    origin: Origin, day: date, directory: Path, *, now: datetime | None, options: Options, clock: Callable[[], datetime]
) -> Reading:
    """Read the list into a local file, with its proof.

    :raises StorageError: if the file cannot be written or a record has no usable id.
    :raises IncompleteListError: if the list cannot be proven complete.
    """
    data = directory / formats.file_name("", options.file_format, options.compression)

    def write(listing: Listing) -> tuple[int, Proof, rows.FieldReport, datetime]:
        observed_at = now or clock()
        report = rows.FieldReport()
        typed = rows.typed_columns(
            listing,
            snapshot_date=day.isoformat(),
            observed_at=formats.utc_text(observed_at),
            exclude_ips_as=options.exclude_ips_as,
            report=report,
            secrets=origin.secrets,
        )
        try:
            count = formats.write_columns(typed, data, options.file_format, options.compression)
        except OSError as error:
            raise StorageError(f"cannot write the list to the temporary folder {directory}: {error}") from error
        if listing.proof is None or listing.proof.websites != count:
            raise StorageError(f"{count} rows were written, but the list was proven with {listing.proof}")
        return count, listing.proof, report, observed_at

    count, proof, report, observed_at = read_again(write, origin.make_listing)
    return Reading(data, count, proof, report, observed_at=observed_at, finished_at=clock())


def check(reading: Reading, earlier: Earlier, options: Options) -> None:
    """Raise :class:`GuardError` if the list looks wrong."""
    if guards.applies("count", options.accept):
        guards.check_count(
            reading.count,
            [*([_counted(earlier.last_good)] if earlier.last_good else []), *earlier.baseline],
            min_websites=options.min_websites,
            max_loss_fraction=options.max_loss_fraction,
        )
    if guards.applies("fields", options.accept):
        guards.check_fields(reading.fields, earlier.last_good, options.max_loss_fraction)


def describe(
    reading: Reading,
    origin: Origin,
    earlier: Earlier,
    dataset: Dataset,
    day: date,
    *,
    options: Options,
    late: bool,
    writer: str | None,
) -> Description:
    """Return the manifest of a list with the changes since the previous snapshot and, if requested, the report."""
    # The token is created after reading, because other runs infer from its age whether this run may still be writing.
    token = new_token(reading.finished_at, writer)
    data = reading.data.rename(
        reading.data.with_name(formats.file_name(token, options.file_format, options.compression))
    )
    changes = data.with_name(f"_changes-{token}.jsonl")
    previous = _changes_since(earlier.previous, data, options, changes)
    since_replaced = changes.with_name(f"_replaced-{token}.jsonl") if previous else changes
    replaced = _changes_since(earlier.replaced, data, options, since_replaced)
    this = Counted(snapshot_date=day, observed_at=reading.observed_at, count=reading.count)
    if not guards.applies("count", options.accept):
        baseline = [this]
    else:
        baseline = earlier.baseline if earlier.replaced else [*earlier.baseline, this]
    report = data.with_name(f"_report-{token}.html")
    manifest = Manifest(
        version=VERSION,
        dataset=dataset.name,
        snapshot_date=day,
        observed_at=reading.observed_at,
        finished_at=reading.finished_at,
        late=late,
        count=reading.count,
        proof=Completeness(method=reading.proof.method, total=reading.proof.total, pages=reading.proof.pages),
        requests=origin.stats.requests,
        retries=origin.stats.retries,
        filters=origin.filters,
        source=origin.source,
        provider_version=__version__,
        format=options.file_format,
        compression=options.compression,
        exclude_ips_as=options.exclude_ips_as,
        # No file without rows: readers that infer types fail on it.
        files=[_file(data, dataset, day, reading.count)] if reading.count else [],
        columns=[Column(name=name, type=kind) for name, kind in rows.COLUMNS.items()],
        fields=Fields(new=reading.fields.new, missing=reading.fields.missing, misfits=dict(reading.fields.misfits)),
        compared=options.selection.as_manifest(),
        first=earlier.is_first,
        previous=previous,
        replaced=replaced,
        baseline=baseline,
        changes=changes.name if previous or replaced else None,
        report=report.name if options.report else None,
    )
    if options.report:
        from airflow_provider_analytics.snapshots.report import render_report

        page = render_report(
            manifest, _stored_rows(data), read_changes(changes) if previous or replaced else (), history(dataset, day)
        )
        report.write_text(page, encoding="utf-8")
    beside = {path.name: path for path in (changes, report) if path.name in manifest.file_names}
    return Description(manifest, data if reading.count else None, beside, token)


def history(dataset: Dataset, before: date) -> list[tuple[date, int]]:
    """Return day and count of the last published snapshots before a day, oldest first, without unreadable ones."""
    counts = []
    for day in islice(published_days(dataset, before), MAX_HISTORY - 1):
        with suppress(StorageError):
            if snapshot := read_partition(dataset.partition(day)):
                counts.append((day, snapshot.manifest.count))
    return counts[::-1]


def what_changed(manifest: Manifest) -> str:
    """Return the changes since the previous snapshot as text for a log line."""
    found = []
    if replaced := manifest.replaced:
        found.append(
            f"replaces the snapshot of {replaced.observed_at:%H:%M} UTC ({replaced.count:,} websites): "
            f"{in_words(_counts(replaced))}"
        )
    if previous := manifest.previous:
        found.append(f"since {previous.snapshot_date}: {in_words(_counts(previous))}")
    elif not manifest.first:
        found.append("not compared with the day before, because its snapshot is damaged")
    elif not replaced:
        found.append("the first snapshot")
    return "; ".join(found)


def drift(fields: Fields) -> str | None:
    """Return the differences between the records and the documented fields as one line; None without differences."""
    misfits = ", ".join(f"{name} ({count:,})" for name, count in fields.misfits.items())
    more = len(fields.new) - MAX_NEW_FIELDS
    new = ", ".join(map(readable, fields.new[:MAX_NEW_FIELDS])) + (f" and {more:,} more" if more > 0 else "")
    parts = {"values that do not fit": misfits, "missing": ", ".join(fields.missing), "new": new}
    return "; ".join(f"{what}: {names}" for what, names in parts.items() if names) or None


def _changes_since(previous: Snapshot | None, data: Path, options: Options, changes: Path) -> Previous | None:
    if previous is None:
        return None
    try:
        selection = options.selection.between(previous.manifest, options.exclude_ips_as)
        counts = write_changes(diff(previous.rows(), _stored_rows(data), selection), changes)
    except (StorageError, ValueError) as error:  # ValueError: the format needs an extra that is not installed
        log.warning("Not compared with the snapshot of %s: %s", previous.manifest.snapshot_date, error)
        return None
    counted = _counted(previous.manifest)
    return Previous(
        snapshot_date=counted.snapshot_date,
        observed_at=counted.observed_at,
        count=counted.count,
        digest=previous.digest,
        **counts,
    )


def _counted(manifest: Manifest) -> Counted:
    return Counted(snapshot_date=manifest.snapshot_date, observed_at=manifest.observed_at, count=manifest.count)


def _counts(since: Previous) -> dict[str, int]:
    return {name: getattr(since, name) for name in COUNTS}


def _read_or_warn(dataset: Dataset, day: date, options: Options) -> Snapshot | None:
    try:
        return read_partition(dataset.partition(day))
    except NewerVersionError as error:
        if guards.applies("version", options.accept):
            raise guards.refused("version", str(error)) from error
        log.warning("Continuing without the snapshot of %s, because version is accepted: %s", day, error)
    except StorageError as error:
        log.warning("Continuing without the snapshot of %s: %s", day, error)
    return None


def _stored_rows(data: Path) -> Iterator[rows.Row]:
    with data.open("rb") as stored:
        yield from formats.read_rows(stored, data.name)


def _file(data: Path, dataset: Dataset, day: date, count: int) -> File:
    with data.open("rb") as stored:
        sha256 = hashlib.file_digest(stored, "sha256").hexdigest()
    path = f"{dataset.name}/{dataset.partition(day).data.name}/{data.name}"
    return File(path=path, rows=count, bytes=data.stat().st_size, sha256=sha256)
