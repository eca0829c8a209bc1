"""Notifies watchers of jobs of changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from tidegate.model.ids import JobId


class Watchers:
    """Events of watchers by job. Changes are merged: a slow watcher sees only the latest state."""

    def __init__(self) -> None:
        self._waiting: dict[JobId | None, set[asyncio.Event]] = {}

    @contextlib.contextmanager
    def watch(self, job_id: JobId | None) -> Iterator[asyncio.Event]:
        """Yields an event that is set at every change of a job (``None``: of any job) while the block runs."""
        changed = asyncio.Event()
        self._waiting.setdefault(job_id, set()).add(changed)
        try:
            yield changed
        finally:
            watchers = self._waiting[job_id]
            watchers.discard(changed)
            if not watchers:
                del self._waiting[job_id]

    def changed(self, job_id: JobId) -> None:
        for key in (job_id, None):
            for event in self._waiting.get(key, ()):
                event.set()
