"""The execution graph: the current attempt of every subtask, its earlier ones, and counts that answer questions about
"all tasks" in constant time. Follows Flink's ``DefaultExecutionGraph.java``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.jobmanager.machines.scheduling.regions import Regions
from tidegate.model.errors import ErrorInfo
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, producers_of
from tidegate.model.ids import AttemptId, SubtaskId, VertexId
from tidegate.model.states import ExecutionState


class ExecutionGraph:
    """All subtasks of one job.

    Only ``move`` changes a state, only ``reset`` makes a new attempt, only ``reshape`` changes the parallelism. Attempt numbers
    continue after ``first_attempt``, also when attempts with lower ones were adopted.
    """

    def __init__(self, graph: JobGraph, attempts_history: int, now_ms: int, first_attempt: int = 0) -> None:
        self._attempts_history = attempts_history
        self._earlier: dict[SubtaskId, deque[Execution]] = {}
        self._take(graph, first_attempt, now_ms)

    def reshape(self, graph: JobGraph, first_attempt: int, now_ms: int) -> None:
        """Replaces the graph by one with another parallelism; all its subtasks start with attempt ``first_attempt``. No subtask may be alive."""
        assert self.all_terminal, "some subtasks of the old shape live"
        for subtask, old in self._current.items():
            self._earlier[subtask].append(old)
        self._take(graph, first_attempt, now_ms)

    def _take(self, graph: JobGraph, first_attempt: int, now_ms: int) -> None:
        self.graph = graph
        self.first_attempt = first_attempt
        self.vertices: dict[VertexId, JobVertex] = {v.vertex_id: v for v in graph.vertices}
        self.regions = Regions(graph)
        self._inputs: dict[VertexId, tuple[JobEdge, ...]] = {v: graph.inputs_of(v) for v in self.vertices}
        self._outputs: dict[VertexId, tuple[JobEdge, ...]] = {v: graph.outputs_of(v) for v in self.vertices}
        self._pointwise_consumers = {e.edge_id: self._consumers(e) for e in graph.edges if e.partitioner.is_pointwise}
        self._counts = dict.fromkeys(ExecutionState, 0)
        self._vertex_counts = {v: dict.fromkeys(ExecutionState, 0) for v in self.vertices}
        self._at_end: dict[VertexId, int] = dict.fromkeys(self.vertices, 0)
        self._addressed: dict[VertexId, int] = dict.fromkeys(self.vertices, 0)
        self._leaving: dict[VertexId, int] = dict.fromkeys(self.vertices, 0)
        self._current: dict[SubtaskId, Execution] = {}
        for vertex in graph.vertices:
            for index in range(vertex.parallelism):
                subtask = SubtaskId(vertex.vertex_id, index)
                self._earlier.setdefault(subtask, deque(maxlen=self._attempts_history))
                self._put(Execution(AttemptId(graph.job_id, vertex.vertex_id, index, first_attempt), now_ms))

    def __iter__(self) -> Iterator[Execution]:
        """Iterates over the current executions in the order of the graph."""
        return iter(self._current.values())

    def __len__(self) -> int:
        return len(self._current)

    def __getitem__(self, subtask: SubtaskId) -> Execution:
        return self._current[subtask]

    def current(self, attempt: AttemptId) -> Execution | None:
        """Returns the execution of an attempt, if it is the current one of its subtask."""
        execution = self._current.get(attempt.subtask_id)
        return execution if execution is not None and execution.attempt == attempt else None

    def earlier(self, attempt: AttemptId) -> Execution | None:
        """Returns the execution of an earlier attempt, as long as it is remembered."""
        return next((e for e in self._earlier.get(attempt.subtask_id, ()) if e.attempt == attempt), None)

    def history(self, subtask: SubtaskId) -> tuple[Execution, ...]:
        return tuple(self._earlier[subtask])

    def restarting_region(self, execution: Execution) -> int | None:
        """Returns the index of the execution's region; ``None`` for the attempt with which the whole job starts."""
        is_first = execution.attempt.attempt == self.first_attempt
        return None if is_first else self.regions.index_of(execution.subtask_id)

    def executions_of(self, vertex_id: VertexId) -> list[Execution]:
        return [self._current[SubtaskId(vertex_id, i)] for i in range(self.vertices[vertex_id].parallelism)]

    def inputs_of(self, vertex_id: VertexId) -> tuple[JobEdge, ...]:
        return self._inputs[vertex_id]

    def outputs_of(self, vertex_id: VertexId) -> tuple[JobEdge, ...]:
        return self._outputs[vertex_id]

    def producers(self, edge: JobEdge, consumer: int) -> range:
        """Returns the indices of the producers of one consumer."""
        return producers_of(edge.partitioner, *self._widths(edge), consumer)

    def consumers(self, edge: JobEdge, producer: int) -> Iterable[int]:
        """Returns the indices of the consumers of one producer, in the order of its subpartitions."""
        pointwise = self._pointwise_consumers.get(edge.edge_id)
        return range(self.vertices[edge.target].parallelism) if pointwise is None else pointwise[producer]

    def move(self, execution: Execution, state: ExecutionState, now_ms: int, failure: ErrorInfo | None = None) -> None:
        """Changes the state of a current execution. Raises ``IllegalTransition``."""
        assert self._current[execution.subtask_id] is execution, execution.attempt
        self._count(execution, -1)
        execution.enter(state, now_ms, failure)
        self._count(execution, +1)

    def let_finish(self, execution: Execution) -> None:
        """Notes that the final checkpoint of an execution was confirmed, so that it may finish."""
        self._count(execution, -1)
        execution.let_finish()
        self._count(execution, +1)

    def note_end_of_data(self, execution: Execution) -> None:
        if not execution.at_end_of_data:
            execution.reach_end_of_data()
            self._at_end[execution.subtask_id.vertex_id] += 1

    def note_address(self, execution: Execution, address: str) -> bool:
        """Sets the address of an execution; returns ``False`` when it is known already."""
        if execution.address is not None:
            return False
        execution.listen_at(address)
        self._addressed[execution.subtask_id.vertex_id] += 1
        return True

    def all_addressed(self, vertex_id: VertexId) -> bool:
        """Tells whether every subtask of the vertex has reported its address."""
        return self._addressed[vertex_id] == self.vertices[vertex_id].parallelism

    def reset(self, subtask: SubtaskId, now_ms: int) -> Execution:
        """Replaces the terminal attempt of a subtask by a new one."""
        old = self._current[subtask]
        assert old.state.is_terminal, f"{old.attempt} is {old.state.value}: reset of a live attempt"
        self._count(old, -1)
        self._at_end[subtask.vertex_id] -= old.at_end_of_data
        self._addressed[subtask.vertex_id] -= old.address is not None
        self._earlier[subtask].append(old)
        a = old.attempt
        number = max(a.attempt, self.first_attempt) + 1
        return self._put(Execution(AttemptId(a.job_id, a.vertex_id, a.subtask, number), now_ms))

    def adopt(self, execution: Execution) -> None:
        """Replaces an attempt that was never deployed by one of an earlier JobManager."""
        subtask = execution.subtask_id
        old = self._current[subtask]
        assert old.state is ExecutionState.CREATED, f"{old.attempt} is {old.state.value}: another one is adopted"
        self._count(old, -1)
        self._at_end[subtask.vertex_id] += execution.at_end_of_data
        self._addressed[subtask.vertex_id] += execution.address is not None
        self._put(execution)

    def count(self, *states: ExecutionState) -> int:
        """Returns the number of current executions in any of these states."""
        return sum(self._counts[state] for state in states)

    def count_of(self, vertex_id: VertexId, state: ExecutionState) -> int:
        return self._vertex_counts[vertex_id][state]

    def counts_of(self, vertex_id: VertexId) -> dict[ExecutionState, int]:
        """Returns the number of current executions of a vertex by state; states without any are left out."""
        return {state: count for state, count in self._vertex_counts[vertex_id].items() if count}

    @property
    def all_finished(self) -> bool:
        return self._counts[ExecutionState.FINISHED] == len(self._current)

    @property
    def all_running_or_finished(self) -> bool:
        counts = self._counts
        return counts[ExecutionState.RUNNING] + counts[ExecutionState.FINISHED] == len(self._current)

    @property
    def all_terminal(self) -> bool:
        return self.count(ExecutionState.FINISHED, ExecutionState.CANCELED, ExecutionState.FAILED) == len(self._current)

    @property
    def is_any_vertex_finishing(self) -> bool:
        """Tells whether some subtasks of a vertex have finished or may finish while others have not finished."""
        return any(
            self._leaving[v] or 0 < counts[ExecutionState.FINISHED] < self.vertices[v].parallelism
            for v, counts in self._vertex_counts.items()
        )

    @property
    def all_at_end_of_data(self) -> bool:
        """Tells whether every subtask has reported its end of data."""
        return sum(self._at_end.values()) == len(self._current)

    def is_wholly_at_end(self, vertex_id: VertexId) -> bool:
        return self._at_end[vertex_id] == self.vertices[vertex_id].parallelism

    @property
    def is_anyone_leaving(self) -> bool:
        """Tells whether a running subtask may finish and waits for no other, so that its FINISHED is on the way."""
        if not any(self._leaving.values()):
            return False
        through: set[VertexId] = set()
        for vertex in self.graph.vertices:
            over = self._leaving[vertex.vertex_id] + self._vertex_counts[vertex.vertex_id][ExecutionState.FINISHED]
            producers = {edge.source for edge in self._inputs[vertex.vertex_id]}
            if over == vertex.parallelism and producers <= through:
                if self._leaving[vertex.vertex_id]:
                    return True
                through.add(vertex.vertex_id)
        return False

    def describe(self, execution: Execution) -> str:
        """Returns a name for humans, such as ``map (2/4)#0 on tm-1``."""
        vertex, attempt = self.vertices[execution.attempt.vertex_id], execution.attempt
        where = f" on {execution.task_manager_id}" if execution.task_manager_id else ""
        return f"{vertex.name} ({attempt.subtask + 1}/{vertex.parallelism})#{attempt.attempt}{where}"

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the counts are not those of the executions."""
        counts = {v: dict.fromkeys(ExecutionState, 0) for v in self.vertices}
        at_end, addressed, leaving = (dict.fromkeys(self.vertices, 0) for _ in range(3))
        for execution in self._current.values():
            execution.check_invariants()
            vertex_id = execution.subtask_id.vertex_id
            counts[vertex_id][execution.state] += 1
            at_end[vertex_id] += execution.at_end_of_data
            addressed[vertex_id] += execution.address is not None
            leaving[vertex_id] += execution.may_finish and execution.state is ExecutionState.RUNNING
        assert self._vertex_counts == counts, f"states are counted as {self._vertex_counts}, and are {counts}"
        whole = {state: sum(of[state] for of in counts.values()) for state in ExecutionState}
        assert self._counts == whole, f"states of the job are counted as {self._counts}, and are {whole}"
        assert self._at_end == at_end, f"ends of data are counted as {self._at_end}, and are {at_end}"
        assert self._addressed == addressed, f"addresses are counted as {self._addressed}, and are {addressed}"
        assert self._leaving == leaving, f"those who leave are counted as {self._leaving}, and are {leaving}"

    def _put(self, execution: Execution) -> Execution:
        self._current[execution.subtask_id] = execution
        self._count(execution, +1)
        return execution

    def _count(self, execution: Execution, by: int) -> None:
        self._counts[execution.state] += by
        vertex_id = execution.attempt.vertex_id
        self._vertex_counts[vertex_id][execution.state] += by
        if execution.may_finish and execution.state is ExecutionState.RUNNING:
            self._leaving[vertex_id] += by

    def _widths(self, edge: JobEdge) -> tuple[int, int]:
        return self.vertices[edge.source].parallelism, self.vertices[edge.target].parallelism

    def _consumers(self, edge: JobEdge) -> list[list[int]]:
        producers, consumers = self._widths(edge)
        found: list[list[int]] = [[] for _ in range(producers)]
        for consumer in range(consumers):
            for producer in producers_of(edge.partitioner, producers, consumers, consumer):
                found[producer].append(consumer)
        return found
