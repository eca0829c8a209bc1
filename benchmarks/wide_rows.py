"""Rows with many keys, in Arrow files that every contender maps into memory, so that engines are compared and not generators.

    ts     int64, ms: one row per ms of each source, from 0 on, in order
    keys   by shape, see ``SHAPES``; scattered in time by a multiplication with a large odd number
    v      int64, 0 to 1023

Source i of p has the rows from ``i * rows / p`` on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PARALLELISM = 2
KEYS = 1_000_000
ROWS_PER_KEY = 10
"""Of a window. The other shape of the issue has one."""
STEP_ROWS = 1 << 20
"""Rows made at a time."""

Numbers = npt.NDArray[np.int64]
Chosen = Callable[[Numbers, int], Numbers]
"""(row numbers, how many keys) -> number of each row's key."""


def even(rows: Numbers, keys: int) -> Numbers:
    found: Numbers = ((rows * 2654435761) >> 7) % keys
    return found


def _zipf(rows: Numbers, keys: int) -> Numbers:
    """Exponent 1.1, by inversion of the distribution on a power law; the same for a row however often it is asked."""
    share = (even(rows, 1 << 30) + 0.5) / (1 << 30)
    least = float(keys) ** -0.1
    ranks = ((1 - share * (1 - least)) ** -10.0).astype(np.int64)
    found: Numbers = np.minimum(ranks - 1, keys - 1)
    return found


def _hot(rows: Numbers, keys: int) -> Numbers:
    """Three rows of ten have the same key."""
    return np.where(rows % 10 < 3, 0, even(rows, keys))


@dataclass(frozen=True)
class Shape:
    columns: tuple[str, ...]
    """Names of the key columns."""
    keys_of: Callable[[Numbers], list[pa.Array]]
    chosen: Chosen = even
    rows_per_key: int = ROWS_PER_KEY


def _dense(keys: Numbers) -> list[pa.Array]:
    return [pa.array(keys)]


def _scattered(keys: Numbers) -> list[pa.Array]:
    return [pa.array((keys.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64))]


def _text(keys: Numbers) -> list[pa.Array]:
    return [_names().take(pa.array(keys))]


@cache
def _names() -> pa.Array:
    return pa.array([f"customer-{key}" for key in range(KEYS)])


def _two(keys: Numbers) -> list[pa.Array]:
    return [pa.array(keys // 1_000), pa.array((keys % 1_000 * 7_919).astype(np.int32))]


SHAPES = {
    "dense": Shape(("k",), _dense),
    "scattered": Shape(("k",), _scattered),
    "text": Shape(("k",), _text),
    "two columns": Shape(("k", "l"), _two),
    "zipf": Shape(("k",), _scattered, _zipf),
    "hot key": Shape(("k",), _scattered, _hot),
    "one row a key": Shape(("k",), _dense, rows_per_key=1),
}


def window_ms(shape: str, keys: int, parallelism: int = PARALLELISM) -> int:
    """Length of a window that has so many rows of each key, at one row per ms of each source."""
    return keys * SHAPES[shape].rows_per_key // parallelism


def write(shape: str, rows: int, keys: int, path: Path, parallelism: int = PARALLELISM) -> None:
    """``rows`` is a multiple of the parallelism: of the job that is to read them, since times begin anew with each source."""
    write_rows(SHAPES[shape], rows, keys, path, parallelism)


def write_rows(made: Shape, rows: int, keys: int, path: Path, parallelism: int = PARALLELISM) -> None:
    """As ``write``."""
    of_a_source = rows // parallelism
    with pa.OSFile(str(path), "wb") as file:
        writer = None
        for first in range(0, rows, STEP_ROWS):
            numbers = np.arange(first, min(first + STEP_ROWS, rows), dtype=np.int64)
            arrays = [
                *made.keys_of(made.chosen(numbers, keys)),
                pa.array(numbers & 1023),
                pa.array(numbers % of_a_source),
            ]
            batch = pa.RecordBatch.from_arrays(arrays, names=[*made.columns, "v", "ts"])
            if writer is None:
                writer = pa.ipc.new_file(file, batch.schema)
            writer.write_batch(batch)
        assert writer is not None
        writer.close()


def mapped(path: str | Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


@dataclass
class Mapped:
    """``generate(first, count)`` of a `DataGeneratorSource`: slices of the mapped file."""

    path: str

    def __post_init__(self) -> None:
        self._batches: list[pa.RecordBatch] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {"path": self.path, "_batches": None}

    def __call__(self, first: int, count: int) -> pa.RecordBatch:
        if self._batches is None:
            self._batches = mapped(self.path).to_batches()
        found = self._batches[first // STEP_ROWS].slice(first % STEP_ROWS, count)
        if found.num_rows < count:
            rest = self(first + found.num_rows, count - found.num_rows)
            return pa.concat_batches([found, rest])
        return found


def directory() -> Path:
    """Where the files lie while a benchmark runs."""
    return Path(tempfile.mkdtemp(prefix="tidegate-wide-"))
