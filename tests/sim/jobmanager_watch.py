"""Checkers on the JobManager's side: laws 1, 4, 6 and 7. Sees every event before and its commands after; looks into the
machine only to ask what its executions were."""

from __future__ import annotations

from tests.sim.handles import origin_of
from tests.sim.laws import Law, LawBroken
from tests.sim.shared_watch import SharedFilesWatch
from tests.sim.storage import Storage
from tests.sim.watch import Watch
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines import events as e
from tidegate.jobmanager.machines.dispatcher import Dispatcher
from tidegate.jobmanager.machines.job.reconciliation import ADOPTED
from tidegate.jobmanager.machines.job.rescaling import TAKES_CHECKPOINT
from tidegate.jobmanager.machines.job.subtask_migration import MOVES
from tidegate.jobmanager.machines.scheduling.execution import Execution
from tidegate.model.checkpoint import DeclineReason
from tidegate.model.deployment import TaskDeployment
from tidegate.model.ids import AttemptId, JobId, TaskManagerId
from tidegate.model.options import ClaimMode
from tidegate.model.states import ExecutionState, JobState


def _job_of(command: c.Command) -> JobId | None:
    if isinstance(command, c.SubmitTask):
        return command.deployment.attempt.job_id
    return getattr(command, "job_id", None)


_OF_ATTEMPT = e.TaskStateChanged | e.EndOfDataReached | e.SubtaskAcknowledged | e.SubtaskDeclined


class JobManagerWatch:
    """For one job under one JobManager. ``restore``: what it was started from; ``found``: what was there when another
    JobManager had run it before."""

    def __init__(
        self,
        machine: Dispatcher,
        storage: Storage,
        watch: Watch,
        job_id: JobId,
        restore: e.RestoreFrom | None,
        found: tuple[e.FoundCheckpoint, ...] = (),
    ) -> None:
        self._machine = machine
        self._storage = storage
        self._watch = watch
        self._job_id = job_id
        self._restore = restore
        self._restored_id = restore.manifest.checkpoint_id if restore else 0
        self._must_be_full = restore is not None and restore.claim_mode is ClaimMode.NO_CLAIM
        self.shared = SharedFilesWatch(storage, restore)
        self._reasons_to_start = 0
        self._starts = 0
        self._expected: dict[int, frozenset[AttemptId]] = {}
        self._savepoints: set[int] = set()
        self._stops: set[int] = set()
        self._acknowledged: dict[int, set[AttemptId]] = {}
        self._triggered: set[int] = set()
        self._located: dict[int, str] = {}
        self._told_durable: set[int] = set()
        self._unsettled: set[int] = set()
        self._writing: set[int] = set()
        self._over: set[int] = set()
        self._not_removed: set[int] = set()
        self._adopted: dict[AttemptId, TaskManagerId] = {}
        """With where they run; without those whose TaskManager was given up since, and that could not be canceled."""
        self._before: tuple[ExecutionState, bool, AttemptId] | None = None
        self._incomplete = [
            (p, set(storage.files[p.location])) for p in found if p.manifest is None and p.damage is None
        ]
        self._damaged = {p.location for p in found if p.damage is not None}
        if self._damaged:
            self._incomplete.clear()  # it is refused, and removes nothing
        for place in found:
            if place.manifest is not None:
                self._told_durable.add(place.checkpoint_id)
                self._over.add(place.checkpoint_id)
                if place.manifest.snapshot_type.is_synchronous:
                    self._stops.add(place.checkpoint_id)

    # ---- events ------------------------------------------------------------------------------------------------------

    def before_event(self, event: e.Event) -> None:
        self._before = None
        if self._is_mine(event) and isinstance(event, _OF_ATTEMPT):
            execution = self._execution(event.attempt)
            if execution is not None and execution.attempt != event.attempt:
                self._before = (execution.state, execution.at_end_of_data, execution.attempt)

    def after_event(self, event: e.Event, commands: list[c.Command]) -> None:
        if self._job_id not in self._machine._jobs:
            return
        said = [command.message for command in commands if isinstance(command, c.Log)]
        if ADOPTED in said:
            self._on_adopted()
        self._reasons_to_start += said.count(TAKES_CHECKPOINT) + said.count(MOVES)
        if self._is_mine(event):
            self._note(event)
            self.shared.on_event(event)
            self._check_fencing(event)
        mine = [command for command in commands if _job_of(command) in (None, self._job_id)]
        for command in mine:
            self._check(command)
        for command in mine:
            if isinstance(command, c.DiscardSharedFiles):
                self.shared.on_discard(command)
        self._check_ended_checkpoints(event, mine)

    def _on_adopted(self) -> None:
        """Adopted subtasks may be at their end already, which starts the final checkpoint."""
        self._reasons_to_start += 1
        for execution in self._executions():
            if execution.state is ExecutionState.RUNNING and execution.attempt in self._watch.over:
                raise LawBroken(Law.ADOPTION, f"{execution.attempt} was over, and is adopted")
            if execution.state is ExecutionState.RUNNING and execution.task_manager_id is not None:
                self._adopted[execution.attempt] = execution.task_manager_id

    def _is_mine(self, event: e.Event) -> bool:
        if isinstance(event, _OF_ATTEMPT):
            return event.attempt.job_id == self._job_id
        if isinstance(event, e.TimerFired):
            return self._job_id in event.timer
        return getattr(event, "job_id", self._job_id) == self._job_id

    def _note(self, event: e.Event) -> None:
        match event:
            case e.TimerFired() if "checkpoint-trigger" in event.timer:
                self._reasons_to_start += 1
            case e.SnapshotRequested() | e.EndOfDataReached():
                self._reasons_to_start += 1
            case e.JobRecovered():
                self._reasons_to_start += len(event.requests)
            case e.SubtaskAcknowledged():
                self._acknowledged.setdefault(event.checkpoint_id, set()).add(event.attempt)
            case e.LocationCreated() if event.error is None:
                self._located[event.checkpoint_id] = event.location
            case e.CheckpointDiscarded() if event.error is not None:
                self._not_removed.add(event.checkpoint_id)
            case e.ManifestWritten():
                self._told_durable.add(event.checkpoint_id)
                self._writing.discard(event.checkpoint_id)
                self._unsettled.discard(event.checkpoint_id)
            case e.ManifestWriteFailed():
                self._unsettled.discard(event.checkpoint_id)
                if event.outcome_unknown:
                    self._unsettled.add(event.checkpoint_id)
                else:
                    self._writing.discard(event.checkpoint_id)
            case _:
                pass

    def _check_fencing(self, event: e.Event) -> None:
        """Law 6: what an attempt says that is over changes nothing of its successor."""
        if self._before is None or not isinstance(event, _OF_ATTEMPT):
            return
        execution = self._execution(event.attempt)
        assert execution is not None, event.attempt
        now = (execution.state, execution.at_end_of_data, execution.attempt)
        if now != self._before:
            raise LawBroken(Law.FENCED, f"{type(event).__name__} of {event.attempt} turned {self._before} into {now}")

    # ---- commands ----------------------------------------------------------------------------------------------------

    def _check(self, command: c.Command) -> None:
        match command:
            case c.CreateLocation():
                self._on_start(command)
            case c.TriggerCheckpoint():
                self._on_trigger(command)
            case c.WriteManifest():
                self._on_write(command)
            case c.SubmitTask():
                self._on_submit(command)
            case c.ConfirmCheckpoint():
                self._on_confirm(command)
            case c.AbortCheckpoint():
                if command.checkpoint_id in self._told_durable:
                    raise LawBroken(Law.COMPLETE, f"checkpoint {command.checkpoint_id} is complete and aborted")
            case c.FreeSlot():
                self._on_free(command)
            case c.CloseTaskManager(lost, _, _):
                self._adopted = {a: place for a, place in self._adopted.items() if place != lost}
            case c.DiscardCheckpoint():
                self._on_discard(command)
                self.shared.on_ordered(command.location)
            case _:
                pass

    def _on_start(self, command: c.CreateLocation) -> None:
        self._starts += 1
        if self._starts > self._reasons_to_start:
            raise LawBroken(Law.TRIGGER, f"checkpoint {command.checkpoint_id} was started by nobody")
        running = [x.attempt for x in self._executions() if x.state is ExecutionState.RUNNING]
        self._expected[command.checkpoint_id] = frozenset(running)
        if command.snapshot_type.is_savepoint:
            self._savepoints.add(command.checkpoint_id)
        if command.snapshot_type.is_synchronous:
            self._stops.add(command.checkpoint_id)

    def _on_trigger(self, command: c.TriggerCheckpoint) -> None:
        if self._must_be_full and not self._told_durable - self._savepoints and not command.options.is_full:
            raise LawBroken(
                Law.SHARED, f"{command.checkpoint_id} may refer to files of a checkpoint that was not claimed"
            )
        self._triggered.add(command.checkpoint_id)
        graph = self._machine._jobs[self._job_id].executions
        for attempt in command.attempts:
            self._watch.triggered.add((attempt, command.checkpoint_id))
            for edge in graph.inputs_of(attempt.vertex_id):
                producers = graph.producers(edge, attempt.subtask)
                if any(graph.executions_of(edge.source)[p].state is ExecutionState.RUNNING for p in producers):
                    raise LawBroken(
                        Law.TRIGGER, f"{attempt} is triggered for {command.checkpoint_id}, but has running producers"
                    )

    def _on_submit(self, command: c.SubmitTask) -> None:
        """A restore may not overtake a write that may be durable: sinks would abort what that checkpoint holds."""
        if self._writing:
            raise LawBroken(
                Law.COMPLETE, f"{command.deployment.attempt} is deployed while {self._writing} may become complete"
            )
        place = command.deployment.attempt.subtask_id
        twins = [a for a in self._adopted.keys() & self._watch.alive if a.subtask_id == place]
        if twins:
            raise LawBroken(
                Law.ADOPTION, f"{command.deployment.attempt} is deployed beside {twins}, which were adopted"
            )
        self._check_shape(command.deployment)
        restore = command.deployment.restore
        newest = max(self._told_durable - self._savepoints, default=self._restored_id)
        if (restore.checkpoint_id if restore else 0) != newest:
            raise LawBroken(
                Law.PUBLISHED, f"{command.deployment.attempt} does not start from {newest}, the latest that is complete"
            )

    def _check_shape(self, deployment: TaskDeployment) -> None:
        """A job is in one shape: in the one that the next JobManager would go on with."""
        shape, attempt = self._storage.shapes.get(self._job_id), deployment.attempt
        if shape is None:
            is_known = self._machine.job(self._job_id)
            assert is_known is not None
            if is_known.rescales:
                raise LawBroken(Law.SHAPE, f"{attempt} is of another shape, and the store knows of none")
        elif deployment.parallelism != shape.parallelism[attempt.vertex_id] or attempt.attempt < shape.first_attempt:
            raise LawBroken(Law.SHAPE, f"{attempt} of {deployment.parallelism} is deployed, and the store has {shape}")

    def _on_free(self, command: c.FreeSlot) -> None:
        used = [x.attempt for x in self._executions() if x.allocation_id == command.allocation_id and x.is_deployed]
        if used and not self._state.is_terminal:
            raise LawBroken(Law.ADOPTION, f"the slot is freed in which {used} run")

    def _on_write(self, command: c.WriteManifest) -> None:
        checkpoint_id = command.checkpoint_id
        self._writing.add(checkpoint_id)
        missing = self._expected[checkpoint_id] - self._acknowledged.get(checkpoint_id, set())
        if missing:
            raise LawBroken(
                Law.COMPLETE, f"_metadata of {checkpoint_id} without the acknowledgements of {sorted(missing)}"
            )
        expected = {str(a) for a in self._expected[checkpoint_id]}
        for operator in command.manifest.operators:
            strangers = {origin_of(s) for s in operator.subtasks.values()} - expected
            if strangers:
                raise LawBroken(Law.FENCED, f"_metadata of {checkpoint_id} holds state of {strangers}")

    def _on_confirm(self, command: c.ConfirmCheckpoint) -> None:
        checkpoint_id = command.checkpoint_id
        is_durable = (self._job_id, checkpoint_id) in self._storage.ever_durable
        if checkpoint_id not in self._told_durable or not is_durable:
            raise LawBroken(
                Law.COMPLETE, f"checkpoint {checkpoint_id} is confirmed, but _metadata is not known to be durable"
            )
        if checkpoint_id in self._savepoints - self._stops:
            raise LawBroken(Law.COMPLETE, f"savepoint {checkpoint_id} is confirmed")

    def _on_discard(self, command: c.DiscardCheckpoint) -> None:
        checkpoint_id, restore = command.checkpoint_id, self._restore
        if command.location in self._damaged:
            raise LawBroken(Law.ABORTED, f"{command.location} is deleted, since it could not be read")
        if restore is not None and command.location == restore.location:
            if restore.claim_mode is not ClaimMode.CLAIM:
                raise LawBroken(Law.ABORTED, f"{command.location} is deleted, but was not claimed")
        elif checkpoint_id in self._told_durable & self._savepoints:
            raise LawBroken(Law.ABORTED, f"savepoint {checkpoint_id} is deleted")
        if checkpoint_id in self._unsettled:
            raise LawBroken(
                Law.COMPLETE, f"checkpoint {checkpoint_id} is deleted while nobody knows whether it is durable"
            )
        latest = self._machine.checkpoints(self._job_id)
        newest = latest.latest_completed_id if latest else None
        if checkpoint_id == newest and not self._state.is_terminal:
            raise LawBroken(Law.COMPLETE, f"checkpoint {checkpoint_id} is the latest and is deleted")

    def _check_ended_checkpoints(self, event: e.Event, commands: list[c.Command]) -> None:
        """Law 7 (and the last part of law 4): how a checkpoint that is pending no more was told to its tasks."""
        pending = self._machine._jobs[self._job_id].coordinator._pending
        ended = [n for n in self._expected if n not in pending and n not in self._over]
        for checkpoint_id in ended:
            self._over.add(checkpoint_id)
            if checkpoint_id not in self._told_durable and self._is_an_ending(event):
                raise LawBroken(Law.ENDING, f"{checkpoint_id} failed because subtasks finish: {event}")
            if checkpoint_id not in self._triggered:
                continue
            live = {a for a in self._expected[checkpoint_id] if self._is_live(a)}
            completed = checkpoint_id in self._told_durable
            kind = c.ConfirmCheckpoint if completed else c.AbortCheckpoint
            told: set[AttemptId] = set()
            for command in commands:
                if isinstance(command, c.ConfirmCheckpoint | c.AbortCheckpoint) and isinstance(command, kind):
                    told.update(command.attempts if command.checkpoint_id == checkpoint_id else ())
            if completed and (checkpoint_id in self._savepoints or self._is_outdated(checkpoint_id)):
                continue
            if live - told and not self._state.is_terminal:
                what = "completed" if completed else "failed"
                raise LawBroken(
                    Law.COMPLETE if completed else Law.ABORTED,
                    f"{checkpoint_id} {what}, {sorted(live - told)} are not told",
                )
            discarded = any(isinstance(x, c.DiscardCheckpoint) and x.checkpoint_id == checkpoint_id for x in commands)
            if not completed and checkpoint_id in self._located and not discarded:
                raise LawBroken(Law.ABORTED, f"{checkpoint_id} failed, and its files are left")

    def _is_an_ending(self, event: e.Event) -> bool:
        """Nothing is wrong with a subtask: it has finished, or is about to."""
        match event:
            case e.TaskStateChanged():
                return event.state is ExecutionState.FINISHED
            case e.SubtaskDeclined():
                return event.reason is DeclineReason.TASK_CLOSING
            case e.CallAnswered():
                return not self._watch.finished.isdisjoint(event.attempts)
            case _:
                return False

    def check_leftovers(self) -> None:
        """Law 7, at the end: no file of a failed checkpoint is left by a subtask that told of it, unless the disk refused to remove it."""
        for place, files in self._incomplete:
            left = files & self._storage.files.get(place.location, set())
            if left and place.checkpoint_id not in self._not_removed:
                raise LawBroken(
                    Law.ABORTED, f"{place.location} was found incomplete, and files of {sorted(left)} are left"
                )
        for checkpoint_id, location in self._located.items():
            if location in self._storage.manifests or checkpoint_id in self._not_removed:
                continue
            writers = self._storage.files.get(location, set())
            left = self._watch.writers(writers, checkpoint_id) & self._acknowledged.get(checkpoint_id, set())
            if left:
                raise LawBroken(Law.ABORTED, f"files of {sorted(left)} are left in failed checkpoint {checkpoint_id}")
        self.shared.check_leftovers()

    # ---- what is asked of the machine --------------------------------------------------------------------------------

    @property
    def _state(self) -> JobState:
        return self._machine._jobs[self._job_id].lifecycle.state

    def _executions(self) -> list[Execution]:
        return list(self._machine._jobs[self._job_id].executions)

    def _execution(self, attempt: AttemptId) -> Execution | None:
        """Returns the current one of its subtask; ``None`` where the shape of the job has none of that number."""
        executions = self._machine._jobs[self._job_id].executions
        is_there = attempt.subtask < executions.vertices[attempt.vertex_id].parallelism
        return executions[attempt.subtask_id] if is_there else None

    def _is_live(self, attempt: AttemptId) -> bool:
        execution = self._execution(attempt)
        if execution is None:
            return False
        where = execution.task_manager_id
        is_reachable = where is not None and self._machine._buffer.is_connected(where)
        return execution.attempt == attempt and execution.is_deployed and is_reachable

    def _is_outdated(self, checkpoint_id: int) -> bool:
        return any(n > checkpoint_id for n in self._told_durable - self._savepoints)
