"""A partition of a table of files has its ``_SUCCESS`` only when all its rows are visible, although a TaskManager is killed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART, assert_restored
from tests.e2e.nexmark_answers import Row, answers, rows_of_answer, written_in_partitions
from tests.e2e.waiting import wait_until
from tests.e2e.watching import TERMINAL

pytestmark = pytest.mark.timeout(900, method="signal")
COUNT, RATE = 8_000, 400
_LIMIT_S = 480
"""A limit against hanging: other tests may have the processors meanwhile."""


@dataclass
class Partitions:
    """What is seen of a table by ``dt`` and ``hm``."""

    table: Path
    rows: Counter[Row]
    committed: set[str] = field(default_factory=set)

    def look(self) -> set[str]:
        """Partitions with a ``_SUCCESS``. Raises ``AssertionError`` for one that lacks rows."""
        for path in self.table.glob("dt=*/hm=*/_SUCCESS"):
            name = str(path.parent.relative_to(self.table))
            if name not in self.committed:
                self._check(name)
                self.committed.add(name)
        return self.committed

    def _check(self, name: str) -> None:
        some = next(iter(self.rows))
        found = Counter(
            {row: count for row, count in written_in_partitions(self.table, some).items() if _partition(row) == name}
        )
        wanted = Counter({row: count for row, count in self.rows.items() if _partition(row) == name})
        assert found == wanted, f"{name} is said to be whole with {found.total()} of {wanted.total()} rows"


def _partition(row: Row) -> str:
    day, minute = row[-2:]
    return f"dt={day}/hm={str(minute).replace(':', '%3A')}"


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_partition_is_whole_when_it_says_so(unaligned: bool, spread_cluster: Cluster, tmp_path: Path) -> None:
    cluster = spread_cluster
    seen = Partitions(tmp_path / "out" / "q10", rows_of_answer(answers(COUNT), "q10"))
    settings = {
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.unaligned.enabled": str(unaligned).lower(),
        **QUICK_RESTART,
    }
    arguments = ["--queries=q10", f"--count={COUNT}", f"--rate={RATE}", f"--out={tmp_path / 'out'}"]
    watch = cluster.submit(JOBS / "nexmark.py", *arguments, parallelism=2, settings=settings)
    wait_until(lambda: seen.look() != set(), _LIMIT_S, "a partition is committed")
    assert watch.last is not None
    types = {told["checkpoint_type"] for told in cluster.ask_rest(f"jobs/{watch.job_id}/checkpoints")["history"]}
    assert ("UNALIGNED_CHECKPOINT" in types) is unaligned, types
    killed_at = cluster.kill9(cluster.task_manager_of(watch, "Committer", 0))
    before = len(seen.committed)
    watch.wait_running_again(0, killed_at)
    assert_restored(cluster, watch, 1)

    def is_over() -> bool:
        seen.look()
        assert watch.last is not None
        return watch.last.status.state in TERMINAL

    wait_until(is_over, _LIMIT_S, "the job is over")
    assert watch.wait_finished(_LIMIT_S).status.restarts == 1
    assert seen.look() == {_partition(row) for row in seen.rows}
    assert len(seen.committed) > before, "partitions are committed after the kill, too"
    assert written_in_partitions(seen.table, next(iter(seen.rows))) == seen.rows
