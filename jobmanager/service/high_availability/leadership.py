"""One JobManager at a time leads a cluster: it holds an exclusive lock, which the kernel releases however the process ends.

A process that is stopped (SIGSTOP) keeps the lock, so nobody leads beside it. The term grows with each leader; generations begin
with it, which puts them in order.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

from tidegate.model.errors import ExternalError
from tidegate.model.ids import Generation

_LOCK = "leader"


class LedByAnother(ExternalError):
    """Another JobManager is alive and leads the cluster."""

    code = "led-by-another"


class Leadership:
    """Leadership of the cluster whose jobs are kept in a directory. It ends with ``release``, or with the process."""

    def __init__(self, descriptor: int, term: int) -> None:
        self._descriptor = descriptor
        self.term = term

    @staticmethod
    def take(directory: Path) -> Leadership:
        """Raises ``LedByAnother``, or ``ExternalError`` where the directory cannot be written or locked."""
        path = directory / _LOCK
        try:
            directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ExternalError(
                f"cannot keep jobs in {directory}: {error.strerror}; set high-availability.storageDir to a directory that can be written"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            term = _term_in(descriptor) + 1
            _replace(descriptor, f"{term} {os.getpid()}\n")
        except BlockingIOError:
            leader = _text_in(descriptor).split()[1:]
            os.close(descriptor)
            who = f" with pid {leader[0]}" if leader else ""
            raise LedByAnother(f"the JobManager{who} leads the cluster in {directory}") from None
        except OSError as error:
            os.close(descriptor)
            raise ExternalError(
                f"{directory} cannot be locked ({error.strerror}); high-availability.storageDir must be on a local disk"
            ) from None
        return Leadership(descriptor, term)

    def generation(self) -> Generation:
        """A new one, above those of every earlier leader."""
        return Generation(f"{self.term:08x}{secrets.token_hex(12)}")

    def release(self) -> None:
        """Again: no-op."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _text_in(descriptor: int) -> str:
    return os.pread(descriptor, 4096, 0).decode("ascii", "replace")


def _term_in(descriptor: int) -> int:
    found = _text_in(descriptor).split()
    return int(found[0]) if found and found[0].isdigit() else 0


def _replace(descriptor: int, text: str) -> None:
    """The new text is longer than nothing and never shorter than the term in it, so a torn write cannot lower the term."""
    os.pwrite(descriptor, text.encode("ascii"), 0)
    os.ftruncate(descriptor, len(text))
    os.fsync(descriptor)
