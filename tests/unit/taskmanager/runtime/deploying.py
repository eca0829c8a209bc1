"""Deployments of a built job's subtasks, as the JobManager makes them, and what a completed checkpoint gives to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.checkpoint import RestoredOperator, TaskRestore
from tidegate.model.deployment import InputDeployment, OutputDeployment, TaskDeployment
from tidegate.model.graph import JobEdge, JobVertex, producers_of
from tidegate.model.ids import AllocationId, AttemptId, CheckpointId, Generation, OperatorId, VertexId


class Restorable(Protocol):
    @property
    def checkpoint_id(self) -> int: ...

    @property
    def location(self) -> str: ...

    def restored(self, operator_id: OperatorId, subtask: int, parallelism: int) -> RestoredOperator: ...


@dataclass(frozen=True)
class Deployer:
    """``finished``: vertices that had finished in the restored checkpoint."""

    built: BuiltJob
    attempt: int = 0
    restore: Restorable | None = None
    finished: frozenset[VertexId] = frozenset()

    def attempt_id(self, vertex_id: VertexId, index: int) -> AttemptId:
        return AttemptId(self.built.graph.job_id, vertex_id, index, self.attempt)

    def deployment(self, vertex: JobVertex, attempt: AttemptId) -> TaskDeployment:
        graph = self.built.graph
        return TaskDeployment(
            attempt=attempt,
            generation=Generation("0" * 32),
            allocation_id=AllocationId("0" * 32),
            job_name=graph.name,
            task_name=vertex.name,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            program=vertex.program,
            inputs=tuple(self._input(edge, attempt) for edge in graph.inputs_of(vertex.vertex_id)),
            outputs=tuple(self._output(edge, attempt) for edge in graph.outputs_of(vertex.vertex_id)),
            restore=self._restore(vertex, attempt.subtask),
            configuration=graph.configuration,
            is_source=vertex.is_source,
            data_token="secret",
            finished_on_restore=vertex.vertex_id in self.finished,
        )

    def _input(self, edge: JobEdge, attempt: AttemptId) -> InputDeployment:
        source, target = self.built.graph.vertex(edge.source), self.built.graph.vertex(edge.target)
        indices = producers_of(edge.partitioner, source.parallelism, target.parallelism, attempt.subtask)
        producers = tuple(self.attempt_id(edge.source, i) for i in indices)
        return InputDeployment(
            edge.edge_id, edge.input_index, edge.partitioner, producers, source.name, source.parallelism
        )

    def _output(self, edge: JobEdge, attempt: AttemptId) -> OutputDeployment:
        source, target = self.built.graph.vertex(edge.source), self.built.graph.vertex(edge.target)
        widths = (source.parallelism, target.parallelism)
        consumers = tuple(
            c for c in range(target.parallelism) if attempt.subtask in producers_of(edge.partitioner, *widths, c)
        )
        unaligned = self.built.graph.supports_unaligned(edge.target)
        sizes = (target.parallelism, target.max_parallelism)
        return OutputDeployment(edge.edge_id, edge.partitioner, consumers, *sizes, unaligned, edge.input_index)

    def _restore(self, vertex: JobVertex, subtask: int) -> TaskRestore | None:
        if self.restore is None:
            return None
        operators = {
            op.operator_id: self.restore.restored(op.operator_id, subtask, vertex.parallelism)
            for op in vertex.operators
        }
        return TaskRestore(CheckpointId(self.restore.checkpoint_id), self.restore.location, operators)
