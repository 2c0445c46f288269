"""Storage operations on fsspec file systems.

All I/O uses the file system below ``ObjectStoragePath`` or ``upath.UPath``, since the methods of these classes, and the
warnings they emit, differ between versions.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Self, cast

from fsspec.core import url_to_fs

from airflow_provider_analytics.exceptions import StorageError

#: Protocols without directories, where ``makedirs`` would create a bucket whose name was mistyped.
OBJECT_STORES = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2"})

#: Ending of files that take the place of another one once they are complete.
TEMPORARY = ".tmp"
#: Permissions of files on a disk of this machine: what others may read, as the umask says, and what they may not.
SHARED, PRIVATE = 0o666, 0o600

#: Hours after which the temporary folder of a process that is gone is removed.
ABANDONED_AFTER_HOURS = 6
_TEMPORARY_PREFIX = "analytics-snapshot-"
#: A file in a temporary folder that its owner locks: the lock ends with the process, however it ends.
_OWNER = ".owner"

#: Seconds to wait for another process that replaces the same file of this machine, which takes milliseconds: one that
#: is stopped meanwhile must not stop all others.
LOCK_SECONDS = 5.0
_LOCK_LOOK_SECONDS = 0.02

_TOKEN_FORMAT = "%Y%m%dT%H%M%SZ"  # noqa: S105 - a time format, not a secret
_TOKEN = re.compile(r"(?P<time>\d{8}T\d{6}Z)-(?P<writer>[0-9a-f]{8})")


@dataclass(frozen=True)
class StoragePath:
    """A path on an fsspec file system.

    :param fs: the file system.
    :param path: path inside the file system.
    :param url: URL or path as users write it.
    """

    fs: Any
    path: str
    url: str

    @classmethod
    def of(cls, path: Any) -> Self:
        """Return the path of an ``ObjectStoragePath``, a ``upath.UPath``, or the text of a URL or path."""
        if isinstance(path, str):
            fs, inside = url_to_fs(path)
            return cls(fs, str(inside), path)
        return cls(path.fs, str(path.path), str(path))

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    @property
    def parent(self) -> Self:
        """Path of the folder that it is in."""
        return type(self)(self.fs, self.path.rstrip("/").rpartition("/")[0], self.url.rstrip("/").rpartition("/")[0])

    def __truediv__(self, name: str) -> Self:
        """Return the path of a child."""
        return type(self)(self.fs, f"{self.path.rstrip('/')}/{name}", f"{self.url.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.url


def new_token(now: datetime, writer: str | None = None) -> str:
    """Return a unique part for file names that contains its creation time, and who writes.

    :param writer: what is the same for all tries of a task of a run, and for nothing else; None: nobody else's.
    """
    who = secrets.token_hex(4) if writer is None else hashlib.sha256(writer.encode()).hexdigest()[:8]
    return f"{now.astimezone(UTC).strftime(_TOKEN_FORMAT)}-{who}-{secrets.token_hex(2)}"


def is_same_writer(name: str, token: str) -> bool:
    """Return whether a file name contains a token of the writer of another token."""
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
    """Turn exceptions of the storage into a :class:`StorageError`: "cannot ``doing``: ..."."""
    try:
        yield
    except (StorageError, ValueError):
        raise
    except FileNotFoundError as error:
        raise StorageError(f"cannot {doing}: {error}. Check that the bucket or folder exists.") from error
    except Exception as error:  # every storage library has its own errors; OSError is only the most common
        raise StorageError(f"cannot {doing}: {type(error).__name__}: {error}") from error


def make_directory(directory: StoragePath, mode: int = SHARED) -> None:
    """Create a directory and its parents, unless the storage has no directories.

    :param mode: permissions of a file in it, on a disk of this machine; what exists already keeps its own.
    """
    if mode != SHARED and is_local(directory):
        folder = Path(directory.path)
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            # Whoever may read a file has to enter its folder.
            missing.mkdir(mode=mode | (mode & 0o444) >> 2, exist_ok=True)
    elif not OBJECT_STORES.intersection(_protocols(directory)):
        directory.fs.makedirs(directory.path, exist_ok=True)


def names(directory: StoragePath) -> list[str]:
    """Return the sorted names in a directory; an empty list if it does not exist."""
    directory.fs.invalidate_cache()
    try:
        found = directory.fs.ls(directory.path, detail=False)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(str(path).rstrip("/").rsplit("/", 1)[-1] for path in found)


def is_link(path: StoragePath) -> bool:
    """Return whether a path is a symbolic link of this machine."""
    return is_local(path) and Path(path.path).is_symlink()


def files_in(folder: StoragePath) -> list[str]:
    """Return the sorted names of the files in a folder; links and what is behind them are none."""
    if is_link(folder):
        return []
    folder.fs.invalidate_cache()
    try:
        found = folder.fs.ls(folder.path, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    files = (str(one["name"]) for one in found if one["type"] == "file" and not one.get("islink"))
    return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in files)


def exists(path: StoragePath) -> bool:
    """Return whether a file exists now, bypassing cached listings."""
    path.fs.invalidate_cache()
    return bool(path.fs.exists(path.path))


def read_bytes(path: StoragePath) -> bytes | None:
    """Return the content of a small file, or None if it does not exist."""
    try:
        return cast(bytes, path.fs.cat_file(path.path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def open_to_read(path: StoragePath | Path) -> IO[bytes]:
    """Open a file for reading bytes."""
    return path.open("rb") if isinstance(path, Path) else cast("IO[bytes]", path.fs.open(path.path, "rb"))


def size_of(path: StoragePath) -> int | None:
    """Return the size of a file in bytes, or None if it does not exist."""
    path.fs.invalidate_cache()
    try:
        return int(path.fs.size(path.path))
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a temporary folder, and remove it afterwards; remove those of killed processes before."""
    _remove_abandoned()
    with tempfile.TemporaryDirectory(prefix=_TEMPORARY_PREFIX) as name, Path(name, _OWNER).open("wb") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        yield Path(name)


def _remove_abandoned() -> None:
    oldest = time.time() - ABANDONED_AFTER_HOURS * 3600
    for folder in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY_PREFIX}*"):
        with suppress(OSError):  # another process may be removing it at this moment
            found = folder.lstat()
            is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if is_ours and found.st_mtime < oldest and not _has_an_owner(folder):
                shutil.rmtree(folder)


def _has_an_owner(folder: Path) -> bool:
    try:
        with (folder / _OWNER).open("rb") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False  # its owner was killed before it could lock the file, or is an older version
    except BlockingIOError:
        return True
    return False


@contextmanager
def open_verified(path: StoragePath, sha256: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, once its content is known to have a SHA-256.

    A file of this machine is read twice; any other is copied to a temporary file first, so that what was verified is
    what is read.

    :raises StorageError: if the content has another SHA-256.
    """
    with ExitStack() as stack:
        stored = stack.enter_context(open_to_read(path))
        copy = None if is_local(path) else stack.enter_context(tempfile.TemporaryFile(prefix=_TEMPORARY_PREFIX))
        digest = hashlib.sha256()
        while block := stored.read(1 << 20):
            digest.update(block)
            if copy:
                copy.write(block)
        if digest.hexdigest() != sha256:
            raise StorageError(f"{path} is damaged: its SHA-256 is {digest.hexdigest()}, the manifest says {sha256}")
        verified = copy or stored
        verified.seek(0)
        yield verified


def put_bytes(target: StoragePath, content: bytes, token: str, mode: int = SHARED) -> None:
    """Write a small file atomically: readers see the old content or the new one.

    :param token: unique part for the name of the temporary file.
    :param mode: permissions of the file, on a disk of this machine.
    """
    if not is_local(target):
        target.fs.pipe_file(target.path, content)
        return
    with _replacing(Path(target.path), token, mode) as file:
        file.write(content)


@dataclass(frozen=True)
class Stored:
    """A small file as it was read.

    :param content: its content; None if it does not exist.
    :param version: what the storage says about it; with other words, the content may be another one.
    """

    content: bytes | None
    version: str | None


def read_stored(path: StoragePath) -> Stored:
    """Return a small file as it is now."""
    if is_local(path):
        try:
            with Path(path.path).open("rb") as file:
                return Stored(file.read(), _version_of_open(file))
        except (FileNotFoundError, NotADirectoryError):
            return Stored(None, None)
    # The version first: if the file changes in between, the version is the older one, and no longer the file's.
    version = version_of(path)
    content = None if version is None else read_bytes(path)
    return Stored(content, None if content is None else version)


def version_of(path: StoragePath) -> str | None:
    """Return the version of a file as :class:`Stored` has it, without reading it; None if it does not exist."""
    try:
        if is_local(path):
            # Opened, and not only looked up: a network disk then asks its server.
            with Path(path.path).open("rb") as file:
                return _version_of_open(file)
        path.fs.invalidate_cache()
        if _is_s3(path):
            return path.fs.info(path.path).get("ETag")  # type: ignore[no-any-return]  # none of a folder
        return str(path.fs.ukey(path.path))
    except (FileNotFoundError, NotADirectoryError):
        return None


def replace_stored(path: StoragePath, seen: Stored, content: bytes, token: str, mode: int = SHARED) -> Stored | None:
    """Write a small file atomically if it still is as it was seen; return it as it is then, or None if it is not.

    On this machine and on S3 nobody can write in between. Other storage has no write with a condition: there the file
    is compared before and read again afterwards.

    :param token: unique part for the name of the temporary file.
    :param mode: permissions of the file, on a disk of this machine.
    """
    if _is_s3(path):
        condition = {"mode": "create"} if seen.version is None else {"IfMatch": seen.version}
        try:
            path.fs.pipe_file(path.path, content, **condition)
        except OSError as error:
            # One of the library's own retries may have met what it had written itself: the content tells.
            now = read_stored(path)
            if now.content != content and now != seen:
                return None
            if now == seen:
                if error.errno != errno.ENOSYS:
                    raise
                put_bytes(path, content, token)  # a server that has no such condition
        now = read_stored(path)
    else:
        with _locked(path, mode) as is_ours:
            if read_stored(path).content != seen.content:
                return None
            if not is_local(path):
                put_bytes(path, content, token)
            elif not _replaced(Path(path.path), content, token, mode, is_ours):
                return None
            now = read_stored(path)  # before the next one may write
    return now if now.content == content else None


def _replaced(target: Path, content: bytes, token: str, mode: int, is_ours: Callable[[], bool]) -> bool:
    """Write a file atomically, unless the lock was lost meanwhile; return whether it was written."""
    with suppress(_LockLostError), _replacing(target, token, mode, is_ours) as file:
        file.write(content)
        return True
    return False


class _LockLostError(Exception):
    """Others no longer wait for this process, which hung."""


@contextmanager
def _locked(path: StoragePath, mode: int) -> Iterator[Callable[[], bool]]:
    """Let no other process of this machine replace the file meanwhile, nor one that shares its disk, where it can.

    Yields what tells whether the others still wait.
    """
    if not is_local(path):
        yield lambda: True
        return
    # A file of its own, since what is replaced is another file afterwards; as it is removed, so may this one be.
    beside = Path(path.path).with_name(f".{path.name}.lock")
    end = time.monotonic() + LOCK_SECONDS
    while True:
        with open_own(beside, os.O_APPEND, mode) as lock:
            if _is_taken(lock, beside) or time.monotonic() > end:
                taken = time.monotonic()
                try:
                    yield functools.partial(_others_wait, taken)
                finally:
                    beside.unlink(missing_ok=True)
                return
        time.sleep(_LOCK_LOOK_SECONDS)


def _others_wait(since: float) -> bool:
    return time.monotonic() - since < LOCK_SECONDS


def _is_taken(lock: IO[bytes], beside: Path) -> bool:
    """Take the lock; return whether it is taken, and its file is the one that others see."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(lock.fileno()), beside.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:  # a network disk without locks
        return True


def _version_of_open(file: IO[bytes]) -> str:
    found = os.fstat(file.fileno())
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def put_file(source: Path, target: StoragePath, token: str) -> None:
    """Copy a local file to storage atomically: it appears complete or not at all.

    :param token: unique part for the name of the temporary file.
    """
    if not is_local(target):
        target.fs.put_file(str(source), target.path)
        return
    with source.open("rb") as content, _replacing(Path(target.path), token) as file:
        shutil.copyfileobj(content, file, 1 << 20)


def remove(path: StoragePath) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        path.fs.rm_file(path.path)


def remove_directory(directory: StoragePath) -> None:
    """Remove a directory that is empty, where the storage has directories."""
    if not OBJECT_STORES.intersection(_protocols(directory)):
        with suppress(OSError):
            directory.fs.rmdir(directory.path)


def open_own(path: Path, flags: int, mode: int) -> IO[bytes]:
    """Open a file of this package for writing, and create it if needed; never through a symbolic link.

    :param flags: further flags of :func:`os.open`.
    :param mode: permissions, if it is created; the umask applies.
    :raises OSError: if the path is a link.
    """
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode), "wb")


@contextmanager
def _replacing(
    target: Path, token: str, mode: int = SHARED, may: Callable[[], bool] = lambda: True
) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of another one at the end.

    :raises _LockLostError: if it may not.
    """
    beside = target.with_name(f".{target.name}.{token}{TEMPORARY}")
    try:
        with open_own(beside, os.O_EXCL, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not may():
            raise _LockLostError  # noqa: TRY301 - as any other error, it ends with the file removed
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    # Sync the directory too: otherwise a power failure could lose the new name.
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def is_local(path: StoragePath) -> bool:
    """Return whether a path is on a file system of this machine."""
    return "file" in _protocols(path)


def _is_s3(path: StoragePath) -> bool:
    return bool({"s3", "s3a"}.intersection(_protocols(path)))


def _protocols(path: StoragePath) -> set[str]:
    protocol = path.fs.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)
