"""Watermarks by an expression stand behind the rows that move event time on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import ROWS, TIME
from tidegate.functions.sql.rows import batch_of, changes_of
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.expressions import RexInputRef
from tidegate.records.batch import ArrowBatch

_NODE = nodes.WatermarkAssigner1(
    id=1,
    output_type=ROWS,
    description="WatermarkAssigner",
    watermark_expr=RexInputRef(input_index=2, type=TIME),
    rowtime_field_index=2,
)


_INTERVAL = {"pipeline.auto-watermark-interval": "200 ms"}


def test_the_end_of_time_is_passed_on_and_no_other_watermark() -> None:
    subtasks = Subtasks(_NODE, [ROWS], [[0]], 1, _INTERVAL)
    (running,) = subtasks.running
    running.operator.on_watermark(5_000)
    running.operator.on_watermark(END_OF_TIME)
    assert running.out.watermarks == [END_OF_TIME]
    subtasks.close()


@pytest.mark.parametrize(
    ("times", "watermarks"),
    [
        ((1_000, 1_200, 1_201, 1_300), [1_300]),  # no row is behind a watermark that is due: the batch stays whole
        ((1_000, 1_200, 1_201, 900, 1_300), [1_201, 1_300]),
        ((1_000, 1_000, 1_201, 1_402), [1_000, 1_402]),
        ((1_000, 500, 1_300, 1_299, 2_000), [1_000, 1_300, 2_000]),
        ((1_000, 1_150, 1_100, 1_400), [1_400]),  # 1,150 is never a watermark in Flink, so 1,100 is not late
    ],
)
def test_a_batch_is_divided_only_where_a_row_is_late(times: tuple[int, ...], watermarks: list[int]) -> None:
    subtasks = Subtasks(_NODE, [ROWS], [[0]], 1, _INTERVAL)
    subtasks.feed([(0, ("a", 1, ms)) for ms in times])
    (running,) = subtasks.running
    assert running.out.watermarks == watermarks
    assert running.out.order == ["batch", "watermark"] * len(watermarks)
    subtasks.close()


def test_each_watermark_is_emitted_when_it_is_due_if_functions_may_see_it() -> None:
    subtasks = Subtasks(_NODE, [ROWS], [[0]], 1, _INTERVAL, emits_each=True)
    subtasks.feed([(0, ("a", 1, ms)) for ms in (1_000, 1_200, 1_201, 1_250, 1_300)])
    (running,) = subtasks.running
    assert running.out.watermarks == [1_000, 1_201, 1_300]
    assert running.out.order == ["batch", "watermark"] * 3
    subtasks.close()


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=60), st.sampled_from([0, 50, 200]), st.integers(1, 60))
def test_each_row_is_as_late_as_if_each_watermark_was_emitted(times: list[int], interval: int, size: int) -> None:
    def watermark_of_rows(*, emits_each: bool) -> list[bool]:
        """Returns for each row whether it is not after the current watermark."""
        settings = {"pipeline.auto-watermark-interval": f"{interval} ms"}
        subtasks = Subtasks(_NODE, [ROWS], [[0]], 1, settings, emits_each=emits_each)
        (running,) = subtasks.running
        batches = [
            batch_of([(0, ("a", 1, ms)) for ms in times[at : at + size]], subtasks.schemas[0])
            for at in range(0, len(times), size)
        ]
        for batch in batches:
            running.operator.process(ArrowBatch(batch), 0)
        watermarks, emitted = iter(running.out.watermarks), iter(running.out.batches)
        found: list[bool] = []
        current = -1
        for kind in running.out.order:
            if kind == "watermark":
                current = next(watermarks)
            else:
                rows = next(emitted)
                assert isinstance(rows, ArrowBatch)
                found += [row[2] <= current for _, row in changes_of(rows.data)]
        subtasks.close()
        return found

    assert watermark_of_rows(emits_each=False) == watermark_of_rows(emits_each=True)


def test_a_row_without_its_time_is_an_error_that_names_the_column() -> None:
    subtasks = Subtasks(_NODE, [ROWS], [[0]], 1)
    with pytest.raises(EvaluationError, match="'t' of a row is null"):
        subtasks.feed([(0, ("a", 1, 5)), (0, ("a", 1, None))])
    subtasks.close()
