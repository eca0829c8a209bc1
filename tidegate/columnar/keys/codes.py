"""Keys as dense codes: every distinct combination of key columns becomes a small integer, so that aggregation is one
scatter into an array instead of a hash table for each row.

    integers in a narrow range   code = value - minimum                      (no hashing at all)
    many different keys          code = place among the sorted hashes        (``keys.sorted_codes``)
    anything else                code = index into the column's dictionary   (one hash per row)
    several columns              mixed radix of their codes, compacted by a dictionary when that grows too wide

NaN is one key, 0.0 and -0.0 are two, and null is a key of its own, as for keys of records
(``tidegate.records.canonical.forms``). Codes mean something only together with the ``KeyCodes`` that made them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.columnar.keys.mixing import mix
from tidegate.columnar.keys.sorted_codes import SortedKeys, sort_keys
from tidegate.columnar.keys.words import words_of
from tidegate.columnar.numpy_column import NumpyColumn
from tidegate.model.errors import SchemaMismatch

Codes = npt.NDArray[np.intp]
Decoder = Callable[[Codes], pa.Array]

MIN_DENSE = 1 << 16
"""The range of integers that is always used without hashing; a wider one is, up to four times the rows."""
MIN_SORTED_ROWS = 1 << 14
"""The smallest number of rows that is sorted: the hash table of fewer rows fits the second-level cache."""
SAMPLE_STRETCHES, SAMPLE_STRETCH = 16, 512
"""How many runs of how many rows are sampled to estimate the share of distinct keys."""
MANY_KEYS = 0.5
"""The share of distinct keys above which rows are sorted: a hash table of fewer keys fits the cache, which is faster."""


class KeyCodes:
    """Dense codes of keys. ``codes`` has an entry for each row, below ``cardinality``. ``decode`` returns the key columns of some codes. With
    ``rows_by_key``, codes are computed when they are first used."""

    def __init__(
        self,
        codes: Codes | None,
        cardinality: int,
        decode: Callable[[Codes], list[pa.Array]],
        rows_by_key: SortedKeys | None = None,
    ) -> None:
        self._codes = codes
        self.cardinality = cardinality
        self.decode = decode
        self.rows_by_key = rows_by_key

    @property
    def codes(self) -> Codes:
        """Returns the code of each row, below ``cardinality``."""
        if self._codes is None:
            assert self.rows_by_key is not None
            self._codes = self.rows_by_key.codes()
        return self._codes

    @property
    def are_distinct(self) -> bool:
        """Returns whether each key occurs once, if that is known; ``False`` does not exclude it."""
        if self.rows_by_key is not None:
            return self.cardinality == len(self.rows_by_key.order)
        return bool((self.codes[1:] > self.codes[:-1]).all())


def encode_keys(columns: Sequence[pa.Array], rows: int, operator: str) -> KeyCodes:
    """Encodes the keys of the rows of ``columns``. Raises ``SchemaMismatch`` for a type that cannot be a key."""
    limit = max(MIN_DENSE, 4 * rows)
    if not columns:
        return KeyCodes(np.zeros(rows, np.intp), 1, lambda _: [])
    by_sorting = _encode_many(columns, rows, limit)
    if by_sorting is not None:
        return by_sorting
    codes, cardinality, first = _encode_column(columns[0], limit, operator)
    if len(columns) == 1:
        return KeyCodes(codes, cardinality, lambda wanted: [first(wanted)])
    decoders: list[Decoder] = [first]
    radices = [cardinality]
    compactions: list[npt.NDArray[np.int64] | None] = [None]
    for column in columns[1:]:
        right, width, decoder = _encode_column(column, limit, operator)
        codes = codes * width + right
        cardinality *= width
        compaction = None
        if cardinality > limit:
            codes, compaction = _compact(codes)
            cardinality = len(compaction)
        decoders.append(decoder)
        radices.append(width)
        compactions.append(compaction)

    def decode(wanted: Codes) -> list[pa.Array]:
        found: list[pa.Array] = []
        rest: NumpyColumn = wanted
        for decoder, width, compaction in zip(
            reversed(decoders[1:]), reversed(radices[1:]), reversed(compactions[1:]), strict=True
        ):
            if compaction is not None:
                rest = compaction[rest]
            rest, digit = np.divmod(rest, width)
            found.append(decoder(digit))
        found.append(decoders[0](rest))
        return found[::-1]

    return KeyCodes(codes, cardinality, decode)


def share_of_keys(columns: Sequence[pa.Array], rows: int) -> float | None:
    """Estimates the share of distinct keys from a sample; ``None`` when their type has no words. The sample consists of runs of rows, so that keys that
    repeat in a row count as repeated."""
    step = max(SAMPLE_STRETCH, rows // SAMPLE_STRETCHES)
    starts = range(0, rows, step)
    stretches = [
        pa.concat_arrays([column.slice(at, SAMPLE_STRETCH) for at in starts]) for column in map(plain, columns)
    ]
    words = words_of(stretches)
    if words is None:
        return None
    hashes = np.sort(mix(words))  # ``np.unique`` has a hash table, which takes ten times as long
    return (1 + int(np.count_nonzero(hashes[1:] != hashes[:-1]))) / len(hashes)


def _encode_many(columns: Sequence[pa.Array], rows: int, limit: int) -> KeyCodes | None:
    """Encodes keys by sorting, where that is better: many keys, mostly distinct, and too far apart for arrays; else returns ``None``."""
    if rows < MIN_SORTED_ROWS or _width(columns, limit) < limit:
        return None
    share = share_of_keys(columns, rows)
    if share is None or share < MANY_KEYS:
        return None
    columns = [plain(column) for column in columns]
    words = words_of([column for column in columns if not _is_constant(column)])
    found = None if words is None else sort_keys(words)
    if found is None:
        return None
    leaders = found.leaders

    def decode(wanted: Codes) -> list[pa.Array]:
        taken = pa.array(leaders.take(wanted))
        return [column.take(taken) for column in columns]

    return KeyCodes(None, len(leaders), decode, found)


def _width(columns: Sequence[pa.Array], limit: int) -> int:
    """Returns how many codes the columns have as ranges of integers; ``limit`` when that is too many, or they are not integers."""
    width = 1
    for column in columns:
        integers = None if pa.types.is_dictionary(column.type) or column.null_count else integer_view(column)
        if integers is None or not len(column):
            return limit
        values = as_numpy(integers)
        width *= int(values.max()) - int(values.min()) + 1
        if width >= limit:
            return limit
    return width


def _is_constant(column: pa.Array) -> bool:
    """Returns whether an integer column has the same value in all rows, as the column of window numbers often has."""
    if column.null_count or not pa.types.is_integer(column.type):
        return False
    values = as_numpy(column)
    return bool(values[0] == values[-1]) and bool((values == values[0]).all())


def plain(column: pa.Array) -> pa.Array:
    """Returns a column in the form that is compared: no dictionary, one NaN."""
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return normalise_floats(column) if pa.types.is_floating(column.type) else column


def integer_view(column: pa.Array) -> pa.Array | None:
    """Returns a view of the column as integers of the same width if its values are stored as such (dates, instants), else ``None``."""
    kind = column.type
    if pa.types.is_integer(kind):
        return column
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return None


def as_numpy(column: pa.Array) -> NumpyColumn:
    """Returns numbers without nulls as a NumPy array, without a copy where Arrow's layout allows it."""
    values: NumpyColumn = column.to_numpy(zero_copy_only=False)
    return values


def numbers_of(column: pa.Array) -> NumpyColumn:
    """Returns the values of a column without nulls, one item each: dates and instants as the integers that they are inside."""
    integers = integer_view(column)
    return as_numpy(column if integers is None else integers)


def normalise_floats(column: pa.Array) -> pa.Array:
    """Replaces every NaN by the same one. Nulls stay."""
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)


def _encode_column(column: pa.Array, limit: int, operator: str) -> tuple[Codes, int, Decoder]:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if len(column) and column.null_count == 0:
        integers = integer_view(column)
        if integers is not None:
            values = as_numpy(integers)
            low, high = int(values.min()), int(values.max())
            if high - low < limit:
                return _narrow(values, low), high - low + 1, range_decoder(low, integers.type, column.type)
    if pa.types.is_floating(column.type):
        column = normalise_floats(column)
    try:
        encoded = column.dictionary_encode(null_encoding="encode")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise SchemaMismatch(
            f"operator '{operator}': a column of type {column.type} cannot be a key ({error}); take another column, or cast it to a "
            "string or a number before key_by"
        ) from error
    dictionary = encoded.dictionary
    codes = as_numpy(encoded.indices).astype(np.intp, copy=False)
    return codes, max(1, len(dictionary)), lambda wanted: dictionary.take(pa.array(wanted))


def _narrow(values: NumpyColumn, low: int) -> Codes:
    if low == 0:
        return values.astype(np.intp, copy=False)
    if values.dtype == np.int64:
        return values - low
    if values.dtype == np.uint64:
        return (values - np.uint64(low)).astype(np.intp)
    return values.astype(np.intp) - low


def range_decoder(low: int, integers: pa.DataType, kind: pa.DataType) -> Decoder:
    """Returns the decoder of codes of a range: code 0 is ``low``; ``integers``: the integer type in which ``kind`` is stored."""

    def decode(wanted: Codes) -> pa.Array:
        if integers == pa.uint64():
            return pa.array(wanted.astype(np.uint64) + np.uint64(low)).view(kind)
        found = pa.array(wanted + low, pa.int64())
        return found if kind == pa.int64() else found.cast(integers).view(kind)

    return decode


def _compact(codes: Codes) -> tuple[Codes, npt.NDArray[np.int64]]:
    """Compacts codes by sorting, which beats a hash table when most are distinct; preserves their order."""
    order = np.argsort(codes)
    ordered = codes[order]
    begins = np.ones(len(codes), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    compacted = np.empty(len(codes), np.intp)
    compacted[order] = np.cumsum(begins) - 1
    return compacted, ordered[begins].astype(np.int64, copy=False)
