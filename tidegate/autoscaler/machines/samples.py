"""The samples of a job's metrics, and the metric window over them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tidegate.autoscaler.machines.numbers import is_nan


@dataclass(frozen=True, slots=True)
class Vertex:
    """A vertex of the running job. ``inputs``: the ship strategy of each input, by the vertex from which it comes. ``partitions``: of its source; 0:
    unknown, or none."""

    vertex_id: str
    parallelism: int
    max_parallelism: int
    inputs: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 0
    is_finished: bool = False
    name: str = ""

    @property
    def is_source(self) -> bool:
        return not self.inputs


@dataclass(frozen=True)
class Topology:
    """The vertices of a job in topological order."""

    vertices: Sequence[Vertex]

    @staticmethod
    def of(vertices: Iterable[Vertex]) -> Topology:
        """Sorts vertices topologically."""
        left = {vertex.vertex_id: vertex for vertex in vertices}
        placed: dict[str, Vertex] = {}
        while left:
            ready = [v for v in left.values() if not v.inputs.keys() & left.keys()]
            assert ready, f"the vertices {sorted(left)} are a circle"
            for vertex in ready:
                placed[vertex.vertex_id] = left.pop(vertex.vertex_id)
        return Topology(tuple(placed.values()))

    @cached_property
    def by_id(self) -> Mapping[str, Vertex]:
        return {vertex.vertex_id: vertex for vertex in self.vertices}

    @cached_property
    def outputs(self) -> Mapping[str, Sequence[str]]:
        """The vertices to which each vertex sends."""
        return {
            vertex.vertex_id: tuple(other.vertex_id for other in self.vertices if vertex.vertex_id in other.inputs)
            for vertex in self.vertices
        }


@dataclass(frozen=True, slots=True)
class VertexMetrics:
    """The metrics of one vertex at one time; NaN: unknown (Flink: ``ScalingMetric``)."""

    records_in: float = math.nan
    """The records since the start of its attempts."""
    records_out: float = math.nan
    records_in_per_second: float = math.nan
    load: float = math.nan
    """The busy share of the time, aggregated over its subtasks."""
    accumulated_busy_ms: float = math.nan
    """The busy time, summed over its subtasks."""
    lag: float = math.nan
    """The records that a source has not read yet."""
    observed_rate: float = math.nan
    """The records per second while it reads at full speed."""


@dataclass(frozen=True, slots=True)
class GlobalMetrics:
    """The greatest value of each metric over all TaskManagers; NaN: unknown."""

    gc_pressure: float = math.nan
    heap_usage: float = math.nan


@dataclass(frozen=True, slots=True)
class Collected:
    """The metrics of all vertices and of the cluster at one time."""

    vertices: Mapping[str, VertexMetrics]
    cluster: GlobalMetrics = GlobalMetrics()


class MetricWindow:
    """The samples of the metric window by their time in ms."""

    def __init__(self) -> None:
        self._samples: dict[int, Collected] = {}

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def first_ms(self) -> int:
        return next(iter(self._samples))

    @property
    def last(self) -> Collected:
        return self._samples[next(reversed(self._samples))]

    def add(self, now_ms: int, sample: Collected) -> None:
        """Adds a sample; it must be later than the others."""
        self._samples[now_ms] = sample

    def first_since(self, from_ms: int) -> int | None:
        return next((at for at in self._samples if at >= from_ms), None)

    def clear(self) -> None:
        self._samples.clear()

    def trim(self, before_ms: int) -> None:
        self._samples = {at: sample for at, sample in self._samples.items() if at >= before_ms}

    def samples(self) -> Iterable[Collected]:
        return self._samples.values()

    def rate(self, vertex_id: str, metric: str) -> float:
        """Returns the growth of a counter per second, from its first to its last value; NaN with fewer than two values."""
        known = [
            (at, value)
            for at, sample in self._samples.items()
            if not is_nan(value := getattr(sample.vertices.get(vertex_id, _NOTHING), metric))
        ]
        if len(known) < 2:
            return math.nan
        (first_ms, first), (last_ms, last) = known[0], known[-1]
        grown: float = last - first
        return 1000 * grown / max(last_ms - first_ms, 1)

    def average(self, vertex_id: str, metric: str, at_least: int = 1) -> float:
        """Returns the average of the known values of a metric; infinite ones count only where there are no others; NaN with fewer than ``at_least``
        values."""
        return average((getattr(s.vertices.get(vertex_id, _NOTHING), metric) for s in self.samples()), at_least)


_NOTHING = VertexMetrics()


def average(values: Iterable[float], at_least: int = 1) -> float:
    """Returns the average of the known values, like ``MetricWindow.average``."""
    known = [value for value in values if not is_nan(value)]
    finite = [value for value in known if math.isfinite(value)]
    if not finite:
        return math.inf if known else math.nan
    return sum(finite) / len(finite) if len(finite) >= at_least else math.nan
