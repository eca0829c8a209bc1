"""Inline state of checkpoints, read back from ``_metadata`` when tasks are to be restored from it.

    SubmitTask that lacks its inline state ─▶ reading_of ─▶ Reading ──outbox: fill, just before it is sent──▶ SubmitTask

All tasks that are restored together share one read of ``_metadata``; when the last of them is on its way, its content is
gone from memory again. A read that fails fails SubmitTask, with the file's name: what comes then is decided where failed
attempts are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines.commands import SubmitTask
from tidegate.model.handles.inline_state import ContentKey, fill_inline_state, inline_state_of, needs_inline_state
from tidegate.store.checkpoints import CheckpointStorage


class Reading:
    """One read of one ``_metadata``; begun when it is first needed, kept as long as it is referenced."""

    def __init__(self, storage: CheckpointStorage, pool: Pool, location: str) -> None:
        self._storage = storage
        self._pool = pool
        self._location = location
        self._content: asyncio.Future[Mapping[ContentKey, bytes]] | None = None

    async def fill(self, call: SubmitTask) -> SubmitTask:
        """The call with everything that its task needs. Raises ``StorageError``, ``CorruptData`` or ``VersionMismatch``."""
        restore = call.deployment.restore
        assert restore is not None, call.deployment.attempt
        if self._content is None:
            self._content = self._pool.submit(partial(_read, self._storage, self._location))
            self._content.add_done_callback(_seen)
        content = await asyncio.shield(self._content)
        return replace(call, deployment=replace(call.deployment, restore=fill_inline_state(restore, content)))


class InlineState:
    """Finds the reading that a call shares with others."""

    def __init__(self, storage: CheckpointStorage, pool: Pool) -> None:
        self._storage = storage
        self._pool = pool
        self._readings: WeakValueDictionary[str, Reading] = WeakValueDictionary()

    @property
    def readings(self) -> int:
        """How many readings are still referenced."""
        return len(self._readings)

    def reading_of(self, call: SubmitTask) -> Reading | None:
        """``None``: it lacks nothing."""
        restore = call.deployment.restore
        if restore is None or not needs_inline_state(restore):
            return None
        reading = self._readings.get(restore.location)
        if reading is None:
            reading = self._readings[restore.location] = Reading(self._storage, self._pool, restore.location)
        return reading


def _read(storage: CheckpointStorage, location: str) -> Mapping[ContentKey, bytes]:
    return inline_state_of(storage.read_manifest(location))


def _seen(content: asyncio.Future[Mapping[ContentKey, bytes]]) -> None:
    """Marks a failed read as seen: its TaskManager was lost meanwhile, and no caller may be waiting."""
    if not content.cancelled():
        content.exception()
