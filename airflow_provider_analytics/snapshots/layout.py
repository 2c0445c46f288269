"""Paths of a dataset of snapshots.

``<base>/<dataset>/dt=YYYY-MM-DD/`` contains only data files, because some readers treat every file in a folder as data.
``<base>/_<dataset>/`` contains the metadata: ``_latest.json``, and per day ``_manifest.json`` and ``_SUCCESS``, which
is written last. While a run publishes, the folder also contains its manifest as ``_manifest-<token>.json``. If the run
dies, this draft identifies the files of the run. Readers of a whole folder skip names that begin with ``_``.

The folders are not named after the column ``snapshot_date``. Readers turn the name of a folder into a column, and most
of them fail if the file contains the same column with another type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from airflow_provider_analytics.api.checks import refused
from airflow_provider_analytics.storage import StoragePath, names

#: Default name of the dataset.
DATASET = "websites"
MANIFEST = "_manifest.json"
SUCCESS = "_SUCCESS"
LATEST = "_latest.json"
#: Draft of a run's manifest, under a unique name. It is written before any of the files.
DRAFT = "_manifest-{token}.json"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_DRAFT = re.compile(r"_manifest-[0-9TZa-f-]+\.json")
#: Written by :func:`diff.diff_snapshots` next to a manifest, for each comparison.
_COMPARISON = re.compile(r"_since-[0-9]{4}-[0-9]{2}-[0-9]{2}\.(jsonl|md)")
_PARTITION = re.compile(r"dt=([0-9]{4}-[0-9]{2}-[0-9]{2})")


@dataclass(frozen=True)
class Partition:
    """The two folders of a day.

    :param day: the day.
    :param data: folder of the data files.
    :param about: folder of the manifest and all other metadata.
    """

    day: date
    data: StoragePath
    about: StoragePath

    @property
    def folders(self) -> tuple[StoragePath, StoragePath]:
        """Both folders."""
        return self.data, self.about

    @property
    def manifest(self) -> StoragePath:
        """Path of the manifest."""
        return self.about / MANIFEST

    @property
    def success(self) -> StoragePath:
        """Path of the marker of a published day."""
        return self.about / SUCCESS


@dataclass(frozen=True)
class Dataset:
    """A dataset of snapshots.

    :param base: base path; it may contain several datasets.
    :param name: name of the dataset.
    """

    base: StoragePath
    name: str = DATASET

    @property
    def data(self) -> StoragePath:
        """Folder with the data files of all days."""
        return self.base / self.name

    @property
    def about(self) -> StoragePath:
        """Folder with the manifests of all days."""
        return self.base / f"_{self.name}"

    @property
    def latest(self) -> StoragePath:
        """Path of the file that points to the newest snapshot."""
        return self.about / LATEST

    def partition(self, day: date) -> Partition:
        """Return the folders of a day."""
        folder = f"dt={day.isoformat()}"
        return Partition(day, self.data / folder, self.about / folder)

    def days(self) -> list[date]:
        """Return the days that have a folder, published or not, newest first. Other folders are ignored."""
        found = {_day(name) for name in (*names(self.about), *names(self.data))}
        return sorted((day for day in found if day), reverse=True)


def _day(name: str) -> date | None:
    """Return the day in the name of a folder; None if it is not a date, such as ``dt=2026-02-30``."""
    match = _PARTITION.fullmatch(name)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None


def is_draft(name: str) -> bool:
    """Return whether a file is the draft of a manifest."""
    return _DRAFT.fullmatch(name) is not None


def is_comparison(name: str) -> bool:
    """Return whether a file is a comparison with an earlier snapshot."""
    return _COMPARISON.fullmatch(name) is not None


def dataset_of(base: StoragePath | str, name: str = DATASET) -> Dataset:
    """Return the dataset of a base path, given as a path or as the text of a URL or path.

    :raises ValueError: if the name is not allowed.
    """
    return Dataset(StoragePath.of(base) if isinstance(base, str) else base, check_dataset(name))


def check_dataset(name: object) -> str:
    """Return the name of a dataset.

    :raises ValueError: if it is not allowed. It becomes a folder name, and readers skip names that begin with ``_``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise refused("dataset", name, "1 to 64 of a-z, 0-9, _ and -, beginning with a letter or digit")
    return name
