"""Watermarks by an expression stand behind the rows that move event time on."""

from __future__ import annotations

import pytest

from tests.unit.taskmanager.operators.relational.subtasks import Subtasks
from tests.unit.taskmanager.operators.relational.test_time_against_duckdb import ROWS, TIME
from tidegate.functions.sql.scalar import EvaluationError
from tidegate.model.channel_events import END_OF_TIME
from tidegate.plan import nodes
from tidegate.plan.expressions import RexInputRef

_NODE = nodes.WatermarkAssigner1(
    id=1,
    output_type=ROWS,
    description="WatermarkAssigner",
    watermark_expr=RexInputRef(input_index=2, type=TIME),
    rowtime_field_index=2,
)


def test_event_time_moves_on_by_more_than_the_interval() -> None:
    subtasks = Subtasks(_NODE, [ROWS], [[0]], 1, {"pipeline.auto-watermark-interval": "200 ms"})
    subtasks.feed([(0, ("a", 1, ms)) for ms in (1_000, 1_200, 1_201, 900, 1_300)])
    (running,) = subtasks.running
    assert running.out.watermarks == [1_000, 1_201, 1_300]
    assert running.out.order == ["batch", "watermark", "batch", "watermark", "batch", "watermark"]
    running.operator.on_watermark(5_000)
    running.operator.on_watermark(END_OF_TIME)
    assert running.out.watermarks[3:] == [END_OF_TIME]
    subtasks.close()


def test_a_row_without_its_time_is_an_error_that_names_the_column() -> None:
    subtasks = Subtasks(_NODE, [ROWS], [[0]], 1)
    with pytest.raises(EvaluationError, match="'t' of a row is null"):
        subtasks.feed([(0, ("a", 1, 5)), (0, ("a", 1, None))])
    subtasks.close()
