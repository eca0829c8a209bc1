"""Splits go to the reader that asks."""

from __future__ import annotations

import pytest

from tidegate.jobmanager.machines.coordination.operator_coordinators import initial_splits
from tidegate.jobmanager.machines.coordination.source_coordinator import TOGETHER_BYTES, SourceCoordinator
from tidegate.model.checkpoint import CheckpointManifest, OperatorState, SnapshotType
from tidegate.model.coordinators.operator_events import (
    AddSplits,
    CoordinatorState,
    NoMoreSplits,
    SourceSplit,
    SplitsDiscovered,
    StartDiscovery,
)
from tidegate.model.graph import OperatorInfo
from tidegate.model.ids import CheckpointId, JobId, OperatorId

ONE = CheckpointId(1)
OPERATOR = OperatorId("a" * 32)


def splits(count: int, size_bytes: int = TOGETHER_BYTES) -> tuple[SourceSplit, ...]:
    return tuple(SourceSplit(str(number), b"", size_bytes) for number in range(count))


def given(source: SourceCoordinator, subtask: int) -> list[str]:
    """The ids that a reader gets; empty when nothing is left."""
    answer = source.on_request(subtask)
    source.check_invariants()
    return [split.split_id for split in answer.splits] if isinstance(answer, AddSplits) else []


def test_large_splits_are_handed_out_one_at_a_time_to_whoever_asks() -> None:
    source = SourceCoordinator(splits(4), 2)
    assert [given(source, subtask) for subtask in (1, 1, 0, 1)] == [["0"], ["1"], ["2"], ["3"]]
    assert source.on_request(0) == NoMoreSplits()


def test_small_splits_are_handed_out_together_and_fewer_of_them_towards_the_end() -> None:
    source = SourceCoordinator(splits(16, size_bytes=1), 2)
    sizes = []
    while source.unassigned:
        sizes.append(len(given(source, 0)))
    assert sizes == [4, 3, 2, 1, 1, 1, 1, 1, 1, 1]


def test_no_more_are_handed_out_together_than_is_read_in_a_moment() -> None:
    source = SourceCoordinator(splits(100, size_bytes=TOGETHER_BYTES // 3), 2)
    assert given(source, 0) == ["0", "1", "2"]


def test_a_snapshot_holds_what_no_reader_has() -> None:
    source = SourceCoordinator(splits(3), 1)
    given(source, 0)
    assert source.snapshot(ONE) == CoordinatorState(splits(3)[1:])


def test_what_a_restarting_reader_had_is_handed_out_first() -> None:
    source = SourceCoordinator(splits(5), 2)
    given(source, 0)
    source.snapshot(ONE)
    source.on_completed(ONE)
    assert [given(source, subtask) for subtask in (0, 1, 0)] == [["1"], ["2"], ["3"]]
    source.on_subtask_reset(0, ONE)
    source.check_invariants()
    assert [given(source, 1) for _ in range(3)] == [["1"], ["3"], ["4"]]


def test_splits_of_a_reader_that_is_adopted_are_handed_out_to_nobody_else() -> None:
    source = SourceCoordinator(splits(3), 2)
    source.adopt(1, [splits(3)[0], splits(3)[2]])
    source.check_invariants()
    assert given(source, 0) == ["1"]
    assert given(source, 0) == []
    source.on_subtask_reset(1, None)
    assert [given(source, 0) for _ in range(2)] == [["0"], ["2"]]


def discovering(*listed: SourceSplit) -> SourceCoordinator:
    return SourceCoordinator(listed, 2, discovers=True)


def sent(source: SourceCoordinator, *away: int) -> list[tuple[int, list[str]]]:
    """What goes to whom now, unless it is away."""
    answers = source.given_out(lambda reader: reader not in away)
    source.check_invariants()
    return [(reader, [split.split_id for split in answer.splits]) for reader, answer in answers]


def test_a_reader_that_asks_when_there_are_none_waits_for_what_is_found() -> None:
    source = discovering()
    assert source.on_request(1) is None
    assert source.on_request(1) is None
    assert sent(source) == []
    source.on_discovered(SplitsDiscovered(splits(2)))
    assert sent(source) == [(1, ["0"])]
    assert sent(source) == [], "it has not asked again"
    assert given(source, 0) == ["1"]


def test_a_reader_that_waits_and_is_away_gets_nothing() -> None:
    source = discovering()
    assert [source.on_request(reader) for reader in (0, 1)] == [None, None]
    source.on_discovered(SplitsDiscovered(splits(3)))
    assert sent(source, 0) == [(1, ["0"])]
    source.on_subtask_reset(0, ONE)
    assert sent(source) == [], "the next attempt asks for itself"


def test_what_names_its_reader_goes_to_that_one_alone_also_when_it_restarts() -> None:
    source = discovering()
    assert source.on_request(1) is None
    source.on_discovered(SplitsDiscovered(splits(1), 0))
    assert sent(source, 0) == []
    assert source.snapshot(ONE) == CoordinatorState(splits(1))
    assert sent(source) == [(0, ["0"])]
    source.on_subtask_reset(0, ONE)
    assert sent(source, 0) == []
    assert sent(source) == [(0, ["0"])]


def test_what_names_a_reader_that_there_is_not_goes_to_the_one_that_asks() -> None:
    source = discovering()
    source.on_discovered(SplitsDiscovered(splits(1), 2))
    assert given(source, 0) == ["0"]


def test_the_reader_that_looks_is_told_what_no_state_holds() -> None:
    source = discovering(*splits(4))
    given(source, 0)
    source.snapshot(ONE)
    source.on_completed(ONE)
    given(source, 1)
    source.on_subtask_reset(0, ONE)
    assert source.on_discovery_requested() == StartDiscovery(splits(4)[1:])
    source.on_discovered(SplitsDiscovered(splits(4)[1:]))
    source.check_invariants()
    assert source.unassigned == 2, "it says nothing new"


def test_it_is_told_of_those_as_well_that_a_later_checkpoint_took_from_the_coordinator() -> None:
    source = discovering(*splits(1))
    given(source, 1)
    source.on_subtask_reset(0, None)
    source.snapshot(ONE)
    source.on_completed(ONE)
    assert source.on_discovery_requested() == StartDiscovery(splits(1))


def test_what_was_reported_to_an_earlier_jobmanager_is_unassigned_unless_a_reader_has_it() -> None:
    source = discovering(*splits(1))
    source.adopt_discovered(splits(3))
    source.adopt(1, splits(3)[1:2])
    source.check_invariants()
    assert [given(source, 0) for _ in range(2)] == [["0"], ["2"]]


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((), 3),
        ((OperatorState(OPERATOR, "", "lines", 1, 1),), 0),
        ((OperatorState(OPERATOR, "", "lines", 1, 1, coordinator=CoordinatorState(splits(2))),), 2),
    ],
    ids=["a new source lists its splits", "readers had all of them", "those that nobody had"],
)
def test_a_restored_job_hands_out_what_its_checkpoint_says(states: tuple[OperatorState, ...], expected: int) -> None:
    operator = OperatorInfo(OPERATOR, "lines", is_source=True, splits=splits(3))
    manifest = CheckpointManifest(JobId("b" * 32), "job", ONE, 1, SnapshotType.CHECKPOINT, states)
    assert initial_splits(operator, manifest) == splits(expected)
    assert initial_splits(operator, None) == splits(3)
