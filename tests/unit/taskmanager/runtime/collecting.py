"""An exactly-once sink whose outside world is a dictionary of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch

_WORLDS: dict[str, dict[str, list[Any]]] = {}
_LOCK = threading.Lock()


def committed(world: str) -> list[Any]:
    """Everything that is visible outside."""
    with _LOCK:
        return [row for rows in _WORLDS.get(world, {}).values() for row in rows]


def worlds() -> list[str]:
    """Those in which anything is visible."""
    with _LOCK:
        return sorted(_WORLDS)


def forget_all() -> None:
    """After each test, so that a worker of pytest does not keep the output of all that it ran."""
    with _LOCK:
        _WORLDS.clear()


class CollectingSink(Sink):
    """Idempotent: a committable is known by its id."""

    def __init__(self, world: str, works_on: str = "arrow") -> None:
        self._world = world
        self._works_on = works_on

    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
        return _Writer(context, self._works_on)

    def make_committer(self, context: SinkContext) -> Committer:
        return _Committer(self._world)


class _Writer(SinkWriter):
    def __init__(self, context: SinkContext, works_on: str) -> None:
        self.works_on = works_on
        self._context = context
        self._rows: list[Any] = []

    def write(self, batch: Batch) -> None:
        if isinstance(batch, ArrowBatch):
            self._rows += [list(row.values()) for row in batch.data.to_pylist()]
        else:
            assert isinstance(batch, RecordsBatch)
            self._rows += [list(value) if isinstance(value, tuple) else value for value in batch.values]

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        rows, self._rows = self._rows, []
        return [[f"{self._context.attempt}/{checkpoint_id}", rows]] if rows else []


class _Committer(Committer):
    def __init__(self, world: str) -> None:
        self._world = world

    def commit(self, committables: Sequence[Any]) -> None:
        with _LOCK:
            for identity, rows in committables:
                _WORLDS.setdefault(self._world, {}).setdefault(identity, rows)
