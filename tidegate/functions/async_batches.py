"""Functions of batches that wait for answers: rows share calls, and calls of several batches run at the same time (operator ``async_batches``)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.functions.base import Function


@dataclass(frozen=True, slots=True)
class BatchCall:
    """A call. ``invoke`` runs in the subtask's event loop. ``on_timeout``: returns the results of a call that took too long, or raises."""

    invoke: Callable[[], Awaitable[list[Any]]]
    on_timeout: Callable[[], list[Any]]


@dataclass(frozen=True, slots=True)
class AskedBatch:
    """A batch with its calls. ``codes``: for each row the number of its call, -1 if it needs none. ``known``: the results of calls that need not be made, by
    number. ``about``: what the function needs when it answers."""

    batch: pa.RecordBatch
    codes: npt.NDArray[np.int64]
    calls: Sequence[BatchCall]
    known: Mapping[int, list[Any]]
    about: Any


class AsyncBatchFunction(Function):
    """A function of batches whose results come from calls. It must not use state: rows whose results were not emitted at a checkpoint are asked again after a
    restore. ``capacity``: the most calls at the same time. ``timeout_ms``: the limit of a call with all its retries; 0: none. A call without results is made
    again ``attempts`` times, ``delay_ms`` after the last try."""

    capacity: int = 100
    ordered: bool = True
    timeout_ms: int = 0
    attempts: int = 0
    delay_ms: int = 0

    @abstractmethod
    def ask(self, batch: pa.RecordBatch) -> AskedBatch:
        """Returns the calls of a batch."""

    @abstractmethod
    def answered(self, asked: AskedBatch, call: int, results: list[Any]) -> None:
        """Takes the results of a call, in the subtask's thread."""

    @abstractmethod
    def result(
        self, asked: AskedBatch, rows: npt.NDArray[np.int64], results: Mapping[int, list[Any]]
    ) -> pa.RecordBatch:
        """Returns what is emitted for some rows, given by their positions. ``results``: of their calls, by number."""


__all__ = ["AskedBatch", "AsyncBatchFunction", "BatchCall"]
