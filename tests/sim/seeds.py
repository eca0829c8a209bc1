"""The seed of the day comes from the commit, so that CI sees new schedules with every change and everybody can repeat them."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

_WITHOUT_GIT = 20_26
_SPREAD = 1_000_000


@cache
def base_seed() -> int:
    """A multiple of a million, by the hash of the commit; a constant where there is no git."""
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
        return _WITHOUT_GIT * _SPREAD
    return int(found.stdout.strip()[:8], 16) * _SPREAD
