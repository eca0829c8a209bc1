"""A net of endpoints that is closed after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.unit.taskmanager.exchange.harness import Net


@pytest.fixture
def directory() -> Iterator[Path]:
    """Short, as the paths of Unix sockets must be."""
    with TemporaryDirectory(prefix="tg") as found:
        yield Path(found)


@pytest.fixture
def net(directory: Path) -> Iterator[Net]:
    made = Net(directory)
    yield made
    made.close()
    assert not list(directory.iterdir()), "a socket file was left behind"
