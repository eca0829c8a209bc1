"""What this TaskManager has and uses: its own process, its JVM, and its subtasks' processes. Looked at every few seconds, in a
thread, because a JVM that collects garbage answers late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import psutil

from tidegate.aio.pool import Pool
from tidegate.aio.process_figures import process_figures
from tidegate.taskmanager.service.subtasks.slot_memory import SlotMemory, resident_bytes
from tidegate.taskmanager.service.task_executor import TaskExecutor
from tidegate.taskmanager.spark.jvm_figures import jvm_figures
from tidegate.taskmanager.spark.session import Session

INTERVAL_S = 5.0
"""Chosen, not measured: half of Flink's default of ``heartbeat.interval``, which carries them on."""


class ProcessMetrics:
    """Tells the executor, which tells the JobManager with its next heartbeat."""

    def __init__(self, session: Session, executor: TaskExecutor, memory: SlotMemory, slots: int, pool: Pool) -> None:
        self._session = session
        self._executor = executor
        self._managed_bytes = memory.managed_bytes * slots
        self._pool = pool
        self._jvm: psutil.Process | None = None

    def start(self) -> Callable[[], None]:
        """Begin to look; returns how to stop."""
        task = asyncio.create_task(self._watch(), name="process metrics")

        def stop() -> None:
            task.cancel()

        return stop

    async def _watch(self) -> None:
        while True:
            pids = [pid for tasks in self._executor.local_pids().values() for pid in tasks.values()]
            self._executor.measures.process_measured(await self._pool.submit(partial(self._look, pids)))
            await asyncio.sleep(INTERVAL_S)

    def _look(self, pids: list[int]) -> Mapping[str, float]:
        machine = psutil.virtual_memory()
        found = {
            **process_figures(),
            "System.CPU.Count": float(psutil.cpu_count() or 1),
            "System.Memory.Total": float(machine.total),
            "System.Memory.Available": float(machine.available),
            "Status.Subtasks.Count": float(len(pids)),
            "Status.Subtasks.Memory.Resident": float(sum(resident_bytes(pid) for pid in pids)),
            "Status.Flink.Memory.Managed.Total": float(self._managed_bytes),
        }
        return {**found, **self._cpu_of_jvm(), **jvm_figures(self._session.context)}

    def _cpu_of_jvm(self) -> Mapping[str, float]:
        """Its load is of the time since the last look, as a share of this machine's CPUs."""
        try:
            if self._jvm is None:
                self._jvm = psutil.Process(self._session.jvm_pid)
                self._jvm.cpu_percent()  # the first answer is of no time at all
            load = self._jvm.cpu_percent() / 100 / (psutil.cpu_count() or 1)
        except psutil.Error:
            return {}
        return {
            "Status.JVM.CPU.Load": load,
            "Status.JVM.CPU.Time": process_figures(self._jvm)["Status.Process.CPU.Time"],
        }
