"""State of the simulated operators, as handles: inline, or in shared files that several checkpoints name."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.sim.job import COUNTER_OP, SINK_OP, SOURCE_OP
from tests.sim.storage import Content, Storage, Transaction
from tidegate.model.checkpoint import (
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    SegmentHandle,
    StateHandle,
    StateRedistribution,
    SubtaskSnapshot,
    TaskRestore,
)
from tidegate.model.ids import AttemptId, OperatorId
from tidegate.model.keygroups import KeyGroupRange


class FileGone(AssertionError):
    """A shared file that a checkpoint names is not there."""


@dataclass(frozen=True, slots=True)
class SharedFile:
    """What one snapshot wants of one key group: a file that is there, or one to be written."""

    path: str
    is_new: bool


def source_snapshot(offsets: Mapping[int, int], attempt: AttemptId) -> SubtaskSnapshot:
    handle = OperatorStateHandle("splits", StateRedistribution.UNION, len(offsets), _inline(dict(offsets)))
    return _with_origin(SOURCE_OP, OperatorSnapshot(operator=(handle,)), attempt)


def assigned_snapshot(elements: list[Any], attempt: AttemptId) -> SubtaskSnapshot:
    """The snapshot of a source whose splits a coordinator hands out."""
    handle = OperatorStateHandle("splits", StateRedistribution.UNION, len(elements), _inline(elements))
    return _with_origin(SOURCE_OP, OperatorSnapshot(operator=(handle,)), attempt)


def counter_snapshot(
    groups: Mapping[int, Content], files: Mapping[int, SharedFile], attempt: AttemptId
) -> SubtaskSnapshot:
    """``files``: by key group; those without one travel inline."""
    segments = []
    for group, counts in sorted(groups.items()):
        file = files.get(group)
        handle = StateHandle(len(counts), "", path=file.path, is_shared=True) if file else _inline(dict(counts))
        segments.append(SegmentHandle("counts", KeyGroupRange(group, group), (0, len(counts)), handle))
    return _with_origin(COUNTER_OP, OperatorSnapshot(keyed=tuple(segments)), attempt)


def sink_snapshot(transactions: list[Transaction], attempt: AttemptId) -> SubtaskSnapshot:
    handle = OperatorStateHandle(
        "transactions", StateRedistribution.SPLIT, len(transactions), _inline(list(transactions))
    )
    return _with_origin(SINK_OP, OperatorSnapshot(operator=(handle,)), attempt)


# ---- back again ------------------------------------------------------------------------------------------------------


def restored_offsets(restore: TaskRestore | None) -> dict[int, int]:
    """Of all splits, whoever had them."""
    operator = restore.operators.get(SOURCE_OP) if restore else None
    return _offsets(operator.operator) if operator else {}


def restored_elements(restore: TaskRestore | None) -> list[Any] | None:
    """Returns the elements of all splits that readers had, as they were written; ``None``: the source starts afresh."""
    operator = restore.operators.get(SOURCE_OP) if restore else None
    if operator is None:
        return None
    return [element for h in operator.operator if h.state_name == "splits" for element in _load(h)]


def held_splits(state: OperatorState) -> list[int]:
    """The splits in the state of the readers, each as often as it is there."""
    handles = [h for snapshot in state.subtasks.values() for h in snapshot.operator if h.state_name == "splits"]
    return [int(e[0]) if isinstance(e, list) else int(e) for h in handles for e in _load(h)]


def restored_groups(restore: TaskRestore | None, storage: Storage) -> dict[int, tuple[Content, str]]:
    """By key group: the counts, and the shared file that holds them (or ''). Raises ``FileGone``."""
    operator = restore.operators.get(COUNTER_OP) if restore else None
    found: dict[int, tuple[Content, str]] = {}
    for segment in operator.keyed if operator else ():
        handle = segment.handle
        if not handle.is_shared:
            found[segment.key_groups.start] = (pickle.loads(handle.data or b""), "")
        elif handle.path in storage.shared:
            found[segment.key_groups.start] = (dict(storage.shared[handle.path]), handle.path)
        else:
            raise FileGone(handle.path)
    return found


def restored_transactions(restore: TaskRestore | None) -> list[Transaction]:
    operator = restore.operators.get(SINK_OP) if restore else None
    if operator is None:
        return []
    slices = zip(operator.operator, operator.slices, strict=True)
    return [t for h, (first, end) in slices if h.state_name == "transactions" for t in _load(h)[first:end]]


def offsets_in(manifest: CheckpointManifest, rows: tuple[int, ...]) -> dict[int, int]:
    """How far each split was read; the whole of it where the sources had finished."""
    for operator in manifest.operators:
        if operator.operator_id == SOURCE_OP and len(operator.finished) == operator.parallelism:
            return dict(enumerate(rows))
        if operator.operator_id == SOURCE_OP:
            return _offsets(handle for snapshot in operator.subtasks.values() for handle in snapshot.operator)
    return {}


def origin_of(snapshot: OperatorSnapshot) -> str:
    """Which attempt wrote it: a handle that says so, put there for the checkers."""
    return next(str(_load(h)) for h in snapshot.operator if h.state_name == "origin")


def transactions_of(snapshot: OperatorSnapshot) -> list[Transaction]:
    return [t for h in snapshot.operator if h.state_name == "transactions" for t in _load(h)]


def shared_paths(operators: Iterable[OperatorSnapshot]) -> set[str]:
    return {handle.path for snapshot in operators for handle in snapshot.handles if handle.is_shared}


def shared_paths_of(manifest: CheckpointManifest) -> set[str]:
    return shared_paths(snapshot for operator in manifest.operators for snapshot in operator.subtasks.values())


def _offsets(handles: Iterable[OperatorStateHandle]) -> dict[int, int]:
    offsets: dict[int, int] = {}
    for handle in handles:
        if handle.state_name == "splits":
            loaded = _load(handle)
            offsets.update({int(e[0]): e[2] for e in loaded} if isinstance(loaded, list) else loaded)
    return offsets


def _with_origin(op: OperatorId, state: OperatorSnapshot, attempt: AttemptId) -> SubtaskSnapshot:
    origin = OperatorStateHandle("origin", StateRedistribution.SPLIT, 1, _inline(str(attempt)))
    return SubtaskSnapshot({op: OperatorSnapshot(state.keyed, (*state.operator, origin))})


def _inline(value: object) -> StateHandle:
    data = pickle.dumps(value)
    return StateHandle(len(data), "", data=data)


def _load(handle: OperatorStateHandle) -> Any:
    return pickle.loads(handle.handle.data or b"")
