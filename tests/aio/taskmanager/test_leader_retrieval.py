"""TaskManagers follow the leader to whichever address the store of the cluster names."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tests.aio.taskmanager.processless import processless
from tidegate.coordination.port import Unavailable
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, Unreachable
from tidegate.model.leadership import Contact, Leader
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
