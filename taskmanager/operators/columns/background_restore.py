"""Loads key groups of restored state in the background: rows of loaded groups are processed at once, the other rows of a batch wait for their group.

    rows ─▶ of loaded groups ─▶ work
         └▶ the others wait by key group; no further input is taken       a group is read in another thread ─▶ a mail ─▶ a step of it is put in place
                                                                                groups that are whole now: their rows ─▶ work

The rows of a group, and so those of a key, keep their order. ``drain`` is called before anything that must follow all rows of a batch (a barrier, a watermark).
While a step is put in place, the next groups are read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.taskmanager.keyed_state.columns.restored_groups import UnloadedGroups
from tidegate.taskmanager.operators.operator import OperatorContext


class BackgroundRestore:
    """Loads restored state while rows are processed. ``keys``: the key columns of the rows. ``work``: processes rows of loaded groups. Used from the subtask's
    thread.
    """

    def __init__(
        self,
        part: UnloadedGroups,
        first_group: int,
        keys: Sequence[str],
        work: Callable[[pa.RecordBatch], None],
        context: OperatorContext,
    ) -> None:
        self._part = part
        self._first_group = first_group
        self._keys = keys
        self._work = work
        self._context = context
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._is_closed = False

    @property
    def is_done(self) -> bool:
        return self._part.is_done

    @property
    def has_waiting(self) -> bool:
        """Whether some rows wait for their key group."""
        return bool(self._waiting)

    def start(self) -> None:
        """Begins to load in the background. Without another thread, state is loaded when it is needed."""
        group = self._part.next_group
        if self._context.background.run_async is not None and group is not None:
            self._context.background.run_async(partial(self._part.need, group), self._arrived)

    def take(self, data: pa.RecordBatch) -> None:
        """Processes rows whose key groups are loaded, and keeps the others until theirs are."""
        columns = [data.column(name) for name in self._keys]
        decoded = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
        groups = key_groups(hash_columns(decoded), self._context.max_parallelism).astype(np.intp) - self._first_group
        waits = self._part.is_left[groups]
        if not waits.any():
            self._work(data)
            return
        there = np.flatnonzero(~waits)
        if len(there):
            self._work(data.take(pa.array(there)))
        rows = np.flatnonzero(waits)
        order = rows[np.argsort(groups[rows], kind="stable")]
        held, ordered = data.take(pa.array(order)), groups[order]
        firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
        for group, first, count in zip(
            ordered[firsts].tolist(), firsts.tolist(), np.diff(firsts, append=len(ordered)).tolist(), strict=True
        ):
            self._waiting.setdefault(group, []).append(held.slice(first, count))
            self._part.waits(group, count)
        if self._context.background.run_async is None:
            self.drain()

    def drain(self) -> None:
        """Loads the key groups that rows wait for, and processes these rows."""
        while self._waiting:
            self.load_some()

    def load_all(self) -> None:
        """Loads all restored state, for what needs all of it."""
        while not self._part.is_done:
            self.load_some()

    def load_some(self) -> None:
        """Does one step of loading, and processes the rows whose key groups are loaded now."""
        self._part.load_some()
        is_left = self._part.is_left
        for group in [group for group in self._waiting if not is_left[group]]:
            self._work(pa.concat_batches(self._waiting.pop(group)))
        self._context.metrics.gauge("restoredRowsToLoad", self._part.rows_left)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()

    def _arrived(self, error: BaseException | None) -> None:
        """Continues with a key group that was read in the background."""
        if self._is_closed:
            return
        if error is not None:
            raise error
        self.load_some()
        self.start()
