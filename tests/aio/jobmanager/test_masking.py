"""A job with secrets in its configuration, in its names and in what it fails of: nothing that leaves the JobManager shows one."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.aio.jobmanager.cluster import JOB, SOURCE, cluster, run_job, watch_until
from tests.e2e.waiting import wait_until
from tidegate.aio.logs import LineFormatter
from tidegate.pb import common_pb2

KNOWN, OF_URI, OF_QUERY = "correct-horse-battery", "wJalrXUtnFEMI/K7MDENG", "tr0ub4dor"
SECRETS = (KNOWN, OF_URI, OF_QUERY)
MESSAGE = f"cannot read s3://AKIA:{OF_URI}@bucket/x?secret_key={OF_QUERY}: the server said {KNOWN}"

OF_THE_JOB = (
    "", "/config", "/plan", "/exceptions", "/execution-result", "/accumulators", "/jobmanager/config", "/checkpoints", "/checkpoints/config",
    f"/vertices/{SOURCE}", f"/vertices/{SOURCE}/subtasks/0", f"/vertices/{SOURCE}/subtasktimes",
)  # fmt: skip
PATHS = (
    "/config", "/overview", "/jobs/overview", "/jobmanager/config", "/jobmanager/environment", "/jobmanager/thread-dump", "/taskmanagers",
    "/applications/overview", f"/applications/{JOB}", f"/applications/{JOB}/exceptions", f"/applications/{JOB}/jobmanager/config",
    *(f"/jobs/{JOB}{path}" for path in OF_THE_JOB),
)  # fmt: skip


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield written
    root.setLevel(level)
    root.removeHandler(handler)


async def test_no_view_of_a_job_shows_a_secret(tmp_path: Path, log: io.StringIO) -> None:
    settings = {"restart__strategy_type": "none", "s3_secret__key": KNOWN, "pipeline_name": f"of {KNOWN}"}
    archive = tmp_path / "archive"
    async with cluster("tm-1", jobmanager_archive_fs_dir=str(archive)) as (client, (task_manager,), listening):
        await run_job(client, **settings)
        error = common_pb2.Error(code="storage", domain="external", message=MESSAGE, details=f"Traceback\n  {MESSAGE}")
        attempt = next(iter(task_manager.deployments))
        await task_manager.report(attempt, "FAILED", error)
        status = await watch_until(client, JOB, lambda status: status.state == "FAILED")
        shown = {"the command line": str(status.failure)}
        async with aiohttp.ClientSession(f"http://localhost:{listening.rest_port}") as session:
            for path in PATHS:
                async with session.get(path) as answer:
                    assert answer.status == 200, path
                    shown[path] = await answer.text()
            async with session.get(f"/jobs/{JOB}/checkpoints/details/{KNOWN}") as answer:
                shown["an error"] = await answer.text()
        await asyncio.to_thread(wait_until, (archive / JOB).exists, 20, "the archive is written")
        shown["the log"] = log.getvalue()
        shown["the archive"] = (archive / JOB).read_text()
    assert shown["the log"]
    assert (
        "cannot read s3://AKIA:******@bucket/x?secret_key=****** the server said ******"
        in shown[f"/jobs/{JOB}/exceptions"]
    )
    assert '{"key":"s3.secret-key","value":"******"}' in shown[f"/jobs/{JOB}/jobmanager/config"]
    assert {name for name, text in shown.items() if any(secret in text for secret in SECRETS)} == set()
