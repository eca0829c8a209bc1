"""Builds the deployments of subtasks, and connects consumers once the addresses of their producers are known.

Tasks are submitted all at once and open their sockets independently; a consumer is connected to the producers of one edge
in one message, when the last of them has reported its address.
"""

from __future__ import annotations

from tidegate.jobmanager.machines.command_buffer import CallKind, CommandBuffer, OpenCall
from tidegate.jobmanager.machines.commands import ConnectTask, SubmitTask
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.execution_graph import ExecutionGraph
from tidegate.model.deployment import InputDeployment, OutputDeployment, ProducerAddress, TaskDeployment
from tidegate.model.graph import JobEdge
from tidegate.model.ids import AttemptId, SubtaskId, hex_id


class Deployments:
    """Builds the deployments of one job's subtasks."""

    def __init__(self, graph: ExecutionGraph, configuration: dict[str, str], buffer: CommandBuffer) -> None:
        self._graph = graph
        self._configuration = configuration
        self._buffer = buffer
        # Random, so that it cannot be guessed outside this job and this JobManager process.
        draw = f"{buffer.random.bits():016x}{buffer.random.bits():016x}"
        self._data_token = hex_id("data-token", buffer.generation, graph.graph.job_id, draw)
        # One tuple for all tasks of an edge: the product of the parallelisms is too many to build one for each task.
        self._all_producers: dict[int, tuple[AttemptId, ...]] = {}
        self._all_consumers: dict[int, tuple[int, ...]] = {}
        self.reshape()

    def reshape(self) -> None:
        """Adapts the consumers of edges to the parallelism of the execution graph, after that was changed."""
        graph = self._graph
        self._all_consumers = {
            edge.edge_id: tuple(range(graph.vertices[edge.target].parallelism))
            for edge in graph.graph.edges
            if not edge.partitioner.is_pointwise
        }

    def submit(self, executions: list[Execution]) -> None:
        """Orders SubmitTask for each execution; the attempts of all of them are final by now."""
        self._all_producers.clear()
        for execution in executions:
            assert execution.task_manager_id is not None
            call = OpenCall(
                CallKind.SUBMIT,
                execution.task_manager_id,
                job_id=execution.attempt.job_id,
                attempt=execution.attempt,
            )
            region = self._graph.restarting_region(execution)
            deployment = self._make(execution)
            self._buffer.emit(SubmitTask(self._buffer.open_call(call), execution.task_manager_id, deployment, region))

    def on_address(self, producer: Execution) -> None:
        """Connects the consumers for which only the address of this producer was missing."""
        for edge in self._graph.outputs_of(producer.attempt.vertex_id):
            if edge.partitioner.is_pointwise:
                for consumer in self._graph.consumers(edge, producer.attempt.subtask):
                    producers = [self._graph[SubtaskId(edge.source, p)] for p in self._graph.producers(edge, consumer)]
                    self._connect(edge, consumer, self._addresses(producers))
                continue
            if self._graph.all_addressed(edge.source):
                addresses = self._addresses(self._graph.executions_of(edge.source))
                for consumer in self._graph.consumers(edge, producer.attempt.subtask):
                    self._connect(edge, consumer, addresses)

    def _connect(self, edge: JobEdge, consumer: int, addresses: tuple[ProducerAddress, ...]) -> None:
        execution = self._graph[SubtaskId(edge.target, consumer)]
        if not addresses or not execution.is_deployed or execution.task_manager_id is None:
            return
        if not self._buffer.is_connected(execution.task_manager_id):
            return
        call = OpenCall(
            CallKind.CONNECT, execution.task_manager_id, job_id=execution.attempt.job_id, attempt=execution.attempt
        )
        self._buffer.emit(
            ConnectTask(self._buffer.open_call(call), execution.task_manager_id, execution.attempt, addresses)
        )

    def _addresses(self, producers: list[Execution]) -> tuple[ProducerAddress, ...]:
        """Returns the addresses of all producers, or none if one is missing."""
        found: list[ProducerAddress] = []
        for execution in producers:
            if execution.address is None or not execution.is_deployed:
                return ()
            found.append(ProducerAddress(execution.attempt, execution.address))
        return tuple(found)

    def _make(self, execution: Execution) -> TaskDeployment:
        graph, attempt = self._graph, execution.attempt
        vertex = graph.vertices[attempt.vertex_id]
        assert execution.allocation_id is not None
        return TaskDeployment(
            attempt=attempt,
            generation=self._buffer.generation,
            allocation_id=execution.allocation_id,
            job_name=graph.graph.name,
            task_name=vertex.name,
            parallelism=vertex.parallelism,
            max_parallelism=vertex.max_parallelism,
            program=vertex.program,
            inputs=tuple(self._input(edge, attempt.subtask) for edge in graph.inputs_of(vertex.vertex_id)),
            outputs=tuple(self._output(edge, attempt.subtask) for edge in graph.outputs_of(vertex.vertex_id)),
            restore=execution.restore,
            configuration=self._configuration,
            blobs=graph.graph.blobs,
            is_source=vertex.is_source,
            data_token=self._data_token,
            finished_on_restore=execution.finished_on_restore,
            spark_query=vertex.spark_query,
            slot_resources=vertex.slot_resources,
            signature=vertex.signature,
        )

    def _input(self, edge: JobEdge, consumer: int) -> InputDeployment:
        if edge.partitioner.is_pointwise:
            producers = tuple(
                self._graph[SubtaskId(edge.source, p)].attempt for p in self._graph.producers(edge, consumer)
            )
        else:
            if edge.edge_id not in self._all_producers:
                self._all_producers[edge.edge_id] = tuple(e.attempt for e in self._graph.executions_of(edge.source))
            producers = self._all_producers[edge.edge_id]
        source = self._graph.vertices[edge.source]
        return InputDeployment(
            edge.edge_id, edge.input_index, edge.partitioner, producers, source.name, source.parallelism
        )

    def _output(self, edge: JobEdge, producer: int) -> OutputDeployment:
        target = self._graph.vertices[edge.target]
        if edge.partitioner.is_pointwise:
            consumers = tuple(self._graph.consumers(edge, producer))
        else:
            consumers = self._all_consumers[edge.edge_id]
        return OutputDeployment(
            edge.edge_id,
            edge.partitioner,
            consumers,
            target.parallelism,
            target.max_parallelism,
            self._graph.graph.supports_unaligned(edge.target),
            edge.input_index,
        )
