"""`CollectionSource`: the values of a Python collection, in order, as one split (``env.from_collection``).

The values travel in the split as one Arrow IPC stream of the stream's type; the position is the index of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader, Split, SplitState
from tidegate.connectors.tabular import Collection, typed_batch
from tidegate.records.batch import ArrowBatch

_BATCH_RECORDS = 4096
"""How many records a batch has: it bounds a slice of Python objects, and makes the cost of a batch small."""


class CollectionSource(Source):
    """A bounded source of a Python collection. Accepts what ``tidegate.connectors.tabular`` lists; without a type, columns and arrays keep their own
    and other records are pickled. Raises ``SchemaMismatch`` at once when a value does not fit the type, ``InvalidJob`` for what is not a collection."""

    bounded = True

    def __init__(self, values: Collection, type_info: TypeInformation | None = None) -> None:
        data, self._type_info = typed_batch(values, type_info)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, data.schema) as writer:
            writer.write_batch(data)
        self._content: bytes = sink.getvalue().to_pybytes()

    def list_splits(self, parallelism: int) -> list[Split]:
        return [Split("collection")]

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return CollectionReader(self._content)

    def produced_type(self) -> TypeInformation:
        return self._type_info


class CollectionReader(SourceReader):
    """Emits the values of a collection; its position is the number of values emitted."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._splits: list[Split] = []
        self._polled = 0
        self._emitted = 0
        self._data: pa.RecordBatch | None = None

    def open(self, states: Sequence[SplitState]) -> None:
        for state in states:
            self._splits.append(state.split)
            self._data = pa.ipc.open_stream(self._content).read_next_batch()
            self._polled = self._emitted = self._data.num_rows if state.done else int(state.position or 0)

    def poll(self) -> Polled | None:
        if self._data is None or self._polled >= self._data.num_rows:
            return None
        part = self._data.slice(self._polled, _BATCH_RECORDS)
        self._polled += part.num_rows
        return Polled(ArrowBatch(part), self._splits[0].split_id)

    def advance(self, records: int) -> None:
        self._emitted += records

    def is_finished(self) -> bool:
        return self._data is None or self._emitted >= self._data.num_rows

    def snapshot_state(self) -> list[SplitState]:
        return [SplitState(split, self._emitted, self.is_finished()) for split in self._splits]
