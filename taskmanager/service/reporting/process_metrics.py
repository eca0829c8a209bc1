"""Measures this TaskManager's process, its JVM and its subtasks' processes every few seconds, in a thread, because a JVM that collects garbage answers late."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial

import psutil

from tidegate.aio.pool import Pool
from tidegate.aio.process_metrics import StatusMetrics, process_metrics
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.taskmanager.spark.jvm_metrics import JvmCollectors, jvm_metrics
from tidegate.taskmanager.spark.memory.limits import resident_bytes
from tidegate.taskmanager.spark.session import Session
from tidegate.wire.task_metrics import INPUT, OUTPUT

INTERVAL_S = 5.0
"""Seconds between two measurements. Chosen, not measured: half of Flink's default of ``heartbeat.interval``, which carries them on."""

_SEGMENT_BYTES = 32 << 10
"""Flink's default of ``taskmanager.memory.segment-size``, the unit in which network memory is reported. Frames have sizes of their own."""
_NETWORK_TOTAL = "Status.Flink.Memory.Network.Total"


def queued_bytes(metrics: Mapping[str, float]) -> float:
    """Returns the bytes that wait in the channels of a subtask."""
    return metrics.get(f"{INPUT}.Buffers.inputQueueSize", 0.0) + metrics.get(f"{OUTPUT}.Buffers.outputQueueSize", 0.0)


def network_memory(total: float, used: float) -> dict[str, float]:
    """Returns the metrics of network memory: bytes, segments, and the used percentage. ``total``: 0 if it has no bound; then it is what is used."""
    total = max(total, used)
    parts = {"Total": total, "Used": used, "Available": total - used}
    scope = "Status.Shuffle.Netty"
    return {
        **{f"{scope}.{part}Memory": size for part, size in parts.items()},
        **{f"{scope}.{part}MemorySegments": size // _SEGMENT_BYTES for part, size in parts.items()},
        f"{scope}.RequestedMemoryUsage": 100 * used // total if total else 0.0,
    }


class ProcessMetrics:
    """Measures the process, and passes the metrics to the executor, whose next heartbeat reports them."""

    def __init__(self, session: Session, executor: TaskExecutor, memory: SlotMemory, slots: int, pool: Pool) -> None:
        self._session = session
        self._executor = executor
        self._bounds = {
            "Status.Flink.Memory.Managed.Total": float(memory.managed_bytes * slots),
            _NETWORK_TOTAL: float(memory.network_bytes * slots),
        }
        self._pool = pool
        self._jvm: StatusMetrics | None = None
        self._collectors = JvmCollectors()

    def start(self) -> Callable[[], None]:
        """Begins to measure. Returns a function that stops it."""
        task = asyncio.create_task(self._watch(), name="process metrics")

        def stop() -> None:
            task.cancel()

        return stop

    async def _watch(self) -> None:
        while True:
            pids = [pid for tasks in self._executor.local_pids().values() for pid in tasks.values()]
            found = await self._pool.submit(partial(self._measure, pids))
            queued = sum(queued_bytes(readings.later[1].figures) for _, readings in self._executor.measured())
            self._executor.measures.process_measured({**found, **network_memory(found[_NETWORK_TOTAL], queued)})
            await asyncio.sleep(INTERVAL_S)

    def _measure(self, pids: list[int]) -> Mapping[str, float]:
        machine = psutil.virtual_memory()
        found = {
            **process_metrics(),
            "System.CPU.Count": float(psutil.cpu_count() or 1),
            "System.Memory.Total": float(machine.total),
            "System.Memory.Available": float(machine.available),
            "Status.Subtasks.Count": float(len(pids)),
            "Status.Subtasks.Memory.Resident": float(sum(resident_bytes(pid) for pid in pids)),
            **self._bounds,
        }
        collected = self._collectors.look(self._session.context._jvm, time.monotonic() * 1000)
        return {**found, **self._seen_from_outside(), **jvm_metrics(self._session.context), **collected}

    def _seen_from_outside(self) -> Mapping[str, float]:
        try:
            if self._jvm is None:
                self._jvm = StatusMetrics(self._session.jvm_pid)
        except psutil.Error:
            return {}
        return self._jvm.look()
