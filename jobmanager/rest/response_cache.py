"""Caches answers and views briefly, so that many polling clients cost the JobManager no more than one.

Flink caches the execution graph and the checkpoint statistics for as long (``ExecutionGraphCache.java``); here the bytes of the
answer are cached, by path and query. What must be fresh, such as a job's state, comes from the machine; only the views of
large jobs are cached, for so short a time that building them takes a small part of the loop's time.

Any request that changes something clears all caches: a user who cancels a job sees it canceled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.jobmanager.machines.events import RescaleRequested
from tidegate.jobmanager.machines.views import ClusterView, JobView
from tidegate.jobmanager.rest.backend import Views
from tidegate.jobmanager.rest.routes import Kept
from tidegate.model.ids import JobId

MAX_ANSWERS = 256
LARGE_SUBTASKS = 200
"""From this number of subtasks on a view is cached."""
KEPT_MS_PER_SUBTASK = 0.2
"""How long a view is cached, in ms per subtask: one of 1,000 subtasks takes some 15 ms to build, and is cached for 200."""


class ResponseCache:
    """Keeps bodies of responses for the time that their kind allows. ``timeouts_ms``: by kind; a kind that is missing, or has 0, is not kept."""

    def __init__(self, timeouts_ms: Mapping[Kept, int], now_ms: Callable[[], int]) -> None:
        self._timeouts_ms = timeouts_ms
        self._now_ms = now_ms
        self._answers: dict[str, tuple[int, bytes]] = {}

    def find(self, key: str) -> bytes | None:
        found = self._answers.get(key)
        return found[1] if found is not None and self._now_ms() < found[0] else None

    def keep(self, kept: Kept, key: str, body: bytes) -> None:
        timeout_ms = self._timeouts_ms.get(kept, 0)
        if timeout_ms <= 0:
            return
        now_ms = self._now_ms()
        if len(self._answers) >= MAX_ANSWERS:
            self._answers = {k: a for k, a in self._answers.items() if now_ms < a[0]}
        if len(self._answers) < MAX_ANSWERS:
            self._answers[key] = (now_ms + timeout_ms, body)

    def drop(self) -> None:
        self._answers.clear()


class ViewCache:
    """Caches the machine's views; those of large jobs are up to some hundred milliseconds old."""

    def __init__(self, views: Views, now_ms: Callable[[], int]) -> None:
        self._views = views
        self._now_ms = now_ms
        self._jobs: dict[JobId, tuple[float, JobView]] = {}
        self._all: tuple[float, list[JobView]] | None = None

    def job(self, job_id: JobId) -> JobView | None:
        kept = self._jobs.get(job_id)
        if kept is not None and self._now_ms() < kept[0]:
            return kept[1]
        view = self._views.job(job_id)
        if view is not None and _subtasks([view]) >= LARGE_SUBTASKS:
            self._jobs[job_id] = (self._until([view]), view)
        return view

    def jobs(self) -> list[JobView]:
        if self._all is not None and self._now_ms() < self._all[0]:
            return self._all[1]
        views = self._views.jobs()
        self._all = (self._until(views), views) if _subtasks(views) >= LARGE_SUBTASKS else None
        return views

    def cluster(self) -> ClusterView:
        return self._views.cluster()

    def refusal_of(self, event: RescaleRequested) -> str:
        return self._views.refusal_of(event)

    def drop(self) -> None:
        self._jobs.clear()
        self._all = None

    def _until(self, views: list[JobView]) -> float:
        return self._now_ms() + _subtasks(views) * KEPT_MS_PER_SUBTASK


def _subtasks(views: list[JobView]) -> int:
    return sum(vertex.parallelism for view in views for vertex in view.vertices)
