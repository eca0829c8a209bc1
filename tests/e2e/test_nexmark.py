"""Nexmark's queries give exactly the rows that DuckDB gives, although processes are killed under them.

One is not there, since Flink 2.3 refuses to compile it: q6 names a column where there is none yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.killed_jobs import lose_a_task_manager, lose_the_job_manager
from tests.e2e.nexmark_answers import answers, found_rows, rows_of_answer
from tests.e2e.watching import JobWatch

pytestmark = pytest.mark.timeout(900, method="signal")
_LIMIT_S = 480
"""A limit against hanging: other tests may have the processors meanwhile."""


@dataclass(frozen=True)
class Job:
    """Queries over one source, ``count`` events and ``rest`` events behind them that no query reads."""

    queries: str
    count: int = 5_000
    rate: int = 500
    rest: int = 0

    def submit(self, cluster: Cluster, directory: Path) -> JobWatch:
        arguments = [f"--queries={self.queries}", f"--count={self.count}", f"--rate={self.rate}", f"--rest={self.rest}"]
        settings = {"execution.checkpointing.dir": str(directory / "checkpoints"), **QUICK_RESTART}
        arguments.append(f"--out={directory / 'out'}")
        return cluster.submit(JOBS / "nexmark.py", *arguments, parallelism=2, settings=settings)

    def check(self, directory: Path) -> None:
        database = answers(self.count)
        for name in self.queries.split(","):
            wanted, place = rows_of_answer(database, name), directory / "out" / name
            assert wanted, name
            found = found_rows(name, place, next(iter(wanted)))
            assert found == wanted, (
                f"{name}: too much {list((found - wanted).items())[:5]}, missing {list((wanted - found).items())[:5]}"
            )
            if name == "q10":
                assert len(list(place.glob("dt=*/hm=*/_SUCCESS"))) == len({row[-2:] for row in wanted})
            print(f"{name}: {wanted.total()} rows, all of them right")


JOBS_OF_QUERIES = {
    "rows": Job("q0,q1,q2,q10,q13,q14,q21,q22"),
    "windows": Job("q5,q7,q8,q11,q12", rest=6_000),
    "joins": Job("q3,q4,q9"),
    "wide-joins": Job("q20,q23"),
    "aggregates": Job("q15,q16,q17"),
    "ranks": Job("q18,q19"),
}


@pytest.mark.parametrize("name", JOBS_OF_QUERIES)
def test_queries_are_exact_although_a_taskmanager_is_killed(name: str, spread_cluster: Cluster, tmp_path: Path) -> None:
    job = JOBS_OF_QUERIES[name]
    watch = job.submit(spread_cluster, tmp_path)
    lose_a_task_manager(spread_cluster, watch)
    assert watch.wait_finished(_LIMIT_S).status.restarts == 1
    job.check(tmp_path)


def test_queries_are_exact_although_the_jobmanager_is_killed(spread_cluster: Cluster, tmp_path: Path) -> None:
    """The next one goes on with them, and loses a TaskManager."""
    job = Job("q5,q8,q18", 8_000, 300)
    watch = lose_the_job_manager(spread_cluster, job.submit(spread_cluster, tmp_path))
    lose_a_task_manager(spread_cluster, watch)
    assert watch.wait_finished(_LIMIT_S).status.restarts == 1
    job.check(tmp_path)
