"""Small files in object storage, accessed with Airflow's connections: ledgers, plans, audit trails."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_analytics.storage import StoragePath, make_directory, new_token, put_bytes, read_bytes


def storage_path(url: str, argument: str) -> StoragePath:
    """Return the storage path of a URL or an absolute path.

    The connection id in ``s3://my_conn@bucket/path`` is used, and is no part of the URL of the path: that is handed on
    to others, to whom it means nothing.

    :param argument: name of the argument, for the message.
    :raises ValueError: for a relative path, which would depend on the working directory of the worker.
    """
    if "://" not in url and not url.startswith("/"):
        raise ValueError(f"{argument}={url!r} is not allowed; allowed: a URL such as s3://bucket/path, or /path")
    path = StoragePath.of(ObjectStoragePath(url))
    scheme, separator, rest = url.partition("://")
    host, slash, inside = rest.partition("/")
    # Airflow takes all that stands before an "@" for a connection id.
    return replace(path, url=f"{scheme}://{host.rpartition('@')[2]}{slash}{inside}") if separator else path


def read_text(url: str, argument: str) -> str | None:
    """Return the text of a small file, or None if it does not exist.

    :param argument: name of the argument, for messages.
    :raises ValueError: if it cannot be read, or is not UTF-8.
    """
    try:
        content = read_bytes(storage_path(url, argument))
        return None if content is None else content.decode("utf-8-sig")
    except (IsADirectoryError, PermissionError) as error:
        raise ValueError(f"{argument}={url!r} cannot be read: {error.strerror}; allowed: a file") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{argument}={url!r} cannot be read: {error.reason}; allowed: a text file in UTF-8") from error


def write_text(url: str, argument: str, text: str) -> None:
    """Write a small file atomically: a reader sees the old or the new text, even if the process is killed."""
    place = storage_path(url, argument)
    try:
        make_parent(place)
        put_bytes(place, text.encode(), new_token(datetime.now(UTC)))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise ValueError(f"{argument}={url!r} cannot be written: {error.strerror}; allowed: a file") from error


def make_parent(place: StoragePath) -> None:
    """Create the directory of a file."""
    make_directory(StoragePath(place.fs, place.path.rpartition("/")[0], place.url.rpartition("/")[0]))
