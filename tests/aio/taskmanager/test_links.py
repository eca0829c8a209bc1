"""A TaskManager whose connection to the JobManager breaks while both live: subtasks go on, and what they say meanwhile arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tests.aio.taskmanager.processless import Processless, processless
from tests.aio.taskmanager.test_acknowledgements import acknowledge
from tests.aio.taskmanager.test_service import ATTEMPT, in_thread, mails_of, submit
from tests.servers.tcp_proxy import TcpProxy
from tidegate.model.errors import CorruptData, Unreachable
from tidegate.model.states import ExecutionState
from tidegate.pb import jobmanager_pb2
from tidegate.taskmanager.runtime.ports import CancelTask
from tidegate.taskmanager.service.jobmanager import connection

LIMIT_S = 30


@pytest.fixture
async def proxy(fake: FakeJobManager) -> AsyncIterator[TcpProxy]:
    with TcpProxy(f"127.0.0.1:{fake.port}") as found:
        yield found


@pytest.fixture
async def manager(fake: FakeJobManager, proxy: TcpProxy, tmp_path: Path) -> AsyncIterator[Processless]:
    async with processless(fake, tmp_path, port=int(proxy.address.rpartition(":")[2])) as found:
        await fake.wait_for(lambda: fake.beats)
        yield found
        assert not found.fatal


async def until_lost(fake: FakeJobManager, manager: Processless) -> None:
    """Until both sides have noticed."""
    async with asyncio.timeout(LIMIT_S):
        while manager.job_manager.generation is not None or not fake.lost:  # noqa: ASYNC110  (of both sides)
            await asyncio.sleep(0.01)


def acknowledged(fake: FakeJobManager) -> list[int]:
    requests = fake.of(jobmanager_pb2.AcknowledgeCheckpointRequest)
    return [one.checkpoint_id for request in requests for one in request.acknowledgements]


async def test_a_subtask_goes_on_and_what_it_says_meanwhile_arrives_once_the_connection_is_back(
    fake: FakeJobManager, proxy: TcpProxy, manager: Processless
) -> None:
    await submit(fake)
    stream, mails, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    stream.state_changed(ExecutionState.RUNNING)
    await fake.wait_for(lambda: fake.states(ATTEMPT) == ["RUNNING"])
    proxy.cut()
    await until_lost(fake, manager)
    acknowledge(stream, ATTEMPT, 7)
    stream.end_of_data()
    assert acknowledged(fake) == []
    proxy.mend()
    await fake.wait_for(lambda: fake.of(jobmanager_pb2.EndOfDataRequest), LIMIT_S)
    assert acknowledged(fake) == [7], "before what was said behind it"
    first, *_, last = fake.registrations
    assert (first.session, first.task_manager_id) == (last.session, last.task_manager_id), "the same process"
    assert [report.attempt for report in last.attempts] == [ATTEMPT]
    assert not mails, "it was not stopped"
    assert set(fake.states(ATTEMPT)) == {"RUNNING"}, "told again, where the cut took the answer"
    stream.state_changed(ExecutionState.FINISHED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()
    await fake.wait_for(lambda: fake.states(ATTEMPT)[-1] == "FINISHED", LIMIT_S)


async def test_a_message_whose_answer_was_cut_off_comes_again(
    fake: FakeJobManager, proxy: TcpProxy, manager: Processless
) -> None:
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT)
    await in_thread(stream.attach)
    fake.takes_acknowledgements.clear()
    acknowledge(stream, ATTEMPT, 7)
    await fake.wait_for(lambda: acknowledged(fake) == [7])
    proxy.cut()
    await until_lost(fake, manager)
    fake.takes_acknowledgements.set()
    proxy.mend()
    await fake.wait_for(lambda: acknowledged(fake) == [7, 7], LIMIT_S)
    stream.state_changed(ExecutionState.CANCELED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()


async def test_a_jobmanager_that_is_gone_is_not_waited_for_where_jobs_end_with_it(
    fake: FakeJobManager, tmp_path: Path
) -> None:
    async with processless(fake, tmp_path) as manager:
        await fake.wait_for(lambda: fake.beats)
        await submit(fake)
        stream, mails, arrived = manager.dial(ATTEMPT)
        await in_thread(stream.attach)
        await fake.stop()
        assert await mails_of(mails, arrived, 1) == [CancelTask()]
        stream.state_changed(ExecutionState.CANCELED)
        await in_thread(stream.close)
        manager.subtasks.started[ATTEMPT].end()


async def test_one_that_shuts_down_ends_its_heartbeats_in_order(fake: FakeJobManager, tmp_path: Path) -> None:
    async with processless(fake, tmp_path):
        await fake.wait_for(lambda: fake.beats)
    assert fake.goodbyes == 1


async def test_one_whose_connection_breaks_has_said_no_goodbye(
    fake: FakeJobManager, proxy: TcpProxy, manager: Processless
) -> None:
    proxy.cut()
    await until_lost(fake, manager)
    assert fake.goodbyes == 0


async def test_a_file_that_is_on_its_way_when_the_connection_breaks_is_asked_for_again(
    fake: FakeJobManager, proxy: TcpProxy, manager: Processless
) -> None:
    key = fake.put_blob(b"a program")
    fake.gives_blobs.clear()
    fetching = asyncio.ensure_future(manager.job_manager.fetch_blob(key))
    await fake.wait_for(lambda: fake.asked_for_blobs == 1)
    proxy.cut()
    await until_lost(fake, manager)
    fake.gives_blobs.set()
    proxy.mend()
    assert await asyncio.wait_for(fetching, LIMIT_S) == b"a program"
    assert fake.asked_for_blobs >= 2


async def test_a_file_that_is_not_there_is_asked_for_once(fake: FakeJobManager, manager: Processless) -> None:
    with pytest.raises(CorruptData, match="no blob"):
        await manager.job_manager.fetch_blob("0" * 64)
    assert fake.asked_for_blobs == 1


async def test_a_file_is_given_up_after_a_while(
    fake: FakeJobManager, proxy: TcpProxy, manager: Processless, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BLOB_PATIENCE_S", 0.3)
    proxy.cut()
    await until_lost(fake, manager)
    with pytest.raises(Unreachable):
        await asyncio.wait_for(manager.job_manager.fetch_blob("0" * 64), LIMIT_S)


async def test_who_asks_for_a_file_may_be_cancelled(fake: FakeJobManager, manager: Processless) -> None:
    fake.gives_blobs.clear()
    fetching = asyncio.ensure_future(manager.job_manager.fetch_blob("0" * 64))
    await fake.wait_for(lambda: fake.asked_for_blobs == 1)
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(fetching, LIMIT_S)
    fake.gives_blobs.set()
