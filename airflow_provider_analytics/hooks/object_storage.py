"""From the URL of an argument to storage, with Airflow's connections: small files beside the service."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_analytics.storage import StoragePath, make_directory, new_token, put_bytes, read_bytes


def storage_path(url: str, argument: str) -> StoragePath:
    """Return the place that a URL or an absolute path names.

    :param argument: name of the argument, for the message.
    :raises ValueError: for a relative path, which would depend on where the worker runs.
    """
    if "://" not in url and not url.startswith("/"):
        raise ValueError(f"{argument}={url!r} is not allowed; allowed: a URL such as s3://bucket/path, or /path")
    return StoragePath.of(ObjectStoragePath(url))


def read_text(url: str, argument: str) -> str | None:
    """Return the text of a small file, or None where there is none."""
    content = read_bytes(storage_path(url, argument))
    return None if content is None else content.decode()


def write_text(url: str, argument: str, text: str) -> None:
    """Write a small file in one piece: a reader sees the old text or the new one, whatever is killed."""
    place = storage_path(url, argument)
    make_parent(place)
    put_bytes(place, text.encode(), new_token(datetime.now(UTC)))


def make_parent(place: StoragePath) -> None:
    """Make the directory that a file lies in."""
    make_directory(StoragePath(place.fs, place.path.rpartition("/")[0], place.url.rpartition("/")[0]))
