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

import abc
import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeAlias

from tidegate.functions.base import RuntimeContext
from tidegate.metrics import MetricGroup
from tidegate.model.errors import InvalidJob
from tidegate.records.data_types import DataType, RowType
from tidegate.table._planner.functions import UNNAMED
from tidegate.table.expression import Expression, static_call

if TYPE_CHECKING:
    from tidegate.table._planner.session import Planner

__all__ = ["AsyncScalarFunction", "FunctionContext", "ScalarFunction", "TableFunction", "udf", "udtf"]

FUNC_TYPES = ("general", "pandas", "arrow")

Types: TypeAlias = "Sequence[DataType | str] | DataType | str"


class FunctionContext:
    """What a function learns of the subtask in which it runs, in ``open``."""

    def __init__(self, runtime_context: RuntimeContext) -> None:
        self._runtime = runtime_context

    def get_metric_group(self) -> MetricGroup:
        """Returns the metrics of the operator."""
        return self._runtime.get_metrics_group()

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Returns a global job parameter (``pipeline.global-job-parameters``), or the default."""
        return self._runtime.get_job_parameter(key, default_value)

    def get_task_name(self) -> str:
        """Returns the name of the task."""
        return self._runtime.get_task_name()

    def get_task_name_with_subtasks(self) -> str:
        """Returns the name of the task with the number of the subtask, from 1: ``Calc (3/6)``."""
        return self._runtime.get_task_name_with_subtasks()

    def get_number_of_parallel_subtasks(self) -> int:
        """Returns the parallelism of the task."""
        return self._runtime.get_number_of_parallel_subtasks()

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Returns the maximum parallelism of the task."""
        return self._runtime.get_max_number_of_parallel_subtasks()

    def get_index_of_this_subtask(self) -> int:
        """Returns the number of the subtask, from 0."""
        return self._runtime.get_index_of_this_subtask()

    def get_attempt_number(self) -> int:
        """Returns the number of the attempt, from 0."""
        return self._runtime.get_attempt_number()


class UserDefinedFunction(abc.ABC):  # noqa: B024  (its methods are hooks)
    """What functions with a state of their own have in common."""

    def open(self, function_context: FunctionContext) -> None:  # noqa: B027  (optional hook)
        """Before the first call, in the subtask."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """After the last call."""

    def is_deterministic(self) -> bool:
        """Whether the same arguments always give the same result; ``False``: the planner does not compute calls in advance."""
        return True


class ScalarFunction(UserDefinedFunction):
    """One value from the values of a row."""

    @abc.abstractmethod
    def eval(self, *args: Any) -> Any:
        """The result for the arguments, which are ``None`` where a column is null."""


class AsyncScalarFunction(UserDefinedFunction):
    """As ``ScalarFunction``; calls for several rows wait at the same time."""

    @abc.abstractmethod
    async def eval(self, *args: Any) -> Any:
        """The result for the arguments."""


class TableFunction(UserDefinedFunction):
    """Any number of rows from the values of a row."""

    @abc.abstractmethod
    def eval(self, *args: Any) -> Any:
        """An iterable of rows: tuples or ``Row``; where there is one column, also its values."""


class UserDefinedFunctionWrapper:
    """A function with its types, as ``udf`` and ``udtf`` make it. Called with expressions it is one."""

    def __init__(
        self,
        func: Callable[..., Any] | UserDefinedFunction,
        input_types: Types | None,
        result_type: DataType | str,
        func_type: str,
        deterministic: bool | None,
        name: str | None,
    ) -> None:
        if inspect.isclass(func) or not (isinstance(func, UserDefinedFunction) or callable(func)):
            raise TypeError(f"Invalid function: not a function or callable (__call__ is not defined): {type(func)}")
        if func_type not in FUNC_TYPES:
            raise ValueError(f"The func_type must be one of 'general, pandas, arrow', got {func_type}.")
        if isinstance(func, UserDefinedFunction):
            own = func.is_deterministic()
            if deterministic is not None and deterministic != own:
                raise ValueError(f"Inconsistent deterministic: {deterministic} and {own}")
            deterministic = own
        self.func = func
        self.input_types = _types(input_types)
        self.result_type = result_type
        self.func_type = func_type
        self.deterministic = deterministic is not False
        self.name: str = name or str(getattr(func, "__name__", type(func).__name__))
        self.takes_row = False
        """Whether it is called with one ``Row`` of all arguments (``Table.map``)."""
        self._alias_names: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """``scalar``, ``async`` or ``table``."""
        raise NotImplementedError

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
        """The same function, called with a row (``Table.map``)."""
        made = type(self)(self.func, None, self.result_type, self.func_type, self.deterministic, self.name)
        made._alias_names, made.takes_row = self._alias_names, True
        return made


class UserDefinedScalarFunctionWrapper(UserDefinedFunctionWrapper):
    """What ``udf`` makes."""

    def __init__(
        self,
        func: Callable[..., Any] | UserDefinedFunction,
        input_types: Types | None,
        result_type: DataType | str,
        func_type: str,
        deterministic: bool | None,
        name: str | None,
    ) -> None:
        super().__init__(func, input_types, result_type, func_type, deterministic, name)
        if not isinstance(result_type, DataType | str):
            raise TypeError(f"Invalid returnType: returnType should be DataType or str but is {result_type}")
        if self.kind == "async" and func_type != "general":
            raise ValueError(
                f"Async scalar functions do not support {func_type} func_type. "
                "Please use func_type='general' (default) for async functions."
            )

    @property
    def kind(self) -> str:
        return "async" if isinstance(self.func, AsyncScalarFunction) or _is_coroutine(self.func) else "scalar"


class UserDefinedTableFunctionWrapper(UserDefinedFunctionWrapper):
    """What ``udtf`` makes; ``result_type`` is a row."""

    @property
    def kind(self) -> str:
        return "table"


def udf(
    f: Callable[..., Any] | UserDefinedFunction | None = None,
    input_types: Types | None = None,
    result_type: DataType | str | None = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
    udf_type: str | None = None,
) -> Any:
    """Makes a function of tables of a Python function, a callable object, or a ``ScalarFunction``; without ``f`` it is a decorator.

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
    """Makes a table function of a Python function that gives an iterable of rows, or of a ``TableFunction``; without ``f`` it is a decorator.

    ``result_types``: the type of each column, or a ``DataTypes.ROW`` that names them."""
    make: Callable[..., Any] = functools.partial(
        _make_udtf, input_types=input_types, result_types=result_types, deterministic=deterministic, name=name
    )
    return make if f is None else make(f)


def wrapped(function: object) -> UserDefinedFunctionWrapper:
    """What is registered. Raises ``TypeError`` for what neither ``udf`` nor ``udtf`` made."""
    if isinstance(function, UserDefinedFunctionWrapper):
        return function
    raise TypeError(
        f"a function of tables is made by udf() or udtf(), with the type of its result, and this is {function!r}"
    )


def function_named(place: str) -> UserDefinedFunctionWrapper:
    """The function that ``module.name`` is (CREATE FUNCTION ... LANGUAGE PYTHON). Raises ``InvalidJob``."""
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
        columns = _types(result_types)
        if not columns:
            raise TypeError(f"Invalid result_type: result_type should be DataType or str but is {result_types}")
        row = f"ROW<{', '.join(f'`f{index}` {column}' for index, column in enumerate(columns))}>"
    return UserDefinedTableFunctionWrapper(f, result_type=row, func_type="general", **given)


def _types(types: Types | None) -> tuple[DataType | str, ...] | None:
    if types is None:
        return None
    if isinstance(types, RowType):
        found: list[Any] = types.field_types()
    else:
        found = [types] if isinstance(types, DataType | str) else list(types)
    for type in found:
        if not isinstance(type, DataType | str):
            raise TypeError(f"Invalid input_type: input_type should be DataType or str but contains {type}")
    return tuple(found)


def _is_coroutine(func: object) -> bool:
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(getattr(func, "eval", None))
