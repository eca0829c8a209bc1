"""Runs: rows sorted by the number of their window, which is column 0, in memory or on disk; and how they are divided by window and by key group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Merge = Callable[[Sequence[pa.RecordBatch]], pa.RecordBatch]
"""Merges batches to one with each (window, key) once, sorted by window."""
GroupsOf = Callable[[pa.RecordBatch], npt.NDArray[np.int32]]
"""Returns the key group of each row."""


class LazyRun(Protocol):
    """A run whose rows are read or made when they are used."""

    @property
    def num_rows(self) -> int:
        """Returns how many rows it has."""

    @property
    def nbytes(self) -> int:
        """Returns the bytes of its columns."""

    @property
    def first(self) -> int:
        """Returns the number of its first window."""

    def read(self) -> pa.RecordBatch:
        """Returns its rows. Thread-safe. Raises ``StorageError``."""


class SpilledRun(LazyRun, Protocol):
    """A run on disk. Its file is removed with the last reference to it."""

    def split(self, last: int) -> tuple[SpilledRun | None, SpilledRun | None]:
        """Splits the run as ``split_run`` does; only the window column is read. Raises ``StorageError``."""


Run: TypeAlias = pa.RecordBatch | LazyRun


class PendingRuns(ABC):
    """Runs that were not read yet, so that their windows are unknown."""

    num_rows: int
    """How many rows there are at most."""
    nbytes: int
    first: int | None
    """The number of the first window with rows, or a lower one; ``None``: unknown."""

    @abstractmethod
    def runs(self) -> list[SpilledRun]:
        """Returns the runs, reading them if necessary. Thread-safe. Raises ``CorruptData``, ``StorageError``, ``SchemaMismatch``."""


class UnreadRuns(PendingRuns):
    """Pending runs of which a few windows can be taken before the others are read. For the subtask's thread."""

    @abstractmethod
    def may_split(self, last: int) -> bool:
        """Returns whether windows up to number ``last`` can be taken now. Raises what ``runs`` raises."""

    @abstractmethod
    def split(self, last: int) -> tuple[PendingRuns, UnreadRuns]:
        """Splits off the windows up to ``last``, to be read in this thread; returns both parts. Reads nothing yet."""


FrozenRun: TypeAlias = Run | PendingRuns


def settled_runs(runs: Sequence[FrozenRun]) -> list[Run]:
    """Replaces pending runs by those they are read to. Raises what ``PendingRuns.runs`` raises."""
    found: list[Run] = []
    for run in runs:
        found += run.runs() if isinstance(run, PendingRuns) else [run]
    return found


def rows_of_runs(runs: Sequence[Run]) -> list[pa.RecordBatch]:
    """Returns the rows of all runs in memory."""
    return [run if isinstance(run, pa.RecordBatch) else run.read() for run in runs]


def windows_of(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Returns the number of each row's window, a view of column 0."""
    found: npt.NDArray[np.int64] = rows.column(0).to_numpy()
    return found


def gathered(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Concatenates batches to one, sorted by window."""
    rows = pa.concat_batches(batches) if len(batches) > 1 else batches[0]
    order = order_of_windows(windows_of(rows))
    return rows if order is None else rows.take(pa.array(order))


def order_of_windows(windows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp] | None:
    """Returns the order that sorts rows by window, stably; ``None``: they are sorted."""
    if bool((windows[1:] >= windows[:-1]).all()):
        return None
    low, high = int(windows.min()), int(windows.max())
    if high - low < 1 << 16:
        return np.argsort((windows - low).astype(np.uint16), kind="stable")  # a radix sort
    return order_of_pairs(np.zeros(1, np.intp), windows)


def order_of_pairs(first: npt.NDArray[np.intp], second: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """Returns the order that sorts stably by ``first``, which is not negative (and may be one number for all), then by ``second``."""
    if not len(second):
        return np.zeros(0, np.intp)
    low = int(second.min())
    width, bits = int(second.max()) - low + 1, len(second).bit_length()
    if (
        (int(first.max()) + 1) * width
    ) << bits < 1 << 63:  # one sort of plain numbers, which takes a tenth of the time of ``lexsort``
        packed: npt.NDArray[np.int64] = ((first * width + (second - low)) << bits) | np.arange(len(second))
        packed.sort()
        return packed & ((1 << bits) - 1)
    return np.lexsort((second, np.broadcast_to(first, second.shape)))


def split_run(run: pa.RecordBatch, last: int) -> tuple[pa.RecordBatch | None, pa.RecordBatch | None]:
    """Splits a sorted run into windows up to ``last`` and those after it; ``None`` where there are none."""
    at = int(np.searchsorted(windows_of(run), last, side="right"))
    if at == 0 or at == run.num_rows:
        return (None, run) if at == 0 else (run, None)
    rest = run.slice(at)
    if 2 * rest.nbytes < rest.get_total_buffer_size():  # do not keep the whole for the sake of its end
        rest = rest.take(pa.array(np.arange(rest.num_rows)))
    return run.slice(0, at), rest


def cut(
    rows: pa.RecordBatch, firsts: Sequence[int], groups_of: GroupsOf, *, apart: bool = False
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows of each bucket that has any, in their order. ``firsts``: the first key group of each bucket. ``apart``: each gets memory of its
    own, which is freed with that bucket."""
    if len(firsts) == 1:
        yield 0, rows
        return
    owners = np.searchsorted(np.asarray(firsts), groups_of(rows), side="right") - 1
    order = np.argsort(owners.astype(np.uint16), kind="stable")  # a radix sort
    bounds = np.searchsorted(owners[order], np.arange(len(firsts) + 1))
    sorted_rows = None if apart else rows.take(pa.array(order))
    for index in range(len(firsts)):
        start, stop = int(bounds[index]), int(bounds[index + 1])
        if stop > start and sorted_rows is not None:
            yield index, sorted_rows.slice(start, stop - start)
        elif stop > start:
            yield index, rows.take(pa.array(order[start:stop]))
