"""The buffering sink of ``upsert-kafka``, which writes only the last change of each key (Flink: ``ReducingUpsertSink``)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import SinkContext, SinkWriter
from tidegate.connectors.kafka.sink import KafkaSink
from tidegate.model.values import Committable, StateValue
from tidegate.records.batch import ArrowBatch, Batch


@dataclass(frozen=True, kw_only=True)
class BufferedUpsertSink(KafkaSink):
    """Buffers up to ``most_rows`` rows, for at most ``interval_ms`` and never past a checkpoint, and writes the last row of each key."""

    key_places: tuple[int, ...]
    most_rows: int
    interval_ms: int

    def make_writer(self, context: SinkContext, state: Sequence[StateValue], input_type: TypeInformation) -> SinkWriter:
        writer = super().make_writer(context, state, input_type)
        return BufferedUpsertWriter(writer, self.key_places, self.most_rows, self.interval_ms)


class BufferedUpsertWriter(SinkWriter):
    """Buffers rows and passes the last of each key to another writer. A background thread flushes after the interval; one lock guards all calls."""

    works_on = "arrow"

    def __init__(self, writer: SinkWriter, key_places: Sequence[int], most_rows: int, interval_ms: int) -> None:
        self._writer = writer
        self._key_places = list(key_places)
        self._most_rows = most_rows
        self._interval_s = interval_ms / 1000
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._failure: BaseException | None = None

    def write(self, batch: Batch) -> None:
        """Buffers a batch. Raises also the error of an earlier flush in the background."""
        assert isinstance(batch, ArrowBatch)
        with self._lock:
            self._check()
            if self._gathered and batch.data.schema != self._gathered[0].schema:
                self._write_on()
            self._gathered.append(batch.data)
            self._rows += batch.data.num_rows
            if self._rows >= self._most_rows:
                self._write_on()
            elif self._timer is None:
                self._timer = threading.Timer(self._interval_s, self._due)
                self._timer.daemon = True
                self._timer.start()

    def flush(self, end_of_input: bool) -> None:
        with self._lock:
            self._check()
            self._write_on()
            self._writer.flush(end_of_input)

    def prepare_commit(self, checkpoint_id: int) -> list[Committable]:
        with self._lock:
            return self._writer.prepare_commit(checkpoint_id)

    def seal(self, checkpoint_id: int) -> list[Committable] | Callable[[], list[Committable]]:
        with self._lock:
            self._check()
            self._write_on()
            return self._writer.seal(checkpoint_id)

    def snapshot_state(self, checkpoint_id: int) -> list[StateValue]:
        with self._lock:
            return self._writer.snapshot_state(checkpoint_id)

    def has_room(self) -> bool:
        return self._writer.has_room()

    def waits_for_barrier(self) -> bool:
        return self._writer.waits_for_barrier()

    def is_drained(self) -> bool:
        return self._writer.is_drained()

    def holds_rows(self) -> bool:
        return self._writer.holds_rows()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        with self._lock:
            self._writer.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        with self._lock:
            self._writer.notify_checkpoint_aborted(checkpoint_id)

    def close(self) -> None:
        with self._lock:
            self._gathered.clear()
            if self._timer is not None:
                self._timer.cancel()
            self._writer.close()

    def _due(self) -> None:
        with self._lock:
            self._timer = None
            try:
                self._write_on()
            except BaseException as failure:  # noqa: BLE001  the subtask's thread raises it
                self._failure = failure

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _write_on(self) -> None:
        gathered, self._gathered, self._rows = self._gathered, [], 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if gathered:
            self._writer.write(ArrowBatch(last_of_keys(pa.concat_batches(gathered), self._key_places)))


def last_of_keys(rows: pa.RecordBatch, key_places: Sequence[int]) -> pa.RecordBatch:
    """Returns the last row of each key, in the order of the rows."""
    keys = pa.Table.from_arrays(
        [*(rows.column(place) for place in key_places), pa.array(np.arange(rows.num_rows))],
        names=[*map(str, range(len(key_places))), "row"],
    )
    last = keys.group_by(list(map(str, range(len(key_places))))).aggregate([("row", "max")]).column("row_max")
    return rows.take(pa.array(np.sort(last.to_numpy())))
