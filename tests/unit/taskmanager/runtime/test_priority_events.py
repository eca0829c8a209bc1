"""Barriers that overtake in the mailbox loop, and the events that nobody sends here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.taskmanager.runtime.subtask_kit import Subtask, barrier, numbers
from tidegate.model.channel_events import (
    Barrier,
    BarrierAnnouncement,
    EndOfData,
    UserEvent,
)
from tidegate.model.checkpoint import Alignment
from tidegate.model.errors import CorruptFrame
from tidegate.taskmanager.exchange.ports import RecordingEnded
from tidegate.taskmanager.machines.barrier_handler import ExactlyOnceBarrierHandler


def unaligned(n: int) -> Barrier:
    aligned = barrier(n)
    return replace(aligned, options=replace(aligned.options, alignment=Alignment.UNALIGNED))


def subtask(channels: int = 2) -> Subtask:
    return Subtask(channels, handler=ExactlyOnceBarrierHandler(range(channels)))


def frozen(found: Subtask) -> list[int]:
    return [call[2] for call in found.operator.calls if call[1] == "freeze"]


def test_a_subtask_without_room_in_its_outputs_takes_a_barrier_that_overtakes() -> None:
    found = subtask()
    found.partition.available = False
    found.gate.queues[0].append(numbers(3))
    found.gate.priority.append((0, unaligned(1)))
    assert found.loop.step()
    assert frozen(found) == [1]
    assert found.gate.persisted == [(0, 1), (1, 1)]
    assert not found.loop.step(), "and processes nothing"
    assert not [call for call in found.operator.calls if call[1] == "process"]


def test_a_barrier_that_overtakes_is_taken_between_two_slices_of_a_batch() -> None:
    found = subtask(1)
    found.gate.queues[0].append(numbers(200))
    found.loop.step()
    done = sum(len(call[2]) for call in found.operator.calls if call[1] == "process")
    assert 0 < done < 200
    found.gate.priority.append((0, unaligned(1)))
    found.loop.step()
    assert frozen(found) == [1]
    assert sum(len(call[2]) for call in found.operator.calls if call[1] == "process") == done


def test_an_announced_barrier_starts_the_snapshot_when_its_time_is_over_though_outputs_have_no_room() -> None:
    found = subtask()
    aligned = barrier(1)
    timed = replace(aligned, options=replace(aligned.options, aligned_timeout_ms=50))
    found.gate.priority.append((0, BarrierAnnouncement(timed, 3)))
    found.loop.step()
    assert frozen(found) == []
    found.partition.available = False
    found.clock.ms = timed.timestamp_ms + 51
    found.loop.step()
    assert frozen(found) == [1]


def test_the_end_of_all_recordings_completes_the_checkpoint() -> None:
    found = subtask()
    found.gate.priority.append((0, unaligned(1)))
    found.loop.step()
    found.gate.priority.append((1, RecordingEnded(1)))
    found.loop.step()
    assert found.port.of("ack") == [("ack", 1)]


def test_a_user_event_passes_an_operator_that_does_not_listen() -> None:
    found, event = subtask(), UserEvent(b"unread")
    found.gate.queues[0].append(event)
    found.loop.step()
    assert event in found.partition.items


def test_a_user_event_behind_the_end_of_its_channels_data_is_no_event_of_a_sane_peer() -> None:
    found = subtask(1)
    found.gate.queues[0] += [EndOfData(), UserEvent(b"late")]
    found.loop.step()
    with pytest.raises(CorruptFrame, match="the producer of input channel 0 sent a user event after its end of data"):
        found.loop.step()
