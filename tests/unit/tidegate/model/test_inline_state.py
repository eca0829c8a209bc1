"""Inline state that was dropped comes back as it was, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.model.checkpoint import (
    ChannelStateHandle,
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    RestoredOperator,
    SegmentHandle,
    SnapshotType,
    StateHandle,
    StateRedistribution,
    TaskRestore,
)
from tidegate.model.errors import CorruptData, InternalError
from tidegate.model.handles.inline_state import (
    drop_inline_state,
    fill_inline_state,
    inline_state_of,
    is_dropped,
    needs_inline_state,
)
from tidegate.model.ids import CheckpointId, JobId, OperatorId
from tidegate.model.keygroups import KeyGroupRange

OPERATOR = OperatorId("b" * 32)


def inline(content: bytes) -> StateHandle:
    return StateHandle(len(content), f"{hash(content) & (1 << 64) - 1:016x}", data=content)


IN_FILE = StateHandle(9, "0" * 16, path="count-x-0")
SNAPSHOT = OperatorSnapshot(
    keyed=(
        SegmentHandle("count", KeyGroupRange(0, 1), (0, 5, 5), inline(b"counts")),
        SegmentHandle("count", KeyGroupRange(0, 1), (0, 1, 2), IN_FILE, level=1),
    ),
    operator=(OperatorStateHandle("splits", StateRedistribution.UNION, 2, inline(b"splits")),),
    input_channels=(ChannelStateHandle(0, 1, 0, 3, inline(b"flight")),),
    output_channels=(ChannelStateHandle(1, 0, 1, 3, inline(b"")),),
)
IN_FILES = OperatorSnapshot(keyed=(SegmentHandle("count", KeyGroupRange(2, 3), (0, 5, 5), IN_FILE),))


def manifest_of(**subtasks: OperatorSnapshot) -> CheckpointManifest:
    operator = OperatorState(OPERATOR, "count", "count", 2, 4, {int(i[1:]): s for i, s in subtasks.items()})
    return CheckpointManifest(JobId("a" * 32), "job", CheckpointId(7), 1, SnapshotType.CHECKPOINT, (operator,))


def restore_of(snapshot: OperatorSnapshot) -> TaskRestore:
    channels = (*snapshot.input_channels, *snapshot.output_channels)
    restored = RestoredOperator(snapshot.keyed, snapshot.operator, ((0, 2),), channels)
    return TaskRestore(CheckpointId(7), "/cp/chk-7", {OPERATOR: restored})


def test_what_was_dropped_comes_back_as_it_was() -> None:
    whole = manifest_of(_0=SNAPSHOT, _1=IN_FILES)
    dropped = drop_inline_state(whole).operators[0].subtasks
    assert all(handle.data is None for snapshot in dropped.values() for handle in snapshot.handles)
    assert [is_dropped(handle) for handle in dropped[0].handles] == [True, False, True, True, True]
    assert dropped[0].size_bytes == SNAPSHOT.size_bytes
    assert dropped[1] is IN_FILES, "nothing of it was inline"
    restore = restore_of(dropped[0])
    assert needs_inline_state(restore)
    assert fill_inline_state(restore, inline_state_of(whole)) == restore_of(SNAPSHOT)


def test_what_lacks_nothing_stays_as_it_is() -> None:
    assert not needs_inline_state(None)
    assert not needs_inline_state(restore_of(IN_FILES))
    assert not needs_inline_state(restore_of(SNAPSHOT)), "not dropped yet"
    assert fill_inline_state(restore_of(IN_FILES), {}) == restore_of(IN_FILES)


def test_a_metadata_that_holds_something_else_is_refused_by_name() -> None:
    restore = restore_of(drop_inline_state(manifest_of(_0=SNAPSHOT)).operators[0].subtasks[0])
    content = inline_state_of(manifest_of(_0=replace(SNAPSHOT, operator=())))
    with pytest.raises(CorruptData, match=r"/cp/chk-7/_metadata no longer holds state of 6 bytes"):
        fill_inline_state(restore, content)


def test_two_contents_under_one_checksum_are_never_mixed_up() -> None:
    liar = replace(inline(b"other!"), checksum=inline(b"counts").checksum)
    lying = replace(SNAPSHOT, operator=(OperatorStateHandle("l", StateRedistribution.SPLIT, 1, liar),))
    with pytest.raises(InternalError, match="two different states of operator 'count'"):
        inline_state_of(manifest_of(_0=lying))
