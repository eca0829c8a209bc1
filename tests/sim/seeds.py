"""Where the seeds of schedules begin: CI repeats the same ones, so that a change is judged by what it changed; the soak looks for
new ones in every commit."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

BASE_SEED = 2026_000_000
_SPREAD = 1_000_000


@cache
def seed_of_commit() -> int:
    """A multiple of a million, by the hash of the commit; ``BASE_SEED`` where there is no git."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return BASE_SEED
    return int(found.stdout.strip()[:8], 16) * _SPREAD
