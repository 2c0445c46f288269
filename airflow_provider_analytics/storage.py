"""The few things that are asked of storage, in terms of fsspec.

All I/O goes to the file system below an ``ObjectStoragePath`` or a ``upath.UPath``: the methods of these classes, and
the warnings they give, differ from version to version.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Self, cast

from airflow_provider_analytics.exceptions import SnapshotError

#: Protocols without directories. To "make a directory" there would create a bucket that somebody mistyped.
OBJECT_STORES = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2"})

_TOKEN_FORMAT = "%Y%m%dT%H%M%SZ"  # noqa: S105 - a time, not a secret
_TOKEN = re.compile(r"(?P<time>\d{8}T\d{6}Z)-[0-9a-f]{8}")


@dataclass(frozen=True)
class StoragePath:
    """A path in some storage.

    :param fs: the fsspec file system.
    :param path: the path inside it.
    :param url: the path as a person writes it.
    """

    fs: Any
    path: str
    url: str

    @classmethod
    def of(cls, path: Any) -> Self:
        """Return the place of an ``ObjectStoragePath`` or of a ``upath.UPath``."""
        return cls(path.fs, str(path.path), str(path))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    def __truediv__(self, name: str) -> Self:
        """Return the path of something below."""
        return type(self)(self.fs, f"{self.path.rstrip('/')}/{name}", f"{self.url.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.url


def new_token(now: datetime) -> str:
    """Return a name part that no other run uses and that tells when it was made."""
    return f"{now.astimezone(UTC).strftime(_TOKEN_FORMAT)}-{secrets.token_hex(4)}"


def token_age(name: str, now: datetime) -> timedelta | None:
    """Return how long ago the token in a file name was made, or None for a name without one."""
    found = _TOKEN.search(name)
    if found is None:
        return None
    return now - datetime.strptime(found["time"], _TOKEN_FORMAT).replace(tzinfo=UTC)


@contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Turn what storage raises into a :class:`SnapshotError` that says what was being done."""
    try:
        yield
    except (SnapshotError, ValueError):
        raise
    except FileNotFoundError as error:
        raise SnapshotError(f"cannot {doing}: {error}. Does the bucket or the folder exist?") from error
    except Exception as error:  # every store has its own errors, OSError is only the most common one
        raise SnapshotError(f"cannot {doing}: {type(error).__name__}: {error}") from error


def make_directory(directory: StoragePath) -> None:
    """Make a directory and those above it, where the storage has such a thing."""
    if not OBJECT_STORES.intersection(_protocols(directory)):
        directory.fs.makedirs(directory.path, exist_ok=True)


def names(directory: StoragePath) -> list[str]:
    """Return the sorted names of what is in a directory; none where there is no such directory."""
    directory.fs.invalidate_cache()
    try:
        found = directory.fs.ls(directory.path, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(str(path).rstrip("/").rsplit("/", 1)[-1] for path in found)


def exists(path: StoragePath) -> bool:
    """Tell whether there is a file now, not when it was last looked for."""
    path.fs.invalidate_cache()
    return bool(path.fs.exists(path.path))


def read_bytes(path: StoragePath) -> bytes | None:
    """Return the content of a small file, or None where there is none."""
    try:
        return cast(bytes, path.fs.cat_file(path.path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_to_read(path: StoragePath | Path) -> IO[bytes]:
    """Open a file for reading bytes."""
    return path.open("rb") if isinstance(path, Path) else cast("IO[bytes]", path.fs.open(path.path, "rb"))


def put_bytes(target: StoragePath, content: bytes, token: str) -> None:
    """Write a small file so that a reader sees the old content or the new one, never a part."""
    if not _is_local(target):
        target.fs.pipe_file(target.path, content)
        return
    with _replacing(Path(target.path), token) as file:
        file.write(content)


def put_file(source: Path, target: StoragePath, token: str) -> None:
    """Copy a local file to storage, where it appears whole or not at all."""
    if not _is_local(target):
        target.fs.put_file(str(source), target.path)
        return
    with source.open("rb") as content, _replacing(Path(target.path), token) as file:
        shutil.copyfileobj(content, file, 1 << 20)


def remove(path: StoragePath) -> None:
    """Remove a file; it is no error that somebody else has removed it."""
    with suppress(FileNotFoundError):
        path.fs.rm_file(path.path)


@contextmanager
def _replacing(target: Path, token: str) -> Iterator[IO[bytes]]:
    beside = target.with_name(f".{target.name}.{token}.tmp")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    # Without this the file could be whole and its name lost when the power fails.
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _is_local(path: StoragePath) -> bool:
    return "file" in _protocols(path)


def _protocols(path: StoragePath) -> set[str]:
    protocol = path.fs.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)
