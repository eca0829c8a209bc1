"""Helpers that build kernels: of Arrow functions, of NumPy functions, of Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.functions.sql.scalar.registry import Datum, Evaluate, Rows, ScalarCall, as_array


def if_else(condition: pa.Array, left: Any, right: Any) -> pa.Array:
    """Calls ``pyarrow.compute.if_else`` without null scalars, for which pyarrow 23 computes wrong offsets on slices of texts."""
    arrays = [
        pa.nulls(len(condition), one.type) if isinstance(one, pa.Scalar) and not one.is_valid else one
        for one in (left, right)
    ]
    return pc.if_else(condition, *arrays)


def arrow_kernel(call: ScalarCall, function: Callable[..., Datum]) -> Evaluate:
    """Builds a kernel of an Arrow function that accepts columns and constants alike; its result is cast to the type of the call."""
    wanted = call.arrow

    def evaluate(rows: Rows) -> Datum:
        found = function(*(operand.evaluate(rows) for operand in call.operands))
        return found if found.type == wanted else found.cast(wanted)

    return evaluate


def elementwise(
    call: ScalarCall, function: Callable[..., pa.Array], *, columns: Sequence[int] | None = None
) -> Evaluate:
    """Builds a kernel of a function of arrays, of the operands at ``columns`` (default: all). If all are constants it is called with arrays of one value."""
    operands = call.operands if columns is None else [call.operands[index] for index in columns]
    wanted = call.arrow

    def evaluate(rows: Rows) -> Datum:
        data = [operand.evaluate(rows) for operand in operands]
        if data and all(isinstance(datum, pa.Scalar) for datum in data):
            return _typed(function(*(as_array(datum, 1) for datum in data)), wanted)[0]
        return _typed(function(*(as_array(datum, rows.count) for datum in data)), wanted)

    return evaluate


def by_value(
    call: ScalarCall, function: Callable[..., Any], *, columns: Sequence[int] | None = None, is_strict: bool = True
) -> Evaluate:
    """Builds a kernel of a Python function. It is called once for each distinct value of a single text or number, otherwise for each row.
    ``is_strict``: the result is null if an argument is, without a call. Times are numbers, rows are dicts by field, maps are lists of pairs."""
    wanted = call.arrow
    taken = list(range(len(call.operands)) if columns is None else columns)
    computed = [index for index in taken if not call.operands[index].is_literal]
    if len(computed) == 1 and len(taken) > 1:
        constants = [call.operands[index].literal for index in taken]
        if is_strict and any(call.operands[i].is_literal and call.operands[i].literal is None for i in taken):
            return lambda rows: pa.scalar(None, wanted)
        place, whole = taken.index(computed[0]), function
        taken = computed

        def function(value: Any) -> Any:
            return whole(*constants[:place], value, *constants[place + 1 :])

    def over(*arrays: pa.Array) -> pa.Array:
        if len(arrays) == 1 and not pa.types.is_nested(arrays[0].type) and not pa.types.is_null(arrays[0].type):
            return distinct(arrays[0], function, wanted, is_strict)
        rows = zip(*(python_values(array) for array in arrays), strict=True)
        if is_strict:
            return pa.array([None if None in row else function(*row) for row in map(_Row, rows)], wanted)
        return pa.array([function(*row) for row in rows], wanted)

    return elementwise(call, over, columns=taken)


class _Row(tuple[Any, ...]):
    """A row of arguments in which ``in`` finds only ``None`` itself."""

    __slots__ = ()

    def __contains__(self, value: object) -> bool:
        return any(one is value for one in self)


def distinct(array: pa.Array, function: Callable[[Any], Any], type: pa.DataType, is_strict: bool = True) -> pa.Array:
    """Returns the results of a function of one argument, called once for each distinct value."""
    if len(array) < 32:
        return pa.array(
            [None if value is None and is_strict else function(value) for value in python_values(array)], type
        )
    encoded = array.dictionary_encode()
    results = pa.array([function(value) for value in python_values(encoded.dictionary)], type)
    found = results.take(encoded.indices)
    if is_strict or not encoded.indices.null_count:
        return found
    return if_else(encoded.indices.is_valid(), found, pa.scalar(function(None), type))


def plain_type(type: pa.DataType) -> pa.DataType:
    """Returns the type with numbers in place of times."""
    if pa.types.is_temporal(type):
        return pa.int32() if type.bit_width == 32 else pa.int64()
    if pa.types.is_map(type):
        return pa.map_(plain_type(type.key_type), plain_type(type.item_type))
    if pa.types.is_list(type):
        return pa.list_(plain_type(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in type])
    return type


def python_values(array: pa.Array) -> list[Any]:
    """Returns the values as Python has them, with numbers in place of times."""
    plain = plain_type(array.type)
    values: list[Any] = (array if plain == array.type else array.cast(plain)).to_pylist()
    return values


def longs(array: pa.Array) -> npt.NDArray[np.int64]:
    """Returns whole numbers or times as 64-bit numbers; 0 for null."""
    plain = plain_type(array.type)
    if plain != array.type:
        array = array.cast(plain)
    return to_numpy(array.cast(pa.int64()))


def to_numpy(array: pa.Array) -> npt.NDArray[Any]:
    """Returns the values of a column of numbers or truths; 0 for null."""
    found: npt.NDArray[Any] = (array.fill_null(0 if not pa.types.is_boolean(array.type) else False)).to_numpy(
        zero_copy_only=False
    )
    return found


def null_mask(*arrays: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Returns where one of the columns is null, ``None`` if nowhere."""
    found: npt.NDArray[np.bool_] | None = None
    for array in arrays:
        if array.null_count:
            mask = array.is_null().to_numpy(zero_copy_only=False)
            found = mask if found is None else found | mask
    return found


def from_numpy(values: npt.NDArray[Any], type: pa.DataType, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Returns a column of numbers, truths or times (given as numbers); null where ``mask`` is true. Whole numbers wrap to the width."""
    if pa.types.is_temporal(type):
        number = pa.int32() if type.bit_width == 32 else pa.int64()
        return from_numpy(values, number, mask).cast(type)
    if not pa.types.is_boolean(type):
        values = values.astype(type.to_pandas_dtype(), copy=False)
    return pa.array(values, type=type, mask=mask)


def _typed(array: Datum, wanted: pa.DataType) -> pa.Array:
    return array if array.type == wanted else array.cast(wanted)
