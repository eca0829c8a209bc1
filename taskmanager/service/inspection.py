"""The gRPC service for inspecting this TaskManager (``TaskManagerInspection``): log files, and threads of this process and its subtasks.

DumpThreads ─▶ own threads
           └─▶ control stream of each subtask ─▶ its reading thread, also while the mailbox is busy ─▶ Threads
SampleStacks ─▶ control streams of those that are named ─▶ a thread for it, some seconds ─▶ Stacks
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

from tidegate.aio import inspection
from tidegate.aio.pool import Pool
from tidegate.aio.rpc import BLOB_CHUNK_BYTES, ServerContext, abort
from tidegate.model.errors import StorageError
from tidegate.model.ids import AllocationId, AttemptId
from tidegate.pb import common_pb2, subtask_pb2, taskmanager_pb2, taskmanager_pb2_grpc

T = TypeVar("T")

MAX_WAIT_MS = 5_000
"""Most milliseconds to wait for subtasks' answers. Chosen, not measured: half of the time for which the JobManager waits."""
_DUMP = subtask_pb2.ToSubtask(dump_threads=subtask_pb2.ToSubtask.DumpThreads())


class Stream(Protocol):
    """The control stream of a subtask, for sending."""

    def send(self, message: subtask_pb2.ToSubtask) -> None: ...


class SubtaskAnswers(Generic[T]):
    """Requests to subtasks that wait for their answers."""

    def __init__(self) -> None:
        self._waiting: dict[AttemptId, list[asyncio.Future[Sequence[T]]]] = {}

    def answered(self, attempt: AttemptId, answer: Iterable[T]) -> None:
        """Takes the answer of a subtask."""
        found = list(answer)
        for waiting in self._waiting.pop(attempt, ()):
            if not waiting.done():
                waiting.set_result(found)

    async def take(
        self, streams: Mapping[AttemptId, Stream], wait_ms: int, question: subtask_pb2.ToSubtask
    ) -> dict[AttemptId, Sequence[T]]:
        """Sends a request to all given subtasks; returns the answers. Those that do not answer in time are absent."""
        futures = {attempt: self._ask(attempt, stream, question) for attempt, stream in streams.items()}
        if futures:
            await asyncio.wait(futures.values(), timeout=wait_ms / 1000)
        for attempt, waiting in futures.items():
            self._forget(attempt, waiting)
        return {attempt: waiting.result() for attempt, waiting in futures.items() if not waiting.cancelled()}

    def _ask(self, attempt: AttemptId, stream: Stream, question: subtask_pb2.ToSubtask) -> asyncio.Future[Sequence[T]]:
        waiting: asyncio.Future[Sequence[T]] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(attempt, []).append(waiting)
        stream.send(question)
        return waiting

    def _forget(self, attempt: AttemptId, waiting: asyncio.Future[Sequence[T]]) -> None:
        waiting.cancel()  # one that was answered stays as it is
        of_attempt = self._waiting.get(attempt)
        if of_attempt is not None and waiting in of_attempt:
            of_attempt.remove(waiting)
            if not of_attempt:
                del self._waiting[attempt]


ThreadDumps: TypeAlias = SubtaskAnswers[common_pb2.ThreadInfo]
StackSamples: TypeAlias = SubtaskAnswers[common_pb2.SampledStack]


class Inspected(Protocol):
    """The methods of the task executor that this service uses."""

    dumps: ThreadDumps
    samples: StackSamples

    def streams(self) -> Mapping[AttemptId, Stream]: ...
    def task_name(self, attempt: AttemptId) -> str: ...
    def local_pids(self) -> Mapping[AllocationId, Mapping[AttemptId, int]]: ...


ReadStacks = Callable[[AttemptId, int], str]
"""Reads the stacks of a process that does not answer, in another way: ``(attempt, pid)``. Returns an empty text if there are none. Blocks."""


class InspectionService(taskmanager_pb2_grpc.TaskManagerInspectionServicer):
    """Implements the service. ``files``: the pool in which files are read, outside of the loop."""

    def __init__(self, executor: Inspected, files: Pool, stacks: ReadStacks) -> None:
        self._executor = executor
        self._files = files
        self._stacks = stacks

    async def ListLogs(self, request: taskmanager_pb2.ListLogsRequest, context: object) -> taskmanager_pb2.LogFiles:
        found = await self._files.submit(inspection.log_files)
        return taskmanager_pb2.LogFiles(
            files=[
                taskmanager_pb2.LogFiles.LogFile(
                    name=file.name, size_bytes=file.size_bytes, modified_ms=file.modified_ms
                )
                for file in found
            ]
        )

    async def ReadLog(
        self, request: taskmanager_pb2.ReadLogRequest, context: ServerContext
    ) -> AsyncIterator[common_pb2.BlobChunk]:
        try:
            content = await self._files.submit(_reader(request))
        except StorageError as error:
            await abort(context, error)
        for start in range(0, len(content), BLOB_CHUNK_BYTES):
            yield common_pb2.BlobChunk(data=content[start : start + BLOB_CHUNK_BYTES])

    async def DumpThreads(
        self, request: taskmanager_pb2.DumpThreadsRequest, context: object
    ) -> taskmanager_pb2.ThreadDump:
        own = [common_pb2.ThreadInfo(name=thread.name, stack=thread.stack) for thread in inspection.thread_dump()]
        wait_ms = min(request.wait_ms, MAX_WAIT_MS)
        of_subtasks = await self._executor.dumps.take(self._executor.streams(), wait_ms, _DUMP)
        named = [
            common_pb2.ThreadInfo(name=f"{self._executor.task_name(attempt)} {thread.name}", stack=thread.stack)
            for attempt, threads in of_subtasks.items()
            for thread in threads
        ]
        return taskmanager_pb2.ThreadDump(threads=[*named, *await self._silent(set(of_subtasks)), *own])

    async def _silent(self, answered: set[AttemptId]) -> list[common_pb2.ThreadInfo]:
        """Returns the threads of subtasks on this machine that did not answer, each process as one text, innermost frame first."""
        found = []
        for attempt, pid in ((a, p) for of_slot in self._executor.local_pids().values() for a, p in of_slot.items()):
            if attempt not in answered and (text := await self._files.submit(lambda: self._stacks(attempt, pid))):  # noqa: B023
                name = f"{self._executor.task_name(attempt)} holds its interpreter in native code"
                found.append(common_pb2.ThreadInfo(name=name, stack=f'"{name}" pid={pid}\n{text}\n'))
        return found

    async def SampleStacks(
        self, request: taskmanager_pb2.SampleStacksRequest, context: object
    ) -> taskmanager_pb2.StackSamples:
        wanted, options = set(request.attempts), request.options
        streams = {attempt: s for attempt, s in self._executor.streams().items() if str(attempt) in wanted}
        wait_ms = options.samples * options.delay_ms + MAX_WAIT_MS
        question = subtask_pb2.ToSubtask(sample_stacks=options)
        found = await self._executor.samples.take(streams, wait_ms, question)
        return taskmanager_pb2.StackSamples(
            subtasks=[
                taskmanager_pb2.StackSamples.OfSubtask(attempt=str(attempt), stacks=stacks)
                for attempt, stacks in found.items()
            ]
        )


def _reader(request: taskmanager_pb2.ReadLogRequest) -> Callable[[], bytes]:
    match request.WhichOneof("file"):
        case "own_log":
            return inspection.read_own_log
        case "stdout":
            return inspection.read_stdout
        case _:
            return lambda: inspection.read_log(request.name)
