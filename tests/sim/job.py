"""The job of the simulation: sources with offsets, a keyed counter behind a hash exchange, a two-phase-commit sink.

    source (N rows each) ──HASH──▶ counter (emits key, running count) ──FORWARD / REBALANCE──▶ sink
    or, embarrassingly parallel (two regions): source ──FORWARD──▶ counter ──FORWARD──▶ sink

Every row of key k makes the counter emit (k, 1), (k, 2), ...: an exact output holds each pair once.
"""

from __future__ import annotations

import pickle
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.sim.storage import Record, Transaction
from tidegate.model.checkpoint import (
    OperatorSnapshot,
    OperatorStateHandle,
    SegmentHandle,
    StateHandle,
    StateRedistribution,
    SubtaskSnapshot,
    TaskRestore,
)
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo, Partitioner
from tidegate.model.ids import AttemptId, BlobKey, JobId, OperatorId, VertexId, hex_id
from tidegate.model.keygroups import key_group, range_of, subtask_of

JOB = JobId(hex_id("sim-job"))
SOURCE, COUNTER, SINK = (VertexId(hex_id("sim", name)) for name in ("source", "counter", "sink"))
SOURCE_OP, COUNTER_OP, SINK_OP = (OperatorId(hex_id("sim-op", name)) for name in ("source", "counter", "sink"))
MAX_PARALLELISM = 8
KEYS = 7


@dataclass(frozen=True, slots=True)
class SimJob:
    rows: tuple[int, ...]
    """Rows of each source subtask."""
    graph: JobGraph
    is_parallel: bool
    configuration: dict[str, str]

    def key_of(self, source: int, offset: int) -> int:
        key = (offset * 5 + source * 3) % KEYS
        # Without an exchange no two sources may share a key, or each pipeline counts it from one.
        return key * len(self.rows) + source if self.is_parallel else key

    def expected(self) -> Counter[Record]:
        rows: Counter[int] = Counter()
        for source, count in enumerate(self.rows):
            rows.update(self.key_of(source, offset) for offset in range(count))
        return Counter({(key, n): 1 for key, total in rows.items() for n in range(1, total + 1)})


def draw_job(rng: random.Random) -> SimJob:
    parallelism = rng.choice((1, 2, 2, 3))
    is_parallel = rng.random() < 0.25
    sinks = parallelism if is_parallel else rng.choice((1, parallelism))
    exchange = Partitioner.FORWARD if is_parallel else Partitioner.HASH
    to_sink = Partitioner.FORWARD if sinks == parallelism else Partitioner.REBALANCE
    graph = JobGraph(
        JOB,
        "sim",
        (
            _vertex(SOURCE, SOURCE_OP, "source", parallelism, is_source=True),
            _vertex(COUNTER, COUNTER_OP, "counter", parallelism),
            _vertex(SINK, SINK_OP, "sink", sinks, is_sink=True),
        ),
        (JobEdge(0, SOURCE, COUNTER, exchange), JobEdge(1, COUNTER, SINK, to_sink)),
    )
    return SimJob(
        rows=tuple(rng.randint(50, 110) for _ in range(parallelism)),
        graph=graph,
        is_parallel=is_parallel,
        configuration={
            "execution.checkpointing.interval": f"{rng.choice((40, 80, 200))} ms",
            "execution.checkpointing.timeout": f"{rng.choice((250, 600, 2000))} ms",
            "execution.checkpointing.min-pause": f"{rng.choice((0, 0, 50))} ms",
            "execution.checkpointing.max-concurrent-checkpoints": str(rng.choice((1, 1, 2))),
            "execution.checkpointing.tolerable-failed-checkpoints": str(rng.choice((0, 2, 1000))),
            "execution.checkpointing.num-retained": str(rng.choice((1, 2))),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "restart-strategy.type": "exponential-delay",
            "restart-strategy.exponential-delay.initial-backoff": "30 ms",
            "restart-strategy.exponential-delay.max-backoff": "200 ms",
        },
    )


def _vertex(
    vertex_id: VertexId, op: OperatorId, name: str, parallelism: int, *, is_source: bool = False, is_sink: bool = False
) -> JobVertex:
    info = OperatorInfo(op, name, uid=name, uses_union_state=is_source, is_source=is_source, is_sink=is_sink)
    return JobVertex(vertex_id, name, parallelism, MAX_PARALLELISM, (info,), BlobKey("0" * 64))


# ---- state, as handles that travel inside acknowledgements -----------------------------------------------------------


def source_snapshot(split: int, offset: int, attempt: AttemptId) -> SubtaskSnapshot:
    handle = OperatorStateHandle("splits", StateRedistribution.UNION, 1, _inline((split, offset)))
    return _with_origin(SOURCE_OP, OperatorSnapshot(operator=(handle,)), attempt)


def counter_snapshot(counts: dict[int, int], subtask: int, parallelism: int, attempt: AttemptId) -> SubtaskSnapshot:
    owned = range_of(subtask, MAX_PARALLELISM, parallelism)
    rows = [0] * (owned.size + 1)
    for key in counts:
        rows[min(max(group_of(key), owned.start), owned.end) - owned.start + 1] += 1
    for i in range(owned.size):
        rows[i + 1] += rows[i]
    segment = SegmentHandle("counts", owned, tuple(rows), _inline(dict(counts)))
    return _with_origin(COUNTER_OP, OperatorSnapshot(keyed=(segment,)), attempt)


def sink_snapshot(transactions: list[Transaction], attempt: AttemptId) -> SubtaskSnapshot:
    handle = OperatorStateHandle(
        "transactions", StateRedistribution.SPLIT, len(transactions), _inline(list(transactions))
    )
    return _with_origin(SINK_OP, OperatorSnapshot(operator=(handle,)), attempt)


def restored_offset(restore: TaskRestore | None, split: int) -> int:
    if restore is None:
        return 0
    splits = dict(_load(h) for h in restore.operators[SOURCE_OP].operator if h.state_name == "splits")
    return int(splits[split])


def restored_counts(restore: TaskRestore | None) -> dict[int, int]:
    counts: dict[int, int] = {}
    for segment in restore.operators[COUNTER_OP].keyed if restore and COUNTER_OP in restore.operators else ():
        counts.update(pickle.loads(segment.handle.data or b""))
    return counts


def restored_transactions(restore: TaskRestore | None) -> list[Transaction]:
    if restore is None or SINK_OP not in restore.operators:
        return []
    return [t for h in restore.operators[SINK_OP].operator if h.state_name == "transactions" for t in _load(h)]


def origin_of(snapshot: OperatorSnapshot) -> str:
    """Which attempt wrote it: a handle that says so, put there for the checkers."""
    return next(str(_load(h)) for h in snapshot.operator if h.state_name == "origin")


def transactions_of(snapshot: OperatorSnapshot) -> list[Transaction]:
    return [t for h in snapshot.operator if h.state_name == "transactions" for t in _load(h)]


def group_of(key: int) -> int:
    return key_group(key, MAX_PARALLELISM)


def target_of(key: int, parallelism: int) -> int:
    return subtask_of(group_of(key), MAX_PARALLELISM, parallelism)


def _with_origin(op: OperatorId, state: OperatorSnapshot, attempt: AttemptId) -> SubtaskSnapshot:
    origin = OperatorStateHandle("origin", StateRedistribution.SPLIT, 1, _inline(str(attempt)))
    return SubtaskSnapshot({op: OperatorSnapshot(state.keyed, (*state.operator, origin))})


def _inline(value: object) -> StateHandle:
    data = pickle.dumps(value)
    return StateHandle(len(data), "", data=data)


def _load(handle: OperatorStateHandle) -> Any:
    return pickle.loads(handle.handle.data or b"")
