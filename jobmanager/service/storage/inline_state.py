"""Supplies the inline state of a checkpoint to tasks that are restored from it.

    SubmitTask that lacks its inline state ─▶ reading_of ─▶ Reading ──outbox: fill, just before it is sent──▶ SubmitTask

The inline state of the newest checkpoint of each job stays in memory, as in Flink's JobManager, up to ``HELD_BYTES`` for all jobs: a job
whose checkpoint directory is removed goes on from it. Other inline state is read from ``_metadata``. All tasks that are restored together
share one read; its content is released when the last of them is sent. A failed read fails SubmitTask with the file's name, which fails the
attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakValueDictionary

from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines.commands import SubmitTask
from tidegate.model.checkpoint import CheckpointManifest, TaskRestore
from tidegate.model.handles.inline_state import ContentKey, fill_inline_state, inline_state_of, needs_inline_state
from tidegate.model.ids import JobId
from tidegate.store.checkpoints import CheckpointStorage

HELD_BYTES = 64 << 20
"""How much inline state is held in memory for all jobs. Chosen: that of 1,000 subtasks with three states of 20 KiB, the largest that
travels inline by default.
"""


class Reading:
    """One shared read of one ``_metadata``, started when it is first needed. ``held``: its inline state in memory, if it is there."""

    def __init__(
        self, storage: CheckpointStorage, pool: Pool, location: str, held: Mapping[ContentKey, bytes] | None
    ) -> None:
        self._storage = storage
        self._pool = pool
        self._location = location
        self._held = held
        self._content: asyncio.Future[Mapping[ContentKey, bytes]] | None = None

    async def fill(self, call: SubmitTask) -> SubmitTask:
        """Returns the call with the inline state that its task needs. Raises ``StorageError``, ``CorruptData`` or ``VersionMismatch``."""
        restore = call.deployment.restore
        assert restore is not None, call.deployment.attempt
        if self._held is not None:
            return _filled(call, restore, self._held)
        if self._content is None:
            self._content = self._pool.submit(partial(_read, self._storage, self._location))
            self._content.add_done_callback(_seen)
        return _filled(call, restore, await asyncio.shield(self._content))


class InlineState:
    """Holds the inline state of the newest checkpoints, and shares reads of others between calls."""

    def __init__(self, storage: CheckpointStorage, pool: Pool) -> None:
        self._storage = storage
        self._pool = pool
        self._readings: WeakValueDictionary[str, Reading] = WeakValueDictionary()
        self._held: dict[JobId, _Held] = {}

    @property
    def readings(self) -> int:
        """Returns how many readings are still referenced."""
        return len(self._readings)

    @property
    def held_bytes(self) -> int:
        """Returns how many bytes of inline state are held in memory."""
        return sum(held.size_bytes for held in self._held.values())

    def hold(self, location: str, manifest: CheckpointManifest) -> None:
        """Holds the inline state of a job's newest checkpoint in memory instead of that of the one before."""
        self._held.pop(manifest.job_id, None)
        content = inline_state_of(manifest)
        size_bytes = sum(map(len, content.values()))
        if size_bytes + self.held_bytes <= HELD_BYTES:
            self._held[manifest.job_id] = _Held(location, content, size_bytes)

    def forget(self, job_id: JobId) -> None:
        """Releases the inline state of a job that has ended."""
        self._held.pop(job_id, None)

    def reading_of(self, call: SubmitTask) -> Reading | None:
        """Returns the reading for a call; ``None`` when its task needs no inline state."""
        restore = call.deployment.restore
        if restore is None or not needs_inline_state(restore):
            return None
        reading = self._readings.get(restore.location)
        if reading is None:
            held = self._held.get(call.deployment.attempt.job_id)
            content = held.content if held is not None and held.location == restore.location else None
            reading = Reading(self._storage, self._pool, restore.location, content)
            self._readings[restore.location] = reading
        return reading


@dataclass(frozen=True, slots=True)
class _Held:
    """The inline state of one checkpoint in memory."""

    location: str
    content: Mapping[ContentKey, bytes]
    size_bytes: int


def _filled(call: SubmitTask, restore: TaskRestore, content: Mapping[ContentKey, bytes]) -> SubmitTask:
    return replace(call, deployment=replace(call.deployment, restore=fill_inline_state(restore, content)))


def _read(storage: CheckpointStorage, location: str) -> Mapping[ContentKey, bytes]:
    return inline_state_of(storage.read_manifest(location))


def _seen(content: asyncio.Future[Mapping[ContentKey, bytes]]) -> None:
    """Retrieves the exception of a failed read, so that asyncio does not log it: its TaskManager may be lost and no caller waiting."""
    if not content.cancelled():
        content.exception()
