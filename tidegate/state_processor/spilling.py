"""Sorts any number of rows by key group in bounded memory, through temporary files.

    batches ─▶ dealt by ranges of key groups ─▶ one Arrow stream a range, in a temporary directory ─▶ range by range: read, sorted, given on

What is held at once is a batch while rows are dealt, and one range afterwards: a 128th of the state, and at least one key group.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model.errors import Misuse, SchemaMismatch
from tidegate.model.keygroups import KeyGroupRange, range_of
from tidegate.taskmanager.state.files.segments import KEY_GROUP, Groups, by_key_group
from tidegate.wire.state_columns import is_identity

__all__ = ["KeyGroupSpill"]

RANGES = 128
"""The number of temporary files. Chosen, not measured: a range of 5 GB of state is 40 MB, and so many open files are allowed everywhere."""


class KeyGroupSpill:
    """Sorts rows by key group in temporary files, which are removed at the end of the context. ``what``: the state's name in errors."""

    def __init__(self, max_parallelism: int, what: str, directory: str | None = None) -> None:
        self._max_parallelism = max_parallelism
        self._count = min(RANGES, max_parallelism)
        self._what = what
        self._temporary = tempfile.TemporaryDirectory(prefix="tidegate-state-", dir=directory)
        self._writers: dict[int, pa.ipc.RecordBatchStreamWriter] = {}
        self._schema: pa.Schema | None = None

    def __enter__(self) -> KeyGroupSpill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()
        self._temporary.cleanup()

    def add(self, batch: pa.RecordBatch, groups: Groups) -> None:
        """Adds rows with the key group of each. Raises ``SchemaMismatch`` when their columns are not those of the previous rows."""
        if not batch.num_rows:
            return
        batch, groups = by_key_group(batch, groups)
        batch = batch.add_column(0, pa.field(KEY_GROUP, pa.int32()), pa.array(groups, pa.int32()))
        if self._schema is None:
            self._schema = batch.schema
        if not batch.schema.equals(self._schema):
            raise SchemaMismatch(
                f"{self._what}: the tables that are written to it have different columns, {_columns(self._schema)} and "
                f"{_columns(batch.schema)}; select the same columns with the same types"
            )
        of = groups.astype(np.int64) * self._count // self._max_parallelism
        bounds = np.searchsorted(of, np.arange(self._count + 1))
        for index in np.flatnonzero(np.diff(bounds)).tolist():
            self._writer(index).write_batch(batch.slice(bounds[index], bounds[index + 1] - bounds[index]))

    def ranges(self) -> Iterator[tuple[KeyGroupRange, Groups, pa.RecordBatch]]:
        """Yields each range with rows, sorted by key group. Raises ``Misuse`` when two rows have the same entry."""
        for index in sorted(self._writers):
            self._writers[index].close()
            with pa.memory_map(str(self._path(index))) as file, pa.ipc.open_stream(file) as reader:
                table = reader.read_all().combine_chunks()
                (batch,) = table.to_batches()
                groups = batch.column(0).to_numpy()
                batch, groups = by_key_group(batch.drop_columns([KEY_GROUP]), groups)
                self._check_entries(batch)
                yield range_of(index, self._max_parallelism, self._count), groups, batch
            self._path(index).unlink()

    def _check_entries(self, batch: pa.RecordBatch) -> None:
        names = [name for name in batch.schema.names if is_identity(name)]
        table = pa.Table.from_batches([batch]).select(names)
        try:
            counted = table.group_by(names).aggregate([([], "count_all")])
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowKeyError):
            return  # lists and structs: Arrow does not group by them
        if counted.num_rows == table.num_rows:
            return
        (twice, *_) = counted.filter(pc.greater(counted.column("count_all"), 1)).select(names).to_pylist()
        raise Misuse(f"{self._what}: there are several rows for {twice}, which may have only one")

    def _writer(self, index: int) -> pa.ipc.RecordBatchStreamWriter:
        writer = self._writers.get(index)
        if writer is None:
            writer = self._writers[index] = pa.ipc.new_stream(str(self._path(index)), self._schema)
        return writer

    def _path(self, index: int) -> Path:
        return Path(self._temporary.name) / f"{index}.arrows"


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
