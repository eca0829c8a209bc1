"""`Table`: a query that is built step by step (PyFlink: ``pyflink.table.table``). Each method calls Flink's planner, which checks names and types at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.common.names.finding import elsewhere, finding
from tidegate.connectors.tabular import to_frame
from tidegate.plan.logical_types import LogicalType
from tidegate.table._execution.rows import rows_left
from tidegate.table.catalog import ObjectIdentifier, ResolvedSchema
from tidegate.table.descriptors import TableDescriptor
from tidegate.table.explain_detail import ExplainDetail
from tidegate.table.expression import Expression
from tidegate.table.expressions import col, to_java_expressions, with_columns
from tidegate.table.table_result import TableResult
from tidegate.table.table_schema import TableSchema
from tidegate.table.udf import UserDefinedFunctionWrapper
from tidegate.table.window import GroupWindow, OverWindow

if TYPE_CHECKING:
    from tidegate.connectors.tabular import PandasFrame
    from tidegate.table._planner.planner import Planner

__all__ = [
    "AggregatedTable",
    "FlatAggregateTable",
    "GroupWindowedTable",
    "GroupedTable",
    "OverWindowedTable",
    "Table",
    "TablePipeline",
    "WindowGroupedTable",
]


class Environment(Protocol):
    """The interface that a table uses of its environment."""

    @property
    def planner(self) -> Planner:
        """Returns the running planner."""

    def run_pipeline(self, j_pipeline: Any) -> TableResult:
        """Runs a pipeline that writes a table."""

    def collect_table(self, j_table: Any) -> TableResult:
        """Runs a query and returns its rows."""

    def explain_table(self, j_table: Any, extra_details: Sequence[ExplainDetail] = ()) -> str:
        """Returns Flink's explanation of a query."""

    def explain_pipeline(self, j_pipeline: Any, extra_details: Sequence[ExplainDetail] = ()) -> str:
        """Returns Flink's explanation of a pipeline that writes tables."""

    def compile_pipeline(self, j_pipeline: Any) -> Any:
        """Compiles a pipeline that writes a table to a plan."""

    def row_type(self, j_resolved_schema: Any) -> LogicalType:
        """Converts a Java ``ResolvedSchema`` to a row type."""


class _Query:
    """The base of steps of a query. ``make`` creates the Java object when it is first needed."""

    def __init__(self, make: Callable[[], Any], t_env: Environment) -> None:
        self._make = make
        self._made: Any = None
        self._t_env = t_env
        self._path = ""

    @property
    def _j_table(self) -> Any:
        if self._made is None:
            with self._t_env.planner.errors():
                self._made = self._make()
        return self._made

    def _call(self, method: str, *arguments: object, fields: tuple[object, ...] | None = None) -> Any:
        j_table, planner = self._j_table, self._t_env.planner
        with planner.errors():
            given = [value._make(planner) if isinstance(value, Expression) else value for value in arguments]
            if fields is not None:
                given.append(to_java_expressions(fields, planner))
            return getattr(j_table, method)(*given)

    def _table(self, method: str, *arguments: object, fields: tuple[object, ...] | None = None) -> Table:
        made = self._call(method, *arguments, fields=fields)
        return Table(lambda: made, self._t_env)


def _of_rows(func: Expression | UserDefinedFunctionWrapper) -> Expression:
    return func.of_rows()(with_columns(col("*"))) if isinstance(func, UserDefinedFunctionWrapper) else func


class Table(_Query):
    """A query with named, typed columns. ``table.name`` is the column ``name``."""

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        columns = [str(column) for column in self._j_table.getResolvedSchema().getColumnNames()]
        if name not in columns:
            raise AttributeError(
                f"The current table has no column named '{name}', available columns: [{', '.join(columns)}]"
            )
        return col(name)

    def __str__(self) -> str:
        return str(self._j_table.toString())

    def select(self, *fields: Expression | str) -> Table:
        """Projects to the given columns and expressions."""
        return self._table("select", fields=fields)

    def alias(self, field: str, *fields: str) -> Table:
        """Renames the columns in order."""
        return self._table("as", field, self._t_env.planner.array(self._t_env.planner.jvm.String, list(fields)))

    def filter(self, predicate: Expression) -> Table:
        """Keeps the rows for which the condition holds."""
        return self._table("filter", predicate)

    def where(self, predicate: Expression) -> Table:
        """Keeps the rows for which the condition holds."""
        return self._table("where", predicate)

    def group_by(self, *fields: Expression) -> GroupedTable:
        """Groups rows by columns; ``select`` then aggregates."""
        made = self._call("groupBy", fields=fields)
        return GroupedTable(lambda: made, self._t_env)

    def distinct(self) -> Table:
        """Removes duplicate rows."""
        return self._table("distinct")

    def join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Joins with another table (inner join); column names must differ."""
        return self._table("join", *_given(right._j_table, join_predicate))

    def left_outer_join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Joins with another table; rows of this one without a match are kept."""
        return self._table("leftOuterJoin", *_given(right._j_table, join_predicate))

    def right_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """Joins with another table; rows of the other one without a match are kept."""
        return self._table("rightOuterJoin", right._j_table, join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """Joins with another table; rows of both without a match are kept."""
        return self._table("fullOuterJoin", right._j_table, join_predicate)

    def join_lateral(
        self, table_function_call: Expression | UserDefinedFunctionWrapper, join_predicate: Expression | None = None
    ) -> Table:
        """Joins each row with the rows that a table function returns for it. A function made by ``udtf``, with column names (``alias``), is called with
        the whole row."""
        return self._table("joinLateral", *_given(_of_rows(table_function_call), join_predicate))

    def left_outer_join_lateral(
        self, table_function_call: Expression | UserDefinedFunctionWrapper, join_predicate: Expression | None = None
    ) -> Table:
        """Joins each row with the rows that a table function returns for it; rows for which it returns none are kept."""
        return self._table("leftOuterJoinLateral", *_given(_of_rows(table_function_call), join_predicate))

    def minus(self, right: Table) -> Table:
        """Returns the distinct rows that are not in the other table."""
        return self._table("minus", right._j_table)

    def minus_all(self, right: Table) -> Table:
        """Returns the rows that are not in the other table, counting duplicates."""
        return self._table("minusAll", right._j_table)

    def union(self, right: Table) -> Table:
        """Returns the distinct rows of both tables."""
        return self._table("union", right._j_table)

    def union_all(self, right: Table) -> Table:
        """Returns all rows of both tables."""
        return self._table("unionAll", right._j_table)

    def intersect(self, right: Table) -> Table:
        """Returns the distinct rows that are in both tables."""
        return self._table("intersect", right._j_table)

    def intersect_all(self, right: Table) -> Table:
        """Returns the rows that are in both tables, counting duplicates."""
        return self._table("intersectAll", right._j_table)

    def order_by(self, *fields: Expression) -> Table:
        """Sorts the rows."""
        return self._table("orderBy", fields=fields)

    def offset(self, offset: int) -> Table:
        """Skips the first rows of a sorted table."""
        return self._table("offset", offset)

    def fetch(self, fetch: int) -> Table:
        """Keeps the first rows of a sorted table."""
        return self._table("fetch", fetch)

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Skips ``offset`` rows and keeps the next ``fetch``."""
        return self.offset(offset).fetch(fetch)

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Assigns rows to windows; ``group_by`` with the window's name follows."""
        made = self._call("window", window._make(self._t_env.planner))
        return GroupWindowedTable(lambda: made, self._t_env)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Defines OVER windows, which ``over`` refers to by name."""
        planner = self._t_env.planner
        windows = planner.array(planner.api.OverWindow, [window._make(planner) for window in over_windows])
        made = self._call("window", windows)
        return OverWindowedTable(lambda: made, self._t_env)

    def add_columns(self, *fields: Expression) -> Table:
        """Adds columns with new names."""
        return self._table("addColumns", fields=fields)

    def add_or_replace_columns(self, *fields: Expression) -> Table:
        """Adds columns, or replaces those of the same names."""
        return self._table("addOrReplaceColumns", fields=fields)

    def rename_columns(self, *fields: Expression) -> Table:
        """Renames columns: ``col("a").alias("b")``."""
        return self._table("renameColumns", fields=fields)

    def drop_columns(self, *fields: Expression) -> Table:
        """Drops columns."""
        return self._table("dropColumns", fields=fields)

    def map(self, func: Expression | UserDefinedFunctionWrapper) -> Table:
        """Replaces each row by the row that a function returns. One made by ``udf`` is called with the whole row."""
        return self._table("map", _of_rows(func))

    def flat_map(self, func: Expression | UserDefinedFunctionWrapper) -> Table:
        """Replaces each row by the rows that a table function returns. One made by ``udtf`` is called with the whole row."""
        return self._table("flatMap", _of_rows(func))

    def aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> AggregatedTable:
        """Aggregates all rows; ``select`` then picks results. A function made by ``udaf`` is called with whole rows."""
        made = self._call("aggregate", _of_rows(func))
        return AggregatedTable(lambda: made, self._t_env)

    def flat_aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> FlatAggregateTable:
        """Aggregates all rows by a table aggregate function; ``select`` then picks columns."""
        made = self._call("flatAggregate", _of_rows(func))
        return FlatAggregateTable(lambda: made, self._t_env)

    def get_column_names(self) -> list[str]:
        """Returns the names of the columns. This method is tidegate's own."""
        return [str(column) for column in self._j_table.getResolvedSchema().getColumnNames()]

    def print_schema(self) -> None:
        """Prints names and types of the columns."""
        print(self._j_table.getResolvedSchema().toString())  # noqa: T201

    def get_schema(self) -> TableSchema:
        """Returns names and types of the columns."""
        return TableSchema.of(self._t_env.row_type(self._j_table.getResolvedSchema()))

    def get_resolved_schema(self) -> ResolvedSchema:
        """Returns columns, watermarks and key."""
        return ResolvedSchema(self._j_table.getResolvedSchema(), self._t_env.row_type)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns Flink's explanation."""
        return self._t_env.explain_table(self._j_table, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints Flink's explanation."""
        print(self.explain(*extra_details))  # noqa: T201

    def execute(self) -> TableResult:
        """Runs the query and returns its rows. Raises ``UnsupportedPlan`` that names what is not supported."""
        return self._t_env.collect_table(self._j_table)

    def show(self, n: int = 20, seconds: float = 5.0) -> None:
        """Runs the query and shows its first ``n`` rows as ``TableResult.show`` does. This method is tidegate's own."""
        self.execute().show(n, seconds)

    def _repr_html_(self) -> str:
        """Returns the HTML of a notebook's view of the table: its schema."""
        return f'<pre style="font-size:12px">{escape(str(self._j_table.getResolvedSchema().toString()))}</pre>'

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TableResult:
        """Writes the rows to a table, as a job of its own."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def insert_into(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TablePipeline:
        """Returns the pipeline that writes the rows to a table, for a statement set."""
        target: Any = table_path_or_descriptor
        if isinstance(target, TableDescriptor):
            target = target.to_java(self._t_env.planner)
        return TablePipeline(self._call("insertInto", target, overwrite), self._t_env)

    def to_pandas(self) -> PandasFrame:
        """Runs the query, which must be bounded, and returns its rows as a pandas frame; of a query with updates, the remaining rows."""
        from tidegate.functions.sql.scalar import arrow_schema
        from tidegate.records.arrow_type import ArrowTypeInfo

        batches = list(self.execute().arrow_batches())
        schema = arrow_schema(self._t_env.row_type(self._j_table.getResolvedSchema()))
        found = rows_left(batches) if batches else schema.empty_table()
        return to_frame(found.to_batches(), ArrowTypeInfo(found.schema))


class GroupedTable(_Query):
    """Rows grouped by key."""

    def select(self, *fields: Expression | str) -> Table:
        """Projects to keys and aggregates."""
        return self._table("select", fields=fields)

    def aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> AggregatedTable:
        """Aggregates by key; ``select`` then picks keys and results. A function made by ``udaf`` is called with whole rows."""
        made = self._call("aggregate", _of_rows(func))
        return AggregatedTable(lambda: made, self._t_env)

    def flat_aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> FlatAggregateTable:
        """Aggregates by key with a table aggregate function; ``select`` then picks columns."""
        made = self._call("flatAggregate", _of_rows(func))
        return FlatAggregateTable(lambda: made, self._t_env)


class AggregatedTable(_Query):
    """The results of one aggregate function."""

    def select(self, *fields: Expression | str) -> Table:
        """Projects to keys and results."""
        return self._table("select", fields=fields)


class FlatAggregateTable(_Query):
    """The rows of one table aggregate function."""

    def select(self, *fields: Expression | str) -> Table:
        """Projects to keys and columns of the rows."""
        return self._table("select", fields=fields)


class WindowGroupedTable(_Query):
    """Rows grouped by key and window."""

    def select(self, *fields: Expression | str) -> Table:
        """Projects to keys, aggregates, and ``start``, ``end`` and ``rowtime`` of the window."""
        return self._table("select", fields=fields)

    def aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> AggregatedTable:
        """Aggregates by key and window; ``select`` then picks results. A function made by ``udaf`` is called with rows of all columns."""
        made = self._call("aggregate", _of_rows(func))
        return AggregatedTable(lambda: made, self._t_env)


class GroupWindowedTable(_Query):
    """Rows assigned to windows."""

    def group_by(self, *fields: Expression) -> WindowGroupedTable:
        """Groups by the window, and by columns."""
        made = self._call("groupBy", fields=fields)
        return WindowGroupedTable(lambda: made, self._t_env)


class OverWindowedTable(_Query):
    """Rows with OVER windows."""

    def select(self, *fields: Expression | str) -> Table:
        """Projects to columns and aggregates over the windows."""
        return self._table("select", fields=fields)


class TablePipeline:
    """A query and the table that it writes to (PyFlink: ``TablePipeline``)."""

    def __init__(self, j_table_pipeline: Any, t_env: Environment) -> None:
        self._j_table_pipeline = j_table_pipeline
        self._t_env = t_env

    def execute(self) -> TableResult:
        """Runs the pipeline as a job of its own."""
        return self._t_env.run_pipeline(self._j_table_pipeline)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns Flink's explanation."""
        return self._t_env.explain_pipeline(self._j_table_pipeline, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints Flink's explanation."""
        print(self.explain(*extra_details))  # noqa: T201

    def get_sink_identifier(self) -> ObjectIdentifier | None:
        """Returns the identifier of the sink table; ``None``: it has no name."""
        with self._t_env.planner.errors():
            found = self._j_table_pipeline.getSinkIdentifier()
            if not found.isPresent():
                return None
            return ObjectIdentifier(*map(str, found.get().toList()))

    def compile_plan(self) -> Any:
        """Returns the ``CompiledPlan``."""
        return self._t_env.compile_pipeline(self._j_table_pipeline)


def _given(*values: object) -> list[object]:
    return [value for value in values if value is not None]


__getattr__ = finding(
    __name__,
    elsewhere(
        "tidegate.table.udf",
        "UserDefinedAggregateFunctionWrapper UserDefinedScalarFunctionWrapper UserDefinedTableFunctionWrapper",
    ),
    elsewhere("tidegate.table.expressions", "without_columns"),
    elsewhere("tidegate.table.types", "create_arrow_schema"),
)
