"""State of rocksdb that is used before it is loaded, in real processes: killed again while it is loaded, and rescaled; exact."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.restores_run import held, kill, newest_checkpoint, was_restored_in_background
from tests.e2e.test_rocksdb import ROCKSDB
from tests.e2e.waiting import HANG_LIMIT_S, wait_until

ROWS = 1_600_000
"""800,000 keys, each once before the sources wait: some seconds of loading in each subtask."""
STATE_BYTES = ROWS // 2 * 16
"""At least: the key and the value."""
VERTEX = "second row"


def test_state_is_exact_although_processes_die_while_it_is_loaded(tmp_path: Path) -> None:
    with held(tmp_path, "lazily_restored.py", ROWS, ROCKSDB) as (cluster, watch):
        newest = newest_checkpoint(cluster, watch, 0, STATE_BYTES)
        for victim in ("worker", "taskmanager", "worker", "worker"):
            kill(cluster, watch, VERTEX, victim)
            if victim == "taskmanager":  # what comes next restores a checkpoint from before everything was loaded
                newest = newest_checkpoint(cluster, watch, newest, STATE_BYTES)
        wait_until(
            lambda: was_restored_in_background(cluster, watch, VERTEX), HANG_LIMIT_S, "state stayed in its files"
        )
