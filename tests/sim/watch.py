"""Checkers on the side of the subtasks and sinks: laws 1, 2, 3 and 5 of a checkpoint (docs/architecture)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from tests.sim.channel import Row
from tests.sim.handles import transactions_of
from tests.sim.job import SINK_OP
from tests.sim.laws import Law, LawBroken
from tests.sim.storage import Transaction
from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.fencing import term_of
from tidegate.model.ids import AttemptId, Generation, JobId, TaskManagerId
from tidegate.model.leadership.attempt_report import AttemptReport


@dataclass(slots=True)
class _Seen:
    """What one attempt has seen of one split."""

    highest: int = -1
    floor: int = 0


@dataclass(slots=True)
class Watch:
    cuts: dict[tuple[JobId, int, int], dict[int, int]] = field(default_factory=dict)
    """By job, checkpoint and attempt number of the sources (a region has one): the offset at which each split was cut."""
    _seen: dict[AttemptId, dict[int, _Seen]] = field(default_factory=dict)
    _barriers: dict[tuple[AttemptId, int], set[int]] = field(default_factory=dict)
    _announced: set[tuple[AttemptId, int]] = field(default_factory=set)
    _ended: dict[AttemptId, set[int]] = field(default_factory=dict)
    _answers: set[tuple[AttemptId, int]] = field(default_factory=set)
    triggered: set[tuple[AttemptId, int]] = field(default_factory=set)
    """Filled by the JobManager's side: who was sent a trigger for what."""
    answered_late: set[tuple[AttemptId, int]] = field(default_factory=set)
    finished: set[AttemptId] = field(default_factory=set)
    """Those that have said their last word in peace."""

    # ---- law 1: who may start a snapshot -----------------------------------------------------------------------------

    def on_barrier(self, attempt: AttemptId, channel: int, checkpoint_id: int) -> None:
        self._barriers.setdefault((attempt, checkpoint_id), set()).add(channel)

    def on_announced(self, attempt: AttemptId, checkpoint_id: int) -> None:
        self._announced.add((attempt, checkpoint_id))

    def on_channel_ended(self, attempt: AttemptId, channel: int) -> None:
        self._ended.setdefault(attempt, set()).add(channel)

    def on_frozen(
        self,
        attempt: AttemptId,
        checkpoint_id: int,
        *,
        barrier_was_sent: bool,
        channels: dict[AttemptId, int],
        is_unaligned: bool,
        may_overtake: bool,
    ) -> None:
        """``is_unaligned``: what is in front of the barriers that did not come yet will be persisted. ``may_overtake``: that
        may be so somewhere before this subtask, and rows in front of the cut may still come."""
        if not is_unaligned:
            self.on_channels_complete(attempt, checkpoint_id, channels)
        elif (attempt, checkpoint_id) not in self._barriers.keys() | self._announced:
            raise LawBroken(Law.TRIGGER, f"{attempt} took snapshot {checkpoint_id} before any barrier or announcement")
        if not channels and (attempt, checkpoint_id) not in self.triggered:
            raise LawBroken(Law.TRIGGER, f"{attempt} took snapshot {checkpoint_id}, which nobody triggered")
        if not barrier_was_sent:
            raise LawBroken(Law.FROZEN, f"{attempt} froze its state for {checkpoint_id} before it sent the barrier")
        cuts = self.cuts.get((attempt.job_id, checkpoint_id, attempt.attempt), {})
        for split, seen in self._seen.get(attempt, {}).items():
            cut = cuts.get(split)
            if cut is None:
                continue
            if seen.highest >= cut:
                raise LawBroken(
                    Law.CUT,
                    f"{attempt} has row {seen.highest} of {split} in snapshot {checkpoint_id}, the cut is at {cut}",
                )
            if not may_overtake:
                seen.floor = cut

    def on_channels_complete(self, attempt: AttemptId, checkpoint_id: int, channels: dict[AttemptId, int]) -> None:
        """Every barrier has come: the state, or the data in flight, is whole."""
        ended = self._ended.get(attempt, set())
        missing = set(channels.values()) - ended - self._barriers.get((attempt, checkpoint_id), set())
        if missing:
            raise LawBroken(
                Law.TRIGGER, f"{attempt} took snapshot {checkpoint_id} without a barrier on channels {missing}"
            )

    # ---- law 2: the cut ----------------------------------------------------------------------------------------------

    def on_cut(self, source: AttemptId, checkpoint_id: int, offsets: Mapping[int, int]) -> None:
        self.cuts.setdefault((source.job_id, checkpoint_id, source.attempt), {}).update(offsets)

    def on_row(self, attempt: AttemptId, row: Row) -> None:
        of_attempt = self._seen.get(attempt)
        if of_attempt is None:
            of_attempt = self._seen[attempt] = {}
        seen = of_attempt.get(row.split)
        if seen is None:
            seen = of_attempt[row.split] = _Seen()
        if row.offset < seen.floor:
            raise LawBroken(Law.CUT, f"{attempt} gets row {row.offset} of {row.split} behind a barrier at {seen.floor}")
        seen.highest = max(seen.highest, row.offset)

    # ---- law 3: frozen, answered once --------------------------------------------------------------------------------

    def on_written(self, attempt: AttemptId, checkpoint_id: int, *, frozen_changed: bool) -> None:
        if frozen_changed:
            raise LawBroken(
                Law.FROZEN, f"the state that {attempt} froze for {checkpoint_id} changed before it was written"
            )

    def on_acknowledged(self, attempt: AttemptId, checkpoint_id: int) -> None:
        self._answer(attempt, checkpoint_id, "acknowledges")

    def on_declined(self, attempt: AttemptId, checkpoint_id: int) -> None:
        self._answer(attempt, checkpoint_id, "declines")

    def _answer(self, attempt: AttemptId, checkpoint_id: int, what: str) -> None:
        if (attempt, checkpoint_id) in self._answers:
            raise LawBroken(Law.FROZEN, f"{attempt} {what} {checkpoint_id} after it had answered it")
        self._answers.add((attempt, checkpoint_id))

    # ---- law 6: what is doubled changes nothing ----------------------------------------------------------------------

    _begun: set[AttemptId] = field(default_factory=set)

    def on_began(self, attempt: AttemptId) -> None:
        if attempt in self._begun:
            raise LawBroken(Law.FENCED, f"{attempt} begins again")
        self._begun.add(attempt)

    # ---- adoption ----------------------------------------------------------------------------------------------------

    alive: set[AttemptId] = field(default_factory=set)
    """Those whose process is on a TaskManager that lives."""
    over: set[AttemptId] = field(default_factory=set)
    """Those that had ended, and not in peace, when their TaskManager registered with a JobManager."""
    _highest: dict[TaskManagerId, int] = field(default_factory=dict)

    def on_reported(self, alive: Container[AttemptId], reports: Iterable[AttemptReport]) -> None:
        self.over.update(r.attempt for r in reports if r.attempt not in alive and r.attempt not in self.finished)

    def on_confirmed(self, task_manager_id: TaskManagerId, by: Generation, registered: Generation | None) -> None:
        """A confirmation reached a subtask."""
        if registered is None:
            raise LawBroken(Law.ADOPTION, f"{task_manager_id} confirms a checkpoint, and nobody leads")
        highest = self._highest.get(task_manager_id, 0)
        if term_of(by) < highest:
            raise LawBroken(
                Law.ADOPTION, f"{task_manager_id} obeys the JobManager of term {term_of(by)} after {highest}"
            )
        self._highest[task_manager_id] = term_of(by)

    # ---- law 5: effects only on confirm ------------------------------------------------------------------------------

    def on_commit(self, transaction: Transaction, *, was_aborted: bool) -> None:
        if was_aborted:
            raise LawBroken(Law.PUBLISHED, f"{transaction} is to be committed after it was aborted")
        if transaction not in self.durable_votes:
            raise LawBroken(
                Law.PUBLISHED, f"{transaction} is committed, but no checkpoint that holds it was ever durable"
            )

    durable_votes: set[Transaction] = field(default_factory=set)

    def on_durable(self, manifest: CheckpointManifest) -> None:
        """``_metadata`` is there: the votes in it may be carried out."""
        for operator in manifest.operators:
            if operator.operator_id == SINK_OP:
                for snapshot in operator.subtasks.values():
                    self.durable_votes.update(transactions_of(snapshot))

    def writers(self, attempts: Iterable[AttemptId], checkpoint_id: int) -> set[AttemptId]:
        """Those of ``attempts`` that have told the JobManager about their files."""
        return {a for a in attempts if (a, checkpoint_id) in self._answers}
