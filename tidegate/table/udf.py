"""Functions of users in tables (PyFlink: ``pyflink.table.udf``).

    @udf(result_type=DataTypes.BIGINT())
    def add(i, j):
        return i + j

    t_env.create_temporary_system_function("add", add)
    t_env.sql_query("SELECT add(a, b) FROM t");  table.select(add(col("a"), col("b")))

They run in the process of their subtask, on the batches of the calculation around them. ``func_type`` says what a function of scalars is called with:
``general`` with the values of a row, ``pandas`` with a ``pandas.Series`` for each argument, ``arrow`` (tidegate's own) with a ``pyarrow.Array``.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tidegate.common.names.finding import elsewhere, finding
from tidegate.model.errors import InvalidJob
from tidegate.records.data_types import DataType, RowType
from tidegate.table._execution.user_functions import (
    FUNC_TYPES,
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ImperativeAggregateFunction,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
    TypedUserCode,
    Types,
    UserDefinedFunction,
    types_of,
)
from tidegate.table.expression import Expression, java_type, static_call

if TYPE_CHECKING:
    from tidegate.table._planner.planner import Planner

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]

_CLASSES = {
    "scalar": "PythonScalarFunction",
    "async": "PythonAsyncScalarFunction",
    "table": "PythonTableFunction",
    "aggregate": "PythonAggregateFunction",
    "table_aggregate": "PythonTableAggregateFunction",
}
_AGGREGATES = ("aggregate", "table_aggregate")


class Unnamed:
    """Generates and keeps names for functions that are called without being registered: ``add(col("a"))`` for a UDF ``add``. All environments know these
    names.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, UserDefinedFunctionWrapper] = {}
        """By the name that a plan has."""
        self._names: dict[int, str] = {}

    def name_of(self, function: UserDefinedFunctionWrapper) -> str:
        """Returns the generated name, assigned at the first call. It ends in ``*`` and a number, as no user's name does."""
        name = self._names.get(id(function))
        if name is None:
            name = self._names[id(function)] = f"{function.name.lower()}*{len(self._names) + 1}"
            self.by_name[name] = function
        return name


UNNAMED = Unnamed()


class KnownFunctions:
    """Users' functions that the planner of one environment finds besides its catalogs: unregistered ones, and in batch mode, whose plans cannot contain
    Python calls, registered ones too. The planner takes the latter for built-in functions, so their calls stay in place."""

    def __init__(self, *, is_streaming: bool) -> None:
        self.named: dict[str, UserDefinedFunctionWrapper] = {}
        """By the name that a plan has, in small letters."""
        self._is_streaming = is_streaming

    def by_plan_name(self) -> dict[str, UserDefinedFunctionWrapper]:
        """Returns all functions by their names in a plan, in lower case."""
        found = {**UNNAMED.by_name, **self.named}
        if self._is_streaming:
            return found
        return {f"${name}$1" if made.kind == "scalar" else name: made for name, made in found.items()}

    def names(self) -> list[str]:
        """Returns the names that the planner looks up here."""
        return [*UNNAMED.by_name, *(() if self._is_streaming else self.named)]

    def definition(self, name: str, planner: Planner) -> Any:
        """Returns Flink's definition of a function; ``None`` when there is no function with this name."""
        found = {**UNNAMED.by_name, **({} if self._is_streaming else self.named)}.get(name.lower())
        if found is None:
            return None
        return (
            found.to_java(planner) if self._is_streaming or found.kind != "scalar" else found.to_built_in(name, planner)
        )


class UserDefinedFunctionWrapper(TypedUserCode):
    """A user's function with its types, as ``udf`` and ``udtf`` return it. Calling it with expressions returns an expression."""

    _alias_names: tuple[str, ...] = ()

    def __call__(self, *args: object) -> Expression:
        def make(planner: Planner) -> Any:
            return static_call("call", f"`{UNNAMED.name_of(self)}`", rest=args)._make(planner)

        made = Expression(make)
        return made.alias(*self._alias_names) if self._alias_names else made

    def alias(self, *alias_names: str) -> UserDefinedFunctionWrapper:
        """Names the columns of the result."""
        self._alias_names = alias_names
        return self

    def of_rows(self) -> UserDefinedFunctionWrapper:
        """Returns a copy that is called with a whole row, as in ``Table.map``."""
        made = copy.copy(self)
        made.input_types, made.takes_row = None, True
        return made

    def to_java(self, planner: Planner) -> Any:
        """Returns Flink's definition of the function; its Python code is not passed to Java."""
        python = planner.jvm.org.apache.flink.table.functions.python
        kind = python.PythonFunctionKind.GENERAL if self.func_type == "general" else python.PythonFunctionKind.PANDAS
        inputs = None
        if self.input_types is not None:
            types = [java_type(type, planner) for type in self.input_types]
            inputs = planner.array(planner.jvm.org.apache.flink.table.types.DataType, types)
        return getattr(python, _CLASSES[self.kind])(
            self.name,
            b"-",
            inputs,
            java_type(self.result_type, planner),
            *([java_type("BYTES", planner)] if self.kind in _AGGREGATES else []),  # Java sees no accumulator
            kind,
            self.deterministic,
            self.takes_row,
            python.PythonEnv(python.PythonEnv.ExecType.PROCESS),
        )

    def to_built_in(self, name: str, planner: Planner) -> Any:
        """Returns a definition like those of Flink's built-in functions, which batch plans can contain."""
        functions = planner.jvm.org.apache.flink.table.functions
        inference = planner.jvm.org.apache.flink.table.types.inference
        inputs = inference.InputTypeStrategies.WILDCARD
        if self.input_types is not None:
            given = [inference.InputTypeStrategies.explicit(java_type(type, planner)) for type in self.input_types]
            inputs = inference.InputTypeStrategies.sequence(planner.array(inference.ArgumentTypeStrategy, given))
        return (
            functions.BuiltInFunctionDefinition.newBuilder()
            .name(name.lower())
            .kind(functions.FunctionKind.SCALAR)
            .inputTypeStrategy(inputs)
            .outputTypeStrategy(inference.TypeStrategies.explicit(java_type(self.result_type, planner)))
            .notDeterministic()  # else the planner would call it for constants
            .runtimeProvided()
            .build()
        )


class UserDefinedScalarFunctionWrapper(UserDefinedFunctionWrapper):
    """A scalar function, as ``udf`` returns it."""

    def check(self) -> None:
        if not isinstance(self.result_type, DataType | str):
            raise TypeError(f"Invalid returnType: returnType should be DataType or str but is {self.result_type}")
        if self.kind == "async" and self.func_type != "general":
            raise ValueError(
                f"Async scalar functions do not support {self.func_type} func_type. "
                "Please use func_type='general' (default) for async functions."
            )

    @property
    def kind(self) -> str:
        return "async" if isinstance(self.func, AsyncScalarFunction) or _is_coroutine(self.func) else "scalar"


class UserDefinedTableFunctionWrapper(UserDefinedFunctionWrapper):
    """A table function, as ``udtf`` returns it; ``result_type`` is a row."""

    @property
    def kind(self) -> str:
        return "table"


class UserDefinedAggregateFunctionWrapper(UserDefinedFunctionWrapper):
    """An aggregate function, as ``udaf`` returns it."""

    accumulator_type: DataType | str | None = None

    @property
    def kind(self) -> str:
        return "aggregate"

    def check(self) -> None:
        if not isinstance(self.result_type, DataType | str):
            raise TypeError(f"Invalid returnType: returnType should be DataType or str but is {self.result_type}")
        if self.func_type == "pandas" and str(self.result_type).upper().startswith("MAP"):
            raise TypeError(
                f"Invalid returnType: Pandas UDAF doesn't support DataType type {self.result_type} currently"
            )
        method = "emit_value" if self.kind == "table_aggregate" else "get_value"
        if self.func_type == "general" and not hasattr(self.func, method):
            raise TypeError(
                f"Invalid function: it has no {method}(): for a function of pandas.Series give func_type='pandas'"
            )


class UserDefinedTableAggregateFunctionWrapper(UserDefinedAggregateFunctionWrapper):
    """A table aggregate function, as ``udtaf`` returns it; ``result_type`` is a row."""

    @property
    def kind(self) -> str:
        return "table_aggregate"


def udf(
    f: Callable[..., Any] | UserDefinedFunction | None = None,
    input_types: Types | None = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    udf_type: str | None = None,
) -> Any:
    """Makes a scalar function of a Python function, a callable object, or a ``ScalarFunction``; without ``f`` it returns a decorator.

    ``input_types``: the planner converts arguments to these types or refuses the call; without them any types are taken. Raises ``TypeError`` and
    ``ValueError`` for what is no function or no type."""
    func_type = udf_type or func_type
    if func_type not in FUNC_TYPES:
        raise ValueError(f"The func_type must be one of 'general, pandas, arrow', got {func_type}.")
    make: Callable[..., Any] = functools.partial(
        _make_udf,
        input_types=input_types,
        result_type=result_type,
        func_type=func_type,
        deterministic=deterministic,
        name=name,
    )
    return make if f is None else make(f)


def udtf(
    f: Callable[..., Any] | UserDefinedFunction | None = None,
    input_types: Types | None = None,
    result_types: Types | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
) -> Any:
    """Makes a table function of a Python function that returns an iterable of rows, or of a ``TableFunction``; without ``f`` it returns a decorator.

    ``result_types``: the type of each column, or a ``DataTypes.ROW`` that names them."""
    make: Callable[..., Any] = functools.partial(
        _make_udtf, input_types=input_types, result_types=result_types, deterministic=deterministic, name=name
    )
    return make if f is None else make(f)


def udaf(
    f: Callable[..., Any] | AggregateFunction | None = None,
    input_types: Types | None = None,
    result_type: DataType | str | None = None,
    accumulator_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Makes an aggregate function of an ``AggregateFunction``, or with ``func_type="pandas"`` of a function of series; without ``f`` it returns a
    decorator.

    Types that are not given are those that the ``AggregateFunction`` says. Raises ``TypeError``, ``ValueError``, and ``RuntimeError`` without types."""
    if func_type not in ("general", "pandas"):
        raise ValueError(f"The func_type must be one of 'general, pandas', got {func_type}.")
    return _made_aggregate(
        UserDefinedAggregateFunctionWrapper,
        f,
        input_types,
        result_type,
        accumulator_type,
        deterministic,
        name,
        func_type,
    )


def udtaf(
    f: TableAggregateFunction | None = None,
    input_types: Types | None = None,
    result_type: DataType | str | None = None,
    accumulator_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Makes a table aggregate function of a ``TableAggregateFunction``, for ``flat_aggregate``; without ``f`` it returns a decorator. Types and errors
    are as in ``udaf``."""
    if func_type != "general":
        raise ValueError(f"The func_type must be 'general', got {func_type}.")
    return _made_aggregate(
        UserDefinedTableAggregateFunctionWrapper,
        f,
        input_types,
        result_type,
        accumulator_type,
        deterministic,
        name,
        func_type,
    )


def wrapped(function: object) -> UserDefinedFunctionWrapper:
    """Returns a function to register as it is. Raises ``TypeError`` for what neither ``udf`` nor ``udtf`` made."""
    if isinstance(function, UserDefinedFunctionWrapper):
        return function
    raise TypeError(
        f"{function!r} cannot be called in a table program: make a function with udf() or udtf(), which take the type of its result"
    )


def function_named(place: str) -> UserDefinedFunctionWrapper:
    """Imports the function ``module.name`` of ``CREATE FUNCTION ... LANGUAGE PYTHON``. Raises ``InvalidJob``."""
    module, _, name = place.rpartition(".")
    if not module:
        raise InvalidJob(f"CREATE FUNCTION ... AS '{place}': say module.name")
    try:
        found = vars(importlib.import_module(module))
    except ModuleNotFoundError as error:
        raise InvalidJob(
            f"CREATE FUNCTION ... AS '{place}': there is no module '{error.name}': give its file with -pyfs, or add_python_file()"
        ) from error
    if name not in found:
        near = get_close_matches(name, found, 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise InvalidJob(f"CREATE FUNCTION ... AS '{place}': the module {module} has no '{name}'{hint}")
    made = found[name]
    if not isinstance(made, UserDefinedFunctionWrapper):
        raise InvalidJob(f"CREATE FUNCTION ... AS '{place}': it was not made by udf() or udtf()")
    return made


def _make_udf(f: Any, **given: Any) -> UserDefinedScalarFunctionWrapper:
    return UserDefinedScalarFunctionWrapper(f, **given)


def _make_udtf(f: Any, *, result_types: Types | None, **given: Any) -> UserDefinedTableFunctionWrapper:
    if isinstance(result_types, RowType) or (
        isinstance(result_types, str) and result_types.lstrip()[:3].upper() == "ROW"
    ):
        row: DataType | str = result_types
    else:
        columns = types_of(result_types)
        if not columns:
            raise TypeError(f"Invalid result_type: result_type should be DataType or str but is {result_types}")
        row = f"ROW<{', '.join(f'`f{index}` {column}' for index, column in enumerate(columns))}>"
    return UserDefinedTableFunctionWrapper(f, result_type=row, func_type="general", **given)


def _made_aggregate(
    kind: type[UserDefinedAggregateFunctionWrapper],
    f: Any,
    input_types: Types | None,
    result_type: DataType | str | None,
    accumulator_type: DataType | str | None,
    deterministic: bool | None,
    name: str | None,
    func_type: str,
) -> Any:
    def make(func: Any) -> UserDefinedAggregateFunctionWrapper:
        kept, result = accumulator_type, result_type
        if isinstance(func, ImperativeAggregateFunction):
            if kept is None and func_type == "general":
                kept = func.get_accumulator_type()
            if result is None:
                result = func.get_result_type()
        if kept is not None and not isinstance(kept, DataType | str):
            raise TypeError(f"Invalid accumulator_type: accumulator_type should be DataType or str but is {kept}")
        if func_type == "general" and kept is not None and isinstance(result, str) != isinstance(kept, str):
            raise TypeError("result_type and accumulator_type should be DataType or str at the same time.")
        made = kind(func, input_types, result, func_type, deterministic, name)  # type: ignore[arg-type]
        made.accumulator_type = kept
        return made

    return make if f is None else make(f)


def _is_coroutine(func: object) -> bool:
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(getattr(func, "eval", None))


__getattr__ = finding(__name__, elsewhere("tidegate.metrics.metricbase", "MetricGroup"))
