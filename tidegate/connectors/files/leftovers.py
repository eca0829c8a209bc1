"""Hidden files of another job: whether the job that was started from its checkpoint may remove them.

    .<stem>.<mark>.writer      beside the hidden files of one attempt (``file_sink``), locked as long as that attempt lives

Law: a file goes only when its writer has ended and no checkpoint can list it: the writer was a process of this machine, and its lock
is free; the restored checkpoint is the newest that the other job has completed. Where that cannot be known
(object stores, other machines, savepoints), the file stays: ``tidegate txn`` shows and removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket

import pyarrow as pa
import pyarrow.fs as pafs

from tidegate.connectors.files.file_system import directory_entries, resolve

WRITER = ".writer"
_CHECKPOINT = re.compile(r"(?P<base>.*/(?P<job>[0-9a-f]{32}))/chk-(?P<number>\d+)")
_NUMBERED = re.compile(r"chk-(\d+)")


class WriterLock:
    """A file lock held from the first file of an attempt to its end, even if the process is killed."""

    def __init__(self, path: str) -> None:
        """Acquires the lock. Raises ``OSError``."""
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with contextlib.suppress(OSError):  # no locks on this file system: it will never be taken for gone
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            os.write(self._descriptor, socket.gethostname().encode())

    def release(self, *, has_files: bool) -> None:
        """Releases the lock. Its file stays beside hidden files, which a later job may have to remove."""
        if not has_files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path)
        os.close(self._descriptor)


def is_gone(path: str) -> bool:
    """Returns whether the writer that held a lock ran on this machine and has ended. Unknown, so false, without the lock file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.pread(descriptor, 4096, 0) == socket.gethostname().encode()
    except OSError:  # somebody lives, or there are no locks here
        return False
    finally:
        os.close(descriptor)


def job_of(location: str) -> str:
    """Returns the id of the job whose checkpoint that is, by its directory; empty for one that was moved, and for a savepoint."""
    found = _CHECKPOINT.fullmatch(location)
    return found["job"] if found else ""


def is_newest(location: str) -> bool:
    """Returns whether the checkpoint's job has completed no later one; false if the directory cannot be read."""
    found = _CHECKPOINT.fullmatch(location)
    if found is None:
        return False
    try:
        filesystem, root = resolve(found["base"])
        for info in directory_entries(filesystem, root):
            other = _NUMBERED.fullmatch(info.base_name)
            if other is None or int(other[1]) <= int(found["number"]):
                continue
            if filesystem.get_file_info(f"{info.path}/_metadata").type != pafs.FileType.NotFound:
                return False
    except (OSError, pa.ArrowInvalid):
        return False
    return True
