"""High availability in a directory of one machine: an exclusive lock, which the kernel releases however its process ends, and files beside it.

A process that is stopped (SIGSTOP) keeps the lock, so no other one leads beside it, and what the leader does, no other does meanwhile.

    leader        locked; "<term> <pid>"       contact      where the leader is
    standbys/<pid>-<random>   locked by each that waits      <name>       entries
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.high_availability.port import (
    Entries,
    Unavailable,
    decode_contact,
    decode_leader,
    encode_contact,
    encode_leader,
)
from tidegate.model.errors import ExternalError, StorageError
from tidegate.model.leadership import Connected, Contact, ElectionEvent, Leader, LockAcquired
from tidegate.store.files import LocalFiles, OutcomeUnknown

LOOK_S = 0.1
"""The delay between two attempts to lead, in seconds. An attempt is one system call; what follows, the ports and the jobs, takes longer."""
_LOCK, _CONTACT, _STANDBYS = "leader", "contact", "standbys"
_SESSION = 1
"""The session number of this driver: a lock file has no sessions, so there is one for the life of the process."""


class LedByAnother(ExternalError):
    """The error of a cluster that another live JobManager leads."""

    code = "led-by-another"


class FileElection:
    """Leader election by a lock file in ``directory``, where the cluster keeps its jobs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._contact = Contact("")
        self._tell: Callable[[ElectionEvent], None] = lambda event: None
        self._lock = -1
        self._taken: tuple[int, int] | None = None
        """The lock and the term, had when it was tried whether they can be had at all."""
        self._standby: Path | None = None
        self._stopped = threading.Event()
        self._waiting: threading.Thread | None = None

    @property
    def lease_ms(self) -> int:
        return 0

    def seek(self, contact: Contact, tell: Callable[[ElectionEvent], None]) -> None:
        """Opens the directory. Raises ``ExternalError`` where it cannot be written or locked."""
        self._contact, self._tell = contact, tell
        with contextlib.suppress(LedByAnother):
            self._taken = _take(self._directory)
        tell(Connected(_SESSION))

    def wait_for_turn(self, session: int) -> None:
        self._stopped.clear()
        self._waiting = threading.Thread(target=self._wait, args=(session,), name="election", daemon=True)
        self._waiting.start()

    def give_up(self) -> None:
        self._stopped.set()
        if self._waiting is not None:
            self._waiting.join()
        if self._taken is not None:
            os.close(self._taken[0])
            self._taken = None
        if self._lock >= 0:
            (self._directory / _CONTACT).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    def publish(self, term: int, contact: Contact) -> None:
        self.entries(term).put(_CONTACT, encode_leader(Leader(term, contact)))

    def entries(self, term: int) -> FileEntries:
        return FileEntries(self._directory)

    def close(self) -> None:
        self.give_up()

    def _wait(self, session: int) -> None:
        standby = -1
        try:
            while not self._stopped.is_set():
                try:
                    self._lock, term = self._taken or _take(self._directory)
                    self._taken = None
                except LedByAnother:
                    standby = self._stand_by() if standby < 0 else standby
                    self._stopped.wait(LOOK_S)
                except ExternalError:
                    self._stopped.wait(LOOK_S)  # a full disk, perhaps: it may be written again
                else:
                    self._tell(LockAcquired(session, term))
                    return
        finally:
            if standby >= 0 and self._standby is not None:
                self._standby.unlink(missing_ok=True)
                os.close(standby)

    def _stand_by(self) -> int:
        """Registers this process as a standby. Returns a locked descriptor, or -1 where that cannot be written."""
        self._standby = self._directory / _STANDBYS / f"{os.getpid()}-{secrets.token_hex(4)}"
        try:
            self._standby.parent.mkdir(exist_ok=True)
            descriptor = os.open(self._standby, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _replace(descriptor, encode_contact(self._contact))
        except OSError:
            return -1
        return descriptor


class FileRetrieval:
    """Finds the leader in the directory of a cluster, without changing it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def leader(self) -> Leader | None:
        if not _is_held(self._directory / _LOCK):
            return None
        content = FileEntries(self._directory).get(_CONTACT)
        return None if content is None else decode_leader(content, str(self._directory / _CONTACT))

    def standbys(self) -> list[Contact]:
        directory = self._directory / _STANDBYS
        try:
            waiting = sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            return [decode_contact(path.read_bytes(), str(path)) for path in waiting if _is_held(path)]
        except FileNotFoundError:
            return []  # no directory, or one has just ended: whoever asks again sees the others
        except OSError as error:
            raise Unavailable(f"cannot look into {directory}: {error.strerror}") from None

    def close(self) -> None:
        """Does nothing, since no file is open."""


class FileEntries(Entries):
    """Entries as files, which are written atomically. This process holds the lock, so no other one changes them."""

    excludes_others = True

    def __init__(self, directory: Path, files: LocalFiles | None = None) -> None:
        self._directory = directory
        self._files = files or LocalFiles()

    def get(self, name: str) -> bytes | None:
        with self._named("read", name) as path:
            return None if self._files.kind_of(path) == "missing" else self._files.read(path)

    def names(self, below: str) -> list[str]:
        with self._named("list", below) as path:
            return sorted([*self._files.sizes(path), *self._files.directories(path)])

    def create(self, name: str, value: bytes) -> bool:
        found = self.get(name)
        if found is None:
            self.put(name, value)
        return found is None or found == value

    def put(self, name: str, value: bytes) -> None:
        with self._named("keep", name) as path:
            directory = os.path.dirname(path)
            if not os.path.isdir(directory):
                self._files.make_directory(directory)
                self._files.sync(os.path.dirname(directory))
            self._files.write(path, [value])

    def delete(self, name: str) -> None:
        with self._named("remove", name) as path:
            if os.path.isdir(path):
                self._files.delete_tree(path)
            else:
                self._files.delete(path)

    def check_lead(self) -> None:
        """Does nothing: this process lives and holds the lock."""

    @contextmanager
    def _named(self, what: str, name: str) -> Iterator[str]:
        path = self._directory / name
        try:
            yield str(path)
        except OutcomeUnknown as error:
            raise Unavailable(f"cannot tell whether {path} was written: {error.strerror or error}") from error
        except OSError as error:
            raise StorageError(
                f"cannot {what} {path}: {error.strerror or error}; see high-availability.storageDir"
            ) from error


def _take(directory: Path) -> tuple[int, int]:
    """Takes the lock; returns its descriptor and the new term. Raises ``LedByAnother`` or ``ExternalError``."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ExternalError(
            f"cannot keep jobs in {directory}: {error.strerror}; set high-availability.storageDir to a directory that can be written"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        term = _term_in(descriptor) + 1
        _replace(descriptor, f"{term} {os.getpid()}\n".encode("ascii"))
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
    return descriptor, term


def led_by(directory: Path) -> str:
    """Returns a message for the log of a standby that names the leader."""
    try:
        pid = (directory / _LOCK).read_text(encoding="ascii", errors="replace").split()[1:]
    except OSError:
        pid = []
    return f"the JobManager{f' with pid {pid[0]}' if pid else ''} leads the cluster in {directory}"


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Unavailable(f"cannot look at {path}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _text_in(descriptor: int) -> str:
    return os.pread(descriptor, 4096, 0).decode("ascii", "replace")


def _term_in(descriptor: int) -> int:
    found = _text_in(descriptor).split()
    return int(found[0]) if found and found[0].isdigit() else 0


def _replace(descriptor: int, text: bytes) -> None:
    """Overwrites the lock file. The new text is never shorter than the term in it, so a torn write cannot lower the term."""
    os.pwrite(descriptor, text, 0)
    os.ftruncate(descriptor, len(text))
    os.fsync(descriptor)
