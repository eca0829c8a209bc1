"""Control streams by TCP with TLS: subtasks on other machines and their TaskManager prove themselves to each other before anything is said."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.aio.taskmanager.fake_job_manager import FakeJobManager
from tests.aio.taskmanager.processless import Processless, processless
from tests.aio.taskmanager.test_service import ATTEMPT, in_thread, submit
from tests.certificates import issue, make_authority
from tidegate.model.errors import Unreachable
from tidegate.model.states import ExecutionState
from tidegate.security.handshakes import parse_pins
from tidegate.security.keystores import Credentials, fingerprint_of, pem_of
from tidegate.security.reloading import Reloaded
from tidegate.security.sockets import TlsFiles
from tidegate.security.tls import Material

NOW, DAY = datetime.now(UTC), timedelta(days=1)
LIMIT_S = 30
AUTHORITY, STRANGER = make_authority(NOW, DAY), make_authority(NOW, DAY)
SERVER = issue(AUTHORITY, ["localhost"], NOW, DAY)


def files(directory: Path, own: Credentials | None = None) -> TlsFiles:
    own = own or issue(AUTHORITY, ["localhost"], NOW, DAY)
    directory.mkdir()
    identity = (own.key_pem() + own.chain_pem()).decode()
    return TlsFiles(directory).write(identity, pem_of((AUTHORITY.certificate,)).decode())


def never(problem: Exception) -> None:
    raise problem


@pytest.fixture
async def material() -> Material:
    return Material(SERVER, (AUTHORITY.certificate,))


@pytest.fixture
async def manager(fake: FakeJobManager, material: Material, tmp_path: Path) -> AsyncIterator[Processless]:
    async with processless(fake, tmp_path, tls=Reloaded([], lambda: material, never)) as found:
        await fake.wait_for(lambda: fake.beats)
        yield found
        assert not found.fatal


async def test_a_subtask_attaches_by_tls_and_is_told_what_to_run(
    fake: FakeJobManager, manager: Processless, tmp_path: Path
) -> None:
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT, tls=files(tmp_path / "own"))
    deployment = await in_thread(stream.attach)
    assert str(deployment.attempt) == ATTEMPT
    stream.state_changed(ExecutionState.CANCELED)
    await in_thread(stream.close)
    manager.subtasks.started[ATTEMPT].end()


async def test_a_stranger_is_told_that_it_is_not_believed(
    fake: FakeJobManager, manager: Processless, tmp_path: Path
) -> None:
    await submit(fake)
    stranger = files(tmp_path / "stranger", issue(STRANGER, ["localhost"], NOW, DAY))
    stream, _, _ = manager.dial(ATTEMPT, tls=stranger)
    with pytest.raises(Unreachable, match=manager.control_address):
        await in_thread(stream.attach)
    await in_thread(stream.close)


async def test_plain_text_gets_no_answer(fake: FakeJobManager, manager: Processless) -> None:
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT)
    with pytest.raises(Unreachable, match=manager.control_address):
        await in_thread(stream.attach)
    await in_thread(stream.close)


@pytest.mark.parametrize(
    "material", [Material(SERVER, (AUTHORITY.certificate,), parse_pins(fingerprint_of(SERVER.certificate)))]
)
async def test_a_certificate_that_is_not_pinned_is_refused(
    fake: FakeJobManager, manager: Processless, tmp_path: Path
) -> None:
    await submit(fake)
    stream, _, _ = manager.dial(ATTEMPT, tls=files(tmp_path / "other"))
    with pytest.raises(Unreachable, match=manager.control_address):
        await in_thread(stream.attach)
    await in_thread(stream.close)
    same, _, _ = manager.dial(ATTEMPT, tls=files(tmp_path / "same", SERVER))
    assert str((await in_thread(same.attach)).attempt) == ATTEMPT
    same.state_changed(ExecutionState.CANCELED)
    await in_thread(same.close)
    manager.subtasks.started[ATTEMPT].end()


async def test_a_probe_that_says_nothing_is_no_subtask(manager: Processless) -> None:
    """Executors are checked so: they connect and hang up."""
    host, _, port = manager.control_address.rpartition(":")
    await in_thread(lambda: socket.create_connection((host, int(port)), LIMIT_S).close())
