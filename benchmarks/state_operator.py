"""One subtask of a running aggregate over columns, without a cluster: fed by hand, snapshotted into real files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.model.accumulators import Accumulator
from tidegate.model.checkpoint import CheckpointOptions, OperatorSnapshot, RestoredOperator
from tidegate.model.ids import AttemptId, JobId, OperatorId, VertexId
from tidegate.records.batch import ArrowBatch, Batch
from tidegate.store.segments import open_segment_source, open_segment_store
from tidegate.taskmanager.operators.columns.aggregate import ColumnarAggregate
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.runtime.clock import SystemClock
from tidegate.taskmanager.state.ports import FrozenState, OperatorRestore

FILL_ROWS = 1 << 16
INLINE_BYTES = 20 << 10
ATTEMPT = AttemptId(JobId("0" * 32), VertexId("1" * 32), 0, 0)


class OneSubtask:
    """``columns`` sums by the column ``key``."""

    def __init__(self, columns: int, snapshot: OperatorSnapshot | None = None, location: str = "") -> None:
        self.written_bytes = 0
        self.written_at = 0.0
        self._columns = columns
        names = [f"v{i}" for i in range(columns)]
        schema = rows_of(np.zeros(0, np.int64), columns).schema
        self._operator = ColumnarAggregate("totals", ["key"], [(name, "sum", name) for name in names], schema)
        nowhere: Any = _Nowhere()
        self._operator.setup(
            OperatorContext(
                attempt=ATTEMPT,
                operator_id=OperatorId("2" * 32),
                operator_name="totals",
                job_name="bench",
                task_name="totals",
                parallelism=1,
                max_parallelism=128,
                output=nowhere,
                clock=SystemClock(),
                timers=nowhere,
                metrics=nowhere,
                restore=None
                if snapshot is None
                else OperatorRestore(
                    1, location, RestoredOperator(keyed=snapshot.keyed), open_segment_source(location)
                ),
            )
        )

    @property
    def keys(self) -> int:
        return len(self._operator.state.rows)

    def fill(self, keys: int) -> None:
        order = np.random.default_rng(0).permutation(keys)
        for at in range(0, keys, FILL_ROWS):
            self.process(rows_of(order[at : at + FILL_ROWS], self._columns))

    def process(self, rows: pa.RecordBatch) -> None:
        self._operator.process(ArrowBatch(rows), 0)

    def freeze(self, checkpoint_id: int, options: CheckpointOptions) -> FrozenState:
        self._operator.context.checkpoint_options = options
        frozen = self._operator.freeze(checkpoint_id)
        assert frozen is not None
        return frozen

    def write_in_background(self, frozen: FrozenState, options: CheckpointOptions) -> threading.Event:
        """As the runtime does. Set when all is durable."""
        ended = threading.Event()

        def write() -> None:
            try:
                self._write(frozen, options)
            finally:
                self.written_at = time.perf_counter()
                ended.set()

        threading.Thread(target=write, name="snapshot").start()
        return ended

    def snapshot(self, checkpoint_id: int, options: CheckpointOptions) -> tuple[int, OperatorSnapshot]:
        """Bytes written, and what was acknowledged."""
        frozen = self.freeze(checkpoint_id, options)
        snapshot = self._write(frozen, options)
        frozen.release()
        return self.written_bytes, snapshot

    def release(self, frozen: FrozenState) -> None:
        frozen.release()

    def confirm(self, checkpoint_id: int) -> None:
        self._operator.notify_checkpoint_complete(checkpoint_id)

    def _write(self, frozen: FrozenState, options: CheckpointOptions) -> OperatorSnapshot:
        store = open_segment_store(
            options.location, str(ATTEMPT), 0, INLINE_BYTES, shared_location=options.shared_location
        )
        snapshot = frozen.write(store)
        self.written_bytes = store.written_bytes
        return snapshot


class _Nowhere:
    """Takes what an operator gives."""

    def emit(self, batch: Batch) -> None:
        pass

    def gauge(self, name: str, value: float) -> None:
        pass

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Not looked at."""

    def accumulate(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Not looked at."""


def rows_of(keys: npt.NDArray[np.int64], columns: int) -> pa.RecordBatch:
    values = [pa.array(np.full(len(keys), i + 0.5)) for i in range(columns)]
    return pa.RecordBatch.from_arrays([pa.array(keys), *values], names=["key", *(f"v{i}" for i in range(columns))])
