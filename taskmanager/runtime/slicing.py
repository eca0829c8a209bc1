"""Decides how many records are passed to a chain at once, so that a step of the mailbox stays short.

A chain of record functions costs between 0.1 microseconds and milliseconds for each record, which is not known beforehand. The estimate follows the measured
cost: a higher cost counts at once, a lower one slowly. The size of a slice at most doubles from one step to the next. A subtask begins with one record, since a
function may take seconds for each and a barrier would wait for the whole slice. A slice also has a fixed cost (some 0.3 ms: hashing, conversion), so the
processor time of the step counts (``step_meter``), not its duration on a busy machine. Chains that work on columns take whole batches, whose cost hardly
depends on their rows.

While a consumer of the chain's output is slow, slices of both kinds of chains are smaller: a step emits no more than may wait for the consumer
(``OutputLimit``), since a barrier follows everything that was emitted before.
"""

from __future__ import annotations

from typing import Protocol

from tidegate.taskmanager.exchange.exchange_settings import WorkMeter

STEP_MS = 5.0
"""The target for the longest step in milliseconds, which is how long a barrier waits (docs/internals/performance.md)."""
FIRST_RECORDS = 64
MAX_RECORDS = 4096
"""Most records of a slice. Chosen, not measured: more records in a slice make none of them cheaper."""
WHOLE = 1 << 30
"""The result of ``SliceSizer.size`` that means all records of a batch."""
GATHER_BYTES = 256 << 10
"""Batches for chains over columns are combined up to this size. A step with them stays short."""
RECORDS_GATHER_BYTES = 16 << 10
"""Batches for functions of single records are combined up to this size, some hundred records. Any frame costs some 0.3 ms, however few records it has. Chosen,
not measured.
"""

_SAFETY = 0.6
"""The share of ``STEP_MS`` at which slices aim, since records differ in cost. Chosen, not measured."""
_FALL = 0.25
"""Weight of cheaper records in the estimate of a record's cost; costlier ones replace the estimate at once. Chosen, not measured."""


class OutputLimit(Protocol):
    """Limits what a step emits, so that little data waits for a slow consumer."""

    def slice_bytes(self) -> int | None:
        """Returns the bytes that a step should emit at most; ``None``: every consumer is fast, so a step may emit any number."""

    def emitted_bytes(self) -> int:
        """Returns the number of bytes that were emitted since the subtask began."""


class SliceSizer:
    """Decides how many records the next step passes to a chain, from what the steps before it cost and emitted.

    ``columnar``: the chain works on columns, so only ``outputs`` limits a step. ``step_ms``: the longest step that is aimed at (``tidegate.mailbox.slice``).
    ``first_records``: the size of the first step. ``most_records``: an upper bound, whatever records cost. ``meter``: measures a step; ``None``: its whole
    duration counts. ``outputs``: the bytes that a step should emit at most.
    """

    def __init__(
        self,
        *,
        columnar: bool,
        step_ms: float = STEP_MS,
        first_records: int = FIRST_RECORDS,
        most_records: int | None = None,
        meter: WorkMeter | None = None,
        outputs: OutputLimit | None = None,
    ) -> None:
        self._columnar = columnar
        self._outputs = outputs
        self._emitted_bytes = 0
        self._bytes_each: float | None = None
        """Bytes emitted for each record of the last step that was observed; ``None``: none was."""
        self._meter = meter
        self._target_ms = _SAFETY * step_ms
        self._most = MAX_RECORDS if most_records is None else min(MAX_RECORDS, most_records)
        self._records = min(first_records, self._most)
        self._cost_ms = 0.0

    @property
    def gather_bytes(self) -> int:
        """The size in bytes up to which waiting batches are combined into one; 0: each batch is processed alone."""
        if self._columnar:
            return GATHER_BYTES
        return RECORDS_GATHER_BYTES if self._records > 1 else 0

    def size(self) -> int:
        """Begins a step; returns the largest number of records for it, at least 1. ``WHOLE`` stands for all records of a batch."""
        if self._meter is not None and not self._columnar:
            self._meter.start()
        most = WHOLE if self._columnar else self._records
        return most if self._outputs is None else min(most, self._fitting(self._outputs))

    def observe(self, records: int, elapsed_ms: float) -> None:
        """Adjusts the estimate by the number of records and the duration of the last step."""
        if self._outputs is not None and records > 0:
            self._bytes_each = (self._outputs.emitted_bytes() - self._emitted_bytes) / records
        if self._columnar or records <= 0:
            return
        if self._meter is not None:
            elapsed_ms = self._meter.spent_ms(records, elapsed_ms)
        if 2 * records < self._records and elapsed_ms <= self._target_ms:
            return  # the end of a batch: its cost is that of any slice, and tells nothing of a record's
        cost_ms = elapsed_ms / records
        self._cost_ms = cost_ms if cost_ms >= self._cost_ms else self._cost_ms + _FALL * (cost_ms - self._cost_ms)
        fitting = int(self._target_ms / self._cost_ms) if self._cost_ms > 0 else MAX_RECORDS
        self._records = max(1, min(fitting, 2 * self._records, self._most))

    def _fitting(self, outputs: OutputLimit) -> int:
        self._emitted_bytes = outputs.emitted_bytes()
        limit = outputs.slice_bytes()
        if limit is None:
            return WHOLE
        if self._bytes_each is None:
            return FIRST_RECORDS
        return WHOLE if self._bytes_each == 0 else max(1, int(limit / self._bytes_each))
