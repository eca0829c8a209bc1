"""The mailbox loop over a gate and partitions in memory, one step at a time."""

from __future__ import annotations

import pytest

from tests.unit.taskmanager.runtime.fakes import FakeFrozen
from tests.unit.taskmanager.runtime.subtask_kit import OPTIONS, Subtask, barrier, numbers
from tidegate.model.channel_events import END_OF_TIME, Barrier, CancelBarrier, EndOfData, EndOfPartition, WatermarkEvent
from tidegate.model.checkpoint import DeclineReason
from tidegate.model.errors import CorruptFrame, InternalError
from tidegate.taskmanager.machines import snapshot as s
from tidegate.taskmanager.machines import subtask as lifecycle
from tidegate.taskmanager.runtime.chain import NO_CHECKPOINT
from tidegate.taskmanager.runtime.ports import (
    AbortCheckpoint,
    CancelTask,
    ConfirmCheckpoint,
    ControlLost,
)
from tidegate.taskmanager.runtime.slicing import FIRST_RECORDS


def test_records_are_processed_in_slices_and_mails_come_between_them() -> None:
    subtask = Subtask()
    subtask.send(0, numbers(4 * FIRST_RECORDS))
    subtask.loop.step()
    subtask.mailbox.put(CancelTask())
    subtask.loop.step()
    assert subtask.state is lifecycle.LifecycleState.CANCELED
    assert [len(call[2]) for call in subtask.operator.calls] == [FIRST_RECORDS]


def test_nothing_is_processed_while_an_output_has_no_room_but_mails_are() -> None:
    subtask = Subtask()
    subtask.send(0, numbers(3))
    subtask.partition.available = False
    assert not subtask.loop.step()
    assert subtask.operator.calls == []
    subtask.mailbox.put(AbortCheckpoint(1))
    subtask.loop.step()
    assert subtask.operator.calls == [("op", "aborted", 1)]
    subtask.partition.available = True
    subtask.run()
    assert subtask.operator.calls[-1] == ("op", "process", [0, 1, 2])


def test_a_barrier_waits_for_the_others_goes_out_first_and_is_acknowledged() -> None:
    subtask = Subtask()
    subtask.operator.frozen = frozen = FakeFrozen()
    subtask.send(0, numbers(1), barrier(1), numbers(2))
    subtask.send(1, numbers(3))
    subtask.run()
    assert subtask.gate.blocked == {0}
    subtask.send(1, barrier(1))
    subtask.settle()
    assert [call[1:] for call in subtask.operator.calls] == [
        ("process", [0]),
        ("process", [0, 1, 2]),
        ("prepare", 1),
        ("freeze", 1),
        ("process", [0, 1]),
    ]
    events = [item for item in subtask.partition.items if isinstance(item, Barrier)]
    assert events == [barrier(1)]
    assert subtask.port.of("ack") == [("ack", 1)]
    assert frozen.released == 1
    order = [p for p in subtask.points if p != "barrier-received"]
    assert order == ["before-barrier", "barrier-sent", "frozen", "before-ack", "after-ack"]


def test_a_snapshot_is_acknowledged_while_its_subtask_is_busy_and_released_in_its_thread() -> None:
    subtask = Subtask()
    subtask.operator.frozen = frozen = FakeFrozen()
    subtask.send(0, barrier(1))
    subtask.send(1, barrier(1))
    subtask.run()
    assert subtask.writer.close(5000.0)
    assert subtask.port.of("ack") == [("ack", 1)]
    assert frozen.released == 0
    subtask.loop.step()
    assert subtask.port.of("ack") == [("ack", 1)]
    assert frozen.released == 1


def test_a_snapshot_that_is_aborted_while_it_is_written_is_not_acknowledged() -> None:
    subtask = Subtask()
    subtask.operator.frozen = frozen = FakeFrozen()
    frozen.on_write = lambda: subtask.snapshots.on(s.AbortReceived(1))
    subtask.send(0, barrier(1))
    subtask.send(1, barrier(1))
    subtask.settle()
    assert subtask.port.of("ack") == []
    assert frozen.released == 1


def test_an_event_that_arises_while_commands_are_carried_out_comes_behind_them() -> None:
    subtask = Subtask(inline_bytes=100)
    subtask.operator.frozen = FakeFrozen(size_limit_bytes=100)
    subtask.port.on_acknowledged = lambda n: subtask.snapshots.on(s.ConfirmReceived(n))
    subtask.send(0, barrier(1))
    subtask.send(1, barrier(1))
    subtask.run()
    assert subtask.points.index("after-ack") < subtask.points.index("before-commit")


def test_a_state_known_to_be_small_is_acknowledged_in_the_step_that_freezes_it() -> None:
    subtask = Subtask(channels=1, inline_bytes=100)
    subtask.operator.frozen = frozen = FakeFrozen(size_limit_bytes=100)
    subtask.send(0, barrier(1))
    subtask.loop.step()
    assert subtask.port.of("ack") == [("ack", 1)]
    assert frozen.released == 1
    frozen.limit_bytes = 101  # more than travels in an acknowledgement: by the other thread
    subtask.send(0, barrier(2))
    subtask.settle()
    assert subtask.port.of("ack") == [("ack", 1), ("ack", 2)]


def test_a_small_state_that_cannot_be_written_declines_and_releases() -> None:
    subtask = Subtask(channels=1, inline_bytes=100)
    subtask.operator.frozen = frozen = FakeFrozen(ValueError("no"), size_limit_bytes=1)
    subtask.send(0, barrier(1))
    subtask.loop.step()
    assert len(subtask.port.of("decline")) == 1
    assert frozen.released == 1


def test_a_write_that_fails_declines_and_releases() -> None:
    subtask = Subtask(channels=1)
    subtask.operator.frozen = frozen = FakeFrozen(OSError("disk full"))
    subtask.send(0, barrier(1))
    subtask.settle()
    assert subtask.port.sent == [("decline", 1, DeclineReason.ASYNC_EXCEPTION)]
    assert frozen.released == 1
    assert not subtask.lifecycle.is_over


def test_an_abort_of_the_alignment_unblocks_and_tells_the_consumers() -> None:
    subtask = Subtask()
    subtask.send(0, barrier(1), numbers(1))
    subtask.run()
    subtask.mailbox.put(AbortCheckpoint(1))
    subtask.run()
    assert subtask.gate.blocked == set()
    assert CancelBarrier(1) in subtask.partition.items
    assert subtask.port.sent == []
    assert ("op", "process", [0]) in subtask.operator.calls


def test_the_loss_of_the_control_stream_comes_before_all_other_mails() -> None:
    subtask = Subtask(channels=1)
    subtask.send(0, barrier(1))
    subtask.run()
    subtask.mailbox.put(ConfirmCheckpoint(1))
    subtask.mailbox.put(ControlLost())
    subtask.run()
    assert subtask.state is lifecycle.LifecycleState.CUT_OFF
    assert ("op", "complete", 1) not in subtask.operator.calls


def test_after_a_cancel_a_late_write_is_not_acknowledged_but_released() -> None:
    subtask = Subtask(channels=1)
    subtask.operator.frozen = frozen = FakeFrozen()
    subtask.send(0, barrier(1))
    subtask.loop.step()
    subtask.loop.handle(CancelTask())
    subtask.snapshots.close()
    subtask.run()
    assert subtask.port.of("ack") == []
    assert frozen.released == 1


def test_the_way_to_the_end_with_a_final_checkpoint() -> None:
    subtask = Subtask()
    for channel in (0, 1):
        subtask.send(channel, numbers(1), WatermarkEvent(5), EndOfData())
    subtask.run()
    assert [call[1:] for call in subtask.operator.calls] == [
        ("process", [0]),
        ("process", [0]),
        ("watermark", 5),
        ("watermark", END_OF_TIME),
        ("end_input", 0),
        ("finish",),
    ]
    assert EndOfData() in subtask.partition.items
    assert subtask.port.sent == [("end-of-data",)]
    for channel in (0, 1):
        subtask.send(channel, barrier(7))
    subtask.settle()
    assert subtask.port.of("ack") == [("ack", 7)]
    subtask.mailbox.put(ConfirmCheckpoint(7, may_finish=True))
    subtask.run()
    subtask.assert_at(lifecycle.LifecycleState.AT_END)
    for channel in (0, 1):
        subtask.send(channel, EndOfPartition())
    subtask.partition.drained = False
    subtask.run()
    subtask.assert_at(lifecycle.LifecycleState.CLOSING)
    assert isinstance(subtask.partition.items[-1], EndOfPartition)
    subtask.partition.drained = True
    subtask.run()
    subtask.assert_at(lifecycle.LifecycleState.FINISHED)
    assert ("op", "complete", 7) in subtask.operator.calls


def test_without_checkpointing_the_end_of_data_commits_everything() -> None:
    subtask = Subtask(channels=1, checkpointing=False)
    subtask.send(0, numbers(1), EndOfData(), EndOfPartition())
    subtask.run()
    assert subtask.state is lifecycle.LifecycleState.FINISHED
    calls = [call[1:] for call in subtask.operator.calls]
    assert calls.index(("finish",)) < calls.index(("complete", lifecycle.EOI_CHECKPOINT_ID))


def test_uncommitted_work_at_the_end_is_an_error() -> None:
    subtask = Subtask(channels=1, checkpointing=False)
    subtask.operator.pending = True
    subtask.send(0, EndOfData(), EndOfPartition())
    with pytest.raises(InternalError, match="still has rows to commit"):
        subtask.run()


def test_a_suspended_stream_ends_without_finishing_the_operators() -> None:
    subtask = Subtask(channels=1)
    subtask.send(0, WatermarkEvent(5), EndOfData(drain=False))
    subtask.run()
    assert [call[1:] for call in subtask.operator.calls] == [("watermark", 5), ("prepare", NO_CHECKPOINT)]
    assert subtask.partition.items[-1] == EndOfData(drain=False)


def test_what_operators_hold_back_leaves_a_suspended_subtask_before_its_end_of_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subtask = Subtask(channels=1)
    held = subtask.operator.context.output
    monkeypatch.setattr(subtask.operator, "prepare_snapshot", lambda checkpoint_id: held.emit_watermark(checkpoint_id))
    subtask.send(0, EndOfData(drain=False))
    subtask.run()
    assert subtask.partition.items == [WatermarkEvent(NO_CHECKPOINT), EndOfData(drain=False)]


def test_an_input_of_which_a_part_was_suspended_has_not_ended() -> None:
    subtask = Subtask(channels=2)
    subtask.send(0, EndOfData(drain=False))
    subtask.run()
    subtask.send(1, EndOfData(drain=True))
    subtask.run()
    assert [call[1] for call in subtask.operator.calls] == ["prepare"]
    assert subtask.partition.items[-1] == EndOfData(drain=False)


def test_a_subtask_behind_finished_producers_is_triggered_by_the_jobmanager() -> None:
    subtask = Subtask(channels=1)
    subtask.mailbox.put(Barrier(3, 1000, OPTIONS))
    subtask.run()
    assert subtask.port.sent == []
    subtask.send(0, numbers(2), EndOfData(), EndOfPartition())
    subtask.settle()
    assert subtask.port.sent == [("end-of-data",), ("ack", 3)]
    assert subtask.operator.calls[0] == ("op", "process", [0, 1])


def test_records_behind_the_end_of_data_are_a_broken_stream() -> None:
    subtask = Subtask()
    subtask.send(0, EndOfData(), numbers(1))
    with pytest.raises(CorruptFrame, match="input channel 0 sent records after its end of data"):
        subtask.run()
    other = Subtask()
    other.send(0, EndOfPartition())
    with pytest.raises(CorruptFrame, match="ended its partition without the end of its data"):
        other.run()


def test_reports_of_a_sink_come_behind_the_end_of_data(monkeypatch: pytest.MonkeyPatch) -> None:
    subtask = Subtask(channels=1)
    monkeypatch.setattr(subtask.operator, "takes_reports", lambda: True)
    subtask.send(0, EndOfData(), numbers(1), EndOfPartition())
    subtask.settle()
    calls = [call[1] for call in subtask.operator.calls]
    assert calls.index("finish") < calls.index("process")


@pytest.mark.parametrize(("flush_ms", "flushes"), [(5, [0, 1]), (0, [1, 1]), (None, [0, 0])])
def test_what_was_emitted_leaves_after_the_buffer_timeout(flush_ms: int | None, flushes: list[int]) -> None:
    subtask = Subtask(channels=1, flush_ms=flush_ms)
    subtask.send(0, numbers(1))
    subtask.run()
    seen = [subtask.partition.flushes]
    subtask.clock.ms += 5
    subtask.run()
    assert [*seen, subtask.partition.flushes] == flushes


def test_a_result_does_not_wait_for_the_function_of_the_next_record() -> None:
    subtask = Subtask(channels=1, flush_ms=5)
    subtask.operator.on_process = lambda _: subtask.pass_time(500)
    subtask.send(0, *(numbers(1) for _ in range(4)))
    seen = []
    while subtask.loop.step():
        seen.append(subtask.partition.flushes)
    assert seen == [1, 2, 3, 4]


def test_results_of_quick_functions_are_gathered_for_the_buffer_timeout_also_after_a_slow_one() -> None:
    subtask = Subtask(channels=1, flush_ms=5)
    costs = iter([500, *([1] * 100)])
    subtask.operator.on_process = lambda _: subtask.pass_time(next(costs))
    subtask.send(0, *(numbers(1) for _ in range(101)))
    flushes = []
    while subtask.loop.step():
        flushes.append(subtask.partition.flushes)
    assert flushes[0] == 1
    assert (
        flushes[-1] - flushes[-41] == 8
    )  # of forty steps of 1 ms: every fifth, when the next would end behind the time


def test_timers_fire_between_two_slices_and_not_after_the_end_of_data() -> None:
    subtask = Subtask(channels=1)
    fired: list[int] = []
    subtask.timers.schedule(1000, fired.append)
    subtask.timers.schedule(5000, fired.append)
    subtask.run()
    assert fired == [1000]
    subtask.send(0, EndOfData())
    subtask.run()
    subtask.clock.ms = 6000.0
    subtask.run()
    assert fired == [1000]
