"""Writes a new savepoint, or a changed copy of another (Flink: ``SavepointWriter.java``).

    new_savepoint ──────────────┐
    from_existing_savepoint ────┴─ with_operator · with_state · change_operator_identifier · remove_operator ─▶ write(path)

What is not changed is copied file by file, so the new savepoint needs nothing of the old one. ``_metadata`` is written
last: a savepoint that was not finished is none. Nothing is held in memory but one range of key groups at a time (``KeyGroupSpill``).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tidegate.aio.settings import load_settings
from tidegate.aio.signing import signing_of_manifests
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    SegmentHandle,
    SnapshotType,
    StateHandle,
)
from tidegate.model.errors import Misuse
from tidegate.model.ids import CheckpointId, JobId, OperatorId
from tidegate.model.keygroups import UPPER_BOUND_MAX_PARALLELISM
from tidegate.state_processor.identifier import OperatorIdentifier
from tidegate.state_processor.placing import cut_by_subtask, elements_by_subtask
from tidegate.state_processor.spilling import KeyGroupSpill
from tidegate.state_processor.transformation import StateBootstrapTransformation
from tidegate.store.checkpoints import CheckpointStorage
from tidegate.store.files import LocalFiles
from tidegate.store.locations import normalized, open_files, storage_error
from tidegate.store.segments import FileSegmentSource, FileSegmentStore, SegmentForm, open_segment_source
from tidegate.taskmanager.state.files.segments import StateDescription, element_schema, write_elements, write_keyed
from tidegate.wire.manifest import METADATA_FILE

__all__ = ["SavepointWriter"]

INLINE_BYTES = 20 << 10
"""The most bytes of inline state: Flink's default of ``execution.checkpointing.data-inline-threshold``."""
COPY_BYTES = 8 << 20
"""The bytes of the pieces in which files are copied. Chosen, not measured."""
_NAME = "state-processor"


@dataclass(frozen=True, slots=True)
class _Changes:
    """The written states of one operator, by name. ``is_new``: the changed savepoint does not have the operator."""

    written: Mapping[str, StateBootstrapTransformation]
    is_new: bool


class SavepointWriter:
    """Collects changes of a savepoint; ``write`` applies them."""

    def __init__(self, base: tuple[str, CheckpointManifest] | None, max_parallelism: int) -> None:
        self._base = base
        self._max_parallelism = max_parallelism
        self._operators: dict[OperatorId, OperatorState] = (
            {} if base is None else {operator.operator_id: operator for operator in base[1].operators}
        )
        self._changes: dict[OperatorId, _Changes] = {}

    @staticmethod
    def new_savepoint(max_parallelism: int = 128) -> SavepointWriter:
        """Starts an empty savepoint. ``max_parallelism``: of all its operators; a job that restores it uses it. Raises ``Misuse`` outside of 1 to 32768."""
        if not 0 < max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
            raise Misuse(f"max_parallelism must be 1 to {UPPER_BOUND_MAX_PARALLELISM}, not {max_parallelism}")
        return SavepointWriter(None, max_parallelism)

    @staticmethod
    def from_existing_savepoint(path: str) -> SavepointWriter:
        """Starts with the content of a savepoint, or checkpoint, at ``path``. Raises ``StorageError``, ``CorruptData``, ``VersionMismatch``, and
        ``Misuse`` for a checkpoint with data in flight."""
        location, manifest = CheckpointStorage().read_checkpoint(path)
        if manifest.edges:
            raise Misuse(f"{location} is an unaligned checkpoint with data in flight: take a savepoint and change that")
        known = [operator.max_parallelism for operator in manifest.operators]
        return SavepointWriter((location, manifest), max(known, default=128))

    def with_operator(
        self, identifier: OperatorIdentifier, *transformations: StateBootstrapTransformation
    ) -> SavepointWriter:
        """Adds an operator with these states. Raises ``Misuse`` when it exists: remove it first, or change single states with ``with_state``."""
        if identifier.operator_id in self._operators:
            raise Misuse(
                f"there is an operator {identifier} already: remove_operator, or with_state for single states of it"
            )
        self._operators[identifier.operator_id] = OperatorState(
            identifier.operator_id, identifier.uid, str(identifier).strip("'"), 1, self._max_parallelism
        )
        self._changes[identifier.operator_id] = _Changes(_by_name(identifier, transformations), is_new=True)
        return self

    def with_state(
        self, identifier: OperatorIdentifier, *transformations: StateBootstrapTransformation
    ) -> SavepointWriter:
        """Replaces or adds states of an operator; its other states are kept. Raises ``Misuse`` when there is no such operator."""
        self._known(identifier)
        before = self._changes.get(identifier.operator_id, _Changes({}, is_new=False))
        written = {**before.written, **_by_name(identifier, transformations)}
        self._changes[identifier.operator_id] = replace(before, written=written)
        return self

    def remove_operator(self, identifier: OperatorIdentifier) -> SavepointWriter:
        """Removes an operator with its state. Raises ``Misuse`` when there is no such operator."""
        self._known(identifier)
        del self._operators[identifier.operator_id]
        self._changes.pop(identifier.operator_id, None)
        return self

    def change_operator_identifier(self, old: OperatorIdentifier, new: OperatorIdentifier) -> SavepointWriter:
        """Renames an operator, so that its state belongs to another uid. Raises ``Misuse`` when there is no such operator, or one with the new name."""
        operator = self._known(old)
        if new.operator_id in self._operators:
            raise Misuse(f"there is an operator {new} already")
        renamed = {
            (new.operator_id if operator_id == old.operator_id else operator_id): state
            for operator_id, state in self._operators.items()
        }
        renamed[new.operator_id] = replace(operator, operator_id=new.operator_id, uid=new.uid)
        self._operators = renamed
        if old.operator_id in self._changes:
            self._changes[new.operator_id] = self._changes.pop(old.operator_id)
        return self

    def write(self, path: str, *, temporary_directory: str | None = None) -> None:
        """Writes the savepoint into the directory ``path``, a local one or a URI, which must not hold one. Rows are sorted in ``temporary_directory``
        (the system's by default), which needs as much space as the written states.

        Raises ``StorageError``, ``SchemaMismatch`` for tables that do not fit their state, ``Misuse`` for an entry that is there twice,
        ``ConfigurationError`` where the configuration of this process wants savepoints signed, and has no key for it.
        """
        location = normalized(path)
        files, directory = open_files(location)
        if files.kind_of(f"{directory}/{METADATA_FILE}") != "missing" or (
            files.kind_of(directory) == "directory" and files.sizes(directory)
        ):
            raise Misuse(f"{location} is not empty: give a directory that does not exist yet")
        try:
            files.make_directory(directory)
        except OSError as error:
            raise storage_error("make directory", location, error) from error
        try:
            self._write(
                location, FileSegmentStore(files, directory, _NAME, 1, SegmentForm(INLINE_BYTES)), temporary_directory
            )
        except BaseException:
            files.delete_tree(directory)
            raise

    def _write(self, location: str, store: FileSegmentStore, temporary: str | None) -> None:
        copies = None if self._base is None else _Copies(open_segment_source(self._base[0], LocalFiles()), store)
        operators = tuple(self._written(operator, store, copies, temporary) for operator in self._operators.values())
        signing = signing_of_manifests(load_settings())
        written = CheckpointStorage(signing=signing).write_manifest(location, self._manifest(operators))
        if written.error is not None:
            raise written.error

    def _manifest(self, operators: tuple[OperatorState, ...]) -> CheckpointManifest:
        now_ms = int(time.time() * 1000)
        if self._base is not None:
            base = self._base[1]
            return replace(base, operators=operators, timestamp_ms=now_ms, snapshot_type=SnapshotType.SAVEPOINT)
        job_id = JobId(secrets.token_hex(16))
        return CheckpointManifest(job_id, _NAME, CheckpointId(1), now_ms, SnapshotType.SAVEPOINT, operators)

    def _written(
        self, operator: OperatorState, store: FileSegmentStore, copies: _Copies | None, temporary: str | None
    ) -> OperatorState:
        changes = self._changes.get(operator.operator_id, _Changes({}, is_new=False))
        subtasks: dict[int, OperatorSnapshot] = {}
        for index, snapshot in operator.subtasks.items():
            assert copies is not None, operator
            kept = copies.of(snapshot, leaving_out=set(changes.written))
            if kept != OperatorSnapshot() or not changes.written:
                subtasks[index] = kept
        for state in changes.written.values():
            for index, added in self._state(state, operator, store, temporary).items():
                before = subtasks.get(index, OperatorSnapshot())
                keyed, own = (*before.keyed, *added.keyed), (*before.operator, *added.operator)
                subtasks[index] = replace(before, keyed=keyed, operator=own)
        return replace(operator, subtasks=dict(sorted(subtasks.items())))

    def _state(
        self,
        state: StateBootstrapTransformation,
        operator: OperatorState,
        store: FileSegmentStore,
        temporary: str | None,
    ) -> dict[int, OperatorSnapshot]:
        """Writes one state; returns the snapshot of each subtask."""
        about = StateDescription(operator.uid or operator.name, state.state_name, state.kind, state.types)
        maximum, parallelism, what = operator.max_parallelism, operator.parallelism, f"state '{state.state_name}'"
        if state.redistribution is not None:
            mode = state.redistribution
            field, dealt = elements_by_subtask(state.batches(), mode, parallelism, what)
            if field is None:
                return {}
            schema = element_schema(field, about)
            return {
                subtask: OperatorSnapshot(operator=(write_elements(store, elements, schema, mode, about),))
                for subtask, elements in dealt.items()
            }
        assert state.groups_of is not None, state
        segments: dict[int, list[SegmentHandle]] = {}
        with KeyGroupSpill(maximum, what, temporary) as spill:
            for batch in state.batches():
                spill.add(batch, state.groups_of(batch, maximum))
            for whole in spill.ranges():
                for subtask, of, groups, rows in cut_by_subtask(*whole, maximum, parallelism):
                    segments.setdefault(subtask, []).append(write_keyed(store, rows, groups, of, about))
        return {subtask: OperatorSnapshot(keyed=tuple(own)) for subtask, own in segments.items()}

    def _known(self, identifier: OperatorIdentifier) -> OperatorState:
        found = self._operators.get(identifier.operator_id)
        if found is None:
            known = ", ".join(f"'{one.uid or one.name}'" for one in self._operators.values()) or "none"
            raise Misuse(f"there is no operator {identifier} in the savepoint; it has {known}")
        return found


class _Copies:
    """Copies the files of the changed savepoint, each once."""

    def __init__(self, source: FileSegmentSource, store: FileSegmentStore) -> None:
        self._source = source
        self._store = store
        self._copied: dict[str, StateHandle] = {}

    def of(self, snapshot: OperatorSnapshot, leaving_out: set[str]) -> OperatorSnapshot:
        keyed = [self._segment(s) for s in snapshot.keyed if s.state_name not in leaving_out]
        own = [self._own(s) for s in snapshot.operator if s.state_name not in leaving_out]
        return OperatorSnapshot(keyed=tuple(keyed), operator=tuple(own))

    def _segment(self, segment: SegmentHandle) -> SegmentHandle:
        return replace(segment, handle=self._copy(segment.handle, segment.state_name))

    def _own(self, state: OperatorStateHandle) -> OperatorStateHandle:
        return replace(state, handle=self._copy(state.handle, state.state_name))

    def _copy(self, handle: StateHandle, hint: str) -> StateHandle:
        if not handle.path:
            return handle
        if handle.path not in self._copied:
            self._copied[handle.path] = self._store.write(hint, _pieces(self._source.read(handle)))
        return self._copied[handle.path]


def _pieces(content: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(content), COPY_BYTES):
        yield content[start : start + COPY_BYTES]


def _by_name(
    identifier: OperatorIdentifier, transformations: tuple[StateBootstrapTransformation, ...]
) -> dict[str, StateBootstrapTransformation]:
    found = {state.state_name: state for state in transformations}
    if len(found) != len(transformations):
        names = [state.state_name for state in transformations]
        raise Misuse(f"operator {identifier}: two of the states have the same name: {names}; give each its own")
    return found
