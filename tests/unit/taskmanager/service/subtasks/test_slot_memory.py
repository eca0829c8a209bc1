from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tidegate.model.configuration import Configuration
from tidegate.model.ids import AllocationId, AttemptId, JobId, VertexId
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory, decide_overrun
from tidegate.taskmanager.spark.memory.limits import resident_bytes

MIB = 1 << 20


def attempt(number: int) -> AttemptId:
    return AttemptId(JobId("a" * 32), VertexId("b" * 32), number, 0)


def name(attempt: AttemptId) -> str:
    return f"map ({attempt.subtask + 1}/3)#0"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, SlotMemory(0, 0, 0)),
        ({"taskmanager.memory.process.size": "1000m"}, SlotMemory(1000 * MIB, 400 * MIB, 100 * MIB)),
        (
            {"taskmanager.memory.process.size": "1000m", "taskmanager.numberOfTaskSlots": "4"},
            SlotMemory(250 * MIB, 100 * MIB, 25 * MIB),
        ),
        (
            {"taskmanager.memory.process.size": "1000m", "taskmanager.memory.managed.size": "200m"},
            SlotMemory(1000 * MIB, 200 * MIB, 100 * MIB),
        ),
        ({"taskmanager.memory.managed.size": "200m"}, SlotMemory(0, 200 * MIB, 0)),
        ({"taskmanager.memory.process.size": "100m"}, SlotMemory(100 * MIB, 40 * MIB, 64 * MIB)),
        (
            {"taskmanager.memory.process.size": "1000m", "taskmanager.memory.network.max": "80m"},
            SlotMemory(1000 * MIB, 400 * MIB, 80 * MIB),
        ),
        (
            {"tidegate.taskmanager.memory.machine-size": "1000m", "tidegate.taskmanager.memory.reserve": "0"},
            SlotMemory(machine_bytes=1000 * MIB, reserve_bytes=0),
        ),
    ],
)
def test_shares(texts: dict[str, str], expected: SlotMemory) -> None:
    found = SlotMemory.of(Configuration.from_strings(texts))
    assert abs(found.managed_bytes - expected.managed_bytes) <= 1
    assert replace(found, managed_bytes=0) == replace(expected, managed_bytes=0)


def test_the_largest_process_of_a_slot_that_has_too_much_fails_and_says_what_to_change() -> None:
    pids = {
        AllocationId("1" * 32): {attempt(0): 10, attempt(1): 11},
        AllocationId("2" * 32): {attempt(2): 12},
    }
    sizes = {10: 60 * MIB, 11: 50 * MIB, 12: 100 * MIB}
    found = decide_overrun(pids, 100 * MIB, {}, name, sizes.__getitem__)
    assert [failed for failed, _ in found] == [attempt(0)]
    assert (
        "map (1/3)#0 needed more than its slot's 100 MiB (taskmanager.memory.process.size / slots)"
        in found[0][1].message
    )
    assert "it has 60 MiB, and the others in it 50 MiB" in found[0][1].message
    assert "state.backend.type: rocksdb" in found[0][1].message


def test_a_slot_within_its_bound_is_left_alone() -> None:
    assert decide_overrun({AllocationId("1" * 32): {attempt(0): 1}}, 100, {}, name, lambda pid: 100) == []
    assert decide_overrun({AllocationId("1" * 32): {}}, 100, {}, name, lambda pid: 100) == []


def test_resident_memory_of_this_process_and_of_one_that_is_gone() -> None:
    before = resident_bytes(os.getpid())
    ballast = bytearray(b"x") * (64 * MIB)
    assert resident_bytes(os.getpid()) - before > 32 * MIB
    assert resident_bytes(2**22 + 1) == 0
    del ballast


def test_a_slot_whose_group_says_how_much_it_has_is_bounded_by_that() -> None:
    own, other = AllocationId("1" * 32), AllocationId("2" * 32)
    pids = {own: {attempt(0): 1}, other: {attempt(1): 2}}
    [(failed, error)] = decide_overrun(pids, 0, {own: 100 * MIB}, name, lambda pid: 200 * MIB)
    assert failed == attempt(0)
    assert "more than its slot's 100 MiB (by its slot sharing group)" in error.message


def test_the_log_says_what_each_slot_has() -> None:
    assert str(SlotMemory()) == "without a bound of memory"
    assert str(SlotMemory(0, 200 * MIB, 0)) == "without a bound of memory (200.0 MiB managed)"
    assert str(SlotMemory(250 * MIB, 100 * MIB, 25 * MIB)) == (
        "250.0 MiB each (100.0 MiB managed, 25.0 MiB for the network)"
    )
