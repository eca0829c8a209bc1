"""The user of a simulation: submits the job, asks for snapshots, stops or cancels it and starts it again from what is there, at
another parallelism. Knows only what was told, and what lies in the storage.

    submitted ──▶ FINISHED at the end of the data: over
        ▲   ├──▶ stopped with a savepoint, or failed behind it ─┐
        │   ├──▶ canceled ──────────────────────────────────────┤
        │   └──▶ the JobManager died ───────────────────────────┤
        └── run -s the savepoint, or the newest checkpoint ─────┘
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.sim.handles import offsets_in
from tests.sim.job import MOST_SUBTASKS, SINK, SimJob
from tests.sim.laws import Law, LawBroken
from tests.sim.shell import Shell
from tests.sim.storage import External, Storage
from tests.sim.world import World
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.graph import JobGraph, Partitioner
from tidegate.model.ids import JobId
from tidegate.model.options import ClaimMode
from tidegate.model.rescaling.bounds import ParallelismBounds
from tidegate.model.states import JobState


@dataclass(slots=True)
class Run:
    """One submission."""

    number: int
    graph: JobGraph
    restore: e.RestoreFrom | None

    @property
    def job_id(self) -> JobId:
        return self.graph.job_id

    def recovered(self, storage: Storage) -> None:
        """What it was started from may be gone by now, if it was claimed."""
        if self.restore is not None and self.restore.location not in storage.manifests:
            self.restore = None


@dataclass(slots=True)
class User:
    world: World
    job: SimJob
    storage: Storage
    external: External
    rng: random.Random
    """For rescales alone: schedules that tests name by their seeds stay as they are without them."""
    runs: list[Run] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    """How each run ended, in a word."""
    reports: int = 0
    is_done: bool = False
    _start_from: str | None = None
    _open: dict[str, SnapshotType] = field(default_factory=dict)
    _kept: list[e.ClientRequest] = field(default_factory=list)
    """What a highly available JobManager keeps of what it was asked for, until it is over."""
    _stopped_at: str | None = None

    @property
    def run(self) -> Run:
        return self.runs[-1]

    def submit(self, shell: Shell) -> Run:
        """Makes the next run; the caller submits it (it has checkers to set up first)."""
        number, rng = len(self.runs), self.world.rng
        restore = None
        if self._start_from is not None:
            claim = rng.choice(tuple(ClaimMode))
            restore = e.RestoreFrom(self._start_from, self.storage.manifests[self._start_from], claim_mode=claim)
        run = Run(number, self.job.graph(number, rng), restore)
        self.runs.append(run)
        self._stopped_at = None
        self.storage.met_damage = False
        return run

    # ---- asking ------------------------------------------------------------------------------------------------------

    def ask(self, shell: Shell, kind: SnapshotType, *, is_full: bool = False) -> None:
        job = shell.machine.job(self.run.job_id)
        if job is None or job.state.is_terminal:
            return
        request_id = f"{kind.value}-{self.world.now_ms}-{self.world.events}"
        self._open[request_id] = kind
        target = "/sp" if kind.is_savepoint else None
        request = e.SnapshotRequested(self.run.job_id, request_id, kind, target, is_full)
        if kind.is_savepoint:
            self._kept.append(request)
        shell.tell(request)

    def cancel(self, shell: Shell) -> None:
        job = shell.machine.job(self.run.job_id)
        if job is not None:
            if not job.state.is_terminal:
                self._kept.append(e.JobCancelRequested(self.run.job_id))
            shell.tell(e.JobCancelRequested(self.run.job_id))

    def rescale(self, shell: Shell) -> None:
        """Another parallelism for everything, or for the sink alone."""
        job = shell.machine.job(self.run.job_id)
        if job is None or job.state.is_terminal or self.job.is_parallel:
            return  # without an exchange a pipeline keeps its keys
        rng = self.rng
        most = rng.randint(1, MOST_SUBTASKS)
        least = {vertex.vertex_id: most for vertex in job.vertices}
        if self.run.graph.edges[-1].partitioner is not Partitioner.FORWARD:
            least[SINK] = rng.randint(1, MOST_SUBTASKS)
        request = e.RescaleRequested(job.job_id, {v: ParallelismBounds(1, upper) for v, upper in least.items()})
        if shell.machine.refusal_of(request):
            return
        self._kept = [one for one in self._kept if not isinstance(one, e.RescaleRequested)]
        self._kept.append(request)
        shell.tell(request)

    def asked(self) -> tuple[e.ClientRequest, ...]:
        """What the next JobManager knows of it."""
        return tuple(self._kept)

    def on_report(self, report: c.ReportSnapshot) -> None:
        kind = self._open.pop(report.request_id, None)
        if kind is None:
            raise LawBroken(Law.OUTPUT, f"{report.request_id} was told its end twice, or was never asked")
        self.reports += 1
        self._kept = [one for one in self._kept if getattr(one, "request_id", "") != report.request_id]
        if kind.is_synchronous and report.path:
            self._stopped_at = report.path
        if report.path and report.path not in self.storage.manifests:
            raise LawBroken(Law.OUTPUT, f"{report.request_id} is told to be at {report.path}, but nothing is there")

    # ---- the end of a run --------------------------------------------------------------------------------------------

    def on_terminated(self, state: JobState) -> None:
        """Its end was told, with everything that had to be told before."""
        if self._open:
            raise LawBroken(Law.OUTPUT, f"nobody was told the end of {sorted(self._open)}")
        must_be_canceled = not self.storage.met_damage and any(
            isinstance(one, e.JobCancelRequested) for one in self._kept
        )
        if must_be_canceled and state is not JobState.CANCELED:
            raise LawBroken(Law.OUTPUT, f"it was canceled, and is {state.value}")
        self._kept.clear()
        if self._stopped_at is not None:
            self._check_stop(self._stopped_at, state)
            if self.job.is_discovered and state is JobState.FINISHED and self.has_read_all(self._stopped_at):
                self.ends.append("stopped when everything was read")
                self.is_done = True
                return
            self._again("stopped" if state is JobState.FINISHED else "failed behind the savepoint", self._stopped_at)
        elif state is JobState.FINISHED:
            self.ends.append("finished")
            self.is_done = True
        elif state is JobState.CANCELED:
            self._again("canceled", self._newest())
        elif state is JobState.FAILED and self.storage.met_damage:
            self._again("met damage", self._newest())
        else:
            raise LawBroken(Law.OUTPUT, f"run {self.run.number} is {state.value}")

    def on_jobmanager_died(self, last_state: JobState | None, *, goes_on: bool) -> None:
        """``last_state`` is what was shown last; ``goes_on``: another JobManager takes the run over."""
        if goes_on:
            self._open = {request_id: kind for request_id, kind in self._open.items() if kind.is_savepoint}
            self.ends.append("taken over")
            return
        self._open.clear()
        self._kept.clear()
        if last_state is JobState.FINISHED and self._stopped_at is None:
            self.ends.append("finished")
            self.is_done = True
        elif self.runs:
            self._again("lost its JobManager", self._stopped_at or self._newest())

    def has_read_all(self, path: str) -> bool:
        """A checkpoint holds every split, at its end."""
        return offsets_in(self.storage.manifests[path], self.job.rows) == dict(enumerate(self.job.rows))

    def _again(self, how: str, location: str | None) -> None:
        self.ends.append(how)
        self._start_from = location

    def _newest(self) -> str | None:
        """What the run has left behind, or what it was started from, if it never completed anything."""
        restore = self.run.restore
        return self.storage.newest(self.run.job_id) or (restore.location if restore else None)

    def _check_stop(self, path: str, state: JobState) -> None:
        read = self.job.output_of(offsets_in(self.storage.manifests[path], self.job.rows))
        output = self.external.output
        if state is JobState.FINISHED and output != read:
            lost, more = dict(read - output), dict(output - read)
            raise LawBroken(
                Law.OUTPUT, f"stopped at {path}; of what the savepoint has read: lost {lost}, too much {more}"
            )
        if output - read:
            raise LawBroken(Law.OUTPUT, f"{state.value}, beyond the savepoint {path}: {dict(output - read)}")
