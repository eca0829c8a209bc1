"""Sorts batches externally, with bounded memory whatever their size.

    add ─▶ rows in memory ── more than the limit ──▶ sorted ─▶ a run: a file of Arrow batches
    rows ─▶ the runs and what is in memory, merged: by key, then by timestamp, then as they came

Keys are bytes; rows without timestamps sort as if they had the earliest one. Files are written to the given directory, and are removed by ``close``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model.errors import StorageError
from tidegate.model.values import Record
from tidegate.records.batch import MIN_TIMESTAMP

KEY, STAMP = "__key", "__timestamp"
RUN_ROWS = 2048
"""Rows of a run that are in memory while it is merged."""

Row = tuple[bytes, int, int, int, int, Record, int | None]
"""Key, sort time, side, run, number, record, timestamp. The first five are unique, so that records are never compared."""


@dataclass
class ExternalSorter:
    """Sorts the rows of one input. ``side``: sorts before the order of arrival. ``decode``: returns the records of a record batch."""

    directory: str
    limit_bytes: int
    decode: Callable[[pa.RecordBatch], list[Record]]
    side: int = 0
    _gathered: list[pa.RecordBatch] = field(default_factory=list)
    _gathered_bytes: int = 0
    _runs: list[str] = field(default_factory=list)

    @property
    def runs(self) -> int:
        """The number of files that were written."""
        return len(self._runs)

    def add(self, data: pa.RecordBatch, keys: Sequence[bytes], stamps: pa.Array | None) -> None:
        """Adds rows with their keys and timestamps. Raises ``StorageError`` when a run cannot be written."""
        times = pa.nulls(len(data), pa.int64()) if stamps is None else stamps
        columns = [*data.columns, pa.array(keys, pa.large_binary()), times]
        fields = [*data.schema, pa.field(KEY, pa.large_binary()), pa.field(STAMP, pa.int64())]
        batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        self._gathered.append(batch)
        self._gathered_bytes += batch.nbytes
        if self._gathered_bytes > self.limit_bytes:
            self._spill()

    def sorted_runs(self) -> list[Iterator[Row]]:
        """Returns the sorted runs, which have to be merged. Nothing may be added afterwards."""
        found = [self._rows(number, _batches_of(path)) for number, path in enumerate(self._runs)]
        if self._gathered:
            batches = self._sorted().to_batches(RUN_ROWS)
            self._gathered = []
            found.append(self._rows(len(self._runs), iter(batches)))
        return found

    def close(self) -> None:
        for path in self._runs:
            os.unlink(path)
        self._runs, self._gathered = [], []

    def _sorted(self) -> pa.Table:
        table = pa.Table.from_batches(self._gathered)
        # No timestamp counts as the earliest one, as in the merge. Sorting could place nulls itself only since pyarrow 25.
        times = pc.fill_null(table[STAMP], MIN_TIMESTAMP)
        order = pc.sort_indices(
            pa.table({KEY: table[KEY], STAMP: times}), sort_keys=[(KEY, "ascending"), (STAMP, "ascending")]
        )
        return table.take(order)

    def _spill(self) -> None:
        table = self._sorted()
        try:
            handle, path = tempfile.mkstemp(prefix="sorted-", suffix=".arrow", dir=self.directory or None)
            os.close(handle)
            self._runs.append(path)
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=RUN_ROWS)
        except OSError as error:
            raise StorageError(
                f"sorted rows cannot be written to {self.directory or 'the temporary directory'}: {error}; free space there, or set io.tmp.dirs to "
                "another directory"
            ) from error
        self._gathered, self._gathered_bytes = [], 0

    def _rows(self, run: int, batches: Iterator[pa.RecordBatch]) -> Iterator[Row]:
        number, side = 0, self.side
        for batch in batches:
            last = batch.num_columns - 2
            data = pa.RecordBatch.from_arrays(batch.columns[:last], schema=pa.schema(list(batch.schema)[:last]))
            keys, stamps = batch.column(last).to_pylist(), batch.column(last + 1).to_pylist()
            for key, stamp, value in zip(keys, stamps, self.decode(data), strict=True):
                yield key, MIN_TIMESTAMP if stamp is None else stamp, side, run, number, value, stamp
                number += 1


def _batches_of(path: str) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(path) as source, pa.ipc.open_file(source) as reader:
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
