"""Where a savepoint goes, what is restored, claimed and removed: by gRPC and by REST, below the directories of the JobManager's configuration."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from pathlib import Path
from typing import Any

import aiohttp

from tests.aio.jobmanager.cluster import JOB, cluster, is_running, make_graph, run_job, submit, watch_until
from tests.aio.jobmanager.test_snapshots import WAIT_MS, savepoint
from tidegate.pb import jobmanager_pb2 as pb

REFUSED = "outside of the directories that clients of this cluster may name"
OTHER = "b" * 32


async def restore(client: Any, path: str, **configuration: str) -> str:
    """What a submission that restores it says; empty: it was taken."""
    graph = make_graph(**configuration)
    object.__setattr__(graph, "job_id", OTHER)
    answer = await submit(client, graph, restore_path=path)
    return str(answer.error.message) if answer.HasField("error") else ""


async def operation(port: int, path: str, body: dict[str, object]) -> dict[str, Any]:
    """The result of an operation by REST."""
    trigger = secrets.token_hex(16)
    place = f"http://localhost:{port}{path}"
    async with aiohttp.ClientSession() as session:
        await session.post(place, json={**body, "triggerId": trigger})
        status = place.replace("/stop", "/savepoints") + f"/{trigger}"
        while True:
            async with session.get(status) as answer:
                found: dict[str, Any] = await answer.json()
            if found.get("status", {}).get("id") == "COMPLETED":
                return dict(found["operation"])
            await asyncio.sleep(0.01)


async def test_savepoints_restores_and_disposals_stay_below_the_roots(tmp_path: Path) -> None:
    root, out = tmp_path / "root", tmp_path / "out"
    for directory in (root, out):
        directory.mkdir()
    (root / "leaves").symlink_to(out)
    async with cluster("tm-1", "tm-2", tidegate_client__directories=str(root)) as (client, _, listening):
        port = listening.rest_port
        await run_job(client)
        taken = await savepoint(client, str(root))
        assert not taken.HasField("error"), taken.error
        shutil.copytree(taken.path, out / "savepoint")
        for target in (
            out,
            root / "leaves",
            root / "leaves" / "new",
            f"{root}/../out",
            f"file://{root}/%2e%2e/out",
            "s3://bucket/x",
        ):
            assert REFUSED in (await savepoint(client, str(target))).error.message
            stop = pb.StopWithSavepointRequest(job_id=JOB, target_directory=str(target), wait_ms=WAIT_MS)
            assert REFUSED in (await client.StopWithSavepoint(stop)).error.message
        for path, key in ((f"/jobs/{JOB}/savepoints", "target-directory"), (f"/v1/jobs/{JOB}/stop", "targetDirectory")):
            ended = await operation(port, path, {key: str(out)})
            assert REFUSED in ended["failure-cause"]["stack-trace"]
        status = await watch_until(client, JOB, is_running)
        assert (status.restarts, status.checkpoints_failed) == (0, 0), "a refusal is no failure of the job"
        for named in (out / "savepoint", root / "leaves" / "savepoint", f"{root}/../out/savepoint/_metadata"):
            assert REFUSED in await restore(client, str(named))
            assert REFUSED in await restore(client, str(named), execution_state__recovery_claim__mode="CLAIM")
            disposed = await client.DisposeSavepoint(pb.DisposeSavepointRequest(path=str(named)))
            assert REFUSED in disposed.error.message
        ended = await operation(port, "/savepoint-disposal", {"savepoint-path": f"file:{out}/savepoint"})
        assert REFUSED in ended["failure-cause"]["stack-trace"]
        for key in ("execution_checkpointing_dir", "execution_checkpointing_savepoint__dir"):
            assert REFUSED in await restore(client, "", **{key: str(out)})
        assert [path.name for path in out.iterdir()] == ["savepoint"]
        assert sorted(path.name for path in (out / "savepoint").iterdir()) == sorted(os.listdir(taken.path))
        assert await restore(client, taken.path) == ""


async def test_a_link_does_not_hide_that_a_job_needs_a_savepoint(tmp_path: Path) -> None:
    async with cluster("tm-1", "tm-2") as (client, _, _):
        await run_job(client)
        taken = await savepoint(client, str(tmp_path / "sp"))
        assert await restore(client, taken.path) == ""
        (tmp_path / "link").symlink_to(tmp_path / "sp")
        linked = f"{tmp_path}/link/{Path(taken.path).name}"
        disposed = await client.DisposeSavepoint(pb.DisposeSavepointRequest(path=linked))
        assert "would recover from" in disposed.error.message


async def test_a_cluster_that_others_reach_lets_clients_name_its_own_directories_alone(tmp_path: Path) -> None:
    settings = {
        "rest_bind__address": "0.0.0.0",
        "tidegate_security_insecure": "true",
        "execution_checkpointing_savepoint__dir": str(tmp_path / "sp"),
    }
    async with cluster("tm-1", "tm-2", **settings) as (client, _, _):
        await run_job(client)
        assert REFUSED in (await savepoint(client, str(tmp_path / "out"))).error.message
        taken = await savepoint(client)
        assert Path(taken.path).parent == tmp_path / "sp"
        assert await restore(client, taken.path) == ""
