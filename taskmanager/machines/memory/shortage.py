"""Decides which subtask is ended before the kernel ends a process because memory runs out. Pure.

    what is left >= the reserve ──▶ nothing ends, however large a subtask is: what fits may stay
    what is left <  the reserve ──▶ do subtasks hold a part of what is used that matters?
                                      ├─ yes ─▶ the largest of all of them ends, by its own TaskManager
                                      └─ no ──▶ nothing ends: another program takes the memory, and goes on to

Laws:
1. If several TaskManagers on a machine see the same processes, at most one ends a subtask: the one with the largest subtask.
2. The number of slots or TaskManagers does not lower any limit. Only memory in use counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

_RESERVED_SHARE = 20
"""The memory that stays free is the total divided by this, within the two bounds below."""
_LEAST_RESERVE_BYTES = 128 << 20
"""Least memory that stays free. Chosen, not measured: a process that takes 1 GB a second, as fast as Python fills fresh pages, is measured twice before it has
taken this much.
"""
_MOST_RESERVE_BYTES = 1 << 30
"""Most memory that stays free. Chosen, not measured: four processes that fill fresh pages at once need a quarter of a second for it."""
_SHARE_THAT_MATTERS = 4
"""No subtask is ended when all of them hold less than this share (a quarter) of the used memory, since they are not its cause."""
_NEAR = 4
"""Below so many times the reserve, memory is measured more often."""
CALM_S = 0.25
"""Seconds between two measurements when memory is not short. Chosen, not measured: a runaway process is noticed before the machine swaps."""
NEAR_S = 0.05
"""Seconds between two measurements when memory is nearly short. Chosen, not measured: a process fills some 50 MB of fresh pages in it, and a measurement costs
half a millisecond.
"""

USUALLY = (
    "usually the memory goes to keyed state on the heap (state.backend.type: rocksdb keeps it on disk), to windows over columns "
    "(taskmanager.memory.managed.size bounds them), or to what a function keeps"
)
"""A part of error messages: the usual causes of high memory use."""


@dataclass(frozen=True, slots=True)
class MemoryPool:
    """Memory that processes share: a machine's, or that of a control group. ``source`` says where the total was read; ``group`` is the path of the control
    group, empty if all processes of the machine share the memory.
    """

    name: str
    source: str
    total_bytes: int
    left_bytes: int
    """Memory that can be taken before the kernel has to end a process: free memory, and what only caches files."""
    group: str = ""

    @property
    def used_bytes(self) -> int:
        return max(0, self.total_bytes - self.left_bytes)


@dataclass(frozen=True, slots=True)
class Overrun:
    """The process that has to end, with the figures for the message."""

    pid: int
    size_bytes: int
    subtasks: int
    """The number of subtasks that were compared, those of other TaskManagers included."""
    pool: MemoryPool
    reserve_bytes: int
    advice: str


def decide_reserve(total_bytes: int, wanted_bytes: int | None) -> int:
    """Returns the bytes that must stay free. ``wanted_bytes``: the setting ``tidegate.taskmanager.memory.reserve``."""
    if wanted_bytes is not None:
        return wanted_bytes
    return min(max(total_bytes // _RESERVED_SHARE, _LEAST_RESERVE_BYTES), _MOST_RESERVE_BYTES)


def decide_short(pools: Sequence[MemoryPool], wanted_bytes: int | None) -> MemoryPool | None:
    """Returns the pool that lacks most of its reserve; ``None`` if none lacks any."""
    missing = {pool: decide_reserve(pool.total_bytes, wanted_bytes) - pool.left_bytes for pool in pools}
    short = [pool for pool in pools if missing[pool] > 0]
    return max(short, key=lambda pool: missing[pool], default=None)


def decide_interval_s(pools: Sequence[MemoryPool], wanted_bytes: int | None) -> float:
    """Returns the seconds until memory is measured again."""
    near = any(pool.left_bytes < _NEAR * decide_reserve(pool.total_bytes, wanted_bytes) for pool in pools)
    return NEAR_S if near else CALM_S


def decide_largest(pool: MemoryPool, sizes: Mapping[int, int], own: Collection[int]) -> int | None:
    """Returns the id of the process that must end; ``None`` when that would not help, or when it is not one of ``own``.

    ``sizes``: bytes of all subtasks in the pool by process id, those of other TaskManagers included.
    """
    if not sizes or sum(sizes.values()) * _SHARE_THAT_MATTERS < pool.used_bytes:
        return None
    largest = max(sizes, key=lambda pid: (sizes[pid], pid))
    return largest if largest in own else None


def describe_overrun(name: str, overrun: Overrun) -> str:
    """Returns the message for a subtask that is ended: its size, the bound and where that comes from, and what to do."""
    pool = overrun.pool
    others = f", the most of {overrun.subtasks} subtasks" if overrun.subtasks > 1 else ""
    return (
        f"{name} was ended before {pool.name} ran out of memory: it has {overrun.size_bytes >> 20} MiB{others}; of "
        f"{pool.total_bytes >> 20} MiB ({pool.source}) only {pool.left_bytes >> 20} MiB are left, and {overrun.reserve_bytes >> 20} MiB "
        f"have to stay free (tidegate.taskmanager.memory.reserve); {overrun.advice}; {USUALLY}"
    )
