"""Running aggregates that do not fit into their memory, in real processes: killed again while they are loaded, and rescaled; exact."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.restores_run import held, kill, least_of, newest_checkpoint, was_restored_in_background
from tests.e2e.waiting import HANG_LIMIT_S, wait_until

ROWS = 8_000_000
"""Four million keys, each once before the sources wait: three subtasks have more of them each than is read at once."""
STATE_BYTES = ROWS // 2 * 26
"""At least, in all subtasks together: two bytes of the key group, and eight each of the key and two values."""
LITTLE_MEMORY = {"taskmanager.memory.managed.size": "8 mb"}
"""A slot has a half of it: a tenth of what the state of a subtask takes, with its index."""
INCREMENTAL = {"execution.checkpointing.incremental": "true"}
VERTEX = "Aggregate"


def test_large_aggregates_are_exact_although_processes_die_while_they_are_loaded(tmp_path: Path) -> None:
    with held(tmp_path, "running_totals.py", ROWS, INCREMENTAL, LITTLE_MEMORY) as (cluster, watch):
        last = newest_checkpoint(cluster, watch, 0, STATE_BYTES)
        for victim in ("worker", "taskmanager", "worker"):
            kill(cluster, watch, VERTEX, victim)
            if victim == "taskmanager":  # what comes next restores a checkpoint from before everything was loaded
                last = newest_checkpoint(cluster, watch, last, STATE_BYTES)
        wait_until(
            lambda: was_restored_in_background(cluster, watch, VERTEX), HANG_LIMIT_S, "state stayed in its files"
        )
        wait_until(
            lambda: least_of(cluster, watch, VERTEX, "stateBytesOnDisk") > STATE_BYTES / 4,
            HANG_LIMIT_S,
            "most of the state is in files",
        )
        newest_checkpoint(cluster, watch, last, STATE_BYTES)
