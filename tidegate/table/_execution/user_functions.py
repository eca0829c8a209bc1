"""Base classes of users' functions in SQL, and such a function with its types as operators hold it."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from tidegate.functions.base import RuntimeContext
from tidegate.metrics import MetricGroup
from tidegate.records.data_types import DataType, RowType

FUNC_TYPES = ("general", "pandas", "arrow")

Types: TypeAlias = "Sequence[DataType | str] | DataType | str"


class FunctionContext:
    """The information that a user's function gets about its subtask in ``open``."""

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
    """The base class of users' functions that have a state of their own."""

    def open(self, function_context: FunctionContext) -> None:  # noqa: B027  (optional hook)
        """Is called in the subtask before the first call of the function."""

    def close(self) -> None:  # noqa: B027  (optional hook)
        """Is called after the last call of the function."""

    def is_deterministic(self) -> bool:
        """Returns whether equal arguments always give equal results; if not, the planner does not evaluate calls in advance."""
        return True


class ScalarFunction(UserDefinedFunction):
    """A function that returns one value for each row."""

    @abc.abstractmethod
    def eval(self, *args: Any) -> Any:
        """Returns the result for the arguments, which are ``None`` where a column is null."""


class AsyncScalarFunction(UserDefinedFunction):
    """A scalar function with an asynchronous ``eval``: calls for several rows run concurrently."""

    @abc.abstractmethod
    async def eval(self, *args: Any) -> Any:
        """Returns the result for the arguments."""


class TableFunction(UserDefinedFunction):
    """A function that returns any number of rows for each row."""

    @abc.abstractmethod
    def eval(self, *args: Any) -> Any:
        """Returns an iterable of rows: tuples or ``Row``; for a single column also plain values."""


class ImperativeAggregateFunction(UserDefinedFunction):
    """The base class of aggregate functions. An accumulator is an object of the user's choice, such as a ``Row``, a list or a ``MapView``."""

    @abc.abstractmethod
    def create_accumulator(self) -> Any:
        """Returns a new, empty accumulator."""

    @abc.abstractmethod
    def accumulate(self, accumulator: Any, *args: Any) -> None:
        """Adds a row to the accumulator."""

    def retract(self, accumulator: Any, *args: Any) -> None:
        """Removes a row that was added before from the accumulator. Needed where the input has updates."""
        raise RuntimeError("Method retract is not implemented")

    def merge(self, accumulator: Any, accumulators: Iterable[Any]) -> None:
        """Merges other accumulators into this one. Needed for session windows."""
        raise RuntimeError("Method merge is not implemented")

    def get_result_type(self) -> DataType | str:
        """Returns the type of results, where ``udaf`` and ``udtaf`` are given none."""
        raise RuntimeError("Method get_result_type is not implemented")

    def get_accumulator_type(self) -> DataType | str:
        """Returns the type of accumulators, where ``udaf`` and ``udtaf`` are given none."""
        raise RuntimeError("Method get_accumulator_type is not implemented")


class AggregateFunction(ImperativeAggregateFunction):
    """An aggregate function that returns one value."""

    @abc.abstractmethod
    def get_value(self, accumulator: Any) -> Any:
        """Returns the result for the accumulator."""


class TableAggregateFunction(ImperativeAggregateFunction):
    """An aggregate function that returns any number of rows."""

    @abc.abstractmethod
    def emit_value(self, accumulator: Any) -> Iterable[Any]:
        """Returns the rows of the result: tuples or ``Row``; for a single column also plain values."""


class TypedUserCode(abc.ABC):
    """A user's function with its types."""

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
        self.input_types = types_of(input_types)
        self.result_type = result_type
        self.func_type = func_type
        self.deterministic = deterministic is not False
        self.name: str = name or str(getattr(func, "__name__", type(func).__name__))
        self.takes_row = False
        """Whether it is called with one ``Row`` of all arguments (``Table.map``)."""
        self.check()

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """Returns ``scalar``, ``async``, ``table``, ``aggregate`` or ``table_aggregate``."""

    def check(self) -> None:  # noqa: B027  (optional hook)
        """Checks the declared types. Raises ``TypeError`` and ``ValueError`` for types that functions of this kind cannot have."""


def types_of(types: Types | None) -> tuple[DataType | str, ...] | None:
    """Returns the given types, one or several, as a tuple. Raises ``TypeError`` for anything else."""
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
