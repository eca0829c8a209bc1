"""Running aggregates that do not fit into their memory, in real processes: killed again and again right behind a restore, and rescaled; exact."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.restores_run import held, kill, least_of, newest_checkpoint
from tests.e2e.waiting import HANG_LIMIT_S, wait_until

ROWS = 6_000_000
"""Three million keys, each once before the sources wait."""
STATE_BYTES = ROWS // 2 * 28
"""At least, in all subtasks together: the key group, the key, and two values."""
LITTLE_MEMORY = {"taskmanager.memory.managed.size": "8 mb"}
"""A slot has a half of it: a tenth of what the state of a subtask takes, with its index."""
INCREMENTAL = {"execution.checkpointing.incremental": "true"}
VERTEX = "Aggregate"


def test_large_aggregates_are_exact_although_processes_die_right_after_their_restore(tmp_path: Path) -> None:
    with held(tmp_path, "running_totals.py", ROWS, INCREMENTAL, LITTLE_MEMORY) as (cluster, watch):
        last = newest_checkpoint(cluster, watch, 0, STATE_BYTES)
        for victim in ("worker", "taskmanager", "worker"):
            kill(cluster, watch, VERTEX, victim)
        wait_until(
            lambda: least_of(cluster, watch, VERTEX, "stateBytesOnDisk") > STATE_BYTES / 4,
            HANG_LIMIT_S,
            "most of the state is in files",
        )
        newest_checkpoint(cluster, watch, last, STATE_BYTES)
