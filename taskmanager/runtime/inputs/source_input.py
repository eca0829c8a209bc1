"""The input of a source subtask: polls the reader in slices, and takes checkpoint triggers between two of them.

Laws: the position in a snapshot is that after the last emitted record. At the end of all splits the maximum watermark is emitted, once; when a job is stopped,
only if it is drained. A finished source still takes part in checkpoints, by the same triggers. A source that waits for the first checkpoint emits nothing
before a checkpoint of this attempt is complete. A source with a backlog pauses after its barrier (``machines.source_pause``) until the confirmation, an abort
or any other mail arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.model.channel_events import END_OF_TIME, Barrier
from tidegate.taskmanager.machines.source_pause import SourcePause
from tidegate.taskmanager.runtime.chain import OperatorChain, SourceHead
from tidegate.taskmanager.runtime.checkpointing.async_part import AlignmentMetrics
from tidegate.taskmanager.runtime.checkpointing.snapshots import SnapshotDriver
from tidegate.taskmanager.runtime.services import SubtaskServices
from tidegate.taskmanager.runtime.slicing import SliceSizer

FIRST_RETRY_MS = 1.0
MAX_RETRY_MS = 16.0
"""The longest time in milliseconds until a reader that had no data is polled again; the time doubles from ``FIRST_RETRY_MS``, since a reader without a
thread of its own cannot wake the mailbox.
"""


@dataclass(frozen=True, slots=True)
class SourcePace:
    """When a source pauses. ``waits_for_checkpoint``: it emits nothing before the first checkpoint is complete. ``rest_share``: the largest share of its time
    for which it pauses after barriers.
    """

    waits_for_checkpoint: bool = False
    rest_share: float = 0.0


class SourceInput:
    """The input of a subtask that polls a source reader."""

    def __init__(
        self,
        services: SubtaskServices,
        *,
        source: SourceHead,
        chain: OperatorChain,
        snapshots: SnapshotDriver,
        sizer: SliceSizer,
        emitted: Callable[[], int],
        pace: SourcePace,
    ) -> None:
        """Connects the source at the head of a chain. ``emitted``: returns the number of records that the source has emitted."""
        self._source = source
        self._chain = chain
        self._snapshots = snapshots
        self._counters = services.counters
        self._clock = services.clock
        self._emitted = emitted
        self._sizer = sizer
        self._waits = pace.waits_for_checkpoint
        self._rest = SourcePause(pace.rest_share, self._clock.monotonic_ms())
        self._ended = False
        self._drained = True
        self._retry_ms = FIRST_RETRY_MS

    @property
    def data_ended(self) -> bool:
        return self._ended

    @property
    def closed(self) -> bool:
        return True

    @property
    def drained(self) -> bool:
        return self._drained

    @property
    def retry_ms(self) -> float | None:
        return None if self._ended else self._retry_ms

    def step(self) -> bool:
        if self._ended:
            return False
        if self._waits:
            self._waits = not self._snapshots.has_confirmed
            self._retry_ms = MAX_RETRY_MS if self._waits else FIRST_RETRY_MS
            if self._waits:
                return False  # the confirmation is a mail, which wakes the loop
        began_ms, before = self._clock.monotonic_ms(), self._emitted()
        if self._is_resting(began_ms):
            return False
        if self._source.poll_next(self._sizer.size()):
            records = self._emitted() - before
            self._counters.records_in += (
                records  # so that a source tells how many it read, whatever its chain makes of them
            )
            self._sizer.observe(records, self._clock.monotonic_ms() - began_ms)
            self._retry_ms = FIRST_RETRY_MS
            return True
        if self._source.is_finished():
            self.end_data(drain=True)
            return True
        self._rest.on_waited()
        self._retry_ms = min(2 * self._retry_ms, MAX_RETRY_MS)
        return False

    def _is_resting(self, now_ms: float) -> bool:
        self._rest.on_settled(self._snapshots.last_confirmed)
        left_ms = self._rest.left_ms(now_ms)
        if left_ms > 0:
            self._retry_ms = left_ms
        return left_ms > 0

    def step_priority(self) -> bool:
        return False

    def end_data(self, *, drain: bool) -> None:
        """Ends the data: nothing is emitted from now on. Records that were polled and not emitted are read again after a restore."""
        self._ended, self._drained = True, drain
        if drain:
            self._counters.watermark_ms = END_OF_TIME
            self._chain.advance_watermark(END_OF_TIME)

    def trigger(self, barrier: Barrier) -> None:
        delay_ms = max(0.0, self._clock.now_ms() - barrier.timestamp_ms)
        self._snapshots.request(barrier, AlignmentMetrics(start_delay_ms=delay_ms))
        self._rest.on_barrier(barrier.checkpoint_id, self._clock.monotonic_ms())

    def abort(self, checkpoint_id: int) -> None:
        self._rest.on_settled(checkpoint_id)
