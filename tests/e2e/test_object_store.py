"""A leader that was elected in a bucket is killed: a standby goes on with the job, and the result is exact."""

from __future__ import annotations

import time
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.counts_run import CountsRun
from tests.e2e.pool import made_ready
from tests.e2e.test_high_availability import WAITS_LONG
from tests.e2e.test_zookeeper import attempts_of
from tests.e2e.waiting import wait_until
from tests.servers.versitygw import BUCKET, VersityGateway

_JOB_LIMIT_S = 240


def test_a_standby_at_another_address_adopts_the_job(tmp_path: Path, gateway: VersityGateway, bucket: str) -> None:
    """As on another machine: TaskManagers look into the bucket for it, and nothing is on a disk that both have. Subtasks go on, none is restarted,
    and the job is not submitted again."""
    settings = {
        "high-availability.type": "object-store",
        "high-availability.storageDir": f"{bucket}/ha",
        **WAITS_LONG,
    }
    run = CountsRun(tmp_path / "run", seconds=10, rows=80_000)
    with Cluster(tmp_path / "cluster", settings) as cluster:
        made_ready(cluster, 1)
        leader = cluster.job_manager
        assert leader is not None
        standby = cluster.start_standby(elsewhere=True)
        wait_until(lambda: standby.says("standby: another JobManager leads the cluster"), 120, "it stands by")
        watch = run.submit(cluster, settings={"execution.checkpointing.dir": f"{bucket}/checkpoints"})
        watch.wait_checkpoints(3)
        before = attempts_of(watch)
        killed_at = cluster.kill9(leader)
        cluster.wait_led()
        print(f"the standby leads {time.monotonic() - killed_at:.2f} s after the kill")
        watch = cluster.watch(watch.job_id)
        watch.wait_running(_JOB_LIMIT_S)  # until then it is not known who goes on
        watch.wait_checkpoints(1)
        assert attempts_of(watch) == before, "nothing was restarted"
        assert watch.wait_finished(_JOB_LIMIT_S).status.restarts == 0
        run.assert_exact()
        kept = gateway.root / BUCKET / bucket.rpartition("/")[2] / "ha" / "default"
        wait_until(lambda: not _files(kept / "submissions") and not _files(kept / "blobs"), 60, "nothing is left")
        archive = kept / "archive"
        wait_until(lambda: [path.name for path in _files(archive)] == [watch.job_id], 60, "the job is archived")
        assert len(_files(kept)) == 2, "the ledger and the archive"


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
