"""The JobManager asks a TaskManager for its logs and threads, over gRPC."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from tidegate.aio.logs import LineFormatter
from tidegate.aio.pool import Pool
from tidegate.aio.rpc import start_server
from tidegate.jobmanager.service.task_managers.inspection import Inspector
from tidegate.model.errors import StorageError, Unreachable
from tidegate.model.ids import AllocationId, AttemptId, parse_attempt_id
from tidegate.pb import subtask_pb2
from tidegate.pb.common_pb2 import SampledStack, SampleStacksOptions, ThreadInfo
from tidegate.pb.taskmanager_pb2_grpc import add_TaskManagerInspectionServicer_to_server
from tidegate.taskmanager.service.inspection import InspectionService, StackSamples, Stream, ThreadDumps

ANSWERS, IS_SILENT = (parse_attempt_id(f"{'a' * 32}_{'b' * 32}_{index}_0") for index in (0, 1))


class Subtask:
    """Answers a request for its threads, or does not."""

    def __init__(self, attempt: AttemptId, executor: Executor) -> None:
        self._attempt = attempt
        self._executor = executor

    def send(self, message: subtask_pb2.ToSubtask) -> None:
        if self._attempt != ANSWERS:
            return
        if message.HasField("sample_stacks"):
            stack = SampledStack(frames=["step", "map"], count=message.sample_stacks.samples, on_cpu=True)
            self._executor.samples.answered(self._attempt, [stack])
        else:
            assert message.HasField("dump_threads")
            self._executor.dumps.answered(self._attempt, [ThreadInfo(name="mailbox", stack="in step()")])


class Executor:
    def __init__(self) -> None:
        self.dumps, self.samples = ThreadDumps(), StackSamples()

    def streams(self) -> Mapping[AttemptId, Stream]:
        return {attempt: Subtask(attempt, self) for attempt in (ANSWERS, IS_SILENT)}

    def local_pids(self) -> Mapping[AllocationId, Mapping[AttemptId, int]]:
        return {AllocationId("c" * 32): {ANSWERS: 1, IS_SILENT: 2}}

    def task_name(self, attempt: AttemptId) -> str:
        return f"window ({attempt.subtask + 1}/2)"


@asynccontextmanager
async def task_manager(stacks: str = "") -> AsyncIterator[tuple[grpc.aio.Server, str]]:
    files = Pool(1, "inspection")
    service = InspectionService(Executor(), files, lambda attempt, pid: stacks)

    def register(server: grpc.aio.Server) -> None:
        add_TaskManagerInspectionServicer_to_server(service, server)

    server, port = await start_server("localhost", 0, register, "TaskManager")
    try:
        yield server, f"localhost:{port}"
    finally:
        await server.stop(0)
        files.close()


async def test_logs_are_listed_and_read(tmp_path: Path) -> None:
    handler = logging.FileHandler(tmp_path / "taskmanager.log", encoding="utf-8")
    handler.setFormatter(LineFormatter())
    (tmp_path / "taskmanager.out").write_text("printed\n", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("no log\n", encoding="utf-8")
    logging.getLogger().addHandler(handler)
    inspector = Inspector()
    try:
        logging.getLogger("test").warning("what happened")
        async with task_manager() as (_, address):
            assert [file.name for file in await inspector.logs(address)] == ["taskmanager.log", "taskmanager.out"]
            assert b"what happened" in await inspector.read_own_log(address)
            assert await inspector.read_stdout(address) == b"printed\n"
            assert await inspector.read_log(address, "taskmanager.out") == b"printed\n"
            for name in ("secret.txt", "../taskmanager.out", ""):
                with pytest.raises(StorageError, match="no log file"):
                    await inspector.read_log(address, name)
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


async def test_a_process_that_logs_to_its_terminal_says_so() -> None:
    inspector = Inspector()
    async with task_manager() as (_, address):
        assert await inspector.logs(address) == []
        for read in (inspector.read_own_log, inspector.read_stdout):
            with pytest.raises(StorageError, match="terminal"):
                await read(address)


async def test_threads_of_subtasks_stand_before_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.jobmanager.service.task_managers.inspection.SUBTASK_WAIT_MS", 1)
    async with task_manager() as (_, address):
        first, *own = await Inspector().threads(address)
    assert (first.name, first.stack) == ("window (1/2) mailbox", "in step()")
    assert any(thread.name == "MainThread" and "Id=" in thread.stack for thread in own)
    assert not any(thread.name.startswith("window (2/2)") for thread in own), "one that is silent is left out"


async def test_the_threads_of_a_subtask_that_cannot_answer_are_read_by_a_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegate.jobmanager.service.task_managers.inspection.SUBTASK_WAIT_MS", 1)
    async with task_manager("File job.py, line 7 in spins") as (_, address):
        _, silent, *_ = await Inspector().threads(address)
    assert silent.name == "window (2/2) holds its interpreter in native code"
    assert silent.stack == '"window (2/2) holds its interpreter in native code" pid=2\nFile job.py, line 7 in spins\n'


async def test_a_task_manager_that_is_gone() -> None:
    async with task_manager() as (server, address):
        await server.stop(0)
        with pytest.raises(Unreachable):
            await Inspector().threads(address)


async def test_stacks_of_those_that_answer_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.taskmanager.service.inspection.MAX_WAIT_MS", 50)
    async with task_manager() as (_, address):
        options = SampleStacksOptions(samples=7, delay_ms=1, depth=10)
        found = await Inspector().sample(address, [ANSWERS, IS_SILENT], options)
    assert {attempt: [(list(s.frames), s.count) for s in stacks] for attempt, stacks in found.items()} == {
        ANSWERS: [(["step", "map"], 7)]
    }
