"""The metrics of a subtask: records, bytes, shares of time, the watermark, and those that operators add by name.

Counting has no cost per record: whole batches are counted. Names of an operator's own metrics are reported as ``<operator>.<name>``; ``numLateRecordsDropped``
(Flink's name) is summed up besides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.model.accumulators import SerializedAccumulator, UserAccumulator, check_known, merged, serialized
from tidegate.model.channel_events import NO_WATERMARK
from tidegate.model.errors import InvalidJob
from tidegate.taskmanager.runtime.ports import TaskMetrics

LATE_RECORDS_DROPPED = "numLateRecordsDropped"


@dataclass(slots=True)
class TaskCounters:
    """The metrics of one subtask as plain numbers, written by the loop and the outputs."""

    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    busy_ms: float = 0.0
    idle_ms: float = 0.0
    backpressured_ms: float = 0.0
    watermark_ms: int = NO_WATERMARK
    unflushed: bool = False
    """Whether something was emitted since the last flush."""
    user: dict[str, float] = field(default_factory=dict)
    watched: dict[str, Callable[[], float]] = field(default_factory=dict)
    """Gauges of operators by name, read when metrics are reported."""
    gauges: dict[str, Callable[[], float]] = field(default_factory=dict)
    """Gauges of the runtime by Flink's name, read when metrics are reported."""
    operator_ids: dict[str, str] = field(default_factory=dict)
    """The ids of the operators, by operator name."""
    longest_backpressure_ms: float = 0.0
    """The longest time without space in the outputs since the last report."""
    late_records_dropped: int = 0
    accumulators: dict[str, list[UserAccumulator]] = field(default_factory=dict)
    """Accumulators by name; several operators of the chain may have the same name."""

    def backpressured(self, waited_ms: float) -> None:
        """Adds a time in which no output had space, without a mail in between."""
        self.backpressured_ms += waited_ms
        self.longest_backpressure_ms = max(self.longest_backpressure_ms, waited_ms)

    def accumulate(self, name: str, accumulator: UserAccumulator) -> None:
        """Adds a user accumulator. Raises ``InvalidJob`` for a type that cannot be merged, or that differs from the type of the same name."""
        check_known(name, accumulator)
        same = self.accumulators.setdefault(name, [])
        if same and type(same[0]) is not type(accumulator):
            raise InvalidJob(
                f"accumulator '{name}' is a {type(same[0]).__name__} in one operator and a {type(accumulator).__name__} in "
                "another: give them different names"
            )
        same.append(accumulator)

    def report(self) -> TaskMetrics:
        return TaskMetrics(
            records_in=self.records_in,
            records_out=self.records_out,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            busy_ms=int(self.busy_ms),
            idle_ms=int(self.idle_ms),
            backpressured_ms=int(self.backpressured_ms),
            watermark_ms=None if self.watermark_ms == NO_WATERMARK else self.watermark_ms,
            late_records_dropped=self.late_records_dropped,
            user={**self.user, **_read(self.watched)},
            figures=self._metrics(),
            operator_ids=dict(self.operator_ids),
            accumulators=self._accumulated(),
        )

    def _accumulated(self) -> dict[str, SerializedAccumulator]:
        if not self.accumulators:
            return {}
        single = serialized({name: same[0] for name, same in self.accumulators.items() if len(same) == 1})
        others = {name: same for name, same in self.accumulators.items() if len(same) > 1}
        parts = (serialized({name: one}) for name, same in others.items() for one in same)
        return {**single, **serialized(merged(parts))} if others else single

    def _metrics(self) -> dict[str, float]:
        longest_ms, self.longest_backpressure_ms = self.longest_backpressure_ms, 0.0
        return {"maxSoftBackPressureTimeMs": longest_ms, **_read(self.gauges)}


def _read(functions: Mapping[str, Callable[[], float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, read in functions.items():
        try:
            found[name] = float(read())
        except Exception:  # noqa: BLE001  a gauge of the user: one that cannot be read is left out, as in Flink
            continue
    return found


class OperatorMetrics:
    """Implements ``tidegate.taskmanager.operators.operator.Metrics`` for one operator."""

    def __init__(self, counters: TaskCounters, operator_name: str) -> None:
        self._counters = counters
        self._prefix = f"{operator_name}."

    def add(self, name: str, amount: int = 1) -> None:
        if name == LATE_RECORDS_DROPPED:
            self._counters.late_records_dropped += amount
        key = self._prefix + name
        self._counters.user[key] = self._counters.user.get(key, 0) + amount

    def gauge(self, name: str, value: float) -> None:
        self._counters.user[self._prefix + name] = value

    def watch(self, name: str, read: Callable[[], float]) -> None:
        self._counters.watched[self._prefix + name] = read

    def accumulate(self, name: str, accumulator: UserAccumulator) -> None:
        self._counters.accumulate(name, accumulator)
