"""Storage operations on fsspec file systems.

All I/O uses the file system of an ``ObjectStoragePath`` or ``upath.UPath``, because the methods and warnings of these
classes differ between versions.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Self, cast

from fsspec.core import url_to_fs

from airflow_provider_analytics.exceptions import StorageError

#: Protocols without directories. With these, ``makedirs`` would create a bucket for a mistyped name.
OBJECT_STORES = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci", "r2"})

#: Suffix of files that replace another file once they are complete.
TEMPORARY = ".tmp"
#: Permissions of files on a local disk: readable by others, as the umask allows, or private.
SHARED, PRIVATE = 0o666, 0o600

#: Maximum size of a file that people wrote, and of all files of a folder together.
MAX_TEXT_BYTES = 10_000_000

#: Hours after which the temporary folder of a process that no longer exists is removed.
ABANDONED_AFTER_HOURS = 6
_TEMPORARY_PREFIX = "analytics-snapshot-"
#: File in a temporary folder that its owner locks. The lock ends with the process, however it ends.
_OWNER = ".owner"

#: Seconds to wait for another process that is replacing the same local file, which takes milliseconds. A process that
#: is suspended while it does so must not block all others.
LOCK_SECONDS = 5.0
_LOCK_POLL_SECONDS = 0.02

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
        """Path of the folder that contains it."""
        return type(self)(self.fs, self.path.rstrip("/").rpartition("/")[0], self.url.rstrip("/").rpartition("/")[0])

    def __truediv__(self, name: str) -> Self:
        """Return the path of a child."""
        return type(self)(self.fs, f"{self.path.rstrip('/')}/{name}", f"{self.url.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.url


def new_token(now: datetime, writer: str | None = None) -> str:
    """Return a unique part for file names, with its creation time and a hash of the writer.

    :param writer: name that only the tries of one task of a run have in common; None: a random one.
    """
    who = secrets.token_hex(4) if writer is None else hashlib.sha256(writer.encode()).hexdigest()[:8]
    return f"{now.astimezone(UTC).strftime(_TOKEN_FORMAT)}-{who}-{secrets.token_hex(2)}"


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
    """Convert exceptions of the storage to a :class:`StorageError`: "cannot ``doing``: ..."."""
    try:
        yield
    except (StorageError, ValueError):
        raise
    except FileNotFoundError as error:
        raise StorageError(f"cannot {doing}: {error}. Check that the bucket or folder exists.") from error
    except Exception as error:  # each storage library has its own errors; OSError is only the most common
        raise StorageError(f"cannot {doing}: {type(error).__name__}: {error}") from error


def make_directory(directory: StoragePath, mode: int = SHARED) -> None:
    """Create a directory and its parents, unless the storage has no directories.

    :param mode: permissions of a file in it, on a local disk; existing directories keep theirs.
    """
    if mode == PRIVATE and is_local(directory):
        folder = Path(directory.path)
        for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
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
    """Return whether a path is a local symbolic link."""
    return is_local(path) and Path(path.path).is_symlink()


def files_in(folder: StoragePath) -> list[str]:
    """Return the sorted names of the files in a folder, without links and without files behind links."""
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


class UnreadableFileError(ValueError):
    """A file of a user that is not read; the message is the reason.

    :param path: the file.
    """

    def __init__(self, path: StoragePath, reason: str) -> None:
        super().__init__(reason)
        self.path = path


def read_texts(
    place: StoragePath, choose: Callable[[str, Sequence[str]], Sequence[str]] | None = None
) -> dict[str, str]:
    """Return the names and texts of files that people wrote: one file, or files of a folder; empty if there are none.

    :param choose: takes a folder and its file names, and returns the names to read; None: a folder is not allowed.
    :raises UnreadableFileError: if a file is not text, or no regular file, or all are larger than
        :data:`MAX_TEXT_BYTES`.
    """
    files = [place]
    if choose and place.fs.isdir(place.path):
        files = [place / name for name in choose(place.url, names(place))]
    texts: dict[str, str] = {}
    left = MAX_TEXT_BYTES
    for file in files:
        try:
            content = _read_at_most(file, left)
            left -= len(content)
            texts[file.name] = content.decode("utf-8-sig")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (IsADirectoryError, PermissionError) as error:
            raise UnreadableFileError(file, f"{error.strerror or error}; allowed: a file that can be read") from error
        except UnicodeDecodeError as error:
            raise UnreadableFileError(file, f"{error.reason}; allowed: a text file in UTF-8") from error
    return texts


def _read_at_most(path: StoragePath, limit: int) -> bytes:
    """Return the content of a file; read no more than one byte above the limit."""
    if is_local(path):
        file = Path(path.path)
        # Otherwise the author of a link chooses a file whose content is shown in messages.
        if not file.resolve().is_relative_to(file.parent.resolve()):
            raise UnreadableFileError(path, "it is a link that leads outside its folder; allowed: a file in the folder")
        # Without this flag, opening a FIFO waits for a writer.
        with open(file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UnreadableFileError(path, "it is a device or a pipe; allowed: a regular file")
            content = stream.read(limit + 1)
    else:
        path.fs.invalidate_cache()
        # A storage may refuse to return a part of an empty file.
        content = path.fs.cat_file(path.path, end=limit + 1) if path.fs.size(path.path) else b""
    if len(content) > limit:
        allowed = f"at most {MAX_TEXT_BYTES:,} bytes, in all files of a folder together"
        raise UnreadableFileError(path, f"it is too large; allowed: {allowed}")
    return content


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
    """Yield a temporary folder, and remove it afterwards; first remove those of killed processes."""
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
            if is_ours and found.st_mtime < oldest and not _is_in_use(folder):
                shutil.rmtree(folder)


def _is_in_use(folder: Path) -> bool:
    try:
        with (folder / _OWNER).open("rb") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False  # its owner was killed before it locked the file, or is an older version
    except BlockingIOError:
        return True
    return False


@contextmanager
def open_verified(path: StoragePath, sha256: str) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes after verifying the SHA-256 of its content.

    The file is read twice: this reveals accidents, and not someone who replaces it in between.

    :raises StorageError: if the content has another SHA-256.
    """
    with open_to_read(path) as stored:
        digest = hashlib.sha256()
        while block := stored.read(1 << 20):
            digest.update(block)
        if digest.hexdigest() != sha256:
            raise StorageError(f"{path} is damaged: its SHA-256 is {digest.hexdigest()}, the manifest says {sha256}")
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


@dataclass(frozen=True)
class Stored:
    """State of a small file at the time it was read.

    :param content: its content; None if it does not exist.
    :param version: its version on S3, which a conditional write names; None on other storage.
    """

    content: bytes | None
    version: str | None


def read_stored(path: StoragePath) -> Stored:
    """Return the current state of a small file."""
    # Read the version first: if the file changes in between, the version is outdated, which is detected later.
    version = _etag(path) if _is_s3(path) else None
    return Stored(read_bytes(path), version)


def _etag(path: StoragePath) -> str | None:
    path.fs.invalidate_cache()
    try:
        return path.fs.info(path.path).get("ETag")  # type: ignore[no-any-return]  # a folder has none
    except FileNotFoundError:
        return None


def replace_stored(path: StoragePath, seen: Stored, content: bytes, token: str) -> Stored | None:
    """Write a small private file atomically if it has not changed; return its new state, or None if it has changed.

    On local disks and on S3, no other process can write in between. Other storage has no conditional write. There, the
    file is compared before the write and read again after it.

    :param seen: state of the file that must not have changed.
    :param token: unique part for the name of the temporary file.
    """
    if _is_s3(path):
        condition = {"mode": "create"} if seen.version is None else {"IfMatch": seen.version}
        try:
            path.fs.pipe_file(path.path, content, **condition)
        except OSError as error:
            # A retry within the library may have failed because an earlier attempt succeeded: compare the content.
            now = read_stored(path)
            if now.content != content and now != seen:
                return None
            if now == seen:
                if error.errno != errno.ENOSYS:
                    raise
                put_bytes(path, content, token)  # the server has no conditional write
        now = read_stored(path)
    else:
        with _locked(path) as is_ours:
            if read_stored(path).content != seen.content:
                return None
            if not is_local(path):
                put_bytes(path, content, token)
            elif not _replace_local(Path(path.path), content, token, is_ours):
                return None
            now = read_stored(path)  # before another process may write
    return now if now.content == content else None


def _replace_local(target: Path, content: bytes, token: str, is_ours: Callable[[], bool]) -> bool:
    """Write a file atomically, unless the lock was lost; return whether it was written."""
    with suppress(_LockLostError), _replacement_of(target, token, PRIVATE, is_ours) as file:
        file.write(content)
        return True
    return False


class _LockLostError(Exception):
    """Other processes no longer wait for this process, which was suspended for too long."""


@contextmanager
def _locked(path: StoragePath) -> Iterator[Callable[[], bool]]:
    """Prevent other processes from replacing the file: on this machine, and if possible on those that share its disk.

    Yields a function that returns whether the other processes still wait.
    """
    if not is_local(path):
        yield lambda: True
        return
    # A separate lock file, because the replaced file becomes another file. Each owner removes its lock file, so this
    # one may disappear as well.
    lock_path = Path(path.path).with_name(f".{path.name}.lock")
    end = time.monotonic() + LOCK_SECONDS
    while True:
        with open_own(lock_path, os.O_APPEND, PRIVATE) as lock:
            if _try_lock(lock, lock_path) or time.monotonic() > end:
                locked_at = time.monotonic()
                try:
                    yield functools.partial(_is_lock_current, locked_at)
                finally:
                    lock_path.unlink(missing_ok=True)
                return
        time.sleep(_LOCK_POLL_SECONDS)


def _is_lock_current(since: float) -> bool:
    return time.monotonic() - since < LOCK_SECONDS


def _try_lock(lock: IO[bytes], lock_path: Path) -> bool:
    """Try to lock the file; return whether this process has the lock, and others use the same file."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(lock.fileno()), lock_path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError:  # a network disk without locks
        return True


def put_file(source: Path, target: StoragePath, token: str) -> None:
    """Copy a local file to storage atomically: it becomes visible complete or not at all.

    :param token: unique part for the name of the temporary file.
    """
    if not is_local(target):
        target.fs.put_file(str(source), target.path)
        return
    with source.open("rb") as content, _replacement_of(Path(target.path), token) as file:
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
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode), "wb")


@contextmanager
def _replacement_of(
    target: Path, token: str, mode: int = SHARED, may: Callable[[], bool] = lambda: True
) -> Iterator[IO[bytes]]:
    """Yield a temporary file that replaces the target at the end.

    :param may: returns whether it may do so.
    :raises _LockLostError: if it may not.
    """
    temporary = target.with_name(f".{target.name}.{token}{TEMPORARY}")
    try:
        with open_own(temporary, os.O_EXCL, mode) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not may():
            raise _LockLostError  # noqa: TRY301 - the file is removed, as for any other error
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    # Sync the directory as well: otherwise a power failure could lose the new name.
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def is_local(path: StoragePath) -> bool:
    """Return whether a path is on a local file system."""
    return "file" in _protocols(path)


def _is_s3(path: StoragePath) -> bool:
    return bool({"s3", "s3a"}.intersection(_protocols(path)))


def has_conditional_writes(path: StoragePath) -> bool:
    """Return whether :func:`replace_stored` can exclude that another process writes at the same time."""
    return is_local(path) or _is_s3(path)


def _protocols(path: StoragePath) -> set[str]:
    protocol = path.fs.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)
