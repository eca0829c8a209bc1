"""Runs the job that fails on a seeded schedule, until its failure was kept."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import cloudpickle

from tests.sim.runtime import replayed_job
from tests.sim.runtime.job import Outside
from tests.sim.runtime.store import SimStore
from tests.sim.runtime.subtasks import SimClock
from tests.sim.runtime.world import MOST_SWEEPS, Counts, Execution, Mix, restored
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.checkpoint import Alignment
from tidegate.model.deployment import TaskDeployment
from tidegate.taskmanager.recording.failures import Failure, FailureKeeper, list_failures
from tidegate.taskmanager.recording.recorder import Recorder
from tidegate.taskmanager.replaying.replay import FailureReplay, ReplayOutcome

_ALIGNMENTS = (
    ((Alignment.ALIGNED, None),),
    ((Alignment.UNALIGNED, None),),
    ((Alignment.ALIGNED, None), (Alignment.UNALIGNED, None), (Alignment.ALIGNED, 0), (Alignment.ALIGNED, 25)),
)


class RecordedFailure:
    """One seed. ``max_bytes``: the bound of a recording. ``build``: makes the job; ``None``: ``replayed_job`` with ``kind`` and ``chance``."""

    def __init__(
        self,
        seed: int,
        directory: Path,
        *,
        chance: str = "",
        max_bytes: int = 1 << 20,
        kind: str = "keyed",
        build: Callable[..., BuiltJob] | None = None,
    ) -> None:
        self._random = Random(seed)
        self._directory = directory
        self._max_bytes = max_bytes
        self.counts = Counts()
        self._clock = SimClock()
        self._store = SimStore(lambda: False)
        self.details = ""
        """What the subtask said of its failure."""
        self.kept = ""
        """The id of the kept failure, as the subtask reported it."""
        self.poison = self._random.randrange(20, replayed_job.TOTAL)
        if build is None:
            build = partial(replayed_job.build, chance=chance, kind=kind)
        self._built = build(
            self.poison,
            f"replay {seed}",
            parallelism=self._random.choice((1, 2, 3)),
            incremental=self._random.random() < 0.5,
            backend=self._random.choice(("hashmap", "rocksdb")) if kind == "forgetful" else "hashmap",
        )

    def run(self) -> Failure | None:
        """``None``: the failure was not kept."""
        latest, attempt = None, 0
        while True:
            mix = Mix(
                trigger=self._random.choice((0.0, 0.02, 0.1, 0.3)),
                abort=self._random.choice((0.0, 0.01)),
                kill=self._random.choice((0.0, 0.003)) if attempt == 0 else 0.0,
                alignments=self._random.choice(_ALIGNMENTS),
            )
            execution = Execution(
                self._random,
                self._clock,
                self._built,
                self._store,
                Outside(),
                self.counts,
                mix,
                attempt,
                restored(latest, self._built),
                self._open,
            )
            try:
                if self._has_failed(execution):
                    found = list_failures(self._directory / "failures")
                    return found[0] if found else None
                execution.stop()
            finally:
                execution.bury()
            latest, attempt = execution.latest, attempt + 1

    def _has_failed(self, execution: Execution) -> bool:
        """Whether user code failed, and not a subtask that was killed."""
        for _ in range(MOST_SWEEPS):
            for task in execution.subtasks.values():
                if task.error is not None and task.error.code == "user-function":
                    self.details = task.error.details
                    self.kept = task.error.kept_failure
                    return True
            if execution.needs_restart:
                return False
            execution.sweep()
        raise AssertionError(f"the job does not fail: {execution.describe()}")

    def _open(self, deployment: TaskDeployment, program: bytes) -> FailureKeeper:
        name = f"{deployment.attempt.vertex_id}-{deployment.attempt.subtask}-{deployment.attempt.attempt}"
        recorder = Recorder(self._directory / "recordings" / name, self._max_bytes)
        return FailureKeeper(recorder, deployment, program, {}, self._directory / "failures", 10, "3", "0", 1 << 20)


def replayed(failure: Failure, directory: Path) -> ReplayOutcome:
    """What comes of running it again. ``directory``: for temporary files."""
    program = cloudpickle.loads((failure.folder / "program").read_bytes())
    return FailureReplay(failure, program, directory).run()


def fail_and_replay(
    seed: int, *, kind: str = "keyed", build: Callable[..., BuiltJob] | None = None
) -> tuple[Failure, ReplayOutcome]:
    """Raises ``AssertionError`` unless the failure of a seed comes again, at its record."""
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        world = RecordedFailure(seed, Path(path), kind=kind, build=build)
        failure = world.run()
        assert failure is not None, f"seed {seed}: {world.details}"
        outcome = replayed(failure, Path(path) / "again")
        assert world.kept == failure.failure_id
        where = f"seed {seed}: pytest tests/sim/runtime/test_runtime_replay.py --sim-seed {seed}"
        assert outcome.differences == [], where
        assert outcome.reproduced, where
        if kind in ("keyed", "source", "connected", "broadcast", "forgetful"):
            assert next(iter(outcome.value)) == world.poison, where
        return failure, outcome
