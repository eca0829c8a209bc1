"""What a process has and uses: memory, CPU, threads, files. JobManager and TaskManager report it of themselves, a TaskManager
also of its JVM."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import psutil

from tidegate.security.expiry import EXPIRIES

_NANOS_PER_S = 1_000_000_000
_LOOK_AGAIN_MS = 1_000.0
"""Chosen, not measured: a load over less time says little, and several readers may ask at the same time."""
_FLINK = "Status.JVM"


def process_figures(process: psutil.Process | None = None) -> Mapping[str, float]:
    """Resident bytes, CPU time in nanoseconds, threads; of this process by default, and then with the seconds for which its certificates are still valid.
    Empty when it is gone."""
    try:
        found = process if process is not None else psutil.Process()
        with found.oneshot():
            times = found.cpu_times()
            return {
                "Status.Process.Memory.Resident": float(found.memory_info().rss),
                "Status.Process.CPU.Time": (times.user + times.system) * _NANOS_PER_S,
                "Status.Process.Threads.Count": float(found.num_threads()),
                **(EXPIRIES.figures(datetime.now(UTC)) if process is None else {}),
            }
    except psutil.Error:
        return {}


class FlinkFigures:
    """What Flink says of a JVM and any process has, under Flink's names (``Status.JVM.CPU.Load``, ``.FileDescriptor.Open``, ...).
    Loads are over the time since the call before, as a share of this machine's processors, and absent in the first one."""

    def __init__(self, pid: int | None = None) -> None:
        """``pid``: this process by default. Raises ``psutil.NoSuchProcess``."""
        self._process = psutil.Process(pid)
        self._processors = psutil.cpu_count() or 1
        self._process.cpu_percent()  # its first answer is about no time at all

    def look(self) -> dict[str, float]:
        """Empty when the process is gone."""
        try:
            with self._process.oneshot():
                times = self._process.cpu_times()
                found = {
                    f"{_FLINK}.CPU.Time": (times.user + times.system) * _NANOS_PER_S,
                    f"{_FLINK}.CPU.Load": self._process.cpu_percent() / 100 / self._processors,
                    f"{_FLINK}.Threads.Count": float(self._process.num_threads()),
                }
                return found | self._descriptors()
        except psutil.Error:
            return {}

    def _descriptors(self) -> dict[str, float]:
        """Linux alone reports the limit of another process."""
        if not hasattr(self._process, "rlimit"):
            return {}
        limit = self._process.rlimit(psutil.RLIMIT_NOFILE)[0]
        return {
            f"{_FLINK}.FileDescriptor.Open": float(self._process.num_fds()),
            f"{_FLINK}.FileDescriptor.Max": float(limit),
        }


class CollectorFigures:
    """Python's collector of cycles in this process, under the name that Flink has for all collectors of a JVM together."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """``clock`` in seconds. Collections are counted from here on, until ``close``."""
        self._clock = clock
        self._count = 0
        self._spent_ms = self._began_s = 0.0
        self._rate = CollectorRate()
        gc.callbacks.append(self._on_collection)

    def look(self, now_ms: float) -> dict[str, float]:
        return collector_figures("All", self._count, self._spent_ms, self._rate.per_second(self._spent_ms, now_ms))

    def close(self) -> None:
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _: Mapping[str, int]) -> None:
        if phase == "start":
            self._began_s = self._clock()
        else:
            self._count += 1
            self._spent_ms += (self._clock() - self._began_s) * 1000


class CollectorRate:
    """Milliseconds of collection for each second between two looks."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None

    def per_second(self, spent_ms: float, now_ms: float) -> float:
        """0 in the first look, as in Flink."""
        before, self._before = self._before, (spent_ms, now_ms)
        if before is None or now_ms <= before[1]:
            return 0.0
        return max(0.0, spent_ms - before[0]) * 1000 / (now_ms - before[1])


def collector_figures(name: str, count: float, spent_ms: float, per_second: float) -> dict[str, float]:
    """The three figures that Flink has of each garbage collector."""
    scope = f"{_FLINK}.GarbageCollector.{name}"
    return {f"{scope}.Count": float(count), f"{scope}.Time": float(spent_ms), f"{scope}.TimeMsPerSecond": per_second}


class OwnProcess:
    """All of it about this process, which is no JVM: its resident memory stands for the heap, the machine's for what the heap may
    grow to. Looks at most once a second; readers between two looks get the last one."""

    def __init__(self, now_ms: Callable[[], float] = lambda: time.monotonic() * 1000) -> None:
        self._now_ms = now_ms
        self._seen = FlinkFigures()
        self._collected = CollectorFigures()
        self._looked_ms = -math.inf
        self._last: Mapping[str, float] = {}

    def look(self) -> Mapping[str, float]:
        now_ms = self._now_ms()
        if now_ms - self._looked_ms >= _LOOK_AGAIN_MS:
            self._looked_ms = now_ms
            own = process_figures()
            heap = {
                f"{_FLINK}.Memory.Heap.Used": own.get("Status.Process.Memory.Resident", 0.0),
                f"{_FLINK}.Memory.Heap.Max": float(psutil.virtual_memory().total),
            }
            self._last = {**own, **heap, **self._seen.look(), **self._collected.look(now_ms)}
        return self._last

    def close(self) -> None:
        """Ends the count of collections."""
        self._collected.close()
