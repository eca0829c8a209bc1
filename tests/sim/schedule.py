"""One schedule: a seed, a job, a cluster, a user, chaos; then everything heals, and the job must finish with an exact output.

Kinds of checkpoints are mixed: periodic, of the user, full, incremental with shared files, savepoints, stops and drains; the job
is started again at another parallelism, from savepoints and from retained checkpoints; the JobManager dies as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.sim.context import TaskContext
from tests.sim.handles import held_splits, offsets_in
from tests.sim.in_flight import rows_in_flight
from tests.sim.job import MOST_SUBTASKS, draw_job
from tests.sim.jobmanager_watch import JobManagerWatch
from tests.sim.laws import Law, LawBroken
from tests.sim.shared_watch import check_complete
from tests.sim.shell import Directory, Shell
from tests.sim.splits import Kept, check_splits
from tests.sim.storage import External, Storage
from tests.sim.task_manager import SimTaskManager
from tests.sim.user import User
from tests.sim.watch import Watch
from tests.sim.world import World
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.dispatcher import Dispatcher
from tidegate.jobmanager.machines.job.reconciliation import ADOPTED
from tidegate.jobmanager.machines.views import JobHistory
from tidegate.model.checkpoint import CheckpointManifest, SnapshotType
from tidegate.model.errors import ErrorInfo, SubtaskLost
from tidegate.model.fencing import make_generation
from tidegate.model.ids import JobId, hex_id
from tidegate.model.leadership.noted_attempts import NotedAttempts

HEALED_FOR_MS = 60_000
LOSS_GRACES_MS = (0, 200, 60_000, 60_000)
ADAPTIVE = {
    "jobmanager.scheduler": "adaptive",
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "60 ms",
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "150 ms",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "100 ms",
}
RECONNECT_MS = 250
CLUSTER = {
    "heartbeat.timeout": "500 ms",
    "heartbeat.interval": "150 ms",
    "tidegate.taskmanager.reconnect-timeout": f"{RECONNECT_MS} ms",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    events: int
    faults: int
    checkpoints: int
    """Completed, savepoints included."""
    shared_files: int
    """Deleted since no checkpoint used them."""
    in_flight: int
    """Rows that unaligned checkpoints have persisted."""
    restarts: int
    rescales: int
    """How often a job took another shape while it ran."""
    adopted: int
    """Subtasks that went on under another JobManager."""
    ends: tuple[str, ...]
    """How each run of the job ended."""
    virtual_ms: int


@dataclass(frozen=True, slots=True)
class Mix:
    """How often things of the user and of the JobManager happen: at most so many times, but ``parallel`` and ``unaligned``: how probable."""

    parallel: float = 0.25
    unaligned: float = 0.4
    assigned: float = 0.3
    """How probable it is that a coordinator hands out the splits."""
    discovered_for_ms: int = 0
    """For so long new splits appear, which one of the readers finds; the user stops such a job when everything is read."""
    savepoints: int = 2
    checkpoints: int = 1
    full_checkpoints: int = 3
    stops: int = 3
    cancels: int = 1
    rescales: int = 2
    adaptive: float = 0.25
    """How probable it is that a job without pipelines of its own takes the slots that there are."""
    jobmanager_crashes: int = 2
    aimed_at_jobmanager: float = 0.1
    """Of the tasks that are killed at a delicate moment, so many times the JobManager is."""
    high_availability: float = 0.6
    """How probable it is that a new JobManager goes on with the job by itself; otherwise the user starts it again."""
    ends_of_life: float = 0.0
    """How probable it is that a task dies soon after a checkpoint was confirmed that lets some finish."""
    leaving: float = 0.0
    """How probable it is, with each heartbeat, that some tasks have to go elsewhere."""

    links: int = 0
    """So often, at most, the connection between a TaskManager and the JobManager breaks, and both live."""


EVERYTHING = Mix(links=3)


class Schedule:
    def __init__(self, seed: int, mix: Mix = EVERYTHING) -> None:
        self.seed = seed
        self.mix = mix
        self.world = World(seed)
        self.job = draw_job(self.world.rng, mix.parallel, mix.unaligned, mix.assigned, mix.discovered_for_ms)
        self._kept_splits: Kept = {}
        self.links = random.Random(f"links of {seed}")
        self.is_highly_available = self.world.rng.random() < mix.high_availability
        own = random.Random(f"rescales of {seed}")
        self.is_adaptive = not self.job.is_parallel and own.random() < mix.adaptive
        self.loss_grace_ms = self.world.rng.choice(LOSS_GRACES_MS)
        self.adopted = 0
        self.configuration = {
            **self.job.configuration,
            "tidegate.jobmanager.loss-grace": f"{self.loss_grace_ms} ms",
            "tidegate.jobmanager.adoption-timeout": f"{self.world.rng.choice((100, 400, 1_000))} ms",
        }
        if self.is_adaptive:
            self.configuration |= ADAPTIVE
        self.storage = Storage(self.world)
        self.external = External()
        self.watch = Watch()
        self.storage.on_durable = self._on_durable
        self.user = User(self.world, self.job, self.storage, self.external, own)
        self.context = TaskContext(self.world, self.job, self.storage, self.external, self.watch)
        self.directory = Directory()
        self.task_managers: dict[str, SimTaskManager] = {}
        self.restarts = 0
        self.rescales = 0
        self.shared_files = 0
        self.in_flight = 0
        self._job_watch: JobManagerWatch | None = None
        self._wished: SnapshotType | None = None
        self.latest_return_ms = RECONNECT_MS + 100
        self._sessions = 0
        self._generations = 0
        self._recovers = False
        self._noted: dict[JobId, NotedAttempts] = {}
        """The last numbers with which the regions of a job were deployed, as the job store knows them."""
        self._history: JobHistory | None = None

    def run(self) -> Outcome:
        """Raises ``LawBroken``."""
        self._start_jobmanager()
        for number in range(3):  # one may be missing
            self._start_task_manager(f"tm-{number}", max(2, MOST_SUBTASKS - number))
        self._plan_faults()
        self._plan_user()
        self._plan_links()
        self._run_until(lambda: self.world.now_ms >= self.world.plan.chaos_ms)
        self._heal()
        deadline_ms = self.world.now_ms + HEALED_FOR_MS
        self._run_until(lambda: self.user.is_done or self.world.now_ms > deadline_ms)
        self._check_end()
        world, durable = self.world, len(self.storage.ever_durable)
        ends = tuple(self.user.ends)
        return Outcome(
            self.seed,
            world.events,
            world.faults,
            durable,
            self.shared_files,
            self.in_flight,
            self.restarts,
            self.rescales,
            self.adopted,
            ends,
            world.now_ms,
        )

    # ---- processes ---------------------------------------------------------------------------------------------------

    def _start_jobmanager(self) -> None:
        self._generations += 1
        number = self._generations
        generation = make_generation(number, hex_id("sim", str(self.seed))[:16])
        grace_ms = self.loss_grace_ms if self.is_highly_available else 0
        shell = Shell(self.world, Dispatcher(CLUSTER), self.storage, generation, grace_ms, RECONNECT_MS)
        shell.observers.append(self)
        self.directory.current = shell
        shell.tell(e.GenerationStarted(generation, self.seed + number))
        if self._recovers:
            self._recover(shell)
        elif not self.user.is_done:
            self.world.later(5, lambda: self._submit(shell))

    def _recover(self, shell: Shell) -> None:
        """What a highly available JobManager keeps of a job, and what it finds in the storage."""
        self._recovers = False
        run = self.user.run
        found = self.storage.found(run.job_id)
        run.recovered(self.storage)
        self._job_watch = JobManagerWatch(
            shell.machine, self.storage, self.watch, run.job_id, run.restore, tuple(found)
        )
        shell.observers[:] = [self._job_watch, self]
        submitted = e.JobSubmitted(run.graph, self.configuration, run.restore)
        noted, shape = self._noted.get(run.job_id, NotedAttempts()), self.storage.shapes.get(run.job_id)
        first_attempt = noted.highest + 1
        if shape is not None:
            noted, first_attempt = shape.own(noted), shape.next_attempt(noted)
        history, asked = self._history, self.user.asked()
        shell.tell(
            e.JobRecovered(submitted, tuple(found), first_attempt, noted, history=history, shape=shape, requests=asked)
        )

    def _start_task_manager(self, name: str, slots: int) -> None:
        self._sessions += 1
        session = f"session-{self._sessions}"
        task_manager = SimTaskManager(self.directory, self.context, name, session, slots, self.mix.leaving)
        self.task_managers[name] = task_manager
        self.world.later(1, task_manager.register)

    def _submit(self, shell: Shell) -> None:
        if shell.is_dead:
            return
        run = self.user.submit(shell)
        self._job_watch = JobManagerWatch(shell.machine, self.storage, self.watch, run.job_id, run.restore)
        shell.observers[:] = [self._job_watch, self]
        shell.tell(e.JobSubmitted(run.graph, self.configuration, run.restore))

    # ---- what is seen ------------------------------------------------------------------------------------------------

    def before_event(self, event: e.Event) -> None:
        """Nothing."""

    def after_event(self, event: e.Event, commands: list[c.Command]) -> None:
        """Aim at the moments in which a checkpoint is decided; tell the user."""
        world = self.world
        for command in commands:
            match command:
                case c.WriteManifest() | c.ReadBackManifest() | c.ConfirmCheckpoint() | c.WriteShape():
                    self._aim(command)
                case c.SubmitTask():
                    self._note_attempt(command)
                case c.ReportSnapshot():
                    self.user.on_report(command)
                case c.Log() if command.message == ADOPTED:
                    self.adopted += int(command.fields["adopted"])
                case c.DiscardSharedFiles():
                    self.shared_files += len(command.paths)
                case c.JobTerminated():
                    self._on_terminated()
                case _:
                    pass
        if isinstance(event, e.SubtaskAcknowledged) and world.chance(world.plan.aimed / 10):
            world.later(0, self._crash_task)

    def _note_attempt(self, command: c.SubmitTask) -> None:
        """Before it leaves, as the job store notes it."""
        attempt = command.deployment.attempt
        noted = self._noted.get(attempt.job_id, NotedAttempts())
        self._noted[attempt.job_id] = noted.noting({command.region: attempt.attempt})

    def _on_durable(self, manifest: CheckpointManifest) -> None:
        self.watch.on_durable(manifest)
        check_complete(manifest, self.storage)
        check_splits(manifest, self.job, held_splits, self._kept_splits)
        read_all = offsets_in(manifest, self.job.rows) == dict(enumerate(self.job.rows))
        if read_all and self.job.is_discovered and self.world.is_healed:
            self.world.later(1, lambda: self._ask(SnapshotType.TERMINATE))
        self.in_flight += rows_in_flight(manifest)

    def _aim(self, command: c.Command) -> None:
        world = self.world
        if world.chance(world.plan.aimed):
            world.later(world.between(0, 25), self._crash_task)
        if world.chance(world.plan.aimed * self.mix.aimed_at_jobmanager):
            world.later(world.between(0, 25), self._crash_jobmanager)
        if isinstance(command, c.ConfirmCheckpoint) and self._wished is not None:
            wished, self._wished = self._wished, None
            world.later(world.between(1, 40), lambda: self._ask(wished))
        lets_finish = isinstance(command, c.ConfirmCheckpoint) and bool(command.may_finish)
        if lets_finish and not world.is_healed and world.chance(self.mix.ends_of_life):
            world.later(world.between(20, 120), self._crash_task)

    def _on_terminated(self) -> None:
        shell = self._shell
        assert shell is not None
        assert self._job_watch is not None
        job = shell.machine.job(self.user.run.job_id)
        assert job is not None
        self.restarts += job.restarts
        self.rescales += job.rescales
        self._job_watch.check_leftovers()
        shell.observers[:] = [self]
        self.user.on_terminated(job.state)
        if not self.user.is_done:
            self.world.later(20, lambda: self._submit(shell))

    @property
    def _shell(self) -> Shell | None:
        return self.directory.current

    # ---- chaos -------------------------------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        plan = self.world.plan
        for count, action in (
            (plan.task_crashes, self._crash_task),
            (plan.task_manager_crashes, self._crash_task_manager),
            (plan.partitions, self._partition),
            (min(plan.jobmanager_crashes, self.mix.jobmanager_crashes), self._crash_jobmanager),
        ):
            self._plan_some(count, action)

    def _plan_user(self) -> None:
        rng, mix = self.world.rng, self.mix
        self._plan_some(rng.randint(0, mix.savepoints), lambda: self._ask(SnapshotType.SAVEPOINT))
        self._plan_some(rng.randint(0, mix.checkpoints), lambda: self._ask(SnapshotType.CHECKPOINT))
        self._plan_some(rng.randint(0, mix.full_checkpoints), lambda: self._ask(SnapshotType.CHECKPOINT, is_full=True))
        stop = rng.choice((SnapshotType.SUSPEND, SnapshotType.TERMINATE))
        self._plan_some(rng.randint(0, mix.stops), lambda: self._ask(stop))
        self._plan_some(rng.randint(0, mix.stops), lambda: self._wish(stop))
        self._plan_some(rng.randint(0, mix.cancels), self._cancel)
        for _ in range(self.user.rng.randint(0, mix.rescales)):
            self.world.later(self.user.rng.randint(50, self.world.plan.chaos_ms - 50), self._rescale)

    def _plan_links(self) -> None:
        for _ in range(self.links.randint(0, self.mix.links)):
            self.world.later(self.links.randint(50, self.world.plan.chaos_ms - 50), self.break_link)

    def break_link(self) -> None:
        """Breaks the connection of a TaskManager, which comes back in time, or just too late."""
        self.world.faults += 1
        name = self.links.choice(sorted(self.task_managers))
        told_ms = self.links.choice((None, self.links.randint(1, 5), self.links.randint(20, 150)))
        noticed_ms = self.links.choice((self.links.randint(1, 5), self.links.randint(20, self.latest_return_ms)))
        self.task_managers[name].break_link(told_ms, noticed_ms, says_again=self.links.random() < 0.5)

    def _plan_some(self, count: int, action: Callable[[], None]) -> None:
        for _ in range(count):
            self.world.later(self.world.between(50, self.world.plan.chaos_ms - 50), action)

    def _ask(self, kind: SnapshotType, *, is_full: bool = False) -> None:
        if self._shell is not None and self.user.runs:
            self.user.ask(self._shell, kind, is_full=is_full)

    def _wish(self, kind: SnapshotType) -> None:
        """ClientRequest for after the next checkpoint: the job is well then."""
        self._wished = kind

    def _cancel(self) -> None:
        if self._shell is not None and self.user.runs:
            self.user.cancel(self._shell)

    def _rescale(self) -> None:
        if self._shell is not None and self.user.runs:
            self.user.rescale(self._shell)

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
        self.world.later(self.world.between(10, 400), lambda: self._start_task_manager(name, old.slot_count))

    def _crash_jobmanager(self) -> None:
        shell = self._shell
        if shell is None:
            return
        self.world.faults += 1
        job = shell.machine.job(self.user.run.job_id) if self.user.runs else None
        shell.crash(lingers=self.world.rng.random() < 0.3)
        self.directory.current = None
        if not self.user.is_done:
            self._recovers = self.is_highly_available and job is not None and not job.state.is_terminal
            if job is not None:
                self._history = shell.machine.history(job.job_id)
                self.restarts += job.restarts
                self.rescales += job.rescales
            self.user.on_jobmanager_died(job.state if job else None, goes_on=self._recovers)
        self.world.later(self.world.between(20, 200), self._start_jobmanager)

    def _partition(self) -> None:
        self.world.faults += 1
        name = self.world.rng.choice(sorted(self.task_managers))
        self.task_managers[name].partition(self.world.between(100, 1_000))

    def _heal(self) -> None:
        self.world.heal()
        for task_manager in self.task_managers.values():
            task_manager.is_partitioned = False

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _run_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over() and self.world.step():
            pass

    def _check_end(self) -> None:
        if not self.user.is_done:
            raise LawBroken(Law.OUTPUT, f"the job has not finished after everything healed: {self._where_it_stands()}")
        expected, output = self.job.expected(), self.external.output
        if output != expected:
            raise LawBroken(Law.OUTPUT, f"lost {dict(expected - output)}, twice {dict(output - expected)}")

    def _where_it_stands(self) -> str:
        job = self._shell.machine.job(self.user.run.job_id) if self._shell and self.user.runs else None
        if job is None:
            return f"nothing runs; {self.user.ends}"
        tasks = {str(s.current.attempt)[-6:]: s.current.state.value for v in job.vertices for s in v.subtasks}
        return f"{job.state.value}, {tasks}, earlier runs {self.user.ends}"
