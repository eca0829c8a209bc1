"""What a restored job is given, dealt as the JobManager does, at any parallelism."""

from __future__ import annotations

from dataclasses import dataclass

from tests.unit.taskmanager.runtime.in_process import Completed
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.jobmanager.machines.restore.state_assignment import StateAssignment
from tidegate.model.checkpoint import CheckpointManifest, InFlightEdge, OperatorState, RestoredOperator, SnapshotType
from tidegate.model.graph import JobGraph
from tidegate.model.ids import CheckpointId, OperatorId, SubtaskId


@dataclass
class Assigned(Completed):
    """Dealt as the JobManager does."""

    built: BuiltJob | None = None
    rescaled: BuiltJob | None = None

    def restored(self, operator_id: OperatorId, subtask: int, parallelism: int) -> RestoredOperator:
        assert self.built is not None
        assert self.rescaled is not None
        states = []
        for vertex in self.built.graph.vertices:
            acks = {a.subtask: ack for a, ack in self.acks.items() if a.vertex_id == vertex.vertex_id}
            for op in vertex.operators:
                parts = {
                    i: a.snapshot.operators[op.operator_id]
                    for i, a in acks.items()
                    if op.operator_id in a.snapshot.operators
                }
                states.append(OperatorState(op.operator_id, op.uid, op.name, vertex.parallelism, 128, parts))
        manifest = CheckpointManifest(
            self.built.graph.job_id,
            "job",
            CheckpointId(self.checkpoint_id),
            1,
            SnapshotType.CHECKPOINT,
            tuple(states),
            edges=edges_in_flight(self.built.graph),
        )
        assignment = StateAssignment(self.rescaled.graph, manifest, self.location)
        vertex_id = next(
            v.vertex_id for v in self.rescaled.graph.vertices if any(o.operator_id == operator_id for o in v.operators)
        )
        return assignment.restore_of(SubtaskId(vertex_id, subtask)).task.operators.get(operator_id, RestoredOperator())

    @staticmethod
    def of(completed: Completed, built: BuiltJob, rescaled: BuiltJob) -> Assigned:
        return Assigned(completed.checkpoint_id, completed.location, completed.acks, 0.0, built, rescaled)


def edges_in_flight(graph: JobGraph) -> tuple[InFlightEdge, ...]:
    """All edges, as a manifest tells those that data was in flight on."""
    vertices = {vertex.vertex_id: vertex for vertex in graph.vertices}
    return tuple(
        InFlightEdge(
            edge.edge_id,
            vertices[edge.source].operators[-1].operator_id,
            vertices[edge.target].operators[0].operator_id,
            edge.input_index,
            edge.partitioner,
            vertices[edge.source].parallelism,
            vertices[edge.target].parallelism,
            vertices[edge.target].max_parallelism,
        )
        for edge in graph.edges
    )
