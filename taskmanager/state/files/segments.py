"""The format of state files: Arrow IPC files that plain pyarrow, DuckDB or Spark can read.

A keyed segment has one row for each entry, sorted by ``key_group``:

    key_group: int32 │ key... │ window_start, window_end: int64 (when the namespace is a window) │ value...

Operator state has one row for each element, in the column ``element``. The schema's metadata holds, under ``tidegate``,
a JSON object: format version, operator, state name, kind, and the names of the types. A binary column of pickled objects
has the field metadata ``tidegate.pickled``, one of msgpack ``tidegate.msgpack``.

A segment of a level above 0 also has the column ``deleted``: see ``tidegate.model.checkpoint.SegmentHandle``.

Laws: the bytes that Arrow wrote go to the store unchanged, without a copy for large files, or piece by piece; a reader uses no data of a file that does not
match its handle (``CorruptData`` names the file).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.model.checkpoint import OperatorStateHandle, SegmentHandle, StateHandle, StateRedistribution
from tidegate.model.errors import CorruptData, InternalError
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.values import JsonObject
from tidegate.taskmanager.state.files.ipc_parts import ipc_file
from tidegate.taskmanager.state.ports import SegmentSource, SegmentStore

FORMAT_VERSION = 1
"""The version of state files (docs/state-format.md). A reader refuses a newer one."""
KEY_GROUP = "key_group"
DELETED = "deleted"
ELEMENT = "element"
METADATA_KEY = b"tidegate"
PICKLED = {b"tidegate.pickled": b"1"}
MSGPACK = {b"tidegate.msgpack": b"1"}

Groups = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class StateDescription:
    """The description of a state in the metadata of its file."""

    operator: str
    state_name: str
    kind: str
    types: Mapping[str, str] = field(default_factory=dict)
    more: JsonObject = field(default_factory=dict)
    """Metadata that only this kind of state has."""

    def to_metadata(self) -> dict[bytes, bytes]:
        content = {
            "version": FORMAT_VERSION,
            "operator": self.operator,
            "state": self.state_name,
            "kind": self.kind,
            "types": dict(self.types),
            **self.more,
        }
        return {METADATA_KEY: json.dumps(content, sort_keys=True).encode()}


def write_keyed(
    store: SegmentStore,
    data: pa.RecordBatch,
    groups: Groups,
    key_groups: KeyGroupRange,
    about: StateDescription,
    level: int = 0,
    *,
    is_shared: bool = False,
) -> SegmentHandle:
    """Writes rows of keyed state as a segment; returns its handle. ``groups[i]``: the key group of row i of ``data``; the column of key groups is added
    here. ``level``: the level of the segment in incremental state.

    Raises ``StorageError``, and ``InternalError`` for a key group that is not in ``key_groups``.
    """
    if len(groups) and not (key_groups.start <= int(groups.min()) and int(groups.max()) <= key_groups.end):
        raise InternalError(
            f"operator '{about.operator}', state '{about.state_name}': a key of groups {int(groups.min())} to "
            f"{int(groups.max())} is in a subtask that owns {key_groups.start} to {key_groups.end}: records and state "
            "do not agree on the key (is the key selector deterministic?)"
        )
    data, groups = by_key_group(data, groups)
    bounds = np.searchsorted(groups, np.arange(key_groups.start, key_groups.end + 2))
    schema = data.schema.insert(0, pa.field(KEY_GROUP, pa.int32(), nullable=False))
    batch = pa.RecordBatch.from_arrays(
        [pa.array(groups, pa.int32()), *data.columns], schema=schema.with_metadata(about.to_metadata())
    )
    parts = ipc_file(batch.schema, [batch], write_options(store))
    handle = store.write(f"{about.operator}-{about.state_name}", parts, is_shared=is_shared)
    return SegmentHandle(about.state_name, key_groups, tuple(bounds.tolist()), handle, level)


def by_key_group(data: pa.RecordBatch, groups: Groups) -> tuple[pa.RecordBatch, Groups]:
    """Returns the rows sorted by key group, and the sorted groups. Rows of one group keep their order."""
    if bool((groups[1:] >= groups[:-1]).all()):
        return data, groups
    order = np.argsort(groups.astype(np.uint16), kind="stable")  # a radix sort: there are at most 2**15 groups
    return pc.take(data, pa.array(order), boundscheck=False), groups[order]


def element_schema(field: pa.Field, about: StateDescription) -> pa.Schema:
    """Returns the schema of operator state. ``field``: the column ``element``, of a type or binary (pickled or msgpack, as its metadata says)."""
    return pa.schema([field], metadata=about.to_metadata())


def write_elements(
    store: SegmentStore,
    elements: pa.Array | pa.ChunkedArray,
    schema: pa.Schema,
    mode: StateRedistribution,
    about: StateDescription,
) -> OperatorStateHandle:
    """Writes operator state; returns its handle. ``schema``: its ``element_schema``. Raises ``StorageError``."""
    chunks = elements.chunks if isinstance(elements, pa.ChunkedArray) else [elements]
    batches = [pa.RecordBatch.from_arrays([chunk], schema=schema) for chunk in chunks]
    handle = store.write(f"{about.operator}-{about.state_name}", ipc_file(schema, batches, write_options(store)))
    return OperatorStateHandle(about.state_name, mode, len(elements), handle)


def read_keyed(source: SegmentSource, segment: SegmentHandle, wanted: KeyGroupRange) -> tuple[Groups, pa.RecordBatch]:
    """Reads the rows of the key groups that are in the segment and wanted: returns their groups, and the other columns. Raises ``CorruptData``."""
    both = segment.key_groups.intersect(wanted)
    name = _name_of(segment.handle, segment.state_name)
    table = _from_ipc(source.read(segment.handle), name)
    _check_rows(segment, table, name)
    first, last = (0, 0) if both.size == 0 else _rows_of(segment, both)
    part = table.slice(first, last - first)
    groups = part.column(KEY_GROUP).to_numpy()
    _check_groups(groups, segment, both, 0, name)
    return groups, _one_batch(part.drop_columns([KEY_GROUP]))


def read_keyed_batches(
    source: SegmentSource, segment: SegmentHandle, wanted: KeyGroupRange
) -> Iterator[tuple[Groups, pa.RecordBatch]]:
    """Reads rows as ``read_keyed`` does, batch by batch as they are in the file. Raises ``CorruptData``."""
    both = segment.key_groups.intersect(wanted)
    name = _name_of(segment.handle, segment.state_name)
    if both.size == 0 or len(segment.offsets) != segment.key_groups.size + 1:
        if both.size:
            entries = segment.key_groups.size + 1
            raise CorruptData(
                f"{name}: its index has {len(segment.offsets)} entries instead of {entries}; restore another checkpoint"
            )
        return
    table = _from_ipc(source.read(segment.handle), name)
    _check_rows(segment, table, name)
    first, last = _rows_of(segment, both)
    row = 0
    for batch in table.slice(first, last - first).to_batches():
        groups = batch.column(batch.schema.get_field_index(KEY_GROUP)).to_numpy()
        if len(groups):
            _check_groups(groups, segment, both, row, name)
            row += len(groups)
            yield groups, batch.drop_columns([KEY_GROUP])


def read_elements(source: SegmentSource, state: OperatorStateHandle, first: int, last: int) -> list[bytes]:
    """Reads the binary elements ``first`` to ``last - 1`` of operator state. Raises ``CorruptData``."""
    return list(read_element_table(source, state, first, last).column(ELEMENT).to_pylist())


def read_element_table(source: SegmentSource, state: OperatorStateHandle, first: int, last: int) -> pa.Table:
    """Reads the elements ``first`` to ``last - 1`` of operator state as a table with the column ``element`` and the metadata of the file. Raises
    ``CorruptData``.
    """
    name = _name_of(state.handle, state.state_name)
    table = _from_ipc(source.read(state.handle), name)
    if table.schema.names != [ELEMENT] or table.num_rows != state.elements:
        raise CorruptData(
            f"{name}: expected {state.elements} rows of the column '{ELEMENT}', found {table.num_rows} of "
            f"{table.schema.names}; restore another checkpoint"
        )
    return table.slice(first, last - first)


def _check_rows(segment: SegmentHandle, table: pa.Table, name: str) -> None:
    """Raises ``CorruptData`` when a segment's index refers to rows that the file does not have. It may leave out rows that other handles refer to."""
    is_whole = len(segment.offsets) == segment.key_groups.size + 1
    if not is_whole or segment.offsets[-1] > table.num_rows or bool((np.diff((0, *segment.offsets)) < 0).any()):
        raise CorruptData(
            f"{name}: it has {table.num_rows} rows, but its index says {segment.offsets[-1:]} in "
            f"{len(segment.offsets)} entries for {segment.key_groups.size} key groups; restore another checkpoint"
        )
    if KEY_GROUP not in table.schema.names or table.schema.field(KEY_GROUP).type != pa.int32():
        raise CorruptData(
            f"{name}: no int32 column '{KEY_GROUP}' among {table.schema.names}, so it is no file of keyed state; restore another checkpoint"
        )


def _check_groups(groups: Groups, segment: SegmentHandle, both: KeyGroupRange, row: int, name: str) -> None:
    """Raises ``CorruptData`` when rows are not of the key groups that the segment's index says. ``groups``: those of the rows from ``row`` on, counted from the
    first row of ``both``.
    """
    at = both.start - segment.key_groups.start
    bounds = np.array(segment.offsets[at : at + 1 + both.size]) - segment.offsets[at]
    here = np.diff(np.clip(bounds, row, row + len(groups)))
    expected = np.repeat(np.arange(both.start, both.end + 1, dtype=np.int32), here)
    if not np.array_equal(groups, expected):
        raise CorruptData(
            f"{name}: its rows are not of the key groups that its index names; restore another checkpoint"
        )


def _rows_of(segment: SegmentHandle, both: KeyGroupRange) -> tuple[int, int]:
    base = segment.key_groups.start
    return segment.offsets[both.start - base], segment.offsets[both.end + 1 - base]


def write_options(store: SegmentStore) -> pa.ipc.IpcWriteOptions:
    """Returns the options to write a state file: LZ4 if files are compressed, since every reader of Arrow knows it and it takes less time than most disks."""
    return pa.ipc.IpcWriteOptions(compression="lz4" if store.compresses else None)


def _from_ipc(content: memoryview, name: str) -> pa.Table:
    try:
        table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError, ValueError) as error:
        raise CorruptData(f"{name}: not a readable Arrow file ({error}); restore another checkpoint") from error
    return table


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) == 1:
        return batches[0]
    empty = [pa.array([], f.type) for f in table.schema]
    return pa.RecordBatch.from_arrays(empty, schema=table.schema)


def _name_of(handle: StateHandle, state_name: str) -> str:
    return f"state file {handle.path}" if handle.path else f"inline state '{state_name}'"


def metadata_of(schema: pa.Schema) -> JsonObject:
    """Returns the JSON object in a state file's metadata; empty when there is none."""
    content = (schema.metadata or {}).get(METADATA_KEY)
    found: JsonObject = json.loads(content) if content else {}
    return found
