"""The JobManager's side, as small as the tasks' machines need it: triggers, votes, aborts, confirms, final checkpoints."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.sim.task.laws import Laws
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import CheckpointOptions


@dataclass(frozen=True)
class Trigger:
    barrier: Barrier


@dataclass(frozen=True)
class Confirm:
    checkpoint_id: int
    may_finish: bool


@dataclass(frozen=True)
class Abort:
    checkpoint_id: int
    latest_completed_id: int | None


ToTask = Trigger | Confirm | Abort
Sent = list[tuple[str, ToTask]]


@dataclass
class Pending:
    waits_for: set[str]
    running: tuple[str, ...]
    may_finish: frozenset[str]
    acked: set[str] = field(default_factory=set)


class SimCoordinator:
    def __init__(self, layers: list[list[str]], laws: Laws, max_concurrent: int) -> None:
        self._layers = layers
        self._laws = laws
        self._max_concurrent = max_concurrent
        self._next_id = 1
        self._latest_completed: int | None = None
        self._ended: set[str] = set()
        self._finished: set[str] = set()
        self.options: Callable[[], CheckpointOptions] = lambda: CheckpointOptions("mem")
        self.inbox: deque[tuple[str, str, int]] = deque()
        self.pending: dict[int, Pending] = {}

    def step(self, now_ms: int, may_trigger: bool) -> Sent:
        if self.inbox:
            return self._receive(*self.inbox.popleft())
        if may_trigger and len(self.pending) < self._max_concurrent:
            return self._trigger(now_ms)
        return []

    def abort(self, checkpoint_id: int) -> Sent:
        pending = self.pending.pop(checkpoint_id, None)
        if pending is None:
            return []
        return [(t, Abort(checkpoint_id, self._latest_completed)) for t in pending.running if t not in self._finished]

    def _trigger(self, now_ms: int) -> Sent:
        running = tuple(t for layer in self._layers for t in layer if t not in self._finished)
        if not running:
            return []
        first = [t for i, layer in enumerate(self._layers) if self._is_done(i - 1) for t in layer if t in running]
        n, self._next_id = self._next_id, self._next_id + 1
        ready = frozenset(t for layer in self._layers if set(layer) <= self._ended for t in layer)
        self.pending[n] = Pending(set(running), running, ready)
        barrier = Barrier(n, now_ms, self.options())
        return [(t, Trigger(barrier)) for t in first]

    def _is_done(self, layer: int) -> bool:
        """Nothing runs in ``layer`` (or there is no such layer)."""
        return layer < 0 or set(self._layers[layer]) <= self._finished

    def _receive(self, what: str, task: str, checkpoint_id: int) -> Sent:
        if what == "ack":
            return self._acknowledged(task, checkpoint_id)
        if what == "decline":
            return self.abort(checkpoint_id)
        if what == "end-of-data":
            self._ended.add(task)
            return []
        self._finished.add(task)
        return [sent for n in list(self.pending) if task in self.pending[n].waits_for for sent in self.abort(n)]

    def _acknowledged(self, task: str, checkpoint_id: int) -> Sent:
        pending = self.pending.get(checkpoint_id)
        if pending is None:
            return []
        pending.waits_for.discard(task)
        if pending.waits_for:
            return []
        del self.pending[checkpoint_id]
        self._latest_completed = checkpoint_id
        self._laws.completed(checkpoint_id, set(pending.running))
        subsumed = [sent for older in list(self.pending) if older < checkpoint_id for sent in self.abort(older)]
        confirms: Sent = [
            (t, Confirm(checkpoint_id, t in pending.may_finish)) for t in pending.running if t not in self._finished
        ]
        return [*subsumed, *confirms]
