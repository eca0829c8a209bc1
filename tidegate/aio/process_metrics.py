"""Metrics of a process: memory, CPU, threads, files. JobManager and TaskManager report their own, a TaskManager also those of its JVM."""

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
"""The shortest interval of measurement, in ms. Chosen, not measured: the load over less time says little, and several readers may ask at once."""
_FLINK = "Status.JVM"


def process_metrics(process: psutil.Process | None = None) -> Mapping[str, float]:
    """Returns the resident bytes, CPU time in nanoseconds and threads of a process; of this one by default, then also the seconds until its
    certificates expire. Empty when the process has ended."""
    try:
        found = process if process is not None else psutil.Process()
        with found.oneshot():
            times = found.cpu_times()
            return {
                "Status.Process.Memory.Resident": float(found.memory_info().rss),
                "Status.Process.CPU.Time": (times.user + times.system) * _NANOS_PER_S,
                "Status.Process.Threads.Count": float(found.num_threads()),
                **(EXPIRIES.metrics(datetime.now(UTC)) if process is None else {}),
            }
    except psutil.Error:
        return {}


class StatusMetrics:
    """Measures a process under Flink's names of JVM metrics (``Status.JVM.CPU.Load``, ``.FileDescriptor.Open``, ...), as far as they apply to any
    process. Loads are averages since the previous call, as a share of this machine's processors, and absent in the first one."""

    def __init__(self, pid: int | None = None) -> None:
        """Measures the process ``pid``; this one by default. Raises ``psutil.NoSuchProcess``."""
        self._process = psutil.Process(pid)
        self._processors = psutil.cpu_count() or 1
        self._process.cpu_percent()  # its first answer is about no time at all

    def look(self) -> dict[str, float]:
        """Returns the current metrics of the measured process; empty when this process has ended."""
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
        """Returns the open and the most file descriptors; only Linux reports the limit of another process."""
        if not hasattr(self._process, "rlimit"):
            return {}
        limit = self._process.rlimit(psutil.RLIMIT_NOFILE)[0]
        return {
            f"{_FLINK}.FileDescriptor.Open": float(self._process.num_fds()),
            f"{_FLINK}.FileDescriptor.Max": float(limit),
        }


class CollectorMetrics:
    """Measures Python's garbage collector in this process, under Flink's name for all collectors of a JVM together."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Counts collections from now on until ``close``. ``clock``: in seconds."""
        self._clock = clock
        self._count = 0
        self._spent_ms = self._began_s = 0.0
        self._rate = CollectorRate()
        gc.callbacks.append(self._on_collection)

    def look(self, now_ms: float) -> dict[str, float]:
        return collector_metrics("All", self._count, self._spent_ms, self._rate.per_second(self._spent_ms, now_ms))

    def close(self) -> None:
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _: Mapping[str, int]) -> None:
        if phase == "start":
            self._began_s = self._clock()
        else:
            self._count += 1
            self._spent_ms += (self._clock() - self._began_s) * 1000


class CollectorRate:
    """Calculates the milliseconds of garbage collection per second between two calls."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None

    def per_second(self, spent_ms: float, now_ms: float) -> float:
        """Returns the milliseconds of collection per second since the previous call; 0 in the first one, as in Flink."""
        before, self._before = self._before, (spent_ms, now_ms)
        if before is None or now_ms <= before[1]:
            return 0.0
        return max(0.0, spent_ms - before[0]) * 1000 / (now_ms - before[1])


def collector_metrics(name: str, count: float, spent_ms: float, per_second: float) -> dict[str, float]:
    """Returns Flink's three metrics of a garbage collector."""
    scope = f"{_FLINK}.GarbageCollector.{name}"
    return {f"{scope}.Count": float(count), f"{scope}.Time": float(spent_ms), f"{scope}.TimeMsPerSecond": per_second}


class OwnProcess:
    """All metrics of this process, which is not a JVM: its resident memory stands for the heap, the machine's memory for the most heap. Measures at
    most once a second."""

    def __init__(self, now_ms: Callable[[], float] = lambda: time.monotonic() * 1000) -> None:
        self._now_ms = now_ms
        self._seen = StatusMetrics()
        self._collected = CollectorMetrics()
        self._looked_ms = -math.inf
        self._last: Mapping[str, float] = {}

    def look(self) -> Mapping[str, float]:
        now_ms = self._now_ms()
        if now_ms - self._looked_ms >= _LOOK_AGAIN_MS:
            self._looked_ms = now_ms
            own = process_metrics()
            heap = {
                f"{_FLINK}.Memory.Heap.Used": own.get("Status.Process.Memory.Resident", 0.0),
                f"{_FLINK}.Memory.Heap.Max": float(psutil.virtual_memory().total),
            }
            self._last = {**own, **heap, **self._seen.look(), **self._collected.look(now_ms)}
        return self._last

    def close(self) -> None:
        """Stops counting collections."""
        self._collected.close()
