"""What a case gives, by plain Python over its rows one after the other, with exact fractions. Late rows are those whose window the watermark has passed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tests.differential_columns.cases import STEP_MS, Case, Step

NEVER = -(2**62)
END = 2**62
Key = tuple[Any, ...]
Value = dict[str, Any]


@dataclass
class Told:
    """A row of results. ``rows``: (event time, columns) of what it is of; ``window``: (start, end) in ms, or ``None``."""

    key: Key
    window: tuple[int, int] | None
    rows: list[tuple[int, Value]]


def key_of(values: Sequence[Any]) -> Key:
    """Returns a key such that equal ones are one key: NaN is one, 0.0 and -0.0 are two."""
    return tuple(repr(value) if isinstance(value, float) else value for value in values)


def results(case: Case) -> list[Told]:
    """In no order; of running aggregates for each batch and key that it has."""
    if case.kind == "running":
        return list(_running(case))
    return list(_sessions(case) if case.kind == "session" else _windows(case))


def _rows(case: Case, step: Step) -> Iterator[tuple[Key, int, Value]]:
    for stamp, row in zip(step.stamps, step.rows.to_pylist(), strict=True):
        yield key_of([row[name] for name in case.keys]), stamp, row


class _Watermarks:
    """The least of those of all senders; after a restore they begin anew."""

    def __init__(self, senders: int) -> None:
        self._of = [NEVER] * senders

    def advance(self, sender: int, to: int) -> int:
        self._of[sender] = max(self._of[sender], to)
        return self.now

    @property
    def now(self) -> int:
        return min(self._of)


def _running(case: Case) -> Iterator[Told]:
    state: dict[Key, list[tuple[int, Value]]] = defaultdict(list)
    for step in case.steps:
        seen = {}
        for key, stamp, row in _rows(case, step):
            state[key].append((stamp, row))
            seen[key] = True
        yield from (Told(key, None, list(state[key])) for key in seen)


def _windows(case: Case) -> Iterator[Told]:
    held: dict[tuple[int, Key], list[tuple[int, Value]]] = defaultdict(list)
    watermarks = _Watermarks(case.senders)

    def fired(now: int) -> Iterator[Told]:
        for start, key in [one for one in held if one[0] + case.size_ms - 1 <= now]:
            yield Told(key, (start, start + case.size_ms), held.pop((start, key)))

    for number, step in enumerate(case.steps):
        if number == case.restore_before:
            watermarks = _Watermarks(case.senders)
        for key, stamp, row in _rows(case, step):
            last = stamp // STEP_MS * STEP_MS
            for start in range(last - case.size_ms + STEP_MS, last + 1, STEP_MS):
                if start + case.size_ms - 1 > watermarks.now:
                    held[start, key].append((stamp, row))
        yield from fired(watermarks.advance(step.sender, step.watermark))
    yield from fired(END)


def _sessions(case: Case) -> Iterator[Told]:
    """A late part of a session counts where the session is open."""
    held: dict[Key, list[list[tuple[int, Value]]]] = defaultdict(list)
    watermarks = _Watermarks(case.senders)
    for number, step in enumerate(case.steps):
        if number == case.restore_before:
            watermarks = _Watermarks(case.senders)
        by_key: dict[Key, list[tuple[int, Value]]] = defaultdict(list)
        for key, stamp, row in _rows(case, step):
            by_key[key].append((stamp, row))
        for key, rows in by_key.items():
            known = {id(row) for session in held[key] for row in session}
            merged = _merged([row for session in held[key] for row in session] + rows)
            held[key] = [
                session
                for session in merged
                if any(id(row) in known for row in session) or _end(session) - 1 > watermarks.now
            ]
        now = watermarks.advance(step.sender, step.watermark)
        yield from _ended(held, now)
    yield from _ended(held, END)


def _ended(held: dict[Key, list[list[tuple[int, Value]]]], now: int) -> Iterator[Told]:
    for key, sessions in held.items():
        for session in [one for one in sessions if _end(one) - 1 <= now]:
            sessions.remove(session)
            yield Told(key, (min(stamp for stamp, _ in session), _end(session)), session)


def _end(session: list[tuple[int, Value]]) -> int:
    return max(stamp for stamp, _ in session) + STEP_MS


def _merged(rows: list[tuple[int, Value]]) -> list[list[tuple[int, Value]]]:
    found: list[list[tuple[int, Value]]] = []
    for row in sorted(rows, key=lambda one: one[0]):
        if not found or row[0] > found[-1][-1][0] + STEP_MS:
            found.append([])
        found[-1].append(row)
    return found


# --- aggregates


def fits(
    function: str, column: str | None, kind: pa.DataType | None, rows: list[tuple[int, Value]], value: Any
) -> bool:
    """Whether ``value`` is what the function gives for the rows; of values at the same time any is the first."""
    if column is None:
        return bool(value == len(rows))
    found = [(stamp, row[column]) for stamp, row in rows if row[column] is not None]
    values = [one for _, one in found]
    name, _, share = function.partition(":")
    if name in ("count", "approx_distinct"):
        wanted = len(values) if name == "count" else len({"nan" if one != one else one for one in values})
        return bool(value == wanted)
    if not values:
        return value is None
    if name in ("first", "last"):
        at = (min if name == "first" else max)(stamp for stamp, _ in found)
        return any(same(value, one) for stamp, one in found if stamp == at)
    if name in ("min", "max"):
        numbers = [one for one in values if one == one]
        return same(value, (min if name == "min" else max)(numbers)) if numbers else value != value
    assert kind is not None
    if name == "sum" and pa.types.is_integer(kind):
        return bool(value == _wrapped(sum(values), is_signed=pa.types.is_signed_integer(kind)))
    if name in ("sum", "avg", "stddev"):
        return _of_all(name, values, value)
    numbers = sorted(one for one in values if one == one)
    if not numbers:
        return value is None
    if name == "median":
        low, high = numbers[(len(numbers) - 1) // 2], numbers[len(numbers) // 2]
        return near(value, float(low) / 2 + float(high) / 2, 0.0101, max(abs(float(low)), abs(float(high))))
    rank = max(math.ceil(Fraction(share) * len(numbers)) - 1, 0)
    return near(value, float(numbers[rank]), 0.0101)


def _of_all(name: str, values: list[Any], value: Any) -> bool:
    if name == "stddev" and len(values) < 2:
        return value is None
    if not all(map(math.isfinite, values)):
        total = (
            math.fsum(float(one) for one in values if not math.isfinite(one))
            if not _both_infinities(values)
            else math.nan
        )
        return value != value if name == "stddev" else same(value, total)
    exact = [Fraction(one) for one in values]
    size = max(abs(float(one)) for one in exact)
    if name == "sum":
        return near(value, float(sum(exact)), 1e-12, size * len(exact))
    mean = sum(exact) / len(exact)
    if name == "avg":
        return near(value, float(mean), 1e-12, size if any(isinstance(one, float) for one in values) else 0.0)
    scale = Fraction(size) or Fraction(1)
    spread = math.sqrt(sum(((one - mean) / scale) ** 2 for one in exact) / (len(exact) - 1)) * float(scale)
    return near(value, spread, 1e-7, size)


def _both_infinities(values: list[Any]) -> bool:
    return math.inf in values and -math.inf in values


def _wrapped(total: int, *, is_signed: bool) -> int:
    total %= 2**64
    return total - 2**64 if is_signed and total >= 2**63 else total


def same(value: Any, wanted: Any) -> bool:
    """NaN is NaN."""
    return bool(value == wanted or (value != value and wanted != wanted))


def near(value: Any, wanted: float, relative: float, size: float = 0.0) -> bool:
    """``size``: of what was added up, where that is not the size of the result."""
    return value is not None and (
        same(value, wanted) or math.isclose(value, wanted, rel_tol=relative, abs_tol=relative * size)
    )
