"""The first rows of a stream as a table, and a live plot of it: for notebooks and shells.

    stream.show()      ─▶ a job of what the stream reads ─▶ rows, until there are enough, it ends, or the time is up ─▶ the job is cancelled ─▶ a table
    stream.plot(x, y)  ─▶ the same job ─▶ a chart that is drawn anew as rows come, until it ends or the cell is interrupted

Other sinks of the program take no part, and nothing is checkpointed.
"""

from __future__ import annotations

import secrets
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import pyarrow as pa

from tidegate.common.typeinfo import PickledBytesTypeInfo, TypeInformation
from tidegate.connectors.collect import CollectSink
from tidegate.connectors.collect.client import ResultGuarantee
from tidegate.connectors.collect.messages import TOKEN_BYTES
from tidegate.connectors.tabular import PandasFrame, to_frame
from tidegate.datastream._graph.executor import current_executor
from tidegate.datastream._graph.program_builder import ProgramBuilder
from tidegate.datastream._graph.transformation import ChainingStrategy, OperatorTransformation, Transformation
from tidegate.datastream._streams.closeable_iterator import COLLECT_SINK_NAME, CloseableIterator, results_of
from tidegate.datastream._streams.first_rows import check_wanted
from tidegate.datastream.aggregates import WINDOW_TIMES
from tidegate.model.errors import InvalidJob
from tidegate.notebook.display import LiveDisplay, kernel_shell
from tidegate.notebook.line_chart import MOST_SERIES, Point, line_chart
from tidegate.notebook.tables import html_table, is_number, show_table, text_table
from tidegate.records.record_codec import decode

MOST_POINTS = 500
"""How many points a line of a plot has; older ones are dropped. Chosen, not measured."""


@dataclass(frozen=True)
class Preview:
    """Some rows of a stream, which show themselves as a table: as HTML in a notebook, as text elsewhere.

    ``table`` has the columns of the stream; records of unknown type are one column of texts. ``note`` says whether these are all rows."""

    table: pa.Table
    note: str
    _batches: Sequence[pa.RecordBatch]
    _type_info: TypeInformation

    def to_pandas(self) -> PandasFrame:
        """Returns the rows as a frame of pandas, as ``DataStream.to_pandas`` makes it."""
        if isinstance(self._type_info, PickledBytesTypeInfo):
            return self.table.to_pandas()
        return to_frame(self._batches, self._type_info)

    def show(self) -> None:
        """Shows the table below the notebook cell, or prints it."""
        show_table(self.table, self.note)

    def _repr_html_(self) -> str:
        return html_table(self.table, self.note)

    def __repr__(self) -> str:
        return text_table(self.table, self.note)


def preview(
    env: ProgramBuilder, stream: Transformation, type_info: TypeInformation, rows: int, seconds: float
) -> Preview:
    """Runs the inputs of ``stream`` until it has emitted ``rows`` rows, has ended, or has run for ``seconds``. Raises ``InvalidJob`` for numbers that
    are not above 0, and the job's error."""
    check_wanted(rows, seconds)
    found = _run_part(env, stream, type_info, "preview").first(rows, seconds)
    return Preview(_table(found.batches, type_info), found.note, found.batches, type_info)


def plot(
    env: ProgramBuilder, stream: Transformation, type_info: TypeInformation, x: str, y: Sequence[str], by: str | None
) -> None:
    """Plots columns of a stream as lines over the column ``x`` while its job runs, a line for each ``y`` and each value of ``by``. Returns when the
    stream ends; interrupting the cell cancels the job. Raises ``InvalidJob`` outside of a notebook, and for columns that are missing or not numeric,
    and the job's error."""
    if kernel_shell() is None:
        raise InvalidJob("plot() draws in a notebook, and this process is not one; show() prints rows")
    points = _Points(_columns(type_info), x, y, by)
    display = LiveDisplay()
    running = _run_part(env, stream, type_info, "plot")
    try:
        with running:
            for batch in running.batches():
                points.add(batch)
                if display.is_due():
                    display.update(*points.drawn())
    finally:
        display.update(*points.drawn(), is_last=True)


def _run_part(
    env: ProgramBuilder, stream: Transformation, type_info: TypeInformation, job_name: str
) -> CloseableIterator:
    sink = CollectSink(secrets.token_bytes(TOKEN_BYTES))
    last = OperatorTransformation(
        env.next_transformation_id(), None, "sink", COLLECT_SINK_NAME, {"sink": sink}, (stream,)
    )
    last.parallelism, last.is_non_parallel, last.chaining = 1, True, ChainingStrategy.NEVER
    executor = current_executor()
    job = env.build_part(last, job_name)
    control = executor.execute_async(job.graph, job.blobs)
    return CloseableIterator(control, results_of(control, job, last, type_info, ResultGuarantee.AT_LEAST_ONCE))


def _table(batches: Sequence[pa.RecordBatch], type_info: TypeInformation) -> pa.Table:
    if isinstance(type_info, PickledBytesTypeInfo):
        return pa.table(
            {"value": pa.array([repr(one) for batch in batches for one in decode(type_info, batch)], pa.string())}
        )
    return pa.Table.from_batches(batches, schema=type_info.arrow_schema())


def _columns(type_info: TypeInformation) -> pa.Schema:
    if isinstance(type_info, PickledBytesTypeInfo):
        raise InvalidJob(
            "plot() needs columns, and records of this stream are objects of any type: give the function before it an "
            'output_type, such as Types.ROW_NAMED(["a"], [Types.LONG()])'
        )
    return type_info.arrow_schema()


class _Points:
    """The points of a plot by line."""

    def __init__(self, schema: pa.Schema, x: str, y: Sequence[str], by: str | None) -> None:
        for name in (x, *y, *([by] if by else [])):
            if name not in schema.names:
                raise InvalidJob(f"plot: the stream has no column {name!r}; it has {', '.join(schema.names)}")
        for name in y:
            if not is_number(schema.field(name).type):
                raise InvalidJob(
                    f"plot: column {name!r} has the type {schema.field(name).type}, and a line needs numbers"
                )
        kind = schema.field(x).type
        if not (is_number(kind) or pa.types.is_timestamp(kind)):
            raise InvalidJob(f"plot: column {x!r} has the type {kind}; the x axis needs numbers or times")
        self._x, self._y, self._by = x, y, by
        self._x_is_time = pa.types.is_timestamp(kind) or x in WINDOW_TIMES
        self._lines: dict[str, deque[Point]] = defaultdict(lambda: deque(maxlen=MOST_POINTS))

    def add(self, batch: pa.RecordBatch) -> None:
        xs = [_place(value) for value in batch.column(self._x).to_pylist()]
        groups = batch.column(self._by).to_pylist() if self._by else [None] * len(xs)
        for name in self._y:
            for at, value, group in zip(xs, batch.column(name).to_pylist(), groups, strict=True):
                if at is not None and value is not None:
                    self._lines[self._line_name(name, group)].append((at, float(value)))

    def drawn(self) -> tuple[str, str]:
        """Returns the chart as HTML, and a text that replaces it elsewhere."""
        lines = {name: sorted(points) for name, points in self._lines.items()}
        html = line_chart(lines, self._x, ", ".join(self._y), x_is_time=self._x_is_time)
        return (
            html,
            f"{len(lines)} lines of {self._x} and {', '.join(self._y)}; {min(len(lines), MOST_SERIES)} are drawn",
        )

    def _line_name(self, column: str, group: object) -> str:
        if self._by is None:
            return column
        return str(group) if len(self._y) == 1 else f"{group} {column}"


def _place(value: float | Decimal | datetime | None) -> float | None:
    if value is None:
        return None
    return value.timestamp() * 1000 if isinstance(value, datetime) else float(value)
