"""Merges partial sessions of a key that overlap or touch.

    rows by (key, start) ─▶ a session begins where the key changes, or where the start is after the ends of all rows before

Batches have the layout of ``state.sessions.rows``; merged ones are sorted by the end of the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.columnar.aggregates.names import HASH
from tidegate.columnar.aggregates.plan import AggregatePlan
from tidegate.columnar.grouping import Accumulators
from tidegate.columnar.keys.codes import Codes, as_numpy, encode_keys
from tidegate.columnar.runs.memory import gathered, order_of_pairs, order_of_windows
from tidegate.taskmanager.windows.state.sessions.rows import END, START, HashFilter, hashes_of

Int64s = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Sessions:
    """Merged sessions. ``of_row[i]``: the session of row i. For each session: one of its rows, its start and its end."""

    of_row: Codes
    a_row: Codes
    starts: Int64s
    ends: Int64s


def find_sessions(keys: Codes, starts: Int64s, ends: Int64s) -> Sessions:
    """Merges sessions that overlap or touch. ``keys``: as codes; each row is a session from its start to its end."""
    order = order_of_pairs(keys, starts)
    keys, starts, ends = keys[order], starts[order], ends[order]
    numbers = np.arange(len(order))
    while True:  # a session within another hides the other's end from what follows: once more, until nothing merges
        begins = np.ones(len(keys), np.bool_)
        begins[1:] = (keys[1:] != keys[:-1]) | (starts[1:] > ends[:-1])
        at = np.flatnonzero(begins)
        if len(at) == len(keys):
            break
        numbers = (np.cumsum(begins) - 1)[numbers]
        keys, starts, ends = keys[at], starts[at], np.maximum.reduceat(ends, at)
    of_row = np.empty(len(order), np.intp)
    of_row[order] = numbers
    return Sessions(of_row, order[np.searchsorted(numbers, np.arange(len(keys)))], starts, ends)


def first_sessions(plan: AggregatePlan, data: pa.RecordBatch, starts: Int64s, ends: Int64s) -> pa.RecordBatch:
    """Combines rows, each a session of its own, to partial sessions: start, end, keys, partial columns."""
    coded = encode_keys([data.column(name) for name in plan.keys], data.num_rows, plan.operator)
    found = find_sessions(coded.codes, starts, ends)
    accumulators = Accumulators(plan, len(found.starts))
    accumulators.add(found.of_row, data)
    keys = coded.decode(coded.codes[found.a_row])
    columns = [pa.array(found.starts), pa.array(found.ends), *keys, *accumulators.take(np.arange(len(found.starts)))]
    return pa.RecordBatch.from_arrays(columns, names=[START, END, *plan.partial_schema.names])


def merge_sessions(plan: AggregatePlan, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns one row for each session of all ``parts``, sorted by end. ``plan``: for partials."""
    data = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
    coded = encode_keys([data.column(name) for name in plan.keys], data.num_rows, plan.operator)
    found = find_sessions(coded.codes, *_times(data))
    if len(found.starts) == data.num_rows:
        return gathered([data])
    accumulators = Accumulators(plan, len(found.starts))
    accumulators.add(found.of_row, data)
    order = order_of_windows(found.ends)
    order = np.arange(len(found.ends)) if order is None else order
    rows = found.a_row[order]
    columns = [pa.array(found.ends[order]), pa.array(found.starts[order]), data.column(HASH).take(pa.array(rows))]
    columns += [*coded.decode(coded.codes[rows]), *accumulators.take(order)]
    return pa.RecordBatch.from_arrays(columns, names=[END, START, HASH, *plan.partial_schema.names])


def rows_like(plan: AggregatePlan, rows: pa.RecordBatch, held: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Returns keys and times of those ``held`` rows whose keys occur in ``rows``, and of a few others."""
    filtered, names = HashFilter(hashes_of(rows)), [END, START, *plan.keys]
    parts = []
    for batch in held:
        found = filtered.find(hashes_of(batch))
        if len(found):
            parts.append(batch.select(names).take(pa.array(found)))
    return parts


def reached(plan: AggregatePlan, rows: pa.RecordBatch, others: Sequence[pa.RecordBatch]) -> tuple[Mask, Int64s]:
    """Returns which of ``rows`` belong to the session of one of ``others``, and the ends of their sessions, as far as these rows show them."""
    both = pa.concat_batches([rows.select([END, START, *plan.keys]), *others])
    coded = encode_keys([both.column(name) for name in plan.keys], both.num_rows, plan.operator)
    sessions = find_sessions(coded.codes, *_times(both))
    are_theirs = np.zeros(len(sessions.starts), np.bool_)
    are_theirs[sessions.of_row[rows.num_rows :]] = True
    of_rows = sessions.of_row[: rows.num_rows]
    return are_theirs[of_rows], sessions.ends[of_rows]


def _times(data: pa.RecordBatch) -> tuple[Int64s, Int64s]:
    return as_numpy(data.column(START)), as_numpy(data.column(END))
