"""The job of the simulation: sources with offsets, a keyed counter behind a hash exchange, a two-phase-commit sink.

    source (its splits, N rows each) ──HASH──▶ counter (emits key, running count) ──FORWARD / REBALANCE──▶ sink
    or, embarrassingly parallel (as many regions as splits): source ──FORWARD──▶ counter ──FORWARD──▶ sink

Every row of key k makes the counter emit (k, 1), (k, 2), ...: an exact output holds each pair once. The job is submitted
several times in one schedule, each time under another job id and, but for the parallel one, at another parallelism.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace

from tests.sim.storage import Record
from tidegate.model.coordinators.operator_events import SourceSplit
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo, Partitioner
from tidegate.model.ids import BlobKey, JobId, OperatorId, VertexId, hex_id
from tidegate.model.keygroups import key_group, range_of, subtask_of

SOURCE, COUNTER, SINK = (VertexId(hex_id("sim", name)) for name in ("source", "counter", "sink"))
SOURCE_OP, COUNTER_OP, SINK_OP = (OperatorId(hex_id("sim-op", name)) for name in ("source", "counter", "sink"))
OPERATOR_OF = {SOURCE: SOURCE_OP, COUNTER: COUNTER_OP, SINK: SINK_OP}
MAX_PARALLELISM = 8
MOST_SUBTASKS = 3
MOST_SPLITS = 7
KEYS = 7
ROWS_OF_A_KEY = 4
_NAMES_READERS = 0.4
_PREFIX = "execution.checkpointing."


@dataclass(frozen=True, slots=True)
class SimJob:
    rows: tuple[int, ...]
    """Rows of each split."""
    is_parallel: bool
    configuration: dict[str, str]
    pipelines: int
    """The parallelism of a job without an exchange."""
    is_assigned: bool = False
    """A coordinator hands out the splits."""
    arrivals_ms: tuple[int, ...] = ()
    """When each split is there to be found, by the clock of the world; those at 0 are listed when the job is submitted. Empty: all are."""
    names_readers: bool = False
    """A split that is found later names the reader that must read it."""

    @property
    def is_discovered(self) -> bool:
        """One reader looks for new splits, so the job has no end of its own."""
        return bool(self.arrivals_ms)

    def listed(self) -> list[int]:
        """The splits that were there when the job was submitted."""
        return [n for n in range(len(self.rows)) if not self.is_discovered or not self.arrivals_ms[n]]

    def key_of(self, split: int, offset: int) -> int:
        # For a while the same key, so that most key groups do not change between two checkpoints.
        key = (offset // ROWS_OF_A_KEY * 5 + split * 3) % KEYS
        # Without an exchange no two splits may share a key, or each pipeline counts it from one.
        return key * len(self.rows) + split if self.is_parallel else key

    def splits_of(self, subtask: int, parallelism: int) -> tuple[int, ...]:
        return tuple(split for split in range(len(self.rows)) if split % parallelism == subtask)

    def expected(self) -> Counter[Record]:
        return self.output_of(dict(enumerate(self.rows)))

    def output_of(self, offsets: dict[int, int]) -> Counter[Record]:
        """What exactly the rows below these offsets make."""
        keys = Counter(self.key_of(split, i) for split, offset in offsets.items() for i in range(offset))
        return Counter({(key, number): 1 for key, count in keys.items() for number in range(1, count + 1)})

    def graph(self, life: int, rng: random.Random) -> JobGraph:
        """For the ``life``-th submission."""
        parallelism = self.pipelines if self.is_parallel else rng.choice((1, 2, 2, MOST_SUBTASKS))
        sinks = parallelism if self.is_parallel else rng.choice((1, 2, parallelism))
        exchange = Partitioner.FORWARD if self.is_parallel else Partitioner.HASH
        to_sink = Partitioner.FORWARD if sinks == parallelism else Partitioner.REBALANCE
        return JobGraph(
            JobId(hex_id("sim-job", str(life))),
            "sim",
            (
                self._source(parallelism),
                _vertex(COUNTER, COUNTER_OP, "counter", parallelism),
                _vertex(SINK, SINK_OP, "sink", sinks, is_sink=True),
            ),
            (JobEdge(0, SOURCE, COUNTER, exchange), JobEdge(1, COUNTER, SINK, to_sink)),
        )

    def _source(self, parallelism: int) -> JobVertex:
        vertex = _vertex(SOURCE, SOURCE_OP, "source", parallelism, is_source=True)
        if not self.is_assigned:
            return vertex
        splits = tuple(SourceSplit(str(number), b"") for number in self.listed())
        source = replace(vertex.operators[0], splits=splits, discovers_splits=self.is_discovered)
        return replace(vertex, operators=(source,))


def draw_job(
    rng: random.Random, parallel: float, unaligned: float, assigned: float, discovered_for_ms: int = 0
) -> SimJob:
    """``parallel``, ``unaligned`` and ``assigned`` are probabilities. ``discovered_for_ms``: splits appear for so long; 0: all are listed."""
    job = _draw_job(rng, parallel, unaligned, assigned)
    if not discovered_for_ms:
        return job
    arrivals = tuple(rng.choice((0, rng.randint(1, discovered_for_ms))) for _ in job.rows)
    return replace(job, arrivals_ms=arrivals, names_readers=rng.random() < _NAMES_READERS)


def _draw_job(rng: random.Random, parallel: float, unaligned: float, assigned: float) -> SimJob:
    is_assigned = rng.random() < assigned
    pipelines = rng.choice((1, 2, 2, MOST_SUBTASKS))
    splits = rng.randint(3, MOST_SPLITS) if is_assigned else pipelines
    least, most = (20, 50) if is_assigned else (60, 140)
    options = {
        "interval": f"{rng.choice((40, 80, 200))} ms",
        "timeout": f"{rng.choice((250, 600, 2000))} ms",
        "min-pause": f"{rng.choice((0, 0, 50))} ms",
        "max-concurrent-checkpoints": str(rng.choice((1, 1, 2))),
        "tolerable-failed-checkpoints": str(rng.choice((0, 2, 1000))),
        "num-retained": str(rng.choice((1, 2))),
        "incremental": rng.choice(("true", "false")),
        "externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    if rng.random() < unaligned:
        options |= {
            "unaligned.enabled": "true",
            "aligned-checkpoint-timeout": rng.choice(("0 ms", "0 ms", "20 ms", "60 ms")),
            "max-concurrent-checkpoints": "1",
        }
    return SimJob(
        rows=tuple(rng.randint(least, most) for _ in range(splits)),
        is_parallel=rng.random() < parallel,
        pipelines=pipelines,
        is_assigned=is_assigned,
        configuration={
            **{_PREFIX + key: text for key, text in options.items()},
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


_GROUPS = {key: key_group(key, MAX_PARALLELISM) for key in range(KEYS * MOST_SPLITS)}
"""Asked for every row."""


def group_of(key: int, subtask: int, parallelism: int) -> int:
    """The key group under which a counter keeps a key: one of its own, also where rows come without an exchange by key."""
    owned = range_of(subtask, MAX_PARALLELISM, parallelism)
    return min(max(_GROUPS[key], owned.start), owned.end)


def target_of(key: int, parallelism: int) -> int:
    return subtask_of(_GROUPS[key], MAX_PARALLELISM, parallelism)
