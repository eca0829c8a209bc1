"""The interval join of two keyed streams, ``interval_join`` (Flink: ``IntervalJoinOperator.java``).

    record of a side ─▶ its buffer (timestamp ─▶ records), with a timer for when nothing can join it
                     └▶ every record in the other buffer whose time lies in the interval ─▶ function ─▶ emitted at the larger time

A record with a time below the watermark is late: it goes to the side output, or is counted and dropped. The namespace of a timer tells whose buffer it cleans.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.functions.join_functions import JoinContext, ProcessJoinFunction
from tidegate.functions.state import MapState, MapStateDescriptor
from tidegate.functions.time_domain import TimeDomain
from tidegate.model.channel_events import NO_WATERMARK
from tidegate.model.errors import InvalidJob
from tidegate.model.program import KeySpec
from tidegate.model.values import Record
from tidegate.records.batch import Batch, RecordsBatch
from tidegate.taskmanager.keyed_state.handles import StateStore
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.rows.keyed import KeyedOperator
from tidegate.taskmanager.operators.user_code.boundary import user_error
from tidegate.taskmanager.operators.user_code.user_function import FunctionOperatorBase, UserFunction

LATE_RECORDS = "numLateRecordsDropped"
NAMESPACES = ("CLEANUP_LEFT", "CLEANUP_RIGHT")
BUFFERS = ("LEFT_BUFFER", "RIGHT_BUFFER")


class PairContext(JoinContext):
    """The context of a joined pair: one object for all pairs."""

    def __init__(self) -> None:
        self.left = self.right = 0

    def get_left_timestamp(self) -> int:
        return self.left

    def get_right_timestamp(self) -> int:
        return self.right

    def get_timestamp(self) -> int:
        return max(self.left, self.right)


class IntervalJoinOperator(FunctionOperatorBase, KeyedOperator):
    """Joins two keyed streams by an interval of event time (Flink: ``IntervalJoinOperator.java``)."""

    def __init__(
        self,
        name: str,
        keys: Sequence[KeySpec],
        func: ProcessJoinFunction,
        types: Sequence[TypeInformation],
        *,
        lower_ms: int,
        upper_ms: int,
        late_tags: Sequence[str | None],
    ) -> None:
        super().__init__(name, keys)
        self._func = func
        self._user = UserFunction(func, name)
        self._descriptors = buffer_descriptors(types)
        self._bounds = ((lower_ms, upper_ms), (-upper_ms, -lower_ms))
        """For each side, the bounds of the other side's time relative to its own."""
        self._late_tags = late_tags
        self._pair = PairContext()

    def open(self) -> None:
        store = StateStore(self._backend)
        self._buffers: list[MapState[int, Record]] = [store.get_map_state(d) for d in self._descriptors]
        self._own = self.context.copies_of(None).copy
        """Copies a record for the function, since it stays in a buffer and will be joined with others."""
        self._user.open(self.context, store)
        super().open()

    def process(self, batch: Batch, input_index: int) -> None:
        assert isinstance(batch, RecordsBatch)
        for value, stamp in self._keyed_records(batch, input_index):
            if stamp is None:
                raise InvalidJob(
                    f"operator '{self._name}': a record has no timestamp: put assign_timestamps_and_watermarks before the "
                    f"interval join (record: {value!r})"
                )
            self._take(input_index, value, stamp)
            if self._collector.is_full():
                self._collector.flush()
        self._collector.flush()

    def on_timer(self, timer: Timer, domain: TimeDomain) -> None:
        side = NAMESPACES.index(timer.namespace)
        self._buffers[side].remove(timer.timestamp - max(0, self._bounds[side][1]))

    def close(self) -> None:
        try:
            self._user.close()
        finally:
            super().close()

    def _take(self, side: int, value: Record, stamp: int) -> None:
        watermark, tag = self._timers.watermark, self._late_tags[side]
        if watermark != NO_WATERMARK and stamp < watermark:
            if tag is None:
                self.context.metrics.add(LATE_RECORDS)
            else:
                self._collector.add_to_side(tag, value, stamp)
            return
        mine, others = self._buffers[side], self._buffers[1 - side]
        mine.put(stamp, [*(mine.get(stamp) or ()), value])
        first, last = stamp + self._bounds[side][0], stamp + self._bounds[side][1]
        joining = sorted(at for at in others.keys() if first <= at <= last)  # noqa: SIM118  a state, no dict
        for at in joining:
            for other in others.get(at) or ():
                self._join(side, value, stamp, other, at)
        self._timers.namespace = NAMESPACES[side]
        self._timers.register_event_time_timer(stamp + max(0, self._bounds[side][1]))
        self._timers.namespace = None

    def _join(self, side: int, value: Record, stamp: int, other: Record, at: int) -> None:
        pair = self._pair
        left, right = (value, other) if side == 0 else (other, value)
        pair.left, pair.right = (stamp, at) if side == 0 else (at, stamp)
        try:
            made = self._func.process_element(self._own(left), self._own(right), pair)
            self._collector.add_all(made, pair.get_timestamp())
        except Exception as error:
            raise user_error(self._name, error, left, right) from error


def buffer_descriptors(types: Sequence[TypeInformation]) -> list[MapStateDescriptor]:
    """Returns the descriptors of the buffers: records of each side by their time."""
    return [MapStateDescriptor(name, Types.LONG(), Types.LIST(kind)) for name, kind in zip(BUFFERS, types, strict=True)]
