"""Directories that tell whether their owner is alive: a file ``.owner`` in them is locked while a process uses them.

    own ─▶ shared lock, kept by the process and by children that inherit it ─▶ the last of them is gone, however it ended
          ─▶ the kernel has released the lock ─▶ ``sweep`` may remove what is left

Laws:
1. Only what is proven to have no owner is removed: ``.owner`` is there, was written on this machine, and can be locked
   alone. A directory without it, or on a file system without locks, stays.
2. A directory is removed by its user only, and ``.owner`` goes last: a sweep that was broken off is taken up by the next.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

OWNER_FILE = ".owner"


class OwnedDirectory:
    """A directory that this process owns: it holds a shared lock on its ``.owner``. That ends with ``release``, or with the process."""

    def __init__(self, directory: Path, descriptor: int) -> None:
        self.directory = directory
        self.descriptor = descriptor
        """Children that inherit it own the directory too."""

    def release(self) -> None:
        """Releases the lock; does nothing when it was released before."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def remove(self) -> None:
        """Removes the directory with its content, and releases the lock. Files that cannot be removed stay."""
        _remove(self.directory)
        self.release()


def make_owned(prefix: str, parent: Path) -> OwnedDirectory:
    """Creates a private directory, owned by this process. Raises ``OSError``."""
    return own(Path(tempfile.mkdtemp(prefix=prefix, dir=parent)))


def own(directory: Path) -> OwnedDirectory:
    """Makes this process an owner of a directory, beside others that own it; creates it where it is missing. Raises ``OSError``."""
    path = directory / OWNER_FILE
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # it was swept meanwhile
            continue
        with contextlib.suppress(OSError):  # no locks on this file system: nothing is ever swept here
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if _is_still_there(descriptor, path):
            if os.fstat(descriptor).st_size == 0:
                os.write(descriptor, f"{_host()} {os.getpid()}\n".encode())
            return OwnedDirectory(directory, descriptor)
        os.close(descriptor)


def share(directory: Path) -> OwnedDirectory | None:
    """Makes this process an owner of a directory that has one; ``None`` when it does not exist or has none."""
    try:
        descriptor = os.open(directory / OWNER_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return OwnedDirectory(directory, descriptor)


def sweep(parent: Path, prefixes: Sequence[str], remove: Callable[[Path], None] | None = None) -> list[Path]:
    """Removes the directories right below ``parent`` whose name has one of the prefixes and whose owners have all ended. Returns them. ``remove``:
    called for each instead."""
    swept = []
    for path in _directories(parent, tuple(prefixes)):
        with if_dead(path) as is_dead:
            if is_dead:
                (remove or _remove)(path)
                swept.append(path)
    return swept


def remove_all_but(directory: Path, kept: Sequence[str]) -> None:
    """Removes the entries of a directory, ``.owner`` as the last, but those named in ``kept``; removes the directory too when ``kept`` is empty."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(directory)):
            if entry.name in kept or entry.name == OWNER_FILE:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)
        (directory / OWNER_FILE).unlink(missing_ok=True)
        if not kept:
            directory.rmdir()


def _remove(directory: Path) -> None:
    remove_all_but(directory, ())


def _directories(parent: Path, prefixes: tuple[str, ...]) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return sorted(
                Path(entry.path)
                for entry in entries
                if entry.name.startswith(prefixes)
                and entry.is_dir(follow_symlinks=False)
                and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            )
    except OSError:
        return []


@contextlib.contextmanager
def if_dead(directory: Path) -> Iterator[bool]:
    """Yields whether a directory has no owner. No process can come to own it while the block runs."""
    try:
        descriptor = os.open(directory / OWNER_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        yield _is_alone(descriptor)
    finally:
        os.close(descriptor)


def _is_alone(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody lives, or there are no locks here
        return False
    host = os.pread(descriptor, 4096, 0).split(b" ")[0]  # nothing yet: its owner is about to lock it
    return host == _host().encode()


def _is_still_there(descriptor: int, path: Path) -> bool:
    try:
        found, opened = path.stat(), os.fstat(descriptor)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)


def _host() -> str:
    return socket.gethostname()
