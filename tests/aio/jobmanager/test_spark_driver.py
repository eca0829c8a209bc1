"""The driver of Spark executors, against a process that stands for the one that drives Spark, and answers as that does."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import psutil
import pytest

from tests.aio.jobmanager.test_worker_drivers import OTHER, SLEEPS, WORKER, Told, left_by_an_earlier, until
from tidegate.aio.rpc import start_server
from tidegate.jobmanager.service.workers.launcher import make_launcher
from tidegate.jobmanager.service.workers.process_driver import ProcessDriver
from tidegate.jobmanager.service.workers.spark_driver import HOST, SparkDriver
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.pb import taskmanager_pb2 as pb
from tidegate.pb import taskmanager_pb2_grpc as rpc


class Host(rpc.ExecutorHostServicer):
    """``states``: what it says of workers; those that are declared and not in it wait."""

    def __init__(self) -> None:
        self.declared: list[str] | None = None
        self.states: dict[str, tuple[str, str]] = {}

    async def DeclareWorkers(self, request: pb.DeclareWorkersRequest, context: object) -> pb.HostedWorkers:
        if not request.is_question:
            self.declared = list(request.worker_ids)
        shown: Mapping[str, tuple[str, str]] = dict.fromkeys(self.declared or (), ("WAITING", "")) | self.states
        hosted = pb.HostedWorkers.HostedWorker
        return pb.HostedWorkers(
            workers=[hosted(worker_id=name, state=state, detail=detail) for name, (state, detail) in shown.items()]
        )


@asynccontextmanager
async def hosting(directory: Path, host: Host) -> AsyncIterator[None]:
    def register(server: grpc.aio.Server) -> None:
        rpc.add_ExecutorHostServicer_to_server(host, server)

    server, port = await start_server("127.0.0.1", 0, register, "host")
    (directory / "address").write_text(f"127.0.0.1:{port}")
    try:
        yield
    finally:
        await server.stop(0)


def spark_driver(directory: Path, told: Told, command: list[str] = SLEEPS) -> SparkDriver:
    driver = SparkDriver(directory / "address", 2, told)
    line = lambda worker_id, slots: [*command, worker_id, str(slots)]  # noqa: E731
    driver.attach(ProcessDriver(line, directory, directory, directory, driver.on_host_ended, names=HOST))
    return driver


async def test_what_is_wanted_is_declared_as_a_whole_and_what_is_given_back_has_ended(tmp_path: Path) -> None:
    told, host = Told(), Host()
    driver = spark_driver(tmp_path, told)
    assert await driver.find() == ()
    await driver.start(WORKER, 2)
    await driver.start(OTHER, 2)
    async with hosting(tmp_path, host):
        await until(lambda: host.declared == [WORKER, OTHER])
        host.states[WORKER] = ("CLOSING", "")
        await driver.stop(WORKER)
        await until(lambda: host.declared == [OTHER])
        assert told.ended == [], "it is on its way out"
        del host.states[WORKER]
        await told.until(1)
        assert told.ended == [(WORKER, "its executor was given back")]
        await driver.close(stop_all=True)


async def test_a_worker_that_ended_by_itself_is_told_with_the_reason(tmp_path: Path) -> None:
    told, host = Told(), Host()
    driver = spark_driver(tmp_path, told)
    await driver.find()
    await driver.start(WORKER, 2)
    async with hosting(tmp_path, host):
        host.states[WORKER] = ("ENDED", "executor 3 did not start: Command exited with code 1")
        await told.until(1)
        assert told.ended == [(WORKER, "executor 3 did not start: Command exited with code 1")]
        await until(lambda: host.declared == [])
        await driver.close(stop_all=True)


async def test_a_process_that_ends_takes_all_workers_along_and_the_next_start_begins_another(tmp_path: Path) -> None:
    told = Told()
    failing = [sys.executable, "-c", "import sys; print('error: no Spark here', file=sys.stderr); sys.exit(1)"]
    driver = spark_driver(tmp_path, told, failing)
    await driver.find()
    await driver.start(WORKER, 2)
    await told.until(1)
    assert told.ended[0][0] == WORKER
    assert "has ended: it ended with exit code 1: error: no Spark here" in told.ended[0][1]
    await driver.start(OTHER, 2)
    await told.until(2)
    assert told.ended[1][0] == OTHER
    await driver.close(stop_all=True)


async def test_a_jobmanager_that_comes_back_asks_what_is_there(tmp_path: Path) -> None:
    told, host = Told(), Host()
    host.states = {WORKER: ("OPEN", ""), OTHER: ("ENDED", "lost")}
    with left_by_an_earlier(tmp_path, HOST) as process:
        async with hosting(tmp_path, host):
            driver = spark_driver(tmp_path, told)
            assert await driver.find() == (WORKER,)
            await until(lambda: host.declared == [WORKER])
            await driver.close(stop_all=True)
        assert not psutil.pid_exists(process.pid)
    assert told.ended == []


@pytest.mark.parametrize("master", ["local[4]", "local"])
async def test_an_embedded_spark_has_no_executors(tmp_path: Path, master: str) -> None:
    texts = {"tidegate.resourcemanager.driver": "spark", "spark.master": master}
    with pytest.raises(ConfigurationError) as raised:
        make_launcher(Configuration.from_strings(texts), tmp_path, lambda _: None)
    assert f"spark.master is {master}, which has no executors" in str(raised.value)
