"""Random cases of columns, each from a seed alone: types, names, batches of one row to all, disorder, parallelism, memory, and a restore in the middle.

seed ─▶ Case ─▶ runner (operators of the runtime) ─┐
            └─▶ oracle (plain Python, row by row) ─┴─▶ the same results, or the seed is printed
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

STEP_MS = 10
"""Windows slide by so much."""
KINDS = ("tumble", "hop", "session", "running")
NAMES = ("v", "w", "x__sum", "__window", "__rows", "x__high", "x__value", "x__timed", "y__upper", "__hash", "x__count")
"""Names of columns, keys and results; some are like those that an aggregation adds."""
NUMBERS: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.int8(): lambda r: r.choice([-128, 127, r.randint(-9, 9)]),
    pa.int32(): lambda r: r.choice([-(2**31), 2**31 - 1, r.randint(-99, 99)]),
    pa.int64(): lambda r: r.choice([-(2**63), 2**63 - 1, r.randint(-(2**62), 2**62), r.randint(-99, 99)]),
    pa.uint64(): lambda r: r.choice([2**64 - 1, 2**63, r.randint(0, 99)]),
    pa.float32(): lambda r: r.choice([float("nan"), float("inf"), -0.0, r.randint(-99, 99) / 8]),
    pa.float64(): lambda r: r.choice(
        [float("nan"), float("-inf"), -0.0, 1e300, -1e300, r.randint(-99, 99) / 8, r.randint(1, 99) / 8]
    ),
}
OTHERS: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.bool_(): lambda r: r.random() < 0.5,
    pa.string(): lambda r: r.choice(["", "a", "b", "ä"]),
    pa.timestamp("us"): lambda r: r.randint(-(10**15), 10**15),
    pa.decimal128(20, 2): lambda r: r.randint(-99, 99),
}
KEYS: dict[pa.DataType, Callable[[random.Random], Any]] = {
    pa.int64(): lambda r: r.choice([0, 1, 2, -(2**63), 2**63 - 1]),
    pa.int32(): lambda r: r.randint(0, 5),
    pa.uint64(): lambda r: r.choice([2**64 - 1, 2**63, 3]),
    pa.string(): lambda r: r.choice(["", "a", "b", "ä"]),
    pa.float64(): lambda r: r.choice([0.0, -0.0, float("nan"), 1.5]),
    pa.bool_(): lambda r: r.random() < 0.5,
    pa.date32(): lambda r: r.randint(-3, 3),
}
OF_NUMBERS = ("sum", "avg", "min", "max")
OF_NUMBERS_IN_WINDOWS = (
    *OF_NUMBERS,
    "stddev",
    "median",
    "quantile:0.0",
    "quantile:0.1",
    "quantile:0.9",
    "quantile:0.99",
    "quantile:1.0",
)


@dataclass(frozen=True)
class Step:
    """A batch at a sender, and its watermark afterwards. ``stamps``: event times in ms."""

    sender: int
    rows: pa.RecordBatch
    stamps: tuple[int, ...]
    watermark: int


@dataclass(frozen=True)
class Case:
    """``restore_before``: the number of the step before which all is snapshotted and restored; ``None``: never. ``budget``: bytes of managed memory, 0: not
    bounded."""

    seed: int
    kind: str
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    schema: pa.Schema
    steps: tuple[Step, ...]
    senders: int
    receivers: int
    receivers_after: int
    restore_before: int | None
    budget: int

    @property
    def size_ms(self) -> int:
        return 3 * STEP_MS if self.kind == "hop" else STEP_MS


def case_of(seed: int) -> Case:
    """Returns the case of a seed."""
    r = random.Random(seed)
    kind = r.choice(KINDS)
    names = r.sample(NAMES, r.randint(2, 5))
    of_keys = names[: r.choice([1, 1, 1, 2]) if len(names) > 2 else 1]
    makers: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {}
    for name in names:
        table = KEYS if name in of_keys else (NUMBERS if r.random() < 0.8 else OTHERS)
        makers[name] = r.choice(list(table.items()))
    schema = pa.schema([(name, made[0]) for name, made in makers.items()])
    aggregates = _aggregates(r, kind, [n for n in names if n not in of_keys], schema, of_keys)
    senders = r.randint(1, 3)
    steps = _steps(r, schema, makers, senders)
    return Case(
        seed, kind, tuple(of_keys), aggregates, schema, steps, senders, r.randint(1, 3), r.randint(1, 3),
        r.randrange(len(steps)) if r.random() < 0.5 else None, r.choice([0, 0, 1 << 18]),
    )  # fmt: skip


def _aggregates(
    r: random.Random, kind: str, columns: list[str], schema: pa.Schema, keys: list[str]
) -> tuple[tuple[str, str, str | None], ...]:
    aliases = [name for name in (*NAMES, "x", "y", "z") if name not in keys]
    r.shuffle(aliases)
    found: list[tuple[str, str, str | None]] = []
    for alias in aliases[: r.randint(1, 5)]:
        column = r.choice(columns)
        is_number = schema.field(column).type in NUMBERS
        functions = ["count"]
        if is_number:
            functions += OF_NUMBERS if kind == "running" else OF_NUMBERS_IN_WINDOWS
        if kind != "running":
            functions += ["first", "last", "approx_distinct"]
        function = r.choice(functions)
        found.append((alias, function, None if function == "count" and r.random() < 0.5 else column))
    return tuple(found)


def _steps(r: random.Random, schema: pa.Schema, makers: dict[str, Any], senders: int) -> tuple[Step, ...]:
    rows, nulls, disorder = r.randint(1, 120), r.choice([0.0, 0.0, 0.2, 0.9]), r.choice([0, 5, 40])
    bound = r.choice([disorder, disorder, disorder // 2])
    cut = r.choice([1, 7, rows])
    steps: list[Step] = []
    highest = [-(2**40)] * senders
    now, left = r.randint(-50, 50), rows
    while left:
        size = min(left, cut if r.random() < 0.8 else r.randint(1, cut))
        left -= size
        sender = r.randrange(senders)
        stamps = []
        for _ in range(size):
            now += r.choice([0, 0, 1, 3, 25]) if r.random() < 0.5 else 0
            stamps.append(now - r.randint(0, disorder))
        columns = []
        for kind, make in makers.values():
            values = [None if r.random() < nulls else make(r) for _ in range(size)]
            columns.append(
                pa.array(values, kind) if kind != pa.timestamp("us") else pa.array(values, pa.int64()).cast(kind)
            )
        highest[sender] = max(highest[sender], *stamps)
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        steps.append(Step(sender, batch, tuple(stamps), highest[sender] - bound - 1))
    return tuple(steps)
