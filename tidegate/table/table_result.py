"""`TableResult`: the result of a statement (PyFlink: ``pyflink.table.table_result``)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from html import escape
from types import TracebackType

import pyarrow as pa

from tidegate.common.job_client import JobClient
from tidegate.common.row import Row, RowKind
from tidegate.datastream._streams.closeable_iterator import CloseableIterator as BatchIterator
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.notebook.tables import html_table, show_table
from tidegate.plan.logical_types import LogicalType
from tidegate.table._execution.printing import print_table, rows_in_set, texts_of
from tidegate.table._execution.rows import rows_of
from tidegate.table.catalog import ResolvedSchema
from tidegate.table.table_schema import TableSchema

__all__ = ["CloseableIterator", "ResultKind", "TableResult"]


class ResultKind(Enum):
    """Whether a statement succeeded with rows or without."""

    SUCCESS = 0
    SUCCESS_WITH_CONTENT = 1


class CloseableIterator:
    """Iterates over the rows of a result; closing it cancels the job that produces them."""

    def __init__(self, rows: Iterator[Row], close: Callable[[], None]) -> None:
        self._rows = rows
        self._close = close

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Row:
        return next(self._rows)

    def next(self) -> Row:
        """Waits for the next row and returns it. Raises ``StopIteration`` at the end, and the job's error."""
        return next(self._rows)

    def close(self) -> None:
        """Cancels the job unless it has ended."""
        self._close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TableResult:
    """The result of a statement: the rows of a query as its job produces them, the rows of a statement such as SHOW TABLES, or a job that writes tables."""

    def __init__(
        self,
        kind: LogicalType,
        *,
        rows: Sequence[Row] = (),
        batches: BatchIterator | None = None,
        job: JobClient | None = None,
        shows_kinds: bool = False,
        result_kind: ResultKind = ResultKind.SUCCESS_WITH_CONTENT,
        time_zone: str = "UTC",
        is_bare: bool = False,
        writes_tables: bool = False,
    ) -> None:
        self._kind = kind
        self._rows = rows
        self._batches = batches
        self._job = job
        self._shows_kinds = shows_kinds
        self._result_kind = result_kind
        self._time_zone = time_zone
        self._is_bare = is_bare or writes_tables or result_kind is ResultKind.SUCCESS
        self.writes_tables = writes_tables
        """Whether it is a job that writes tables; its rows say nothing of what it wrote."""

    def get_job_client(self) -> JobClient | None:
        """Returns a client of the job; ``None`` where there is none."""
        return self._job

    def get_table_schema(self) -> TableSchema:
        """Returns names and types of the columns."""
        return TableSchema.of(self._kind)

    def get_resolved_schema(self) -> ResolvedSchema:
        """Returns the columns."""
        return ResolvedSchema.of_row_type(self._kind)

    def get_result_kind(self) -> ResultKind:
        """Returns whether the statement has rows."""
        return self._result_kind

    def wait(self, timeout_ms: int | None = None) -> None:
        """Waits until a job that writes tables ends, or for the first row of a query. Raises the job's error."""
        if self._job is not None:
            self._job.get_job_execution_result().result()

    def collect(self) -> CloseableIterator:
        """Returns an iterator over the rows with their kinds; those of a query arrive while its job runs, and can be read once."""
        if self._batches is None:
            return CloseableIterator(iter(self._rows), lambda: None)
        return CloseableIterator(self._collected(), self._batches.close)

    def print(self) -> None:
        """Prints the rows as Flink does, in streaming mode with a column ``op`` for the row kind; a result that is not a table is printed as text."""
        self._print(rows_in_set)

    def print_for_client(self, began_s: float | None) -> None:
        """Prints the rows as Flink's SQL client does, followed by the number of rows or changes and the time taken since ``began_s`` (of the monotonic
        clock; ``None``: not shown). This method is tidegate's own."""

        def ending(count: int) -> str:
            counted = f"{count} {'row' if count == 1 else 'rows'}"
            took = "" if began_s is None else f" ({time.monotonic() - began_s:.2f} seconds)"
            return f"Received a total of {counted}{took}" if self._shows_kinds else f"{counted} in set{took}"

        self._print(ending)

    def _print(self, ending: Callable[[int], str]) -> None:
        kind, shows_kinds = self._kind, self._shows_kinds
        if self._batches is not None:
            lines = (
                line
                for batch in self.arrow_batches()
                for line in texts_of(batch, kind, shows_kinds=shows_kinds, time_zone=self._time_zone)
            )
            print_table(lines, kind, shows_kinds=shows_kinds, knows_all=False, ending=ending)
            return
        texts = [["" if value is None else str(_shown(value)) for value in row] for row in self._rows]
        if self._is_bare:
            sys.stdout.writelines(f"{text}\n" for line in texts for text in line)
            sys.stdout.flush()
        else:
            print_table(texts, kind, shows_kinds=False, knows_all=True, ending=ending)

    def arrow_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a query as Arrow batches with its column names; with updates, the last column has the row kinds. This method is tidegate's
        own."""
        assert self._batches is not None
        with self._batches as found:
            yield from map(self._named, found.batches())

    def show(self, n: int = 20, seconds: float = 5.0) -> pa.Table:
        """Shows the first ``n`` rows as a table, in a notebook or printed, and ends the job of a query; of an unbounded one it shows the rows that come
        within ``seconds``. Returns them as an Arrow table. This method is tidegate's own. Raises the job's error, and ``InvalidJob`` for numbers
        that are not above 0."""
        table, note = self.first(n, seconds)
        show_table(table, note)
        return table

    def first(self, n: int, seconds: float) -> tuple[pa.Table, str]:
        """Returns the rows that ``show`` shows, with a first column ``op`` for row kinds where there are updates, and a text that says whether these
        are all. This method is tidegate's own. Raises as ``show``."""
        if self._batches is None:
            names = self._kind.field_names
            columns = [
                [None if row[i] is None else str(_shown(row[i])) for row in self._rows] for i in range(len(names))
            ]
            return pa.table([pa.array(column, pa.string()) for column in columns], names=names), ""
        found = self._batches.first(n, seconds)
        tables = [self._with_kinds(self._named(batch)) for batch in found.batches]
        return pa.concat_tables(tables) if tables else arrow_schema(self._kind).empty_table(), found.note

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Renames the columns of a batch to the query's."""
        names = self._kind.field_names
        fields = [field.with_name(name) for field, name in zip(batch.schema, names, strict=False)]
        schema = pa.schema([*fields, *list(batch.schema)[len(names) :]])
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema) if batch.num_columns else batch

    def _with_kinds(self, batch: pa.RecordBatch) -> pa.Table:
        width = len(self._kind.field_names)
        table = pa.Table.from_batches([batch]).select(range(width))
        if not self._shows_kinds:
            return table
        kinds = batch.column(width).to_pylist() if batch.num_columns > width else [0] * len(batch)
        return table.add_column(0, "op", pa.array([str(RowKind(kind)) for kind in kinds], pa.string()))

    def _repr_html_(self) -> str:
        """Returns the HTML of a notebook's view of the result: rows that are available, or for a query how to get them, since reading them would
        consume them."""
        if self._batches is None and not self.writes_tables:
            return html_table(*self.first(1, 1))
        columns = ", ".join(f"<b>{escape(field.name)}</b> {escape(str(field.type))}" for field in self._kind.fields)
        what = (
            "tables are being written"
            if self.writes_tables
            else f"rows of {columns}: show(), collect() or print() gives them"
        )
        return f'<div style="font-size:13px">{what}</div>'

    def _collected(self) -> Iterator[Row]:
        for batch in self.arrow_batches():
            yield from rows_of(batch, self._kind)


def _shown(value: object) -> object:
    return str(value).upper() if isinstance(value, bool) else value


def done() -> TableResult:
    """Returns the result of a statement without rows: ``OK``."""
    from tidegate.plan.logical_types import Field, TypeRoot

    kind = LogicalType(TypeRoot.ROW, fields=(Field("result", LogicalType(TypeRoot.VARCHAR, length=2147483647)),))
    row = Row("OK")
    row.set_row_kind(RowKind.INSERT)
    return TableResult(kind, rows=[row], result_kind=ResultKind.SUCCESS)
