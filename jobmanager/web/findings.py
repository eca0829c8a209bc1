"""Says in a sentence what is wrong with how a running job works: which operator holds it up, which subtask has too many rows, whose state grows.

    metrics of the last minutes, by vertex ─▶ decide_findings ─▶ sentences, each with its evidence and what to do

Every function is pure. A finding needs evidence over a minute (of state: over minutes), so that it does not come and go with each report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tidegate.model.graph import Partitioner
from tidegate.model.ids import VertexId
from tidegate.model.units import show_duration_ms, show_size_bytes

HELD_UP = 0.5
"""From this share of its time on a producer is held up by what it feeds: Flink calls its backpressure HIGH above it
(``JobVertexBackPressureHandler``)."""
UNEVEN = 1.5
"""A subtask with this many times the rows of a mean one is skewed. When it works all the time, the others work two thirds of theirs, so
a third of the vertex is unused."""
LEAST_ROWS = 100
"""From this many rows for each subtask on skew is looked for. Keys that are dealt at random give a subtask half as many rows again once in
three million times then: five standard deviations."""
GROWN = 1.25
"""State that is larger by this factor is said to grow. Chosen, not measured."""
LEAST_GROWTH_BYTES = 1 << 20
"""Growth below this is not said. Chosen, not measured: a job with little state is no trouble when it has twice as little."""
LEAST_GROWTH_MS = 5 * 60_000
"""For how long the state of a vertex is watched before it is said to grow. Chosen, not measured: the time of many checkpoints."""
PARTS = 5
"""The time is cut into this many parts, and the least size in each must be larger than in the one before: what a window
adds and removes is no growth."""
_SHORT_LIST = 3
"""How many producers are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class SubtaskLoad:
    """The means of a subtask over the last minute: rows per second in (of a source: out), and shares of its time."""

    index: int
    rows_s: float
    busy: float = 0.0
    backpressured: float = 0.0


@dataclass(frozen=True, slots=True)
class VertexLoad:
    """What is known of a vertex. ``covered_ms``: the time that the means of its subtasks are over; ``state``: the bytes of its state in
    completed checkpoints, oldest first, ``step_ms`` apart; ``operators``: the mean share of a subtask's time by operator."""

    vertex_id: VertexId
    name: str
    subtasks: Sequence[SubtaskLoad]
    covered_ms: int
    inputs: Sequence[tuple[VertexId, Partitioner]] = ()
    operators: Mapping[str, float] = field(default_factory=dict)
    state: Sequence[float] = ()
    step_ms: int = 1


@dataclass(frozen=True, slots=True)
class JobFinding:
    """One sentence about a vertex. ``kind``: ``slow``, ``skewed`` or ``growing``; ``subtask``: its index, where it is about one."""

    kind: str
    vertex_id: VertexId
    subtask: int | None
    sentence: str
    advice: str


def decide_findings(vertices: Sequence[VertexLoad]) -> list[JobFinding]:
    """Returns what is found: operators that hold up others, then skew, then growth; each in the order of the vertices."""
    by_id = {vertex.vertex_id: vertex for vertex in vertices}
    slow = [found for vertex in vertices if (found := _slow(vertex, by_id)) is not None]
    skewed = [found for vertex in vertices if (found := _skewed(vertex)) is not None]
    growing = [found for vertex in vertices if (found := _growing(vertex)) is not None]
    return [*slow, *skewed, *growing]


def _slow(vertex: VertexLoad, by_id: Mapping[VertexId, VertexLoad]) -> JobFinding | None:
    """Returns that a vertex holds up its producers: one of them waits, and it does not wait itself but works."""
    if not vertex.subtasks:
        return None
    busiest = max(vertex.subtasks, key=lambda each: each.busy)
    if busiest.busy < HELD_UP or _waits(vertex) > HELD_UP:
        return None
    held_up = [
        (by_id[producer].name, share)
        for producer in dict.fromkeys(producer for producer, _ in vertex.inputs)
        if producer in by_id and (share := _waits(by_id[producer])) > HELD_UP
    ]
    if not held_up:
        return None
    busy = f"busy {_percent(busiest.busy)} of the time"
    advice = "Give it more subtasks, or less work for each row; the flame graph shows where its time goes."
    mean = sum(each.busy for each in vertex.subtasks) / len(vertex.subtasks)
    is_one = busiest.busy >= UNEVEN * mean
    if is_one:
        busy = f"{busy} in subtask {busiest.index + 1} ({_percent(mean)} on average)"
        advice = "One subtask does most of its work: more of them alone do not help, evenly dealt rows do."
    name, share = max(vertex.operators.items(), key=lambda item: item[1], default=("", 0.0))
    within = f", most of it in {name} ({_percent(share)})" if len(vertex.operators) > 1 and share > 0 else ""
    waiting = ", ".join(f"{name} {_percent(share)}" for name, share in held_up[:_SHORT_LIST])
    more = f" and {len(held_up) - _SHORT_LIST} more" if len(held_up) > _SHORT_LIST else ""
    return JobFinding(
        "slow",
        vertex.vertex_id,
        busiest.index if is_one else None,
        f"{vertex.name} holds the job up: it is {busy}{within}, and what feeds it waits for it: {waiting}{more} of the time.",
        advice,
    )


def _skewed(vertex: VertexLoad) -> JobFinding | None:
    """Returns that one subtask has far more rows than a mean one."""
    count, total = len(vertex.subtasks), sum(each.rows_s for each in vertex.subtasks)
    if count < 2 or total * vertex.covered_ms < 1000 * LEAST_ROWS * count:
        return None
    most = max(vertex.subtasks, key=lambda each: each.rows_s)
    if most.rows_s * count < UNEVEN * total:
        return None
    kinds = {partitioner for _, partitioner in vertex.inputs}
    verb = "gets" if vertex.inputs else "reads"
    even = f"with {count} subtasks an even share is {_percent(1 / count)}"
    if not kinds:
        advice = (
            "Some of its splits or partitions have more rows than others, or there are fewer of them than subtasks."
        )
    elif Partitioner.HASH in kinds:
        advice = "All rows of one key go to one subtask: few keys, or one with many rows. Aggregate before key_by, or split that key."
    elif kinds <= {Partitioner.FORWARD, Partitioner.RESCALE}:
        advice = "It has the rows of the subtask before it: rebalance() deals them evenly."
    else:
        advice = "The partitioner of its input deals unevenly."
    return JobFinding(
        "skewed",
        vertex.vertex_id,
        most.index,
        f"Subtask {most.index + 1} of {vertex.name} {verb} {_percent(most.rows_s / total)} of the rows; {even}.",
        advice,
    )


def _growing(vertex: VertexLoad) -> JobFinding | None:
    """Returns that the state of a vertex grows: the least size in each part of the time is larger than in the part before."""
    sizes = vertex.state
    watched_ms = (len(sizes) - 1) * vertex.step_ms
    if watched_ms < LEAST_GROWTH_MS:
        return None
    bounds = [len(sizes) * part // PARTS for part in range(PARTS + 1)]
    least = [min(sizes[begin:end]) for begin, end in pairwise(bounds)]
    if any(later <= earlier for earlier, later in pairwise(least)):
        return None
    grown_bytes = least[-1] - least[0]
    if least[-1] < GROWN * least[0] or grown_bytes < LEAST_GROWTH_BYTES:
        return None
    before, now = show_size_bytes(round(sizes[0])), show_size_bytes(round(sizes[-1]))
    return JobFinding(
        "growing",
        vertex.vertex_id,
        None,
        f"The state of {vertex.name} grows: from {before} to {now} in {show_duration_ms(watched_ms)}.",
        "If it should not, something is never cleared: state without a time-to-live, or a window that does not end. The tab State shows which.",
    )


def _waits(vertex: VertexLoad) -> float:
    """Returns the share of time for which the subtask that waits longest is backpressured."""
    return max((each.backpressured for each in vertex.subtasks), default=0.0)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
