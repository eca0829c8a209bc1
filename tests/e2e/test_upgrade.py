"""A running job's next version takes its place and goes on from its state; one that does not work gives way to the old one."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e.cluster import JOBS
from tests.e2e.test_queryable_state import asked_job, counts, served_cluster
from tidegate.queryablestate import QueryableStateClient

_JOB = re.compile(r"\b[0-9a-f]{32}\b")


def test_the_next_version_goes_on_and_one_that_fails_is_rolled_back(tmp_path: Path) -> None:
    with served_cluster(tmp_path) as cluster, asked_job(cluster, tmp_path) as (watch, client):
        before = counts(client, watch)
        watch.wait_checkpoints(1)
        place = ("-m", cluster.address, "--savepoint-path", str(tmp_path / "savepoints"))
        settings = [f"-Dexecution.checkpointing.dir={tmp_path / 'checkpoints'}", "-p", "2"]

        def upgraded(job_id: str, *arguments: str) -> tuple[int, str, str]:
            done = cluster.cli("upgrade", *place, *settings, job_id, str(JOBS / "queried.py"), *arguments)
            ids = _JOB.findall(done.stdout if done.returncode == 0 else done.stderr)
            return done.returncode, ids[-1] if ids else "", done.stdout + done.stderr

        code, _, text = upgraded(watch.job_id, "--uid", "another")
        assert (code, "was not touched: the new version would drop state; -n allows that" in text) == (1, True), text
        assert sum(counts(client, watch)) >= sum(before), "it runs as before"

        code, job_id, text = upgraded(watch.job_id, "--rate", "4000")
        assert code == 0, text
        assert "has completed its first checkpoint" in text
        watch = cluster.watch(job_id)
        with QueryableStateClient("127.0.0.1", cluster.port) as newcomer:
            assert sum(counts(newcomer, watch)) > sum(before)

            code, old_id, text = upgraded(job_id, "--fails")
            assert code == 3, text
            assert "rolled back to the old version" in text
            assert "this version does not work" in text
            watch = cluster.watch(old_id)
            watch.wait_running()
            assert sum(counts(newcomer, watch)) > sum(before)
        cluster.cancel(watch)
        code, _, text = upgraded(old_id)
        assert code == 2, text
        assert "start the new version with `tidegate run -s`" in text
