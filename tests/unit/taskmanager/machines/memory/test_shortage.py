"""Who ends when memory runs short: one, the largest, and only where that helps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.taskmanager.machines.memory.shortage import (
    CALM_S,
    NEAR_S,
    MemoryPool,
    Overrun,
    decide_interval_s,
    decide_largest,
    decide_reserve,
    decide_short,
    describe_overrun,
)

MIB, GIB = 1 << 20, 1 << 30


def pool(total: int, left: int, group: str = "") -> MemoryPool:
    return MemoryPool("the machine", "MemTotal of /proc/meminfo", total, left, group)


@pytest.mark.parametrize(
    ("total", "wanted", "reserve"),
    [
        (1 * GIB, None, 128 * MIB),
        (8 * GIB, None, 8 * GIB // 20),
        (64 * GIB, None, 1 * GIB),
        (64 * GIB, 5 * GIB, 5 * GIB),
        (64 * GIB, 0, 0),
    ],
)
def test_a_twentieth_stays_free_within_bounds_unless_it_is_set(total: int, wanted: int | None, reserve: int) -> None:
    assert decide_reserve(total, wanted) == reserve


def test_as_long_as_the_reserve_is_free_nothing_is_short() -> None:
    assert decide_short([pool(8 * GIB, 8 * GIB // 20)], None) is None
    assert decide_short([], None) is None
    assert decide_short([pool(8 * GIB, 0)], 0) is None


def test_of_the_machine_and_its_control_groups_the_one_that_lacks_most_counts() -> None:
    machine, group = pool(64 * GIB, GIB - MIB), pool(2 * GIB, 10 * MIB, "/pod")
    assert decide_short([machine, group], None) is group
    assert decide_short([machine, pool(2 * GIB, GIB, "/pod")], None) is machine


def test_it_is_looked_at_more_often_where_little_is_left() -> None:
    assert decide_interval_s([pool(64 * GIB, 40 * GIB)], None) == CALM_S
    assert decide_interval_s([pool(64 * GIB, 40 * GIB), pool(2 * GIB, 500 * MIB)], None) == NEAR_S
    assert decide_interval_s([pool(64 * GIB, 0)], 0) == CALM_S


def test_the_largest_subtask_ends_by_its_own_task_manager() -> None:
    sizes = {1: 5 * GIB, 2: 9 * GIB, 3: GIB}
    short = pool(16 * GIB, 100 * MIB)
    assert decide_largest(short, sizes, [1, 2]) == 2
    assert decide_largest(short, sizes, [3]) is None


def test_subtasks_are_left_alone_when_something_else_has_filled_the_machine() -> None:
    assert decide_largest(pool(16 * GIB, 100 * MIB), {1: 2 * GIB, 2: GIB}, [1, 2]) is None
    assert decide_largest(pool(16 * GIB, 100 * MIB), {}, []) is None


def test_many_small_subtasks_that_fill_the_machine_lose_the_largest_of_them() -> None:
    sizes = {pid: 200 * MIB + pid for pid in range(80)}
    assert decide_largest(pool(16 * GIB, 100 * MIB), sizes, range(80)) == 79


@given(
    sizes=st.dictionaries(st.integers(1, 50), st.integers(0, 20).map(lambda gib: gib * GIB), min_size=1),
    managers=st.integers(1, 4),
    left=st.integers(0, 16 * GIB),
)
def test_of_all_task_managers_of_a_machine_one_at_most_ends_a_subtask(
    sizes: dict[int, int], managers: int, left: int
) -> None:
    short = pool(16 * GIB, left)
    found = [
        decide_largest(short, sizes, [pid for pid in sizes if pid % managers == number]) for number in range(managers)
    ]
    ended = [pid for pid in found if pid is not None]
    assert len(ended) <= 1
    assert all(sizes[pid] == max(sizes.values()) for pid in ended)


def test_the_message_says_who_how_much_the_bound_and_what_to_do() -> None:
    overrun = Overrun(7, 3 * GIB, 4, pool(8 * GIB, 100 * MIB), 409 * MIB, "give it more memory")
    assert describe_overrun("map (2/4)#0", overrun).startswith(
        "map (2/4)#0 was ended before the machine ran out of memory: it has 3072 MiB, the most of 4 subtasks; of 8192 MiB (MemTotal of "
        "/proc/meminfo) only 100 MiB are left, and 409 MiB have to stay free (tidegate.taskmanager.memory.reserve); give it more memory; "
        "usually the memory goes to keyed state on the heap (state.backend.type: rocksdb keeps it on disk)"
    )
