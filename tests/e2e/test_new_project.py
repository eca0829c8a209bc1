"""`tidegate new` in an empty directory: its job and its tests run as they are."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import MARK, REPOSITORY, marked, run_cli

pytestmark = pytest.mark.e2e

LIMIT_S = 240


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A directory whose path is short enough for sockets below it."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield Path(path)


def test_a_new_project_runs_and_passes_its_tests(tmp_path: Path, short_tmp: Path) -> None:
    assert run_cli("new", "shop-alarms", directory=tmp_path).returncode == 0
    project = tmp_path / "shop-alarms"
    own = {
        **os.environ,
        MARK: short_tmp.name,
        "PYTHONPATH": str(REPOSITORY),
        "TIDEGATE_IO_TMP_DIRS": str(short_tmp),
        "TMPDIR": str(short_tmp),
    }

    def python(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=project, env=own, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    printed = python("job.py").splitlines()
    assert sorted(line.split("> ", 1)[-1] for line in printed if line) == [
        "12:00 north: 2 orders, 52.40",
        "12:00 south: 2 orders, 29.00",
        "12:00 west: 1 orders, 5.50",
        "12:01 north: 2 orders, 72.80",
        "12:01 south: 1 orders, 12.00",
        "12:01 west: 1 orders, 49.99",
        "12:02 north: 1 orders, 20.00",
        "12:02 south: 1 orders, 9.90",
        "12:02 west: 1 orders, 24.50",
        "north has sold for 125.20",
    ]
    assert "3 passed" in python("-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert marked(short_tmp.name) == []
