"""Users' scalar and table functions, called on the columns of a batch.

    columns ─▶ values of Python, or pandas, or Arrow ─▶ the function ─▶ a column of the declared type

An exception of a function becomes a ``UserFunctionError`` with the function, the arguments of the row and the line in the user's code. A result that is not
of the declared type is a ``SchemaMismatch``, after which the job is not restarted.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from itertools import starmap
from operator import length_hint
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

import tidegate
from tidegate.common.row import Row, make_row
from tidegate.functions.base import Function, RuntimeContext
from tidegate.functions.sql.scalar import arrow_type
from tidegate.model.errors import SchemaMismatch, TidegateError, UserFunctionError
from tidegate.plan.logical_types import LogicalType, TypeRoot
from tidegate.table._execution.rows import column_values
from tidegate.table._execution.user_functions import FunctionContext, TypedUserCode, UserDefinedFunction

_OURS = os.path.dirname(os.path.abspath(str(tidegate.__file__))) + os.sep
_CALLS_AT_ONCE = 10
"""How many calls of an asynchronous function run concurrently: the default of Flink's ``table.exec.async-scalar.max-concurrent-operations``."""


class PythonFunctions(Function):
    """The users' functions that an operator calls, by the names in the plan; opened and closed with the operator."""

    def __init__(self, wrappers: Mapping[str, TypedUserCode]) -> None:
        self.wrappers = dict(wrappers)

    def open(self, runtime_context: RuntimeContext) -> None:
        context = FunctionContext(runtime_context)
        for wrapper in self.wrappers.values():
            if isinstance(wrapper.func, UserDefinedFunction):
                with _Named(wrapper, "open"):
                    wrapper.func.open(context)

    def close(self) -> None:
        for wrapper in self.wrappers.values():
            if isinstance(wrapper.func, UserDefinedFunction):
                with _Named(wrapper, "close"):
                    wrapper.func.close()


class TypedUserFunction:
    """A user's scalar function as compiled expressions call it."""

    def __init__(self, wrapper: TypedUserCode, names: Sequence[str] = ()) -> None:
        self._wrapper = wrapper
        self._names = names

    def bind(self, types: Sequence[LogicalType], result: LogicalType) -> BoundFunction:
        """Returns the function for a call with arguments and result of these types."""
        return BoundFunction(self._wrapper, types, result, self._names)


class BoundFunction:
    """A user's scalar function bound to the types of one call: takes an array for each argument and returns an array. ``names``: of the fields, where
    it takes a whole row."""

    def __init__(
        self, wrapper: TypedUserCode, types: Sequence[LogicalType], result: LogicalType, names: Sequence[str] = ()
    ) -> None:
        self._wrapper = wrapper
        self._names = names_of_row(names, len(types))
        self._types = tuple(types)
        self._result = result
        self._call = method_of(wrapper)
        self._arrow = arrow_type(result)

    def __call__(self, count: int, columns: Sequence[pa.Array]) -> pa.Array:
        """Calls the function on columns of ``count`` rows."""
        match self._wrapper.func_type:
            case "pandas":
                return self._series(count, columns)
            case "arrow":
                return self._arrays(count, columns)
        rows = arguments_of(columns, self._types, count, self._names if self._wrapper.takes_row else None)
        if self._wrapper.kind == "async":
            return array_of(self._wrapper, self._awaited(rows), self._result)
        left = iter(rows)
        try:
            found = list(starmap(self._call, left))
        except Exception as error:
            raise user_error(self._wrapper, error, rows[len(rows) - length_hint(left) - 1]) from error
        return array_of(self._wrapper, found, self._result)

    def _awaited(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        async def run() -> list[Any]:
            free = asyncio.Semaphore(_CALLS_AT_ONCE)

            async def one(row: tuple[Any, ...]) -> Any:
                async with free:
                    try:
                        return await self._call(*row)
                    except Exception as error:
                        raise user_error(self._wrapper, error, row) from error

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(row)) for row in rows]
            return [task.result() for task in tasks]

        try:
            return asyncio.run(run())
        except* TidegateError as errors:
            raise errors.exceptions[0] from errors

    def _series(self, count: int, columns: Sequence[pa.Array]) -> pa.Array:
        import pandas as pd

        wrapper = self._wrapper
        given = [pandas_of(column) for column in columns]
        if wrapper.takes_row:
            given = [
                pd.concat([pd.Series(one, name=name) for one, name in zip(given, self._names, strict=True)], axis=1)
            ]
        with _Named(wrapper, "", f"a batch of {count} rows"):
            found = self._call(*given)
        if isinstance(found, pd.DataFrame):
            if not pa.types.is_struct(self._arrow):
                raise _mismatch(wrapper, f"it returned a pandas.DataFrame where {self._result} is declared")
            self._check_count(len(found), count)
            fields = list(self._arrow)
            if len(found.columns) != len(fields):
                raise _mismatch(
                    wrapper, f"it returned {len(found.columns)} columns where {self._result} has {len(fields)}"
                )
            parts = [self._converted(found.iloc[:, index], field.type) for index, field in enumerate(fields)]
            return pa.StructArray.from_arrays(parts, fields=fields)
        if not isinstance(found, pd.Series | np.ndarray | list):
            raise _mismatch(wrapper, f"it returned {type(found).__name__}, not a pandas.Series")
        self._check_count(len(found), count)
        return self._converted(found, self._arrow)

    def _arrays(self, count: int, columns: Sequence[pa.Array]) -> pa.Array:
        wrapper = self._wrapper
        with _Named(wrapper, "", f"a batch of {count} rows"):
            found = self._call(*columns)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if not isinstance(found, pa.Array):
            raise _mismatch(wrapper, f"it returned {type(found).__name__}, not a pyarrow.Array")
        self._check_count(len(found), count)
        return self._converted(found, self._arrow)

    def _check_count(self, found: int, count: int) -> None:
        if found != count:
            raise _mismatch(self._wrapper, f"it returned {found} values for {count} rows")

    def _converted(self, values: Any, type: pa.DataType) -> pa.Array:
        try:
            made = values if isinstance(values, pa.Array) else pa.Array.from_pandas(values)
            if made.type != type and (pa.types.is_string(made.type) or pa.types.is_binary(made.type)):
                raise pa.ArrowInvalid(f"its values are of type {made.type}")
            if made.type == type:
                return made
            if isinstance(values, pa.Array):
                return made.cast(type)
            return pa.Array.from_pandas(values, type=type)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise _mismatch(
                self._wrapper, f"what it returned does not fit the declared type {self._result}: {error}"
            ) from None


def table_rows(
    wrapper: TypedUserCode, types: Sequence[LogicalType], result: LogicalType, names: Sequence[str] = ()
) -> Callable[[int, Sequence[pa.Array]], tuple[pa.Array, pa.Array]]:
    """Returns a callable that applies a table function to columns. It returns two arrays: for each row of the result the number of its input row, and the
    result as structs. ``names``: of the fields, if the function takes a whole row.
    """
    call = method_of(wrapper)
    of_row = names_of_row(names, len(types)) if wrapper.takes_row else None

    def run(count: int, columns: Sequence[pa.Array]) -> tuple[pa.Array, pa.Array]:
        numbers: list[int] = []
        found: list[Any] = []
        for number, row in enumerate(arguments_of(columns, types, count, of_row)):
            try:
                given = call(*row)
                before = len(found)
                if given is not None:
                    found.extend(given if isinstance(given, list | range | Iterator) else (given,))
            except Exception as error:
                raise user_error(wrapper, error, row) from error
            numbers += [number] * (len(found) - before)
        found = [one if isinstance(one, Row | tuple) else (one,) for one in found]  # as PyFlink takes them
        return pa.array(numbers, pa.int64()), array_of(wrapper, found, result)

    return run


def method_of(wrapper: TypedUserCode) -> Callable[..., Any]:
    """Returns the callable of a user's function: the ``eval`` method, or the function itself."""
    func = wrapper.func
    return func.eval if isinstance(func, UserDefinedFunction) else func  # type: ignore[attr-defined]


def names_of_row(names: Sequence[str], width: int) -> list[str]:
    """Returns the field names of a whole row; ``f0``, ``f1`` and so on where there are none."""
    return list(names) or [f"f{number}" for number in range(width)]


def arguments_of(
    columns: Sequence[pa.Array], types: Sequence[LogicalType], count: int, of_row: list[str] | None
) -> list[tuple[Any, ...]]:
    """Converts columns to a tuple of arguments for each row. ``of_row``: one argument, a ``Row`` with fields of these names."""
    if not columns:
        return [()] * count
    rows = list(zip(*(column_values(column, type) for column, type in zip(columns, types, strict=True)), strict=True))
    return rows if of_row is None else [(make_row(of_row, row),) for row in rows]


def pandas_of(column: pa.Array) -> Any:
    """Converts an Arrow array to a pandas series; an array of structs, to a frame."""
    if pa.types.is_struct(column.type):
        return pa.RecordBatch.from_struct_array(column).to_pandas()
    return column.to_pandas()


def array_of(wrapper: TypedUserCode, values: list[Any], type: LogicalType) -> pa.Array:
    """Converts results of a function to a column. Raises ``SchemaMismatch`` for the first that is not of the declared type."""
    wanted = arrow_type(type)
    try:
        if not type.nullable and None in values:
            raise TypeError("None")
        if type.root in _ACCEPTED:
            if not set(map(_CLASS, values)) <= _ACCEPTED[type.root]:
                raise TypeError("class")
            return pa.array(values, wanted)
        return pa.array([None if value is None else _plain(value, type) for value in values], wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, InvalidOperation):
        pass
    for value in values:
        try:
            if value is None and type.nullable:
                continue
            pa.array([_plain(value, type)], wanted)
        except (pa.ArrowException, TypeError, ValueError, OverflowError, InvalidOperation) as error:
            said = _mismatch(wrapper, f"it returned {value!r:.200} ({_class_name(value)}) where {type} is declared")
            raise said from error
    raise AssertionError(f"{wrapper.name}: each value fits {type}, but all of them together do not")


_ACCEPTED: dict[TypeRoot, frozenset[type]] = {}
"""Classes of Python values that Arrow converts without help, by SQL type."""


_CLASS = type
"""Returns the class of a value, without a Python frame for each."""


def _accept(classes: Iterable[type], *roots: TypeRoot) -> None:
    for root in roots:
        _ACCEPTED[root] = frozenset({type(None), *classes})


_INTEGERS = [int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
_accept(_INTEGERS, TypeRoot.TINYINT, TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT)
_accept([float, np.float32, np.float64, *_INTEGERS], TypeRoot.FLOAT, TypeRoot.DOUBLE)
_accept([bool, np.bool_], TypeRoot.BOOLEAN)
_accept([str, np.str_], TypeRoot.CHAR, TypeRoot.VARCHAR)
_accept([bytes, bytearray, memoryview, np.bytes_], TypeRoot.BINARY, TypeRoot.VARBINARY)


def _plain(value: Any, type: LogicalType) -> Any:
    """Converts a value to what Arrow accepts for a type. Raises ``TypeError`` for a value of another class."""
    if value is None:
        if not type.nullable:
            raise TypeError("None")
        return None
    accepted = _ACCEPTED.get(type.root)
    if accepted is not None:
        if not isinstance(value, tuple(accepted)) or (isinstance(value, bool) and bool not in accepted):
            raise TypeError(_class_name(value))
        return value
    match type.root:
        case TypeRoot.DECIMAL:
            if isinstance(value, bool) or not isinstance(value, Decimal | int):
                raise TypeError(_class_name(value))
            return Decimal(value).quantize(Decimal(1).scaleb(-(type.scale or 0)), ROUND_HALF_UP, Context(prec=76))
        case TypeRoot.ARRAY:
            if isinstance(value, str | bytes | Mapping):
                raise TypeError(_class_name(value))
            return [_plain(part, type.element) for part in value]
        case TypeRoot.MAP:
            key, held = type.children
            return [(_plain(k, key), _plain(v, held)) for k, v in value.items()]
        case TypeRoot.ROW:
            return _plain_row(value, type)
        case _:
            return value


def _plain_row(value: Any, type: LogicalType) -> tuple[Any, ...]:
    if isinstance(value, Mapping):
        value = [value.get(field.name) for field in type.fields]
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(_class_name(value))
    parts = list(value)
    if len(parts) != len(type.fields):
        raise TypeError(f"it has {len(parts)} fields, not {len(type.fields)}")
    return tuple(_plain(part, field.type) for part, field in zip(parts, type.fields, strict=True))


class _Named:
    """Converts errors of a user's function that is called without a row."""

    def __init__(self, wrapper: TypedUserCode, method: str, given: str = "") -> None:
        self._wrapper = wrapper
        self._method = method
        self._given = given

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            said = self._method and f" in {self._method}()"
            raise user_error(self._wrapper, error, where=said or f" with {self._given}") from error


def user_error(
    wrapper: TypedUserCode, error: Exception, row: tuple[Any, ...] | None = None, where: str = ""
) -> TidegateError:
    """Returns the error to raise in place of the one that a user's function raised, with its place in the user's code."""
    if isinstance(error, TidegateError):
        return error
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if frame.filename == frames[0].filename] if frames else []
    place = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    details = "".join(traceback.format_exception(type(error), error, trace))
    raised = UserFunctionError(f"the function {wrapper.name}{where}{place} raised {said}", details=details)
    if row is not None:
        raised.inputs, raised.inputs_words = (row,), "it was called with {}"
    return raised


_RESULTS = {
    "aggregate": "get_value",
    "table_aggregate": "emit_value",
    "lookup": "lookup",
    "async_lookup": "async_lookup",
}
"""The names of the methods that return results, by kind of function, where it is not ``eval``."""


def _mismatch(wrapper: TypedUserCode, what: str) -> SchemaMismatch:
    func = wrapper.func
    results = _RESULTS.get(wrapper.kind, "eval")
    code = getattr(getattr(func, results) if isinstance(func, UserDefinedFunction) else func, "__code__", None)
    place = f" ({code.co_filename}, line {code.co_firstlineno})" if inspect.iscode(code) else ""
    return SchemaMismatch(f"the function {wrapper.name}{place}: {what}")


def _class_name(value: object) -> str:
    return type(value).__name__
