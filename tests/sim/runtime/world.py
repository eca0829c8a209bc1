"""One execution of the job in the simulated world: real subtasks, and the JobManager's side as small as they need it.

    sweep: every actor (a subtask's thread, its sockets, its background work, its mails, each wire) may act, in a drawn order and
           at its own speed; when nobody has anything to do, time passes until somebody has

The coordinator triggers, aborts, confirms late and twice, as drawn. Which checkpoints are complete is data of ``Outside``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import or_
from random import Random

import cloudpickle

from tests.sim.laws import Law, LawBroken
from tests.sim.runtime.background import SteppedBackground
from tests.sim.runtime.job import Outside
from tests.sim.runtime.sockets import Network, SteppedLoop
from tests.sim.runtime.store import CHECKPOINTS, SHARED, SimStore
from tests.sim.runtime.subtasks import FreeMeter, SimClock, SimMailbox, SimPort, SimSubtask
from tests.unit.taskmanager.runtime.assigned import Assigned
from tests.unit.taskmanager.runtime.deploying import Deployer
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.channel_events import Barrier
from tidegate.model.checkpoint import Acknowledgement, Alignment, CheckpointOptions, DeclineReason
from tidegate.model.deployment import ProducerAddress, TaskDeployment
from tidegate.model.ids import AttemptId, VertexId
from tidegate.model.states import ExecutionState
from tidegate.taskmanager.recording.failures import FailureKeeper
from tidegate.taskmanager.runtime.environment import SubtaskEnvironment
from tidegate.taskmanager.runtime.launch import SubtaskRun
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.ports import (
    AbortCheckpoint,
    CancelTask,
    ConfirmCheckpoint,
    ConnectInputs,
    ControlLost,
    Mail,
)

MOST_SWEEPS = 20_000


@dataclass
class Pending:
    waits_for: set[AttemptId]
    may_finish: frozenset[VertexId]
    acks: dict[AttemptId, Acknowledgement] = field(default_factory=dict)


@dataclass
class Mix:
    """Probabilities of one schedule, for each sweep."""

    trigger: float = 0.05
    abort: float = 0.004
    confirm_twice: float = 0.2
    kill: float = 0.0
    disk_full: float = 0.0
    concurrent: int = 1
    """How many checkpoints may be pending."""
    alignments: tuple[tuple[Alignment, int | None], ...] = ((Alignment.ALIGNED, None),)


@dataclass
class Counts:
    sweeps: int = 0
    checkpoints: int = 0
    aborted: int = 0
    declined: int = 0
    faults: int = 0
    in_flight: int = 0
    """Bytes of data in flight that completed checkpoints held."""


class Execution:
    """All subtasks of one attempt of the job."""

    def __init__(
        self,
        random: Random,
        clock: SimClock,
        built: BuiltJob,
        store: SimStore,
        outside: Outside,
        counts: Counts,
        mix: Mix,
        attempt: int,
        restore: Assigned | None,
        open_failures: Callable[[TaskDeployment, bytes], FailureKeeper | None] = lambda deployment, program: None,
    ) -> None:
        """``open_failures``: what records a subtask."""
        self._open_failures = open_failures
        self.latest = restore
        self.mix = mix
        self._random = random
        self._clock = clock
        self._built = built
        self._store = store
        self._outside = outside
        self._counts = counts
        self._network = Network(random)
        self._next_id = 1 if restore is None else 1000 * attempt
        self._pending: dict[int, Pending] = {}
        self._votes: dict[tuple[AttemptId, int], str] = {}
        self._told_producers: set[tuple[AttemptId, AttemptId]] = set()
        self._may_finish: set[AttemptId] = set()
        self._is_stopping = False
        deployer = Deployer(built, attempt, restore)
        self.subtasks: dict[AttemptId, SimSubtask] = {}
        for vertex in built.graph.vertices:
            for index in range(vertex.parallelism):
                self._deploy(deployer, deployer.attempt_id(vertex.vertex_id, index))
        self._actors: list[tuple[float, Callable[[], bool]]] = [
            (random.choice((1.0, 1.0, 0.6, 0.3)), actor) for task in self.subtasks.values() for actor in task.actors()
        ]

    def _deploy(self, deployer: Deployer, attempt: AttemptId) -> None:
        vertex = self._built.graph.vertex(attempt.vertex_id)
        deployment = deployer.deployment(vertex, attempt)
        producers = tuple(producer for edge in deployment.inputs for producer in edge.producers)
        task = SimSubtask(attempt, vertex, producers, self._clock, SimMailbox(), SimPort())

        def background(mailbox: Mailbox) -> SteppedBackground:
            task.background.append(SteppedBackground(mailbox))
            return task.background[-1]

        def io(name: str, clock: Callable[[], float], on_crash: Callable[[Exception], None]) -> SteppedLoop:
            task.io.append(self._network.open_loop(name, clock, on_crash))
            return task.io[-1]

        environment = SubtaskEnvironment(
            listen="",
            clock=self._clock,
            open_io=io,
            open_background=lambda name, mailbox: background(mailbox),
            open_snapshot_writer=background,
            open_store=self._store.open,
            open_segments=self._store.source,
            open_meter=FreeMeter,
            failures=self._open_failures(deployment, self._built.blobs[vertex.program]),
        )
        program = cloudpickle.loads(self._built.blobs[vertex.program])
        task.start(SubtaskRun(deployment, program, task.mailbox, task.port, environment))
        self.subtasks[attempt] = task

    # --- the schedule ---

    @property
    def is_over(self) -> bool:
        return all(task.is_over for task in self.subtasks.values())

    @property
    def is_finished(self) -> bool:
        return all(task.state is ExecutionState.FINISHED for task in self.subtasks.values())

    @property
    def needs_restart(self) -> bool:
        return any(task.is_gone or task.error is not None for task in self.subtasks.values())

    def sweep(self) -> None:
        self._counts.sweeps += 1
        self._clock.ms += self._random.random()
        if not self._is_stopping:
            self._coordinate()
        actors = self._actors.copy()
        self._random.shuffle(actors)
        acted = False
        for speed, actor in actors:
            if speed >= 1.0 or self._random.random() < speed:
                acted = actor() or acted
        for sock in list(self._network.sockets):
            if self._random.random() < 0.7:
                acted = self._network.deliver(sock) or acted
        for task in self.subtasks.values():
            if task.port.sent and self._random.random() < 0.7:
                self._take_in(task)
                acted = True
        if not acted:
            self._clock.ms = max(self._clock.ms, self._next_ms())

    def _next_ms(self) -> float:
        idle = [task for task in self.subtasks.values() if not task.is_over]
        times = [task.due_ms for task in idle]
        times += [loop.next_ms for task in idle for loop in task.io if loop.next_ms is not None]
        return min((at for at in times if at != float("inf")), default=self._clock.ms)

    def stop(self) -> None:
        """Whoever still runs is canceled, or loses its control stream, behind what is on its way to it."""
        self._is_stopping = True
        for task in self.subtasks.values():
            self._post(task, CancelTask() if self._random.random() < 0.6 else ControlLost())
        for _ in range(MOST_SWEEPS):
            if self.is_over:
                return
            self.sweep()
        raise LawBroken(Law.LIVENESS, f"canceled, and still there: {self._states()}")

    def bury(self) -> None:
        """At the end of the world, until which those that were killed must be kept: see ``SimSubtask.bury``."""
        for task in self.subtasks.values():
            task.bury()

    def describe(self) -> str:
        return f"{self._states()}, pending {[(n, len(p.waits_for - set(p.acks))) for n, p in self._pending.items()]}"

    def _states(self) -> list[tuple[str, int, str]]:
        return [(t.vertex.name, t.attempt.subtask, t.state.name) for t in self.subtasks.values()]

    # --- the coordinator ---

    def _coordinate(self) -> None:
        draw = self._random.random
        running = all(t.state in (ExecutionState.RUNNING, ExecutionState.FINISHED) for t in self.subtasks.values())
        is_free = running and len(self._pending) < self.mix.concurrent
        if is_free and draw() < self.mix.trigger and not self._is_anyone_leaving():
            self._trigger()
        if self._pending and draw() < self.mix.abort:
            self._counts.faults += 1
            self._abort(next(iter(self._pending)))
        if running and draw() < self.mix.kill and not self._has_finished():
            victims = [task for task in self.subtasks.values() if not task.is_over]
            victims[self._random.randrange(len(victims))].kill()
            self._counts.faults += 1

    def _has_finished(self) -> bool:
        return any(task.state is ExecutionState.FINISHED for task in self.subtasks.values())

    def _is_anyone_leaving(self) -> bool:
        """As ``ExecutionGraph.is_anyone_leaving``: a subtask that may finish would decline. A checkpoint that is declined at once lets the next one start,
        and a slow subtask would read barriers for ever, before any data, so that the job did not end.
        """
        through: set[VertexId] = set()
        for vertex in self._built.graph.vertices:
            tasks, inputs = self._of(vertex.vertex_id), self._built.graph.inputs_of(vertex.vertex_id)
            are_finished = [task.state is ExecutionState.FINISHED for task in tasks]
            are_let_finish = [task.attempt in self._may_finish for task in tasks]
            if all(map(or_, are_finished, are_let_finish)) and all(edge.source in through for edge in inputs):
                if not all(are_finished):
                    return True
                through.add(vertex.vertex_id)
        return False

    def _trigger(self) -> None:
        running = {a for a, task in self.subtasks.items() if not task.state.is_terminal}
        if not running:
            return
        n, self._next_id = self._next_id, self._next_id + 1
        alignment, timeout_ms = self._random.choice(self.mix.alignments)
        options = CheckpointOptions(
            f"{CHECKPOINTS}/chk-{n}", alignment=alignment, aligned_timeout_ms=timeout_ms, shared_location=SHARED
        )
        ready = frozenset(
            v.vertex_id for v in self._built.graph.vertices if all(t.ended for t in self._of(v.vertex_id))
        )
        self._pending[n] = Pending(running, ready)
        for attempt, task in self.subtasks.items():
            producers = {edge.source for edge in self._built.graph.inputs_of(attempt.vertex_id)}
            if attempt in running and not any(other.vertex_id in producers for other in running):
                self._post(task, Barrier(n, self._clock.now_ms(), options))

    def _of(self, vertex_id: VertexId) -> list[SimSubtask]:
        return [task for task in self.subtasks.values() if task.attempt.vertex_id == vertex_id]

    def _abort(self, n: int) -> None:
        if self._pending.pop(n, None) is not None:
            self._counts.aborted += 1
            latest = None if self.latest is None else self.latest.checkpoint_id
            self._post_all(AbortCheckpoint(n, latest if self._random.random() < 0.5 else None))

    def _post_all(self, mail: Mail) -> None:
        for task in self.subtasks.values():
            if not task.state.is_terminal:
                self._post(task, mail)

    def _post(self, task: SimSubtask, mail: Mail) -> None:
        if not task.is_over:
            task.posted.append(mail)

    def _take_in(self, task: SimSubtask) -> None:
        what, value = task.port.sent.popleft()
        match what:
            case "listening":
                task.address = value
                self._connect()
            case "state":
                task.state, task.error = value
                if task.state.is_terminal:
                    self._abort_those_that_wait_for(task.attempt)
            case "ack":
                self._on_ack(task, value)
            case "decline":
                checkpoint_id, reason = value
                if reason is DeclineReason.TASK_CLOSING:
                    raise LawBroken(Law.ENDING, f"{task.attempt} declined {checkpoint_id}, since it is about to finish")
                self._counts.declined += 1
                self._on_vote(task, checkpoint_id, "declined")
                self._abort(checkpoint_id)
            case "end-of-data":
                task.ended = True

    def _connect(self) -> None:
        """Consumers hear of their producers one by one, as they come up."""
        for task in self.subtasks.values():
            for attempt in task.producers:
                key, address = (task.attempt, attempt), self.subtasks[attempt].address
                if address is not None and key not in self._told_producers:
                    self._told_producers.add(key)
                    self._post(task, ConnectInputs((ProducerAddress(attempt, address),)))

    def _abort_those_that_wait_for(self, attempt: AttemptId) -> None:
        for n in [n for n, p in self._pending.items() if attempt in p.waits_for and attempt not in p.acks]:
            self._abort(n)

    def _on_vote(self, task: SimSubtask, n: int, vote: str) -> None:
        before = self._votes.setdefault((task.attempt, n), vote)
        if before != vote:
            raise LawBroken(Law.FROZEN, f"{task.attempt} {before} {n}, and then {vote} it")

    def _on_ack(self, task: SimSubtask, ack: Acknowledgement) -> None:
        if ack.attempt != task.attempt:
            raise LawBroken(Law.FENCED, f"{task.attempt} acknowledged for {ack.attempt}")
        n = int(ack.checkpoint_id)
        self._on_vote(task, n, "acknowledged")
        pending = self._pending.get(n)
        if pending is None:
            return  # it was aborted meanwhile
        if task.attempt in pending.acks or task.attempt not in pending.waits_for:
            raise LawBroken(Law.FROZEN, f"{task.attempt} acknowledged {n} twice")
        pending.acks[task.attempt] = ack
        if set(pending.acks) != pending.waits_for:
            return
        del self._pending[n]
        for older in [m for m in self._pending if m < n]:
            self._abort(older)
        self._counts.checkpoints += 1
        self._counts.in_flight += sum(found.metrics.in_flight_bytes for found in pending.acks.values())
        self._outside.completed.add(n)
        self.latest = Assigned(n, f"{CHECKPOINTS}/chk-{n}", pending.acks, 0.0, self._built, self._built)
        for other in self.subtasks.values():
            if not other.state.is_terminal:
                confirm = ConfirmCheckpoint(n, other.attempt.vertex_id in pending.may_finish)
                if confirm.may_finish:
                    self._may_finish.add(other.attempt)
                for _ in range(2 if self._random.random() < self.mix.confirm_twice else 1):
                    self._post(other, confirm)


def restored(latest: Assigned | None, built: BuiltJob) -> Assigned | None:
    return None if latest is None else replace(latest, rescaled=built)
