"""The watermark valve: combines the watermarks and idle statuses of all input channels into one of each.

Laws. The output watermark never decreases; it is the minimum over the channels that are active, not at their end, and have caught up with the output
("aligned"). A channel that becomes active again with a watermark below the output holds nothing back until it has caught up. When all channels that are not at
their end are idle, the output advances to the largest watermark among them and becomes idle. A channel at its end (with drain) does not count for the minimum;
when all are at their end, the output is the maximum watermark.

Follows Flink's ``StatusWatermarkValve.java``, but that a channel at its end never counts as active: Flink would run to the
end of time while the only other channel is idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from tidegate.model.channel_events import END_OF_TIME, NO_WATERMARK


@dataclass(frozen=True, slots=True)
class WatermarkArrived:
    """A watermark was read from a channel."""

    channel: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class StatusArrived:
    """A channel became idle, or active again."""

    channel: int
    idle: bool


@dataclass(frozen=True, slots=True)
class DataEnded:
    """End of data arrived on a channel. Without ``drain`` (the job is suspended) event time stays where it is."""

    channel: int
    drain: bool


ValveEvent = WatermarkArrived | StatusArrived | DataEnded


@dataclass(frozen=True, slots=True)
class AdvanceWatermark:
    """Advances the output watermark."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """Makes the output idle, or active again."""

    idle: bool


ValveCommand = AdvanceWatermark | ChangeStatus


@dataclass(slots=True)
class _Channel:
    watermark: int = NO_WATERMARK
    idle: bool = False
    aligned: bool = True
    ended: bool = False


class WatermarkValve:
    """The valve for all channels of a subtask. With several inputs the minimum of the minima is the same number."""

    def __init__(self, channels: int) -> None:
        self._channels = [_Channel() for _ in range(channels)]
        self._output = NO_WATERMARK
        self._idle = False

    @property
    def watermark(self) -> int:
        return self._output

    def on(self, event: ValveEvent, now_ms: float) -> Sequence[ValveCommand]:
        channel = self._channels[event.channel]
        if channel.ended:
            return []
        match event:
            case WatermarkArrived():
                return self._on_watermark(channel, event.timestamp_ms)
            case StatusArrived():
                if event.idle == channel.idle:
                    return []
                return self._on_idle(channel) if event.idle else self._on_active(channel)
            case DataEnded():
                if not event.drain:
                    return []
                channel.ended, channel.aligned = True, False
                return self._on_ended(channel)
            case _:
                assert_never(event)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when channels and output contradict each other."""
        for number, channel in enumerate(self._channels):
            is_out = channel.idle or channel.ended
            assert not (channel.aligned and is_out), (
                f"channel {number} holds the watermark back, and is idle or at its end"
            )
            assert not channel.aligned or channel.watermark >= self._output, (
                f"channel {number} counts as caught up at {channel.watermark}, and the output is {self._output}"
            )
        left = [channel for channel in self._channels if not channel.ended]
        assert self._idle == (bool(left) and all(channel.idle for channel in left)), f"the output is idle: {self._idle}"

    def _on_watermark(self, channel: _Channel, timestamp_ms: int) -> list[ValveCommand]:
        if channel.idle or timestamp_ms <= channel.watermark:
            return []
        channel.watermark = timestamp_ms
        if not channel.aligned and timestamp_ms >= self._output:
            channel.aligned = True
        return self._advance()

    def _on_idle(self, channel: _Channel) -> list[ValveCommand]:
        channel.idle, channel.aligned = True, False
        return self._one_less(channel)

    def _on_active(self, channel: _Channel) -> list[ValveCommand]:
        channel.idle = False
        channel.aligned = channel.watermark >= self._output
        return self._status(False)

    def _on_ended(self, channel: _Channel) -> list[ValveCommand]:
        if all(other.ended for other in self._channels):
            return [*self._status(False), *self._to(END_OF_TIME)]
        return self._one_less(channel)

    def _one_less(self, channel: _Channel) -> list[ValveCommand]:
        """Recomputes the output without ``channel``, which became idle or ended."""
        left = [other for other in self._channels if not other.ended]
        if any(not other.idle for other in left):
            return self._advance()
        largest = max(other.watermark for other in left)
        # the largest counts only if the one that went idle was what held the output back, as in Flink
        commands = self._to(largest) if channel.ended or channel.watermark == self._output else []
        return [*commands, *self._status(True)]

    def _advance(self) -> list[ValveCommand]:
        lows = [channel.watermark for channel in self._channels if channel.aligned]
        return self._to(min(lows)) if lows else []

    def _to(self, timestamp_ms: int) -> list[ValveCommand]:
        if timestamp_ms <= self._output:
            return []
        self._output = timestamp_ms
        return [AdvanceWatermark(timestamp_ms)]

    def _status(self, idle: bool) -> list[ValveCommand]:
        if idle == self._idle:
            return []
        self._idle = idle
        return [ChangeStatus(idle)]
