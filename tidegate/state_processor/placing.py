"""Assigns written state to the subtasks of an operator, where a restore finds it.

A job that keeps its parallelism looks for a subtask's state at that subtask alone (``StateAssignmentOperation.java``; here ``OperatorPlan``). So keyed
state is cut where the subtasks' ranges of key groups end, and elements stay where they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model.checkpoint import StateRedistribution
from tidegate.model.errors import Misuse
from tidegate.model.keygroups import KeyGroupRange, range_of, subtask_of
from tidegate.taskmanager.state.files.segments import Groups

__all__ = ["SUBTASK", "cut_by_subtask", "elements_by_subtask"]

SUBTASK = "subtask"
"""The column with the subtask of each element, which ``tidegate.state_reader`` adds."""


def cut_by_subtask(
    of: KeyGroupRange, groups: Groups, rows: pa.RecordBatch, max_parallelism: int, parallelism: int
) -> Iterator[tuple[int, KeyGroupRange, Groups, pa.RecordBatch]]:
    """Splits the rows of a range of key groups, which are sorted by key group, by subtask; subtasks without rows are left out."""
    first = subtask_of(of.start, max_parallelism, parallelism)
    for subtask in range(first, subtask_of(of.end, max_parallelism, parallelism) + 1):
        own = of.intersect(range_of(subtask, max_parallelism, parallelism))
        begin, end = np.searchsorted(groups, [own.start, own.end + 1]).tolist()
        if begin < end:
            yield subtask, own, groups[begin:end], rows.slice(begin, end - begin)


def elements_by_subtask(
    batches: Iterable[pa.RecordBatch], redistribution: StateRedistribution, parallelism: int, what: str
) -> tuple[pa.Field | None, dict[int, pa.ChunkedArray]]:
    """Returns the field of the elements, ``None`` when there is none, and the elements of each subtask.

    The column ``subtask`` says whose an element is. Without it, list state is dealt in even runs, and union state is the first subtask's, from where
    everyone takes it. Broadcast state is the first copy that comes, as all are equal. Raises ``Misuse`` for a subtask that the operator does not have.
    """
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return None, {}
    elements = pa.chunked_array([batch.column(0) for batch in filled])
    field = filled[0].schema.field(0)
    if SUBTASK not in filled[0].schema.names:
        dealt = parallelism if redistribution is StateRedistribution.SPLIT else 1
        return field, {index: run for index, run in enumerate(_even_runs(elements, dealt)) if len(run)}
    owners = pa.chunked_array([batch.column(SUBTASK) for batch in filled])
    named = pc.unique(owners).to_pylist()
    if redistribution is StateRedistribution.BROADCAST:
        return field, {0: elements.filter(pc.equal(owners, named[0]))}
    for subtask in named:
        if subtask is None or not 0 <= subtask < parallelism:
            raise Misuse(f"{what}: an element names subtask {subtask}, but the operator has parallelism {parallelism}")
    return field, {subtask: elements.filter(pc.equal(owners, subtask)) for subtask in sorted(named)}


def _even_runs(elements: pa.ChunkedArray, parts: int) -> Iterator[pa.ChunkedArray]:
    base, remainder = divmod(len(elements), parts)
    start = 0
    for index in range(parts):
        size = base + (index < remainder)
        yield elements.slice(start, size)
        start += size
