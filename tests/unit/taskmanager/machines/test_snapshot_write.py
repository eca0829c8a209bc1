from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import permutations

import pytest

from tidegate.model.checkpoint import (
    Acknowledgement,
    ChannelStateHandle,
    CheckpointMetrics,
    OperatorSnapshot,
    SegmentHandle,
    StateHandle,
    SubtaskSnapshot,
)
from tidegate.model.ids import AttemptId, CheckpointId, JobId, OperatorId, VertexId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.taskmanager.machines.snapshot_write import (
    ChannelsWritten,
    InputsPersisted,
    OutputsPassed,
    Part,
    SnapshotWrite,
    StateWritten,
    WriteCanceled,
    WriteChannels,
    WriteEvent,
    WriteStage,
)

ATTEMPT = AttemptId(JobId("a" * 32), VertexId("b" * 32), 0, 0)
BOTH = {Part.INPUTS, Part.OUTPUTS}
HEAD, TAIL = OperatorId("c" * 32), OperatorId("d" * 32)
METRICS = CheckpointMetrics(start_delay_ms=1.0, sync_ms=2.0)


def handle(size_bytes: int) -> StateHandle:
    return StateHandle(size_bytes, "0" * 16, "a file")


def channel(size_bytes: int) -> ChannelStateHandle:
    return ChannelStateHandle(0, 0, 0, 1, handle(size_bytes))


def write(awaits: Set[Part] = frozenset(), in_flight: Sequence[str] = ()) -> SnapshotWrite[str]:
    return SnapshotWrite(ATTEMPT, 5, METRICS, 100.0, awaits=awaits, in_flight=in_flight)


def test_without_data_in_flight_the_state_is_all_there_is() -> None:
    machine, snapshot = write(), SubtaskSnapshot({HEAD: OperatorSnapshot()})
    assert machine.begin(100.0) == []
    (acknowledgement,) = machine.on(StateWritten(snapshot, 700), 130.0)
    assert acknowledgement == Acknowledgement(
        ATTEMPT,
        CheckpointId(5),
        snapshot,
        CheckpointMetrics(start_delay_ms=1.0, sync_ms=2.0, async_ms=30.0, bytes_persisted=700),
    )


def test_what_a_barrier_overtook_when_it_was_sent_is_written_beside_the_state() -> None:
    machine = write(in_flight=["overtaken"])
    assert machine.begin(100.0) == [WriteChannels(["overtaken"])]
    assert machine.on(ChannelsWritten({}), 110.0) == []
    assert len(machine.on(StateWritten(SubtaskSnapshot()), 120.0)) == 1


def test_data_in_flight_is_written_as_one_piece_when_all_of_it_is_known() -> None:
    machine = write(awaits=BOTH, in_flight=["at once"])
    assert machine.begin(100.0) == []
    assert machine.on(InputsPersisted(["an input"], 40.0, "source (1/2)"), 140.0) == []
    assert machine.on(OutputsPassed(["late"]), 150.0) == [WriteChannels(["at once", "an input", "late"])]


def test_an_acknowledgement_names_state_and_data_in_flight_of_each_operator() -> None:
    machine = write(awaits=BOTH)
    state = OperatorSnapshot(keyed=(SegmentHandle("counts", KeyGroupRange(0, 0), (0, 1), handle(700)),))
    machine.on(StateWritten(SubtaskSnapshot({HEAD: state}), 700), 110.0)
    machine.on(OutputsPassed(["overtaken"]), 120.0)
    machine.on(InputsPersisted(["an input"], 40.0, "source (1/2)"), 140.0)
    channels = {
        HEAD: OperatorSnapshot(input_channels=(channel(30),)),
        TAIL: OperatorSnapshot(output_channels=(channel(4),)),
    }
    (found,) = machine.on(ChannelsWritten(channels), 160.0)
    assert isinstance(found, Acknowledgement)
    assert found.snapshot.operators == {
        HEAD: OperatorSnapshot(keyed=state.keyed, input_channels=(channel(30),)),
        TAIL: channels[TAIL],
    }
    assert found.metrics == CheckpointMetrics(
        start_delay_ms=1.0,
        sync_ms=2.0,
        async_ms=60.0,
        alignment_ms=40.0,
        waited_for="source (1/2)",
        unaligned=True,
        bytes_persisted=734,
        in_flight_bytes=34,
    )


@pytest.mark.parametrize(("overtaken", "unaligned"), [([], False), (["late"], True)])
def test_an_announced_barrier_that_overtook_nothing_was_aligned(overtaken: list[str], unaligned: bool) -> None:
    machine = write(awaits={Part.OUTPUTS})
    machine.on(OutputsPassed(overtaken), 110.0)
    machine.on(ChannelsWritten({}), 120.0)
    (found,) = machine.on(StateWritten(SubtaskSnapshot()), 130.0)
    assert isinstance(found, Acknowledgement)
    assert found.metrics.unaligned is unaligned


PARTS: tuple[WriteEvent[str], ...] = (
    StateWritten(SubtaskSnapshot()),
    InputsPersisted(["an input"], 0.0, ""),
    OutputsPassed(["overtaken"]),
)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_in_whatever_order_the_parts_come_one_acknowledgement_leaves_with_the_last(order: tuple[int, ...]) -> None:
    machine = write(awaits=BOTH)
    left = [command for number in order for command in machine.on(PARTS[number], 110.0)]
    assert [type(command) for command in left] == [WriteChannels]
    assert isinstance(machine.on(ChannelsWritten({}), 120.0)[0], Acknowledgement)
    for late in (*PARTS, ChannelsWritten({}), WriteCanceled()):
        assert machine.on(late, 130.0) == []
    assert machine.stage is WriteStage.DONE
    assert machine.begin(130.0) == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
@pytest.mark.parametrize("known", range(4))
def test_nothing_leaves_after_it_was_given_up(order: tuple[int, ...], known: int) -> None:
    machine = write(awaits=BOTH)
    for number in order[:known]:
        machine.on(PARTS[number], 110.0)
    assert machine.on(WriteCanceled(), 115.0) == []
    for number in order[known:]:
        assert machine.on(PARTS[number], 120.0) == []
    assert machine.on(ChannelsWritten({}), 125.0) == []
    assert machine.begin(125.0) == []
    assert machine.stage is WriteStage.CANCELED
