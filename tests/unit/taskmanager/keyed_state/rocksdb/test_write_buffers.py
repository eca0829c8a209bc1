"""``state.backend.rocksdb.writebuffer.size``: how much is gathered in memory before it becomes a file."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tidegate.model.configuration import Configuration
from tidegate.taskmanager.keyed_state.rocksdb.database import RocksDatabase, RocksDBSettings

ROW_BYTES = 1024
ROWS = 3000
MANAGED_BYTES = 64 << 20


def files_after(directory: Path, texts: dict[str, str], managed_bytes: int) -> int:
    """Returns how many files 3 MB of random rows became, in a database that is not asked to write any."""
    settings = RocksDBSettings.of(Configuration.from_strings(texts), managed_bytes)
    database = RocksDatabase(settings, str(directory))
    for number in range(ROWS):
        database.put(number.to_bytes(4, "big"), secrets.token_bytes(ROW_BYTES))
    tables = list(Path(database.path).rglob("*.sst"))
    assert database.get((ROWS - 1).to_bytes(4, "big")) is not None
    database.close()
    return len(tables)


@pytest.mark.parametrize("managed_bytes", [0, MANAGED_BYTES], ids=["own", "managed"])
def test_a_smaller_write_buffer_becomes_files_earlier(tmp_path: Path, managed_bytes: int) -> None:
    small = {"state.backend.rocksdb.writebuffer.size": "256 kb"}
    assert files_after(tmp_path, {}, managed_bytes) == 0, "64 MB hold it, or what managed memory allows"
    assert files_after(tmp_path, small, managed_bytes) >= 1
