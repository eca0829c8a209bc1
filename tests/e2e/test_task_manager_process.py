"""A real TaskManager process with a real Spark, against a JobManager that only listens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle
import psutil
import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager, slot_request
from tests.e2e.spark_standalone import Standalone, standalone
from tests.e2e.waiting import HANG_LIMIT_S
from tests.own import own_transport, sign
from tidegate.common import Types
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.print_sink import PrintSink
from tidegate.connectors.throttle import ThrottledSource
from tidegate.model.ids import OperatorId
from tidegate.model.program import ChainLink, OperatorSpec, VertexProgram
from tidegate.operator_options import SinkOptions, SourceOptions
from tidegate.pb import common_pb2, jobmanager_pb2, taskmanager_pb2

REPOSITORY = Path(__file__).resolve().parents[2]
T = TypeVar("T")
JOB = "a" * 32
VERTEX = "b" * 32
MAIN = """
import sys
from tidegate.taskmanager.service.app import run
from tidegate.aio.logs import set_up_logging
from tidegate.model.configuration import Configuration
set_up_logging()
sys.exit(run(Configuration.from_strings(dict(text.split("=", 1) for text in sys.argv[1:]))))
"""


def is_alive(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def numbers_program(records_per_second: float, end: int) -> bytes:
    """numbers -> print, in one chain."""
    source: Any = ThrottledSource(NumberSequenceSource(0, end), records_per_second)
    splits = tuple(source.list_splits(2))
    specs = (
        OperatorSpec(
            "source",
            OperatorId("c" * 32),
            "numbers",
            output_type=Types.LONG(),
            options=SourceOptions(source=source, splits=splits),
        ),
        OperatorSpec("sink", OperatorId("d" * 32), "print", (Types.LONG(),), options=SinkOptions(sink=PrintSink())),
    )
    return bytes(cloudpickle.dumps(VertexProgram(specs, (ChainLink(0, 1),))))


class RealTaskManager:
    """One process, its log, and everything below it."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, tmp: Path) -> None:
        self.process = process
        self.log = log
        self.tmp = tmp

    def family(self) -> list[psutil.Process]:
        """The JVM, the daemon and the subtasks."""
        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [process for process in found if is_alive(process)]

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")


@contextlib.asynccontextmanager
async def task_manager(tmp_path: Path, job_manager: FakeJobManager, **settings: str) -> AsyncIterator[RealTaskManager]:
    log, tmp = tmp_path / "taskmanager.log", tmp_path / "t"
    tmp.mkdir()
    texts = {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": str(job_manager.port),
        "taskmanager.numberOfTaskSlots": "2",
        "io.tmp.dirs": str(tmp),
        **{key.replace("__", "-").replace("_", "."): text for key, text in settings.items()},
    }
    arguments = [f"{key}={text}" for key, text in texts.items()]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            MAIN,
            *arguments,
            cwd=REPOSITORY,
            stdout=output,
            stderr=output,
            env={**os.environ, "TMPDIR": str(tmp)},
        )
    found = RealTaskManager(process, log, tmp)
    try:
        await job_manager.wait_for(lambda: job_manager.beats, 120)
        yield found
    except BaseException:
        print(found.text())
        raise
    finally:
        family = found.family()
        if process.returncode is None:
            process.kill()
        await process.wait()
        for child in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.fixture
async def job_manager() -> AsyncIterator[FakeJobManager]:
    fake = FakeJobManager(transport=own_transport())
    await fake.start()
    yield fake
    await fake.stop()


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory in which Unix sockets have a place: their paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="tg-") as directory:
        yield Path(directory)


def attempt_of(subtask: int, attempt: int = 0) -> str:
    return f"{JOB}_{VERTEX}_{subtask}_{attempt}"


async def deploy(fake: FakeJobManager, program: bytes, subtask: int, attempt: int = 0, **options: str) -> str:
    text, error = await ask_to_deploy(fake, program, program, subtask, attempt, **options)
    assert not error.code, error
    return text


async def ask_to_deploy(
    fake: FakeJobManager, signed: bytes, program: bytes, subtask: int, attempt: int = 0, **options: str
) -> tuple[str, common_pb2.Error]:
    """``signed``: what the client has signed; ``program``: what the TaskManager is asked to run."""
    stub = fake.task_manager()
    allocation = str(subtask) * 32
    answer = await stub.AllocateSlot(slot_request(JOB, allocation, subtask, fake.generation))
    assert not answer.HasField("error"), answer.error
    text = attempt_of(subtask, attempt)
    deployment = common_pb2.TaskDeployment(
        attempt=text,
        generation=fake.generation,
        allocation_id=allocation,
        job_name="job",
        task_name="numbers",
        parallelism=2,
        max_parallelism=128,
        program=fake.put_blob(signed),
        is_source=True,
        configuration={key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
    )
    sign(deployment)
    deployment.program = fake.put_blob(program)
    answer = await stub.SubmitTask(
        taskmanager_pb2.SubmitTaskRequest(generation=fake.generation, deployment=deployment.SerializeToString())
    )
    return text, answer.error


def subtasks_of(manager: RealTaskManager) -> list[psutil.Process]:
    """Children of the Python daemon."""
    return [process for process in manager.family() if is_subtask(process)]


def children_of(process: psutil.Process) -> set[int]:
    return {child.pid for child in process.children() if child.status() != psutil.STATUS_ZOMBIE}


def children_of_others(manager: RealTaskManager, daemon: psutil.Process) -> set[int]:
    """The subtasks that other daemons have forked."""
    found = {process.pid for process in subtasks_of(manager)}
    return found - {child.pid for child in daemon.children()}


async def until(condition: Callable[[], T | None], timeout_s: float) -> T:
    """What the condition gives when it holds; processes are looked at, for they tell nothing."""
    gives_up_at = time.monotonic() + timeout_s
    while (found := condition()) is None:
        assert time.monotonic() < gives_up_at, f"not within {timeout_s} s"
        await asyncio.to_thread(threading.Event().wait, 0.02)
    return found


async def gone(processes: list[psutil.Process], timeout_s: float) -> None:
    await until(lambda: not any(is_alive(process) for process in processes) or None, timeout_s)


async def test_a_job_runs_to_its_end_and_what_it_prints_is_seen(tmp_path: Path, job_manager: FakeJobManager) -> None:
    async with task_manager(tmp_path, job_manager) as manager:
        program = numbers_program(1e9, 99)
        started = time.monotonic()
        attempts = [await deploy(job_manager, program, subtask) for subtask in (0, 1)]
        for attempt in attempts:
            await job_manager.wait_for(lambda: "FINISHED" in job_manager.states(attempt))  # noqa: B023
            assert job_manager.states(attempt) == ["INITIALIZING", "RUNNING", "FINISHED"]
        print("deployed and finished after", time.monotonic() - started)
        lines = {line for line in manager.text().splitlines() if re.fullmatch(r"(\d+> )?\d+", line)}
        assert {line.rpartition(" ")[2] for line in lines} == {str(number) for number in range(100)}
        manager.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(manager.process.wait(), HANG_LIMIT_S) == 0
        assert list(manager.tmp.iterdir()) == []


async def test_a_killed_subtask_is_failed_and_its_sibling_goes_on(
    short_path: Path, job_manager: FakeJobManager
) -> None:
    async with task_manager(short_path, job_manager) as manager:
        program = numbers_program(10, 10_000)
        first, second = [await deploy(job_manager, program, subtask) for subtask in (0, 1)]
        await job_manager.wait_for(lambda: "RUNNING" in job_manager.states(first))
        await job_manager.wait_for(lambda: "RUNNING" in job_manager.states(second))
        # A worker of the warm-up may still be ending.
        workers = await until(lambda: found if len(found := subtasks_of(manager)) == 2 else None, HANG_LIMIT_S)
        for process in (workers[0].parent(), *workers):
            assert process is not None
            listening = [one.laddr for one in process.net_connections("inet") if one.status == psutil.CONN_LISTEN]
            assert listening == [], "other users of the machine cannot reach the sockets of Python workers"
        for worker in workers:
            print("memory", worker.memory_full_info())
        killed_at = time.monotonic()
        workers[0].kill()
        await job_manager.wait_for(lambda: "FAILED" in job_manager.states(first) + job_manager.states(second))
        print("detected after", time.monotonic() - killed_at)
        failed = first if "FAILED" in job_manager.states(first) else second
        sibling = second if failed == first else first
        assert job_manager.last_update(failed).error.code == "subtask-lost"
        assert job_manager.states(sibling)[-1] == "RUNNING"
        answer = await job_manager.task_manager().CancelTask(
            taskmanager_pb2.CancelTaskRequest(generation=job_manager.generation, attempt=sibling)
        )
        assert not answer.HasField("error")
        await job_manager.wait_for(lambda: "CANCELED" in job_manager.states(sibling), HANG_LIMIT_S)


async def test_nothing_of_a_killed_task_manager_is_left(tmp_path: Path, job_manager: FakeJobManager) -> None:
    async with task_manager(tmp_path, job_manager) as manager:
        attempt = await deploy(job_manager, numbers_program(10, 10_000), 0)
        await job_manager.wait_for(lambda: "RUNNING" in job_manager.states(attempt))
        family = manager.family()
        assert len(family) >= 3
        killed_at = time.monotonic()
        manager.process.kill()
        await gone(family, HANG_LIMIT_S)
        print("family gone after", time.monotonic() - killed_at)


async def test_a_lost_job_manager_stops_the_subtasks_and_gets_the_task_manager_back(
    tmp_path: Path, job_manager: FakeJobManager
) -> None:
    async with task_manager(tmp_path, job_manager) as manager:
        attempt = await deploy(job_manager, numbers_program(10, 10_000), 0)
        await job_manager.wait_for(lambda: "RUNNING" in job_manager.states(attempt))
        workers = subtasks_of(manager)
        assert workers
        await job_manager.stop()
        await gone(workers, HANG_LIMIT_S)
        successor = FakeJobManager("g2", transport=own_transport())
        await successor.start(job_manager.port)
        try:
            await successor.wait_for(lambda: successor.beats, HANG_LIMIT_S)
            assert all(not slot.allocation_id for slot in successor.registrations[-1].slots)
            assert successor.beats[0].generation == "g2"
            assert not successor.of(jobmanager_pb2.UpdateTaskStateRequest)
        finally:
            await successor.stop()


class Hoards:
    """A program whose unpickling takes memory in small pieces: user code that needs too much."""

    def __reduce__(self) -> Any:
        return (_hoard, ())


def _hoard() -> None:
    kept = []
    while True:
        kept.append(bytearray(b"x") * (1 << 20))
        time.sleep(0.002)


async def test_a_subtask_that_needs_more_than_its_slot_fails_and_its_sibling_goes_on(
    tmp_path: Path, job_manager: FakeJobManager
) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        hoards = bytes(cloudpickle.dumps(Hoards()))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    async with task_manager(tmp_path, job_manager, taskmanager_memory_process_size="800m"):
        sibling = await deploy(job_manager, numbers_program(10, 10_000), 0)
        await job_manager.wait_for(lambda: "RUNNING" in job_manager.states(sibling))
        greedy = await deploy(job_manager, hoards, 1)
        await job_manager.wait_for(lambda: "FAILED" in job_manager.states(greedy))
        message = job_manager.last_update(greedy).error.message
        assert "needed more than its slot's 400 MiB (taskmanager.memory.process.size / slots)" in message
        assert job_manager.states(sibling) == ["INITIALIZING", "RUNNING"]


class Touches:
    """A program whose unpickling makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return (open, (str(self._path), "w"))


async def test_a_program_that_its_client_did_not_sign_is_not_opened(
    tmp_path: Path, job_manager: FakeJobManager
) -> None:
    opened = tmp_path / "opened"
    forged = bytes(cloudpickle.dumps(Touches(opened)))
    async with task_manager(tmp_path, job_manager) as manager:
        _, error = await ask_to_deploy(job_manager, numbers_program(10, 99), forged, 0)
        assert error.code == "not-signed"
        assert "vertex 'numbers'" in error.message
        assert "it was signed with another program" in error.message
        assert "refused a task" in manager.text()
        assert not opened.exists()
        attempt = await deploy(job_manager, forged, 0)  # with it, it is opened
        await job_manager.wait_for(lambda: "FAILED" in job_manager.states(attempt))
        assert opened.exists()


async def test_without_java_it_says_so_and_ends(tmp_path: Path, job_manager: FakeJobManager) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        MAIN,
        f"io.tmp.dirs={tmp_path}",
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "JAVA_HOME": str(tmp_path / "nowhere")},
    )
    output, _ = await asyncio.wait_for(process.communicate(), HANG_LIMIT_S)
    assert process.returncode == 1
    assert f"JAVA_HOME is {tmp_path / 'nowhere'}, but" in output.decode().splitlines()[-1]
    assert os.listdir(tmp_path) == []


async def test_subtasks_run_on_the_executors_of_a_spark_cluster(tmp_path: Path, job_manager: FakeJobManager) -> None:
    with standalone(tmp_path / "spark") as cluster:
        settings = {"spark.master": cluster.url, "spark.executor.memory": "512m"}
        async with task_manager(tmp_path, job_manager, **settings) as manager:
            finite, endless = numbers_program(1e9, 99), numbers_program(10, 10_000)
            first = await deploy(job_manager, finite, 0)
            await job_manager.wait_for(lambda: "FINISHED" in job_manager.states(first), HANG_LIMIT_S)
            assert sum(re.fullmatch(r"1> \d+", line) is not None for line in manager.text().splitlines()) == 50
            second = await deploy(job_manager, endless, 1)
            await job_manager.wait_for(lambda: "RUNNING" in job_manager.states(second), HANG_LIMIT_S)
            # The first one's process may still be ending.
            (worker,) = await until(
                lambda: found if len(found := executors_subtasks(cluster)) == 1 else None, HANG_LIMIT_S
            )
            worker.kill()
            await job_manager.wait_for(lambda: "FAILED" in job_manager.states(second), HANG_LIMIT_S)
            assert job_manager.last_update(second).error.code == "subtask-lost"
            manager.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(manager.process.wait(), HANG_LIMIT_S) == 0


@pytest.mark.parametrize("start_timeout", ["30 s", "5 min"])
async def test_a_start_that_hangs_costs_no_other_subtask(
    tmp_path: Path, job_manager: FakeJobManager, start_timeout: str
) -> None:
    """The Python daemon stands still. With 30 s the start is given up before Spark loses patience, which interrupts Spark's wait for the
    daemon; with 5 min Spark waits for its 60 s. Either way it replaces the daemon."""
    settings = {"tidegate_subtask_start__timeout": start_timeout}
    async with task_manager(tmp_path, job_manager, **settings) as manager:
        program = numbers_program(100, 10**9)
        first = await deploy(job_manager, program, 0)
        await job_manager.wait_for(lambda: "RUNNING" in job_manager.states(first))
        (worker,) = subtasks_of(manager)
        stopped = worker.parent()
        assert stopped is not None
        stopped.suspend()
        late = await deploy(job_manager, program, 1)
        if start_timeout == "30 s":
            await job_manager.wait_for(lambda: "FAILED" in job_manager.states(late), HANG_LIMIT_S)
            assert "did not connect within 30 s" in job_manager.last_update(late).error.message
            late = await deploy(job_manager, program, 1, attempt=1)
        await job_manager.wait_for(lambda: "RUNNING" in job_manager.states(late), HANG_LIMIT_S)
        # Another daemon forks for the new one; a second process of it, which Spark asked for as well, ends by itself.
        (new,) = await until(
            lambda: found if len(found := children_of_others(manager, stopped)) == 1 else None, HANG_LIMIT_S
        )
        assert new != worker.pid
        stopped.resume()
        await until(
            lambda: True if children_of(stopped) <= {worker.pid} else None, HANG_LIMIT_S
        )  # what it was asked for while it stood still ends
        worker.kill()
        await job_manager.wait_for(lambda: "FAILED" in job_manager.states(first), HANG_LIMIT_S)
        assert job_manager.states(first) == ["INITIALIZING", "RUNNING", "FAILED"], "it ran until it was killed"
        assert "SIGKILL" in job_manager.last_update(first).error.message, (
            "the old daemon is still its parent, and notes its end"
        )
        await gone([stopped], HANG_LIMIT_S)
        assert job_manager.states(late)[-1] == "RUNNING"


def executors_subtasks(cluster: Standalone) -> list[psutil.Process]:
    """Subtasks under the cluster's workers, not under the TaskManager."""
    below = [process for worker in cluster.workers for process in psutil.Process(worker.pid).children(recursive=True)]
    return [process for process in below if is_subtask(process)]


def is_subtask(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        parent = process.parent()
        return parent is not None and "-m tidegate.taskmanager.spark.daemon" in " ".join(parent.cmdline())
    return False
