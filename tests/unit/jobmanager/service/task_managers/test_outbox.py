"""The ordered way to one TaskManager: order, tries, errors of single attempts, and an end in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest

from tidegate.aio.pool import Pool
from tidegate.jobmanager.machines import commands as c
from tidegate.jobmanager.machines.events import CallAnswered
from tidegate.jobmanager.service.storage.inline_state import InlineState
from tidegate.jobmanager.service.task_managers import outbox as outbox_module
from tidegate.jobmanager.service.task_managers.outbox import TRIES, Link, TaskManagerOutbox
from tidegate.model.checkpoint import (
    CheckpointManifest,
    CheckpointOptions,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    RestoredOperator,
    SnapshotType,
    StateHandle,
    StateRedistribution,
    TaskRestore,
)
from tidegate.model.deployment import TaskDeployment
from tidegate.model.errors import ErrorInfo, Fenced, StorageError, UnknownAttempt
from tidegate.model.ids import (
    AllocationId,
    AttemptId,
    BlobKey,
    CheckpointId,
    Generation,
    JobId,
    OperatorId,
    TaskManagerId,
    VertexId,
)
from tidegate.pb import common_pb2, taskmanager_pb2
from tidegate.wire.convert import deployment_from_bytes, error_to_pb

JOB, TM, OPERATOR = JobId("a" * 32), TaskManagerId("tm-1"), OperatorId("c" * 32)
A, B = (AttemptId(JOB, VertexId("b" * 32), index, 0) for index in (0, 1))
LIMIT_S = 20


def unavailable() -> grpc.aio.AioRpcError:
    empty = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, empty, empty, "nobody there")


class Peer:
    """The TaskManager: ``behave`` decides what becomes of a call; by default it succeeds."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.requests: list[Any] = []
        self.behave: Callable[[str, Any], Any] = lambda method, request: None
        self.is_closed = False

    def __getattr__(self, method: str) -> Any:
        async def call(request: Any, timeout: float) -> Any:
            number = getattr(request, "checkpoint_id", "")
            self.story.append(f"{method} {number}".strip())
            self.requests.append(request)
            answer = self.behave(method, request)
            if asyncio.iscoroutine(answer):
                answer = await answer
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                return answer
            is_checkpoint = method.endswith("Checkpoint")
            return taskmanager_pb2.CheckpointAnswer() if is_checkpoint else common_pb2.Ack()

        return call

    async def close(self) -> None:
        self.is_closed = True


class Answers:
    def __init__(self) -> None:
        self.all: list[CallAnswered] = []
        self._changed = asyncio.Condition()

    def __call__(self, answer: CallAnswered) -> None:
        self.all.append(answer)
        self._task = asyncio.ensure_future(self._notify())

    async def of(self, count: int) -> list[CallAnswered]:
        async with asyncio.timeout(LIMIT_S), self._changed:
            await self._changed.wait_for(lambda: len(self.all) >= count)
        return self.all

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@asynccontextmanager
async def outbox_to(peer: Peer) -> AsyncIterator[tuple[TaskManagerOutbox, Answers]]:
    answers = Answers()
    link = Link(peer, peer.close)  # type: ignore[arg-type]
    outbox = TaskManagerOutbox("tm-1", link, "g1", answers, confirm_retry_ms=1)
    outbox.open()
    try:
        yield outbox, answers
    finally:
        await outbox.close()


@pytest.fixture(autouse=True)
def no_waiting_between_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "RETRY_MS", 0)


def trigger(call_id: int, number: int) -> c.TriggerCheckpoint:
    return c.TriggerCheckpoint(call_id, TM, JOB, (A, B), CheckpointId(number), 1, CheckpointOptions("/cp"))


def confirm(call_id: int, number: int) -> c.ConfirmCheckpoint:
    return c.ConfirmCheckpoint(call_id, TM, JOB, (A, B), CheckpointId(number), 1, (B,))


def abort(call_id: int, number: int) -> c.AbortCheckpoint:
    return c.AbortCheckpoint(call_id, TM, JOB, (A, B), CheckpointId(number))


async def test_one_message_names_all_attempts_and_carries_the_generation() -> None:
    peer = Peer()
    async with outbox_to(peer) as (outbox, answers):
        outbox.put(trigger(1, 7))
        outbox.put(confirm(2, 7))
        outbox.put(abort(3, 8))
        assert await answers.of(3) == [CallAnswered(1), CallAnswered(2), CallAnswered(3)]
    assert peer.story == ["TriggerCheckpoint 7", "ConfirmCheckpoint 7", "AbortCheckpoint 8"]
    for request in peer.requests:
        assert (request.generation, list(request.attempts)) == ("g1", [str(A), str(B)])
    assert list(peer.requests[1].may_finish) == [str(B)]


async def test_an_error_of_one_attempt_leaves_the_others() -> None:
    peer = Peer()
    error = ErrorInfo.of(UnknownAttempt("gone"))

    def behave(method: str, request: Any) -> Any:
        return taskmanager_pb2.CheckpointAnswer(attempts={str(A): error_to_pb(error)})

    peer.behave = behave
    async with outbox_to(peer) as (outbox, answers):
        outbox.put(trigger(1, 7))
        assert await answers.of(1) == [CallAnswered(1, None, {A: error})]


async def test_what_cannot_be_delivered_is_given_up_in_order_and_answered() -> None:
    peer = Peer()
    peer.behave = lambda method, request: unavailable() if method == "TriggerCheckpoint" else None
    async with outbox_to(peer) as (outbox, answers):
        outbox.put(trigger(1, 7))
        outbox.put(abort(2, 7))
        first, second = await answers.of(2)
    assert peer.story == ["TriggerCheckpoint 7"] * TRIES + ["AbortCheckpoint 7"]
    assert (first.call_id, first.error.code if first.error else "") == (1, "unreachable")
    assert second == CallAnswered(2)


async def test_a_confirm_is_repeated_and_holds_nothing_up() -> None:
    peer = Peer()
    is_reachable = False

    def behave(method: str, request: Any) -> Any:
        return None if is_reachable or method != "ConfirmCheckpoint" else unavailable()

    peer.behave = behave
    async with outbox_to(peer) as (outbox, answers):
        outbox.put(confirm(1, 7))
        outbox.put(trigger(2, 8))
        assert await answers.of(1) == [CallAnswered(2)]
        is_reachable = True
        assert await answers.of(2) == [CallAnswered(2), CallAnswered(1)]


async def test_a_task_manager_that_is_lost_in_between_answers_nothing_and_gets_nothing_more() -> None:
    peer, has_begun = Peer(), asyncio.Event()

    async def hang() -> None:
        has_begun.set()
        await asyncio.Event().wait()

    peer.behave = lambda method, request: hang()
    async with outbox_to(peer) as (outbox, answers):
        outbox.put(trigger(1, 7))
        outbox.put(confirm(2, 6))
        await asyncio.wait_for(has_begun.wait(), LIMIT_S)
    assert peer.story == ["TriggerCheckpoint 7"]
    assert peer.is_closed
    assert not answers.all


class Metadata:
    """The storage: how often ``_metadata`` was read."""

    def __init__(self, manifest: CheckpointManifest | None) -> None:
        self.reads = 0
        self._manifest = manifest

    def read_manifest(self, location: str) -> CheckpointManifest:
        self.reads += 1
        if self._manifest is None:
            raise StorageError(f"cannot read {location}/_metadata")
        return self._manifest


def submit(call_id: int, attempt: AttemptId) -> c.SubmitTask:
    """It lacks inline state."""
    handle = OperatorStateHandle("l", StateRedistribution.SPLIT, 1, StateHandle(3, "0" * 16))
    restore = TaskRestore(CheckpointId(7), "/cp/chk-7", {OPERATOR: RestoredOperator((), (handle,), ((0, 1),))})
    deployment = TaskDeployment(
        attempt, Generation("g1"), AllocationId("d" * 32), "job", "map", 2, 4, BlobKey("e" * 64), restore=restore
    )
    return c.SubmitTask(call_id, TM, deployment, None)


def manifest() -> CheckpointManifest:
    inline = OperatorStateHandle("l", StateRedistribution.SPLIT, 1, StateHandle(3, "0" * 16, data=b"abc"))
    operator = OperatorState(OPERATOR, "l", "l", 2, 4, {0: OperatorSnapshot((), (inline,))})
    return CheckpointManifest(JOB, "job", CheckpointId(7), 1, SnapshotType.CHECKPOINT, (operator,))


@pytest.mark.parametrize("is_readable", [True, False])
async def test_tasks_that_are_restored_share_one_read_of_metadata(is_readable: bool) -> None:
    peer, storage = Peer(), Metadata(manifest() if is_readable else None)
    pool = Pool(1, "storage")
    inline_state = InlineState(storage, pool)  # type: ignore[arg-type]
    calls = [submit(1, A), submit(2, B)]
    async with outbox_to(peer) as (outbox, answers):
        for call in calls:
            outbox.put(call, inline_state.reading_of(call))
        outbox.put(trigger(3, 8))
        answered = await answers.of(3)
    pool.close()
    assert storage.reads == 1
    assert [answer.call_id for answer in answered] == [1, 2, 3]
    if not is_readable:
        assert [a.error.message for a in answered[:2] if a.error] == ["cannot read /cp/chk-7/_metadata"] * 2
        assert peer.story == ["TriggerCheckpoint 8"]
        return
    assert peer.story == ["SubmitTask", "SubmitTask", "TriggerCheckpoint 8"]
    for request in peer.requests[:2]:
        restored = deployment_from_bytes(request.deployment).restore
        assert restored is not None
        (handle,) = restored.operators[OPERATOR].operator
        assert handle.handle.data == b"abc"
    assert inline_state.readings == 0, "its content is still in memory"


@pytest.mark.parametrize("held_location", ["/cp/chk-7", "/cp/chk-6"])
async def test_the_inline_state_of_the_newest_checkpoint_is_in_memory(held_location: str) -> None:
    peer, storage = Peer(), Metadata(None)
    pool = Pool(1, "storage")
    inline_state = InlineState(storage, pool)  # type: ignore[arg-type]
    inline_state.hold(held_location, manifest())
    call = submit(1, A)
    async with outbox_to(peer) as (outbox, answers):
        outbox.put(call, inline_state.reading_of(call))
        (answer,) = await answers.of(1)
    pool.close()
    if held_location == "/cp/chk-7":
        assert (storage.reads, peer.story, answer.error) == (0, ["SubmitTask"], None)
    else:
        assert (storage.reads, peer.story) == (1, []), "another checkpoint's is of no use"


def test_no_more_inline_state_is_held_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.jobmanager.service.storage.inline_state.HELD_BYTES", 5)
    inline_state = InlineState(Metadata(None), None)  # type: ignore[arg-type]
    other = replace(manifest(), job_id=JobId("9" * 32))
    inline_state.hold("/cp/chk-7", manifest())
    inline_state.hold("/cp/chk-8", manifest())
    assert inline_state.held_bytes == 3, "in the place of the one before"
    inline_state.hold("/cp/other", other)
    assert inline_state.held_bytes == 3, "there is no room"
    inline_state.forget(JOB)
    inline_state.hold("/cp/other", other)
    assert inline_state.held_bytes == 3


@pytest.mark.parametrize("call", [trigger(1, 7), confirm(1, 7)], ids=["a trigger", "a confirm"])
async def test_what_a_task_manager_refuses_that_has_lost_this_jobmanager_is_sent_again(call: Any) -> None:
    """Its connection broke, which is not seen here yet: more often than a call is tried that is not answered."""
    peer = Peer()
    refusal = error_to_pb(ErrorInfo.of(Fenced("not registered with any JobManager")))

    def refuse(method: str, request: Any) -> Any:
        return taskmanager_pb2.CheckpointAnswer(error=refusal) if len(peer.story) < TRIES + 3 else None

    peer.behave = refuse
    async with outbox_to(peer) as (outbox, answers):
        outbox.put(call)
        assert await answers.of(1) == [CallAnswered(1)]
        assert len(peer.story) == TRIES + 3


async def test_nothing_is_sent_or_given_up_while_the_connection_is_broken() -> None:
    peer = Peer()
    peer.behave = lambda method, request: unavailable()
    async with outbox_to(peer) as (outbox, answers):
        outbox.suspend()
        outbox.put(trigger(1, 7))
        outbox.put(trigger(2, 8))
        for _ in range(20):
            await asyncio.sleep(0)
        assert (peer.story, answers.all) == ([], [])
        peer.behave = lambda method, request: None
        outbox.open()
        assert await answers.of(2) == [CallAnswered(1), CallAnswered(2)]
        assert peer.story == ["TriggerCheckpoint 7", "TriggerCheckpoint 8"]
