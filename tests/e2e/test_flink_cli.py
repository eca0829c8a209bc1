"""Flink's own command, from the package on the index, against this REST port: exit codes and what it prints.

The JobManager is real and runs in this process, its TaskManager plays its part of the protocol; so a row costs no more than the
JVM of the command.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.aio.jobmanager.cluster import (
    FakeTaskManager,
    client_of,
    make_graph,
    put_blob,
    running_job_manager,
    submit,
    watch_until,
)
from tests.servers.flink_environment import FlinkEnvironment
from tidegate.jobmanager.service.app import Listening
from tidegate.model.ids import JobId, hex_id
from tidegate.pb import jobmanager_pb2 as pb

pytestmark = pytest.mark.e2e

LIMIT_S = 240
NOBODY = hex_id("nobody")
HOURLY = {"execution_checkpointing_interval": "1 h"}
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class Done:
    code: int
    text: str


@dataclass
class Site:
    """A JobManager, and Flink's command beside it."""

    flink: FlinkEnvironment
    listening: Listening
    client: Any
    directory: Path

    async def submit(self, name: str, **configuration: str) -> JobId:
        await put_blob(self.client)
        job_id = JobId(hex_id(name))
        graph = replace(make_graph(**configuration), job_id=job_id, name=name)
        answer = await submit(self.client, graph)
        assert not answer.HasField("error"), answer.error
        await self.until(job_id, lambda s: all(t.state == "RUNNING" for v in s.vertices for t in v.subtasks))
        return job_id

    async def until(self, job_id: JobId, condition: Any) -> pb.JobStatus:
        return await watch_until(self.client, job_id, condition, LIMIT_S)

    async def run(self, command: str, *arguments: str) -> Done:
        """``flink command -m host:port arguments``."""
        process = await asyncio.create_subprocess_exec(
            str(self.flink.home / "bin" / "flink"),
            command,
            "-m",
            f"localhost:{self.listening.rest_port}",
            *arguments,
            cwd=self.directory,
            env={**self.flink.variables(), "JVM_ARGS": QUICK_JVM, "FLINK_LOG_DIR": str(self.directory)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), LIMIT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise AssertionError(f"flink {command} {' '.join(arguments)} did not end") from None
        assert process.returncode is not None
        return Done(process.returncode, out.decode())

    async def together(self, *rows: tuple[str, ...]) -> list[Done]:
        """Two at a time: they do not depend on each other."""
        turns = asyncio.Semaphore(2)

        async def run(row: tuple[str, ...]) -> Done:
            async with turns:
                return await self.run(*row)

        return await asyncio.gather(*(run(row) for row in rows))


@asynccontextmanager
async def site_of(flink: FlinkEnvironment, directory: Path) -> AsyncIterator[Site]:
    async with running_job_manager(heartbeat_timeout="1 h") as listening, client_of(listening) as client:
        task_manager = FakeTaskManager("tm-1")
        try:
            await task_manager.start(listening)
            yield Site(flink, listening, client, directory)
        finally:
            await task_manager.stop()


@pytest.fixture
async def site(flink: FlinkEnvironment, tmp_path: Path) -> AsyncIterator[Site]:
    async with site_of(flink, tmp_path) as site:
        yield site


def failed(done: Done, *texts: str) -> None:
    assert done.code == 1, done.text
    assert "The program finished with the following exception:" in done.text
    for text in texts:
        assert text in done.text, done.text


def is_savepoint(path: Path) -> bool:
    return (path / "_metadata").exists()


def path_in(done: Done, before: str) -> Path:
    assert done.code == 0, done.text
    (found,) = re.findall(rf"{before} file:(\S+)", done.text)
    path = Path(found)
    assert is_savepoint(path)
    return path


async def test_list_savepoint_and_checkpoint(site: Site) -> None:
    job = await site.submit("first", execution_checkpointing_dir=str(site.directory / "cp"))
    target = str(site.directory / "sp")
    listed, saved, checkpointed, full, missing, nowhere = await site.together(
        ("list", "-a"),
        ("savepoint", job, target),
        ("checkpoint", job),
        ("checkpoint", "-full", job),
        ("savepoint", NOBODY, target),
        ("savepoint", job),
    )
    assert listed.code == 0, listed.text
    assert f": {job} : first (RUNNING)" in listed.text
    path_in(saved, "Savepoint completed. Path:")
    for done, kind in ((checkpointed, ""), (full, r"\(FULL\)")):
        assert done.code == 0, done.text
        assert re.search(rf"^Checkpoint{kind} \d for job {job} completed\.$", done.text, re.MULTILINE), done.text
    failed(missing, "Failed to trigger a savepoint for the job", f"Could not find Flink job ({NOBODY})")
    failed(nowhere, "Config key [execution.checkpointing.savepoint-dir] is not set.")


async def test_a_detached_savepoint_disposal_and_cancel(site: Site) -> None:
    job = await site.submit("first")
    target = str(site.directory / "sp")
    taken = await site.client.TriggerSavepoint(
        pb.TriggerSavepointRequest(job_id=job, target_directory=target, wait_ms=LIMIT_S * 1000)
    )
    savepoint = Path(taken.path)
    detached, gone, disposed, canceled, unknown = await site.together(
        ("savepoint", "-type", "native", "-detached", job, target),
        ("savepoint", "-d", str(site.directory / "nothing")),
        ("savepoint", "-d", str(savepoint)),
        ("cancel", job),
        ("cancel", NOBODY),
    )
    assert detached.code == 0, detached.text
    assert re.search(r"[0-9a-f]{32}", detached.text.replace(job, "")), "it prints the trigger's id"
    failed(gone, "Failed to dispose the savepoint", "there is no such directory")
    assert disposed.code == 0, disposed.text
    assert "disposed" in disposed.text
    assert not is_savepoint(savepoint)
    assert canceled.code == 0, canceled.text
    assert f"Cancelled job {job}." in canceled.text
    await site.until(job, lambda status: status.state == "CANCELED")
    failed(unknown, f"Could not cancel job {NOBODY}")


async def test_stop_and_cancel_with_a_savepoint(site: Site) -> None:
    target = str(site.directory / "sp")
    stopped = await site.submit("stopped", **HOURLY)
    unknown, done = await site.together(("stop", "-p", target, NOBODY), ("stop", "-p", target, stopped))
    path_in(done, "Savepoint completed. Path:")
    assert f'Suspending job "{stopped}" with a CANONICAL savepoint.' in done.text
    await site.until(stopped, lambda status: status.state == "FINISHED")
    failed(unknown, "Could not stop with a savepoint job", f"Could not find Flink job ({NOBODY})")

    drained = await site.submit("drained", execution_checkpointing_savepoint__dir=target, **HOURLY)
    listed, late, done = await site.together(
        ("list", "-r"), ("cancel", stopped), ("stop", "-d", "-detached", "-type", "native", drained)
    )
    assert listed.code == 0, listed.text
    assert stopped not in listed.text
    failed(late, "already reached another terminal state (FINISHED)")
    assert done.code == 0, done.text
    assert re.search(r"[0-9a-f]{32}", done.text.replace(drained, "")), "it prints the trigger's id"
    await site.until(drained, lambda status: status.state == "FINISHED")

    canceled = await site.submit("canceled")
    done = await site.run("cancel", "-s", target, canceled)
    assert done.code == 0, done.text
    path = re.findall(r"file:(\S+?)\.?\s", done.text)[-1]
    assert is_savepoint(Path(path))
    await site.until(canceled, lambda status: status.state == "CANCELED")


async def test_a_job_of_java_is_refused_in_one_line(site: Site) -> None:
    program = site.flink.examples() / "datastream" / "basic_operations.py"
    done = await site.run("run", "-pyexec", str(site.flink.python), "-py", str(program))
    assert done.code == 31, done.text  # of its Python driver, when the program failed
    lines = [line for line in done.text.splitlines() if "tidegate does not have this: Java jobs" in line]
    assert lines, done.text
    assert "tidegate run" in lines[0]
