"""The options of `tidegate` that are Flink's, against a running JobManager: what they do, and what is printed."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.aio.jobmanager.cluster import cluster, make_graph, put_blob, submit, watch_until
from tidegate.cli.main import main
from tidegate.jobmanager.service.app import Listening
from tidegate.model.ids import JobId, hex_id


@dataclass
class Site:
    client: Any
    listening: Listening

    async def tidegate(self, command: str, *arguments: object) -> Result:
        words = [command, "-m", f"127.0.0.1:{self.listening.rpc_port}", *map(str, arguments)]
        return await asyncio.to_thread(CliRunner().invoke, main, words)

    async def fault(self, command: str, *arguments: str) -> Result:
        words = ["fault", command, "-m", f"127.0.0.1:{self.listening.rpc_port}", *arguments]
        return await asyncio.to_thread(CliRunner().invoke, main, words)

    async def submit(self, name: str) -> JobId:
        await put_blob(self.client)
        job_id = JobId(hex_id(name))
        answer = await submit(
            self.client, replace(make_graph(execution_checkpointing_interval="1 h"), job_id=job_id, name=name)
        )
        assert not answer.HasField("error"), answer.error
        await watch_until(
            self.client, job_id, lambda s: all(t.state == "RUNNING" for v in s.vertices for t in v.subtasks)
        )
        return job_id


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with cluster("tm-1", heartbeat_timeout="1 h") as (client, _, listening):
        yield Site(client, listening)


def done(result: Result) -> str:
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def savepoints_in(directory: Path) -> list[Path]:
    return [found.parent for found in directory.glob("sp/*/_metadata")]


async def test_list_shows_what_runs_or_what_is_scheduled_or_all(site: Site) -> None:
    job = await site.submit("first")
    for options in ([], ["-r"], ["--running"], ["-s", "-r"], ["-a"], ["-all"]):
        assert job in done(await site.tidegate("list", *options)), options
    assert done(await site.tidegate("list", "-s")) == (
        "No scheduled jobs; `tidegate list -a` shows those that are over.\n"
    )


async def test_cancel_takes_a_savepoint_first_when_asked(site: Site, tmp_path: Path) -> None:
    job = await site.submit("first")
    result = await site.tidegate("cancel", "-s", tmp_path / "sp", job)
    assert f"Cancelled job {job}. Savepoint stored in {tmp_path / 'sp'}/savepoint-" in done(result)
    assert result.stderr == 'DEPRECATION WARNING: Cancelling a job with savepoint is deprecated. Use "stop" instead.\n'
    assert savepoints_in(tmp_path)
    await watch_until(site.client, job, lambda status: status.state == "CANCELED")


async def test_cancel_with_a_savepoint_reads_its_only_word_as_the_job(site: Site) -> None:
    job = await site.submit("first")
    result = await site.tidegate("cancel", "-s", job)
    assert f"Cancelling job {job} with savepoint to default savepoint directory." in result.stdout
    assert result.exit_code == 2
    assert "No savepoint directory configured." in result.stderr


async def test_a_detached_savepoint_leaves_with_the_id_of_its_trigger(site: Site, tmp_path: Path) -> None:
    job = await site.submit("first")
    text = done(await site.tidegate("savepoint", "-type", "native", "-detached", job, tmp_path / "sp"))
    found = re.search(r"^Successfully trigger manual savepoint, triggerId: ([0-9a-f]{32})$", text, re.MULTILINE)
    assert found is not None, text
    await _completed(site, job, found[1], tmp_path / "sp")


async def test_a_detached_stop_leaves_with_the_id_of_its_trigger(site: Site, tmp_path: Path) -> None:
    job = await site.submit("first")
    text = done(await site.tidegate("stop", "-d", "-detached", "-p", tmp_path / "sp", job))
    assert f'Draining job "{job}" with a savepoint.' in text
    found = re.search(r"in detached mode, triggerId: ([0-9a-f]{32})$", text, re.MULTILINE)
    assert found is not None, text
    await watch_until(site.client, job, lambda status: status.state == "FINISHED")
    assert savepoints_in(tmp_path)


async def test_savepoints_are_disposed_by_flinks_short_option(site: Site, tmp_path: Path) -> None:
    job = await site.submit("first")
    done(await site.tidegate("savepoint", job, tmp_path / "sp"))
    (savepoint,) = savepoints_in(tmp_path)
    assert "disposed" in done(await site.tidegate("savepoint", "-d", savepoint))
    assert not savepoint.exists()
    assert "completed" in done(await site.tidegate("checkpoint", "-full", job))


async def _completed(site: Site, job: JobId, trigger_id: str, directory: Path) -> None:
    """REST tells the end of the savepoint under the id that was printed."""
    import aiohttp

    url = f"http://127.0.0.1:{site.listening.rest_port}/jobs/{job}/savepoints/{trigger_id}"
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(url) as answer:
                assert answer.status == 200, await answer.text()
                body = await answer.json()
            if body["status"]["id"] == "COMPLETED":
                break
    assert str(directory) in body["operation"]["location"]


async def test_faults_are_a_line_of_json_each() -> None:
    async with cluster("tm-1", heartbeat_timeout="1 h", tidegate_testing_allow__faults="true") as (
        client,
        _,
        listening,
    ):
        site = Site(client, listening)
        result = await site.fault("list", "--json")
        assert done(result) == ""
        done(await site.fault("slow-state", "--for", "1 ms"))
        (made,) = map(json.loads, done(await site.fault("list", "--json")).splitlines())
        assert made["text"] in done(await site.fault("list"))
