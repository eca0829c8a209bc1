"""One schedule: a seed, a job, a cluster, chaos; then everything heals, and the job must finish with an exact output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobmanager.machines import commands as c
from jobmanager.machines import events as e
from jobmanager.machines.jobmanager import JobManagerMachine
from tests.sim.job import JOB, draw_job
from tests.sim.jobmanager_watch import JobManagerWatch
from tests.sim.shell import Shell
from tests.sim.storage import External, Storage
from tests.sim.subtask import SimTask, TaskContext
from tests.sim.task_manager import SimTaskManager
from tests.sim.watch import LawBroken, Watch
from tests.sim.world import World
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.ids import Generation, hex_id
from tidegate.model.states import JobState

HEALED_FOR_MS = 60_000
CLUSTER = {"heartbeat.timeout": "1500 ms", "heartbeat.interval": "400 ms"}


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    events: int
    faults: int
    checkpoints: int
    restarts: int
    virtual_ms: int


class Schedule:
    def __init__(self, seed: int, task: type[SimTask] = SimTask) -> None:
        self.seed = seed
        self.world = World(seed)
        self.job = draw_job(self.world.rng)
        self.storage = Storage()
        self.external = External()
        self.watch = Watch(self.storage)
        self.machine = JobManagerMachine(CLUSTER)
        self.shell = Shell(self.world, self.machine, self.storage)
        self.jobmanager_watch = JobManagerWatch(self.machine, self.storage, self.watch)
        self.shell.observers += [self.jobmanager_watch, self]
        self.shell.on_durable = self.watch.on_durable
        self.context = TaskContext(self.world, self.job, self.storage, self.external, self.watch, task)
        self.task_managers: dict[str, SimTaskManager] = {}
        self._sessions = 0

    def run(self) -> Outcome:
        """Raises ``LawBroken``."""
        self._start()
        self._run_until(lambda: self.world.now_ms >= self.world.plan.chaos_ms)
        self._heal()
        deadline_ms = self.world.now_ms + HEALED_FOR_MS
        self._run_until(lambda: JOB in self.shell.terminated or self.world.now_ms > deadline_ms)
        self._check_end()
        view = self.machine.checkpoints(JOB)
        job = self.machine.job(JOB)
        assert view is not None
        assert job is not None
        world = self.world
        return Outcome(self.seed, world.events, world.faults, view.completed, job.restarts, world.now_ms)

    def _start(self) -> None:
        self.shell.tell(e.GenerationStarted(Generation(hex_id("sim", str(self.seed))), self.seed))
        slots = len(self.job.rows)
        for number in range(2):
            self._start_task_manager(f"tm-{number}", max(1, slots - number))
        self.world.later(5, lambda: self.shell.tell(e.JobSubmitted(self.job.graph, self.job.configuration)))
        self._plan_faults()

    def _start_task_manager(self, name: str, slots: int) -> None:
        self._sessions += 1
        task_manager = SimTaskManager(self.world, self.shell, self.context, name, f"session-{self._sessions}", slots)
        self.task_managers[name] = task_manager
        self.world.later(1, task_manager.register)

    # ---- chaos -------------------------------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        plan, rng = self.world.plan, self.world.rng
        for count, action in (
            (plan.task_crashes, self._crash_task),
            (plan.task_manager_crashes, self._crash_task_manager),
            (plan.partitions, self._partition),
            (1, self._take_savepoint),
        ):
            for _ in range(count):
                self.world.later(rng.randint(50, plan.chaos_ms - 50), action)

    def before_event(self, event: e.Event) -> None:
        """Nothing."""

    def after_event(self, event: e.Event, commands: list[c.Command]) -> None:
        """Aim at the moments in which a checkpoint is decided."""
        world = self.world
        for command in commands:
            delicate = isinstance(command, c.WriteManifest | c.ReadBackManifest | c.ConfirmCheckpoint)
            if delicate and world.chance(world.plan.aimed):
                world.later(world.rng.randint(0, 25), self._crash_task)
        if isinstance(event, e.SubtaskAcknowledged) and world.chance(world.plan.aimed / 10):
            world.later(0, self._crash_task)

    def _crash_task(self) -> None:
        tasks = list(self.context.live.values())
        if not tasks:
            self._partition()
            return
        self.world.faults += 1
        self.world.rng.choice(tasks).fail(ErrorInfo.of(SubtaskLost("its process was killed")))

    def _crash_task_manager(self) -> None:
        self.world.faults += 1
        name = self.world.rng.choice(sorted(self.task_managers))
        old = self.task_managers[name]
        old.crash()
        self.world.later(self.world.rng.randint(10, 600), lambda: self._start_task_manager(name, old.slot_count))

    def _partition(self) -> None:
        self.world.faults += 1
        name = self.world.rng.choice(sorted(self.task_managers))
        self.task_managers[name].partition(self.world.rng.randint(100, 2_500))

    def _take_savepoint(self) -> None:
        self.shell.tell(e.SnapshotRequested(JOB, "user", SnapshotType.SAVEPOINT, "/sp"))

    def _heal(self) -> None:
        self.world.heal()
        for task_manager in self.task_managers.values():
            task_manager.is_partitioned = False

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _run_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over() and self.world.step():
            pass

    def _check_end(self) -> None:
        job = self.machine.job(JOB)
        assert job is not None
        if job.state is not JobState.FINISHED:
            tasks = {str(s.current.attempt)[-6:]: s.current.state.value for v in job.vertices for s in v.subtasks}
            raise LawBroken(0, f"the job is {job.state.value}, not FINISHED, after everything healed: {tasks}")
        if JOB not in self.shell.terminated:
            raise LawBroken(0, "the job has finished, but its end was not told")
        expected, output = self.job.expected(), self.external.output
        if output != expected:
            raise LawBroken(0, f"lost {dict(expected - output)}, twice {dict(output - expected)}")
        self.jobmanager_watch.check_leftovers()
        if not self.shell.reports:
            raise LawBroken(0, "the user who asked for a savepoint was never told its end")
