"""Hashes of keys that agree with Flink's: for Arrow columns (``hash_columns``), for one value (``values``), and for keys that functions make
(``tidegate.records.keys``).

A hash is 32 bits, signed, and Java's ``hashCode`` of the type that Flink's key would have, so that key groups agree
with Flink's. Laws: the three functions agree exactly; keys of one type that are equal in Python hash alike; the result
depends on no process, machine or ``PYTHONHASHSEED``.

    Python key (Arrow column)        hash, as in Java
    -------------------------------  ------------------------------------------------------------------------------
    None (null of any type)          0
    bool                             Boolean: 1231 or 1237
    int (int8..int64, uint8..64)     Long: low xor high 32 bits, also for narrow columns: equal values of int32 and int64
                                     columns hash alike (Integer's hash for small values >= 0). Beyond 64 bits: BigInteger
    float (float16..64)              Double of the widened value; one NaN; -0.0 as 0.0, as in all earlier versions: two keys of one group
    str (string)                     String: s[0]*31^(n-1) + ... over UTF-16 units
    bytes (binary)                   Arrays.hashCode(byte[]): starts at 1, signed bytes
    tuple, list, Row (columns)       Arrays.hashCode(Object[]): starts at 1, h = 31*h + hash(e). Several key columns are
                                     a tuple; one key column is the value itself, not a tuple of one
    Decimal (decimal)                as the int when it is whole (1.0 == 1 in Python, and BIG_INT travels as a decimal), else
                                     BigDecimal without trailing zeros
    date                             LocalDate
    time                             LocalTime: Long of the nanosecond of the day
    datetime (timestamp)             Instant (seconds, nanoseconds); without a time zone read as UTC
    timedelta (duration)             Duration (seconds, nanoseconds)
    frozenset                        Set: sum of the elements
    Enum, dataclass                  String of the member's name; tuple of the fields
    anything else                    bytes of its pickle, written without memo (equal values, equal bytes)

Key groups and their owners (``key_groups``, ``subtasks_of``) are ``tidegate.model.keygroups`` on whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.keys.polynomial import hash_binary, hash_text
from tidegate.columnar.keys.values import FALSE_HASH, NAN_BITS, NANOS_FACTOR, TRUE_HASH, ValueHashes
from tidegate.columnar.numpy_column import NumpyColumn
from tidegate.model.errors import SchemaMismatch

Hashes = npt.NDArray[np.int32]
Unsigned = npt.NDArray[np.uint32]
_VALUES = ValueHashes()
_CHUNK = 1 << 14
"""How many values are hashed at a time: intermediate results then stay in the second-level cache."""


def hash_columns(columns: Sequence[pa.Array]) -> Hashes:
    """Returns the hash of each row's key: of its value, or of the tuple of values of several columns.

    Raises ``SchemaMismatch`` for a column type that cannot be a key.
    """
    if not columns:
        raise SchemaMismatch("a key needs at least one column")
    if len(columns) == 1:
        return hash_array(columns[0]).view(np.int32)
    return combine([hash_array(column) for column in columns]).view(np.int32)


def key_groups(hashes: Hashes, max_parallelism: int) -> Hashes:
    """Returns the key group of each hash, as ``keygroups.key_group`` does for one."""
    found = np.empty(len(hashes), np.uint32)
    scratch = np.empty(min(_CHUNK, len(hashes)), np.uint32)
    codes = hashes.view(np.uint32)
    for start in range(0, len(codes), _CHUNK):
        part = found[start : start + _CHUNK]
        _murmur(codes[start : start + _CHUNK], part, scratch[: len(part)])
        if max_parallelism & (max_parallelism - 1) == 0:
            np.bitwise_and(part, np.uint32(max_parallelism - 1), out=part)
        else:
            np.remainder(part, np.uint32(max_parallelism), out=part)
    return found.view(np.int32)


def subtasks_of(groups: Hashes, max_parallelism: int, parallelism: int) -> Hashes:
    """Returns the subtask that owns each key group, as ``keygroups.subtask_of`` does for one."""
    found = groups.view(np.uint32) * np.uint32(parallelism)  # below 2**30: both are at most 2**15
    if max_parallelism & (max_parallelism - 1) == 0:
        np.right_shift(found, np.uint32(max_parallelism.bit_length() - 1), out=found)
    else:
        np.floor_divide(found, np.uint32(max_parallelism), out=found)
    return found.view(np.int32)


def _murmur(codes: Unsigned, out: Unsigned, scratch: Unsigned) -> None:
    """Computes ``keygroups.murmur`` of a column into ``out``, with wrap-around."""
    np.multiply(codes, np.uint32(0xCC9E2D51), out=out)
    _rotate(out, 15, scratch)
    np.multiply(out, np.uint32(0x1B873593), out=out)
    _rotate(out, 13, scratch)
    np.multiply(out, np.uint32(5), out=out)
    np.add(out, np.uint32(0xE6546B64), out=out)
    np.bitwise_xor(out, np.uint32(4), out=out)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 0)):
        np.right_shift(out, np.uint32(shift), out=scratch)
        np.bitwise_xor(out, scratch, out=out)
        if factor:
            np.multiply(out, np.uint32(factor), out=out)
    signed = out.view(np.int32)
    np.abs(signed, out=signed)  # leaves -2**31, which becomes 0
    np.bitwise_and(out, np.uint32(0x7FFFFFFF), out=out)


def _rotate(values: Unsigned, left: int, scratch: Unsigned) -> None:
    np.right_shift(values, np.uint32(32 - left), out=scratch)
    np.left_shift(values, np.uint32(left), out=values)
    np.bitwise_or(values, scratch, out=values)


def combine(hashes: Sequence[Unsigned]) -> Unsigned:
    """Combines columns of element hashes as Java's ``Arrays.hashCode`` does."""
    code = np.full(len(hashes[0]), 1, np.uint32)
    for column in hashes:
        np.multiply(code, np.uint32(31), out=code)
        np.add(code, column, out=code)
    return code


def hash_array(column: pa.Array | pa.ChunkedArray) -> Unsigned:
    """Returns the hash of each value of one column; of nulls it is 0. Raises ``SchemaMismatch`` as ``hash_columns`` does."""
    if isinstance(column, pa.ChunkedArray):
        parts = [hash_array(chunk) for chunk in column.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.uint32)
    if pa.types.is_null(column.type) or len(column) == 0:
        return np.zeros(len(column), np.uint32)
    hashes = _kernel_of(column.type)(column)
    if column.null_count:
        hashes[np.asarray(column.is_null())] = 0
    return hashes


def _kernel_of(kind: pa.DataType) -> Callable[[pa.Array], Unsigned]:
    """Returns the function that hashes a column of this type. The hashes of nulls' underlying values are arbitrary."""
    types = pa.types
    table: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Unsigned]], ...] = (
        (types.is_uint64, _hash_uint64),
        (types.is_integer, lambda c: fold(_values(c).astype(np.int64, copy=False))),
        (types.is_floating, lambda c: hash_floats(_values(c))),
        (types.is_boolean, _hash_booleans),
        (types.is_large_string, hash_text),
        (types.is_large_binary, hash_binary),
        (lambda t: types.is_string(t) or str(t) == "string_view", lambda c: hash_text(c.cast(pa.large_string()))),
        (
            lambda t: types.is_binary(t) or types.is_fixed_size_binary(t) or str(t) == "binary_view",
            lambda c: hash_binary(c.cast(pa.large_binary())),
        ),
        (types.is_timestamp, _hash_instants),
        (types.is_duration, _hash_instants),
        (types.is_time, _hash_times),
        (types.is_dictionary, _hash_dictionary),
        (types.is_struct, lambda c: combine([hash_array(child) for child in c.flatten()])),
        (types.is_date, _hash_dates),
        (types.is_decimal, _hash_distinct),
        (lambda t: types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t), _hash_one_by_one),
        (types.is_map, _hash_one_by_one),  # of its pairs in their order
    )
    for matches, kernel in table:
        if matches(kind):
            return kernel
    raise SchemaMismatch(f"a column of type {kind} cannot be a key; cast it to a string, a number or a struct first")


def _values(column: pa.Array) -> NumpyColumn:
    """Returns the column's values as a NumPy array, whatever its nulls: its buffer, or zeros where there is none."""
    buffer = column.buffers()[1]
    kind = np.dtype(column.type.to_pandas_dtype())
    if buffer is None:
        return np.zeros(len(column), kind)
    values: NumpyColumn = np.frombuffer(buffer, kind, len(column), column.offset * kind.itemsize)
    return values


def fold(values: NumpyColumn) -> Unsigned:
    """Returns ``Long.hashCode`` of 64-bit values: low word xor high word."""
    words = np.ascontiguousarray(values).view(np.uint32)
    return words[0::2] ^ words[1::2]


def _hash_uint64(column: pa.Array) -> Unsigned:
    values = _values(column)
    words = values.view(np.uint32)
    low, high = words[0::2], words[1::2]
    beyond = high * np.uint32(31) + low  # BigInteger.hashCode of two words
    return np.where(high >> 31, beyond, low ^ high)


def hash_floats(values: NumpyColumn) -> Unsigned:
    """Returns the hash of each float: ``Double.hashCode``, with -0.0 as 0.0 and every NaN as one."""
    wide = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    bits = wide.view(np.uint64)
    bits[np.isnan(wide)] = NAN_BITS
    return fold(bits)


def _hash_booleans(column: pa.Array) -> Unsigned:
    truth = np.asarray(column.fill_null(False).cast(pa.uint8())).astype(bool)
    return np.where(truth, np.uint32(TRUE_HASH), np.uint32(FALSE_HASH))


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _int64s(column: pa.Array) -> npt.NDArray[np.int64]:
    return _values(column.cast(pa.int32()).cast(pa.int64()) if column.type.bit_width == 32 else column.view(pa.int64()))


def _hash_instants(column: pa.Array) -> Unsigned:
    per_second = _PER_SECOND[column.type.unit]
    seconds, fraction = np.divmod(_int64s(column), per_second)
    nanos = (fraction * (10**9 // per_second)).astype(np.uint32)
    return fold(seconds) + nanos * np.uint32(NANOS_FACTOR)


def _hash_dates(column: pa.Array) -> Unsigned:
    days = _values(column.cast(pa.date32()).view(pa.int32())).astype("M8[D]")
    months = days.astype("M8[M]")
    month_numbers = months.astype(np.int64)
    year, month = month_numbers // 12 + 1970, month_numbers % 12 + 1
    day = (days - months).astype(np.int64) + 1
    code = (year & 0xFFFFF800) ^ ((year << 11) + (month << 6) + day)
    found: Unsigned = (code & 0xFFFFFFFF).astype(np.uint32)
    return found


def _hash_times(column: pa.Array) -> Unsigned:
    return fold(_int64s(column) * (10**9 // _PER_SECOND[column.type.unit]))


def _hash_dictionary(column: pa.Array) -> Unsigned:
    values = hash_array(column.dictionary)
    found: Unsigned = values.take(np.asarray(column.indices.fill_null(0)), mode="clip") if len(values) else values
    return found if len(values) else np.zeros(len(column), np.uint32)


def _hash_distinct(column: pa.Array) -> Unsigned:
    encoded = pc.dictionary_encode(column)
    distinct = _hash_one_by_one(encoded.dictionary)
    if len(distinct) == 0:
        return np.zeros(len(column), np.uint32)
    found: Unsigned = distinct.take(np.asarray(encoded.indices.fill_null(0)))
    return found


def _hash_one_by_one(column: pa.Array) -> Unsigned:
    return np.fromiter(map(_VALUES.of, column.to_pylist()), np.int32, len(column)).view(np.uint32)
