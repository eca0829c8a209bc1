"""Windows that stay in the files of their checkpoint after a restore, in real processes: killed again before anything of them fired, and rescaled; exact."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.restores_run import held, kill, least_of, newest_checkpoint
from tests.e2e.waiting import HANG_LIMIT_S, wait_until

ROWS = 6_000_000
"""Three million keys, each once before the sources wait."""
STATE_BYTES = ROWS // 2 * 40
"""At least, in all subtasks together: three of them have more each than is read at once."""
INCREMENTAL = {"execution.checkpointing.incremental": "true"}
VERTEX = "GlobalWindowAggregate"


def test_large_windows_are_exact_although_processes_die_right_after_their_restore(tmp_path: Path) -> None:
    with held(tmp_path, "large_windows.py", ROWS, INCREMENTAL) as (cluster, watch):
        last = newest_checkpoint(cluster, watch, 0, STATE_BYTES)
        for victim in ("worker", "taskmanager", "worker"):
            kill(cluster, watch, VERTEX, victim)
        wait_until(
            lambda: least_of(cluster, watch, VERTEX, "stateBytesOnDisk") > STATE_BYTES / 4,
            HANG_LIMIT_S,
            "windows stay in their files",
        )
        newest_checkpoint(cluster, watch, last + 1, STATE_BYTES)
