"""Opens a checkpoint or savepoint for reading.

    open_checkpoint(path) ─▶ Checkpoint ─▶ operators ─▶ states ─▶ tables, one for each segment, or all as one

Keyed state      key_group │ key (or key.<column>) │ window_start, window_end, or window_id, or namespace │ timestamp │ value (or value.<column>)
Operator state   subtask │ element │ element_json
Data in flight   edge │ producer │ consumer │ direction │ batch │ watermark │ the record's columns   (``channels``)

A binary column of pickled objects has a text column ``<name>_type`` beside it, with the name of each value's type.
``element_json`` is the element when it is msgpack (``null`` for one that JSON cannot say). Nothing is read before it is
asked for; every file is verified when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from tidegate.model.checkpoint import (
    ChannelStateHandle,
    CheckpointManifest,
    OperatorState,
    OperatorStateHandle,
    SegmentHandle,
)
from tidegate.model.errors import CorruptData, Misuse
from tidegate.state_reader.channels import INPUT, OUTPUT, read_channel
from tidegate.state_reader.channels import KIND as IN_FLIGHT
from tidegate.state_reader.pickles import type_name
from tidegate.state_reader.segments import (
    VerifiedSegments,
    description_of,
    is_msgpack,
    is_pickled,
    read_elements,
    read_segment,
)
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.levels import as_one, stacks
from tidegate.store.segments import open_segment_source
from tidegate.wire.state_columns import ELEMENT, is_identity

SUBTASK = "subtask"
JSON = "element_json"
TYPE_SUFFIX = "_type"


@dataclass(frozen=True, slots=True)
class State:
    """One state of one operator, over all its subtasks. ``segments``: of keyed state, sorted by key group; ``elements``: of operator state, (subtask,
    handle); ``channels``: of data in flight, ``in-flight.input`` and ``in-flight.output``."""

    name: str
    segments: tuple[SegmentHandle, ...] = ()
    elements: tuple[tuple[int, OperatorStateHandle], ...] = ()
    channels: tuple[ChannelStateHandle, ...] = ()

    @property
    def is_keyed(self) -> bool:
        """Whether the state is keyed."""
        return bool(self.segments)

    @property
    def redistribution(self) -> str:
        """How the state is redistributed when the job is rescaled: ``KEY_GROUPS``, ``SPLIT``, ``UNION``, ``BROADCAST`` or ``CHANNELS``."""
        if self.channels:
            return "CHANNELS"
        return "KEY_GROUPS" if self.is_keyed else self.elements[0][1].redistribution.value

    @property
    def has_levels(self) -> bool:
        """Whether the state is incremental: rows of one segment replace those of another, or are added to them."""
        return any(segment.level for segment in self.segments)

    @property
    def stored_rows(self) -> int:
        """The number of rows in the state's files. In incremental state, rows that a segment of a higher level replaces are included."""
        keyed = sum(segment.offsets[-1] - segment.offsets[0] for segment in self.segments)
        return keyed + sum(handle.elements for _, handle in self.elements)

    @property
    def size_bytes(self) -> int:
        """The bytes of the state's files; a file with several segments counts once."""
        files = {segment.handle.path or index: segment.handle.size_bytes for index, segment in enumerate(self.segments)}
        elements = sum(handle.handle.size_bytes for _, handle in self.elements)
        return sum(files.values()) + elements + sum(channel.handle.size_bytes for channel in self.channels)


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the manifest with its states."""

    described: OperatorState
    states: tuple[State, ...]

    @property
    def title(self) -> str:
        """The uid of the operator, or else its name."""
        return self.described.uid or self.described.name

    def state(self, name: str) -> State:
        """Returns the state with a name. Raises ``Misuse`` that lists the existing ones."""
        for state in self.states:
            if state.name == name:
                return state
        known = ", ".join(repr(state.name) for state in self.states) or "none at all"
        raise Misuse(f"operator '{self.title}' has no state {name!r} in this checkpoint; it has {known}")


class Checkpoint:
    """An opened checkpoint. ``location``: its directory; ``manifest``: the content of ``_metadata``; ``source``: reads its files."""

    def __init__(self, location: str, manifest: CheckpointManifest, source: VerifiedSegments) -> None:
        self.location = location
        self.manifest = manifest
        self.operators = tuple(Operator(operator, _states_of(operator)) for operator in manifest.operators)
        self.source = source

    def operator(self, name: str) -> Operator:
        """Returns an operator by id, uid or name. Raises ``Misuse`` when there is none or more than one."""
        for matches in _MATCHES:
            found = [operator for operator in self.operators if matches(operator.described, name)]
            if len(found) == 1:
                return found[0]
            if found:
                ids = ", ".join(operator.described.operator_id for operator in found)
                raise Misuse(f"{len(found)} operators of {self.location} are called {name!r}; give an id: {ids}")
        known = ", ".join(repr(operator.title) for operator in self.operators) or "no operator with state"
        raise Misuse(f"no operator {name!r} in {self.location}; it has {known}")

    def table(self, operator: str, state: str) -> pa.Table:
        """Reads one state as a table. Raises ``Misuse``, ``CorruptData``, ``StorageError``."""
        return self.table_of(self.operator(operator).state(state))

    def table_of(self, state: State) -> pa.Table:
        """Reads all rows of a state as one table."""
        return joined(self.tables_of(state), f"state '{state.name}' of {self.location}")

    def tables_of(self, state: State, *, type_names: bool = True) -> Iterator[pa.Table]:
        """Reads a state as several tables in the order of storage: by key group, or by subtask. ``type_names``: whether to add columns with the types
        of pickled values, which takes some microseconds a value."""
        for stack in stacks(state.segments):
            for rows in self.merged(stack):
                yield with_types(rows) if type_names else rows
        for subtask, handle in state.elements:
            elements = read_elements(self.source, handle, self.location)
            yield _with_json(elements.add_column(0, SUBTASK, pa.array([subtask] * elements.num_rows, pa.int32())))
        for channel in state.channels:
            rows = read_channel(self.source, channel, state.name, self.location)
            yield with_types(rows) if type_names else rows

    def merged(self, stack: Sequence[SegmentHandle]) -> Iterator[pa.Table]:
        """Reads the segments of one part of the key groups: one by one, or as one merged table when they have levels."""
        tables = (read_segment(self.source, segment, self.location) for segment in stack)
        if any(segment.level for segment in stack):
            yield as_one(list(tables), [segment.key_groups for segment in stack], is_identity)
        else:
            yield from tables

    def rows_in(self, state: State) -> int:
        """Returns the number of entries, elements or records. Reads states with levels and data in flight."""
        if not state.has_levels and not state.channels:
            return state.stored_rows
        return sum(table.num_rows for table in self.tables_of(state, type_names=False))

    def rows_of(self, segment: SegmentHandle) -> pa.Table:
        """Reads one segment as it is stored."""
        return read_segment(self.source, segment, self.location)

    def kind_of(self, state: State) -> str:
        """Returns the kind in the metadata of the state's smallest file: ``value``, ``list``, ``map``, ``reducing``, ``aggregating``, ``timers``,
        ``columnar_windows`` ..."""
        return IN_FLIGHT if state.channels else _kind_in(self.schema_of(state))

    def schema_of(self, state: State) -> pa.Schema:
        """Returns the columns of the state's smallest file, with their metadata. (It may lack a column of the namespace that is null in all rows.)"""
        if state.is_keyed:
            smallest = min(state.segments, key=lambda segment: segment.handle.size_bytes)
            return read_segment(self.source, smallest, self.location).schema
        if state.channels:
            least = min(state.channels, key=lambda channel: channel.handle.size_bytes)
            return read_channel(self.source, least, state.name, self.location).schema
        _, handle = min(state.elements, key=lambda element: element[1].handle.size_bytes)
        return read_elements(self.source, handle, self.location).schema


def open_checkpoint(path: str) -> Checkpoint:
    """Opens the checkpoint or savepoint at ``path``: its directory or its ``_metadata``, local or a URI that pyarrow.fs supports.

    Raises ``StorageError`` (not there, not readable), ``CorruptData`` (damaged or incomplete; names the file) or
    ``VersionMismatch``.
    """
    location, manifest = CheckpointStorage().read_checkpoint(path)
    return Checkpoint(location, manifest, open_segment_source(location))


def joined(tables: Iterator[pa.Table], what: str) -> pa.Table:
    """Joins the tables of one state; a column that some of them lack is null there. Raises ``CorruptData``."""
    parts = list(tables)
    try:
        whole = pa.concat_tables(parts, promote_options="default")
    except pa.ArrowException as error:
        raise CorruptData(
            f"{what}: its files do not have the same columns ({error}), so it is damaged; use another checkpoint"
        ) from error
    if all(part.schema.names == whole.schema.names for part in parts):
        return whole
    return whole.select(sorted(whole.schema.names, key=lambda name: not is_identity(name.removesuffix(TYPE_SUFFIX))))


def with_types(table: pa.Table) -> pa.Table:
    """Returns the table with a column ``<name>_type`` after each column of pickled objects."""
    for name in table.schema.names:
        field = table.schema.field(name)
        if is_pickled(field):
            types = [None if value is None else type_name(value) for value in table.column(name).to_pylist()]
            at = table.schema.get_field_index(name) + 1
            table = table.add_column(at, f"{name}{TYPE_SUFFIX}", pa.array(types, pa.string()))
    return table


_Matches = Callable[[OperatorState, str], bool]
_MATCHES: tuple[_Matches, ...] = (
    lambda operator, name: operator.operator_id == name.lower(),
    lambda operator, name: bool(name) and operator.uid == name,
    lambda operator, name: operator.name == name,
)
"""How an operator is found by its name, in this order."""


def _states_of(operator: OperatorState) -> tuple[State, ...]:
    """Returns the states of an operator by name; keyed ones first, data in flight last."""
    segments: dict[str, list[SegmentHandle]] = {}
    elements: dict[str, list[tuple[int, OperatorStateHandle]]] = {}
    for subtask, snapshot in sorted(operator.subtasks.items()):
        for segment in snapshot.keyed:
            segments.setdefault(segment.state_name, []).append(segment)
        for handle in snapshot.operator:
            elements.setdefault(handle.state_name, []).append((subtask, handle))
    keyed = [State(name, tuple(sorted(found, key=lambda s: s.key_groups))) for name, found in sorted(segments.items())]
    own = [State(name, elements=tuple(found)) for name, found in sorted(elements.items())]
    in_order = [snapshot for _, snapshot in sorted(operator.subtasks.items())]
    inputs = State(INPUT, channels=tuple(channel for snapshot in in_order for channel in snapshot.input_channels))
    outputs = State(OUTPUT, channels=tuple(channel for snapshot in in_order for channel in snapshot.output_channels))
    return (*keyed, *own, *(state for state in (inputs, outputs) if state.channels))


def _with_json(table: pa.Table) -> pa.Table:
    if not is_msgpack(table.schema.field(ELEMENT)):
        return with_types(table)
    texts = [_json_of(content) for content in table.column(ELEMENT).to_pylist()]
    return table.append_column(JSON, pa.array(texts, pa.string()))


def _json_of(content: bytes) -> str | None:
    try:
        return msgspec.json.encode(msgspec.msgpack.decode(content)).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return None


def _kind_in(schema: pa.Schema) -> str:
    return str(description_of(schema).get("kind", "")) or "?"
