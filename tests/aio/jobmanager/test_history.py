"""A job that is over is archived: the next JobManager, and the history server, tell the same of it."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.aio.jobmanager.callers import answers_by_role, bearer, filled, one_of_each
from tests.aio.jobmanager.cluster import JOB, client_of, cluster, run_job, running_job_manager, watch_until
from tests.contract.web.listening import Listening
from tests.e2e.waiting import wait_until
from tidegate.aio.process import Services
from tidegate.jobmanager.rest.required_roles import REST_ROLES
from tidegate.jobmanager.service import rest_service
from tidegate.jobmanager.service.history_server import start_history_server
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.model.ids import JobId, hex_id
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.security.user_file import remove_user
from tidegate.security.users import Role
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.job_archives import JobArchives

PATHS = (
    f"/jobs/{JOB}",
    f"/jobs/{JOB}/checkpoints",
    f"/jobs/{JOB}/checkpoints/config",
    f"/jobs/{JOB}/checkpoints/details/1",
    f"/jobs/{JOB}/checkpoints/details/1/subtasks/{'1' * 32}",
    f"/jobs/{JOB}/vertices/{'2' * 32}",
    f"/jobs/{JOB}/vertices/{'2' * 32}/subtasks/1/attempts/0",
    f"/jobs/{JOB}/execution-result",
    f"/jobs/{JOB}/exceptions",
    f"/applications/{JOB}",
)


async def get(port: int, path: str, status: int = 200) -> Any:
    async with aiohttp.ClientSession() as session, session.get(f"http://localhost:{port}{path}") as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


def end_of(archives: JobArchives, number: int) -> JobId:
    """An archive of a job that ended after so many milliseconds."""
    job_id = JobId(hex_id("job", str(number)))
    item = {"jid": job_id, "name": "x", "state": "FINISHED", "end-time": number}
    archives.write(job_id, {"/jobs/overview": json.dumps({"jobs": [item]})})
    return job_id


def without_now(answer: Any) -> Any:
    """Without what goes on changing when a job is over: the time, and whether the files of its checkpoints are gone yet."""
    if isinstance(answer, list):
        return [without_now(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    return {key: without_now(value) for key, value in answer.items() if key not in ("now", "discarded")}


async def run_a_job(tmp_path: Path, archive: Path, *, await_archive: bool = True, **settings: str) -> dict[str, Any]:
    """With a checkpoint; what was told of it when it was over. The JobManager has ended then, behind its TaskManager."""
    async with cluster("tm-1", jobmanager_archive_fs_dir=str(archive)) as (client, _, listening):
        await run_job(client, execution_checkpointing_dir=str(tmp_path / "cp"), **settings)
        taken = await client.TriggerCheckpoint(pb.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=20_000))
        assert taken.checkpoint_id == 1
        await client.CancelJob(pb.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
        told = {path: await get(listening.rest_port, path) for path in PATHS}
        if await_archive:
            await asyncio.to_thread(wait_until, (archive / JOB).exists, 20, "the archive is written")
        return told


async def test_a_job_survives_the_jobmanager(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    told = await run_a_job(tmp_path, archive)
    content = json.loads((archive / JOB).read_bytes())["archive"]
    assert {"path", "json"} == set(content[0]), "the format of Flink's archives"
    async with running_job_manager(jobmanager_archive_fs_dir=str(archive)) as listening:
        port = listening.rest_port
        for path in PATHS:
            for prefix in ("", "/v1"):
                assert without_now(await get(port, prefix + path)) == without_now(told[path]), path
        [item] = (await get(port, "/jobs/overview"))["jobs"]
        assert (item["jid"], item["state"]) == (JOB, "CANCELED")
        assert (await get(port, "/jobs"))["jobs"] == [{"id": JOB, "status": "CANCELED"}]
        assert (await get(port, "/applications/overview"))["applications"][0]["id"] == JOB
        assert (await get(port, "/overview"))["jobs-cancelled"] == 1
        async with client_of(listening) as client:
            [listed] = (await client.ListJobs(pb.ListJobsRequest(include_terminal=True))).jobs
            assert (listed.job_id, listed.state, listed.checkpoints_completed) == (JOB, "CANCELED", 1)
            assert sum(listed.vertices[0].task_counts.values()) > 0
            assert not (await client.ListJobs(pb.ListJobsRequest())).jobs
        assert (await get(port, f"/jobs/{JOB}/checkpoints/details/9", 404))["errors"]
        async with aiohttp.ClientSession() as session:
            cancel = await session.patch(f"http://localhost:{port}/jobs/{JOB}?mode=cancel")
            assert cancel.status == 404


async def test_where_jobs_are_kept_those_that_ended_are_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next JobManager tells of them, without any option; of so many as are retained."""
    monkeypatch.setattr(rest_service, "RETAINED_JOBS", 2)
    archives = JobArchives(str(tmp_path / "ha" / "default" / "archive"))
    old = [end_of(archives, number) for number in range(3)]
    kept = {"high__availability_type": "filesystem", "high__availability_storageDir": str(tmp_path / "ha")}
    async with cluster("tm-1", **kept) as (client, _, listening):
        assert [item["jid"] for item in (await get(listening.rest_port, "/jobs/overview"))["jobs"]] == [old[2], old[1]]
        await run_job(client)
        await client.CancelJob(pb.JobRequest(job_id=JOB))
        await watch_until(client, JOB, lambda status: status.state == "CANCELED")
    assert archives.job_ids() == sorted([JOB, old[2]])
    async with running_job_manager(**kept) as listening:
        assert (await get(listening.rest_port, f"/jobs/{JOB}"))["state"] == "CANCELED"


@pytest.mark.parametrize("retention", ["NO_EXTERNALIZED_CHECKPOINTS", "RETAIN_ON_CANCELLATION"])
async def test_the_archive_says_which_checkpoints_are_gone(tmp_path: Path, retention: str) -> None:
    archive = tmp_path / "archive"
    await run_a_job(tmp_path, archive, execution_checkpointing_externalized__checkpoint__retention=retention)
    async with running_job_manager(jobmanager_archive_fs_dir=str(archive)) as listening:
        told = await get(listening.rest_port, f"/jobs/{JOB}/checkpoints")
        details = await get(listening.rest_port, f"/jobs/{JOB}/checkpoints/details/1")
    is_gone = retention == "NO_EXTERNALIZED_CHECKPOINTS"
    assert (tmp_path / "cp" / JOB / "chk-1").exists() is not is_gone
    assert [told["history"][0]["discarded"], told["latest"]["completed"]["discarded"], details["discarded"]] == [
        is_gone
    ] * 3


async def test_a_jobmanager_that_is_stopped_finishes_with_jobs_that_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the disk takes its time to remove a checkpoint."""
    discard = CheckpointStorage.discard

    def slow(storage: CheckpointStorage, location: str) -> None:
        time.sleep(0.3)
        discard(storage, location)

    monkeypatch.setattr(CheckpointStorage, "discard", slow)
    retention = "NO_EXTERNALIZED_CHECKPOINTS"
    setting = {"execution_checkpointing_externalized__checkpoint__retention": retention}
    await run_a_job(tmp_path, tmp_path / "archive", await_archive=False, **setting)
    assert not (tmp_path / "cp" / JOB / "chk-1").exists()
    assert (tmp_path / "archive" / JOB).exists()


async def test_the_page_shows_a_job_of_the_archive(tmp_path: Path) -> None:
    """As it was when it was over: in the list, with its graph, its subtasks, and how its checkpoint travelled."""
    archive = tmp_path / "archive"
    await run_a_job(tmp_path, archive)
    async with running_job_manager(jobmanager_archive_fs_dir=str(archive)) as listening:
        url = f"http://localhost:{listening.rest_port}/web/events"
        async with aiohttp.ClientSession() as session:
            listed = await heard(session, url, "jobs")
            shown = await heard(
                session,
                f"{url}?job={JOB}&vertex={'2' * 32}&checkpoint=1",
                "job",
                "subtasks",
                "checkpoint",
                "exceptions",
            )
            forgotten = await heard(session, f"{url}?job={JOB}&checkpoint=9", "checkpoint")
        options = {row["key"]: row["value"] for row in await get(listening.rest_port, f"/web/settings?job={JOB}")}
    [item] = listed["jobs"]
    assert (item["id"], item["state"], item["checkpoints"]) == (JOB, "CANCELED", [1, 0, 0])
    assert [vertex["name"] for vertex in shown["job"]["vertices"]] == ["numbers", "print"]
    assert [row["state"] for row in shown["subtasks"]["rows"]] == ["CANCELED", "CANCELED"]
    assert (shown["checkpoint"]["status"], len(shown["checkpoint"]["tracks"])) == ("COMPLETED", 4)
    assert forgotten == {"checkpoint": None}
    assert options["execution.checkpointing.dir"] == str(tmp_path / "cp")


async def heard(session: aiohttp.ClientSession, url: str, *names: str) -> dict[str, Any]:
    async with session.get(url) as answer:
        return {name: part for name, part in (await Listening(answer).parts(*names)).items() if name in names}


async def test_an_archive_that_has_nothing_for_the_page_is_listed_all_the_same(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    await run_a_job(tmp_path, archive)
    content = json.loads((archive / JOB).read_bytes())
    content["archive"] = [entry for entry in content["archive"] if not entry["path"].startswith("/web/")]
    (archive / JOB).write_text(json.dumps(content))
    async with (
        running_job_manager(jobmanager_archive_fs_dir=str(archive)) as listening,
        aiohttp.ClientSession() as session,
    ):
        url = f"http://localhost:{listening.rest_port}/web/events"
        [item] = (await heard(session, url, "jobs"))["jobs"]
        assert await heard(session, f"{url}?job={JOB}", "gone") == {"gone": {"id": JOB}}
    assert (item["id"], item["state"], item["tasks"]["CANCELED"], item["checkpoints"]) == (JOB, "CANCELED", 4, None)


async def test_the_history_server_tells_the_same(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    told = await run_a_job(tmp_path, archive)
    (archive / hex_id("damaged")).write_text("no archive")
    (archive / "notes.txt").write_text("no job")
    services = Services()
    texts = {"historyserver.archive.fs.dir": str(archive), "historyserver.web.port": "0"}
    try:
        port = await start_history_server(Configuration.from_strings(texts), services)
        async with asyncio.timeout(20):
            while not (await get(port, "/jobs/overview"))["jobs"]:
                pass
        assert [item["jid"] for item in (await get(port, "/jobs/overview"))["jobs"]] == [JOB]
        for path in PATHS:
            assert without_now(await get(port, path)) == without_now(told[path])
        assert (await get(port, "/config"))["features"]["web-history"] is True
        for path in (f"/jobs/{hex_id('nobody')}", "/jobs/..%2F..%2Fetc%2Fpasswd", "/nothing"):
            assert list(await get(port, path, 404)) == ["errors"]
        async with aiohttp.ClientSession() as session, session.get(f"http://localhost:{port}/") as page:
            assert f"jobs/{JOB}" in await page.text()
    finally:
        await services.stop_all()


async def test_old_archives_go(tmp_path: Path) -> None:
    archives = JobArchives(str(tmp_path))
    for number in range(4):
        end_of(archives, number)
    services = Services()
    texts = {
        "historyserver.archive.fs.dir": str(tmp_path),
        "historyserver.web.port": "0",
        "historyserver.archive.retained-jobs": "2",
    }
    try:
        port = await start_history_server(Configuration.from_strings(texts), services)
        async with asyncio.timeout(20):
            while len(archives.job_ids()) > 2 or len((await get(port, "/jobs"))["jobs"]) != 2:
                await get(port, "/config")
        assert [item["end-time"] for item in (await get(port, "/jobs/overview"))["jobs"]] == [3, 2]
    finally:
        await services.stop_all()


async def test_without_a_directory_it_does_not_start() -> None:
    with pytest.raises(ConfigurationError, match="historyserver.archive.fs.dir"):
        await start_history_server(Configuration(), Services())


async def test_an_archive_that_cannot_be_written_is_logged_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        told = await run_a_job(tmp_path, blocked / "archive", await_archive=False)
    assert told[f"/jobs/{JOB}"]["state"] == "CANCELED"
    assert "the job is not archived" in caplog.text


async def test_where_there_are_users_each_path_of_the_history_server_needs_its_role(tmp_path: Path) -> None:
    """The matrix of the REST API: also of what an archive has that ours do not."""
    flames = f"/jobs/{JOB}/vertices/{JOB}/flamegraph"
    item = {"jid": JOB, "name": "x", "state": "FINISHED", "end-time": 5}
    archives = JobArchives(str(tmp_path / "archive"))
    archives.write(JOB, {"/jobs/overview": json.dumps({"jobs": [item]}), f"/jobs/{JOB}": "{}", flames: "{}"})
    users = tmp_path / "users"
    tokens = one_of_each(users)
    settings = {
        "historyserver.archive.fs.dir": str(tmp_path / "archive"),
        "historyserver.web.port": "0",
        "historyserver.web.address": "127.0.0.1",
        "tidegate.security.users.file": str(users),
        "env.log.dir": str(tmp_path),
    }
    read = {filled(pattern): role for (method, pattern), role in REST_ROLES.items() if method == "GET"}
    services = Services()
    try:
        port = await start_history_server(Configuration.from_strings(settings), services)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with asyncio.timeout(20):
                while not await known_jobs(session, tokens[Role.VIEW]):
                    pass
            for path, needed in {"/": Role.VIEW, "/nothing": Role.VIEW, **read}.items():
                found = await answers_by_role(session, path, needed, tokens)
                assert set(found.values()) <= {200, 404}, path
            assert await answers_by_role(session, flames, Role.DATA, tokens) == dict.fromkeys(
                (Role.DATA, Role.OPERATE, Role.DEPLOY), 200
            )
            said = base64.b64encode(f"whoever:{tokens[Role.VIEW]}".encode()).decode()
            of_browser = {"Authorization": f"Basic {said}"}
            async with session.get("/", headers=of_browser) as answer:
                assert answer.status == 200, await answer.text()
            for odd in ("Basic", "Basic !!!", "Basic /w==", "Basic eA=="):
                async with session.get("/", headers={"Authorization": odd}) as answer:
                    assert answer.status == 401, odd
            remove_user(users, "the-view")
            async with session.get("/", headers=of_browser) as answer:
                assert (answer.status, "Basic realm=" in answer.headers["www-authenticate"]) == (401, True)
    finally:
        await services.stop_all()


async def known_jobs(session: aiohttp.ClientSession, token: str) -> object:
    async with session.get("/jobs", headers=bearer(token)) as answer:
        return (await answer.json())["jobs"]
