"""The JobManager with one door that a test can hold shut: just before, or just after, a job's new shape is written to the job store.

    python held_shapes.py jobmanager ...             the CLI's own command, with JobStore.note_shape wrapped

``$E2E_HOLD`` is a directory. While it holds a file ``before`` or ``after``, the next write stops there, says so by
``held``, and goes on when that file is gone.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

from tidegate.cli.main import main
from tidegate.jobmanager.service.high_availability.job_store import JobStore

_note_shape = JobStore.note_shape


def _held(store: JobStore, job_id: Any, shape: Any) -> None:
    doors = Path(os.environ["E2E_HOLD"])
    _hold(doors, "before")
    _note_shape(store, job_id, shape)
    _hold(doors, "after")


def _hold(doors: Path, door: str) -> None:
    if (doors / door).exists():
        (doors / "held").touch()
    while (doors / door).exists():
        threading.Event().wait(0.01)


if __name__ == "__main__":
    with mock.patch.object(JobStore, "note_shape", _held):
        sys.exit(main())
