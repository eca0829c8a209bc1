"""The rocksdb backend by itself: accesses, snapshots whole and incremental, restore, memory; beside the one in memory.

python -m benchmarks.rocksdb [--keys 1000000] [--backend rocksdb|hashmap]

One subtask, a ValueState of integers for each key, updates of uniformly chosen keys. Each backend runs in a process of its
own, so that its memory can be told apart. Times are CPU and wall time of that process.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
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

MAX_PARALLELISM = 128
CHANGED_SHARE = 100
MANAGED_BYTES = 128 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--backend", choices=["rocksdb", "hashmap"])
    arguments = parser.parse_args()
    if arguments.backend is None:
        for backend in ("hashmap", "rocksdb"):
            command = [sys.executable, "-m", "benchmarks.rocksdb", "--keys", str(arguments.keys), "--backend", backend]
            subprocess.run(command, check=True)
        return
    with tempfile.TemporaryDirectory(prefix="rocksdb-bench-") as directory:
        measure(arguments.backend, arguments.keys, Path(directory))


def measure(backend_type: str, keys: int, directory: Path) -> None:
    for name in ("chk-1", "chk-2", "shared", "local"):
        (directory / name).mkdir()
    print(f"{backend_type}: {keys:,} keys")
    groups = key_groups(hash_keys(list(range(keys))), MAX_PARALLELISM).tolist()
    before = resident()
    backend = make(backend_type, directory)
    table = backend.table("count", "value", Types.LONG())

    def insert() -> None:
        for key in range(keys):
            table.write(groups[key], (key, None), key)

    timed("insert", keys, insert)
    chosen = random.Random(1).choices(range(keys), k=min(keys, 200_000))

    def update() -> None:
        for key in chosen:
            entry = (key, None)
            table.write(groups[key], entry, table.read(groups[key], entry) + 1)

    timed("read and write again", len(chosen), update)
    print(f"  memory of the state        {(resident() - before) / 1e6:10.0f} MB")
    first = snapshot(backend, directory, 1)
    backend.confirmed(1)
    for key in chosen[: keys // CHANGED_SHARE]:
        table.write(groups[key], (key, None), -1)
    second = snapshot(backend, directory, 2, first)
    backend.close()
    restored = make(backend_type, directory)
    reader = open_segment_source(str(directory / "chk-2"))

    def restore() -> None:
        restored.restore(RestoredOperator(keyed=second.keyed), reader)
        restored.table("count", "value", Types.LONG())

    timed("restore", keys, restore)
    restored.close()


def make(backend_type: str, directory: Path) -> KeyedBackend:
    texts = {"state.backend.type": backend_type, "execution.checkpointing.incremental": "true"}
    place = BackendPlace(texts, str(directory / "local"), MANAGED_BYTES, 0, None, lambda: 0)
    return open_keyed_backend(place, "bench", range_of(0, MAX_PARALLELISM, 1), Types.LONG())


def snapshot(
    backend: KeyedBackend, directory: Path, checkpoint_id: int, base: OperatorSnapshot | None = None
) -> OperatorSnapshot:
    options = CheckpointOptions(str(directory / f"chk-{checkpoint_id}"), shared_location=str(directory / "shared"))
    store = open_segment_store(
        options.location, f"attempt-{checkpoint_id}", checkpoint_id, 0, shared_location=options.shared_location
    )
    began = time.perf_counter()
    frozen = backend.freeze(checkpoint_id, options)
    sync_ms = (time.perf_counter() - began) * 1000
    stop, peak, start = threading.Event(), [0], resident()

    def watch() -> None:
        while not stop.wait(0.02):
            peak[0] = max(peak[0], resident() - start)

    watcher = threading.Thread(target=watch)
    watcher.start()
    found: list[OperatorSnapshot] = []
    what = "snapshot, whole" if base is None else f"snapshot, {100 / CHANGED_SHARE:g} % changed"
    seconds = timed(what, 0, lambda: found.append(frozen.write(store)))
    stop.set()
    watcher.join()
    frozen.release()
    size = store.written_bytes
    print(f"    frozen in {sync_ms:.2f} ms, {size / 1e6:.1f} MB written, {size / 1e6 / seconds:.0f} MB/s, "
          f"{peak[0] / 1e6:.0f} MB more memory")  # fmt: skip
    return found[0]


def timed(what: str, count: int, work: Callable[[], object]) -> float:
    began, cpu = time.perf_counter(), time.process_time()
    work()
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    rate = f"{count / seconds:12,.0f} /s" if count else ""
    print(f"  {what:26} {seconds:7.2f} s ({cpu_s:.2f} s of CPU) {rate}", flush=True)
    return seconds


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    main()
