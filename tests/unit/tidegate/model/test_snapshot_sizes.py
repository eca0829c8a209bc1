"""A file that several segments are parts of is one file."""

from __future__ import annotations

from tidegate.model.checkpoint import OperatorSnapshot, SegmentHandle, StateHandle
from tidegate.model.keygroups import KeyGroupRange


def segment(first: int, handle: StateHandle, level: int = 0) -> SegmentHandle:
    return SegmentHandle("s", KeyGroupRange(first, first), (0, 1), handle, level)


def test_a_shared_file_counts_once() -> None:
    shared = StateHandle(100, "", path="/shared/a", is_shared=True)
    again = StateHandle(100, "", path="/shared/a", is_shared=True)
    other = StateHandle(10, "", path="/shared/b", is_shared=True)
    inline = StateHandle(3, "", data=b"abc")
    snapshot = OperatorSnapshot(
        keyed=(
            segment(0, shared),
            segment(1, again),
            segment(0, other, 1),
            segment(0, inline, 2),
            segment(1, inline, 2),
        )
    )
    assert snapshot.size_bytes == 116
    assert len(list(snapshot.handles)) == 5
