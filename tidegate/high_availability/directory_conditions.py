"""Tests whether a directory's locks exclude each other and its renames are atomic, which ``high-availability.type: filesystem`` requires, with several
concurrent writers.

A network's file system may have locks that do not exclude.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from tidegate.model.errors import ExternalError

_BARRIER_S = 60.0
"""The longest wait of one writer for the others, in seconds; beyond it they never arrive."""


class LocksIgnored(ExternalError):
    """The error of a directory whose locks do not exclude, with which two JobManagers could lead at the same time."""

    code = "locks-ignored"


@dataclass
class LockTally:
    """The results of the test. ``locked``: rounds by the number of writers that held the lock at once. ``lost``: rounds in which a change under the
    lock was lost."""

    rounds: int = 0
    locked: Counter[int] = field(default_factory=Counter)
    lost: int = 0

    @property
    def broken(self) -> int:
        return self.lost + sum(count for winners, count in self.locked.items() if winners != 1)


def race_in_directory(directory: Path, rounds: int, writers: int) -> Iterator[LockTally]:
    """Tests locks: all writers lock one file at the same time, then each increments a number under the lock; yields after each round. Raises
    ``ExternalError`` where the directory cannot be written or locked."""
    place, tally = directory / f".probe-{secrets.token_hex(6)}", LockTally()
    try:
        place.mkdir()
        with ThreadPoolExecutor(writers, "race") as pool:
            for number in range(rounds):
                _raced(pool, place / str(number), writers, tally)
                tally.rounds += 1
                yield tally
    except OSError as error:
        raise ExternalError(
            f"{directory} cannot be written or locked: {error.strerror or error}; take a directory on a local disk"
        ) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def refuse_broken_locks(directory: Path, tally: LockTally) -> None:
    """Checks the results of the test. Raises ``LocksIgnored``."""
    if tally.broken:
        others = sum(count for winners, count in tally.locked.items() if winners != 1)
        raise LocksIgnored(
            f"{directory} cannot elect a leader: in {others} of {tally.rounds} rounds not exactly one writer had the lock, and in {tally.lost} a change under "
            "it was lost. Two JobManagers could lead at the same time; take a directory on a local disk, or high-availability.type zookeeper or object-store"
        )


def _raced(pool: ThreadPoolExecutor, file: Path, writers: int, tally: LockTally) -> None:
    line, count = threading.Barrier(writers), Path(f"{file}.count")
    count.write_bytes(b"0")

    def tried(number: int) -> bool:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            line.wait(_BARRIER_S)
            won = _locked(descriptor, LOCK_EX | LOCK_NB)
            line.wait(_BARRIER_S)  # the winner keeps it until all have tried
            if not won:
                flock(descriptor, LOCK_EX)
            fresh = Path(f"{count}.{number}")
            fresh.write_bytes(str(int(count.read_bytes()) + 1).encode("ascii"))
            fresh.replace(count)
        finally:
            os.close(descriptor)
        return won

    tally.locked[sum(pool.map(tried, range(writers)))] += 1
    tally.lost += int(count.read_bytes()) != writers
    file.unlink()
    count.unlink()


def _locked(descriptor: int, how: int) -> bool:
    try:
        flock(descriptor, how)
    except BlockingIOError:
        return False
    return True
