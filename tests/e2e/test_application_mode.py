"""One job for a cluster: a JobManager begins with it, goes on with it when it is started again, and ends with it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART, CountsRun
from tests.e2e.jobs import counts
from tests.e2e.test_high_availability import WAITS_LONG, kept_in
from tests.e2e.waiting import HANG_LIMIT_S, wait_until
from tidegate.pb import jobmanager_pb2 as pb

_JOB_LIMIT_S = 240


def test_the_cluster_goes_on_with_its_job_and_ends_with_it(tmp_path: Path) -> None:
    run = CountsRun(tmp_path / "run", held=True, seconds=4, rows=16_000, splits=4, disorder=counts.SPAN_MS)
    settings = {**kept_in(tmp_path / "ha"), **WAITS_LONG, **QUICK_RESTART}
    settings |= {"execution.checkpointing.dir": str(run.checkpoints), "parallelism.default": "2"}
    application = ("--job", str(JOBS / "counts.py"), *run.arguments)
    cluster = Cluster(tmp_path / "cluster", settings)
    cluster.start_job_manager(*application)
    with cluster:
        cluster.add_taskmanager(4)
        cluster.wait_slots(4)
        wait_until(lambda: _jobs(cluster), HANG_LIMIT_S, "its job was submitted")
        (job_id,) = _jobs(cluster)
        watch = cluster.watch(job_id)
        watch.wait_running()
        watch.wait_checkpoints(1)
        assert cluster.job_manager is not None
        cluster.kill9(cluster.job_manager)
        cluster.start_job_manager(*application)
        watch = cluster.watch(job_id)
        watch.wait_running()
        assert _jobs(cluster) == [job_id], "it is not submitted again"
        assert watch.last is not None
        assert watch.last.status.restarts == 0, "its subtasks went on"
        run.release()
        process = cluster.job_manager
        assert process is not None
        assert process.popen.wait(_JOB_LIMIT_S) == 0
        run.assert_exact()
        assert process.says(f"job {job_id} of this cluster goes on")
        cluster.forget(process)
        again = cluster.cli("jobmanager", "--rpc-port", str(cluster.port), *_given(settings), *application)
        assert again.returncode == 0, again.stderr
        assert f"job {job_id} is FINISHED" in again.stderr
        run.assert_exact()


def test_a_program_that_fails_ends_its_cluster_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "raises.py").write_text("raise ValueError('no input today')\n")
    (tmp_path / "empty.py").write_text("")
    with Cluster(tmp_path / "cluster") as cluster:
        for job, text in (
            ("raises.py", "no input today"),
            ("empty.py", "ended without a job"),
            ("no.py", "no such file"),
        ):
            place = ["--rpc-port", "0", "--rest-port", "0", "--job", str(tmp_path / job)]
            done = cluster.cli("jobmanager", *place)
            assert done.returncode in (1, 2), done
            assert text in done.stderr
        done = cluster.cli("jobmanager", "what", "is", "this")
        assert done.returncode == 2
        assert "are arguments of a job: give the job with --job" in done.stderr


def _jobs(cluster: Cluster) -> list[str]:
    request = pb.ListJobsRequest(include_terminal=True)
    return [job.job_id for job in cluster.stub.ListJobs(request, timeout=HANG_LIMIT_S).jobs]


def _given(settings: dict[str, str]) -> list[str]:
    return [f"-D{key}={value}" for key, value in settings.items()]
