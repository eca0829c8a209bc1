"""Queries over tables give exactly their rows, although TaskManagers are killed under them."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from tests.e2e.cluster import JOBS, Cluster
from tests.e2e.counts_run import QUICK_RESTART
from tests.e2e.jobs import queries
from tests.e2e.pool import made_ready

ROWS, RATE = 60_000, 6_000
KILLS = 2


def expected() -> dict[str, Counter[tuple[int, ...]]]:
    windows: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for number in range(ROWS):
        windows[number % queries.KEYS, number * queries.STEP_MS // 1000].append(number)
    return {
        "windows": Counter(
            (key, start, len(ids), sum(ids), len({number % 7 for number in ids}))
            for (key, start), ids in windows.items()
        ),
        "pairs": Counter((number, number + queries.AHEAD) for number in range(ROWS - queries.AHEAD)),
        "firsts": Counter((number, number) for number in range(queries.FIRST_KEYS)),
    }


def test_queries_are_exact_although_taskmanagers_are_killed(cluster: Cluster, tmp_path: Path) -> None:
    made_ready(cluster, 2 + KILLS)
    arguments = ["--rows", str(ROWS), "--rate", str(RATE), "--out", str(tmp_path / "out")]
    settings = {"execution.checkpointing.dir": str(tmp_path / "checkpoints"), **QUICK_RESTART}
    watch = cluster.submit(JOBS / "queries.py", *arguments, parallelism=2, settings=settings)
    watch.wait_running()
    for kill in range(KILLS):
        assert watch.last is not None
        watch.wait_checkpoints(watch.last.status.checkpoints_completed + 2)
        owner = watch.last.status.vertices[0].subtasks[0].task_manager_id
        (pid,) = [known.pid for known in cluster.cluster_status().task_managers if known.task_manager_id == owner]
        killed_at = cluster.kill9(next(process for process in cluster.task_managers if process.pid == pid))
        watch.wait_running_again(kill, killed_at)
    last = watch.wait_finished(120)
    assert last.status.restarts == KILLS
    for name, rows in expected().items():
        lines = [line for part in (tmp_path / "out" / name).glob("part-*") for line in part.read_text().splitlines()]
        assert Counter(tuple(map(int, line.split(","))) for line in lines) == rows, name
