"""Determines from Linux how much memory the machine has left and which subtasks use it; on other systems no shortage is found.

Memory that the kernel can reclaim does not count as used: the page cache, including mapped files.
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
"""Start of the process title of every subtask, of any TaskManager."""
MACHINE_SIZE = RuntimeOptions.MACHINE_SIZE
_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_V1_CACHE = ("total_inactive_file", "total_active_file")
_V2_CACHE = ("inactive_file", "active_file", "slab_reclaimable")


@cache
def total_bytes() -> int:
    """Returns the memory of the machine, or of the control group that bounds this process, if that is less; 0 when the system does not report it. The first
    result is kept for this process and those forked from it.
    """
    return min((pool.total_bytes for pool in read_pools()), default=0)


def read_pools(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> list[MemoryPool]:
    """Returns the memory pools that bound this process: the machine, and each control group (version 1 or 2) with a lower limit. Empty if this is not Linux."""
    statistics = _read_statistics(proc / "meminfo")
    if "MemTotal" not in statistics or "MemAvailable" not in statistics:
        return []
    total, swap = statistics["MemTotal"] << 10, statistics.get("SwapFree", 0) << 10
    machine = MemoryPool("the machine", "MemTotal of /proc/meminfo", total, (statistics["MemAvailable"] << 10) + swap)
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
        statistics = _read_statistics(directory / "memory.stat")
        left = bound - taken + sum(statistics.get(name, 0) for name in (_V2_CACHE if version == 2 else _V1_CACHE))
        if version == 2:
            left += _swap_left(directory, swap_bytes)
        group = "/" + "/".join(parts[:depth])
        yield MemoryPool("its control group", f"{limit} of {group}", bound, max(0, left), group)


def _swap_left(directory: Path, of_machine: int) -> int:
    """Returns the bytes that a control group of version 2 may still swap out."""
    taken, bound = _number(directory / "memory.swap.current"), _number(directory / "memory.swap.max")
    if taken is None:
        return 0
    return of_machine if bound is None else min(of_machine, max(0, bound - taken))


def _memory_group(process: Path) -> tuple[int, str]:
    """Returns the version of the control groups that bound the process's memory, and the path of its group."""
    found = (2, "")
    with contextlib.suppress(OSError):
        for line in (process / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                return 1, path
            if not controllers:
                found = (2, path)
    return found


def _read_statistics(path: Path) -> dict[str, int]:
    """Returns the numbers of a file whose lines are a name and a number, such as `meminfo` and `memory.stat`; empty when the file does not exist."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    fields = [line.replace(":", " ").split() for line in lines]
    return {field[0]: int(field[1]) for field in fields if len(field) > 1 and field[1].isdigit()}


def _number(path: Path) -> int | None:
    """Returns the number in a file; ``None`` when it does not exist, or has no number, such as `max`."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None


def other_subtasks(own: Collection[int], group: str) -> dict[int, int]:
    """Returns the resident bytes of the machine's other subtasks by process id: those of the control group, or all when ``group`` is empty."""
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
    """Detects a shortage of memory and picks the subtask to end. ``size_bytes``: limit on the subtasks of a TaskManager together, 0: none. ``reserve_bytes``:
    memory to keep free, -1: a share of the total.
    """

    def __init__(self, size_bytes: int = 0, reserve_bytes: int = -1) -> None:
        self._size_bytes, self._reserve_bytes = size_bytes, None if reserve_bytes < 0 else reserve_bytes
        self.interval_s = CALM_S
        """Seconds until the next look."""

    def look(self, own: Collection[int], siblings: Collection[int] = ()) -> Overrun | None:
        """Returns the process of ``own`` that must end, with the reason; ``None`` if memory is not short. ``siblings``: other processes that share the size
        limit. Reads a few files; the machine's processes only when memory is short.
        """
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
        found = family if is_set else {pid: resident_bytes(pid) for pid in own} | other_subtasks(own, short.group)
        largest = decide_largest(short, found, own)
        if largest is None:
            return None
        advice = f"raise {MACHINE_SIZE.key}" if is_set else "give it more memory, or run fewer subtasks there"
        reserve = decide_reserve(short.total_bytes, self._reserve_bytes)
        return Overrun(largest, found[largest], len(found), short, reserve, advice)


def siblings() -> list[int]:
    """Returns the process ids of the subtasks on this executor, this process included."""
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(os.getppid()).children() if _is_subtask(child)]
    return [os.getpid()]


def _is_subtask(process: psutil.Process) -> bool:
    """Tells whether a process is a subtask. Raises ``psutil.Error`` when it is gone or may not be inspected."""
    return " ".join(process.cmdline()).startswith(TITLE)
