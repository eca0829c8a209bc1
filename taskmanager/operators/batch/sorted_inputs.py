"""Operators in BATCH execution mode: their input is sorted before they see it (Flink: ``SortingDataInput.java``,
``MultiInputSortingDataInput.java``, ``BatchExecutionInternalTimeService.java``).

    KEYED   all input ─▶ external sort by key, then time ─▶ one key after the other: its records, then its timers, then nothing is left
    HELD    all input ─▶ kept in its order until the other input has ended      (records beside a broadcast stream)
    DIRECT  handed on at once                                                   (the broadcast stream)

Laws: event time is at its minimum while the records of a key are processed, so that none is late, and at its maximum when its timers fire; timers that are
registered while they fire are ignored. Only the state of one key is in memory. The watermark is emitted at the end of all input. Sorted records are processed
in steps of some milliseconds while the outputs have room. There are no snapshots.
"""

from __future__ import annotations

import heapq
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from itertools import chain

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.model.channel_events import END_OF_TIME, UserEvent
from tidegate.model.errors import InvalidJob
from tidegate.model.options.job import ExecutionOptions
from tidegate.model.units import parse_size_bytes
from tidegate.model.values import Record
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.records.record_codec import decode
from tidegate.taskmanager.keyed_state.rocksdb.keys import decode_key, encode_key
from tidegate.taskmanager.operators.batch.sorting import ExternalSorter, Row
from tidegate.taskmanager.operators.operator import Ending, Operator, OperatorContext
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator
from tidegate.taskmanager.operators.user_code.boundary import EMIT_RECORDS
from tidegate.taskmanager.state.ports import FrozenState

STEP_MS = 5.0
"""The length of a step in milliseconds, as everywhere (docs/internals/performance.md): a barrier or a cancellation waits that long at most."""
STEP_ROWS = 512
"""Rows between two reads of the clock: they take far less than ``STEP_MS`` for most functions."""

_GROUP = struct.Struct(">H")
"""The key group, which follows the bytes of a key; these show where they end."""
_NO_PLACE = (
    "operator '{}' sorts its input in BATCH execution mode, where an event has no place among the records: run the job in STREAMING mode, "
    "or put what the event says into records"
)


class InputMode(Enum):
    """How an input of a sorting operator is read: KEYED, sorted by key; HELD, kept in its order until the other input has ended; DIRECT, processed at once."""

    KEYED = "KEYED"
    HELD = "HELD"
    DIRECT = "DIRECT"


class SortedInputs(Operator):
    """Sorts the inputs of an operator before it processes them. ``modes``: for each of its inputs."""

    works_on = "arrow"

    def __init__(
        self, name: str, inner: Operator, modes: Sequence[InputMode], types: Sequence[TypeInformation]
    ) -> None:
        self._name = name
        self._inner = inner
        self._modes = modes
        self._types = types
        self._rows: Iterator[Row] | None = None
        self._done = False
        self._key: bytes | None = None
        self._group: list[Record] = []
        self._stamps: list[int | None] = []
        self._side = 0

    def works_on_records(self) -> bool:
        """Returns ``True``, since keys are computed from single records."""
        return True

    def setup(self, context: OperatorContext) -> None:
        super().setup(context)
        self._output = GatheringOutput(context)
        configuration = {**context.configuration, "state.backend.type": "hashmap"}
        self._inner.setup(replace(context, output=self._output, timers=NoTimers(), configuration=configuration))
        option = ExecutionOptions.SORTED_INPUTS_MEMORY
        text = context.configuration.get(option.key)
        limit = option.default if text is None else parse_size_bytes(text)
        sorted_inputs = [side for side, mode in enumerate(self._modes) if mode is not InputMode.DIRECT]
        self._sorters = {
            side: ExternalSorter(context.resources.temp_dir, limit // len(sorted_inputs), self._decoder(side), side)
            for side in sorted_inputs
        }

    def open(self) -> None:
        self._inner.open()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, ArrowBatch)
        values = decode(self._types[input_index], batch.data, self._name)
        stamps = None if batch.timestamps is None else batch.timestamps.to_pylist()
        records = RecordsBatch(values, stamps)
        match self._modes[input_index]:
            case InputMode.DIRECT:
                self._inner.process(records, input_index)
            case InputMode.HELD:
                self._sorters[input_index].add(batch.data, [b""] * len(batch), None)
            case InputMode.KEYED:
                assert isinstance(self._inner, KeyedOperator)
                keys = [
                    encode_key(key) + _GROUP.pack(group)
                    for key, group in zip(*self._inner.keys_of(records, input_index), strict=True)
                ]
                self._sorters[input_index].add(batch.data, keys, batch.timestamps)

    def on_watermark(self, timestamp_ms: int) -> None:
        """Ignores watermarks: event time has no meaning before the end."""

    def on_idle(self, idle: bool) -> None:
        """Ignores idleness, as it ignores watermarks."""

    def on_user_event(self, event: UserEvent, input_index: int) -> None:
        raise InvalidJob(_NO_PLACE.format(self._name))

    def ending(self) -> Ending:
        return Ending.DONE if self._done else Ending.IN_FLIGHT

    def emit_some(self) -> bool:
        clock = self.context.clock
        until_ms = clock.monotonic_ms() + STEP_MS
        if self._rows is None:
            runs = [run for sorter in self._sorters.values() for run in sorter.sorted_runs()]
            self._rows = heapq.merge(*runs) if len(runs) > 1 else chain(*runs)
        while not self._done and clock.monotonic_ms() < until_ms:
            self._take_some(self._rows)
        return True

    def finish(self) -> None:
        self._inner.finish()
        self._output.flush()
        self.context.output.emit_watermark(END_OF_TIME)

    def freeze(self, checkpoint_id: int) -> FrozenState | None:
        raise InvalidJob(
            f"operator '{self._name}' sorts its input in BATCH execution mode, which has no checkpoints or savepoints: run the "
            "job in STREAMING mode for them"
        )

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            for sorter in self._sorters.values():
                sorter.close()

    def _take_some(self, rows: Iterator[Row]) -> None:
        for _ in range(STEP_ROWS):
            row = next(rows, None)
            if row is None:
                self._end_of_key()
                self._done = True
                return
            key, _, side, _, _, value, stamp = row
            if key != self._key:
                self._end_of_key()
                self._key = key
                if isinstance(self._inner, KeyedOperator):
                    found, end = decode_key(key)
                    self._inner.begin_key(found, *_GROUP.unpack_from(key, end))
            if side != self._side or len(self._group) >= STEP_ROWS:
                self._hand_on()
                self._side = side
            self._group.append(value)
            self._stamps.append(stamp)

    def _hand_on(self) -> None:
        if self._group:
            group, stamps, self._group, self._stamps = self._group, self._stamps, [], []
            has_stamps = any(stamp is not None for stamp in stamps)
            self._inner.process(RecordsBatch(group, stamps if has_stamps else None), self._side)

    def _end_of_key(self) -> None:
        self._hand_on()
        if self._key is not None and isinstance(self._inner, KeyedOperator):
            self._inner.end_of_key()

    def _decoder(self, side: int) -> Callable[[pa.RecordBatch], list[Record]]:
        return lambda data: decode(self._types[side], data, self._name)


class GatheringOutput:
    """Gathers the few records that each key emits into batches. Watermarks are not passed on."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context
        self._held: dict[str, tuple[list[Record], list[int | None]]] = {}

    def emit(self, batch: Batch) -> None:
        self._add("", batch)

    def emit_side(self, tag: str, batch: Batch) -> None:
        self._add(tag, batch)

    def emit_watermark(self, timestamp_ms: int) -> None: ...

    def emit_idle(self, idle: bool) -> None: ...

    def emit_event(self, event: UserEvent) -> None:
        raise InvalidJob(_NO_PLACE.format(self._context.operator_name))

    def flush(self) -> None:
        for tag in list(self._held):
            self._flush(tag)

    def _add(self, tag: str, batch: Batch) -> None:
        assert isinstance(batch, RecordsBatch)
        values, stamps = self._held.setdefault(tag, ([], []))
        values += batch.values
        stamps += batch.timestamps or [None] * len(batch)
        if len(values) >= EMIT_RECORDS:
            self._flush(tag)

    def _flush(self, tag: str) -> None:
        values, stamps = self._held.pop(tag)
        batch = RecordsBatch(values, stamps if any(stamp is not None for stamp in stamps) else None)
        if tag:
            self._context.output.emit_side(tag, batch)
        else:
            self._context.output.emit(batch)


class NoTimers:
    """Schedules no timers: all timers fire at the end of their key."""

    def schedule(self, at_ms: int, callback: Callable[[int], None]) -> object:
        return None

    def cancel(self, token: object) -> None: ...
