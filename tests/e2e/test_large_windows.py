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
SESSION_ROWS = 1_200_000
MANAGED = {"taskmanager.memory.managed.size": "16 mb"}
"""Each of two slots has half of it, so that a subtask may hold 6 MB, less than half of its sessions."""


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


def test_sessions_with_little_memory_are_exact_although_their_taskmanager_dies(tmp_path: Path) -> None:
    with held(tmp_path, "large_sessions.py", SESSION_ROWS, INCREMENTAL, MANAGED) as (cluster, watch):

        def are_on_disk() -> bool:
            return least_of(cluster, watch, VERTEX, "stateBytesOnDisk") > 0

        wait_until(are_on_disk, HANG_LIMIT_S, "sessions are on disk")
        last = newest_checkpoint(cluster, watch, 0, -1)
        last = newest_checkpoint(cluster, watch, last, -1)
        kill(cluster, watch, VERTEX, "taskmanager")
        wait_until(are_on_disk, HANG_LIMIT_S, "sessions are on disk again")
        newest_checkpoint(cluster, watch, last + 1, -1)
