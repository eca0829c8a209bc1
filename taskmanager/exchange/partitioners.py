"""Distributes the rows of a batch to subpartitions (Flink: ``StreamPartitioner`` and its subclasses).

    FORWARD GLOBAL    everything to subpartition 0
    BROADCAST         everything to every subpartition (the partition gathers and frames it once)
    RESCALE REBALANCE contiguous slices of equal size; the odd rows go to each in turn, so counts differ by one at most
    HASH              key -> hash -> key group -> subtask
    CUSTOM            key -> the user's function -> subtask; the producer's chain gives its result as the key

Laws: each row goes to exactly one subpartition (BROADCAST: to each); rows for one subpartition keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.keys.hashing import hash_columns, key_groups, subtasks_of
from tidegate.model.deployment import OutputDeployment
from tidegate.model.errors import SchemaMismatch
from tidegate.model.graph import Partitioner
from tidegate.model.program import OutputSpec
from tidegate.model.values import Key
from tidegate.records.batch import ArrowBatch, to_wire
from tidegate.records.keys import hash_keys

Dealt = list[tuple[int, pa.RecordBatch]]
"""Pieces of a batch for subpartitions, none of them empty, in the form in which they are sent: with timestamps."""

_FEW = 4
"""Up to this number of targets, selecting the rows of each is cheaper than sorting."""


class Dealer(Protocol):
    """Distributes the rows of an outgoing edge among its subpartitions."""

    def deal(self, batch: ArrowBatch, keys: Sequence[Key] | None = None) -> Dealt:
        """Distributes the rows of a batch. ``keys[i]``: the key of row i, if a key selector computed it."""


def make_dealer(output: OutputDeployment, spec: OutputSpec, producer_index: int) -> Dealer:
    """Makes the dealer of an outgoing edge. For BROADCAST it deals all rows to index 0, and the partition sends them to every subpartition."""
    match output.partitioner:
        case Partitioner.FORWARD | Partitioner.GLOBAL | Partitioner.BROADCAST:
            return _ToFirst()
        case Partitioner.RESCALE | Partitioner.REBALANCE:
            targets = len(output.consumers)
            return _ToFirst() if targets == 1 else _InTurn(targets, producer_index % targets)
        case Partitioner.HASH:
            assert spec.key is not None, f"HASH edge {spec.edge_id} has a key"
            return _ByKey(output, spec.key.columns)
        case Partitioner.CUSTOM:
            return _Told(len(output.consumers))


class _ToFirst:
    def deal(self, batch: ArrowBatch, keys: Sequence[Key] | None = None) -> Dealt:
        return [(0, to_wire(batch))]


class _InTurn:
    def __init__(self, targets: int, first: int) -> None:
        self._targets = targets
        self._next = first

    def deal(self, batch: ArrowBatch, keys: Sequence[Key] | None = None) -> Dealt:
        data = to_wire(batch)
        each, odd = divmod(data.num_rows, self._targets)
        dealt: Dealt = []
        start = 0
        for turn in range(self._targets if each else odd):
            rows = each + (turn < odd)
            dealt.append(((self._next + turn) % self._targets, data.slice(start, rows)))
            start += rows
        self._next = (self._next + odd) % self._targets
        return dealt


class _ByKey:
    def __init__(self, output: OutputDeployment, columns: tuple[str, ...]) -> None:
        assert output.consumers == tuple(range(output.consumer_parallelism)), "a HASH edge reaches every consumer"
        self._edge_id = output.edge_id
        self._columns = columns
        self._targets = output.consumer_parallelism
        self._max_parallelism = output.consumer_max_parallelism

    def deal(self, batch: ArrowBatch, keys: Sequence[Key] | None = None) -> Dealt:
        data = to_wire(batch)
        if self._targets == 1:
            return [(0, data)]
        if keys is None:
            hashes = hash_columns(self._key_columns(batch.data))
        else:
            assert len(keys) == data.num_rows, (len(keys), data.num_rows)
            hashes = hash_keys(keys)
        owners = subtasks_of(key_groups(hashes, self._max_parallelism), self._max_parallelism, self._targets)
        return _split(data, owners, self._targets)

    def _key_columns(self, data: pa.RecordBatch) -> list[pa.Array]:
        names = data.schema.names
        missing = [name for name in self._columns if name not in names]
        if missing or not self._columns:
            raise SchemaMismatch(
                f"edge {self._edge_id} is keyed by {missing or 'a function of the record'}, and the batch that its producer sends has the columns {names} "
                "and no keys with it: the operator before key_by must emit the columns of the key"
            )
        return [data.column(name) for name in self._columns]


class _Told:
    """Uses the keys as the targets, for CUSTOM edges."""

    def __init__(self, targets: int) -> None:
        self._targets = targets

    def deal(self, batch: ArrowBatch, keys: Sequence[Key] | None = None) -> Dealt:
        assert keys is not None, "a CUSTOM edge has a function for its targets"
        return _split(to_wire(batch), np.asarray(keys, np.int32), self._targets)


def _split(data: pa.RecordBatch, owners: npt.NDArray[np.int32], targets: int) -> Dealt:
    if targets <= _FEW:
        found = [(target, np.flatnonzero(owners == target)) for target in range(targets)]
        full = next((target for target, rows in found if len(rows) == data.num_rows), None)
        if full is not None:
            return [(full, data)]
        return [(target, _take(data, rows)) for target, rows in found if len(rows)]
    small = owners.astype(np.uint8 if targets <= 256 else np.uint16)
    order = np.argsort(small, kind="stable")  # a radix sort, for one or two bytes
    counts = np.bincount(small, minlength=targets)
    if counts.max() == data.num_rows:
        return [(int(counts.argmax()), data)]
    ends = np.cumsum(counts)
    sorted_data = _take(data, order)
    return [
        (target, sorted_data.slice(int(ends[target] - counts[target]), int(counts[target])))
        for target in range(targets)
        if counts[target]
    ]


def _take(data: pa.RecordBatch, rows: npt.NDArray[np.intp]) -> pa.RecordBatch:
    """Selects rows of a batch by index, without bounds checks."""
    return pc.take(data, pa.array(rows), boundscheck=False)
