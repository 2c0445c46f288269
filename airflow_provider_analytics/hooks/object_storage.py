# SPDX-License-Identifier: Apache-2.0
"""Access to small files in object storage with Airflow connections: ledgers, plans, audit trails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import import_module

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_analytics import storage
from airflow_provider_analytics.api.checks import refused
from airflow_provider_analytics.exceptions import MissingPackageError
from airflow_provider_analytics.storage import (
    PRIVATE,
    SHARED,
    StoragePath,
    file_errors,
    make_directory,
    names,
    new_token,
    put_bytes,
    read_stored,
    replace_stored,
)

_PLACES = "a URL such as s3://bucket/path or file:///path, or /path"

#: Scheme to the package that provides its file system, from the documentation of Airflow's providers.
_PROVIDERS = {
    "s3": "apache-airflow-providers-amazon[s3fs]",
    "gs": "apache-airflow-providers-google",
    "abfs": "apache-airflow-providers-microsoft-azure",
    "abfss": "apache-airflow-providers-microsoft-azure",
    "adl": "apache-airflow-providers-microsoft-azure",
}


def _has_file_system(scheme: str) -> bool:
    """Return whether Airflow or an installed provider registers a file system for a scheme."""
    try:
        module = import_module("airflow.sdk.io.fs")
    except ImportError:  # Airflow 2
        module = import_module("airflow.io")
    return bool(module.has_fs(scheme))


def storage_path(url: str, argument: str) -> StoragePath:
    """Return the storage path of a URL or an absolute path.

    The connection id in ``s3://my_conn@bucket/path`` is used, but the URL of the path does not contain it: other
    readers of that URL cannot use it.

    :param argument: name of the argument, for the message.
    :raises ValueError: for a relative path, which would depend on the working directory of the worker, and for an
        unknown scheme.
    :raises MissingPackageError: if no installed provider registers the scheme; the message has the package that does.
    """
    if not isinstance(url, str):
        raise refused(argument, url, _PLACES)
    scheme, separator, rest = url.partition("://")
    host, slash, inside = rest.partition("/")
    host = host.rpartition("@")[2]  # Airflow treats everything before an "@" as a connection id
    if (scheme == "file" and host) or not (separator or url.startswith("/")):
        raise refused(argument, url, _PLACES)
    try:
        path = StoragePath.of(ObjectStoragePath(url))
    except ValueError:
        if _has_file_system(scheme):
            raise
        problem = f"{argument}={url!r} cannot be used: Airflow has no file system for {scheme}:// here"
        package = _PROVIDERS.get(scheme)
        if package:
            raise MissingPackageError(f"{problem}; install {package} on the workers") from None
        raise ValueError(f"{problem}; allowed: file, {', '.join(_PROVIDERS)}") from None
    return replace(path, url=f"{scheme}://{host}{slash}{inside}") if separator else path


def read_texts(
    url: str, argument: str, choose: Callable[[str, Sequence[str]], Sequence[str]] | None = None
) -> dict[str, str | ValueError]:
    """Return file names with their texts, for a small file or a folder, see :func:`storage.read_texts`."""
    return storage.read_texts(storage_path(url, argument), argument, choose)


def names_in(url: str, argument: str) -> list[str]:
    """Return the sorted names in a folder; empty if it does not exist.

    :param argument: name of the argument, for messages.
    """
    folder = storage_path(url, argument)
    with file_errors("read", url, argument):
        return names(folder)


def write_text(url: str, argument: str, text: str, mode: int = SHARED) -> None:
    """Write a small file atomically: a reader gets the old or the new text, even if the process is killed.

    :param mode: permissions of the file on a local disk.
    """
    place = storage_path(url, argument)
    with writing(url, argument):
        make_directory(place.parent, mode)
        put_bytes(place, text.encode(), new_token(datetime.now(UTC)), mode)


class SharedFile:
    """A small file that several processes write. Each process replaces only the version that it has read.

    :param url: URL or absolute path.
    :param argument: name of the argument, for messages.
    :raises ValueError: if it cannot be read, or is not UTF-8.
    """

    def __init__(self, url: str, argument: str) -> None:
        self.url = url
        self._argument = argument
        self._place = storage_path(url, argument)
        self.read()

    def read(self) -> None:
        """Read the file again, and set :attr:`text` to its text, or to None if it does not exist."""
        with file_errors("read", self.url, self._argument):
            self._stored = read_stored(self._place)
            content = self._stored.content
            self.text = None if content is None else content.decode("utf-8-sig")

    def write(self, text: str) -> bool:
        """Write the file atomically, unless another process has changed it; return whether it was written."""
        with writing(self.url, self._argument):
            make_directory(self._place.parent, PRIVATE)
            written = replace_stored(self._place, self._stored, text.encode(), new_token(datetime.now(UTC)))
        if written is None:
            return False
        self._stored, self.text = written, text
        return True


#: Converts the errors of a write to those of this package.
writing = partial(file_errors, "write")
