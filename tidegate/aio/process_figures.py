"""What a process has and uses: memory, CPU, threads. JobManager and TaskManager tell it of themselves."""

from __future__ import annotations

from collections.abc import Mapping

import psutil

_NANOS_PER_S = 1_000_000_000


def process_figures(process: psutil.Process | None = None) -> Mapping[str, float]:
    """Resident bytes, CPU time in nanoseconds, threads; of this process by default. Empty when it is gone."""
    try:
        found = process if process is not None else psutil.Process()
        with found.oneshot():
            times = found.cpu_times()
            return {
                "Status.Process.Memory.Resident": float(found.memory_info().rss),
                "Status.Process.CPU.Time": (times.user + times.system) * _NANOS_PER_S,
                "Status.Process.Threads.Count": float(found.num_threads()),
            }
    except psutil.Error:
        return {}
