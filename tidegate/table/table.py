"""`Table`: a query in the making (PyFlink: ``pyflink.table.table``). Each method asks Flink's planner, which checks names and types at once."""

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
    from tidegate.table._planner.session import Planner

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
    """What a table needs of its environment."""

    @property
    def planner(self) -> Planner:
        """The running planner."""

    def run_pipeline(self, j_pipeline: Any) -> TableResult:
        """Runs what writes a table."""

    def collect_table(self, j_table: Any) -> TableResult:
        """Runs a query whose rows come back."""

    def explain_table(self, j_table: Any, extra_details: Sequence[ExplainDetail] = ()) -> str:
        """The plans of a query, in Flink's words."""

    def explain_pipeline(self, j_pipeline: Any, extra_details: Sequence[ExplainDetail] = ()) -> str:
        """The plans of what writes tables, in Flink's words."""

    def compile_pipeline(self, j_pipeline: Any) -> Any:
        """The compiled plan of what writes tables."""

    def row_type(self, j_resolved_schema: Any) -> LogicalType:
        """The columns of a resolved schema."""


class _Query:
    """``make`` gives the table of Java, when it is first needed."""

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

    def _asked(self, method: str, *arguments: object, fields: tuple[object, ...] | None = None) -> Any:
        j_table, planner = self._j_table, self._t_env.planner
        with planner.errors():
            given = [value._make(planner) if isinstance(value, Expression) else value for value in arguments]
            if fields is not None:
                given.append(to_java_expressions(fields, planner))
            return getattr(j_table, method)(*given)

    def _table(self, method: str, *arguments: object, fields: tuple[object, ...] | None = None) -> Table:
        made = self._asked(method, *arguments, fields=fields)
        return Table(lambda: made, self._t_env)


def _of_rows(func: Expression | UserDefinedFunctionWrapper) -> Expression:
    return func.of_rows()(with_columns(col("*"))) if isinstance(func, UserDefinedFunctionWrapper) else func


class Table(_Query):
    """Columns with names and types, and how their rows are made. ``table.name`` is the column ``name``."""

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
        """Computes columns."""
        return self._table("select", fields=fields)

    def alias(self, field: str, *fields: str) -> Table:
        """Renames the columns in order."""
        return self._table("as", field, self._t_env.planner.array(self._t_env.planner.jvm.String, list(fields)))

    def filter(self, predicate: Expression) -> Table:
        """Keeps the rows for which the condition holds."""
        return self._table("filter", predicate)

    def where(self, predicate: Expression) -> Table:
        """As ``filter``."""
        return self._table("where", predicate)

    def group_by(self, *fields: Expression) -> GroupedTable:
        """Groups rows; ``select`` then aggregates."""
        made = self._asked("groupBy", fields=fields)
        return GroupedTable(lambda: made, self._t_env)

    def distinct(self) -> Table:
        """Each row once."""
        return self._table("distinct")

    def join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Inner join; column names must differ."""
        return self._table("join", *_given(right._j_table, join_predicate))

    def left_outer_join(self, right: Table, join_predicate: Expression | None = None) -> Table:
        """Rows of this table also without a match."""
        return self._table("leftOuterJoin", *_given(right._j_table, join_predicate))

    def right_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """Rows of the other table also without a match."""
        return self._table("rightOuterJoin", right._j_table, join_predicate)

    def full_outer_join(self, right: Table, join_predicate: Expression) -> Table:
        """Rows of both tables also without a match."""
        return self._table("fullOuterJoin", right._j_table, join_predicate)

    def join_lateral(
        self, table_function_call: Expression | UserDefinedFunctionWrapper, join_predicate: Expression | None = None
    ) -> Table:
        """Each row with the rows that a table function gives for it; one made by ``udtf``, with names for its columns (``alias``), is called with the
        whole row."""
        return self._table("joinLateral", *_given(_of_rows(table_function_call), join_predicate))

    def left_outer_join_lateral(
        self, table_function_call: Expression | UserDefinedFunctionWrapper, join_predicate: Expression | None = None
    ) -> Table:
        """As ``join_lateral``, with rows for which the function gives none."""
        return self._table("leftOuterJoinLateral", *_given(_of_rows(table_function_call), join_predicate))

    def minus(self, right: Table) -> Table:
        """Rows that the other table does not have, each once."""
        return self._table("minus", right._j_table)

    def minus_all(self, right: Table) -> Table:
        """Rows that the other table does not have as often."""
        return self._table("minusAll", right._j_table)

    def union(self, right: Table) -> Table:
        """Rows of both tables, each once."""
        return self._table("union", right._j_table)

    def union_all(self, right: Table) -> Table:
        """Rows of both tables."""
        return self._table("unionAll", right._j_table)

    def intersect(self, right: Table) -> Table:
        """Rows that both tables have, each once."""
        return self._table("intersect", right._j_table)

    def intersect_all(self, right: Table) -> Table:
        """Rows that both tables have, as often as both do."""
        return self._table("intersectAll", right._j_table)

    def order_by(self, *fields: Expression) -> Table:
        """Sorts."""
        return self._table("orderBy", fields=fields)

    def offset(self, offset: int) -> Table:
        """Leaves out the first rows of a sorted table."""
        return self._table("offset", offset)

    def fetch(self, fetch: int) -> Table:
        """Keeps the first rows of a sorted table."""
        return self._table("fetch", fetch)

    def limit(self, fetch: int, offset: int = 0) -> Table:
        """Keeps some rows."""
        return self.offset(offset).fetch(fetch)

    def window(self, window: GroupWindow) -> GroupWindowedTable:
        """Puts rows into windows; ``group_by`` with the window's name follows."""
        made = self._asked("window", window._make(self._t_env.planner))
        return GroupWindowedTable(lambda: made, self._t_env)

    def over_window(self, *over_windows: OverWindow) -> OverWindowedTable:
        """Names windows around each row, for ``over``."""
        planner = self._t_env.planner
        windows = planner.array(planner.api.OverWindow, [window._make(planner) for window in over_windows])
        made = self._asked("window", windows)
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
        """Leaves columns out."""
        return self._table("dropColumns", fields=fields)

    def map(self, func: Expression | UserDefinedFunctionWrapper) -> Table:
        """The fields of the row that a function gives; one made by ``udf`` is called with the whole row."""
        return self._table("map", _of_rows(func))

    def flat_map(self, func: Expression | UserDefinedFunctionWrapper) -> Table:
        """The rows that a table function gives; one made by ``udtf`` is called with the whole row."""
        return self._table("flatMap", _of_rows(func))

    def aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> AggregatedTable:
        """Aggregates all rows; ``select`` then names what is wanted. A function made by ``udaf`` is called with whole rows."""
        made = self._asked("aggregate", _of_rows(func))
        return AggregatedTable(lambda: made, self._t_env)

    def flat_aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> FlatAggregateTable:
        """The rows that a table aggregate function gives for all rows; ``select`` then names what is wanted."""
        made = self._asked("flatAggregate", _of_rows(func))
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
        """Returns the plans in Flink's words."""
        return self._t_env.explain_table(self._j_table, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints the plans."""
        print(self.explain(*extra_details))  # noqa: T201

    def execute(self) -> TableResult:
        """Runs the query; its rows come back. Raises ``UnsupportedPlan`` that names what cannot be run yet."""
        return self._t_env.collect_table(self._j_table)

    def show(self, n: int = 20, seconds: float = 5.0) -> None:
        """Runs the query and shows its first ``n`` rows as ``TableResult.show`` does. This method is tidegate's own."""
        self.execute().show(n, seconds)

    def _repr_html_(self) -> str:
        """Returns what a notebook shows of the table: its schema."""
        return f'<pre style="font-size:12px">{escape(str(self._j_table.getResolvedSchema().toString()))}</pre>'

    def execute_insert(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TableResult:
        """Writes the rows to a table, as a job of its own."""
        return self.insert_into(table_path_or_descriptor, overwrite).execute()

    def insert_into(self, table_path_or_descriptor: str | TableDescriptor, overwrite: bool = False) -> TablePipeline:
        """What writes the rows to a table, for a statement set."""
        target: Any = table_path_or_descriptor
        if isinstance(target, TableDescriptor):
            target = target.to_java(self._t_env.planner)
        return TablePipeline(self._asked("insertInto", target, overwrite), self._t_env)

    def to_pandas(self) -> PandasFrame:
        """Runs the query, which must end, and returns its rows as a frame of pandas: of a query with updates those that are left in the end."""
        from tidegate.functions.sql.scalar import arrow_schema
        from tidegate.records.arrow_type import ArrowTypeInfo

        batches = list(self.execute().arrow_batches())
        schema = arrow_schema(self._t_env.row_type(self._j_table.getResolvedSchema()))
        found = rows_left(batches) if batches else schema.empty_table()
        return to_frame(found.to_batches(), ArrowTypeInfo(found.schema))


class GroupedTable(_Query):
    """Rows by key."""

    def select(self, *fields: Expression | str) -> Table:
        """Computes keys and aggregates."""
        return self._table("select", fields=fields)

    def aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> AggregatedTable:
        """Aggregates by key; ``select`` then names keys and results. A function made by ``udaf`` is called with whole rows."""
        made = self._asked("aggregate", _of_rows(func))
        return AggregatedTable(lambda: made, self._t_env)

    def flat_aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> FlatAggregateTable:
        """The rows that a table aggregate function gives for each key; ``select`` then names what is wanted."""
        made = self._asked("flatAggregate", _of_rows(func))
        return FlatAggregateTable(lambda: made, self._t_env)


class AggregatedTable(_Query):
    """Results of one aggregate function."""

    def select(self, *fields: Expression | str) -> Table:
        """Picks keys and results."""
        return self._table("select", fields=fields)


class FlatAggregateTable(_Query):
    """Rows of one table aggregate function."""

    def select(self, *fields: Expression | str) -> Table:
        """Picks keys and columns of the rows."""
        return self._table("select", fields=fields)


class WindowGroupedTable(_Query):
    """Rows by key and window."""

    def select(self, *fields: Expression | str) -> Table:
        """Computes keys, aggregates, and ``start``, ``end`` and ``rowtime`` of the window."""
        return self._table("select", fields=fields)

    def aggregate(self, func: Expression | UserDefinedFunctionWrapper) -> AggregatedTable:
        """Aggregates by key and window; ``select`` then names what is wanted. A function made by ``udaf`` is called with rows of all columns."""
        made = self._asked("aggregate", _of_rows(func))
        return AggregatedTable(lambda: made, self._t_env)


class GroupWindowedTable(_Query):
    """Rows in windows."""

    def group_by(self, *fields: Expression) -> WindowGroupedTable:
        """Groups by the window, and by columns."""
        made = self._asked("groupBy", fields=fields)
        return WindowGroupedTable(lambda: made, self._t_env)


class OverWindowedTable(_Query):
    """Rows with windows around them."""

    def select(self, *fields: Expression | str) -> Table:
        """Computes columns and aggregates over the windows."""
        return self._table("select", fields=fields)


class TablePipeline:
    """A query with the table that it is written to (PyFlink: ``TablePipeline``)."""

    def __init__(self, j_table_pipeline: Any, t_env: Environment) -> None:
        self._j_table_pipeline = j_table_pipeline
        self._t_env = t_env

    def execute(self) -> TableResult:
        """Runs it as a job of its own."""
        return self._t_env.run_pipeline(self._j_table_pipeline)

    def explain(self, *extra_details: ExplainDetail) -> str:
        """Returns the plans in Flink's words."""
        return self._t_env.explain_pipeline(self._j_table_pipeline, extra_details)

    def print_explain(self, *extra_details: ExplainDetail) -> None:
        """Prints the plans."""
        print(self.explain(*extra_details))  # noqa: T201

    def get_sink_identifier(self) -> ObjectIdentifier | None:
        """Returns the name of the table that is written; ``None``: it has none."""
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
