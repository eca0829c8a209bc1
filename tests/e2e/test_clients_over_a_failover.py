"""Who waits for a job goes on waiting when its JobManager is killed, and another one leads."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.chromium import OpenPage
from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART, CountsRun
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tests.e2e.watching import CALL_LIMIT_S
from tidegate.pb import jobmanager_pb2 as pb

_JOB_LIMIT_S = 200


def test_run_and_execute_and_collect_and_an_open_page_go_on_with_the_next_leader(
    surviving_cluster: Cluster, tmp_path: Path, open_page: OpenPage, troubles: list[str]
) -> None:
    """``tidegate run`` ends when its job has finished under the standby, a program gets each result once, and the page, which is not
    loaded again, shows how it ended."""
    run, marker = CountsRun(tmp_path / "run", seconds=14, rows=96_000), tmp_path / "some-are-collected"
    kept = {"execution.checkpointing.dir": str(run.checkpoints), **QUICK_RESTART}
    options = [f"-D{key}={value}" for key, value in kept.items()]
    cluster = surviving_cluster
    before = {job.job_id for job in _listed(cluster)}
    with ThreadPoolExecutor(2) as clients:

        def attached(*arguments: str) -> Callable[[], subprocess.CompletedProcess[str]]:
            command = ("run", "--jobmanager", cluster.address, *options, *arguments)
            return clients.submit(lambda: cluster.cli(*command, limit_s=_JOB_LIMIT_S)).result

        counting = attached("-p", "2", str(JOBS / "counts.py"), *run.arguments)
        collecting = attached("-p", "1", str(JOBS / "collected.py"), "slowly", str(marker))
        leader = cluster.job_manager
        assert leader is not None
        standby = cluster.start_standby()
        wait_until(lambda: standby.says(f"standby: the JobManager with pid {leader.pid} leads"), 60, "it stands by")
        wait_until(lambda: len(_running(cluster)) == 2, HANG_LIMIT_S, "both jobs run")
        [job_id] = [job.job_id for job in _running(cluster) if job.name == "counts"]
        page = open_page(f"http://127.0.0.1:{cluster.rest_port}/#/jobs/{job_id}")
        expect(page.locator(".badge").first).to_have_text("running")
        page.evaluate("window.isTheSame = true")
        wait_until(marker.exists, HANG_LIMIT_S, "some results were collected")
        wait_until(lambda: run.result() != [], HANG_LIMIT_S, "a checkpoint was committed")
        cluster.kill9(leader)
        cluster.wait_led()

        counted, collected = counting(), collecting()
        assert counted.returncode == 0, counted.stdout + counted.stderr
        assert f"Job with JobID {job_id} has finished." in counted.stdout
        run.assert_exact()
        assert collected.returncode == 0, collected.stdout + collected.stderr
        assert "each once: True" in collected.stdout
        expect(page.locator(".badge").first).to_have_text("finished")
        assert page.evaluate("window.isTheSame"), "it was loaded again"
        assert [job.restarts for job in _listed(cluster) if job.job_id not in before] == [0, 0]
        page.close()  # it would go on to ask when the cluster has ended
        troubles.clear()  # the browser tells of the connection that it had lost


def _listed(cluster: Cluster) -> list[pb.JobStatus]:
    return list(cluster.stub.ListJobs(pb.ListJobsRequest(include_terminal=True), timeout=CALL_LIMIT_S).jobs)


def _running(cluster: Cluster) -> list[pb.JobStatus]:
    return [job for job in _listed(cluster) if job.state == "RUNNING"]
