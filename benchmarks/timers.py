"""Timers of one subtask on disk and in memory: what they cost, and the memory that they take.

python -m benchmarks.timers [--timers 1000000] [--kind disk|heap|hashmap]

Each key, a 64-bit integer, has one timer at a random time; all are registered, some are deleted and registered again, a checkpoint is
taken, 1 % of them fire, a second checkpoint writes what changed, and a new attempt restores it. ``disk`` and ``heap`` are the values of
``state.backend.rocksdb.timer-service.factory``. Each kind runs in a process of its own, whose whole memory is given, Python and libraries
included.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tidegate.columnar.keys.hashing import key_groups
from tidegate.common.typeinfo import Types
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator
from tidegate.model.keygroups import range_of
from tidegate.records.keys import hash_keys
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.backends import BackendPlace, open_keyed_backend
from tidegate.taskmanager.keyed_state.timers import EVENT_TIMERS, Timer

MAX_PARALLELISM = 128
MANAGED_BYTES = 128 << 20
SPAN_MS = 86_400_000
PIECE = 100_000
CONFIGURATIONS = {
    "disk": {"state.backend.type": "rocksdb", "state.backend.rocksdb.timer-service.factory": "ROCKSDB"},
    "heap": {"state.backend.type": "rocksdb", "state.backend.rocksdb.timer-service.factory": "HEAP"},
    "hashmap": {"state.backend.type": "hashmap"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--timers", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=list(CONFIGURATIONS))
    arguments = parser.parse_args()
    if arguments.kind is None:
        for kind in ("heap", "disk"):
            command = [sys.executable, "-m", "benchmarks.timers", "--timers", str(arguments.timers), "--kind", kind]
            subprocess.run(command, check=True)
        return
    with tempfile.TemporaryDirectory(prefix="timers-bench-") as directory:
        measure(arguments.kind, arguments.timers, Path(directory))


def measure(kind: str, count: int, directory: Path) -> None:
    for name in ("chk-1", "chk-2", "shared", "local"):
        (directory / name).mkdir()
    print(f"{kind}: {count:,} timers, {resident() / 1e6:.0f} MB before the first", flush=True)
    backend = make(kind, directory)
    timers = backend.timers(EVENT_TIMERS)

    def register() -> None:
        for timer in generated(count):
            timers.add(timer)

    timed("register", count, register)
    moved = list(next(pieces(min(count, PIECE))))

    def move() -> None:
        for timer in moved:
            timers.remove(timer)
            timers.add(timer)

    timed("delete and register again", len(moved), move)
    snapshot(backend, directory, 1, "checkpoint, whole")
    backend.confirmed(1)
    due = fired = 0

    def fire() -> None:
        nonlocal due, fired
        while fired * 100 < count:
            due += SPAN_MS // 1000
            while timers.poll(due) is not None:
                fired += 1

    timed("fire", count // 100, fire)
    second = snapshot(backend, directory, 2, "checkpoint, 1 % changed")
    backend.close()
    restored = make(kind, directory)
    reader = open_segment_source(str(directory / "chk-2"))

    def restore() -> None:
        restored.restore(RestoredOperator(keyed=second.keyed), reader)
        first = restored.timers(EVENT_TIMERS).first_timestamp()
        assert first is not None
        assert first > due

    timed("restore", count - fired, restore)
    restored.close()


def generated(count: int) -> Iterator[Timer]:
    for piece in pieces(count):
        yield from piece


def pieces(count: int) -> Iterator[Iterator[Timer]]:
    """Always the same."""
    rng = random.Random(1)
    for start in range(0, count, PIECE):
        keys = list(range(start, min(count, start + PIECE)))
        groups = key_groups(hash_keys(keys), MAX_PARALLELISM).tolist()
        yield (Timer(rng.randrange(SPAN_MS), key, group, None) for key, group in zip(keys, groups, strict=True))


def make(kind: str, directory: Path) -> KeyedBackend:
    texts = {"execution.checkpointing.incremental": "true", **CONFIGURATIONS[kind]}
    place = BackendPlace(texts, str(directory / "local"), MANAGED_BYTES, 0, None, lambda: 0)
    return open_keyed_backend(place, "bench", range_of(0, MAX_PARALLELISM, 1), Types.LONG())


def snapshot(backend: KeyedBackend, directory: Path, checkpoint_id: int, what: str) -> OperatorSnapshot:
    options = CheckpointOptions(str(directory / f"chk-{checkpoint_id}"), shared_location=str(directory / "shared"))
    store = open_segment_store(
        options.location, f"attempt-{checkpoint_id}", checkpoint_id, 0, shared_location=options.shared_location
    )
    began = time.perf_counter()
    frozen = backend.freeze(checkpoint_id, options)
    sync_ms = (time.perf_counter() - began) * 1000
    found: list[OperatorSnapshot] = []
    timed(what, 0, lambda: found.append(frozen.write(store)))
    frozen.release()
    print(f"    frozen in {sync_ms:.2f} ms, {store.written_bytes / 1e6:.2f} MB written", flush=True)
    return found[0]


def timed(what: str, count: int, act: Callable[[], object]) -> None:
    with watched() as peak:
        began = time.perf_counter()
        act()
        seconds = time.perf_counter() - began
    each = f"{seconds / count * 1e6:8.2f} us each" if count else " " * 16
    print(f"  {what:28}{seconds:9.2f} s {each}   memory at most {peak[0] / 1e6:7.0f} MB", flush=True)


@contextmanager
def watched() -> Iterator[list[int]]:
    """The memory of this process while it runs: [most]."""
    stop, peak = threading.Event(), [resident()]

    def watch() -> None:
        while not stop.wait(0.05):
            peak[0] = max(peak[0], resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()


def resident() -> int:
    """All of it, what came from a file and the kernel may drop again included."""
    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    main()
