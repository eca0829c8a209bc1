"""Starts TaskManagers in the executors of a Spark cluster. One local process drives the cluster for all of them.

It is started with the first worker, and outlives a JobManager that is killed.

    start, stop ─▶ wanted ──DeclareWorkers, as a whole, at every change and every ASK_S──▶ TaskManager process ──▶ Spark
                   ended  ◀──────────────── which of them are there ──────────────────────
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from pathlib import Path

from tidegate.aio.rpc import call, open_channel
from tidegate.aio.transport import PLAIN, Transport
from tidegate.jobmanager.service.workers.port import Ended, WorkerDriver
from tidegate.model.errors import ExternalError
from tidegate.model.ids import TaskManagerId
from tidegate.pb import taskmanager_pb2, taskmanager_pb2_grpc

_log = logging.getLogger("jobmanager")
HOST = TaskManagerId("spark-host")
"""The id of that process in the names of its pid file and its log."""
ASK_S = 0.5
"""The seconds between two requests to the process for the workers that have ended. Chosen, not measured."""
ANSWER_S = 10.0
"""The timeout of a call to the process, in seconds. Chosen, not measured: it answers from memory."""


class SparkDriver:
    """Starts and stops workers as Spark executors. Belongs to the loop's thread. Call ``attach`` before ``find``."""

    def __init__(self, address_file: Path, slots: int, ended: Ended, transport: Transport = PLAIN) -> None:
        self._address_file = address_file
        self._slots = slots
        self._ended, self._transport = ended, transport
        self._processes: WorkerDriver | None = None
        self._wanted: set[TaskManagerId] = set()
        self._stopping: set[TaskManagerId] = set()
        self._is_running = False
        self._news = asyncio.Event()
        self._asking: asyncio.Task[None] | None = None

    def attach(self, processes: WorkerDriver) -> None:
        """Sets the driver that runs the local process; its end must be reported to ``on_host_ended``."""
        self._processes = processes

    @property
    def processes(self) -> WorkerDriver:
        assert self._processes is not None
        return self._processes

    def on_host_ended(self, _: TaskManagerId, detail: str) -> None:
        """Reports all workers as ended, because the local process has ended. The next start starts another one."""
        self._is_running = False
        lost = [*self._wanted, *self._stopping]
        self._wanted.clear()
        self._stopping.clear()
        for worker_id in sorted(lost):
            self._ended(worker_id, f"the TaskManager process that drives Spark has ended: {detail}")

    async def find(self) -> Sequence[TaskManagerId]:
        self._is_running = bool(await self.processes.find())
        if self._is_running:
            answer = await self._ask(taskmanager_pb2.DeclareWorkersRequest(is_question=True))
            if answer is not None:
                self._wanted = {TaskManagerId(w.worker_id) for w in answer.workers if w.state in ("WAITING", "OPEN")}
        self._asking = asyncio.create_task(self._keep_asking())
        return tuple(sorted(self._wanted))

    async def start(self, worker_id: TaskManagerId, slots: int) -> None:
        self._wanted.add(worker_id)
        self._news.set()
        if not self._is_running:
            self._is_running = True
            with contextlib.suppress(OSError):  # of one that was killed
                self._address_file.unlink()
            await self.processes.start(HOST, self._slots)

    async def stop(self, worker_id: TaskManagerId) -> None:
        if worker_id in self._wanted:
            self._wanted.discard(worker_id)
            self._stopping.add(worker_id)
            self._news.set()

    async def close(self, *, stop_all: bool) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self.processes.close(stop_all=stop_all)

    async def _keep_asking(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(
                    ASK_S
                ):  # `wait_for` of Python 3.11 loses a cancellation that comes with news
                    await self._news.wait()
            self._news.clear()
            if self._is_running and self._address_file.exists():
                declared = sorted(self._wanted)
                answer = await self._ask(taskmanager_pb2.DeclareWorkersRequest(worker_ids=declared))
                if answer is not None:
                    self._compare(declared, answer)

    def _compare(self, declared: Sequence[TaskManagerId], answer: taskmanager_pb2.HostedWorkers) -> None:
        """Reports workers that have ended. One that was added after the question is not in the answer yet."""
        there = {TaskManagerId(worker.worker_id): worker for worker in answer.workers}
        for worker_id in declared:
            found = there.get(worker_id)
            if worker_id in self._wanted and (found is None or found.state == "ENDED"):
                self._wanted.discard(worker_id)
                self._ended(worker_id, found.detail if found is not None and found.detail else "it has ended")
        for worker_id in sorted(self._stopping - there.keys() - set(declared)):
            self._stopping.discard(worker_id)
            self._ended(worker_id, "its executor was given back")

    async def _ask(self, request: taskmanager_pb2.DeclareWorkersRequest) -> taskmanager_pb2.HostedWorkers | None:
        """Calls the local process; ``None`` when it does not answer. Its end is reported by ``processes``."""
        try:
            address = self._address_file.read_text(encoding="ascii")
            async with open_channel(address, self._transport) as channel:
                stub = taskmanager_pb2_grpc.ExecutorHostStub(channel)
                return await call(stub.DeclareWorkers(request, timeout=ANSWER_S), f"the process at {address}")
        except (OSError, ExternalError) as error:
            _log.debug("executors are not asked for now: %s", error)
            return None
