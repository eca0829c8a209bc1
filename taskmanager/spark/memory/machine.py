"""What memory the machine has left, and which subtasks use it: read from Linux. Elsewhere nothing is found, and nothing ends.

What can be had again does not count as used: the page cache, and with it every file that is mapped.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import psutil

from tidegate.model.options import RuntimeOptions
from tidegate.taskmanager.machines.memory.shortage import (
    CALM_S,
    MemoryPool,
    Overrun,
    decide_interval_s,
    decide_largest,
    decide_reserve,
    decide_short,
)
from tidegate.taskmanager.spark.memory.limits import resident_bytes

TITLE = "tidegate subtask"
"""With this the title of each subtask's process begins, of whichever TaskManager it is."""
MACHINE_SIZE = RuntimeOptions.MACHINE_SIZE
_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_V1_CACHE = ("total_inactive_file", "total_active_file")
_V2_CACHE = ("inactive_file", "active_file", "slab_reclaimable")


@cache
def total_bytes() -> int:
    """Memory of the machine, or of the group of processes that bounds this one, if that is less; 0 when the system does not tell. What was found first
    counts for this process, and for those that are forked from it."""
    return min((pool.total_bytes for pool in read_pools()), default=0)


def read_pools(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> list[MemoryPool]:
    """The machine, and each group of processes that bounds this process (cgroups of either version). Empty where it is not Linux."""
    figures = _figures(proc / "meminfo")
    if "MemTotal" not in figures or "MemAvailable" not in figures:
        return []
    total, swap = figures["MemTotal"] << 10, figures.get("SwapFree", 0) << 10
    machine = MemoryPool("the machine", "MemTotal of /proc/meminfo", total, (figures["MemAvailable"] << 10) + swap)
    return [machine, *(pool for pool in _groups(proc, cgroups, swap) if pool.total_bytes < total)]


def _groups(proc: Path, cgroups: Path, swap_bytes: int) -> Iterator[MemoryPool]:
    version, path = _memory_group(proc / "self")
    limit, usage = (
        ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    root = cgroups if version == 2 else cgroups / "memory"
    parts = [part for part in path.split("/") if part and part != ".."]
    for depth in range(len(parts), -1, -1):
        directory = root.joinpath(*parts[:depth])
        bound, taken = _number(directory / limit), _number(directory / usage)
        if bound is None or taken is None:
            continue
        figures = _figures(directory / "memory.stat")
        left = bound - taken + sum(figures.get(name, 0) for name in (_V2_CACHE if version == 2 else _V1_CACHE))
        if version == 2:
            left += _swap_left(directory, swap_bytes)
        group = "/" + "/".join(parts[:depth])
        yield MemoryPool("its control group", f"{limit} of {group}", bound, max(0, left), group)


def _swap_left(directory: Path, of_machine: int) -> int:
    """What a group of version 2 may still swap out."""
    taken, bound = _number(directory / "memory.swap.current"), _number(directory / "memory.swap.max")
    if taken is None:
        return 0
    return of_machine if bound is None else min(of_machine, max(0, bound - taken))


def _memory_group(process: Path) -> tuple[int, str]:
    """The version of control groups that bounds its memory, and the group."""
    found = (2, "")
    with contextlib.suppress(OSError):
        for line in (process / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                return 1, path
            if not controllers:
                found = (2, path)
    return found


def _figures(path: Path) -> dict[str, int]:
    """Lines of a name and a number, as in `meminfo` and `memory.stat`; empty when the file is not there."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    fields = [line.replace(":", " ").split() for line in lines]
    return {field[0]: int(field[1]) for field in fields if len(field) > 1 and field[1].isdigit()}


def _number(path: Path) -> int | None:
    """What stands in the file; ``None`` when it is not there, or says that there is no bound (`max`)."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None


def subtasks_beside(own: Collection[int], group: str) -> dict[int, int]:
    """Sizes of the machine's other subtasks, in bytes by process id: those of the control group, or all when ``group`` is empty."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.pid not in own and _is_subtask(process) and _is_in(process.pid, group):
                found[process.pid] = resident_bytes(process.pid)
    return found


def _is_in(pid: int, group: str) -> bool:
    path = _memory_group(_PROC / str(pid))[1]
    return not group or path == group or path.startswith(group.rstrip("/") + "/")


class MachineMemory:
    """Looks whether memory runs short. ``size_bytes``: what the subtasks of a TaskManager may have together, 0: no such bound.
    ``reserve_bytes``: -1: a part of what there is."""

    def __init__(self, size_bytes: int = 0, reserve_bytes: int = -1) -> None:
        self._size_bytes, self._reserve_bytes = size_bytes, None if reserve_bytes < 0 else reserve_bytes
        self.interval_s = CALM_S
        """Seconds until the next look."""

    def look(self, own: Collection[int], siblings: Collection[int] = ()) -> Overrun | None:
        """The process of ``own`` that has to end, if one has. ``siblings``: others that share the size. Reads some files; the processes of
        the machine only where memory is short."""
        pools = read_pools()
        family: dict[int, int] = {}
        if self._size_bytes and pools:
            family = {pid: resident_bytes(pid) for pid in {*own, *siblings}}
            left = max(0, self._size_bytes - sum(family.values()))
            pools.append(MemoryPool("its TaskManager", MACHINE_SIZE.key, self._size_bytes, left))
        self.interval_s = decide_interval_s(pools, self._reserve_bytes)
        short = decide_short(pools, self._reserve_bytes)
        if short is None:
            return None
        is_set = short.source == MACHINE_SIZE.key
        found = family if is_set else {pid: resident_bytes(pid) for pid in own} | subtasks_beside(own, short.group)
        largest = decide_largest(short, found, own)
        if largest is None:
            return None
        advice = f"raise {MACHINE_SIZE.key}" if is_set else "give it more memory, or run fewer subtasks there"
        reserve = decide_reserve(short.total_bytes, self._reserve_bytes)
        return Overrun(largest, found[largest], len(found), short, reserve, advice)


def siblings() -> list[int]:
    """This process, and what was forked beside it: the subtasks of its executor."""
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(os.getppid()).children() if _is_subtask(child)]
    return [os.getpid()]


def _is_subtask(process: psutil.Process) -> bool:
    """Raises ``psutil.Error`` when it is gone, or not to be seen."""
    return " ".join(process.cmdline()).startswith(TITLE)
