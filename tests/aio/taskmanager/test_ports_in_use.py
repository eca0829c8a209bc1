"""A port of a TaskManager that another process has: the error names the option that sets it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tests.aio.taskmanager.processless import Processless, processless
from tidegate.aio.pool import Pool
from tidegate.aio.process import Services
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.taskmanager.service.kv_states import start_kv_states
from tidegate.taskmanager.service.subtask_control import SubtaskControl, listen_for_subtasks


@pytest.fixture
def taken() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        yield other.getsockname()[1]


@pytest.fixture
async def manager(fake: FakeJobManager, tmp_path: Path) -> AsyncIterator[Processless]:
    async with processless(fake, tmp_path) as found:
        yield found


def refusal(what: str, port: int, option: str) -> str:
    return (
        f"cannot start the {what} on 127.0.0.1:{port}: Address already in use; choose another port with -D {option}=PORT, or {option} in "
        "config.yaml; 0 takes one that is free"
    )


async def test_of_the_listener_for_subtasks(manager: Processless, taken: int) -> None:
    printing = Pool(1, "printing")
    control = SubtaskControl(
        manager.executor, manager.blobs, printing, lambda *printed: None, manager.job_manager.align_watermark
    )
    with pytest.raises(ExternalError) as raised:
        await listen_for_subtasks(control, f"127.0.0.1:{taken}", "127.0.0.1")
    printing.close()
    assert raised.value.message == refusal("listener for subtasks", taken, "tidegate.subtask.control-port")


async def test_of_queryable_state(manager: Processless, taken: int) -> None:
    option = "queryable-state.server.ports"
    texts = {"queryable-state.enable": "true", option: str(taken), "taskmanager.bind-host": "127.0.0.1"}
    configuration = Configuration.from_strings(texts)
    with pytest.raises(ExternalError) as raised:
        await start_kv_states(configuration, manager.executor, manager.job_manager, "127.0.0.1", Services())
    shared = ", and a range such as 9067-9099 has a port for each TaskManager of this machine"
    assert raised.value.message == refusal("KvState server", taken, option) + shared


async def test_of_queryable_state_with_a_range_the_next_one_is_taken(manager: Processless, taken: int) -> None:
    texts = {
        "queryable-state.enable": "true",
        "queryable-state.server.ports": f"{taken}-{taken + 20}",
        "taskmanager.bind-host": "127.0.0.1",
    }
    services = Services()
    states = await start_kv_states(
        Configuration.from_strings(texts), manager.executor, manager.job_manager, "127.0.0.1", services
    )
    try:
        host, _, port = states.address.rpartition(":")
        assert host == "127.0.0.1"
        assert taken < int(port) <= taken + 20
    finally:
        await services.stop_all()
