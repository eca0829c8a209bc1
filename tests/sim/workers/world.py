"""A provider of TaskManagers that keeps no promise, jobs that come and go, and the real machine between them.

A schedule has two parts: 150 s in which starts fail, hang, come late or come twice, and workers die or are cut off; then a time in which
the provider does what it should. All chance comes from the seed.

Laws: NEEDED, IN_USE, PAUSE and ENOUGH of ``tests.sim.laws``.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from itertools import count

from tests.sim.laws import Law, require
from tests.unit.jobmanager.machines.cluster_kit import Cluster, graph, vertex
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.commands import Command
from tidegate.jobmanager.machines.views import JobView
from tidegate.model.ids import JobId, TaskManagerId, hex_id
from tidegate.model.states import ExecutionState, JobState

FAULTS_MS, CALM_MS = 150_000, 300_000
RETRY_MS, RATE, IDLE_MS, REGISTRATION_MS = 3_000, 5, 10_000, 20_000
FATES = ("comes", "comes", "comes", "fails", "hangs", "late", "twice")


class World:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.slots = self.chance.randint(1, 3)
        self.redundant = self.chance.choice((0, 0, 1))
        self.minimum = self.chance.choice((0, 0, 3))
        self.cluster = Cluster(
            {
                "tidegate.resourcemanager.driver": "process",
                "taskmanager.numberOfTaskSlots": str(self.slots),
                "slotmanager.redundant-taskmanager-num": str(self.redundant),
                "slotmanager.number-of-slots.min": str(self.minimum),
                "resourcemanager.start-worker.max-failure-rate": str(RATE),
                "resourcemanager.taskmanager-timeout": f"{IDLE_MS} ms",
                "resourcemanager.taskmanager-registration.timeout": f"{REGISTRATION_MS} ms",
                "heartbeat.timeout": "1 h",
            }
        )
        self.cluster.tell(e.WorkersFound(()))
        self.events: Counter[str] = Counter()
        self._order = count()
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._alive: dict[TaskManagerId, str] = {}
        """Processes that have registered, by name: their session."""
        self._cut_off: set[TaskManagerId] = set()
        """Processes that run, and that the JobManager does not hear of any more."""
        self._coming: set[TaskManagerId] = set()
        self._given_up: set[TaskManagerId] = set()
        self._failed_ms: list[int] = []
        self._jobs: list[JobId] = []
        self._read = 0
        self._is_calm = False

    def run(self) -> World:
        """Raises ``LawBroken``."""
        for _ in range(self.chance.randint(2, 6)):
            self._at(self.chance.randint(0, FAULTS_MS - 20_000), self._submit)
        for _ in range(self.chance.randint(0, 4)):
            self._at(self.chance.randint(10_000, FAULTS_MS), self.chance.choice((self._kill, self._cut)))
        self._until(FAULTS_MS)
        self._is_calm = True
        self._at(0, self._submit)
        self._until(CALM_MS)
        for job in self._views():
            require(
                Law.ENOUGH, job.state.is_terminal, f"{job.name} is {job.state.value} and waits for {job.waiting_for!r}"
            )
        left = (len(self._alive) + len(self._cut_off)) * self.slots
        require(
            Law.ENOUGH, left < max(1, self.minimum + self.slots), f"{left} slots are left, {self.minimum} are wanted"
        )
        require(Law.ENOUGH, left >= self.minimum, f"{left} slots are left, {self.minimum} are wanted")
        return self

    # ---- time --------------------------------------------------------------------------------------------------------

    def _at(self, delay_ms: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (self.cluster.now_ms + delay_ms, next(self._order), action))

    def _until(self, duration_ms: int) -> None:
        """Whatever is next, a timer of the machine or an action of the world; what it orders is looked at before the next."""
        end = self.cluster.now_ms + duration_ms
        while True:
            timer_ms = min(self.cluster.timers.values(), default=end + 1)
            action_ms = self._agenda[0][0] if self._agenda else end + 1
            next_ms = max(self.cluster.now_ms, min(timer_ms, action_ms))
            if next_ms > end:
                break
            if action_ms <= timer_ms:
                self.cluster.now_ms = next_ms
                heapq.heappop(self._agenda)[2]()
            else:
                self._fire()
            self._obey()
        self.cluster.now_ms = end

    def _fire(self) -> None:
        name, at_ms = min(self.cluster.timers.items(), key=lambda timer: (timer[1], timer[0]))
        del self.cluster.timers[name]
        self.cluster.now_ms = max(self.cluster.now_ms, at_ms)
        self._tell(e.TimerFired(name))

    def _tell(self, *events: e.Event) -> None:
        self.cluster.tell(*events)
        self.cluster.settle()
        self.cluster.machine.check_invariants()

    # ---- jobs --------------------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        job_id = JobId(hex_id("job", str(len(self._jobs))))
        self._jobs.append(job_id)
        wide = self.chance.randint(1, 7)
        job = graph([vertex("source", wide, source=True)], job_id=job_id)
        patient = {
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "1 s",
        }
        self.cluster.submit(job, patient)
        self._at(self.chance.randint(5_000, 40_000), lambda: self._finish(job_id))

    def _finish(self, job_id: JobId) -> None:
        """Once all of it runs."""
        view = self.cluster.job(job_id)
        attempts = [s.current for v in view.vertices for s in v.subtasks]
        if view.state.is_terminal:
            return
        if any(attempt.state is not ExecutionState.RUNNING for attempt in attempts):
            self._at(1_000, lambda: self._finish(job_id))
            return
        for attempt in attempts:
            self._tell(e.TaskStateChanged(attempt.attempt, ExecutionState.FINISHED))

    def _views(self) -> list[JobView]:
        return self.cluster.machine.jobs()

    # ---- the provider ------------------------------------------------------------------------------------------------

    def _obey(self) -> None:
        """What was ordered since the last look, in its order."""
        while self._read < len(self.cluster.sent):
            command = self.cluster.sent[self._read]
            self._read += 1
            self._carry_out(command)
        self._move_tasks()
        if self._read < len(self.cluster.sent):
            self._obey()

    def _carry_out(self, command: Command) -> None:
        match command:
            case c.StartWorker():
                self._start(command.worker_id)
            case c.StopWorker():
                self._stop(command.worker_id)
            case c.FreeSlot():
                if command.task_manager_id in self._alive:
                    self._tell(e.SlotFreed(command.task_manager_id, command.allocation_id))

    def _start(self, worker_id: TaskManagerId) -> None:
        self._is_needed(worker_id)
        recent = [at for at in self._failed_ms if at > self.cluster.now_ms - 60_000]
        held_back = len(recent) > RATE and self.cluster.now_ms < recent[-1] + RETRY_MS
        require(
            Law.PAUSE, not held_back, f"{worker_id} was started {len(recent)} failures after which there is a pause"
        )
        self._coming.add(worker_id)
        fate = "comes" if self._is_calm else self.chance.choice(FATES)
        self.events[fate] += 1
        match fate:
            case "comes":
                self._at(self.chance.randint(500, 8_000), lambda: self._come(worker_id, "s1"))
            case "twice":
                self._at(self.chance.randint(500, 8_000), lambda: self._come(worker_id, "s1"))
                self._at(self.chance.randint(500, 12_000), lambda: self._come(worker_id, "s2"))
            case "late":
                self._at(REGISTRATION_MS + self.chance.randint(1, 9_000), lambda: self._come(worker_id, "s1"))
            case "fails":
                self._at(self.chance.randint(100, 3_000), lambda: self._fail(worker_id))

    def _is_needed(self, worker_id: TaskManagerId) -> None:
        """The world's own sum, from what the jobs are and what was reported."""
        wanted = sum(
            sum(len(v.subtasks) for v in job.vertices)
            for job in self._views()
            if job.state in (JobState.RUNNING, JobState.RESTARTING)
        )
        there = (len(self._alive.keys() - self._given_up) + len(self._coming - self._given_up)) * self.slots
        spare = self.redundant * self.slots if wanted else 0
        enough = there >= max(wanted + spare, self.minimum)
        require(Law.NEEDED, not enough, f"{worker_id} is started, and {there} slots are there or come, for {wanted}")

    def _come(self, worker_id: TaskManagerId, session: str) -> None:
        if worker_id in self._cut_off or (
            worker_id in self._given_up and worker_id not in self._coming and worker_id not in self._alive
        ):
            return  # it was ended before it came
        self._coming.discard(worker_id)
        self._alive[worker_id] = session
        self.cluster.register(worker_id, self.slots, session)
        self.cluster.machine.check_invariants()

    def _fail(self, worker_id: TaskManagerId) -> None:
        if worker_id in self._coming:
            self._coming.discard(worker_id)
            if worker_id not in self._given_up:
                self._failed_ms.append(self.cluster.now_ms)
            self._tell(e.WorkerEnded(worker_id, "exit code 1"))

    def _stop(self, worker_id: TaskManagerId) -> None:
        views = {tm.task_manager_id: tm for tm in self.cluster.machine.cluster().task_managers}
        used = [s for s in views[worker_id].slots if s.job_id is not None] if worker_id in views else []
        require(Law.IN_USE, not used, f"{worker_id} is stopped with {len(used)} slots in use")
        if worker_id in self._coming and worker_id not in self._given_up:
            self._failed_ms.append(self.cluster.now_ms)  # it did not register in time
        self._given_up.add(worker_id)
        self._at(self.chance.randint(1, 2_000), lambda: self._gone(worker_id))

    def _kill(self) -> None:
        if self._alive:
            worker_id = self.chance.choice(sorted(self._alive))
            self.events["dies"] += 1
            self._gone(worker_id)

    def _cut(self) -> None:
        if self._alive:
            worker_id = self.chance.choice(sorted(self._alive))
            self.events["cut off"] += 1
            session = self._alive.pop(worker_id)
            self._cut_off.add(worker_id)
            self._tell(e.TaskManagerConnectionLost(worker_id, session, "cut off", is_gone=True))

    def _gone(self, worker_id: TaskManagerId) -> None:
        self._coming.discard(worker_id)
        self._cut_off.discard(worker_id)
        self._given_up.add(worker_id)
        session = self._alive.pop(worker_id, None)
        told: list[e.Event] = [e.WorkerEnded(worker_id, "gone")]
        if session is not None:
            told.append(e.TaskManagerConnectionLost(worker_id, session, "gone", is_gone=True))
        self.chance.shuffle(told)
        self._tell(*told)

    def _move_tasks(self) -> None:
        """Whatever was deployed comes up, and whatever is canceled is over."""
        for job in self._views():
            for attempt in [s.current for v in job.vertices for s in v.subtasks]:
                if attempt.task_manager_id not in self._alive and attempt.state is not ExecutionState.CANCELING:
                    continue
                if attempt.state in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING):
                    self._tell(e.TaskStateChanged(attempt.attempt, ExecutionState.RUNNING, data_address="a"))
                elif attempt.state is ExecutionState.CANCELING:
                    self._tell(e.TaskStateChanged(attempt.attempt, ExecutionState.CANCELED))
