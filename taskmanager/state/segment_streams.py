"""Keyed segments written batch by batch, for state that does not fit into memory.

batches in the order of their key groups ─▶ Arrow IPC file, drained into the store after each batch ─▶ SegmentHandle
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from taskmanager.state.base import SegmentStore
from taskmanager.state.ipc_parts import IpcParts
from taskmanager.state.segments import KEY_GROUP, Groups, StateDescription, write_options
from tidegate.model.checkpoint import SegmentHandle
from tidegate.model.keygroups import KeyGroupRange
from tidegate.store.files import Part

Rows = tuple[Groups, pa.RecordBatch]
"""Key group of each row, ascending; and the other columns."""


class SegmentStream:
    """One segment: ``handle = SegmentStream(...).write(store, batches)``."""

    def __init__(self, about: StateDescription, key_groups: KeyGroupRange, level: int = 0) -> None:
        self._about = about
        self._key_groups = key_groups
        self._level = level
        self._counts: npt.NDArray[np.int64] = np.zeros(key_groups.size, np.int64)

    def write(self, store: SegmentStore, batches: Iterable[Rows], *, is_shared: bool = False) -> SegmentHandle:
        """All batches have one schema; there is at least one. Raises ``StorageError``."""
        hint = f"{self._about.operator}-{self._about.state_name}"
        handle = store.write(hint, self._parts(batches, write_options(store)), is_shared=is_shared)
        offsets = (0, *(int(end) for end in np.cumsum(self._counts)))
        return SegmentHandle(self._about.state_name, self._key_groups, offsets, handle, self._level)

    def _parts(self, batches: Iterable[Rows], options: pa.ipc.IpcWriteOptions) -> Iterator[Part]:
        sink = IpcParts()
        writer = None
        for groups, data in batches:
            if writer is None:
                schema = data.schema.insert(0, pa.field(KEY_GROUP, pa.int32(), nullable=False))
                schema = schema.with_metadata(self._about.to_metadata())
                writer = pa.ipc.new_file(sink, schema, options=options)
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array(groups), *data.columns], schema=schema))
            self._counts += np.bincount(groups - self._key_groups.start, minlength=self._key_groups.size)
            yield from sink.drain()
        assert writer is not None
        writer.close()
        yield from sink.drain()
