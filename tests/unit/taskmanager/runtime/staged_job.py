"""A job whose exchanges block, in one process and one thread: each subtask from its start to its end, behind its producers.

What Spark's shuffle does is done by a dictionary here; ``tests/e2e/test_batch_stages.py`` has the shuffle itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import cloudpickle

from tests.unit.taskmanager.runtime.in_process import InProcessJob, Task
from tidegate.aio.async_calls import AsyncCalls
from tidegate.model.ids import AttemptId
from tidegate.taskmanager.exchange.blocking.endpoint import partition_of
from tidegate.taskmanager.exchange.blocking.store import StoredExchange
from tidegate.taskmanager.runtime.environment import SubtaskEnvironment
from tidegate.taskmanager.runtime.launch import SubtaskRun


class StagedJob(InProcessJob):
    """``run`` instead of ``start``. ``stored``: blocks, by the attempt that stored them and the number of the partition."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.external_resources: Mapping[str, Sequence[Mapping[str, str]]] = {}
        self.stored: dict[tuple[AttemptId, int], list[bytes]] = defaultdict(list)

    def run(self) -> None:
        """A vertex comes behind those that it reads from: a program can only read streams that it has."""
        for task in self.tasks.values():
            self.run_task(task)
        self.until(lambda: self.is_over, "all ends")

    def run_task(self, task: Task) -> None:
        """From its start to its last word."""
        exchange = StoredExchange(self.blocks_for(task))
        environment = SubtaskEnvironment(
            listen="",
            temp_dir=str(self.directory),
            open_async_calls=AsyncCalls,
            stored=exchange,
            external_resources=self.external_resources,
        )
        program = cloudpickle.loads(self.built.blobs[task.vertex.program])
        run = SubtaskRun(task.deployment, program, task.mailbox, task.port, environment)
        for _ in run.pauses():
            for partition, block in exchange.take():
                self.stored[task.attempt, partition].append(block)
            while not self.inbox.empty():
                self._take_in(self.inbox.get())

    def blocks_for(self, task: Task) -> list[bytes]:
        """All that was stored for it."""
        found: list[bytes] = []
        for edge in task.deployment.inputs:
            for producer in edge.producers:
                outputs = [(out.edge_id, out.consumers) for out in self.tasks[producer].deployment.outputs]
                found += self.stored[producer, partition_of(outputs, edge.edge_id, task.attempt.subtask)]
        return found
