"""Mini-batches: what ends them, and that their rows are processed together."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_against_duckdb import ROWS, group_aggregate
from tests.unit.taskmanager.operators.relational.test_deduplicate import ROWS as TIMED_ROWS
from tests.unit.taskmanager.operators.relational.test_deduplicate import deduplicate
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import ROWS as WINDOWED_ROWS
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import window_aggregate
from tidegate.functions.sql.rows import Change
from tidegate.model.channel_events import END_OF_TIME, UserEvent
from tidegate.plan import nodes
from tidegate.plan.specs import MiniBatchInterval, TumblingWindow
from tidegate.taskmanager.operators.relational.relational_operator import KeyedChanges
from tidegate.taskmanager.operators.relational.window_aggregate import WindowAggregate

A_1: Change = (0, ("a", 1, True))
A_2: Change = (0, ("a", 2, True))
OF_1: Change = (0, ("a", 1, 1, 1, 1, 1, 1, 1, 1))
OF_BOTH: Change = (0, ("a", 2, 2, 3, 1, 1, 2, 2, 3))


def sized(size: int) -> dict[str, str]:
    return {"table.exec.mini-batch.enabled": "true", "table.exec.mini-batch.size": str(size)}


def aggregate(size: int) -> Subtasks:
    node = msgspec.structs.replace(group_aggregate((0,)), configuration=sized(size))
    return Subtasks(node, [ROWS], [[0]], 1)


def assigner(mode: str) -> Subtasks:
    """Marks every 1,000 ms."""
    interval = MiniBatchInterval(1_000, mode)
    node = nodes.MiniBatchAssigner1(
        id=1, output_type=ROWS, description="MiniBatchAssigner", mini_batch_interval=interval
    )
    return Subtasks(node, [ROWS], [[0]], 1)


def test_rows_wait_until_there_are_as_many_as_configured() -> None:
    subtasks = aggregate(2)
    assert subtasks.feed([A_1]) == []
    assert subtasks.feed([A_2]) == [OF_BOTH]
    assert subtasks.feed([A_1]) == []
    subtasks.close()


@pytest.mark.parametrize("ends", ["watermark", "barrier", "end", "event"])
def test_a_mini_batch_ends_early(ends: str) -> None:
    subtasks = aggregate(100)
    assert subtasks.feed([A_1]) == subtasks.feed([A_2]) == []
    (running,) = subtasks.running
    match ends:
        case "watermark":
            running.operator.on_watermark(5)
        case "barrier":
            running.operator.prepare_snapshot(1)
        case "end":
            running.operator.finish()
        case _:
            running.operator.on_user_event(UserEvent(b""), 0)
    assert running.out.order[0] == "batch", running.out.order
    assert subtasks.feed([]) == [OF_BOTH]
    subtasks.close()


def test_a_snapshot_has_the_rows_that_waited() -> None:
    subtasks = aggregate(100)
    subtasks.feed([A_1])
    subtasks.rescale(2)
    assert subtasks.changes == []  # the snapshot emitted it, and that subtask is gone
    assert subtasks.feed([A_2]) == []
    assert subtasks.watermark(END_OF_TIME) == [(1, OF_1[1]), (2, OF_BOTH[1])]
    subtasks.close()


def test_rows_are_processed_before_the_watermark_behind_them() -> None:
    node = msgspec.structs.replace(deduplicate("first by time, once", (0,), 0), configuration=sized(100))
    subtasks = Subtasks(node, [TIMED_ROWS], [[0]], 1)
    first, late = ("a", 1, 1, 0.5, 1_000), ("b", 2, 2, 0.5, 1_000)
    assert subtasks.feed([(0, first)]) == []
    assert subtasks.watermark(1_500) == [(0, first)]
    subtasks.feed([(0, late)])
    assert subtasks.watermark(2_000) == []
    subtasks.close()


@pytest.mark.parametrize(("watermark", "emitted"), [(500, 0), (999, 1)])
def test_windows_of_event_time_gather_rows_until_a_watermark(
    watermark: int, emitted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the options are, since they emit nothing before it."""
    sizes: list[int] = []
    work = WindowAggregate.work

    def watched(operator: WindowAggregate, batch: KeyedChanges, input_index: int) -> None:
        sizes.append(len(batch.keys))
        work(operator, batch, input_index)

    monkeypatch.setattr(WindowAggregate, "work", watched)
    subtasks = Subtasks(window_aggregate(TumblingWindow("PT1S")), [WINDOWED_ROWS], [[0]], 1)
    for number in range(3):
        subtasks.feed([(0, ("a", number, 100 * number))])
    assert sizes == []
    assert len(subtasks.watermark(watermark)) == emitted
    assert sizes == [3]
    subtasks.close()


def test_the_clock_ends_mini_batches_whether_rows_come_or_not() -> None:
    subtasks = assigner("ProcTime")
    (running,) = subtasks.running
    subtasks.advance(999)
    assert running.out.watermarks == []
    subtasks.advance(2_500)
    assert running.out.watermarks == [1_000, 2_000]
    running.operator.on_watermark(77_000)
    running.operator.on_idle(True)
    assert (running.out.watermarks, running.out.idle) == ([1_000, 2_000], [])
    subtasks.set_clock(3_100)
    assert subtasks.feed([A_1]) == [A_1]
    assert running.out.order[-2:] == ["watermark", "batch"]  # the mark of 3,000 is due before the row
    running.operator.on_watermark(END_OF_TIME)
    subtasks.advance(9_000)
    assert running.out.watermarks == [1_000, 2_000, 3_000, END_OF_TIME]
    subtasks.close()


def test_event_time_ends_mini_batches_at_the_first_watermark_of_an_interval() -> None:
    subtasks = assigner("RowTime")
    (running,) = subtasks.running
    for ms in (200, 400, 998, 999, 1_500, 1_998, 2_300, 2_400):
        running.operator.on_watermark(ms)
    assert running.out.watermarks == [200, 999, 2_300]
    running.operator.finish()
    running.operator.on_watermark(END_OF_TIME)
    assert running.out.watermarks == [200, 999, 2_300, 2_400, END_OF_TIME]
    subtasks.close()
