"""Users' aggregate functions as functions of an operator, which keeps their accumulators in its state.

    row ─▶ arguments ─▶ ``accumulate`` or ``retract`` ─▶ accumulator ─▶ ``get_value`` or ``emit_value`` ─▶ row

A function of pandas is called with all values of its rows: its accumulator holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common.row import Row
from tidegate.functions.sql.aggregates import SqlAggregate, UserAggregates, form_of
from tidegate.functions.sql.rows import array_of_values
from tidegate.functions.sql.scalar import arrow_type
from tidegate.plan.expressions import AggregateCall
from tidegate.plan.logical_types import Field, LogicalType
from tidegate.table._execution.python_functions import PythonFunctions, pandas_of, user_error
from tidegate.table._execution.python_values import arguments_maker, result_maker
from tidegate.table._execution.user_functions import AggregateFunction, TypedUserCode


class PythonAggregates(PythonFunctions, UserAggregates):
    """The users' aggregate functions that an operator calls, by the names in the plan."""

    def aggregate(self, call: AggregateCall, arguments: Sequence[Field]) -> SqlAggregate | None:
        """Returns the implementation of an aggregate call; ``None``: the function is not the user's."""
        wrapper = self.wrappers.get(call.function)
        if wrapper is None:
            return None
        made = PandasAggregate if wrapper.func_type == "pandas" else PythonAggregate
        return made(call, arguments, wrapper)


class PythonAggregate(SqlAggregate):
    """Calls a user's aggregate function, whose accumulator is the user's own object. A table aggregate function returns a tuple of rows."""

    def __init__(self, call: AggregateCall, arguments: Sequence[Field], wrapper: TypedUserCode) -> None:
        super().__init__(call, [field.type for field in arguments])
        self.emits_rows = wrapper.kind == "table_aggregate"
        self._wrapper = wrapper
        self._function: Any = wrapper.func
        self._arguments = arguments_maker(
            self.arguments, [field.name for field in arguments] if wrapper.takes_row else None
        )
        self._result = result_maker(wrapper, call.type)

    def create(self) -> Any:
        return self._called("create_accumulator", self._function.create_accumulator)

    def add(self, acc: Any, args: Sequence[Any]) -> None:
        given = self._arguments(args)
        try:
            self._function.accumulate(acc, *given)
        except Exception as error:
            raise user_error(self._wrapper, error, given) from error

    def retract(self, acc: Any, args: Sequence[Any]) -> None:
        given = self._arguments(args)
        try:
            self._function.retract(acc, *given)
        except Exception as error:
            raise user_error(self._wrapper, error, given) from error

    def merge(self, acc: Any, other: Any) -> None:
        self._called("merge", self._function.merge, acc, [other])

    def value(self, acc: Any) -> Any:
        if not self.emits_rows:
            return self._result(self._called("get_value", self._function.get_value, acc))
        rows = self._called("emit_value", lambda: list(self._function.emit_value(acc)))
        return tuple([self._result(row if isinstance(row, Row | tuple) else (row,)) for row in rows])

    def _called(self, method: str, call: Callable[..., Any], *given: Any) -> Any:
        try:
            return call(*given)
        except Exception as error:
            raise user_error(self._wrapper, error, where=f" in {method}()") from error


class PandasAggregate(SqlAggregate):
    """Calls a user's pandas aggregate function, with a series for each argument or with one frame of them all. The accumulator is ``[arguments of each
    row]``, in order of arrival; a retraction removes the first that are equal, if any."""

    wants_all_rows = True

    def __init__(self, call: AggregateCall, arguments: Sequence[Field], wrapper: TypedUserCode) -> None:
        super().__init__(call, [field.type for field in arguments])
        self._wrapper = wrapper
        self._fields = [pa.field(field.name, arrow_type(field.type)) for field in arguments]
        self._result = result_maker(wrapper, call.type)

    def create(self) -> list[Any]:
        return []

    def add(self, acc: list[Any], args: Sequence[Any]) -> None:
        acc.append(tuple(args))

    def retract(self, acc: list[Any], args: Sequence[Any]) -> None:
        gone = form_of(tuple(args))
        at = next((at for at, given in enumerate(acc) if form_of(given) == gone), None)
        if at is not None:
            del acc[at]

    def merge(self, acc: list[Any], other: list[Any]) -> None:
        acc.extend(other)

    def value(self, acc: list[Any]) -> Any:
        import pandas as pd

        columns = zip(*acc, strict=True) if acc else [()] * len(self._fields)
        series = [
            pandas_of(array_of_values(values, field.type)) for values, field in zip(columns, self._fields, strict=True)
        ]
        if self._wrapper.takes_row:
            names = [field.name for field in self._fields]
            series = [pd.concat([pd.Series(one, name=name) for one, name in zip(series, names, strict=True)], axis=1)]
        try:
            found = self._call(*series)
        except Exception as error:
            raise user_error(self._wrapper, error, where=f" with {len(acc)} rows") from error
        return self._result(self._plain(found, self.type))

    def _call(self, *series: Any) -> Any:
        function = self._wrapper.func
        if isinstance(function, AggregateFunction):
            accumulator = function.create_accumulator()
            function.accumulate(accumulator, *series)
            return function.get_value(accumulator)
        return function(*series)  # type: ignore[operator]

    def _plain(self, value: Any, type: LogicalType) -> Any:
        """Converts numbers of NumPy and pandas to Python's; missing values become ``None``."""
        import pandas as pd

        if isinstance(value, Row | tuple):
            return tuple([self._plain(part, field.type) for part, field in zip(value, type.fields, strict=False)])
        if isinstance(value, pd.Timestamp):
            return None if value is pd.NaT else value.to_pydatetime()
        if isinstance(value, np.generic):
            value = value.item()
        if value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
            return None
        if isinstance(value, float) and value.is_integer() and pa.types.is_integer(arrow_type(type)):
            return int(value)
        return list(value) if isinstance(value, np.ndarray) else value
