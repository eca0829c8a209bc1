"""``cluster.io-pool.size``: how many calls of the checkpoint storage a JobManager makes at a time."""

from __future__ import annotations

import threading

import pytest

from tests.aio.jobmanager.cluster import running_job_manager


@pytest.mark.parametrize(("texts", "threads"), [({}, 4), ({"cluster_io__pool_size": "7"}, 7)])
async def test_so_many_threads_wait_for_the_storage(texts: dict[str, str], threads: int) -> None:
    async with running_job_manager(**texts):
        names = [thread.name for thread in threading.enumerate()]
        assert sum(name.startswith("storage-") for name in names) == threads
