"""The input of a source reader whose splits come from an enumerator: a channel with the enumerator's events, and the source itself.

Laws: the channel is read first, so that a split or a barrier never waits for the reader. The channel alone decides when the data ends: the enumerator ends it
when all readers are at their ends, or when the job is stopped.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.model.channel_events import Barrier
from tidegate.taskmanager.runtime.chain import SourceHead
from tidegate.taskmanager.runtime.inputs.channel_input import ChannelInput
from tidegate.taskmanager.runtime.inputs.source_input import FIRST_RETRY_MS, MAX_RETRY_MS
from tidegate.taskmanager.runtime.services import SubtaskServices
from tidegate.taskmanager.runtime.slicing import SliceSizer


class EnumeratedInput:
    """The input of a source reader that gets its splits from an enumerator."""

    def __init__(
        self,
        services: SubtaskServices,
        *,
        channels: ChannelInput,
        source: SourceHead,
        sizer: SliceSizer,
        emitted: Callable[[], int],
    ) -> None:
        """Connects the source's reader to the channels from its enumerator. ``emitted``: returns the number of records that the source has emitted."""
        self._channels = channels
        self._source = source
        self._sizer = sizer
        self._emitted = emitted
        self._counters = services.counters
        self._clock = services.clock
        self._retry_ms = FIRST_RETRY_MS

    @property
    def data_ended(self) -> bool:
        return self._channels.data_ended

    @property
    def closed(self) -> bool:
        return self._channels.closed

    @property
    def drained(self) -> bool:
        return self._channels.drained

    @property
    def retry_ms(self) -> float | None:
        return None if self.data_ended else self._retry_ms

    def step(self) -> bool:
        if self._channels.step():
            self._retry_ms = FIRST_RETRY_MS
            return True
        return not self.data_ended and self._read()

    def step_priority(self) -> bool:
        return self._channels.step_priority()

    def end_data(self, *, drain: bool) -> None:
        self._channels.end_data(drain=drain)

    def trigger(self, barrier: Barrier) -> None:
        self._channels.trigger(barrier)

    def abort(self, checkpoint_id: int) -> None:
        self._channels.abort(checkpoint_id)

    def _read(self) -> bool:
        began_ms, before = self._clock.monotonic_ms(), self._emitted()
        if not self._source.poll_next(self._sizer.size()):
            self._retry_ms = min(2 * self._retry_ms, MAX_RETRY_MS)
            return False
        records = self._emitted() - before
        self._counters.records_in += records
        self._sizer.observe(records, self._clock.monotonic_ms() - began_ms)
        self._retry_ms = FIRST_RETRY_MS
        return True
