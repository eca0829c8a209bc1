"""The autoscaler's memory: scalings, their restart times, and pending scale-downs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.autoscaler.machines.autoscaler_settings import AutoscalerSettings
from tidegate.autoscaler.machines.evaluation import Evaluated


@dataclass(frozen=True, slots=True)
class Scaling:
    """One scaling of a vertex, with the metrics on which it was based."""

    at_ms: int
    current: int
    new: int
    evaluated: Evaluated

    @property
    def is_up(self) -> bool:
        return self.new > self.current


class ScalingHistory:
    """The last scalings of each vertex (Flink: ``ScalingHistoryUtils.java``)."""

    def __init__(self) -> None:
        self._by_vertex: dict[str, list[Scaling]] = {}

    def of(self, vertex_id: str) -> Sequence[Scaling]:
        return self._by_vertex.get(vertex_id, ())

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_vertex)

    def add(self, vertex_id: str, scaling: Scaling) -> None:
        self._by_vertex.setdefault(vertex_id, []).append(scaling)

    def trim(self, settings: AutoscalerSettings, vertices: Mapping[str, object], now_ms: int) -> None:
        """Removes vertices that do not exist, and scalings that are too old or too many."""
        trimmed = {
            vertex_id: [s for s in scalings if s.at_ms >= now_ms - settings.history_age_ms][-settings.history_count :]
            for vertex_id, scalings in self._by_vertex.items()
            if vertex_id in vertices
        }
        self._by_vertex = {vertex_id: scalings for vertex_id, scalings in trimmed.items() if scalings}


class RestartTimes:
    """The durations of scalings, from the decision to RUNNING (Flink: ``ScalingTracking.java``)."""

    def __init__(self) -> None:
        self._records: dict[int, int | None] = {}

    def on_scaled(self, now_ms: int) -> None:
        self._records[now_ms] = None

    def on_running(self, running_ms: int, history: ScalingHistory, parallelism: Mapping[str, int]) -> None:
        """Records when the job was RUNNING after the last scaling. Does nothing when its parallelism differs from that scaling."""
        if not self._records:
            return
        at_ms = max(self._records)
        if self._records[at_ms] is not None:
            return
        for vertex_id in history:
            for scaling in history.of(vertex_id):
                if scaling.at_ms == at_ms and parallelism.get(vertex_id) != scaling.new:
                    return
        self._records[at_ms] = running_ms - at_ms

    def trim(self, settings: AutoscalerSettings, now_ms: int) -> None:
        """Removes durations that are too old or too many, except the last one."""
        kept = sorted(self._records)[-settings.history_count :]
        oldest = now_ms - settings.history_age_ms
        self._records = {at: self._records[at] for at in kept if at >= oldest or at == kept[-1]}

    def longest_ms(self, settings: AutoscalerSettings) -> int:
        """Returns the expected restart time of the next scaling."""
        seen = [taken for taken in self._records.values() if taken is not None]
        if not settings.tracks_restarts or not seen:
            return settings.restart_ms
        return min(max(seen), settings.restart_limit_ms)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommendation at one time to scale a vertex down."""

    at_ms: int
    parallelism: int
    is_outside_bounds: bool


class DelayedScaleDowns:
    """Scale-downs that wait for ``job.autoscaler.scale-down.interval``, in which they must be recommended throughout (Flink: ``DelayedScaleDown.java``)."""

    def __init__(self) -> None:
        self._by_vertex: dict[str, tuple[int, list[Recommendation]]] = {}

    def recommend(self, vertex_id: str, recommendation: Recommendation) -> int:
        """Adds a recommendation; returns since when a scale-down of the vertex is recommended."""
        first_ms, recommended = self._by_vertex.setdefault(vertex_id, (recommendation.at_ms, []))
        while recommended and recommended[-1].parallelism <= recommendation.parallelism:
            recommended.pop()
        recommended.append(recommendation)
        return first_ms

    def greatest_since(self, vertex_id: str, from_ms: int) -> Recommendation:
        """Returns the recommendation with the greatest parallelism since a time; there must be one."""
        recommended = self._by_vertex[vertex_id][1]
        while recommended[0].at_ms < from_ms:
            recommended.pop(0)
        return recommended[0]

    def clear(self, vertex_id: str) -> None:
        """Removes the pending scale-down of a vertex, which needs its current parallelism or more."""
        self._by_vertex.pop(vertex_id, None)

    def clear_all(self) -> None:
        """Removes all pending scale-downs after a scaling of the job."""
        self._by_vertex.clear()
