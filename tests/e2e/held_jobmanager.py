"""The JobManager with one door that a test can hold shut: just before, or just after, ``_metadata`` is written.

    python held_jobmanager.py jobmanager ...         the CLI's own command, with CheckpointStorage.write_manifest wrapped

``$E2E_HOLD`` is a directory. While it holds a file ``before`` or ``after``, the next write stops there, says so by
``held-<chk-n>``, and goes on when that file (``before`` or ``after``) is gone.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

from tidegate.cli.main import main
from tidegate.store.checkpoints import CheckpointStorage

_write = CheckpointStorage.write_manifest


def _held_write(self: CheckpointStorage, location: str, manifest: Any) -> Any:
    doors = Path(os.environ["E2E_HOLD"])
    _hold(doors, "before", location)
    written = _write(self, location, manifest)
    _hold(doors, "after", location)
    return written


def _hold(doors: Path, door: str, location: str) -> None:
    if (doors / door).exists():
        (doors / f"held-{location.rsplit('/', 1)[-1]}").touch()
    while (doors / door).exists():
        threading.Event().wait(0.01)


if __name__ == "__main__":
    with mock.patch.object(CheckpointStorage, "write_manifest", _held_write):
        sys.exit(main())
