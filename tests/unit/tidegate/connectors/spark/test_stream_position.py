"""Where a Spark stream stands: what of a batch that is read again is dropped, and what gives it away when it differs."""

from __future__ import annotations

import msgspec
import pytest

from tidegate.connectors.spark.stream_link import BatchPlanned, PartitionEnded, RowBlock
from tidegate.connectors.spark.stream_position import PartitionEmitted, StreamPosition, StreamProgress, merged
from tidegate.model.errors import CorruptData

PLANNED = BatchPlanned(('{"logOffset":0}',), ('{"logOffset":1}',), {})


def in_a_batch() -> StreamProgress:
    """One block and a half of partition 0, and one block of partition 1, were emitted; a block has 10 rows."""
    progress = StreamProgress(StreamPosition(starts=PLANNED.starts))
    progress.on_planned(PLANNED)
    progress.on_rows(RowBlock(0, 0, "a"), 10)
    progress.on_emitted(RowBlock(0, 0, "a"), 10, 10)
    progress.on_emitted(RowBlock(1, 0, "x"), 10, 10)
    progress.on_emitted(RowBlock(0, 1, "b"), 4, 10)
    return progress


def restored() -> StreamProgress:
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(in_a_batch().position.to_state()))
    return StreamProgress(StreamPosition.from_state(state))


def test_a_position_says_what_was_emitted_of_each_partition() -> None:
    position = in_a_batch().position
    assert position.ends == PLANNED.ends
    assert position.done == {0: PartitionEmitted(1, 4, "b"), 1: PartitionEmitted(1, 0, "x")}
    assert StreamPosition.from_state(position.to_state()) == position


def test_a_batch_that_is_read_again_drops_what_was_emitted() -> None:
    progress = restored()
    progress.on_planned(PLANNED)
    assert progress.on_rows(RowBlock(0, 0, "a"), 10) == 10
    assert progress.on_rows(RowBlock(0, 1, "b"), 10) == 4
    assert progress.on_rows(RowBlock(0, 2, "c"), 10) == 0
    assert progress.on_rows(RowBlock(1, 0, "x"), 10) == 10
    assert progress.on_rows(RowBlock(1, 1, "y"), 10) == 0
    assert progress.on_rows(RowBlock(2, 0, "z"), 10) == 0


def test_a_snapshot_in_a_batch_that_is_read_again_forgets_nothing() -> None:
    progress = restored()
    progress.on_planned(PLANNED)
    progress.on_rows(RowBlock(0, 0, "a"), 10)
    assert progress.position.done == in_a_batch().position.done
    progress.on_rows(RowBlock(0, 1, "b"), 10)
    progress.on_emitted(RowBlock(0, 1, "b"), 10, 10)
    assert progress.position.done == {0: PartitionEmitted(2, 0, "b"), 1: PartitionEmitted(1, 0, "x")}


def test_rows_that_differ_are_an_error_by_name() -> None:
    with pytest.raises(CorruptData, match=r"partition 0 of the batch .*logOffset.:0.* gave other rows than before"):
        restored().on_rows(RowBlock(0, 1, "other"), 10)
    with pytest.raises(CorruptData, match="partition 1"):
        restored().on_rows(RowBlock(1, 0, "other"), 10)


def test_a_partition_that_became_shorter_or_is_missing_is_an_error() -> None:
    with pytest.raises(CorruptData, match="partition 0"):
        restored().on_ended(PartitionEnded(0, 1))
    progress = restored()
    progress.on_ended(PartitionEnded(0, 2))
    progress.on_ended(PartitionEnded(1, 1))
    with pytest.raises(CorruptData, match="partition 1"):
        progress.on_batch_ended(frozenset([0]))


def test_the_end_of_a_batch_is_the_beginning_of_the_next() -> None:
    progress = restored()
    progress.on_batch_ended(frozenset([0, 1]))
    assert progress.position == StreamPosition(PLANNED.ends, None, 1)


def test_a_stream_that_has_nothing_yet_keeps_where_its_sources_begin() -> None:
    progress = StreamProgress(StreamPosition())
    progress.on_planned(BatchPlanned(("5",), ("5",), {"0/0": b"v1"}))
    assert progress.position == StreamPosition(("5",), None, 0, {}, {"0/0": b"v1"})


def test_a_compacted_log_stands_for_what_is_before_it() -> None:
    before = {f"0/{n}": b"" for n in range(9)} | {"1/3": b"", "0/9.compact": b""}
    assert merged(before, {"0/10": b""}).keys() == before.keys() | {"0/10"}
    after = merged(before | {"0/10": b""}, {"0/19.compact": b"", "0/20": b""})
    assert after.keys() == {"0/19.compact", "0/20", "1/3"}
