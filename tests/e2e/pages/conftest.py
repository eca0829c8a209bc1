"""A reader with an empty directory, a home and ports of its own."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import REPOSITORY
from tests.e2e.pages.runner import Reader
from tests.ports import free_port


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    directory, config = tmp_path / "shop", tmp_path / "config.yaml"
    directory.mkdir()
    rpc, rest = free_port(), free_port()
    config.write_text(f"jobmanager.rpc.port: {rpc}\nrest.port: {rest}\n")
    with tempfile.TemporaryDirectory(prefix="tg-") as short:
        Path(short).chmod(0o711)  # PostgreSQL, which is not root, has a directory in it
        environment = {"TIDEGATE_HOME": f"{tmp_path}/home", "TIDEGATE_CONFIG": str(config), "TMPDIR": short}
        places = {
            "/data/shop": str(directory),
            "~/.tidegate": f"{tmp_path}/home",
            "/path/to/tidegate": str(REPOSITORY),
            "localhost:8081": f"localhost:{rest}",
        }
        with Reader(directory, f"page-{secrets.token_hex(6)}", environment, places) as made:
            yield made
