# SPDX-License-Identifier: Apache-2.0
"""All operations on stored files: reading, atomic and conditional writes, and their errors.

All I/O uses the fsspec file system of an ``ObjectStoragePath`` or ``upath.UPath``, because the methods and warnings of
these classes differ between versions. ``hooks/connection.py`` converts URLs with Airflow connections to paths.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Literal, Self, cast

from fsspec.core import url_to_fs

from airflow_provider_analytics.exceptions import AnalyticsError, StorageError
from airflow_provider_analytics.readable import readable

#: Protocols without directories. With these, ``makedirs`` would create a bucket for a mistyped name.
OBJECT_STORES = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2"})

#: Suffix of files that replace another file once they are complete.
TEMPORARY = ".tmp"
#: Permissions of files on a local disk: readable by others, as the umask allows, or private. In a folder that its group
#: can write, and others cannot, the group can read and write private files, too, as the umask allows.
SHARED, PRIVATE = 0o666, 0o600

# Limits of stored files (docs/reference/performance.md, Size limits). A file is read up to its limit, and never written
# beyond it.
#: A file that people wrote, and all files of a folder together: 400 bytes for each of ten thousand websites.
MAX_TEXT_BYTES = 4_000_000
#: A table of a list, a plan, a manifest, or the changes of a snapshot; and its values, counted before it is parsed.
MAX_STATE_BYTES, MAX_STATE_VALUES = 16_000_000, 1_000_000
#: A data file of a snapshot as it is stored, and its text without compression.
MAX_DATA_BYTES, MAX_EXPANDED_BYTES = 2 * 1024**3, 8 * 1024**3
#: A row of a data file, a row group of a Parquet file, and its rows that are in memory at the same time.
MAX_ROW_BYTES, MAX_GROUP_BYTES, MAX_BLOCK_BYTES = 16_000_000, 128_000_000, 64_000_000
#: Rows of a data file, and characters of the records of a snapshot that are exported as a websites file.
MAX_ROWS, MAX_EXPORTED = 1_000_000, 16_000_000

#: Seconds to wait for the lock of a file, at most: no task writes a small file for so long.
LOCK_SECONDS = 60.0
_LOCK_INTERVAL = 0.05

#: Hours after which a temporary folder is removed: its process was killed, because no snapshot takes so long.
ABANDONED_AFTER_HOURS = 48
_TEMPORARY_PREFIX = "analytics-snapshot-"

#: Maximum length of a name in bytes on a local disk, without a suffix such as ``.jsonl``.
MAX_STEM_BYTES = 240
#: Errors of a disk that cannot sync a folder, such as a network disk. Its files are written.
_CANNOT_SYNC = frozenset({errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS})
#: Maximum length of the reason of an error of a storage library.
_MAX_REASON = 300
#: Errors of a path that the user has to correct.
_WRONG_PATHS = (IsADirectoryError, NotADirectoryError, ValueError)

#: Errors of a storage to the recommended action. An error of another kind has none, because its cause is unknown.
_REMEDIES_BY_KIND: Mapping[type[Exception], str] = {
    FileNotFoundError: "Check that the bucket or folder exists.",
    NotADirectoryError: "A part of this path is a file. Choose another folder.",
    PermissionError: "Check the permissions of the folder or bucket, and the user or connection of the worker.",
}
_REMEDIES_BY_NUMBER: Mapping[int | None, str] = {
    errno.EDQUOT: "Free space there.",
    errno.ENOSPC: "Free space there.",
    errno.EROFS: "The file system is read-only. Make it writable: another folder would lack the earlier files.",
}

#: Action on a file that an argument names, to the end of the message if the file cannot be used.
_UNUSABLE = {
    "read": "cannot be read: {reason}. Allowed: a text file in UTF-8",
    "write": "cannot be written: {reason}. Allowed: a file in a folder",
}

log = logging.getLogger(__name__)

_TOKEN_FORMAT = "%Y%m%dT%H%M%SZ"  # noqa: S105 - a time format, not a secret
_TOKEN = re.compile(r"(?P<time>\d{8}T\d{6}Z)-(?P<writer>[0-9a-f]{8})")


@dataclass(frozen=True)
class StoragePath:
    """A path on an fsspec file system.

    :param fs: the file system.
    :param path: path inside the file system.
    :param url: URL or path as a user writes it.
    """

    fs: Any
    path: str
    url: str

    @classmethod
    def of(cls, path: Any) -> Self:
        """Return the path of an ``ObjectStoragePath``, a ``upath.UPath``, a local path, or text of a URL or path."""
        if not hasattr(path, "fs"):
            text = os.fspath(path)
            fs, inside = url_to_fs(text)
            return cls(fs, str(inside), text)
        return cls(path.fs, str(path.path), str(path))

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def parent(self) -> Self:
        """Path of the folder that contains it."""
        return type(self)(self.fs, self.path.rstrip("/").rpartition("/")[0], self.url.rstrip("/").rpartition("/")[0])

    def __truediv__(self, name: str) -> Self:
        """Return the path of a child."""
        return type(self)(self.fs, f"{self.path.rstrip('/')}/{name}", f"{self.url.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.url


def new_token(now: datetime, writer: str | None = None) -> str:
    """Return a unique part for file names, with its creation time and a hash of the writer.

    :param writer: name that only the tries of a task of a run have in common; None: a random name.
    """
    if writer is None:
        writer = secrets.token_hex()
    time = now.astimezone(UTC).strftime(_TOKEN_FORMAT)
    return f"{time}-{hashlib.sha256(writer.encode()).hexdigest()[:8]}-{secrets.token_hex(2)}"


def is_same_writer(name: str, token: str) -> bool:
    """Return whether a file name contains a token of the same writer."""
    found, wanted = _TOKEN.search(name), _TOKEN.search(token)
    return found is not None and wanted is not None and found["writer"] == wanted["writer"]


def token_age(name: str, now: datetime) -> timedelta | None:
    """Return the age of the token in a file name, or None if the name has none."""
    found = _TOKEN.search(name)
    if found is None:
        return None
    return now - datetime.strptime(found["time"], _TOKEN_FORMAT).replace(tzinfo=UTC)


@contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Convert exceptions of the storage to a :class:`StorageError`: "Cannot ``doing``: ..."."""
    try:
        yield
    except (AnalyticsError, ValueError):
        raise
    except FileNotFoundError as error:
        raise StorageError(f"Cannot {doing}: {_reason(error)}.", _remedy(error)) from error
    except Exception as error:  # each storage library has its own errors; OSError is only the most common
        problem = f"Cannot {doing}: {type(error).__name__}: {_reason(error)}."
        raise StorageError(problem, _remedy(error)) from error


def _remedy(error: Exception) -> str:
    """Return what to do about an error of the storage; empty if its cause is unknown."""
    for kind, remedy in _REMEDIES_BY_KIND.items():
        if isinstance(error, kind):
            return remedy
    if "Credential" in type(error).__name__:  # NoCredentialsError of S3, DefaultCredentialsError of Google Cloud
        return (
            "Put the id of a connection into the URL, such as s3://CONN_ID@BUCKET/PATH, or give the worker credentials."
        )
    return _REMEDIES_BY_NUMBER.get(getattr(error, "errno", None), "")


def _reason(error: object) -> str:
    """Return the first line of an error: a storage library can append the response, such as twelve lines of XML."""
    return readable(str(error).strip().partition("\n")[0], _MAX_REASON).rstrip(".")


class UnusableFileError(ValueError):
    """A file that an argument names, and that cannot be used.

    :param argument: name of the argument.
    :param url: URL of the file.
    :param reason: the problem, and the allowed files.
    """

    def __init__(self, argument: str, url: str, reason: str) -> None:
        super().__init__(f"{argument}={url!r} {reason}")
        self.reason = reason


@contextmanager
def file_errors(verb: Literal["read", "write"], file: StoragePath, argument: str) -> Iterator[None]:
    """Convert the errors of a file that an argument names.

    :param argument: name of the argument, for messages.
    :raises ValueError: if the user has to correct the argument or the file.
    :raises StorageError: if the storage fails.
    """
    try:
        yield
    except StorageError:
        raise
    except Exception as error:  # each storage library has its own errors; OSError is only the most common
        reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or error
        reason = _reason(reason)
        if _is_wrong_path(error, verb):
            raise UnusableFileError(argument, file.url, _UNUSABLE[verb].format(reason=reason)) from error
        if not isinstance(error, OSError):
            reason = f"{type(error).__name__}: {reason}"
        problem = f"The storage cannot {verb} {argument}: {reason}. File: {file.url}."
        raise StorageError(problem, _remedy(error)) from error


def _is_wrong_path(error: Exception, verb: str) -> bool:
    """Return whether the user has to correct a path. A writer fails at a missing bucket, or a link of another user."""
    if isinstance(error, _WRONG_PATHS):
        return True
    is_missing = isinstance(error, FileNotFoundError) or getattr(error, "errno", None) == errno.ELOOP
    return is_missing and verb == "read"


def make_directory(directory: StoragePath, mode: int = SHARED) -> None:
    """Create a directory and its parents, unless the storage has no directories.

    :param mode: permissions of a file in it, on a local disk; existing directories keep theirs.
    """
    if mode == PRIVATE and is_local(directory):
        _make_private_folder(Path(directory.path))
    elif not OBJECT_STORES.intersection(_protocols(directory)):
        directory.fs.makedirs(directory.path, exist_ok=True)


def _make_private_folder(folder: Path) -> None:
    if not folder.exists():
        _make_private_folder(folder.parent)
        folder.mkdir(mode=0o770 if _is_of_a_group(folder.parent) else 0o700, exist_ok=True)


def _is_of_a_group(folder: Path) -> bool:
    """Return whether the group of a folder can write it, and others cannot.

    On OpenShift, each pod has another user id, and all of them the same group.
    """
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWGRP) and not mode & stat.S_IWOTH


def fitting(name: str, folder: StoragePath) -> str:
    """Return a name without suffix that fits into a folder: on a local disk, a hash replaces the end of a long one."""
    encoded = name.encode()
    if not is_local(folder) or len(encoded) <= MAX_STEM_BYTES:
        return name
    digest = hashlib.sha256(encoded).hexdigest()[:16]
    return f"{encoded[: MAX_STEM_BYTES - 17].decode(errors='ignore')}-{digest}"


def names(directory: StoragePath) -> list[str]:
    """Return the sorted names in a directory; an empty list if it does not exist."""
    return sorted(_entries(directory))


def _entries(directory: StoragePath) -> dict[str, Mapping[str, Any]]:
    """Return the names in a directory, and the details of each that the storage returns."""
    directory.fs.invalidate_cache()
    try:
        listed = directory.fs.ls(directory.path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    entries = {}
    for details in listed:
        name = str(details["name"]).rstrip("/").rsplit("/", 1)[-1]
        entries[name] = details
    return entries


def names_below(directory: StoragePath, *, with_subfolders: bool = True) -> list[str]:
    """Return the sorted names in a directory, and the paths in its sub-folders, such as ``team/shops.yaml``.

    Names that start with a dot are left out, and so is everything in such a folder. A link to a folder is followed, but
    the sub-folders behind it are not, because links can form a loop.
    """
    found = []
    for name, entry in sorted(_entries(directory).items()):
        if name.startswith("."):
            continue
        found.append(name)
        child = directory / name
        is_linked = is_link(child)
        is_folder = entry["type"] == "directory" or (is_linked and child.fs.isdir(child.path))
        if is_folder and with_subfolders:
            below = names_below(child, with_subfolders=not is_linked)
            found += [f"{name}/{inner}" for inner in below]
    return found


def is_link(path: StoragePath) -> bool:
    """Return whether a path is a local symbolic link."""
    return is_local(path) and Path(path.path).is_symlink()


def files_in(folder: StoragePath) -> list[str]:
    """Return the sorted names of the files in a folder, without links and without files behind links."""
    if is_link(folder):
        return []
    files = []
    for name, details in sorted(_entries(folder).items()):
        if details["type"] == "file" and not details.get("islink"):
            files.append(name)
    return files


def exists(path: StoragePath) -> bool:
    """Return whether a file exists now, bypassing cached listings."""
    path.fs.invalidate_cache()
    return bool(path.fs.exists(path.path))


def check_limit(path: StoragePath, what: str, found: int, limit: int) -> None:
    """Check a number of a stored file, such as its bytes.

    :raises StorageError: if it is above the limit.
    """
    if found > limit:
        raise StorageError(
            f"{path} is too large: it has {found:,} {what} or more, and {limit:,} are allowed.", "Check who wrote it."
        )


def read_bytes(path: StoragePath) -> bytes | None:
    """Return the content of a small file of this package, or None if it does not exist.

    :raises StorageError: if it is larger than :data:`MAX_STATE_BYTES`, or a local device or pipe.
    """
    try:
        content = _first_bytes(path, MAX_STATE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    check_state(path, content)
    return content


def check_state(path: StoragePath, content: bytes) -> None:
    """Check the content of a small file of this package before it is parsed or written.

    :raises StorageError: if it is too large, or has too many values.
    """
    check_limit(path, "bytes", len(content), MAX_STATE_BYTES)
    check_limit(path, "values", sum(map(content.count, (b",", b"[", b"{"))), MAX_STATE_VALUES)


def _first_bytes(path: StoragePath, size: int) -> bytes:
    """Return the first bytes of a file; never read more of it."""
    if is_local(path):
        with _open(path) as stream:
            return stream.read(size)
    try:
        return cast("bytes", path.fs.cat_file(path.path, end=size))
    except FileNotFoundError:
        raise
    except Exception:
        if size_of(path) == 0:  # a storage can reject the request for a part of an empty file
            return b""
        raise


def read_text(file: StoragePath, argument: str) -> str | None:
    """Return the text of a file that people wrote; None if it does not exist.

    :param argument: name of the argument, for messages.
    :raises ValueError: if it is not UTF-8, not a regular file, or larger than :data:`MAX_TEXT_BYTES`.
    """
    try:
        with file_errors("read", file, argument):
            return _read_at_most(file, MAX_TEXT_BYTES).decode("utf-8-sig")
    except UnusableFileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def read_texts(
    place: StoragePath, argument: str, choose: Callable[[str, Sequence[str]], Sequence[str]]
) -> dict[str, str | ValueError]:
    """Return the names and texts of files that people wrote: one file, or files of a folder; empty if there are none.

    :param argument: name of the argument, for messages.
    :param choose: takes a folder and the names in it (:func:`names_below`) and returns the names to read.
    :return: file name to its text, or to the reason why it cannot be read: it is not text, not a regular file, or all
        files together are larger than :data:`MAX_TEXT_BYTES`.
    """
    with file_errors("read", place, argument):
        is_folder = _is_folder(place)
    files = [place]
    if is_folder:
        with file_errors("read", place, argument):
            found = names_below(place)
        files = [place / name for name in choose(place.url, found)]
    texts: dict[str, str | ValueError] = {}
    left = MAX_TEXT_BYTES
    for file in files:
        try:
            with file_errors("read", file, argument):
                content = _read_at_most(file, left)
                left -= len(content)
                texts[file.name] = content.decode("utf-8-sig")
        except UnusableFileError as error:
            # A file of a folder is never omitted silently, such as a link whose target was renamed.
            if not is_folder and isinstance(error.__cause__, FileNotFoundError):
                return {}
            texts[file.name] = ValueError(error.reason)
    return texts


def _is_folder(place: StoragePath) -> bool:
    """Return whether a path is a folder. A role that can only read files cannot list them, or ask for a folder."""
    if not is_local(place):
        with suppress(Exception):  # each storage library has its own errors
            if _first_bytes(place, 1):
                return False
    return bool(place.fs.isdir(place.path))


def _read_at_most(path: StoragePath, limit: int) -> bytes:
    """Return the content of a file; read no more than one byte above the limit.

    :raises ValueError: if it is not a regular file in its folder, or too large; the message is the reason.
    """
    # Otherwise the author of a link chooses a file whose content appears in messages.
    file = Path(path.path)
    if is_local(path) and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(file.parent)):
        raise ValueError("it is a link that leads outside its folder")
    try:
        content = _first_bytes(path, limit + 1)
    except StorageError as error:
        raise ValueError(error.text) from error
    if len(content) > limit:
        raise ValueError(f"it is too large: all files of a folder together can have {MAX_TEXT_BYTES:,} bytes")
    return content


def _open(path: StoragePath) -> IO[bytes]:
    """Open a file for reading.

    :raises StorageError: if it is a local device or pipe.
    """
    if not is_local(path):
        return cast("IO[bytes]", path.fs.open(path.path, "rb"))
    # Without this flag, opening a pipe waits for a writer.
    stream = open(path.path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise StorageError("it is a device or a pipe")
    return stream


def size_of(path: StoragePath) -> int | None:
    """Return the size of a file in bytes, or None if it does not exist."""
    path.fs.invalidate_cache()
    try:
        return int(path.fs.size(path.path))
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a temporary folder, and remove it afterwards; first remove the folders of killed processes.

    :raises StorageError: if no folder for temporary files can be written.
    """
    try:
        folder_of_process = tempfile.TemporaryDirectory(prefix=_TEMPORARY_PREFIX)
    except OSError as error:
        raise StorageError(
            f"The worker cannot create a temporary folder: {error.strerror or error}.",
            "Set its environment variable TMPDIR to a folder that it can write, with space for the snapshot.",
        ) from error
    with folder_of_process as name:
        mine = Path(name)
        oldest = mine.stat().st_mtime - ABANDONED_AFTER_HOURS * 3600
        for folder in mine.parent.glob(f"{_TEMPORARY_PREFIX}*"):
            with suppress(OSError):
                if folder.lstat().st_mtime < oldest:
                    shutil.rmtree(folder)  # it follows no link, and fails for the folder of another user
        yield mine


@contextmanager
def open_verified(path: StoragePath, sha256: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes after verifying the SHA-256 of its content.

    The file is read twice: this reveals accidents, and not someone who replaces it in between.

    :raises StorageError: if the content has another SHA-256, or it is too large, or a local device or pipe.
    """
    with _open(path) as stored:
        check_limit(path, "bytes", stored.seek(0, os.SEEK_END), MAX_DATA_BYTES)
        stored.seek(0)
        found = hashlib.file_digest(stored, "sha256").hexdigest()  # type: ignore[arg-type]  # it is readable
        if found != sha256:
            hashes = f"The SHA-256 of the file is {found}, but {sha256} in the manifest."
            problem = f"{path} is damaged: its SHA-256 differs from the manifest."
            raise StorageError(
                problem, f"Restore it from a copy. On its own day, you can also take the snapshot again. {hashes}"
            )
        stored.seek(0)
        yield stored


def put_bytes(target: StoragePath, content: bytes, token: str, mode: int = SHARED) -> None:
    """Write a small file atomically: readers get the old or the new content.

    :param token: unique part for the name of the temporary file.
    :param mode: permissions of the file on a local disk.
    """
    if not is_local(target):
        target.fs.pipe_file(target.path, content)
        return
    with _replacement_of(Path(target.path), token, mode) as file:
        file.write(content)


def _replace_local(target: Path, seen: bytes | None, content: bytes, token: str) -> bool:
    """Write a file atomically, unless it has changed; return whether it was written.

    :param seen: its content before; None if it must not exist.
    """
    if seen is None:
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(target))
        try:
            with _replacement_of(target, token, PRIVATE, _move_to_new) as file:
                file.write(content)
        except FileExistsError:
            return False
        return True
    try:
        descriptor = os.open(target, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    with os.fdopen(descriptor, "r+b") as current:
        _lock(current, target)
        # Another process that had the lock has put another file in its place.
        is_current = os.path.samestat(os.fstat(current.fileno()), target.stat())
        if not is_current or current.read() != seen:
            return False
        with _replacement_of(target, token, PRIVATE) as file:
            file.write(content)
    return True


def _lock(file: IO[bytes] | int, path: Path) -> bool:
    """Lock a file or a folder for this process; return whether its disk has locks.

    :raises StorageError: if another process keeps the lock for too long.
    """
    start = time.monotonic()
    is_logged = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = time.monotonic() - start
            if waited >= 1 and not is_logged:
                is_logged = True
                log.info("Waiting up to %g s, because another process has locked %s.", LOCK_SECONDS, path)
            if waited >= LOCK_SECONDS:
                raise StorageError(
                    f"Another process has locked {path} for {LOCK_SECONDS:g} s.",
                    "End that process, or try again later.",
                ) from None
            time.sleep(_LOCK_INTERVAL)
        except OSError:  # a network disk without locks
            return False
        else:
            return True


def _move_to_new(temporary: Path, target: Path) -> None:
    """Move a file to a name that no file has.

    :raises FileExistsError: if a file has it.
    """
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links: all writers of new files in the folder wait for each other
        with _opened_folder(target.parent) as folder:
            if not _lock(folder, target.parent):
                log.warning(
                    "The disk of %s has neither hard links nor locks. If two tasks create this file at the same time, "
                    "one of them overwrites the other. Use another disk or object storage, or run one task at a time.",
                    target,
                )
            if target.exists():
                raise FileExistsError(target) from None
            temporary.replace(target)
    else:
        temporary.unlink()


@contextmanager
def _opened_folder(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write_text(place: StoragePath, argument: str, text: str, mode: int = SHARED) -> None:
    """Write a small file atomically, and create its folder: readers get the old or the new text.

    :param argument: name of the argument, for messages.
    :param mode: permissions of the file on a local disk.
    """
    with file_errors("write", place, argument):
        make_directory(place.parent, mode)
        put_bytes(place, text.encode(), new_token(datetime.now(UTC)), mode)


class SharedFile:
    """A small file that several processes write. Each process replaces only the version that it has read.

    On local disks and on S3, no other process can write in between. Other storage has no conditional write. There, the
    file is compared before the write and read again after it.

    :param place: path of the file.
    :param argument: name of the argument, for messages.
    :raises ValueError: if it cannot be read, or is not UTF-8.
    """

    def __init__(self, place: StoragePath, argument: str) -> None:
        self.place = place
        self._argument = argument
        self.read()

    def read(self) -> None:
        """Read the file again, and set :attr:`text` to its text, or to None if it does not exist."""
        self.text: str | None = None
        with file_errors("read", self.place, self._argument):
            self._stored = self._current()
            content = self._stored[0]
            if content is not None:
                self.text = content.decode("utf-8-sig")

    def _current(self) -> tuple[bytes | None, str | None]:
        """Return the content of the file, or None if it does not exist, and its version on S3."""
        version = None
        if _is_s3(self.place):
            # Before the content: if the file changes in between, the version is outdated, which is detected later.
            self.place.fs.invalidate_cache()
            with suppress(FileNotFoundError):
                version = self.place.fs.info(self.place.path).get("ETag")  # a folder has none
        return read_bytes(self.place), version

    def write(self, text: str) -> bool:
        """Write the file atomically, unless another process has changed it; return whether it was written.

        :raises StorageError: if the text is too large to be read again, or another process keeps the file locked.
        """
        content, token = text.encode(), new_token(datetime.now(UTC))
        with file_errors("write", self.place, self._argument):
            make_directory(self.place.parent, PRIVATE)
            check_state(self.place, content)
            if is_local(self.place):
                is_written = _replace_local(Path(self.place.path), self._stored[0], content, token)
                now: tuple[bytes | None, str | None] = content, None
            else:
                self._replace_object(content, token)
                now = self._current()
                is_written = now[0] == content
        if is_written:
            self._stored, self.text = now, text
        return is_written

    def _replace_object(self, content: bytes, token: str) -> None:
        """Write an object unless it has changed; the caller reads it again to find out whether it was written."""
        seen, version = self._stored
        if not _is_s3(self.place):
            if read_bytes(self.place) == seen:
                put_bytes(self.place, content, token)
            return
        condition = {"mode": "create"}
        if version is not None:
            condition = {"IfMatch": version}
        try:
            self.place.fs.pipe_file(self.place.path, content, **condition)
        except OSError as error:
            # If it has changed, a retry within the library might have failed because an earlier attempt succeeded.
            if self._current() != self._stored:
                return
            if error.errno != errno.ENOSYS:
                raise
            put_bytes(self.place, content, token)  # the server has no conditional write


def put_file(source: Path, target: StoragePath, token: str, mode: int = SHARED) -> None:
    """Copy a local file to storage atomically: it becomes visible complete or not at all.

    :param token: unique part for the name of the temporary file.
    :param mode: permissions of the file on a local disk.
    """
    if not is_local(target):
        target.fs.put_file(str(source), target.path)
        return
    with source.open("rb") as content, _replacement_of(Path(target.path), token, mode) as file:
        shutil.copyfileobj(content, file, 1 << 20)


def remove(path: StoragePath) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        path.fs.rm_file(path.path)


def remove_directory(directory: StoragePath) -> None:
    """Remove an empty directory, if the storage has directories."""
    if not OBJECT_STORES.intersection(_protocols(directory)):
        with suppress(OSError):
            directory.fs.rmdir(directory.path)


def open_own(path: Path, flags: int, mode: int) -> IO[bytes]:
    """Open a file of this package for writing, and create it if needed; never follow a symbolic link.

    :param flags: additional flags of :func:`os.open`.
    :param mode: permissions, if it is created; the umask applies.
    :raises OSError: if the path is a link.
    """
    if mode == PRIVATE and _is_of_a_group(path.parent):
        mode = 0o660
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode), "wb")


@contextmanager
def _replacement_of(
    target: Path, token: str, mode: int = SHARED, move: Callable[[Path, Path], object] = Path.replace
) -> Iterator[IO[bytes]]:
    """Yield a temporary file that gets the name of the target at the end."""
    temporary = target.with_name(f".{token}{TEMPORARY}")  # without the name of the target, which can be long
    try:
        with open_own(temporary, os.O_EXCL, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        move(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # Sync the directory as well: otherwise a power failure could lose the new name.
    with _opened_folder(target.parent) as folder:
        try:
            os.fsync(folder)
        except OSError as error:
            if error.errno not in _CANNOT_SYNC:
                raise


def is_local(path: StoragePath) -> bool:
    """Return whether a path is on a local file system."""
    return "file" in _protocols(path)


def _is_s3(path: StoragePath) -> bool:
    return bool({"s3", "s3a"}.intersection(_protocols(path)))


def has_conditional_writes(path: StoragePath) -> bool:
    """Return whether a :class:`SharedFile` can exclude that another process writes at the same time."""
    return is_local(path) or _is_s3(path)


def _protocols(path: StoragePath) -> set[str]:
    protocol = path.fs.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)
