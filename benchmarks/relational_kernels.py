"""Operators of compiled plans that change state row by row, alone: the operator as it is, and its core by arrays and by a compiled kernel.

    python -m benchmarks.relational_kernels [--rows 200000] [--only NAME] [--numba DIRECTORY]

Bids and auctions shaped as Nexmark's go through one subtask's operator, in batches of 8,192; the time is processor time, without making the input.

    regular join          auctions with a unique key, bids without one; with and without the condition of q4 and q9 (a bid within its auction's time)
    interval join         bids within 10 s after their auction, and bids of a maximal price (q7), with watermarks
    deduplicate           the last bid of each bidder and auction by event time (q18), few bids of each pair; and with hot keys, as Nexmark's
    top-N                 the ten highest bids of each auction with their rank (q19), of a channel (texts)
    running sum           count and sum of each auction's bids, a change for each row (q15 to q17); and with rows that are taken back
    aggregates of q17     eight calls for each auction, of which two are MIN and MAX; a change for each key of a batch, as with mini-batches
    distinct bidders      four COUNT(DISTINCT bidder) of each channel (q16), with mini-batches
    windows               count of each auction's bids in windows of 10 s, which overlap five times (q5) or do not (q12), until they fire; and until they
                          have fired, with hot keys in batches of 1,500 rows as behind Nexmark's exchange
    sessions              count of each bidder's bids until there is none for 10 s (q11), with hot keys in such batches, until they have fired
    window join           persons and sellers of the same 10 s (q8); and counts of auctions with the largest one of their window (q5), in such batches

Aggregates and windows are measured without arrays too, in the same run.

``core``: the step that arrays and a compiled kernel differ in, without Flink's semantics of nulls, snapshots or time to live: each key is looked up in a
table that grows, in the order of the rows. ``arrays``: rows sorted by key, one look-up for each key, running maxima and sums by segment (NumPy).
``compiled``: a hash table and a loop by numba, which is no dependency: ``--numba`` names a directory into which
``pip install --target DIRECTORY --no-deps numba llvmlite`` has put it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table

from tests.unit.taskmanager.operators.harness import Running, spec, start
from tidegate.columnar.table.rows import ColumnarRows
from tidegate.functions.sql.changelog import DELETE, INSERT, with_kinds
from tidegate.functions.sql.scalar import arrow_schema
from tidegate.model.keygroups import KeyGroupRange
from tidegate.plan import nodes
from tidegate.plan.expressions import AggregateCall, RexCall, RexInputRef
from tidegate.plan.logical_types import Field, LogicalType, TimeKind, TypeRoot
from tidegate.plan.specs import (
    AppendFast,
    ConstantRange,
    HoppingWindow,
    IntervalBounds,
    IntervalJoinSpec,
    JoinSpec,
    PartitionSpec,
    SessionWindow,
    SortField,
    SortSpec,
    TimeAttributeWindowing,
    TumblingWindow,
    WindowAttachedWindowing,
)
from tidegate.records.arrow_type import ArrowTypeInfo
from tidegate.records.batch import ArrowBatch

BATCH_ROWS = 1 << 13
BIDS_OF_AUCTION = 15
"""Bids of an auction on average: Nexmark's 46 bids for 3 auctions."""
BIDS_OF_BIDDER = 46
FEW_ROWS = 1_500
"""Rows of the batches that q5 brings to one of its subtasks of windows."""
LAG_MS = 4_000
"""How far Nexmark's watermark is behind the latest time."""
OPEN_MS = 10_000
GROUPS = 128

BIGINT, TEXT = LogicalType(TypeRoot.BIGINT), LogicalType(TypeRoot.VARCHAR, length=2147483647)
BOOLEAN = LogicalType(TypeRoot.BOOLEAN)
TIME = LogicalType(TypeRoot.TIMESTAMP, precision=3)
ROWTIME = LogicalType(TypeRoot.TIMESTAMP, precision=3, kind=TimeKind.ROWTIME)


def row_type(**fields: LogicalType) -> LogicalType:
    return LogicalType(TypeRoot.ROW, fields=tuple(Field(name, kind) for name, kind in fields.items()))


AUCTION = row_type(id=BIGINT, item=TEXT, category=BIGINT, begins=TIME, expires=TIME)
BID = row_type(auction=BIGINT, bidder=BIGINT, price=BIGINT, channel=TEXT, at=ROWTIME, extra=TEXT)


@dataclass(frozen=True)
class Shape:
    """An operator and its input. ``batches``: pairs of an input's number and its rows. ``lag_ms``: how far a watermark, which follows each batch of the last
    input, is behind its latest ``time``; ``None``: there are no watermarks.
    """

    node: Any
    types: Sequence[LogicalType]
    keys: Sequence[Sequence[int]]
    batches: Sequence[tuple[int, pa.RecordBatch]]
    lag_ms: int | None = None
    time: str = "at"


def bids(rows: int, seed: int = 1) -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    auctions = max(1, rows // BIDS_OF_AUCTION)
    numbers = np.arange(rows)
    newest = numbers // BIDS_OF_AUCTION
    auction = np.clip(newest - (rng.exponential(40, rows)).astype(np.int64), 0, auctions - 1)
    return {
        "auction": auction,
        "bidder": rng.integers(0, max(10, rows // 40), rows),
        "price": rng.integers(1, 10_000_000, rows),
        "at": numbers // 10 + rng.integers(0, 50, rows),
    }


def bid_batches(rows: int) -> Iterator[pa.RecordBatch]:
    made, schema = bids(rows), arrow_schema(BID)
    texts = pa.array([f"channel-{number}" for number in range(1000)])
    for at in range(0, rows, BATCH_ROWS):
        part = {name: column[at : at + BATCH_ROWS] for name, column in made.items()}
        count = len(part["price"])
        columns = [
            pa.array(part["auction"]),
            pa.array(part["bidder"]),
            pa.array(part["price"]),
            texts.take(pa.array(part["price"] % 1000)),
            pa.array(part["at"]).view(schema.field("at").type),
            pa.array([f"{'x' * 40}{number}" for number in range(at, at + count)]),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def hot_bid_batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Bids of which half are for the newest of 100 auctions, and three quarters by the newest of 100 bidders, as Nexmark's."""
    rng, done = np.random.default_rng(2), 0
    for batch in bid_batches(rows):
        numbers = np.arange(done, done + batch.num_rows)
        done += batch.num_rows
        auction = np.where(rng.random(len(numbers)) < 0.5, numbers // BIDS_OF_AUCTION // 100 * 100, batch["auction"])
        newest = numbers // BIDS_OF_BIDDER
        bidder = np.where(
            rng.random(len(numbers)) < 0.75, newest // 100 * 100, newest - rng.integers(0, 1000, len(numbers))
        )
        yield pa.RecordBatch.from_arrays([pa.array(auction), pa.array(bidder), *batch.columns[2:]], schema=batch.schema)


def auction_batches(count: int) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(AUCTION)
    for at in range(0, count, BATCH_ROWS):
        ids = np.arange(at, min(count, at + BATCH_ROWS))
        begins = ids * BIDS_OF_AUCTION // 10
        columns = [
            pa.array(ids),
            pa.array([f"{'item' * 5}{number}" for number in ids.tolist()]),
            pa.array(10 + ids % 5),
            pa.array(begins).view(schema.field("begins").type),
            pa.array(begins + OPEN_MS).view(schema.field("expires").type),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def join_shape(rows: int, *, has_condition: bool) -> Shape:
    """Auctions come a batch ahead of their bids, so bids find them; auctions that come find no bids."""
    width = len(AUCTION.fields)

    def compared(function: str, column: int) -> RexCall:
        refs = (RexInputRef(input_index=width + 4, type=ROWTIME), RexInputRef(input_index=column, type=TIME))
        return RexCall(type=BOOLEAN, operands=refs, internal_name=function)

    condition = RexCall(type=BOOLEAN, operands=(compared("$>=$1", 3), compared("$<=$1", 4)), internal_name="$AND$1")
    node = nodes.Join1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=AUCTION.fields + BID.fields),
        description="Join",
        join_spec=JoinSpec(
            join_type="INNER",
            left_keys=(0,),
            right_keys=(0,),
            filter_nulls=(True,),
            non_equi_condition=condition if has_condition else None,
        ),
        left_upsert_keys=((0,),),
    )
    auctions = [(0, batch) for batch in auction_batches(rows // BIDS_OF_AUCTION + 1)]
    return Shape(node, [AUCTION, BID], [[0], [0]], [*auctions, *((1, batch) for batch in bid_batches(rows))])


def interval_join_shape(rows: int, *, by_price: bool) -> Shape:
    """Bids that come within 10 s after their auction; or ``by_price``, bids of a maximal price in the 10 s before it is known (q7), most of which find none."""
    auction = row_type(id=BIGINT, item=TEXT, category=BIGINT, begins=ROWTIME, expires=TIME)
    maximum = row_type(most=BIGINT, until=ROWTIME)
    left = maximum if by_price else auction
    key = (0, 2) if by_price else (0, 0)
    bounds = IntervalBounds(
        is_event_time=True,
        left_lower_bound=0 if by_price else -OPEN_MS,
        left_upper_bound=OPEN_MS if by_price else 0,
        left_time_index=1 if by_price else 3,
        right_time_index=4,
    )
    joined = JoinSpec(
        join_type="INNER", left_keys=key[:1], right_keys=key[1:], filter_nulls=(True,), non_equi_condition=None
    )
    node = nodes.IntervalJoin1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=left.fields + BID.fields),
        description="IntervalJoin",
        interval_join_spec=IntervalJoinSpec(join_spec=joined, window_bounds=bounds),
    )
    batches: list[tuple[int, pa.RecordBatch]] = []
    starts = auction_batches(rows // BIDS_OF_AUCTION + 1)
    for number, batch in enumerate(bid_batches(rows)):
        if by_price:
            batches.append((1, batch))
            most = pc.max(batch["price"]), pc.max(batch["at"])
            found = [pa.array([value], kind.type) for value, kind in zip(most, arrow_schema(maximum), strict=True)]
            batches.append((0, pa.RecordBatch.from_arrays(found, schema=arrow_schema(maximum))))
        else:
            if number % BIDS_OF_AUCTION == 0:
                batches.append((0, next(starts)))
            batches.append((1, batch))
    return Shape(node, [left, BID], [[key[0]], [key[1]]], batches, lag_ms=4_000)


def deduplicate_shape(rows: int, *, hot: bool = False) -> Shape:
    node = nodes.Deduplicate1(
        id=1,
        output_type=BID,
        description="Deduplicate",
        unique_keys=(1, 0),
        is_rowtime=True,
        keep_last_row=True,
        generate_update_before=True,
    )
    batches = hot_bid_batches(rows) if hot else bid_batches(rows)
    return Shape(node, [BID], [[1, 0]], [(0, batch) for batch in batches])


def top_n_shape(rows: int, partition: int) -> Shape:
    node = nodes.Rank1(
        id=1,
        output_type=LogicalType(TypeRoot.ROW, fields=(*BID.fields, Field("rank", BIGINT))),
        description="Rank",
        rank_type="ROW_NUMBER",
        partition=PartitionSpec((partition,)),
        order_by=SortSpec((SortField(2, False, True),)),
        rank_range=ConstantRange(1, 10),
        rank_strategy=AppendFast(),
        generate_update_before=True,
        output_row_number=True,
    )
    return Shape(node, [BID], [[partition]], [(0, batch) for batch in bid_batches(rows)])


def call(function: str, *arguments: int, filter: int = -1, distinct: bool = False) -> AggregateCall:
    return AggregateCall(
        name=None,
        arg_list=arguments,
        filter_arg=filter,
        distinct=distinct,
        approximate=False,
        ignore_nulls=False,
        type=BIGINT,
        internal_name=function,
    )


def folded_shape(rows: int, grouping: int, calls: Sequence[AggregateCall]) -> Shape:
    """Aggregates with mini-batches over bids with a condition of their price behind them."""
    node = nodes.GroupAggregate1(
        id=1,
        output_type=LogicalType(
            TypeRoot.ROW, fields=(BID.fields[grouping], *(Field(f"a{i}", BIGINT) for i in range(len(calls))))
        ),
        description="GroupAggregate",
        configuration={"table.exec.mini-batch.enabled": "true"},
        grouping=(grouping,),
        agg_calls=tuple(calls),
        agg_call_need_retractions=(False,) * len(calls),
        generate_update_before=True,
        need_retraction=False,
    )
    kind = LogicalType(TypeRoot.ROW, fields=(*BID.fields, Field("cheap", BOOLEAN)))
    batches = [(0, batch.append_column("cheap", pc.less(batch["price"], 1_000_000))) for batch in bid_batches(rows)]
    return Shape(node, [kind], [[grouping]], batches)


def few(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cuts batches as small as they are behind Nexmark's exchange."""
    for batch in batches:
        yield from (batch.slice(at, FEW_ROWS) for at in range(0, batch.num_rows, FEW_ROWS))


def window_shape(
    rows: int, window: TumblingWindow | HoppingWindow | SessionWindow, *, key: int = 0, fires: bool = False
) -> Shape:
    """Counts the bids of each key and window. ``fires``: hot keys, small batches, and watermarks by which windows fire."""
    node = nodes.WindowAggregate1(
        id=1,
        output_type=row_type(key=BIGINT, bids=BIGINT),
        description="WindowAggregate",
        grouping=(key,),
        agg_calls=(call("$COUNT$1"),),
        windowing=TimeAttributeWindowing(
            window=window, time_attribute_type=ROWTIME, time_attribute_index=4, is_rowtime=True
        ),
        named_window_properties=(),
        need_retraction=False,
    )
    batches = few(hot_bid_batches(rows)) if fires else bid_batches(rows)
    return Shape(node, [BID], [[key]], [(0, batch) for batch in batches], lag_ms=LAG_MS if fires else None)


COUNTED = row_type(key=BIGINT, bids=BIGINT, ws=TIME, we=ROWTIME)


def window_join_shape(rows: int, *, has_key: bool) -> Shape:
    """Joins two sides by their windows and a number of which nearly each row has its own; or counts of windows that overlap five times with the largest one of
    each, by the window alone. Windows fire when the rows of another one come."""
    slide = 10_000 if has_key else 2_000
    count = 12_000 if has_key else 6_000
    window = TumblingWindow(size="PT10S") if has_key else HoppingWindow(size="PT10S", slide="PT2S")
    windowing = WindowAttachedWindowing(
        window=window, time_attribute_type=ROWTIME, window_start=2, window_end=3, is_rowtime=True
    )
    schema = arrow_schema(COUNTED)
    condition = RexCall(
        type=BOOLEAN,
        operands=(RexInputRef(input_index=1, type=BIGINT), RexInputRef(input_index=5, type=BIGINT)),
        internal_name="$>=$1",
    )
    keys = (0,) if has_key else ()
    spec_of_join = JoinSpec("INNER", keys, keys, (True,) * len(keys), None if has_key else condition)
    node = nodes.WindowJoin1(
        id=1,
        output_type=LogicalType(
            TypeRoot.ROW,
            fields=(*COUNTED.fields, *(Field(f"{field.name}0", field.type) for field in COUNTED.fields)),
        ),
        description="WindowJoin",
        join_spec=spec_of_join,
        left_windowing=windowing,
        right_windowing=windowing,
    )
    rng, batches = np.random.default_rng(3), []
    for number in range(max(1, rows // count)):
        sizes = (count // 4, count - count // 4) if has_key else (count, 1)
        for side, size in enumerate(sizes):
            numbers = rng.permutation(count)[:size] if side == 0 else rng.integers(0, count, size)
            most = np.where(np.arange(size) == 0, 1_000, rng.integers(0, 1_000, size))
            start = number * slide
            columns = [
                pa.array(numbers + number * count),
                pa.array(most),
                pa.array(np.full(size, start)).view(schema.field("ws").type),
                pa.array(np.full(size, start + 10_000)).view(schema.field("we").type),
            ]
            made = few([pa.RecordBatch.from_arrays(columns, schema=schema)])
            batches += [(side, batch) for batch in made]
    return Shape(node, [COUNTED] * 2, [list(keys)] * 2, batches, lag_ms=slide, time="we")


PRICES = (
    *(call("$COUNT$1", filter=condition) for condition in (-1, 6, 6, 6)),
    *(call(f"${name}$1", 2) for name in ("MIN", "MAX", "AVG", "SUM")),
)
BIDDERS = tuple(call("$COUNT$1", 1, filter=condition, distinct=True) for condition in (-1, 6, 6, 6))


def sum_shape(rows: int, *, retracts: bool) -> Shape:
    calls = (call("$COUNT$1"), call("$SUM$1", 2))
    node = nodes.GroupAggregate1(
        id=1,
        output_type=row_type(auction=BIGINT, bids=BIGINT, total=BIGINT),
        description="GroupAggregate",
        grouping=(0,),
        agg_calls=calls,
        agg_call_need_retractions=(retracts,) * len(calls),
        generate_update_before=True,
        need_retraction=retracts,
    )
    batches: list[tuple[int, pa.RecordBatch]] = []
    for batch in bid_batches(rows // 2 if retracts else rows):
        batches.append((0, _with_kind(batch, INSERT) if retracts else batch))
        if retracts:
            batches.append((0, _with_kind(batch, DELETE)))
    return Shape(node, [BID], [[0]], batches)


def _with_kind(batch: pa.RecordBatch, kind: int) -> pa.RecordBatch:
    kinds = pa.repeat(pa.scalar(kind, pa.int8()), batch.num_rows)
    return pa.RecordBatch.from_arrays([*batch.columns, kinds], schema=with_kinds(batch.schema))


SHAPES: dict[str, Callable[[int], Shape]] = {
    "regular join": lambda rows: join_shape(rows, has_condition=False),
    "regular join with a condition": lambda rows: join_shape(rows, has_condition=True),
    "interval join": lambda rows: interval_join_shape(rows, by_price=False),
    "interval join by price": lambda rows: interval_join_shape(rows, by_price=True),
    "deduplicate": deduplicate_shape,
    "deduplicate, hot keys": lambda rows: deduplicate_shape(rows, hot=True),
    "top-N by a number": lambda rows: top_n_shape(rows, 0),
    "top-N by a text": lambda rows: top_n_shape(rows, 3),
    "running count and sum": lambda rows: sum_shape(rows, retracts=False),
    "count and sum with rows taken back": lambda rows: sum_shape(rows, retracts=True),
    "aggregates of q17": lambda rows: folded_shape(rows, 0, PRICES),
    "windows that overlap": lambda rows: window_shape(rows, HoppingWindow(size="PT10S", slide="PT2S")),
    "windows that do not overlap": lambda rows: window_shape(rows, TumblingWindow(size="PT10S")),
    "windows that overlap and fire": lambda rows: window_shape(
        rows, HoppingWindow(size="PT10S", slide="PT2S"), fires=True
    ),
    "windows that do not overlap and fire": lambda rows: window_shape(
        rows, TumblingWindow(size="PT10S"), key=1, fires=True
    ),
    "sessions": lambda rows: window_shape(rows, SessionWindow(gap="PT10S"), key=1, fires=True),
    "window join by a key": lambda rows: window_join_shape(rows, has_key=True),
    "window join with the largest": lambda rows: window_join_shape(rows, has_key=False),
    "distinct bidders of a channel": lambda rows: folded_shape(rows, 3, BIDDERS),
}


ROW_BY_ROW = (nodes.GroupAggregate1, nodes.WindowAggregate1)
"""Nodes whose operators can work row by row still, as they do with calls that arrays cannot compute."""


def started(shape: Shape, backend: str) -> Running:
    schemas = [with_kinds(arrow_schema(kind)) for kind in shape.types]
    options = {"node": shape.node, "row_types": tuple(shape.types), "keys": shape.keys, "time_zone": "UTC"}
    made = spec(
        "relational",
        options={**options, "functions": None},
        input_types=tuple(map(ArrowTypeInfo, schemas)),
        output_type=ArrowTypeInfo(with_kinds(arrow_schema(shape.node.output_type))),
    )
    return start(made, configuration={"state.backend.type": backend}, max_parallelism=GROUPS)


@dataclass(frozen=True)
class Rate:
    """``micros``: processor time for each row, in µs; ``emitted``: rows."""

    rows: int
    micros: float
    emitted: int


def measure(shape: Shape, backend: str, *, row_by_row: bool = False) -> Rate:
    """Feeds all batches to one subtask. ``row_by_row``: the operator takes no batch by arrays."""
    running, rows, emitted, taken = started(shape, backend), 0, 0, 0.0
    if row_by_row:
        vars(running.operator)["_ran"] = lambda *_: False
    for index, batch in shape.batches:
        begun = time.process_time()
        running.operator.process(ArrowBatch(batch), index)
        if shape.lag_ms is not None and index == len(shape.types) - 1:
            latest = int(pc.max(batch[shape.time]).value)
            running.operator.on_watermark(latest - shape.lag_ms)
        taken += time.process_time() - begun
        rows += batch.num_rows
        emitted += sum(len(one) for one in running.out.batches)
        running.out.batches.clear()
    running.operator.close()
    return Rate(rows, taken / rows * 1e6, emitted)


Keys = npt.NDArray[np.int64]


class LatestByArrays:
    """For each row the place of the row of its key that it replaces (-1: none; -2: it is older and is dropped). Keys are sorted, one look-up for each."""

    def __init__(self) -> None:
        fields = [pa.field("key", pa.int64())]
        values = [pa.field("row", pa.int64(), nullable=False), pa.field("at", pa.int64(), nullable=False)]
        self._rows = ColumnarRows("deduplicate", fields, values, KeyGroupRange(0, GROUPS - 1), GROUPS)

    def __call__(self, keys: Keys, times: Keys, first: int) -> Keys:
        count = len(keys)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        located = self._rows.locate([pa.array(ordered[begins])])
        (held, _), (held_at, _) = self._rows.values.take(located.slots)
        held, held_at = np.where(located.is_new, -1, held), np.where(located.is_new, np.int64(-(1 << 62)), held_at)
        sizes = np.diff(begins, append=count)
        segment = np.repeat(np.arange(len(begins)), sizes)
        # the largest time so far of a segment: times of later segments are lifted above those of earlier ones
        low, span = int(times.min()), int(times.max()) - int(times.min()) + 1
        lifted = (times[order] - low) + segment * span
        so_far = np.maximum.accumulate(lifted) - segment * span + low
        before = np.empty(count, np.int64)
        before[1:] = so_far[:-1]
        before[begins] = held_at
        before = np.maximum(before, held_at[segment])
        wins = times[order] >= before
        places = np.where(wins, np.arange(count), -1)
        last = np.maximum.accumulate(places)
        previous = np.empty(count, np.int64)
        previous[1:] = last[:-1]
        previous[0] = -1
        is_own = previous >= np.repeat(begins, sizes)
        replaced = np.where(is_own, first + order[np.maximum(previous, 0)], held[segment])
        found = np.empty(count, np.int64)
        found[order] = np.where(wins, replaced, -2)
        ends = begins + sizes - 1
        own_last = last[ends] >= begins
        rows = np.where(own_last, first + order[np.maximum(last[ends], 0)], held)
        self._rows.put(located, [(rows, None), (np.maximum(so_far[ends], held_at), None)])
        return found


class SumByArrays:
    """The running sum of each row's key: rows sorted by key, one look-up for each key, a cumulative sum of each segment."""

    def __init__(self) -> None:
        fields = [pa.field("key", pa.int64())]
        self._rows = ColumnarRows(
            "sum", fields, [pa.field("sum", pa.int64(), nullable=False)], KeyGroupRange(0, GROUPS - 1), GROUPS
        )

    def __call__(self, keys: Keys, values: Keys, first: int) -> Keys:
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        located = self._rows.locate([pa.array(ordered[begins])])
        ((held, _),) = self._rows.values.take(located.slots)
        sizes = np.diff(begins, append=len(keys))
        totals = np.cumsum(values[order])
        base = np.append(0, totals)[begins]
        running = totals + np.repeat(held - base, sizes)
        found = np.empty(len(keys), np.int64)
        found[order] = running
        self._rows.put(located, [(running[begins + sizes - 1], None)])
        return found


def compiled_cores() -> tuple[dict[str, Callable[[], Any]], float, float]:
    """Returns the cores by numba, and the seconds that its import and its compilation took."""
    begun = time.process_time()
    compiled: Any = import_module("numba").njit(cache=True)
    imported = time.process_time() - begun

    def find(table: Any, key: Any) -> Any:
        mask = len(table) - 1
        mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        at = np.int64(mixed >> np.uint64(32)) & mask
        while table[at] != -1 and table[at] != key:
            at = (at + 1) & mask
        return at

    place_of: Any = compiled(find)

    def latest(table: Any, held: Any, keys: Any, times: Any, first: int, found: Any) -> Any:
        made = 0
        for i in range(len(keys)):
            at = place_of(table, keys[i])
            if table[at] == -1:
                table[at] = keys[i]
                made += 1
                found[i] = -1
            elif times[i] >= held[at, 1]:
                found[i] = held[at, 0]
            else:
                found[i] = -2
                continue
            held[at, 0] = first + i
            held[at, 1] = times[i]
        return made

    def summed(table: Any, held: Any, keys: Any, values: Any, first: int, found: Any) -> Any:
        made = 0
        for i in range(len(keys)):
            at = place_of(table, keys[i])
            if table[at] == -1:
                table[at] = keys[i]
                made += 1
            held[at, 0] += values[i]
            found[i] = held[at, 0]
        return made

    def moved(table: Any, held: Any, wider: Any, wider_held: Any) -> None:
        for i in range(len(table)):
            if table[i] != -1:
                at = place_of(wider, table[i])
                wider[at] = table[i]
                wider_held[at] = held[i]

    move: Any = compiled(moved)

    class Compiled:
        def __init__(self, kernel: Any) -> None:
            self._kernel, self._count = kernel, 0
            self._table, self._held = np.full(1 << 14, -1, np.int64), np.zeros((1 << 14, 2), np.int64)

        def __call__(self, keys: Keys, values: Keys, first: int) -> Keys:
            while 2 * (self._count + len(keys)) > len(self._table):
                wider = np.full(2 * len(self._table), -1, np.int64)
                held = np.zeros((len(wider), 2), np.int64)
                move(self._table, self._held, wider, held)
                self._table, self._held = wider, held
            found = np.empty(len(keys), np.int64)
            self._count += self._kernel(self._table, self._held, keys, values, first, found)
            return found

    made: dict[str, Callable[[], Any]] = {
        "deduplicate": partial(Compiled, compiled(latest)),
        "running sum": partial(Compiled, compiled(summed)),
    }
    begun = time.process_time()
    for make in made.values():
        few = make()
        for at in range(0, 4 * BATCH_ROWS, BATCH_ROWS):  # until the table has grown
            few(np.arange(at, at + BATCH_ROWS), np.arange(BATCH_ROWS), 0)
    return made, imported, time.process_time() - begun


def measure_core(make: Callable[[], Any], rows: int, keys: int) -> tuple[float, Keys]:
    """Returns µs a row, and what was found."""
    rng = np.random.default_rng(1)
    key = rng.integers(0, keys, rows) * 2654435761
    values = np.arange(rows) // 10 + rng.integers(0, 50, rows)
    core, taken, found = make(), 0.0, []
    for at in range(0, rows, BATCH_ROWS):
        part, more = key[at : at + BATCH_ROWS], values[at : at + BATCH_ROWS]
        begun = time.process_time()
        found.append(core(part, more, at))
        taken += time.process_time() - begun
    return taken / rows * 1e6, np.concatenate(found)


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def show_cores(console: Console, rows: int, directory: str | None) -> None:
    """Raises ``RuntimeError`` when arrays and the compiled kernel differ."""
    cores: dict[str, dict[str, Callable[[], Any]]] = {
        "arrays": {"deduplicate": LatestByArrays, "running sum": SumByArrays}
    }
    if directory is not None:
        sys.path.insert(0, directory)
        before = resident_mib()
        cores["compiled"], imported, ready = compiled_cores()
        more = resident_mib() - before
        console.print(
            f"numba: import {imported:.2f} s, kernels ready after {ready:.2f} s more, {more:.0f} MiB resident"
        )
    table = Table(title="core, µs a row")
    for column in ("", "keys", *cores):
        table.add_column(column)
    for name in ("deduplicate", "running sum"):
        for keys in (10_000, 1_000_000):
            for made in cores.values():  # what the first use costs is not counted
                measure_core(made[name], 4 * BATCH_ROWS, keys)
            results = {way: measure_core(made[name], rows, keys) for way, made in cores.items()}
            first = next(iter(results.values()))[1]
            if any(not np.array_equal(first, found) for _, found in results.values()):
                raise RuntimeError(f"{name}, {keys} keys: the ways differ")
            table.add_row(name, f"{keys:,}", *(f"{micros:.3f}" for micros, _ in results.values()))
    console.print(table)


@click.command()
@click.option("--rows", default=200_000, show_default=True)
@click.option("--only", default="", help="Shapes with this in their name.")
@click.option("--backend", default="hashmap", show_default=True)
@click.option(
    "--numba", "directory", default=None, help="Where numba is installed; without it no compiled kernel is measured."
)
@click.option("--cores/--no-cores", default=True, help="Measures the cores too.")
def main(rows: int, only: str, backend: str, directory: str | None, cores: bool) -> None:
    console = Console()
    table = Table(title=f"operators, one subtask, {backend}")
    for column in ("", "rows", "emitted", "µs a row", "rows/s", "row by row, µs a row", "times"):
        table.add_column(column)
    for name, make in SHAPES.items():
        if only in name:
            shape = make(rows)
            found = measure(shape, backend)
            rate = f"{1e6 / found.micros:,.0f}"
            before = []
            if isinstance(shape.node, ROW_BY_ROW):
                each = measure(shape, backend, row_by_row=True)
                if each.emitted != found.emitted:
                    raise RuntimeError(f"{name}: {found.emitted} rows by arrays, {each.emitted} row by row")
                before = [f"{each.micros:.2f}", f"{each.micros / found.micros:.1f}"]
            table.add_row(name, f"{found.rows:,}", f"{found.emitted:,}", f"{found.micros:.2f}", rate, *before)
    console.print(table)
    if cores:
        show_cores(console, max(rows, 1_000_000), directory)


if __name__ == "__main__":
    main()
