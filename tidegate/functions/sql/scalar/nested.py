"""Functions of arrays, maps, multisets and rows, after ``table.runtime.functions.scalar.Array*Function`` and ``Map*Function`` (2.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.casts import caster, list_offsets
from tidegate.functions.sql.scalar.context import EvaluationError
from tidegate.functions.sql.scalar.kernels import by_value, elementwise, if_else, python_values
from tidegate.functions.sql.scalar.registry import Datum, Evaluate, KernelKind, Rows, ScalarCall, function
from tidegate.plan.logical_types import LogicalType, TypeRoot


def _columns(call: ScalarCall, rows: Rows, types: Iterable[LogicalType]) -> list[pa.Array]:
    """Evaluates the operands to arrays of the given types."""
    found = []
    for operand, type in zip(call.operands, types, strict=True):
        array = operand.values(rows)
        cast = caster(operand.type, type, call.context, call)
        found.append(array if cast is None else cast(array))
    return found


@function("ROW")
def _row_call(call: ScalarCall) -> Evaluate:
    types = [field.type for field in call.type.fields]
    fields = list(call.arrow)

    def evaluate(rows: Rows) -> Datum:
        if not fields:
            return pa.array([{}] * rows.count, call.arrow)
        return pa.StructArray.from_arrays(_columns(call, rows, types), fields=fields)

    return evaluate


def _interleaved(columns: list[pa.Array]) -> pa.Array:
    """Concatenates the values of all columns, row by row."""
    count, width = len(columns[0]), len(columns)
    together = pa.concat_arrays(columns)
    indices = [column * count + index for index in range(count) for column in range(width)]
    return together.take(pa.array(indices, pa.int64()))


@function("ARRAY")
def _array_call(call: ScalarCall) -> Evaluate:
    element = call.type.element
    wanted = call.arrow
    width = len(call.operands)

    def evaluate(rows: Rows) -> Datum:
        if not width:
            return pa.array([[]] * rows.count, wanted)
        values = _interleaved(_columns(call, rows, [element] * width))
        offsets = pa.array(range(0, (rows.count + 1) * width, width), pa.int32())
        return pa.ListArray.from_arrays(offsets, values).cast(wanted)

    return evaluate


@function("MAP", kind=KernelKind.VALUES)
def _map_call(call: ScalarCall) -> Evaluate:
    """Builds MAP; the last value of a duplicate key counts."""
    key, item = call.type.children
    width = len(call.operands) // 2

    def evaluate(rows: Rows) -> Datum:
        columns = _columns(call, rows, [key, item] * width)
        if width == 1:
            return pa.MapArray.from_arrays(pa.array(range(rows.count + 1), pa.int32()), *columns).cast(call.arrow)
        lists = [python_values(column) for column in columns]
        return pa.array(
            [_unique_pairs(zip(one[::2], one[1::2], strict=True)) for one in zip(*lists, strict=True)]
            if lists
            else [[]] * rows.count,
            call.arrow,
        )

    return evaluate


def _unique_pairs(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    found: dict[Any, tuple[Any, Any]] = {}
    for key, value in pairs:
        found[_key(key)] = (key, value)
    return list(found.values())


def _key(value: Any) -> Any:
    """Returns a hashable form that equal values have in common."""
    match value:
        case list():
            return ("list", *map(_key, value))
        case tuple():
            return ("pair", *map(_key, value))
        case dict():
            return ("row", *map(_key, value.values()))
        case float():
            return ("nan",) if value != value else value
        case bool():
            return ("truth", value)
        case _:
            return value


@function("ITEM")
def _item_call(call: ScalarCall) -> Evaluate:
    """Builds ITEM: the element at a position from 1, or the value of a key; null where there is none."""
    root = call.operands[0].type.root
    if root is TypeRoot.ARRAY:

        def at(values: list[Any], index: int) -> Any:
            return values[index - 1] if 1 <= index <= len(values) else None

        index = call.operands[1]
        if index.is_literal and index.literal is not None and index.literal >= 1:
            return elementwise(call, lambda lists: _element(lists, index.literal - 1), columns=[0])
        return by_value(call, at)
    if root is TypeRoot.MAP:
        missing = _missing_item(call.operands[0].type.children[1])

        def value_of(pairs: list[tuple[Any, Any]], key: Any) -> Any:
            wanted = _key(key)
            return next((value for one, value in pairs if _key(one) == wanted), missing)

        return by_value(call, value_of)
    raise call.refuse()


def _missing_item(type: LogicalType) -> Any:
    """Returns the value for a missing key: null, or for values that are NOT NULL the initial value in Flink's generated code
    (``CodeGenUtils.primitiveDefaultValue``)."""
    if type.nullable:
        return None
    match type.root:
        case TypeRoot.TINYINT | TypeRoot.SMALLINT | TypeRoot.INTEGER | TypeRoot.BIGINT | TypeRoot.DATE | TypeRoot.TIME:
            return -1
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return -1.0
        case TypeRoot.BOOLEAN:
            return False
        case TypeRoot.VARCHAR | TypeRoot.CHAR:
            return ""
    return None


def _element(lists: pa.Array, index: int) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    starts = list_offsets(lists).slice(0, len(lists))
    places = if_else(pc.greater(lengths, index), pc.add(starts, index), pa.scalar(None, pa.int32()))
    return lists.flatten().take(places)


@function("CARDINALITY")
def _cardinality_call(call: ScalarCall) -> Evaluate:
    if call.operands[0].type.root not in (TypeRoot.ARRAY, TypeRoot.MAP, TypeRoot.MULTISET):
        raise call.refuse()

    def count(array: pa.Array) -> pa.Array:
        if pa.types.is_map(array.type):
            array = array.cast(pa.list_(pa.struct([("k", array.type.key_type), ("v", array.type.item_type)])))
        return pc.list_value_length(array)

    return elementwise(call, count)


@function("ELEMENT", kind=KernelKind.VALUES, may_fail=True)
def _element_call(call: ScalarCall) -> Evaluate:
    def only(values: list[Any]) -> Any:
        if len(values) > 1:
            raise EvaluationError(f"ELEMENT: the array has {len(values)} elements, not one")
        return values[0] if values else None

    return by_value(call, only)


def _array_function(name: str, compute: Callable[..., Any], *, is_strict: bool = True) -> None:
    @function(name, kind=KernelKind.VALUES)
    def build(call: ScalarCall) -> Evaluate:
        if call.operands[0].type.root is not TypeRoot.ARRAY:
            raise call.refuse()
        return by_value(call, compute, is_strict=is_strict)


def _first_of_each(values: Iterable[Any]) -> list[Any]:
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(_key(value), value)
    return list(found.values())


def _contains(values: list[Any] | None, value: Any) -> bool | None:
    return None if values is None else _key(value) in {_key(one) for one in values}


def _position(values: list[Any] | None, value: Any) -> int | None:
    if values is None or value is None:
        return None
    wanted = _key(value)
    return next((index for index, one in enumerate(values, 1) if _key(one) == wanted), 0)


def _except(values: list[Any] | None, others: list[Any] | None) -> list[Any] | None:
    if values is None:
        return None
    left = {}
    for one in others or []:
        left[_key(one)] = True
    return [one for one in _first_of_each(values) if _key(one) not in left]


def _intersect(values: list[Any], others: list[Any]) -> list[Any]:
    keys = {_key(one) for one in others}
    return [one for one in _first_of_each(values) if _key(one) in keys]


def _slice(values: list[Any], start: int, end: int | None = None) -> list[Any]:
    """Slices a list by positions from 1, negative ones counting from the end."""
    count = len(values)
    end = count if end is None else end
    first = start - 1 if start > 0 else max(count + start, 0) if start < 0 else 0
    last = end if end > 0 else count + end + 1 if end < 0 else 1
    return values[first : min(last, count)] if first < last else []


def _join(values: list[Any], separator: str, missing: str | None = None) -> str:
    kept = [missing if value is None else value for value in values]
    return separator.join(value for value in kept if value is not None)


def _sort(values: list[Any], ascending: bool = True, nulls_first: bool | None = None) -> list[Any]:
    first = ascending if nulls_first is None else nulls_first
    nulls = [value for value in values if value is None]
    rest = sorted((value for value in values if value is not None), key=cmp_to_key(_compare), reverse=not ascending)
    return nulls + rest if first else rest + nulls


def _compare(left: Any, right: Any) -> int:
    return 0 if left == right else -1 if left < right else 1


def _best(values: list[Any], choose: Callable[[list[Any]], Any]) -> Any:
    kept = [value for value in values if value is not None]
    return choose(kept) if kept else None


_array_function("ARRAY_CONTAINS", _contains, is_strict=False)
_array_function("ARRAY_DISTINCT", _first_of_each)
_array_function("ARRAY_CONCAT", lambda *lists: [value for one in lists for value in one])
_array_function("ARRAY_SORT", _sort)
_array_function("ARRAY_MAX", lambda values: _best(values, max))
_array_function("ARRAY_MIN", lambda values: _best(values, min))
_array_function("ARRAY_JOIN", _join)
_array_function("ARRAY_SLICE", _slice)
_array_function("ARRAY_POSITION", _position, is_strict=False)
_array_function("ARRAY_REVERSE", lambda values: values[::-1])
_array_function("ARRAY_UNION", lambda values, others: _first_of_each([*values, *others]))
_array_function("ARRAY_EXCEPT", _except, is_strict=False)
_array_function("ARRAY_INTERSECT", _intersect)
_array_function("ARRAY_APPEND", lambda values, value: None if values is None else [*values, value], is_strict=False)
_array_function("ARRAY_PREPEND", lambda values, value: None if values is None else [value, *values], is_strict=False)
_array_function(
    "ARRAY_REMOVE",
    lambda values, value: None if values is None else [one for one in values if _key(one) != _key(value)],
    is_strict=False,
)


def _entries(array: pa.Array) -> pa.Array:
    return array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))


def _of_map(index: int) -> Callable[[pa.Array], pa.Array]:
    def part(array: pa.Array) -> pa.Array:
        entries = _entries(array)
        return pa.ListArray.from_arrays(
            list_offsets(entries), pc.struct_field(entries.flatten(), index), mask=array.is_null()
        )

    return part


@function("MAP_KEYS")
def _map_keys_call(call: ScalarCall) -> Evaluate:
    return elementwise(call, _of_map(0))


@function("MAP_VALUES")
def _map_values_call(call: ScalarCall) -> Evaluate:
    return elementwise(call, _of_map(1))


@function("MAP_ENTRIES")
def _map_entries_call(call: ScalarCall) -> Evaluate:
    return elementwise(call, _entries)


@function("MAP_UNION", kind=KernelKind.VALUES)
def _map_union_call(call: ScalarCall) -> Evaluate:
    return by_value(call, lambda *maps: _unique_pairs(pair for one in maps for pair in one))


@function("MAP_FROM_ARRAYS", kind=KernelKind.VALUES, may_fail=True)
def _map_from_arrays_call(call: ScalarCall) -> Evaluate:
    def combined(keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
        if len(keys) != len(values):
            raise EvaluationError(
                f"MAP_FROM_ARRAYS: the arrays have different lengths, {len(keys)} keys and {len(values)} values"
            )
        return list(zip(keys, values, strict=True))

    return by_value(call, combined)


_SUMMARIES = (
    (re.compile(r"\bVARCHAR\(2147483647\)"), "STRING"),
    (re.compile(r"\bVARBINARY\(2147483647\)"), "BYTES"),
    (re.compile(r"\bTIMESTAMP\((\d)\) WITH LOCAL TIME ZONE"), r"TIMESTAMP_LTZ(\1)"),
)
"""Names of types in Flink's ``asSummaryString`` that differ from serialized types."""


@function("TYPEOF")
def _typeof_call(call: ScalarCall) -> Evaluate:
    text = str(call.operands[0].type)
    for name, summary in _SUMMARIES:
        text = name.sub(summary, text)
    return lambda rows: pa.scalar(text)
