"""Users' lookup functions in a subtask: keys are passed as Python rows, and the rows found are converted to columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common.row import Row, make_row
from tidegate.functions.async_batches import BatchCall
from tidegate.functions.base import RuntimeContext
from tidegate.functions.sql.scalar import arrow_schema, batch_of
from tidegate.model.errors import SchemaMismatch
from tidegate.plan.logical_types import LogicalType
from tidegate.table._execution.lookup_functions import AsyncLookupFunction, LookupFunction
from tidegate.table._execution.python_functions import array_of, user_error
from tidegate.table._execution.rows import column_values
from tidegate.table._execution.user_functions import FunctionContext, TypedUserCode
from tidegate.table._lookup.port import FoundRows, Positions


class LookupCode(TypedUserCode):
    """A user's lookup object, with the description that error messages need."""

    def __init__(self, func: LookupFunction | AsyncLookupFunction) -> None:
        super().__init__(func, None, "INT", "general", None, type(func).__qualname__)

    @property
    def kind(self) -> str:
        """Returns ``async_lookup`` or ``lookup``."""
        return "async_lookup" if isinstance(self.func, AsyncLookupFunction) else "lookup"

    def check(self) -> None:
        """Accepts every object: its class was checked when it was made."""


class _Conversion:
    """Conversion of keys and found rows of a lookup function. ``row_type``: all columns of the table; ``columns``: the positions of those that are
    wanted; ``keys``: positions in these."""

    def __init__(self, code: LookupCode, row_type: LogicalType, columns: Sequence[int], keys: Sequence[int]) -> None:
        self.code = code
        self._names = [field.name for field in row_type.fields]
        self._columns = list(columns)
        self._fields = [row_type.fields[at] for at in columns]
        self._keys = [self._fields[at] for at in keys]
        self.schema = arrow_schema(LogicalType(row_type.root, fields=tuple(self._fields)))

    def key_rows(self, keys: pa.RecordBatch) -> list[Row]:
        """Converts a batch of keys to rows with the names of the key columns."""
        columns = [column_values(column, field.type) for column, field in zip(keys.columns, self._keys, strict=True)]
        names = [field.name for field in self._keys]
        return [make_row(names, values) for values in zip(*columns, strict=True)]

    def found(self, answers: Sequence[Iterable[Any]]) -> FoundRows:
        """Converts the rows found for each key to columns. Raises ``SchemaMismatch`` for what is not a row of the table."""
        places: list[int] = []
        rows: list[Sequence[Any]] = []
        for place, answer in enumerate(answers):
            for row in self._listed(answer):
                places.append(place)
                rows.append(self._values(row))
        columns = [
            array_of(self.code, [row[at] for row in rows], field.type)
            for at, field in zip(self._columns, self._fields, strict=True)
        ]
        return FoundRows(np.array(places, np.int64), batch_of(columns, self.schema, len(rows)))

    def _listed(self, answer: Any) -> Iterable[Any]:
        if isinstance(answer, (str, bytes, Mapping, Row)) or not isinstance(answer, Iterable):
            raise SchemaMismatch(
                f"the function {self.code.name}: the rows of a key are a list of rows, and it returned {answer!r:.200}"
            )
        return answer

    def _values(self, row: Any) -> Sequence[Any]:
        if isinstance(row, Mapping):
            unknown = [name for name in row if name not in self._names]
            if unknown:
                raise SchemaMismatch(
                    f"the function {self.code.name}: it returned a row with {unknown[0]!r}, and the columns are {', '.join(self._names)}"
                )
            return [row.get(name) for name in self._names]
        values = list(row) if isinstance(row, (tuple, list, Row)) else [row]
        if len(values) != len(self._names):
            raise SchemaMismatch(
                f"the function {self.code.name}: it returned {row!r:.200}, of {len(values)} values, and the columns are "
                f"{', '.join(self._names)}"
            )
        return values


class PythonTable:
    """A lookup table backed by a user's synchronous function, which is called with all keys of a batch."""

    def __init__(self, function: LookupFunction, row_type: LogicalType, columns: Sequence[int], keys: Sequence[int]):
        self._function = function
        self._conversion = _Conversion(LookupCode(function), row_type, columns, keys)

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of the rows that are found."""
        return self._conversion.schema

    def open(self, context: RuntimeContext) -> None:
        """Opens the user's object."""
        _opened(self._conversion.code, context)

    def look_up(self, keys: pa.RecordBatch) -> FoundRows:
        """Returns the rows of some keys."""
        rows = self._conversion.key_rows(keys)
        try:
            answers = list(self._function.lookup_many(rows))
        except Exception as error:
            raise user_error(self._conversion.code, error, (rows[0],) if len(rows) == 1 else None) from error
        if len(answers) != len(rows):
            raise SchemaMismatch(
                f"the function {self._conversion.code.name}: lookup_many() returned {len(answers)} answers to {len(rows)} keys"
            )
        return self._conversion.found(answers)

    def close(self) -> None:
        """Closes the user's object."""
        _closed(self._conversion.code)


class AsyncPythonTable:
    """A lookup table backed by a user's asynchronous function. ``timeout_s``: the limit for a key, retries included, as messages give it."""

    def __init__(
        self,
        function: AsyncLookupFunction,
        row_type: LogicalType,
        columns: Sequence[int],
        keys: Sequence[int],
        *,
        timeout_s: float,
    ) -> None:
        self._function = function
        self._conversion = _Conversion(LookupCode(function), row_type, columns, keys)
        self._timeout_s = timeout_s

    def open(self, context: RuntimeContext) -> None:
        """Opens the user's object."""
        _opened(self._conversion.code, context)

    def calls(self, keys: pa.RecordBatch) -> list[BatchCall]:
        """Returns the lookup of each key."""
        return [
            BatchCall(partial(self._look_up, row), partial(self._late, row)) for row in self._conversion.key_rows(keys)
        ]

    def found(self, keys: Positions, answers: Sequence[list[Any]]) -> FoundRows:
        """Converts the rows of some keys to columns."""
        found = self._conversion.found(answers)
        return FoundRows(keys[found.keys], found.rows)

    def close(self) -> None:
        """Closes the user's object."""
        _closed(self._conversion.code)

    async def _look_up(self, row: Row) -> list[Any]:
        try:
            return list(self._conversion._listed(await self._function.async_lookup(row)))
        except Exception as error:
            raise user_error(self._conversion.code, error, (row,)) from error

    def _late(self, row: Row) -> list[Any]:
        late = TimeoutError(f"Async lookup function call has timed out after {self._timeout_s:g} s")
        raise user_error(self._conversion.code, late, (row,)) from late


def _opened(code: LookupCode, context: RuntimeContext) -> None:
    assert isinstance(code.func, (LookupFunction, AsyncLookupFunction))
    try:
        code.func.open(FunctionContext(context))
    except Exception as error:
        raise user_error(code, error, where=" in open()") from error


def _closed(code: LookupCode) -> None:
    assert isinstance(code.func, (LookupFunction, AsyncLookupFunction))
    try:
        code.func.close()
    except Exception as error:
        raise user_error(code, error, where=" in close()") from error


__all__ = ["AsyncPythonTable", "LookupCode", "PythonTable"]
