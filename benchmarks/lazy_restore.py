"""From a restart to the first output with state in RocksDB: loaded before the first record, and used before it is loaded.

python -m benchmarks.lazy_restore [--keys 10000000] [--value-bytes 200] [--directory KEPT]

One subtask, a ValueState of bytes for each key, incremental checkpoints; the records have random keys, whose values are read and written
again, and then a checkpoint is written. Each run is a process of its own that begins with an empty page cache; the
second pair reads from a disk of ``--store-mb-s``, and with ``--objects`` a third one from a server with S3's protocol
that gives as much. A time is that of the process from its first line of measuring on, without the imports.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pyarrow as pa

from benchmarks.restored_windows import forget_pages
from tests.servers.versitygw import BUCKET, VersityGateway
from tidegate.columnar.keys.hashing import key_groups
from tidegate.common.typeinfo import Types
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator, StateHandle
from tidegate.model.keygroups import range_of
from tidegate.records.keys import hash_keys
from tidegate.store.files import LocalCalls
from tidegate.store.object_files import ObjectFiles, ObjectRanges
from tidegate.store.segments import FileSegmentSource, open_segment_source, open_segment_store
from tidegate.taskmanager.keyed_state.backend import KeyedBackend
from tidegate.taskmanager.keyed_state.backends import BackendPlace, open_keyed_backend
from tidegate.taskmanager.state.ports import SegmentSource

MAX_PARALLELISM = 128
MANAGED_BYTES = 512 << 20
BATCH_RECORDS = 1_000
BATCHES = 20
_WRITE_KEYS = 100_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--value-bytes", type=int, default=200)
    parser.add_argument("--store-mb-s", type=int, default=200)
    parser.add_argument("--directory", type=Path, help="where the checkpoint is made, or was made by an earlier run")
    parser.add_argument("--only-make", action="store_true", help="make the checkpoint, measure nothing")
    parser.add_argument("--objects", action="store_true", help="also from an object store, versitygw as in the tests")
    parser.add_argument("--bucket", help=argparse.SUPPRESS)
    parser.add_argument("--run", choices=["eager", "lazy"], help=argparse.SUPPRESS)
    parser.add_argument("--limited", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run is not None:
        limit = arguments.store_mb_s * 1e6 if arguments.limited else 0
        measure(arguments.directory, arguments.keys, arguments.value_bytes, arguments.run, limit, arguments.bucket)
        return
    with tempfile.TemporaryDirectory(prefix="lazy-restore-") as made:
        directory = arguments.directory or Path(made)
        if not (directory / "snapshot").exists():
            make(directory, arguments.keys, arguments.value_bytes)
        if arguments.only_make:
            return
        size_bytes = sum(file.stat().st_size for file in (directory / "shared").iterdir())
        print(f"{arguments.keys:,} keys, {size_bytes / 1e9:.2f} GB of files")
        rate = ["--store-mb-s", str(arguments.store_mb_s), "--directory", str(directory)]
        given = ["--keys", str(arguments.keys), "--value-bytes", str(arguments.value_bytes), *rate]
        compare("from the local disk", given)
        compare(f"from a disk of {arguments.store_mb_s} MB/s", [*given, "--limited"])
        if arguments.objects:
            with VersityGateway() as server:
                (server.root / BUCKET / "chk-1").mkdir()
                (server.root / BUCKET / "shared").mkdir()
                for file in (directory / "shared").iterdir():
                    os.link(file, server.root / BUCKET / "shared" / file.name)
                os.environ.update(server.environment)
                name = f"from an object store of {arguments.store_mb_s} MB/s"
                compare(name, [*given, "--limited", "--bucket", f"s3://{BUCKET}"])


def compare(name: str, given: list[str]) -> None:
    print(f"  {name}", flush=True)
    for run in ("eager", "lazy"):
        subprocess.run([sys.executable, "-m", "benchmarks.lazy_restore", *given, "--run", run], check=True)


def make(directory: Path, keys: int, value_bytes: int) -> None:
    for name in ("chk-1", "shared", "local"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    backend = opened(directory, None)
    table = backend.table("state", "value", Types.PICKLED_BYTE_ARRAY())
    for first in range(0, keys, _WRITE_KEYS):
        some = list(range(first, min(first + _WRITE_KEYS, keys)))
        for key, group in zip(some, groups_of(some), strict=True):
            table.write(group, (key, None), value_of(key, value_bytes))
    options = CheckpointOptions(str(directory / "chk-1"), shared_location=str(directory / "shared"))
    store = open_segment_store(options.location, "attempt", 1, 0, shared_location=options.shared_location)
    frozen = backend.freeze(1, options)
    written = frozen.write(store)
    frozen.release()
    backend.close()
    (directory / "snapshot").write_bytes(pickle.dumps(written))


def measure(directory: Path, keys: int, value_bytes: int, run: str, limit: float, bucket: str | None) -> None:
    snapshot: OperatorSnapshot = pickle.loads((directory / "snapshot").read_bytes())
    keyed = snapshot.keyed
    if bucket is not None:
        places = {s.handle.path: f"{bucket}/shared/{os.path.basename(s.handle.path)}" for s in keyed}
        keyed = tuple(replace(s, handle=replace(s.handle, path=places[s.handle.path])) for s in keyed)
    pa.array([1]).to_numpy()  # imports pandas, as every operator does that decodes records
    forget_pages(directory / "shared")
    source: SegmentSource = open_segment_source(f"{bucket or directory}/chk-1")
    if limit:
        slow_down(limit)
    if run == "eager":
        source = WholeFiles(open_segment_source(f"{bucket or directory}/chk-1"))
    rng = random.Random(1)
    batches = [rng.choices(range(keys), k=BATCH_RECORDS) for _ in range(BATCHES)]
    began = time.perf_counter()
    backend = opened(directory, 1)
    backend.restore(RestoredOperator(keyed=keyed), source)
    table = backend.table("state", "value", Types.PICKLED_BYTE_ARRAY())
    times = [time.perf_counter() - began]
    for batch in batches:
        backend.merge_some()
        for key, group in zip(batch, groups_of(batch), strict=True):
            found = table.read(group, (key, None))
            assert found[:9] == value_of(key, value_bytes)[:9], f"key {key} has another value"
            table.write(group, (key, None), found)
            if len(times) == 1:
                times.append(time.perf_counter() - began)
        times.append(time.perf_counter() - began)
    options = CheckpointOptions(str(directory / "chk-2"), shared_location=str(directory / "shared"))
    frozen = backend.freeze(2, options)
    with tempfile.TemporaryDirectory() as written:
        store = open_segment_store(written, "attempt", 2, 0, shared_location=written)
        frozen.write(store)
    frozen.release()
    checkpoint = time.perf_counter() - began - times[-1]
    while backend.rows_to_load:
        backend.load_some()
    loaded = time.perf_counter() - began
    backend.close()
    print(
        f"    {run:5}: state asked for {times[0]:8.2f} s, first record {times[1]:8.2f} s, "
        f"first {BATCH_RECORDS:,} records {times[2]:8.2f} s, {BATCHES * BATCH_RECORDS:,} {times[-1]:8.2f} s, "
        f"a checkpoint {checkpoint:.2f} s ({store.written_bytes / 1e6:.1f} MB), "
        f"all loaded (no other work) {loaded:8.2f} s",
        flush=True,
    )  # fmt: skip


class WholeFiles:
    """A source that cannot read parts of files, so everything is loaded at once."""

    def __init__(self, source: FileSegmentSource) -> None:
        self._source = source

    def read(self, handle: StateHandle) -> memoryview:
        return self._source.read(handle)


def slow_down(bytes_per_second: float) -> None:
    """All reads of files of state together take as long as a store of this rate would."""
    free_at = [time.monotonic()]
    pread, read_into, read_at, view = os.pread, LocalCalls.read_into, ObjectRanges.read_at, ObjectFiles.view
    lock = threading.Lock()

    def wait(size_bytes: int) -> None:
        with lock:
            free_at[0] = max(free_at[0], time.monotonic()) + size_bytes / bytes_per_second
            until = free_at[0]
        time.sleep(max(0.0, until - time.monotonic()))  # the rate of the store, not a wait for something

    def slow_pread(descriptor: int, size_bytes: int, at: int) -> bytes:
        found = pread(descriptor, size_bytes, at)
        wait(len(found))
        return found

    def slow_read_into(self: LocalCalls, descriptor: int, buffers: Sequence[bytearray]) -> int:
        found = read_into(self, descriptor, buffers)
        wait(found)
        return found

    def slow_read_at(self: ObjectRanges, first: int, size_bytes: int) -> bytes:
        found = read_at(self, first, size_bytes)
        wait(len(found))
        return found

    def slow_view(self: ObjectFiles, path: str) -> memoryview:
        found = view(self, path)
        wait(len(found))
        return found

    mock.patch.object(os, "pread", slow_pread).start()
    mock.patch.object(LocalCalls, "read_into", slow_read_into).start()
    mock.patch.object(ObjectRanges, "read_at", slow_read_at).start()
    mock.patch.object(ObjectFiles, "view", slow_view).start()


def opened(directory: Path, restored_id: int | None) -> KeyedBackend:
    texts = {"state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true"}
    place = BackendPlace(texts, str(directory / "local"), MANAGED_BYTES, 0, restored_id, lambda: 0)
    return open_keyed_backend(place, "bench", range_of(0, MAX_PARALLELISM, 1), Types.LONG())


def groups_of(keys: list[int]) -> list[int]:
    found: list[int] = key_groups(hash_keys(keys), MAX_PARALLELISM).tolist()
    return found


def value_of(key: int, value_bytes: int) -> bytes:
    return (b"%d " % key).ljust(value_bytes, b".")


if __name__ == "__main__":
    main()
