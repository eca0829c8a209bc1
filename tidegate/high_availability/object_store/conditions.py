"""Tests whether a store honours conditional writes. One that ignores them, or checks and writes in two steps, would let two JobManagers lead.

First one writer after the other, which shows a store that does not know conditions; then several at a time, which shows one that looks first and writes
afterwards. JobManagers do this for a moment when they start, ``tidegate ha check`` for as long as one likes.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tidegate.high_availability.object_store.bucket import Bucket
from tidegate.high_availability.object_store.lease import Version
from tidegate.high_availability.port import Unavailable
from tidegate.model.errors import ExternalError

PROBES = "probes"
START_ROUNDS = 8
"""The rounds of the test when a JobManager starts. A store that let two writers win did so in nine rounds of ten, so eight rounds miss it once in a
hundred million; they take less than a second where a request takes 20 ms."""
WRITERS = 4
"""The concurrent writers of the test. More than two JobManagers rarely claim at a time; four found every store that checks and writes in two steps."""
_BARRIER_S = 60.0
"""The longest wait of one writer for the others, in seconds; beyond it they never arrive."""


class ConditionsIgnored(ExternalError):
    """The error of a store that ignores conditions, with which two JobManagers could lead at the same time."""

    code = "conditions-ignored"


@dataclass
class Tally:
    """The results of the test. ``created`` and ``replaced``: rounds by their number of winners. ``foreign``: rounds in which the object was not the
    winner's."""

    rounds: int = 0
    created: Counter[int] = field(default_factory=Counter)
    replaced: Counter[int] = field(default_factory=Counter)
    foreign: int = 0

    @property
    def broken(self) -> int:
        return self.foreign + sum(
            count for won in (self.created, self.replaced) for winners, count in won.items() if winners > 1
        )


def check_conditions(bucket: Bucket, rounds: int = START_ROUNDS) -> None:
    """Tests sequential and concurrent conditional writes. Raises ``ConditionsIgnored`` or ``Unavailable``."""
    with _folder(bucket) as folder:
        check_one_after_the_other(bucket, f"{folder}/sequence")
        for tally in race([bucket] * WRITERS, folder, rounds):
            refuse_broken(bucket, tally)


def refuse_broken(bucket: Bucket, tally: Tally) -> None:
    """Checks the results of the test. Raises ``ConditionsIgnored`` where a round had more than one winner."""
    if not tally.broken:
        return
    both = sum(count for winners, count in tally.created.items() if winners > 1)
    swaps = sum(count for winners, count in tally.replaced.items() if winners > 1)
    most = max([*tally.created, *tally.replaced])
    raise _ignored(
        bucket,
        f"of {tally.rounds} rounds in which several writers wrote one object at the same time, {both} had more than one who created it, {swaps} more than "
        f"one who replaced the same version (up to {most}), and in {tally.foreign} it held something else than its only winner had written",
    )


def check_one_after_the_other(bucket: Bucket, name: str) -> None:
    """Tests conditional writes of one writer. Raises ``ConditionsIgnored`` or ``Unavailable``."""
    first = bucket.write(name, b"1", None)
    if first is None:
        raise _ignored(bucket, f"{name}, which no other process writes, could not be created (If-None-Match: *)")
    if bucket.write(name, b"2", None) is not None:
        raise _ignored(bucket, "an object that existed was created a second time (If-None-Match: *)")
    second = bucket.write(name, b"3", first)
    if second is None:
        raise _ignored(bucket, "an object could not be replaced although its version was the expected one (If-Match)")
    if bucket.write(name, b"4", first) is not None:
        raise _ignored(bucket, "an object was replaced although it had changed (If-Match)")
    found = bucket.read(name)
    if found is None or found.content != b"3":
        raise _ignored(bucket, "an object does not hold what was written last")
    bucket.delete(name)
    if bucket.write(name, b"5", second) is not None:
        raise _ignored(bucket, "an object that had been removed was replaced (If-Match)")


def race(buckets: Sequence[Bucket], folder: str, rounds: int) -> Iterator[Tally]:
    """Tests concurrent writes: all writers create one object, then all replace the version that they found; yields after each round. Raises
    ``Unavailable``."""
    tally = Tally()
    with ThreadPoolExecutor(len(buckets), "race") as pool:
        for number in range(rounds):
            name = f"{folder}/{number}"
            _raced(pool, buckets, name, None, tally.created, tally)
            found = buckets[0].read(name)
            if found is not None:
                _raced(pool, buckets, name, found.version, tally.replaced, tally)
            buckets[0].delete(name)
            tally.rounds += 1
            yield tally


def _raced(
    pool: ThreadPoolExecutor,
    buckets: Sequence[Bucket],
    name: str,
    expected: Version | None,
    winners: Counter[int],
    tally: Tally,
) -> None:
    """Runs one round and counts its winners. A round without a winner is not counted as a fault: a request that is repeated after a lost answer is
    refused because of itself."""
    line = threading.Barrier(len(buckets))

    def write(number: int) -> bytes | None:
        content = f"{name} {number} {secrets.token_hex(8)}".encode("ascii")
        line.wait(_BARRIER_S)
        return content if buckets[number].write(name, content, expected) is not None else None

    won = [content for content in pool.map(write, range(len(buckets))) if content is not None]
    winners[len(won)] += 1
    found = buckets[0].read(name)
    if len(won) == 1 and (found is None or found.content != won[0]):
        tally.foreign += 1


@contextmanager
def _folder(bucket: Bucket) -> Iterator[str]:
    """Provides a folder for the test, which is emptied afterwards."""
    folder = f"{PROBES}/{secrets.token_hex(6)}"
    try:
        yield folder
    finally:
        with suppress(Unavailable):
            for name in bucket.names(folder):
                bucket.delete(f"{folder}/{name}")


def full_check(make: Callable[[], Bucket], rounds: int, writers: int) -> Iterator[Tally]:
    """Runs the test of ``tidegate ha check``, each writer with a connection of its own; yields after each round. Raises ``ConditionsIgnored`` where the
    sequential test shows it, and ``Unavailable``."""
    buckets = [make() for _ in range(writers)]
    with _folder(buckets[0]) as folder:
        check_one_after_the_other(buckets[0], f"{folder}/sequence")
        yield from race(buckets, folder, rounds)


def _ignored(bucket: Bucket, what: str) -> ConditionsIgnored:
    return ConditionsIgnored(
        f"{bucket.url} cannot elect a leader: {what}. Two JobManagers could lead at the same time; take a store whose conditional writes are atomic, or "
        "high-availability.type zookeeper"
    )
