"""Sketches, that is, partials of more than one number: first and last by time, distinct values, quantiles, spread.

    scatter            state of a key (Arrow type)                          merged by
    first, last        struct(at, value)                                    the earliest, the latest
    moments            struct(n, mean, m2)                                  Chan's formula: exact up to rounding. m2 below zero: minus
                                                                            its root times 2**-600, where it is no float64
    distinct           list of the ``MOST_HASHES`` smallest hashes          union; exact below that many values
    buckets            list of (bucket, count), buckets of 2 % width        sum

Rows become states by the scatter of that name, states are merged by the one with ``_merge`` (first and last: by the same).
All of it is sorting and scattering in numpy: nothing runs for each row or key in Python, but for the distinct texts of a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from tidegate.columnar.keys.codes import Codes, as_numpy, integer_view, normalise_floats
from tidegate.columnar.keys.mixing import splitmix64
from tidegate.columnar.numpy_column import NumpyColumn

JointScatter = Literal[
    "first", "last", "moments", "moments_merge", "distinct", "distinct_merge", "buckets", "buckets_merge"
]
JOINT = frozenset(
    {"first", "last", "moments", "moments_merge", "distinct", "distinct_merge", "buckets", "buckets_merge"}
)

MOST_HASHES = 1024
"""How many hashes a sketch of distinct values has: larger estimates are right to 3 %, in two cases out of three."""
RELATIVE_ERROR = 0.01
"""The largest relative error of a quantile."""
_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_MIDDLE = 1 << 17
"""Added to the logarithm of a magnitude, which stays below half of it, so that buckets of positive numbers are positive."""
_INFINITE = 1 << 20
_FARTHEST = int(np.log(np.finfo(np.float64).max) / np.log(_GAMMA))
"""The logarithm of the largest number."""
_LARGE = 2.0**400
"""A bound below which squares, and sums of any possible number of them, are float64."""
_SMALLER = 2.0**-600
"""The factor by which larger numbers are scaled: a power of two, so that nothing is rounded; squares of what becomes zero are negligible."""
_MOST_HELD = 1 << 18
"""How many rows are held between two compactions, each of which sorts: several batches of 65,536."""

_HASHES = pa.list_(pa.uint64())
_BUCKETS = pa.list_(pa.struct([("bucket", pa.int64()), ("count", pa.int64())]))
_MOMENTS = pa.struct([("n", pa.float64()), ("mean", pa.float64()), ("m2", pa.float64())])

Floats = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]


class SketchAccumulator(Protocol):
    """Accumulates the states of the codes below some cardinality."""

    def add(self, codes: Codes, column: pa.Array) -> None:
        """Adds rows: row i of ``column``, which has no nulls, belongs to ``codes[i]``."""

    def take(self, present: Codes) -> pa.Array:
        """Returns the states of some codes."""


def state_type(scatter: str, source_type: pa.DataType) -> pa.DataType:
    """Returns the type of a state column: one state for each key. Raises ``KeyError`` for a ``scatter`` without states."""
    if scatter in ("first", "last"):
        return source_type
    return {"moments": _MOMENTS, "distinct": _HASHES, "buckets": _BUCKETS}[scatter.removesuffix("_merge")]


def merging(scatter: str) -> str:
    """Returns the name of the accumulation (scatter) that merges the partial states which ``scatter`` makes of rows.

    It is the same name for ``first``, ``last`` and those that merge already, else the one with ``_merge``.
    """
    return scatter if scatter in ("first", "last") or scatter.endswith("_merge") else f"{scatter}_merge"


def joint_accumulator(scatter: str, kind: pa.DataType, cardinality: int) -> SketchAccumulator:
    """Creates the accumulator of a scatter. ``kind``: its ``state_type``."""
    match scatter:
        case "first" | "last":
            return _ByTime(kind, cardinality, is_last=scatter == "last")
        case "moments" | "moments_merge":
            return _Moments(cardinality, merges=scatter == "moments_merge")
        case "distinct" | "distinct_merge":
            return _Distinct(merges=scatter == "distinct_merge")
        case _:
            return _Buckets(merges=scatter == "buckets_merge")


def timed(column: pa.Array, stamps: pa.Array) -> pa.Array:
    """Makes (time, value) pairs for ``first`` and ``last``; null where the column is."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return pa.StructArray.from_arrays([stamps, column], names=["at", "value"], mask=column.is_null())


def timed_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of values with their event times, ``at``, in ms."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.struct([("at", pa.int64()), ("value", kind)])


def finished(function: str, states: pa.Array) -> pa.Array:
    """Computes the results of ``first``, ``last``, ``stddev``, ``approx_distinct``, ``median`` and ``quantile:<q>`` from states."""
    name, _, argument = function.partition(":")
    match name:
        case "first" | "last":
            return pc.struct_field(states, "value")
        case "stddev":
            n, _, m2 = (as_numpy(part.fill_null(0.0)) for part in states.flatten())
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                spread = np.sqrt(np.where(m2 < 0, m2**2, m2) / (n - 1))
                return pa.array(np.where(m2 < 0, spread / _SMALLER, spread), mask=n < 2)
        case "approx_distinct":
            return _estimates(states)
        case "median":
            return _medians(states)
        case _:
            return _quantiles(states, float(argument))


class _ByTime:
    def __init__(self, kind: pa.DataType, cardinality: int, *, is_last: bool) -> None:
        self._kind = kind
        self._sign = -1 if is_last else 1
        self._at: Int64s = np.zeros(cardinality, np.int64)
        self._place: Int64s = np.full(cardinality, -1, np.int64)
        """The place of each code's value among all that are held; -1: it is not held."""
        self._held: list[pa.Array] = []
        self._rows = 0

    def add(self, codes: Codes, column: pa.Array) -> None:
        if not len(column):
            return
        at = as_numpy(column.field(0))
        order = np.lexsort((at * self._sign, codes))
        sorted_codes = codes[order]
        firsts = order[np.flatnonzero(np.concatenate([[True], sorted_codes[1:] != sorted_codes[:-1]]))]
        if self._sign < 0:  # of equal times the latest row counts
            lasts = np.lexsort((-np.arange(len(at)), -at, codes))
            sorted_codes = codes[lasts]
            firsts = lasts[np.flatnonzero(np.concatenate([[True], sorted_codes[1:] != sorted_codes[:-1]]))]
        which, when = codes[firsts], at[firsts]
        better = (self._place[which] < 0) | (when < self._at[which] if self._sign > 0 else when >= self._at[which])
        which, rows = which[better], firsts[better]
        self._at[which] = at[rows]
        self._place[which] = self._rows + np.arange(len(rows))
        self._held.append(column.field(1).take(pa.array(rows)))
        self._rows += len(rows)
        if self._rows > 2 * len(self._at) + _MOST_HELD:
            present = np.flatnonzero(self._place >= 0)
            self._held = [self._values().take(pa.array(self._place[present]))]
            self._place[present] = np.arange(len(present))
            self._rows = len(present)

    def take(self, present: Codes) -> pa.Array:
        places = self._place[present]
        missing = places < 0
        if not self._held:
            return pa.nulls(len(present), self._kind)
        values = self._values().take(pa.array(places, mask=missing))
        names = [field.name for field in self._kind]
        return pa.StructArray.from_arrays(
            [pa.array(self._at[present]), values], names=names, mask=pa.array(missing)
        ).cast(self._kind)

    def _values(self) -> pa.Array:
        if len(self._held) > 1:
            self._held = [pa.concat_arrays(self._held)]
        return self._held[0]


class _Moments:
    """Accumulates means and squared deviations; those of a code are scaled once a value is so large that squares could leave float64."""

    def __init__(self, cardinality: int, *, merges: bool) -> None:
        self._merges = merges
        self._n: Floats = np.zeros(cardinality)
        self._mean: Floats = np.zeros(cardinality)
        self._m2: Floats = np.zeros(cardinality)
        self._scale: Floats | None = None
        """``None``: 1 for all."""

    def add(self, codes: Codes, column: pa.Array) -> None:
        size = len(self._n)
        if self._merges:
            n, mean, m2 = (as_numpy(part) for part in column.flatten())
        else:
            mean = as_numpy(column).astype(np.float64)
            n, m2 = np.ones(len(mean)), np.zeros(len(mean))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # infinite values have no spread
            self._make_room(codes, mean, m2)
            if self._scale is not None:
                scale = self._scale[codes]
                mean = mean * scale
                m2 = np.where(m2 < 0, m2**2, m2 * scale * scale)
            counts = np.bincount(codes, n, size)
            means = np.where(counts > 0, np.bincount(codes, n * mean, size) / counts, 0.0)
            squares = np.bincount(codes, m2 + n * (mean - means[codes]) ** 2, size)
            total = self._n + counts
            delta = means - self._mean
            share = np.divide(counts, total, out=np.zeros(size), where=total > 0)
            self._m2 += squares + delta**2 * self._n * share
            self._mean += delta * share
            self._n = total

    def take(self, present: Codes) -> pa.Array:
        n, mean, m2 = (part[present] for part in (self._n, self._mean, self._m2))
        if self._scale is not None:
            scale = self._scale[present]
            with np.errstate(over="ignore"):
                mean, squares = mean / scale, m2 / scale / scale
            m2 = np.where(np.isfinite(squares) | ~np.isfinite(m2), squares, -np.sqrt(m2))
        return pa.StructArray.from_arrays([pa.array(part) for part in (n, mean, m2)], fields=list(_MOMENTS))

    def _make_room(self, codes: Codes, mean: Floats, m2: Floats) -> None:
        """Scales the codes that have a large value among these."""
        is_large = (np.abs(mean) > _LARGE) | (m2 > _LARGE * _LARGE) | (m2 < 0)
        large = codes[is_large & np.isfinite(mean)]
        if not len(large):
            return
        if self._scale is None:
            self._scale = np.ones(len(self._n))
        new = np.unique(large)
        new = new[self._scale[new] == 1]
        self._scale[new] = _SMALLER
        self._mean[new] *= _SMALLER
        self._m2[new] *= _SMALLER * _SMALLER


class _Pairs:
    """Accumulates (code, item) pairs, which ``_shrunk`` reduces from time to time."""

    def __init__(self, item: type) -> None:
        self._codes: list[Codes] = []
        self._items: list[NumpyColumn] = []
        self._counts: list[Int64s] = []
        self._item = item
        self._held = 0
        self._limit = _MOST_HELD

    def _append(self, codes: Codes, items: NumpyColumn, counts: Int64s) -> None:
        self._codes.append(codes)
        self._items.append(items)
        self._counts.append(counts)
        self._held += len(codes)
        if self._held > self._limit:
            self._shrink()
            self._limit = max(_MOST_HELD, 2 * self._held)

    def _shrink(self) -> tuple[Codes, NumpyColumn, Int64s]:
        """Merges equal pairs, sorted, adding up their counts."""
        codes = np.concatenate([np.zeros(0, np.intp), *self._codes])
        items = np.concatenate([np.zeros(0, self._item), *self._items])
        counts = np.concatenate([np.zeros(0, np.int64), *self._counts])
        order = np.lexsort((items, codes))
        codes, items, counts = codes[order], items[order], counts[order]
        new = np.ones(len(codes), np.bool_)
        new[1:] = (codes[1:] != codes[:-1]) | (items[1:] != items[:-1])
        starts = np.flatnonzero(new)
        counts = np.add.reduceat(counts, starts) if len(starts) else counts
        codes, items, counts = self._shortened(codes[starts], items[starts], counts)
        self._codes, self._items, self._counts, self._held = [codes], [items], [counts], len(codes)
        return codes, items, counts

    def _shortened(self, codes: Codes, items: NumpyColumn, counts: Int64s) -> tuple[Codes, NumpyColumn, Int64s]:
        return codes, items, counts

    def _ranges(self, present: Codes) -> tuple[Int64s, Int64s, NumpyColumn, Int64s]:
        """Returns offsets of the lists of some codes, the places of their pairs, and items and counts."""
        codes, items, counts = self._shrink()
        starts, ends = np.searchsorted(codes, present, "left"), np.searchsorted(codes, present, "right")
        offsets = np.concatenate([[0], np.cumsum(ends - starts)])
        places = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], ends - starts)
        return offsets, places, items, counts


class _Distinct(_Pairs):
    def __init__(self, *, merges: bool) -> None:
        super().__init__(np.uint64)
        self._merges = merges

    def add(self, codes: Codes, column: pa.Array) -> None:
        if self._merges:
            codes, column = np.repeat(codes, as_numpy(pc.list_value_length(column))), column.flatten()
            hashes = as_numpy(column)
        else:
            hashes = hashes_of(column)
        self._append(codes, hashes, np.ones(len(codes), np.int64))

    def take(self, present: Codes) -> pa.Array:
        offsets, places, items, _ = self._ranges(present)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(items[places]), type=_HASHES)

    def _shortened(self, codes: Codes, items: NumpyColumn, counts: Int64s) -> tuple[Codes, NumpyColumn, Int64s]:
        rank = np.arange(len(codes)) - np.searchsorted(codes, codes, "left")
        few = rank < MOST_HASHES
        return codes[few], items[few], counts[few]


class _Buckets(_Pairs):
    def __init__(self, *, merges: bool) -> None:
        super().__init__(np.int64)
        self._merges = merges

    def add(self, codes: Codes, column: pa.Array) -> None:
        if self._merges:
            codes, column = np.repeat(codes, as_numpy(pc.list_value_length(column))), column.flatten()
            buckets, counts = (as_numpy(part) for part in column.flatten())
        else:
            values = as_numpy(column).astype(np.float64)
            numbers = ~np.isnan(values)
            codes, buckets = codes[numbers], _buckets_of(values[numbers])
            counts = np.ones(len(codes), np.int64)
        self._append(codes, buckets, counts)

    def take(self, present: Codes) -> pa.Array:
        offsets, places, items, counts = self._ranges(present)
        pairs = pa.StructArray.from_arrays(
            [pa.array(items[places]), pa.array(counts[places])], fields=list(_BUCKETS.value_type)
        )
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pairs, type=_BUCKETS)


def hashes_of(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Returns a 64-bit hash of each value, equal in every process. All NaNs are equal, and so are 0.0 and -0.0."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_floating(column.type):
        one_zero = pc.add(column.cast(pa.float64()), 0.0)
        return splitmix64(as_numpy(normalise_floats(one_zero)).view(np.uint64))
    if pa.types.is_decimal(column.type):  # of one scale, so that equal numbers are equal bytes
        width = column.type.byte_width
        buffers = [None, column.buffers()[1]]
        column = pa.Array.from_buffers(pa.binary(width), len(column), buffers, offset=column.offset)
    integers = integer_view(column)
    if integers is not None:
        return splitmix64(as_numpy(integers).astype(np.int64, copy=False).view(np.uint64))
    encoded = column.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(text) for text in texts), np.uint64, len(texts))
    found: npt.NDArray[np.uint64] = hashes[as_numpy(encoded.indices)]
    return found


def _estimates(states: pa.Array) -> pa.Array:
    sizes = as_numpy(pc.list_value_length(states)).astype(np.int64)
    full = np.flatnonzero(sizes >= MOST_HASHES)
    if len(full):
        ends = as_numpy(states.offsets)[1:] - states.offsets[0].as_py()
        largest = as_numpy(states.flatten())[ends[full] - 1].astype(np.float64)
        sizes[full] = np.round((MOST_HASHES - 1) * (2.0**64 / largest)).astype(np.int64)
    return pa.array(sizes)


def _buckets_of(values: Floats) -> Int64s:
    magnitudes = np.abs(values)
    with np.errstate(divide="ignore"):
        logarithms = np.ceil(np.log(magnitudes) / np.log(_GAMMA))
    logarithms[~np.isfinite(logarithms)] = 0.0
    signed = np.sign(values) * (logarithms + _MIDDLE)
    signed[np.isinf(values)] = np.sign(values[np.isinf(values)]) * _INFINITE
    found: Int64s = signed.astype(np.int64)
    return found


def _quantiles(states: pa.Array, share: float) -> pa.Array:
    """Returns the smallest value that is not exceeded by this share of the values: SQL's ``percentile_disc``."""
    return _by_rank(states, lambda totals: [_rank(share, totals)])


def _medians(states: pa.Array) -> pa.Array:
    """Returns the median; of an even number of values the mean of the middle two."""
    return _by_rank(states, lambda totals: [(totals - 1) // 2, totals // 2])


def _rank(share: float, totals: Int64s) -> Int64s:
    """Returns the rank, from 0. The product is rounded first: 0.07 * 100 is 7.000000000000001 in float64, and means 7."""
    found: Int64s = np.ceil(np.round(share * totals, 9)).astype(np.int64) - 1
    return found.clip(0)


def _by_rank(states: pa.Array, ranks: Callable[[Int64s], list[Int64s]]) -> pa.Array:
    """Returns the means of the values with these ranks."""
    sizes = as_numpy(pc.list_value_length(states)).astype(np.int64)
    buckets, counts = (as_numpy(part) for part in states.flatten().flatten())
    ends = np.cumsum(sizes)
    reached = np.concatenate([[0], np.cumsum(counts)])
    before, totals = reached[ends - sizes], reached[ends] - reached[ends - sizes]
    empty = totals == 0
    found = []
    for rank in ranks(np.maximum(totals, 1)):
        places = np.where(empty, 0, np.searchsorted(reached[1:], before + rank, "right"))
        found.append(_values_of(buckets[places] if len(buckets) else np.zeros(len(sizes), np.int64)))
    with np.errstate(invalid="ignore"):  # the mean of both infinities
        return pa.array(np.sum([values / len(found) for values in found], axis=0), mask=empty)


def _values_of(buckets: Int64s) -> Floats:
    logarithms = (np.abs(buckets) - _MIDDLE).clip(-_FARTHEST, _FARTHEST).astype(np.float64)
    magnitudes = _GAMMA**logarithms * (2 / (_GAMMA + 1))
    found: Floats = np.where(np.abs(buckets) == _INFINITE, np.inf, magnitudes) * np.sign(buckets)
    return found
