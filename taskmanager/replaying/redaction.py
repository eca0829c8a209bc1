"""Copies a kept failure with stand-ins in the place of its data, to be passed on.

    recording, state ─▶ stand-ins (``StandIns``)     state of sources and sinks, texts of the exception, places of files ─▶ left out
    program, the job's files, its options ─▶ as they are, since a replay runs them

Keys get other values, and so other key groups: the copy is of one subtask that owns all of them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import msgspec
import pyarrow as pa
import xxhash

from tidegate.columnar.keys.hashing import hash_columns, key_groups
from tidegate.common.typeinfo import Types
from tidegate.model.channel_events import UserEvent
from tidegate.model.checkpoint import (
    OperatorStateHandle,
    RestoredOperator,
    SegmentHandle,
    StateHandle,
    TaskRestore,
)
from tidegate.model.errors import InvalidJob
from tidegate.model.ids import OperatorId
from tidegate.model.keygroups import KeyGroupRange
from tidegate.model.program import OperatorSpec, VertexProgram
from tidegate.records.keys import hash_keys
from tidegate.records.record_codec import decode_column
from tidegate.records.schema_evolution import TTL_COLUMN
from tidegate.taskmanager.recording.calls import RecordedCall, RecordedKind
from tidegate.taskmanager.recording.failures import (
    DEPLOYMENT,
    DOCUMENT,
    PROGRAM,
    Failure,
    KeptState,
    kept_name,
    read_content,
    read_deployment,
    write_own,
)
from tidegate.taskmanager.recording.segment_files import SegmentWriter, read_segment
from tidegate.taskmanager.replaying.stand_in_columns import OF_RUNTIME, replace_batch, replace_column
from tidegate.taskmanager.replaying.stand_ins import StandIns
from tidegate.taskmanager.runtime.recorded import SOURCES
from tidegate.taskmanager.state.files.partial_segment import BATCH_ROWS, ORDERED
from tidegate.taskmanager.state.files.segments import (
    DELETED,
    ELEMENT,
    PICKLED,
    Groups,
    StateDescription,
    metadata_of,
    read_element_table,
    read_keyed,
    write_elements,
    write_keyed,
)
from tidegate.wire.channel_messages import decode_event, encode_event
from tidegate.wire.convert_deployment import deployment_to_bytes
from tidegate.wire.state_columns import WINDOW_END, WINDOW_START

KEY = "key"
_REPLACED_OPERATORS = (*SOURCES, "sink", "committer")
"""Kinds of operators that a replay replaces, so that it needs none of their state."""
_OF_STATE = (WINDOW_START, WINDOW_END, "window_id", "namespace", "timestamp", TTL_COLUMN, DELETED)
"""Columns of state files with times and windows, which belong to the recorded watermarks and clock."""
_BOOKKEEPING: dict[str, tuple[str, ...]] = {
    "cep": ("nfaStateName", "sharedBuffer-entries"),
    "window": ("fire-time", "count"),
}
"""States of the runtime's own, by kind of operator: which stage a match has reached, when a trigger fires. No field of a record is in them."""
_TIMERS = "_timers."
"""Begins the names of the states of timers, which have keys and times alone."""
_NAME = re.compile(rb"\w+")


@dataclass(frozen=True, slots=True)
class Redacted:
    """A copy with stand-ins. ``merged``: how many different values became equal. ``left_out``: operators whose state is not in it, by name."""

    failure: Failure
    merged: int
    left_out: tuple[str, ...]


def redact(failure: Failure, program: VertexProgram, folder: Path, keep: Set[str]) -> Redacted:
    """Writes a copy of a failure into ``folder``, which must not exist. ``keep``: names of fields and states that stay as they are, ``key`` for those of all
    keys. The copy has no message yet: see ``write_message``. Raises ``InvalidJob``, ``CorruptData``, ``OSError``.
    """
    if folder.exists():
        raise InvalidJob(f"{folder} is there already; give a folder that is not")
    folder.mkdir(mode=0o700, parents=True)
    try:
        return _Redaction(failure, program, folder, keep).write()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def write_message(copy: Failure, message: str, details: str, code: str) -> Failure:
    """Writes what the copy's own replay raised into its description, with which later replays are compared."""
    completed = replace(copy, message=message, details=details, code=code)
    (copy.folder / DOCUMENT).write_bytes(json.dumps(completed.to_json(), indent=1).encode())
    return completed


def names_in(failure: Failure, program: VertexProgram) -> list[str]:
    """Returns what may be kept: the names of the fields of all records, of the states, and ``key`` if there is state by key."""
    found: dict[str, None] = {}
    for name in failure.segments:
        for call in read_segment(failure.folder / "segments" / Path(name).name)[1]:
            for field in () if call.batch is None else call.batch.schema:
                if field.name not in OF_RUNTIME:
                    found[field.name] = None
    restore = read_deployment(failure).restore
    for spec in program.operators:
        state = None if restore is None else restore.operators.get(spec.operator_id)
        if state is None or spec.kind in _REPLACED_OPERATORS:
            continue
        if state.keyed:
            found[KEY] = None
        for state_name in [*(part.state_name for part in state.keyed), *(part.state_name for part in state.operator)]:
            if not state_name.startswith(_TIMERS):
                found[state_name] = None
    return list(found)


class _Redaction:
    def __init__(self, failure: Failure, program: VertexProgram, folder: Path, keep: Set[str]) -> None:
        self._failure, self._program, self._folder = failure, program, folder
        self._deployment = read_deployment(failure)
        self._content = read_content(failure, PROGRAM)
        self._files = {key: read_content(failure, "files", Path(key).name) for key in self._deployment.blobs.values()}
        known = set(chain.from_iterable(map(_NAME.findall, (self._content, *self._files.values()))))
        self._stand_ins = StandIns(keep, lambda text: text.encode("utf-8", "surrogatepass") in known)
        self._left_out: list[str] = []

    def write(self) -> Redacted:
        failure, folder = self._failure, self._folder
        for name in ("segments", "state", "files"):
            (folder / name).mkdir(mode=0o700)
        for key, content in self._files.items():
            write_own(folder / "files" / key, content)
        write_own(folder / PROGRAM, self._content)
        for name in failure.segments:
            self._write_segment(Path(name).name)
        restore = self._deployment.restore
        if restore is not None:
            restore = TaskRestore(restore.checkpoint_id, "", self._operators(restore))
        deployment = replace(
            self._deployment, restore=restore, parallelism=1, attempt=replace(self._deployment.attempt, subtask=0)
        )
        write_own(folder / DEPLOYMENT, deployment_to_bytes(deployment))
        copy = replace(failure, folder=folder, location="", message="", details="")
        write_own(folder / DOCUMENT, json.dumps(copy.to_json(), indent=1).encode())
        return Redacted(copy, self._stand_ins.merged, tuple(self._left_out))

    def _write_segment(self, name: str) -> None:
        start, calls = read_segment(self._failure.folder / "segments" / name)
        writer = SegmentWriter(self._folder / "segments" / name)
        try:
            writer.write(RecordedKind.STARTED, start.checkpoint_id, 0, start.numbers())
            for call in calls:
                self._write_call(writer, call)
        finally:
            writer.close()

    def _write_call(self, writer: SegmentWriter, call: RecordedCall) -> None:
        if call.batch is not None:
            writer.write_batch(call.kind, call.first, replace_batch(call.batch, self._stand_ins), call.body.decode())
        else:
            writer.write(call.kind, call.first, call.second, (), self._body(call))
        if call.has_ended:
            writer.write(RecordedKind.ENDED, call.emitted, 0, tuple(chain.from_iterable(call.readings)))

    def _body(self, call: RecordedCall) -> bytes:
        if call.kind in (RecordedKind.USER_EVENT, RecordedKind.EMIT_EVENT):
            return self._event(call.body)
        if call.kind is RecordedKind.TASK_EVENT:
            event = decode_event(call.body)
            return encode_event(UserEvent(self._event(event.content)) if isinstance(event, UserEvent) else event)
        return call.body

    def _event(self, content: bytes) -> bytes:
        """Replaces the values of a user event, whose name and names of fields stay."""
        name, value = msgspec.msgpack.decode(content)
        stand_ins = self._stand_ins
        if isinstance(value, dict):
            return msgspec.msgpack.encode(
                (name, {field: stand_ins.value(found, field) for field, found in value.items()})
            )
        return msgspec.msgpack.encode((name, stand_ins.value(value)))

    def _operators(self, restore: TaskRestore) -> dict[OperatorId, RestoredOperator]:
        specs = {spec.operator_id: spec for spec in self._program.operators}
        found = {}
        for operator_id, state in restore.operators.items():
            spec = specs.get(operator_id)
            if spec is None or spec.kind in _REPLACED_OPERATORS:
                if (state.keyed or state.operator) and spec is not None:
                    self._left_out.append(spec.name)
                continue
            found[operator_id] = RestoredOperator(
                tuple(self._keyed(spec, state.keyed)),
                *self._elements(state),
            )
        return found

    def _keyed(self, spec: OperatorSpec, segments: Iterable[SegmentHandle]) -> Iterator[SegmentHandle]:
        """Puts the segments of each state and level together, since their keys move to other key groups."""
        by_level: dict[tuple[str, int], list[SegmentHandle]] = {}
        for segment in segments:
            by_level.setdefault((segment.state_name, segment.level), []).append(segment)
        owned = KeyGroupRange(0, self._deployment.max_parallelism - 1)
        source, store = KeptState(self._failure.folder), _CopyStore(self._folder / "state")
        for (name, level), parts in by_level.items():
            batches = [read_keyed(source, part, part.key_groups)[1] for part in parts]
            schema = batches[0].schema
            made = [self._state(batch, spec, name).replace_schema_metadata(None) for batch in batches]
            table = pa.Table.from_batches(made).combine_chunks()
            data = table.to_batches()[0] if table.num_rows else made[0]
            said = metadata_of(schema)
            left = ("version", "operator", "state", "kind", "types", BATCH_ROWS, ORDERED)
            about = StateDescription(
                said.get("operator", spec.name),
                name,
                said.get("kind", ""),
                said.get("types", {}),
                {key: value for key, value in said.items() if key not in left},
            )
            groups = groups_of(data, self._deployment.max_parallelism)
            written = write_keyed(store, data, groups, owned, about, level)
            yield replace(
                written, first_ms=min((part.first_ms for part in parts if part.first_ms is not None), default=None)
            )

    def _state(self, data: pa.RecordBatch, spec: OperatorSpec, state: str) -> pa.RecordBatch:
        stand_ins = self._stand_ins
        stays = state in stand_ins.keep or state in _BOOKKEEPING.get(spec.kind, ())
        columns = []
        for column, field in zip(data.columns, data.schema, strict=True):
            name = field.name.partition(".")[2]  # of a column that the job named
            is_key = field.name == KEY or field.name.startswith(f"{KEY}.")
            is_kept = KEY in stand_ins.keep if is_key else stays
            if not is_kept and field.name not in _OF_STATE and name not in stand_ins.keep:
                column = replace_column(column, field.with_name(""), stand_ins)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=data.schema)

    def _elements(self, state: RestoredOperator) -> tuple[tuple[OperatorStateHandle, ...], tuple[tuple[int, int], ...]]:
        source, store = KeptState(self._failure.folder), _CopyStore(self._folder / "state")
        handles, slices = [], []
        for handle, (first, last) in zip(state.operator, state.slices, strict=True):
            table = read_element_table(source, handle, first, last)
            column, field = table.column(ELEMENT).combine_chunks(), table.schema.field(ELEMENT)
            array = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
            if handle.state_name not in self._stand_ins.keep:
                array = replace_column(array, field.with_name(""), self._stand_ins)
            about = StateDescription("", handle.state_name, "")
            handles.append(write_elements(store, array, table.schema, handle.redistribution, about))
            slices.append((0, len(array)))
        return tuple(handles), tuple(slices)


def groups_of(data: pa.RecordBatch, max_parallelism: int) -> Groups:
    """Returns the key groups of the rows of a state file."""
    names = [name for name in data.schema.names if name == KEY or name.startswith(f"{KEY}.")]
    if names != [KEY]:
        return key_groups(hash_columns([data.column(name) for name in names]), max_parallelism)
    column, field = data.column(KEY), data.schema.field(KEY)
    if PICKLED.keys() <= (field.metadata or {}).keys():
        return key_groups(hash_keys(decode_column(Types.PICKLED_BYTE_ARRAY(), column)), max_parallelism)
    parts = (
        column.flatten() if pa.types.is_struct(field.type) else [column]
    )  # a tuple or row has the hash of its fields
    return key_groups(hash_columns(parts), max_parallelism)


class _CopyStore:
    """A ``SegmentStore`` that writes into the folder of a failure."""

    compresses = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.written_bytes = 0

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        content = b"".join(parts)
        name = kept_name(StateHandle(len(content), xxhash.xxh3_64_hexdigest(content)))
        if not (self._directory / name).exists():
            write_own(self._directory / name, content)
        self.written_bytes += len(content)
        return StateHandle(len(content), xxhash.xxh3_64_hexdigest(content), name)
