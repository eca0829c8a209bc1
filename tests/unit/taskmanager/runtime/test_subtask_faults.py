"""What a subtask does to itself when a fault is asked for on purpose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.errors import StorageError
from tidegate.model.ids import AttemptId, JobId, VertexId
from tidegate.pb.common_pb2 import SubtaskFault
from tidegate.store.segments import open_segment_store
from tidegate.taskmanager.runtime.subtask_faults import SubtaskFaults
from tidegate.taskmanager.spark.process import parent_of
from tidegate.taskmanager.state.ports import SegmentStore

ATTEMPT = AttemptId(JobId("a" * 32), VertexId("1" * 32), 0, 0)
LARGE, SMALL = b"x" * 100, b"x"
INLINE_BYTES = 10


class HandClock:
    at_ms = 5_000.0

    def now_ms(self) -> int:
        return 1_000_000 + int(self.at_ms)

    def monotonic_ms(self) -> float:
        return self.at_ms


class World:
    """A directory of checkpoints, behind faults."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = HandClock()
        self.slept_s: list[float] = []
        self.killed = 0
        self.faults = SubtaskFaults(self.clock, self.slept_s.append, self._kill)
        self.store = self._open()

    def _kill(self) -> None:
        self.killed += 1

    def _open(self) -> SegmentStore:
        def opened(options: CheckpointOptions, attempt: AttemptId, checkpoint_id: int) -> SegmentStore:
            return open_segment_store(str(self.directory), str(attempt), checkpoint_id, INLINE_BYTES)

        return self.faults.around(opened, INLINE_BYTES)(CheckpointOptions(str(self.directory)), ATTEMPT, 3)

    def files(self) -> int:
        return len(list(self.directory.iterdir()))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_file_of_state_is_slow_for_a_while_and_what_is_no_file_is_not(world: World) -> None:
    world.faults.take(SubtaskFault(slow_state_ms=500, for_ms=1_000))
    assert world.store.write("state", [LARGE]).path
    assert world.store.write("state", [SMALL]).data == SMALL
    assert world.slept_s == [0.5]
    world.clock.at_ms += 1_000
    world.store.write("state", [LARGE])
    assert world.slept_s == [0.5]


def test_a_full_directory_takes_no_file_and_keeps_no_part_of_one(world: World) -> None:
    world.faults.take(SubtaskFault(full_state=True, for_ms=1_000))
    with pytest.raises(StorageError, match="no space left on device"):
        world.store.write("state", (part for part in (LARGE, LARGE)))
    assert world.files() == 0
    assert world.store.write("state", [SMALL]).data == SMALL
    world.clock.at_ms += 1_000
    assert world.store.write("state", [LARGE]).size_bytes == len(LARGE)
    assert world.files() == 1


def test_a_clock_is_ahead_or_behind_for_a_while_and_time_that_passed_is_not(world: World) -> None:
    clock = world.faults.clock()
    assert clock.now_ms() == world.clock.now_ms()
    for skew_ms in (7_000, -7_000):
        world.faults.take(SubtaskFault(skew_clock_ms=skew_ms, for_ms=1_000))
        assert clock.now_ms() - world.clock.now_ms() == skew_ms
        assert clock.monotonic_ms() == world.clock.monotonic_ms()
    world.clock.at_ms += 1_000
    assert clock.now_ms() == world.clock.now_ms()


def test_an_executor_is_killed_at_once_and_nothing_is_left_of_the_fault(world: World) -> None:
    world.faults.take(SubtaskFault(kill_executor=True, for_ms=1_000))
    assert world.killed == 1
    assert world.store.write("state", [LARGE]).path
    assert world.slept_s == []


def test_the_executor_is_the_parent_of_the_daemon_that_forked_the_subtask() -> None:
    assert parent_of(os.getpid()) == os.getppid()
