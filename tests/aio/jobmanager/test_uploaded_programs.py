"""An uploaded program becomes a job of a real JobManager: its client part runs in a process of its own."""

from __future__ import annotations

from typing import Any

import aiohttp

from tests.aio.jobmanager.cluster import running_job_manager
from tidegate.model.ids import hex_id

PROGRAM = b"""
import sys
from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).print()
env.execute(" ".join(sys.argv[1:]))
"""


async def asked(session: aiohttp.ClientSession, method: str, path: str, status: int, **options: Any) -> Any:
    async with session.request(method, path, **options) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


async def test_a_program_runs_and_its_job_is_there() -> None:
    async with running_job_manager() as listening:
        base = f"http://localhost:{listening.rest_port}"
        async with aiohttp.ClientSession(base) as session:
            data = aiohttp.FormData()
            data.add_field("jarfile", PROGRAM, filename="numbers.py", content_type="application/octet-stream")
            uploaded = await asked(session, "POST", "/v1/jars/upload", 200, data=data)
            jar = uploaded["filename"].rpartition("/")[2]
            request = {
                "programArgsList": ["--name", "three numbers"],
                "parallelism": 2,
                "jobId": hex_id("given"),
                "flinkConfiguration": {"execution.checkpointing.interval": "1 h"},
            }
            answer = await asked(session, "POST", f"/v1/jars/{jar}/run", 200, json=request)
            assert answer == {"jobid": hex_id("given"), "applicationId": hex_id("given")}
            job = await asked(session, "GET", f"/jobs/{hex_id('given')}", 200)
            assert job["name"] == "--name three numbers"
            config = await asked(session, "GET", f"/jobs/{hex_id('given')}/checkpoints/config", 200)
            assert config["interval"] == 3_600_000
            again = await asked(session, "POST", f"/v1/jars/{jar}/run", 409, json=request)
            assert "was submitted before" in again["errors"][0]
            nowhere = {"savepointPath": "/no/such/savepoint"}
            refused = await asked(session, "POST", f"/v1/jars/{jar}/run", 400, json=nowhere)
            assert refused["errors"][0].startswith("Could not execute application: ")
            assert "/no/such/savepoint" in refused["errors"][0]
            overview = await asked(session, "GET", "/jobs/overview", 200)
            assert [item["jid"] for item in overview["jobs"]] == [hex_id("given")]
