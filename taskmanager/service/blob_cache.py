"""Caches blobs of jobs on this machine's disk: each is fetched from the JobManager once, verified, then served to subtasks.

A blob's key is the sha256 of its content, so a cached file never changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from tidegate.aio.pool import Pool
from tidegate.model.errors import CorruptData, StorageError

Fetch = Callable[[str], Awaitable[bytes]]


class BlobCache:
    """The cached blobs in a directory of its own. Concurrent requests for one blob share one fetch."""

    def __init__(self, directory: Path, fetch: Fetch, pool: Pool) -> None:
        self._directory = directory
        self._fetch = fetch
        self._pool = pool
        self._fetching: dict[str, asyncio.Task[Path]] = {}

    async def get(self, key: str) -> bytes:
        """Returns the content of a blob. Raises ``CorruptData`` when it does not match its key, ``StorageError`` of the disk, and what the fetch raises."""
        path = await self.path(key)
        return await self._pool.submit(path.read_bytes)

    async def path(self, key: str) -> Path:
        """Returns the file with the content of a blob. Raises as ``get`` does."""
        if len(key) != 64 or not key.isalnum():
            raise CorruptData(
                f"a task names the file of a job by {key!r}, which is not the key of a blob (64 hex digits)"
            )
        path = self._directory / key
        if path.exists():
            return path
        task = self._fetching.get(key)
        if task is None:
            task = self._fetching[key] = asyncio.create_task(self._store(key, path))
            task.add_done_callback(lambda _: self._fetching.pop(key, None))
        return await asyncio.shield(task)

    def close(self) -> None:
        """Removes all cached blobs."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._pool.close()

    async def _store(self, key: str, path: Path) -> Path:
        content = await self._fetch(key)
        await self._pool.submit(lambda: _write_verified(key, content, path))
        return path


def _write_verified(key: str, content: bytes, path: Path) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != key:
        raise CorruptData(
            f"blob {key} arrived with the checksum {found}; it was damaged on the way or on disk; submit the job again"
        )
    temporary = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise StorageError(f"cannot write blob {key} to {path.parent}: {error.strerror}") from error
