"""What every exactly-once sink must do, whatever system it writes to: the two-phase commit, step by step, and a fault at
each of its steps. A sink takes part by a class that says how to make it and what its readers see:

    class TestMine(SinkConformance):
        @pytest.fixture
        def subject(self) -> Subject: ...

The sink runs in the runtime's own ``SinkOperator``; confirms, restores and rescales are given to it by hand.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.snapshots import as_checkpoint, share
from tests.unit.taskmanager.operators.harness import Running, spec, start
from tidegate.common.typeinfo import Types
from tidegate.connectors.base import Committer, Sink, SinkContext, SinkWriter
from tidegate.connectors.transactions import TransactionLog, TransactionStatus, listed_in, operators_in
from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.model.errors import ExternalError, TidegateError

RETRIES = {"sink.committer.retries": "2"}


class Subject(ABC):
    """A sink of strings, and its readers."""

    @abstractmethod
    def sink(self) -> Sink: ...

    @abstractmethod
    def visible(self) -> list[str]:
        """What readers see, in any order."""

    @abstractmethod
    def log(self) -> TransactionLog:
        """How ``tidegate txn`` looks at its system."""


@dataclass
class Faults:
    """What goes wrong at the next commits: ``before`` (nothing happened), ``after`` (the answer is lost)."""

    planned: list[str] = field(default_factory=list)
    commits: int = 0


class FaultySink(Sink):
    def __init__(self, inner: Sink, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults
        self.function, self.keeps_together = inner.function, inner.keeps_together

    def make_writer(self, context: SinkContext, state: Sequence[Any], input_type: Any) -> SinkWriter:
        return self._inner.make_writer(context, state, input_type)

    def make_committer(self, context: SinkContext) -> Committer:
        committer = self._inner.make_committer(context)
        assert committer is not None
        return _FaultyCommitter(committer, self._faults)


class _FaultyCommitter(Committer):
    def __init__(self, inner: Committer, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults
        self.in_subtask_thread = inner.in_subtask_thread

    def commit(self, committables: Sequence[Any]) -> None:
        self._faults.commits += 1
        fault = self._faults.planned.pop(0) if self._faults.planned else ""
        if fault == "before":
            raise ExternalError("injected: the system does not answer")
        self._inner.commit(committables)
        if fault == "after":
            raise ExternalError("injected: the answer is lost")

    def abort_unknown(self, restored: Sequence[Any], context: SinkContext) -> None:
        self._inner.abort_unknown(restored, context)

    def name_of(self, committable: Any) -> str:
        return self._inner.name_of(committable)

    def close(self) -> None:
        self._inner.close()


class SinkConformance:
    """The tests. ``self.attempts`` counts up, so that every start is an attempt of its own."""

    attempts = 0

    @pytest.fixture(autouse=True)
    def _ended(self) -> Iterator[None]:
        with self.ended():
            yield

    @contextlib.contextmanager
    def ended(self) -> Iterator[None]:
        """Attempts that a test left as if they were killed are closed behind it, also when it fails: their sockets are this process's."""
        self._begun: list[Running] = []
        try:
            yield
        finally:
            for running in self._begun:
                with contextlib.suppress(TidegateError, OSError):
                    running.operator.close()

    @pytest.fixture
    def subject(self) -> Subject:
        raise AssertionError("a class of the suite says what its subject is")

    def begin(
        self,
        subject: Subject,
        restored: Sequence[OperatorSnapshot] = (),
        restored_id: int | None = None,
        *,
        subtask: int = 0,
        parallelism: int = 1,
        faults: Faults | None = None,
    ) -> Running:
        """A new attempt; it gets its share of the elements of the old snapshots, dealt one by one. Its clock begins at the real time,
        by which ``tidegate txn`` tells whether what it finds is too old to be known."""
        SinkConformance.attempts += 1
        sink = FaultySink(subject.sink(), faults or Faults())
        running = start(
            spec("sink", input_types=(Types.STRING(),), options={"sink": sink}),
            subtask=subtask,
            parallelism=parallelism,
            restored=share(restored, subtask, parallelism) if restored else None,
            restored_id=restored_id,
            configuration=RETRIES,
            now_ms=time.time_ns() // 1_000_000,
            attempt=SinkConformance.attempts,
        )
        self._begun.append(running)
        return running

    # --- the protocol without faults -------------------------------------------------------------------

    def test_nothing_is_visible_before_the_confirm_and_everything_after(self, subject: Subject) -> None:
        one = self.begin(subject)
        one.feed(["a", "b"])
        one.snapshot(1)
        one.feed(["c"])
        assert subject.visible() == []
        one.operator.notify_checkpoint_complete(1)
        assert sorted(subject.visible()) == ["a", "b"]
        one.snapshot(2)
        one.operator.notify_checkpoint_complete(2)
        assert sorted(subject.visible()) == ["a", "b", "c"]
        one.operator.close()

    def test_a_confirm_commits_skipped_checkpoints_too(self, subject: Subject) -> None:
        one = self.begin(subject)
        for checkpoint_id, value in enumerate("abc", start=1):
            one.feed([value])
            one.snapshot(checkpoint_id)
        one.operator.notify_checkpoint_aborted(1)
        one.operator.notify_checkpoint_complete(2)
        assert sorted(subject.visible()) == ["a", "b"]
        one.operator.close()

    def test_an_empty_epoch_is_none(self, subject: Subject) -> None:
        one = self.begin(subject)
        one.snapshot(1)
        one.operator.notify_checkpoint_complete(1)
        assert subject.visible() == []
        one.operator.close()

    def test_duplicate_and_late_confirms_change_nothing(self, subject: Subject) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        one.snapshot(1)
        one.feed(["b"])
        one.snapshot(2)
        for checkpoint_id in (2, 2, 1):
            one.operator.notify_checkpoint_complete(checkpoint_id)
        assert sorted(subject.visible()) == ["a", "b"]
        one.operator.close()

    # --- restarts --------------------------------------------------------------------------------------

    def test_a_restart_commits_what_its_checkpoint_holds_and_drops_what_is_newer(self, subject: Subject) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        one.feed(["lost"])
        one.snapshot(2)
        one.feed(["lost too"])
        two = self.begin(subject, [snapshot], 1)
        assert subject.visible() == ["a"]
        two.feed(["b"])
        two.snapshot(3)
        two.operator.notify_checkpoint_complete(3)
        assert sorted(subject.visible()) == ["a", "b"]
        two.operator.close()

    def test_a_restart_without_a_checkpoint_shows_nothing_of_before(self, subject: Subject) -> None:
        one = self.begin(subject)
        one.feed(["lost"])
        one.snapshot(1)
        two = self.begin(subject)
        two.feed(["a"])
        two.snapshot(1)
        two.operator.notify_checkpoint_complete(1)
        assert subject.visible() == ["a"]
        two.operator.close()

    def test_a_checkpoint_is_restored_again_and_again(self, subject: Subject) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        one.operator.notify_checkpoint_complete(1)
        for _ in range(3):
            self.begin(subject, [snapshot], 1).operator.close()
        assert subject.visible() == ["a"]

    def test_a_savepoint_is_restored_although_the_job_went_on(self, subject: Subject) -> None:
        """A plain savepoint is not confirmed: the next checkpoint commits its epoch, the restore must not do it again."""
        one = self.begin(subject)
        one.feed(["a"])
        savepoint = one.snapshot(1)
        one.feed(["b"])
        one.snapshot(2)
        one.operator.notify_checkpoint_complete(2)
        one.operator.close()
        self.begin(subject, [savepoint], 1).operator.close()
        assert sorted(subject.visible()) == ["a", "b"]

    # --- resolved by hand ------------------------------------------------------------------------------

    def test_what_is_committed_by_hand_is_not_committed_again(self, subject: Subject, tmp_path: Path) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        one.operator.close()
        log, path = subject.log(), as_checkpoint(snapshot, tmp_path)
        (pending,) = log.transactions(listed_in(path))
        assert (pending.status, pending.checkpoint_id, pending.operator) == (TransactionStatus.PENDING, 1, "sink")
        for _ in range(2):
            log.commit(pending)
            assert subject.visible() == ["a"]
        assert [t.status for t in log.transactions(listed_in(path))] == [TransactionStatus.COMMITTED]
        self.begin(subject, [snapshot], 1).operator.close()
        assert subject.visible() == ["a"]

    def test_what_is_aborted_by_hand_stays_out_and_a_restored_job_goes_on(
        self, subject: Subject, tmp_path: Path
    ) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        one.operator.close()
        log, path = subject.log(), as_checkpoint(snapshot, tmp_path)
        (pending,) = log.transactions(listed_in(path))
        for _ in range(2):
            log.abort(pending)
        assert [t.status for t in log.transactions(listed_in(path))] == [TransactionStatus.ABORTED]
        assert log.unlisted(frozenset([pending.name]), {}) == []
        two = self.begin(subject, [snapshot], 1)
        two.feed(["b"])
        two.snapshot(2)
        two.operator.notify_checkpoint_complete(2)
        assert subject.visible() == ["b"]
        two.operator.close()

    def test_what_no_checkpoint_lists_is_found_and_aborted(self, subject: Subject, tmp_path: Path) -> None:
        """A job that is gone for good leaves it behind, if its system holds it at all."""
        one = self.begin(subject)
        one.feed(["a"])
        first = as_checkpoint(one.snapshot(1), tmp_path)
        one.operator.notify_checkpoint_complete(1)
        one.feed(["left"])
        one.snapshot(2)
        one.operator.close()
        log = subject.log()
        (done,) = log.transactions(listed_in(first))
        assert done.status is TransactionStatus.COMMITTED
        left = log.unlisted(frozenset([done.name]), operators_in(first))
        assert {(t.operator, t.listed) for t in left} <= {("sink", False)}
        assert {t.checkpoint_id for t in left} <= {0, 2}, "0: its name does not say"
        for transaction in left:
            log.abort(transaction)
        assert log.unlisted(frozenset([done.name]), {}) == []
        assert subject.visible() == ["a"]

    @pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3)])
    def test_rescaled_epochs_are_committed_once(self, subject: Subject, before: int, after: int) -> None:
        olds = [self.begin(subject, subtask=i, parallelism=before) for i in range(before)]
        snapshots: list[OperatorSnapshot] = []
        for checkpoint_id in (1, 2):
            for i, old in enumerate(olds):
                old.feed([f"{checkpoint_id}-{i}"])
            snapshots = [old.snapshot(checkpoint_id) for old in olds]
        news = [self.begin(subject, snapshots, 2, subtask=i, parallelism=after) for i in range(after)]
        wanted = [f"{checkpoint_id}-{i}" for checkpoint_id in (1, 2) for i in range(before)]
        assert sorted(subject.visible()) == wanted
        for i, new in enumerate(news):
            new.feed([f"3-{i}"])
            new.snapshot(3)
            new.operator.notify_checkpoint_complete(3)
            new.operator.close()
        assert sorted(subject.visible()) == wanted + [f"3-{i}" for i in range(after)]

    # --- faults at each step ---------------------------------------------------------------------------

    @pytest.mark.parametrize("planned", [["before"], ["after"], ["before", "after"], ["after", "before"]])
    def test_a_commit_that_fails_is_tried_again_and_shows_once(self, subject: Subject, planned: list[str]) -> None:
        one = self.begin(subject, faults=Faults(list(planned)))
        one.feed(["a"])
        one.snapshot(1)
        one.operator.notify_checkpoint_complete(1)
        assert subject.visible() == ["a"]
        one.operator.close()

    @pytest.mark.parametrize("planned", [["before"] * 3, ["after"] * 3])
    def test_a_commit_that_fails_for_good_names_the_epoch_and_a_restart_commits_it(
        self, subject: Subject, planned: list[str]
    ) -> None:
        one = self.begin(subject, faults=Faults(list(planned)))
        one.feed(["a"])
        snapshot = one.snapshot(1)
        with pytest.raises(TidegateError, match="what checkpoint 1 holds"):
            one.operator.notify_checkpoint_complete(1)
        self.begin(subject, [snapshot], 1).operator.close()
        assert subject.visible() == ["a"]

    def test_a_writer_that_dies_before_its_vote_leaves_nothing(self, subject: Subject) -> None:
        one = self.begin(subject)
        one.feed(["a"])
        snapshot = one.snapshot(1)
        one.feed(["lost"])
        one.operator.close()
        two = self.begin(subject, [snapshot], 1)
        two.feed(["b"])
        two.snapshot(2)
        two.operator.notify_checkpoint_complete(2)
        assert sorted(subject.visible()) == ["a", "b"]
        two.operator.close()

    def test_the_commit_of_a_zombie_changes_nothing(self, subject: Subject) -> None:
        """A process that hung before its commit wakes up when its successor has long done it."""
        zombie = self.begin(subject)
        zombie.feed(["a"])
        snapshot = zombie.snapshot(1)
        successor = self.begin(subject, [snapshot], 1)
        successor.feed(["b"])
        successor.snapshot(2)
        successor.operator.notify_checkpoint_complete(2)
        try:
            zombie.operator.notify_checkpoint_complete(1)
        except TidegateError as refused:
            print("refused:", refused)
        assert sorted(subject.visible()) == ["a", "b"]
        successor.feed(["c"])
        successor.snapshot(3)
        successor.operator.notify_checkpoint_complete(3)
        assert sorted(subject.visible()) == ["a", "b", "c"]
        successor.operator.close()


__all__ = ["Faults", "SinkConformance", "Subject", "as_checkpoint", "share"]
