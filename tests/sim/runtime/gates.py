"""Looks at every input gate of a simulated world: a barrier that overtakes waits behind no data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from tests.sim.laws import Law
from tests.sim.runtime.job import Outside
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import Alignment
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate


@contextmanager
def watched_gates(outside: Outside) -> Iterator[None]:
    poll = ChannelInputGate.poll

    def watched(gate: ChannelInputGate, gather_bytes: int = 0) -> Any:
        for channel in gate._channels:
            for queued in channel.frames:
                event = queued.event
                if isinstance(event, Barrier) and event.options.alignment is Alignment.UNALIGNED:
                    outside.fail(Law.OVERTAKING, f"barrier {event.checkpoint_id} waits behind data on {channel.name}")
        return poll(gate, gather_bytes)

    with mock.patch.object(ChannelInputGate, "poll", watched):
        yield
