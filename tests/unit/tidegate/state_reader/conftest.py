from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.tidegate.state_reader.real_checkpoint import two_checkpoints


@pytest.fixture(scope="session", params=["0", "20kb"], ids=["files", "inline"])
def locations(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Two checkpoints of one run, its state in files or inside ``_metadata``. Read only."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield two_checkpoints(Path(path), f"reader-{request.param}", inline_threshold=request.param)


@pytest.fixture(scope="session")
def in_files() -> Iterator[list[str]]:
    """The same with another parallelism, all in files."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        yield two_checkpoints(Path(path), "reader-3", parallelism=3)
