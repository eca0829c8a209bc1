"""One seed: a job through executions that fail, until it has finished; then its output must be exact."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.sim.laws import Law, LawBroken
from tests.sim.runtime import job
from tests.sim.runtime.gates import watched_gates
from tests.sim.runtime.store import SimStore
from tests.sim.runtime.subtasks import SimClock
from tests.sim.runtime.world import MOST_SWEEPS, Counts, Execution, Mix, restored
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.checkpoint import Alignment

_ALIGNED: tuple[tuple[Alignment, int | None], ...] = ((Alignment.ALIGNED, None),)
_ALIGNMENTS = (
    _ALIGNED,
    ((Alignment.UNALIGNED, None),),
    ((Alignment.ALIGNED, 10),),
    ((Alignment.ALIGNED, None), (Alignment.UNALIGNED, None), (Alignment.ALIGNED, 0), (Alignment.ALIGNED, 25)),
)
Shape = tuple[int, int, int]
"""How many subtasks the sources, what counts or joins, and the sinks have."""
_SHAPES: tuple[Shape, ...] = ((2, 2, 2), (1, 2, 3), (2, 3, 2), (3, 2, 1))


@dataclass(frozen=True)
class Outcome:
    executions: int
    counts: Counts


class Schedule:
    """Raises ``LawBroken``."""

    def __init__(self, seed: int, *, exactly_once: bool = True) -> None:
        self._random = Random(seed)
        self._exactly_once = exactly_once
        self._clock = SimClock()
        self._counts = Counts()
        self._outside = self.make_outside(seed)
        self._mix = Mix(
            trigger=self._random.choice((0.02, 0.1, 0.5)),
            abort=self._random.choice((0.0, 0.005, 0.03)),
            kill=self._random.choice((0.003, 0.01)),
            disk_full=self._random.choice((0.0, 0.0, 0.05)),
            alignments=self._random.choice(_ALIGNMENTS) if exactly_once else _ALIGNED,
        )
        if self._mix.alignments == _ALIGNED:  # unaligned ones are taken one by one
            self._mix.concurrent = self._random.choice((1, 1, 2))
        self._slow_ms = self._random.choice((0.0, 1.0, 4.0))
        self._faulty_executions = self._random.randint(1, 3)
        self._pointwise = self._random.random() < 0.3
        self._by_function = Random(f"{seed}: sink").random() < 0.3
        self._store = SimStore(self._is_disk_full)
        self._executions: list[Execution] = []

    def run(self) -> Outcome:
        with watched_gates(self._outside):
            try:
                return self._until_finished()
            finally:
                for execution in self._executions:
                    execution.bury()

    def make_outside(self, seed: int) -> job.Outside:
        """What the job's functions reach, which also judges its output."""
        return job.Outside(self.work)

    def build(self, shape: Shape, *, incremental: bool) -> BuiltJob:
        """The job in a shape."""
        return job.build(
            *shape,
            incremental=incremental,
            exactly_once=self._exactly_once,
            pointwise=self._pointwise,
            by_function=self._by_function,
        )

    def work(self) -> None:
        """A record takes its time."""
        self._clock.ms += self._random.random() * self._slow_ms

    def _until_finished(self) -> Outcome:
        job.enter(self._outside)
        latest, attempt, incremental = None, 0, self._random.random() < 0.5
        while True:
            shape = self._random.choice(_SHAPES)
            self._outside.counters.add(shape[1])
            built = self.build(shape, incremental=incremental)
            execution = Execution(
                self._random,
                self._clock,
                built,
                self._store,
                self._outside,
                self._counts,
                self._mix,
                attempt,
                restored(latest, built),
            )
            self._executions.append(execution)
            if self._run(execution):
                break
            latest, attempt = execution.latest, attempt + 1
            if attempt >= self._faulty_executions:
                self._mix = replace(self._mix, abort=0.0, kill=0.0, disk_full=0.0)
        self._outside.check_output(exactly_once=self._exactly_once)
        return Outcome(attempt + 1, self._counts)

    def _run(self, execution: Execution) -> bool:
        """Whether it finished."""
        for _ in range(MOST_SWEEPS):
            if execution.is_finished:
                return True
            if execution.needs_restart:
                self._check(execution)
                execution.stop()
                return False
            execution.sweep()
            if self._outside.broken is not None:
                raise self._outside.broken
        raise LawBroken(Law.LIVENESS, f"it does not end: {execution.describe()}")

    def _check(self, execution: Execution) -> None:
        """Only what the schedule did may fail a subtask."""
        for task in execution.subtasks.values():
            if task.error is not None and task.error.code != "subtask-lost":
                raise LawBroken(Law.LIVENESS, f"{task.attempt} failed: {task.error.code}: {task.error.message}")

    def _is_disk_full(self) -> bool:
        full = self._random.random() < self._mix.disk_full
        self._counts.faults += full
        return full
