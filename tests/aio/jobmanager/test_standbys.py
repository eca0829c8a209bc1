"""A JobManager that stands by leads its clients to the one that leads, whatever they speak."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.typedefs import Middleware

from tests.aio.jobmanager.cluster import (
    JOB,
    KEY,
    PROGRAM,
    FakeTaskManager,
    client_of,
    make_graph,
    run_job,
    running_job_manager,
)
from tests.certificates import issue, make_authority, write_stores
from tests.own import own_signing, own_transport
from tests.ports import free_port
from tidegate.aio.https import https_client
from tidegate.cli.client import JobManagerClient
from tidegate.high_availability.drivers import make_retrieval
from tidegate.jobmanager.service.app import Listening
from tidegate.jobmanager.service.high_availability import standby as standby_module
from tidegate.jobmanager.service.high_availability.leader_lookup import LeaderLookup
from tidegate.jobmanager.service.high_availability.standby import NO_LEADER, Forwarder, Standby
from tidegate.jobmanager.service.rpc.client_servicer import ClientServicer
from tidegate.model.configuration import Configuration
from tidegate.model.errors import Unreachable
from tidegate.model.ids import JobId
from tidegate.model.leadership import Contact, Leader
from tidegate.model.options import SecurityOptions
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.security.keystores import fingerprint_of
from tidegate.security.user_file import add_user
from tidegate.security.users import Role

LIMIT_S = 60


class Place:
    """Ports of one JobManager of a cluster in a directory."""

    def __init__(self, directory: Path) -> None:
        self.rpc, self.rest = free_port(), free_port()
        self.settings = {
            "high__availability_type": "filesystem",
            "high__availability_storageDir": str(directory / "ha"),
            "execution_checkpointing_dir": str(directory / "checkpoints"),
            "jobmanager_rpc_port": str(self.rpc),
            "rest_port": str(self.rest),
        }

    async def get(self, path: str, status: int = 200, **options: Any) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.request(options.pop("method", "GET"), f"http://127.0.0.1:{self.rest}{path}", **options) as answer,
        ):
            assert answer.status == status, await answer.text()
            return await answer.json()

    async def answers(self) -> None:
        """Until something listens at its REST port."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.rest)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return


@asynccontextmanager
async def leader_and_standby(
    directory: Path,
) -> AsyncIterator[tuple[Listening, Place, Place, asyncio.Event, asyncio.Task[None]]]:
    """The standby leads once the body sets the event, which ends the leader."""
    first, second = Place(directory), Place(directory)
    ends, over = asyncio.Event(), asyncio.Event()
    leads: asyncio.Queue[Listening] = asyncio.Queue()

    async def lead(place: Place, end: asyncio.Event) -> None:
        async with running_job_manager(**place.settings) as listening:
            leads.put_nowait(listening)
            await end.wait()

    leader = asyncio.create_task(lead(first, ends))
    listening = await asyncio.wait_for(leads.get(), LIMIT_S)
    standby = asyncio.create_task(lead(second, over))
    try:
        await second.answers()
        yield listening, first, second, ends, standby
    finally:
        ends.set()
        over.set()
        await asyncio.wait_for(asyncio.gather(leader, standby), LIMIT_S)


async def test_a_standby_answers_rest_as_the_leader_does(tmp_path: Path) -> None:
    async with leader_and_standby(tmp_path) as (_, first, second, ends, _):
        assert await second.get("/overview") == await first.get("/v1/overview")
        assert await second.get("/jobs/nonsense", 400) == await first.get("/jobs/nonsense", 400)
        page = {"Origin": f"http://127.0.0.1:{second.rest}", "Sec-Fetch-Site": "same-origin"}
        await second.get("/jars/upload", 400, method="POST", data=b"nothing", headers=page)
        foreign = await second.get("/jars/upload", 403, method="POST", headers={"Origin": "http://evil.example"})
        assert "evil.example" in foreign["errors"][0]
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{second.rest}/") as html:
            assert "text/html" in html.headers["content-type"]
            assert "Server" not in html.headers
        ends.set()

        async with asyncio.timeout(LIMIT_S):
            while True:
                try:
                    await second.get("/overview")
                    break
                except (AssertionError, aiohttp.ClientError):
                    await asyncio.sleep(0.02)


async def test_a_client_that_is_given_a_standby_goes_to_the_leader_and_waits_beyond_it(tmp_path: Path) -> None:
    task_manager = FakeTaskManager("tm-1")
    async with leader_and_standby(tmp_path) as (listening, first, second, ends, _):
        await task_manager.start(listening)
        async with client_of(listening) as stub:
            await run_job(stub)
        client = JobManagerClient(f"127.0.0.1:{second.rpc}", transport=own_transport(), signing=own_signing())
        status = await asyncio.to_thread(client.cluster)
        assert client.address == f"localhost:{first.rpc}"
        assert (status.term, [standby.rpc for standby in status.standbys]) == (1, [f"localhost:{second.rpc}"])
        watching = client.watch_beyond(JOB)
        assert (await asyncio.to_thread(next, watching)).job_id == JOB
        ends.set()
        await task_manager.stop()

        def until_led() -> str:
            for found in watching:
                if client.address != f"localhost:{first.rpc}":
                    return str(found.job_id)
            return ""

        assert await asyncio.wait_for(asyncio.to_thread(until_led), LIMIT_S) == JOB
        assert (await asyncio.to_thread(client.cluster)).term == 2
        watching.close()
        client.close()


@pytest.mark.parametrize(
    ("is_kept", "is_known"),
    [(True, True), (False, True), (True, False)],
    ids=["behind-acceptance", "before-acceptance", "ended-meanwhile"],
)
async def test_a_client_whose_submission_is_not_answered_has_its_job_run_once_by_the_next_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool, is_known: bool
) -> None:
    """The leader is lost behind, or before, the point from which the job is kept. A job that has ended may be known to no
    JobManager: its submission is refused as a duplicate."""
    if not is_known:
        monkeypatch.setattr(JobManagerClient, "_knows", lambda _self, _job_id: False)
    keep, lost = ClientServicer._keep, asyncio.Event()

    async def kept_and_lost(self: ClientServicer, job_id: JobId, request: pb.SubmitJobRequest) -> None:
        if lost.is_set() or is_kept:
            await keep(self, job_id, request)
        if not lost.is_set():
            lost.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(ClientServicer, "_keep", kept_and_lost)
    async with leader_and_standby(tmp_path) as (_, first, second, ends, _):
        client = JobManagerClient(f"127.0.0.1:{first.rpc}", transport=own_transport(), signing=own_signing())
        submitting = asyncio.create_task(asyncio.to_thread(client.submit, make_graph(), {KEY: PROGRAM}))
        await asyncio.wait_for(lost.wait(), LIMIT_S)
        ends.set()
        assert await asyncio.wait_for(submitting, LIMIT_S) == JOB
        assert client.address == f"localhost:{second.rpc}"
        assert [job.job_id for job in await asyncio.to_thread(client.list_jobs, True)] == [JOB]
        client.close()


class Nowhere:
    """A store that names nobody, or a leader that is not there."""

    def __init__(self, found: Leader | None = None) -> None:
        self._found = found

    def leader(self) -> Leader | None:
        return self._found

    def standbys(self) -> list[Contact]:
        return []

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    "found", [None, Leader(1, Contact("a process", "127.0.0.1:9", "127.0.0.1:9"))], ids=["none", "gone"]
)
async def test_without_a_leader_a_standby_says_so(found: Leader | None, tmp_path: Path) -> None:
    place = Place(tmp_path)
    texts = {"rest.port": str(place.rest), "jobmanager.rpc.port": str(place.rpc)}
    standby = Standby(Configuration.from_strings(texts), Nowhere(found))
    await standby.start()
    try:
        assert await place.get("/jobs", 503) == {"errors": [NO_LEADER]}
        client = JobManagerClient(f"127.0.0.1:{place.rpc}", transport=own_transport(), signing=own_signing())
        with pytest.raises(Unreachable):
            await asyncio.to_thread(client.cluster)
        client.close()
    finally:
        await standby.stop()


async def test_behind_a_proxy_the_leader_is_found_at_the_port_that_it_advertises(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with running_job_manager(**place.settings, jobmanager_rpc_bind__port="0") as listening:
        texts = {key.replace("__", "-").replace("_", "."): text for key, text in place.settings.items()}
        retrieval = make_retrieval(Configuration.from_strings(texts))
        leader = retrieval.leader()
        assert leader is not None
        assert listening.rpc_port != place.rpc
        assert leader.contact.rpc.rpartition(":")[2] == str(place.rpc)
        retrieval.close()


async def test_ports_of_the_leader_of_the_same_machine_are_left_to_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    async with running_job_manager(**place.settings):
        texts = {key.replace("__", "-").replace("_", "."): text for key, text in place.settings.items()}
        standby = Standby(Configuration.from_strings(texts), Nowhere())
        await standby.start()
        assert (await place.get("/overview"))["taskmanagers"] == 0, "the leader's own answer"
        await standby.stop()


@pytest.mark.parametrize(("file", "asks"), [("", False), ("/etc/tidegate/users", True)])
async def test_a_standby_serves_its_own_user_alone_unless_there_are_users(
    file: str, asks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is empty names no file, for the leader neither."""
    asked: list[object] = []

    def nothing_first(configuration: Configuration, host: str, *, asks_users: bool) -> list[Middleware]:
        asked.append(asks_users)
        return []

    monkeypatch.setattr(standby_module, "own_user_alone", nothing_first)
    configuration = Configuration.from_strings({SecurityOptions.USERS_FILE.key: file})
    lookup = LeaderLookup(Nowhere())
    forwarder = Forwarder(configuration, lookup)
    await forwarder.start("127.0.0.1", 0)
    await forwarder.stop()
    await lookup.close()
    assert asked == [asks]


async def test_a_standby_says_that_it_does_not_pass_certificates_of_users_on(tmp_path: Path) -> None:
    """A user who is known by one alone is sent to the leader, or to a token, which is passed on."""
    now, validity = datetime.now(UTC), timedelta(days=1)
    authority, users = make_authority(now, validity), tmp_path / "users"
    keystore, truststore = write_stores(tmp_path / "stores", authority, authority, now, validity)
    ada = issue(authority, ["ada"], now, validity, is_user=True)
    own = tmp_path / "ada.pem"
    own.write_bytes(ada.key_pem() + ada.chain_pem())
    own.chmod(0o600)
    token = add_user(users, "ada", Role.VIEW)
    users.write_text(f"{users.read_text()}ada view cert:{fingerprint_of(ada.certificate)}\n")
    place = Place(tmp_path)
    tls = {
        "security_ssl_rest_enabled": "true",
        "security_ssl_rest_authentication__enabled": "true",
        "security_ssl_rest_keystore": str(keystore),
        "security_ssl_rest_truststore": str(truststore),
        "tidegate_security_users_file": str(users),
        "env_log_dir": str(tmp_path),
    }
    by_key = {key.replace("__", "-").replace("_", "."): text for key, text in tls.items()}
    of_user = https_client(Configuration.from_strings({**by_key, "security.ssl.rest.keystore": str(own)}))
    async with running_job_manager(**place.settings, **tls):
        leader = Leader(1, Contact("a process", f"127.0.0.1:{place.rpc}", f"127.0.0.1:{place.rest}"))
        lookup = LeaderLookup(Nowhere(leader))
        forwarder = Forwarder(Configuration.from_strings(by_key), lookup)
        port = await forwarder.start("127.0.0.1", 0)
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=of_user or False)) as session:
            for asked, said, status in (
                (place.rest, {}, 200),
                (port, headers, 200),
                (port, {}, 401),
                (port, {"Authorization": "Bearer tgu_wrong"}, 401),
            ):
                async with session.get(f"https://127.0.0.1:{asked}/overview", headers=said) as answer:
                    assert answer.status == status
                    text = await answer.text()
                    assert (f"ask the leader at https://127.0.0.1:{place.rest}" in text) == (status == 401 and not said)
        await forwarder.stop()
        await lookup.close()
