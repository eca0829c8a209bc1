"""Sinks: what is written becomes visible on confirm, once, in order, and after any restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.operators.harness import MemoryStore, Pool, Running, restored_of, spec, start
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.commit_reports import REPORTS
from tidegate.model.errors import NotSerializable, StorageError, UserFunctionError
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID
from tidegate.taskmanager.operators.operator import Ending


class World:
    """The system outside."""

    def __init__(self) -> None:
        self.visible: list[Any] = []
        self.seen: set[str] = set()
        self.failures = 0
        self.calls: list[str] = []


class Writer(SinkWriter):
    def __init__(self, sink: Journal, context: SinkContext, state: Sequence[Any]) -> None:
        self.works_on = sink.works_on
        self.world = sink.world
        self.open: list[Any] = []
        self.state = list(state)
        self.name = context.attempt

    def write(self, batch: Batch) -> None:
        assert isinstance(batch, ArrowBatch if self.works_on == "arrow" else RecordsBatch)
        self.open += batch.data["value"].to_pylist() if isinstance(batch, ArrowBatch) else batch.values

    def flush(self, end_of_input: bool) -> None:
        self.world.calls.append(f"flush {end_of_input}")

    def prepare_commit(self, checkpoint_id: int) -> list[Any]:
        rows, self.open = self.open, []
        return [{"id": f"{checkpoint_id}-{rows[0]}", "rows": rows}] if rows else []

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return [*self.state, checkpoint_id]

    def close(self) -> None:
        self.world.calls.append("close")


class JournalCommitter(Committer):
    def __init__(self, world: World) -> None:
        self.world = world

    def commit(self, committables: Sequence[Any]) -> None:
        if self.world.failures:
            self.world.failures -= 1
            raise StorageError("the disk is away")
        for committable in committables:
            self.world.calls.append(f"commit {committable['id']}")
            if committable["id"] not in self.world.seen:
                self.world.seen.add(committable["id"])
                self.world.visible += committable["rows"]

    def abort_unknown(self, restored: Sequence[Any], context: SinkContext) -> None:
        self.world.calls.append(f"abort {[r['id'] for r in restored]}")


class Journal(Sink):
    def __init__(self, world: World, works_on: str = "records") -> None:
        self.world = world
        self.works_on = works_on

    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
        self.world.calls.append(f"writer {list(state)}")
        return Writer(self, context, state)

    def make_committer(self, context: SinkContext) -> Committer | None:
        return JournalCommitter(self.world)


def sink(world: World, works_on: str = "records", **more: Any) -> Running:
    return start(spec("sink", input_types=(Types.LONG(),), options={"sink": Journal(world, works_on)}), **more)


def test_nothing_is_visible_before_its_checkpoint_is_confirmed() -> None:
    world = World()
    one = sink(world)
    one.feed([1, 2])
    one.snapshot(1)
    one.feed([3])
    assert world.visible == []
    one.operator.notify_checkpoint_complete(1)
    assert world.visible == [1, 2]
    assert one.operator.ending() is Ending.UNCOMMITTED, "3 is not even prepared"
    one.snapshot(2)
    one.operator.notify_checkpoint_complete(2)
    assert world.visible == [1, 2, 3]
    assert one.operator.ending() is Ending.DONE


def test_a_confirm_commits_skipped_checkpoints_too_and_no_later_ones() -> None:
    world = World()
    one = sink(world)
    for n in (1, 2, 3, 4):
        one.feed([n])
        one.snapshot(n)
        if n == 1:
            one.operator.notify_checkpoint_aborted(1)
    one.operator.notify_checkpoint_complete(3)
    assert world.visible == [1, 2, 3]
    assert [c for c in world.calls if c.startswith("commit")] == ["commit 1-1", "commit 2-2", "commit 3-3"]
    one.operator.notify_checkpoint_complete(3)
    assert world.visible == [1, 2, 3]


def test_a_restored_sink_commits_at_once_then_cleans_up_then_writes() -> None:
    world = World()
    one = sink(world)
    one.feed([1])
    one.snapshot(1)
    one.feed([2])
    snapshot = one.snapshot(2)
    one.feed([3])
    one.snapshot(3)
    world.calls.clear()
    again = sink(world, restored=restored_of([snapshot]), restored_id=2)
    assert world.visible == [1, 2]
    assert world.calls == ["commit 1-1", "commit 2-2", "abort ['1-1', '2-2']", "writer [2]"]
    again.feed([30])
    again.snapshot(4)
    again.operator.notify_checkpoint_complete(4)
    assert world.visible == [1, 2, 30]
    sink(world, restored=restored_of([snapshot]), restored_id=2)
    assert world.visible == [1, 2, 30], "committing again does no harm"


def test_what_is_committed_leaves_the_state() -> None:
    one = sink(World())
    one.feed([1])
    one.snapshot(1)
    one.operator.notify_checkpoint_complete(1)
    snapshot = one.snapshot(2)
    assert [h.state_name for h in snapshot.operator] == ["writer"]


def test_a_failed_commit_is_tried_again_then_fails_the_attempt() -> None:
    world = World()
    one = sink(world, configuration={"sink.committer.retries": "3"})
    one.feed([1])
    one.snapshot(1)
    world.failures = 3
    one.operator.notify_checkpoint_complete(1)
    assert world.visible == [1]
    one.feed([2])
    one.snapshot(2)
    world.failures = 4
    with pytest.raises(StorageError):
        one.operator.notify_checkpoint_complete(2)
    assert one.operator.ending() is Ending.UNCOMMITTED
    one.operator.notify_checkpoint_complete(2)
    assert world.visible == [1, 2]


def test_the_last_records_wait_for_the_final_checkpoint() -> None:
    world = World()
    one = sink(world)
    one.feed([1])
    one.snapshot(1)
    one.feed([2])
    one.operator.finish()
    one.operator.notify_checkpoint_complete(1)
    assert world.visible == [1]
    assert one.operator.ending() is Ending.UNCOMMITTED
    one.snapshot(2)
    one.operator.notify_checkpoint_complete(2)
    assert world.visible == [1, 2]
    assert one.operator.ending() is Ending.DONE


def test_without_checkpoints_everything_is_committed_at_the_end() -> None:
    world = World()
    one = sink(world)
    one.feed([1, 2])
    one.operator.finish()
    one.operator.notify_checkpoint_complete(EOI_CHECKPOINT_ID)
    assert world.visible == [1, 2]
    assert one.operator.ending() is Ending.DONE
    assert "flush True" in world.calls


@pytest.mark.parametrize("works_on", ["arrow", "records"])
def test_writers_get_the_shape_that_they_work_on(works_on: str) -> None:
    world = World()
    one = sink(world, works_on)
    one.feed([1], [5])
    one.operator.process(ArrowBatch(pa.record_batch({"value": pa.array([2], pa.int64())}), pa.array([6])), 0)
    one.snapshot(1)
    one.operator.notify_checkpoint_complete(1)
    assert world.visible == [1, 2]


def test_writers_of_columns_get_no_kinds_of_rows() -> None:
    shown: list[list[str]] = []

    class Strict(Writer):
        def write(self, batch: Batch) -> None:
            assert isinstance(batch, ArrowBatch)
            shown.append(batch.data.schema.names)

    class StrictJournal(Journal):
        def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
            return Strict(self, context, state)

    kinds = {"value": pa.array([2], pa.int64()), "$row_kind": pa.array([3], pa.int8())}
    with_kinds = ArrowTypeInfo(pa.record_batch(kinds).schema)
    for kind in (Types.ROW_NAMED(["value"], [Types.LONG()]), with_kinds):
        options = {"sink": StrictJournal(World(), "arrow")}
        start(spec("sink", input_types=(kind,), options=options)).operator.process(
            ArrowBatch(pa.record_batch(kinds)), 0
        )
    assert shown == [["value"], ["value", "$row_kind"]], "columns are written as the type says"


def test_committables_must_be_plain_values() -> None:
    class Odd(Writer):
        def prepare_commit(self, checkpoint_id: int) -> list[Any]:
            return [object()]

    class OddSink(Journal):
        def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
            return Odd(self, context, state)

    one = start(spec("sink", input_types=(Types.LONG(),), options={"sink": OddSink(World())}))
    one.feed([1])
    with pytest.raises(NotSerializable, match="'op', state 'committables'"):
        one.operator.freeze(1)


def test_close_reaches_the_writer() -> None:
    world = World()
    sink(world).operator.close()
    assert world.calls[-1] == "close"


def test_writers_hear_of_checkpoints() -> None:
    class Telling(Writer):
        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            self.world.calls.append(f"complete {checkpoint_id}")

        def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
            raise ValueError(f"aborted {checkpoint_id}")

    class TellingSink(Journal):
        def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
            return Telling(self, context, state)

    world = World()
    one = start(spec("sink", options={"sink": TellingSink(world)}, input_types=(Types.LONG(),)))
    world.calls.clear()
    one.operator.notify_checkpoint_complete(4)
    one.operator.notify_checkpoint_complete(EOI_CHECKPOINT_ID)
    assert world.calls == ["complete 4"]
    with pytest.raises(UserFunctionError, match="operator 'op': ValueError: aborted 5"):
        one.operator.notify_checkpoint_aborted(5)


class SealingWriter(Writer):
    """Its vote takes long."""

    def seal(self, checkpoint_id: int) -> list[Any] | Callable[[], list[Any]]:
        rows = self.prepare_commit(checkpoint_id)

        def vote() -> list[Any]:
            self.world.calls.append(f"vote {checkpoint_id}")
            if self.world.failures:
                raise StorageError("the disk is full")
            return rows

        return vote


class Sealing(Journal):
    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
        return SealingWriter(self, context, state)


def sealing(world: World, **more: Any) -> Running:
    return start(spec("sink", input_types=(Types.LONG(),), options={"sink": Sealing(world)}), **more)


def votes(world: World) -> list[str]:
    return [call for call in world.calls if call.startswith("vote")]


def test_the_slow_part_of_a_vote_is_left_to_the_snapshot_thread() -> None:
    world = World()
    one = sealing(world)
    one.feed([1])
    frozen = one.operator.freeze(1)
    assert frozen is not None
    assert votes(world) == []
    one.feed([2])
    snapshot = frozen.write(MemoryStore())
    frozen.release()
    assert votes(world) == ["vote 1"]
    one.operator.notify_checkpoint_complete(1)
    assert world.visible == [1]
    sealing(world, restored=restored_of([snapshot]), restored_id=1)
    assert world.visible == [1], "committing again does no harm"


def test_a_vote_whose_write_was_canceled_is_in_the_next_snapshot() -> None:
    world = World()
    one = sealing(world)
    one.feed([1])
    frozen = one.operator.freeze(1)
    assert frozen is not None
    frozen.release()  # aborted before the snapshot thread came to it
    one.operator.notify_checkpoint_aborted(1)
    assert one.operator.ending() is Ending.UNCOMMITTED
    one.feed([2])
    one.snapshot(2)
    assert votes(world) == ["vote 1", "vote 2"]
    one.operator.notify_checkpoint_complete(2)
    assert world.visible == [1, 2]
    one.snapshot(3)
    assert one.operator.ending() is Ending.DONE, "an empty vote leaves nothing"


def test_a_vote_that_fails_fails_the_attempt() -> None:
    world = World()
    one = sealing(world)
    one.feed([1])
    frozen = one.operator.freeze(1)
    assert frozen is not None
    world.failures = 1
    with pytest.raises(StorageError, match="full"):
        frozen.write(MemoryStore())
    with pytest.raises(StorageError, match="full"):
        frozen.release()


def test_commits_run_in_the_pool_in_order_and_once() -> None:
    world, pool = World(), Pool()
    one = sink(world)
    one.operator.context.background.run_async = pool.submit
    for n in (1, 2):
        one.feed([n])
        one.snapshot(n)
        one.operator.notify_checkpoint_complete(n)
    assert world.visible == []
    assert one.operator.ending() is Ending.COMMITTING
    assert len(pool.jobs) == 1, "one at a time"
    world.failures = 2
    pool.run_one()
    assert world.visible == [1]
    assert one.operator.ending() is Ending.COMMITTING
    pool.run_one()
    assert world.visible == [1, 2]
    assert one.operator.ending() is Ending.DONE
    assert one.out.counts["retriedCommittables"] == 2


def test_what_is_confirmed_during_a_commit_is_committed_together_afterwards() -> None:
    """A system that is slower than the checkpoints does not fall behind further and further."""
    world, pool = World(), Pool()
    one = sink(world)
    one.operator.context.background.run_async = pool.submit
    for n in range(1, 5):
        one.feed([n])
        one.snapshot(n)
        one.operator.notify_checkpoint_complete(n)
        one.operator.notify_checkpoint_complete(n)
    pool.run_one()
    assert world.visible == [1]
    world.failures = 1
    pool.run_one()
    assert world.calls[-3:] == ["commit 2-2", "commit 3-3", "commit 4-4"]
    assert pool.jobs == []
    assert one.operator.ending() is Ending.DONE
    assert one.out.counts["successfulCommittables"] == 4


def test_checkpoints_that_are_given_up_together_are_all_named() -> None:
    world, pool = World(), Pool()
    one = sink(world, configuration={"sink.committer.retries": "0"})
    one.operator.context.background.run_async = pool.submit
    for n in (1, 2, 3):
        one.feed([n])
        one.snapshot(n)
        one.operator.notify_checkpoint_complete(n)
    pool.run_one()
    world.failures = 1
    with pytest.raises(StorageError, match=r"what checkpoints 2, 3 hold .*2-2.*3-3"):
        pool.run_one()


def test_a_commit_that_is_given_up_names_what_it_holds() -> None:
    world, pool = World(), Pool()
    one = sink(world, configuration={"sink.committer.retries": "1"})
    one.operator.context.background.run_async = pool.submit
    one.feed([7])
    one.snapshot(5)
    one.operator.notify_checkpoint_complete(5)
    world.failures = 2
    with pytest.raises(StorageError, match=r"'op'.*checkpoint 5 .*'5-7'.* in 2 attempts: the disk is away"):
        pool.run_one()


class PlacingWriter(Writer):
    def take_places(self) -> list[str]:
        return [f"place {row}" for row in self.open]


class Placing(Journal):
    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
        return PlacingWriter(self, context, state)


def reporting(world: World, **more: Any) -> Running:
    options = {"sink": Placing(world)}
    made = spec("sink", input_types=(Types.LONG(),), output_type=Types.SCHEMA(REPORTS), options=options)
    return start(made, subtask=1, parallelism=2, **more)


def reports(one: Running) -> list[tuple[Any, Any]]:
    """Checkpoint and place of each since the last call."""
    found = one.out.values()
    one.out.batches.clear()
    assert all((row["subtask"], row["subtasks"]) == (1, 2) for row in found)
    return [(row["checkpoint_id"], row["place"]) for row in found]


def test_a_sink_reports_where_it_writes_and_what_it_has_committed() -> None:
    one = reporting(World())
    one.feed([1, 2])
    one.operator.prepare_snapshot(1)
    assert reports(one) == [(None, "place 1"), (None, "place 2")]
    one.operator.freeze(1)
    one.operator.notify_checkpoint_complete(1)
    assert reports(one) == [(1, None)]
    one.snapshot(2)
    one.operator.notify_checkpoint_complete(2)
    assert reports(one) == [(2, None)], "nothing was to be committed"
    one.feed([3])
    one.snapshot(3)
    one.operator.notify_checkpoint_aborted(3)
    one.operator.finish()
    one.snapshot(4)
    one.operator.notify_checkpoint_complete(4)
    assert reports(one) == [(None, "place 3"), (4, None)], "also behind its end"


def test_a_sink_reports_no_checkpoint_that_is_still_being_committed() -> None:
    pool, world = Pool(), World()
    one = reporting(world)
    one.operator.context.background.run_async = pool.submit
    for n in (1, 2):
        one.feed([n])
        one.snapshot(n)
        one.operator.notify_checkpoint_complete(n)
    reports(one)
    assert world.visible == []
    pool.run_one()
    assert reports(one) == [(1, None)]
    pool.run_one()
    assert reports(one) == [(2, None)]


def test_a_sink_reports_all_at_the_end_without_checkpoints() -> None:
    one = reporting(World())
    one.feed([1])
    one.operator.finish()
    one.operator.notify_checkpoint_complete(EOI_CHECKPOINT_ID)
    assert reports(one) == [(None, "place 1"), (EOI_CHECKPOINT_ID, None)]


def test_a_sink_without_an_operator_behind_it_reports_nothing() -> None:
    one = start(spec("sink", input_types=(Types.LONG(),), options={"sink": Placing(World())}))
    one.feed([1])
    one.snapshot(1)
    one.operator.notify_checkpoint_complete(1)
    assert one.out.batches == []
