"""The lookup join with a table that is asked asynchronously: a call for each distinct key of a batch, beside those of other batches (Flink:
``AsyncLookupJoinRunner.java``, and ``CachingAsyncLookupFunction.java`` where answers are kept)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tidegate.functions.async_batches import AskedBatch, AsyncBatchFunction, BatchCall
from tidegate.functions.base import RuntimeContext
from tidegate.functions.sql.rows import Row, changes_of
from tidegate.table._lookup.join import LookupJoin, Question
from tidegate.table._lookup.partial_cache import CacheLimits, PartialCache, clock_ms
from tidegate.table._lookup.port import FoundRows, Positions


class AsyncLookupTable(Protocol):
    """A table that is asked key by key, in the event loop of the subtask. It is pickled into the subtask, and opened there."""

    def open(self, context: RuntimeContext) -> None:
        """Called before the first lookup."""

    def calls(self, keys: pa.RecordBatch) -> Sequence[BatchCall]:
        """Returns the lookup of each of some keys, which are distinct and not null. Its results are the rows of the key, as the table has them."""

    def found(self, keys: Positions, answers: Sequence[list[Any]]) -> FoundRows:
        """Converts the rows of some keys, given by their positions, in ascending order."""

    def close(self) -> None:
        """Called after the last lookup, also when the subtask failed."""


@dataclass(frozen=True)
class AsyncLookup:
    """An asynchronous table and how it is asked: see ``AsyncBatchFunction``. ``cache``: the limits of its cache; ``None``: it has none."""

    table: AsyncLookupTable
    capacity: int
    timeout_ms: int
    ordered: bool = True
    attempts: int = 0
    delay_ms: int = 0
    cache: CacheLimits | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """``keys``: of each call, where answers are kept."""

    question: Question
    keys: Sequence[Row]


class AsyncLookupJoinFunction(AsyncBatchFunction):
    """The lookup join as a function of batches with calls."""

    def __init__(self, join: LookupJoin, lookup: AsyncLookup, now_ms: Callable[[], int] = clock_ms) -> None:
        self._join, self._table, self._limits, self._now_ms = join, lookup.table, lookup.cache, now_ms
        self._cache: PartialCache | None = None
        self.capacity, self.ordered = lookup.capacity, lookup.ordered
        self.timeout_ms, self.attempts, self.delay_ms = lookup.timeout_ms, lookup.attempts, lookup.delay_ms

    def open(self, runtime_context: RuntimeContext) -> None:
        """Opens the table, with an empty cache."""
        self._cache = None if self._limits is None else PartialCache(self._limits)
        self._table.open(runtime_context)

    def ask(self, batch: pa.RecordBatch) -> AskedBatch:
        """Returns the distinct keys of a batch as calls."""
        question = self._join.ask(batch)
        keys: Sequence[Row] = []
        known: dict[int, list[Any]] = {}
        if self._cache is not None:
            now_ms, get = self._now_ms(), self._cache.get
            keys = [key for _, key in changes_of(question.keys)]
            known = {call: list(rows) for call, key in enumerate(keys) if (rows := get(key, now_ms)) is not None}
        calls = self._table.calls(question.keys) if question.keys.num_rows else []
        return AskedBatch(batch, question.codes, calls, known, _Asked(question, keys))

    def answered(self, asked: AskedBatch, call: int, results: list[Any]) -> None:
        """Puts the rows of a key into the cache."""
        if self._cache is not None:
            self._cache.put(asked.about.keys[call], results, self._now_ms())

    def result(self, asked: AskedBatch, rows: Positions, results: Mapping[int, list[Any]]) -> pa.RecordBatch:
        """Joins some rows of a batch with those of their keys."""
        question: Question = asked.about.question
        if len(rows) < asked.batch.num_rows:
            question = Question(asked.batch.take(pa.array(rows)), question.codes[rows], question.keys)
        used = np.unique(question.codes[question.codes >= 0])
        return self._join.join(question, self._table.found(used, [results[call] for call in used.tolist()]))

    def close(self) -> None:
        """Closes the table."""
        self._table.close()


__all__ = ["AsyncLookup", "AsyncLookupJoinFunction", "AsyncLookupTable"]
