"""A gigabyte of keyed state, snapshotted while it changes: pauses, rates, size of increments, memory; and restored.

One subtask without a cluster around it: the operator behind ``key_by("key").agg(...)``, the snapshot thread and the files
are the real ones. Keys are chosen uniformly. Beside it: the same bytes by plain ``write`` and ``fsync``, and by ``read``.

    python -m benchmarks.state [--keys 10000000]
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks.state_operator import OneSubtask, rows_of
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, SnapshotType

KEYS = 10_000_000
COLUMNS = 11
"""Sums of float64, beside an int64 key: with index and epochs about 107 bytes a key."""
RATE = 100_000
BATCH_ROWS = 1_000
FULL_BATCH_ROWS = 8_192
CALM_S = 3.0
INCREMENTS = 5
_CHUNK = 1 << 20


@dataclass
class Figures:
    """Times in ms, sizes in bytes, rates in bytes a second."""

    keys: int = 0
    state_bytes: int = 0
    snapshot_bytes: int = 0
    freeze_ms: float = 0.0
    write_rate: float = 0.0
    plain_write_rate: float = 0.0
    restore_rate: float = 0.0
    plain_read_rate: float = 0.0
    memory_before: int = 0
    memory_peak: int = 0
    increments: list[int] = field(default_factory=list)
    """Bytes that a checkpoint writes after 1 % of the keys changed."""
    calm: list[tuple[float, float]] = field(default_factory=list)
    """(ms since the freeze, ms of the step) at 100,000 keys a second; before and during the snapshot."""
    full: list[tuple[float, float]] = field(default_factory=list)
    """The same as fast as it goes."""
    snapshot_ms: float = 0.0
    full_snapshot_ms: float = 0.0
    full_rate: float = 0.0
    """Rows a second during that snapshot."""

    load: float = 0.0
    """Average of the machine when it began: other work on it makes every figure worse."""

    @property
    def memory_ratio(self) -> float:
        return self.memory_peak / self.memory_before


def measure(keys: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="tidegate-state-", dir=os.environ.get("TMPDIR")) as directory:
        load = os.getloadavg()[0]
        figures = _in_child(_snapshots, keys, directory)
        figures.load = load
        restored: Figures = _in_child(_restore, keys, directory)
        figures.restore_rate, figures.plain_read_rate = restored.restore_rate, restored.plain_read_rate
        return figures


def share(values: list[float], percent: float) -> float:
    return values[min(len(values) - 1, int(len(values) * percent / 100))] if values else 0.0


def _in_child(work: Callable[[int, str], Figures], keys: int, directory: str) -> Figures:
    """In a process of its own, so that memory figures are of nothing else."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_child, args=(work, keys, directory, theirs))
    child.start()
    theirs.close()
    try:
        found: Figures = ours.recv()
    except EOFError:
        raise RuntimeError(f"{work.__name__} did not end well; see above") from None
    finally:
        child.join()
    return found


def _child(work: Callable[[int, str], Figures], keys: int, directory: str, result: Connection) -> None:
    result.send(work(keys, directory))


def _snapshots(keys: int, directory: str) -> Figures:
    figures = Figures(keys=keys)
    subtask = OneSubtask(COLUMNS)
    rng = np.random.default_rng(1)
    empty = _memory()
    subtask.fill(keys)
    figures.state_bytes = _memory() - empty
    size_bytes = keys * (8 + 4 + 8 * COLUMNS)
    plain = [_plain_write(directory, size_bytes) for _ in range(3)]
    figures.plain_write_rate = statistics.median(plain)
    _snapshot_at_rate(subtask, figures, rng, _options(directory, "chk-1"))
    subtask.confirm(1)
    subtask.snapshot(2, _options(directory, "chk-2"))  # what changed while the first one was written
    subtask.confirm(2)
    for checkpoint_id in range(3, 3 + INCREMENTS):
        subtask.process(rows_of(rng.choice(keys, keys // 100, replace=False), COLUMNS))
        written, snapshot = subtask.snapshot(checkpoint_id, _options(directory, f"chk-{checkpoint_id}"))
        subtask.confirm(checkpoint_id)
        figures.increments.append(written)
    _keep(directory, snapshot)
    _snapshot_at_full_load(subtask, figures, rng, _options(directory, "chk-full", is_full=True))
    shutil.rmtree(Path(directory) / "chk-full")
    return figures


def _snapshot_at_rate(
    subtask: OneSubtask, figures: Figures, rng: np.random.Generator, options: CheckpointOptions
) -> None:
    until = time.perf_counter() + CALM_S
    steps = list(_steps_at_rate(subtask, figures.keys, rng, lambda: time.perf_counter() >= until))
    figures.memory_before = _memory()
    with _peak_memory() as peak:
        began = time.perf_counter()
        frozen = subtask.freeze(1, options)
        figures.freeze_ms = (time.perf_counter() - began) * 1e3
        ended = subtask.write_in_background(frozen, options)
        during = list(_steps_at_rate(subtask, figures.keys, rng, ended.is_set))
        figures.snapshot_ms = (subtask.written_at - began) * 1e3
        subtask.release(frozen)
    until = time.perf_counter() + CALM_S
    after = list(_steps_at_rate(subtask, figures.keys, rng, lambda: time.perf_counter() >= until))
    figures.memory_peak = max(peak)
    figures.snapshot_bytes = subtask.written_bytes
    figures.write_rate = subtask.written_bytes / figures.snapshot_ms * 1e3
    figures.calm = [((at - began) * 1e3, ms) for at, ms in (*steps, *during)]
    figures.calm.append((0.0, figures.freeze_ms))
    figures.calm += [((at - began) * 1e3, ms) for at, ms in after]


def _snapshot_at_full_load(
    subtask: OneSubtask, figures: Figures, rng: np.random.Generator, options: CheckpointOptions
) -> None:
    batches = [rows_of(rng.integers(0, figures.keys, FULL_BATCH_ROWS), COLUMNS) for _ in range(50)]
    until = time.perf_counter() + CALM_S
    steps = list(_steps(subtask, batches, lambda: time.perf_counter() >= until))
    began = time.perf_counter()
    frozen = subtask.freeze(100, options)
    freeze_ms = (time.perf_counter() - began) * 1e3
    ended = subtask.write_in_background(frozen, options)
    during = list(_steps(subtask, batches, ended.is_set))
    figures.full_snapshot_ms = (subtask.written_at - began) * 1e3
    figures.full_rate = len(during) * FULL_BATCH_ROWS / figures.full_snapshot_ms * 1e3
    subtask.release(frozen)
    until = time.perf_counter() + CALM_S
    after = list(_steps(subtask, batches, lambda: time.perf_counter() >= until))
    figures.full = [((at - began) * 1e3, ms) for at, ms in (*steps, *during, *after)]
    figures.full.append((0.0, freeze_ms))


def _steps_at_rate(
    subtask: OneSubtask, keys: int, rng: np.random.Generator, is_over: Callable[[], bool]
) -> Iterator[tuple[float, float]]:
    due = time.perf_counter()
    while not is_over():
        batch = rows_of(rng.integers(0, keys, BATCH_ROWS), COLUMNS)
        due += BATCH_ROWS / RATE
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        yield _timed(subtask, batch)


def _steps(
    subtask: OneSubtask, batches: list[pa.RecordBatch], is_over: Callable[[], bool]
) -> Iterator[tuple[float, float]]:
    number = 0
    while not is_over():
        number += 1
        yield _timed(subtask, batches[number % len(batches)])


def _timed(subtask: OneSubtask, batch: pa.RecordBatch) -> tuple[float, float]:
    began = time.perf_counter()
    subtask.process(batch)
    return began, (time.perf_counter() - began) * 1e3


def _restore(keys: int, directory: str) -> Figures:
    figures = Figures(keys=keys)
    snapshot, location = _kept(directory)
    files = sorted(_paths(snapshot, location))
    _forget_cached(files)
    began = time.perf_counter()
    size_bytes = 0
    for path in files:
        with path.open("rb", buffering=0) as file:
            while content := file.read(_CHUNK):
                size_bytes += len(content)
    figures.plain_read_rate = size_bytes / (time.perf_counter() - began)
    _forget_cached(files)
    began = time.perf_counter()
    subtask = OneSubtask(COLUMNS, snapshot, location)
    figures.restore_rate = size_bytes / (time.perf_counter() - began)
    if subtask.keys != keys:
        raise RuntimeError(f"{subtask.keys} keys were restored, {keys} were written")
    return figures


def _options(directory: str, name: str, *, is_full: bool = False) -> CheckpointOptions:
    location, shared = Path(directory) / name, Path(directory) / "shared"
    location.mkdir()
    shared.mkdir(exist_ok=True)
    return CheckpointOptions(
        str(location), SnapshotType.CHECKPOINT, is_full=is_full, shared_location="" if is_full else str(shared)
    )


def _plain_write(directory: str, size_bytes: int) -> float:
    """What ``dd conv=fsync`` does."""
    path = Path(directory) / "plain"
    content = np.random.default_rng(2).bytes(_CHUNK)
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for _ in range(size_bytes // _CHUNK):
            file.write(content)
        os.fsync(file.fileno())
    rate = size_bytes / (time.perf_counter() - began)
    path.unlink()
    return rate


def _memory() -> int:
    """Resident, of this process."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _peak_memory() -> Iterator[list[int]]:
    found, over = [_memory()], threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            found.append(_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def _forget_cached(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _keep(directory: str, snapshot: OperatorSnapshot) -> None:
    (Path(directory) / "snapshot").write_bytes(pickle.dumps(snapshot))


def _kept(directory: str) -> tuple[OperatorSnapshot, str]:
    found: OperatorSnapshot = pickle.loads((Path(directory) / "snapshot").read_bytes())
    return found, directory


def _paths(snapshot: OperatorSnapshot, location: str) -> set[Path]:
    return {Path(location) / handle.path for handle in snapshot.handles if handle.path}


def to_json(figures: Figures) -> str:
    found: dict[str, Any] = asdict(figures)
    for name in ("calm", "full"):
        found[name] = [[round(at, 1), round(ms, 2)] for at, ms in found[name]]
    return json.dumps(found)


def report(console: Console, results: Path, keys: int = KEYS) -> None:
    from benchmarks import plots  # matplotlib: not in the processes that are measured

    console.print(f"keyed state: {keys:,} keys of {COLUMNS} float64, one subtask, {RATE:,} changes a second")
    figures = measure(keys)
    table = Table("figure", "value")
    for name, value in summary(figures):
        table.add_row(name, value)
    console.print(table)
    results.mkdir(exist_ok=True)
    (results / "state.json").write_text(to_json(figures))
    plots.state(figures, results / "state.png")
    console.print(f"drawn in {results / 'state.png'}")


@click.command(help=__doc__)
@click.option("--keys", default=KEYS, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=Path(__file__).resolve().parent / "results")
def main(keys: int, output: Path) -> None:
    report(Console(width=140), output, keys)


def summary(f: Figures) -> list[tuple[str, str]]:
    """Rows of a table."""
    mb = 1e6
    rows = [
        ("keys, and memory of their state", f"{f.keys:,}, {f.state_bytes / mb:,.0f} MB"),
        ("freeze", f"{f.freeze_ms:.1f} ms"),
        ("load average of the machine before", f"{f.load:.1f}"),
    ]
    for name, steps, end in (
        (f"steps at {RATE:,} keys/s", f.calm, f.snapshot_ms),
        ("steps at full load", f.full, f.full_snapshot_ms),
    ):
        for when, found in (
            ("before the snapshot", [ms for at, ms in steps if at < 0]),
            ("during it", [ms for at, ms in steps if 0 <= at <= end]),
            ("after it", [ms for at, ms in steps if at > end]),
        ):
            times = sorted(found)
            shares = " ".join(f"{share(times, p):.1f}" for p in (50, 99, 100))
            rows.append((f"{name}, {when}: p50, p99, longest", f"{shares} ms"))
    rows += [
        ("rows at full load, during the snapshot", f"{f.full_rate / mb:.2f} M/s"),
        (
            "snapshot written at, with fsync; plain write and fsync",
            f"{f.write_rate / mb:,.0f} MB/s; {f.plain_write_rate / mb:,.0f} MB/s",
        ),
        (
            "restored at (base and increments, cache dropped); plain read",
            f"{f.restore_rate / mb:,.0f} MB/s; {f.plain_read_rate / mb:,.0f} MB/s",
        ),
        (
            "incremental checkpoints after 1 % of the keys changed, of a full one",
            ", ".join(f"{size / f.snapshot_bytes:.1%}" for size in f.increments),
        ),
        ("memory during the snapshot, of that before", f"{f.memory_ratio:.2f} x"),
    ]
    return rows


if __name__ == "__main__":
    main()
