"""``TwoPhaseCommitSinkFunction`` in the sink operator: which method is called when, what is remembered, what time does."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conformance.sink_suite import share
from tests.unit.taskmanager.operators.harness import Running, spec, start
from tidegate.common.typeinfo import Types
from tidegate.connectors.two_phase_commit import TwoPhaseCommitSink
from tidegate.datastream import RuntimeContext, StreamExecutionEnvironment, TwoPhaseCommitSinkFunction
from tidegate.model.checkpoint import OperatorSnapshot
from tidegate.model.errors import InvalidJob, NotSerializable, UserFunctionError
from tidegate.taskmanager.machines.subtask import EOI_CHECKPOINT_ID
from tidegate.taskmanager.operators.operator import Ending


@dataclass(frozen=True, order=True)
class Handle:
    number: int


@dataclass
class Calls:
    """The calls of one attempt, or of several."""

    made: list[str] = field(default_factory=list)
    fails: set[str] = field(default_factory=set)

    def note(self, call: str) -> None:
        self.made.append(call)
        if call in self.fails:
            raise OSError(f"{call} fails")

    def take(self) -> list[str]:
        made, self.made = self.made, []
        return made


class Numbered(TwoPhaseCommitSinkFunction[str, int, dict[str, int]]):
    """Notes its calls. Transactions are numbered; the number of the next one is the user context."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def open(self, runtime_context: RuntimeContext) -> None:
        self.calls.note("open")

    def close(self) -> None:
        self.calls.note("close")

    def initialize_user_context(self) -> dict[str, int] | None:
        return {"next": 1}

    def finish_recovering_context(self, handled_transactions: Sequence[int]) -> None:
        self.calls.note(f"recovered {self.get_user_context()}, handled {sorted(handled_transactions)}")

    def begin_transaction(self) -> int:
        context = self.get_user_context()
        assert context is not None
        number = context["next"]
        context["next"] += 1
        self.calls.note(f"begin {number}")
        return number

    def invoke(self, transaction: int, value: str, context: TwoPhaseCommitSinkFunction.Context) -> None:
        self.calls.note(f"invoke {transaction} {value} @{context.timestamp()} behind {context.current_watermark()}")

    def pre_commit(self, transaction: int) -> None:
        self.calls.note(f"pre-commit {transaction}")

    def commit(self, transaction: int) -> None:
        self.calls.note(f"commit {transaction}")

    def abort(self, transaction: int) -> None:
        self.calls.note(f"abort {transaction}")

    def recover_and_commit(self, transaction: int) -> None:
        self.calls.note(f"recover and commit {transaction}")

    def recover_and_abort(self, transaction: int) -> None:
        self.calls.note(f"recover and abort {transaction}")


def begin(
    function: TwoPhaseCommitSinkFunction[Any, Any, Any],
    restored: Sequence[OperatorSnapshot] = (),
    *,
    now_ms: int = 0,
    subtask: int = 0,
    parallelism: int = 1,
    attempt: int = 0,
) -> Running:
    return start(
        spec("sink", input_types=(Types.STRING(),), options={"sink": TwoPhaseCommitSink(function)}),
        restored=share(restored, subtask, parallelism) if restored else None,
        subtask=subtask,
        parallelism=parallelism,
        now_ms=now_ms,
        attempt=attempt,
    )


def test_the_calls_of_an_attempt_and_of_the_next() -> None:
    calls = Calls()
    one = begin(Numbered(calls))
    assert calls.take() == ["open", "begin 1"]
    one.operator.on_watermark(6)
    one.feed(["a"], [7])
    assert calls.take() == ["invoke 1 a @7 behind 6"]
    one.snapshot(1)
    assert calls.take() == ["pre-commit 1", "begin 2"]
    snapshot = one.snapshot(2)
    one.operator.notify_checkpoint_aborted(2)
    assert calls.take() == ["pre-commit 2", "begin 3"]
    one.operator.notify_checkpoint_complete(1)
    assert calls.take() == ["commit 1"]
    one.operator.close()
    assert calls.take() == ["abort 3", "close"]
    two = begin(Numbered(calls), [snapshot], attempt=1)
    assert calls.take() == [
        "open",
        "recover and commit 1",
        "recover and commit 2",
        "recover and abort 3",
        "recovered {'next': 4}, handled [1, 2, 3]",
        "begin 4",
    ]
    two.operator.close()


def test_a_commit_that_fails_is_repeated_by_the_next_attempt() -> None:
    calls = Calls(fails={"commit 1"})
    one = begin(Numbered(calls))
    snapshot = one.snapshot(1)
    with pytest.raises(UserFunctionError, match="commit 1 fails"):
        one.operator.notify_checkpoint_complete(1)
    assert calls.take()[-1] == "commit 1", "an error of the function's own is not tried again"
    begin(Numbered(calls), [snapshot], attempt=1)
    assert "recover and commit 1" in calls.take()


def test_a_job_without_checkpoints_commits_at_its_end() -> None:
    calls = Calls()
    one = begin(Numbered(calls))
    one.feed(["a"])
    one.operator.finish()
    assert one.operator.ending() is Ending.UNCOMMITTED
    one.operator.notify_checkpoint_complete(EOI_CHECKPOINT_ID)
    assert calls.take()[-2:] == ["pre-commit 1", "commit 1"]
    assert one.operator.ending() is Ending.DONE
    one.operator.close()
    assert calls.take() == ["close"]


def test_behind_the_end_no_transaction_begins() -> None:
    """It would be empty, and no process would be there to commit it."""
    calls = Calls()
    one = begin(Numbered(calls))
    one.operator.finish()
    one.snapshot(1)
    snapshot = one.snapshot(2)
    one.operator.notify_checkpoint_complete(1)
    assert one.operator.ending() is Ending.DONE
    assert calls.take()[-2:] == ["pre-commit 1", "commit 1"]
    begin(Numbered(calls), [snapshot], attempt=1)
    assert calls.take()[1:3] == ["recover and commit 1", "recovered {'next': 2}, handled [1]"]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 3)])
def test_a_context_and_its_transactions_are_restored_by_one_subtask(before: int, after: int) -> None:
    """A sink with a pool of ids may abort all of it except the transactions that it is given."""
    functions = [Numbered(Calls()) for _ in range(before)]
    olds = [begin(function, subtask=i, parallelism=before) for i, function in enumerate(functions)]
    for number, function in enumerate(functions):
        context = function.get_user_context()
        assert context is not None
        context["next"] = 10 * (number + 1)
    for checkpoint_id in (1, 2):
        snapshots = [old.snapshot(checkpoint_id) for old in olds]
    for index in range(after):
        calls = Calls()
        begin(Numbered(calls), snapshots, subtask=index, parallelism=after, attempt=1)
        handled = {int(call.split()[-1]) for call in calls.made if call.startswith("recover and")}
        for call in calls.made:
            if call.startswith("recovered"):
                following = int(call.split("'next': ")[1].split("}")[0])
                assert {following - 1, following - 2} <= handled


class Timed(Numbered):
    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.set_transaction_timeout(1000)
        self.enable_transaction_timeout_warnings(0.8)


def test_a_transaction_that_is_committed_late_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    one = begin(Timed(Calls()), now_ms=5_000)
    one.snapshot(1)
    one.clock.ms += 800
    one.operator.notify_checkpoint_complete(1)
    assert caplog.messages == []
    one.snapshot(2)
    one.clock.ms += 1
    one.operator.notify_checkpoint_complete(2)
    (message,) = caplog.messages
    assert "transaction 2 has been open for 801 ms" in message
    assert "timeout of 1000 ms" in message


def test_what_the_system_gave_up_is_logged_and_left_only_when_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    snapshot = begin(Timed(Calls()), now_ms=0).snapshot(1)
    fails = Calls(fails={"recover and commit 1"})
    with pytest.raises(UserFunctionError, match="recover and commit 1 fails"):
        begin(Timed(fails), [snapshot], now_ms=2_000)
    function = Timed(fails)
    function.ignore_failures_after_transaction_timeout()
    with pytest.raises(UserFunctionError, match="recover and commit 1 fails"):
        begin(function, [snapshot], now_ms=1_000)
    caplog.clear()
    begin(function, [snapshot], now_ms=1_001)
    (error,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "the transaction 1 could not be committed (OSError: recover and commit 1 fails)" in error


class Objects(Numbered):
    """Handles that are no plain values."""

    def __init__(self, calls: Calls) -> None:
        TwoPhaseCommitSinkFunction.__init__(self, pickle, pickle)
        self.calls = calls

    def begin_transaction(self) -> Any:
        return Handle(super().begin_transaction())


def test_a_serializer_keeps_objects() -> None:
    snapshot = begin(Objects(Calls())).snapshot(1)
    calls = Calls()
    begin(Objects(calls), [snapshot])
    assert calls.take()[1:3] == ["recover and commit Handle(number=1)", "recover and abort Handle(number=2)"]


@pytest.mark.parametrize("handle", [Handle(1), (1, "a"), object()])
def test_what_would_come_back_as_something_else_is_refused_by_name(handle: object) -> None:
    class Wrong(Numbered):
        def begin_transaction(self) -> Any:
            return handle

    one = begin(Wrong(Calls()))
    with pytest.raises(NotSerializable, match="not made of plain values"):
        one.snapshot(1)


def test_settings_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        Numbered(Calls()).set_transaction_timeout(-1)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Numbered(Calls()).enable_transaction_timeout_warnings(1.1)


def test_a_function_is_given_to_add_sink() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(["a"], Types.STRING())
    stream.add_sink(Numbered(Calls())).uid("numbered")
    wrong: Any = Numbered(Calls())
    with pytest.raises(InvalidJob, match="sink_to needs"):
        stream.sink_to(wrong)


def test_the_record_at_which_a_function_fails_is_the_one_that_is_named() -> None:
    class Refusing(Numbered):
        def invoke(self, transaction: int, value: str, context: TwoPhaseCommitSinkFunction.Context) -> None:
            if value == "b":
                raise ValueError("no")

    sink = begin(Refusing(Calls()))
    with pytest.raises(UserFunctionError) as raised:
        sink.feed(["a", "b", "c"], [1, 2, 3])
    assert (raised.value.inputs, raised.value.inputs_words) == (("b",), "")
