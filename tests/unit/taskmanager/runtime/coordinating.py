"""The coordinators of a job in one process, as ``OperatorCoordinators`` of the JobManager has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from tidegate.jobmanager.machines.coordination.source_coordinator import SourceCoordinator
from tidegate.model.coordinators.operator_events import (
    CoordinatorEvent,
    DiscoveryNoted,
    OperatorEvent,
    ReportBacklog,
    RequestDiscovery,
    RequestSplit,
    SourceSplit,
    SplitsDiscovered,
)
from tidegate.model.graph import JobGraph
from tidegate.model.ids import AttemptId, CheckpointId, OperatorId

Splits = Mapping[OperatorId, tuple[SourceSplit, ...]]


class Coordinators:
    """``waiting``: the splits that no reader had in the checkpoint that is restored, ``None`` without one. ``send`` brings an event to
    a subtask."""

    def __init__(
        self, graph: JobGraph, waiting: Splits | None, send: Callable[[AttemptId, OperatorEvent], None]
    ) -> None:
        self._send = send
        self._sent: Counter[AttemptId] = Counter()
        self._sources: dict[OperatorId, SourceCoordinator] = {}
        for vertex in graph.vertices:
            for operator in vertex.operators:
                if operator.splits is not None:
                    splits = operator.splits if waiting is None else waiting.get(operator.operator_id, ())
                    source = SourceCoordinator(splits, vertex.parallelism, discovers=operator.discovers_splits)
                    self._sources[operator.operator_id] = source

    def snapshot(self, n: int) -> dict[OperatorId, tuple[SourceSplit, ...]]:
        """The splits that no reader has."""
        return {name: source.snapshot(CheckpointId(n)).unassigned for name, source in self._sources.items()}

    def on_event(self, attempt: AttemptId, said: OperatorEvent) -> None:
        """A reader speaks to its coordinator, or an enumerator to the JobManager."""
        if isinstance(said.event, ReportBacklog):
            return  # tests say when there are checkpoints
        operator_id, source = said.operator_id, self._sources[said.operator_id]
        match said.event:
            case RequestSplit():
                self._tell(attempt, operator_id, source.on_request(attempt.subtask))
            case RequestDiscovery():
                self._tell(attempt, operator_id, source.on_discovery_requested())
            case SplitsDiscovered():
                source.on_discovered(said.event)
                self._tell(attempt, operator_id, DiscoveryNoted(said.number))
        for subtask, splits in source.given_out(lambda _: True):
            reader = AttemptId(attempt.job_id, attempt.vertex_id, subtask, attempt.attempt)
            self._tell(reader, operator_id, splits)

    def _tell(self, attempt: AttemptId, operator_id: OperatorId, event: CoordinatorEvent | None) -> None:
        if event is not None:
            self._sent[attempt] += 1
            self._send(attempt, OperatorEvent(operator_id, self._sent[attempt], event))
