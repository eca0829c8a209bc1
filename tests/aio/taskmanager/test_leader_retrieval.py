"""TaskManagers follow the leader to whichever address the store of the cluster names."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tests.aio.taskmanager.processless import processless
from tests.aio.taskmanager.test_service import ALLOCATION, ATTEMPT, in_thread, submit
from tidegate.high_availability.port import Unavailable
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, Unreachable
from tidegate.model.fencing import make_generation
from tidegate.model.leadership import Contact, Leader
from tidegate.model.states import ExecutionState
from tidegate.pb import jobmanager_pb2, taskmanager_pb2
from tidegate.taskmanager.runtime.ports import TaskMetrics
from tidegate.taskmanager.service.jobmanager.leader_retrieval import (
    LeaderRetrieval,
    StandaloneLeaderRetrieval,
    StoredLeaderRetrieval,
    make_leader_retrieval,
)


class Store:
    """Says what it is told to say."""

    def __init__(self) -> None:
        self.found: Leader | None = None
        self.is_down = False
        self.closed = False

    def leader(self) -> Leader | None:
        if self.is_down:
            raise Unavailable("the store is down")
        return self.found

    def standbys(self) -> list[Contact]:
        return []

    def close(self) -> None:
        self.closed = True

    def names(self, job_manager: FakeJobManager, term: int) -> None:
        self.found = Leader(term, Contact("a process", f"127.0.0.1:{job_manager.port}"))


async def test_a_task_manager_goes_to_the_next_leader_while_the_one_before_still_answers(tmp_path: Path) -> None:
    """As with one that was cut off from the store: nothing breaks the connection to it."""
    first, second, store = FakeJobManager("g1"), FakeJobManager("g2"), Store()
    await first.start()
    await second.start()
    store.names(first, 1)
    try:
        async with processless(first, tmp_path, retrieval=StoredLeaderRetrieval(store, look_s=0.01)):
            await first.wait_for(lambda: first.beats)
            store.is_down = True
            await first.wait_for(lambda: len(first.beats) >= 2)
            assert not second.registrations, "a store that is down moves nobody"
            store.is_down = False
            store.names(second, 2)
            await second.wait_for(lambda: second.beats)
            await first.wait_for(lambda: first.lost)
    finally:
        await first.stop()
        await second.stop()
    assert store.closed


async def test_the_last_figures_of_a_task_that_ends_without_a_jobmanager_reach_the_next_one(tmp_path: Path) -> None:
    grace: dict[str, Any] = {"heartbeat_timeout_ms": 60_000, "loss_grace_ms": 60_000}
    first, second = (FakeJobManager(make_generation(term, "f" * 16), **grace) for term in (1, 2))
    store = Store()
    for fake in (first, second):
        await fake.start()
    store.names(first, 1)
    try:
        async with processless(first, tmp_path, retrieval=StoredLeaderRetrieval(store, look_s=0.01)) as manager:
            await first.wait_for(lambda: first.beats)
            await submit(first)
            stream, _, _ = manager.dial(ATTEMPT)
            await in_thread(stream.attach)
            stream.metrics(TaskMetrics(records_in=12))
            await first.wait_for(lambda: any(ATTEMPT in beat.metrics for beat in first.beats))
            await first.stop()
            stream.state_changed(ExecutionState.FINISHED)
            await in_thread(stream.close)
            manager.subtasks.started[ATTEMPT].end()
            await asyncio.wait_for(manager.subtasks.emptied.wait(), 20)
            store.names(second, 2)
            await second.wait_for(lambda: second.beats)
            [report] = second.registrations[-1].attempts
            assert (report.state, report.metrics.records_in) == ("FINISHED", 12)
            assert [str(attempt) for attempt, _ in manager.executor.measures.tasks()] == [ATTEMPT]
            stub = second.task_manager()
            await stub.FreeSlot(taskmanager_pb2.FreeSlotRequest(generation=second.generation, allocation_id=ALLOCATION))
            await second.wait_for(lambda: second.of(jobmanager_pb2.SlotFreedRequest))
            assert list(manager.executor.measures.tasks()) == [], "nobody asks for them any more"
            assert not manager.fatal
    finally:
        await first.stop()
        await second.stop()


async def test_a_task_manager_waits_for_a_leader_and_finds_it(tmp_path: Path) -> None:
    fake, store = FakeJobManager(), Store()
    await fake.start()
    try:
        async with processless(fake, tmp_path, retrieval=StoredLeaderRetrieval(store, look_s=0.01)) as manager:
            assert not fake.registrations
            store.names(fake, 1)
            await fake.wait_for(lambda: fake.beats)
            assert manager.fatal == []
    finally:
        await fake.stop()


async def test_without_a_leader_it_says_so() -> None:
    retrieval = StoredLeaderRetrieval(Store())
    with pytest.raises(Unreachable, match="no JobManager leads this cluster"):
        await retrieval.address()
    await retrieval.close()


def made(**settings: str) -> LeaderRetrieval:
    texts = {key.replace("__", "-").replace("_", "."): text for key, text in settings.items()}
    return make_leader_retrieval(Configuration.from_strings(texts), lambda _: "host:1")


async def test_the_configuration_says_where_to_look(tmp_path: Path) -> None:
    assert isinstance(made(), StandaloneLeaderRetrieval)
    here = {"high__availability_type": "filesystem", "high__availability_storageDir": str(tmp_path)}
    elsewhere = made(**here)
    assert isinstance(elsewhere, StandaloneLeaderRetrieval), "its JobManager keeps jobs on a disk of another machine"
    assert await elsewhere.address() == "host:1"
    (tmp_path / "default").mkdir()
    found = made(**here)
    assert isinstance(found, StoredLeaderRetrieval)
    await found.close()
    with pytest.raises(ConfigurationError, match="quorum is not set"):
        made(high__availability_type="zookeeper")


async def test_a_standalone_leader_never_moves() -> None:
    waiting = asyncio.ensure_future(StandaloneLeaderRetrieval("host:1").moved("host:2"))
    done, _ = await asyncio.wait([waiting], timeout=0)
    assert not done
    waiting.cancel()
