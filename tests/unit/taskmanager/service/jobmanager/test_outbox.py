"""What waits for the JobManager: order, and which acknowledgements travel together."""

from __future__ import annotations

from tidegate.pb import common_pb2, jobmanager_pb2
from tidegate.taskmanager.service.jobmanager.outbox import ACKNOWLEDGE, BATCH_MAX_BYTES, JobManagerOutbox


def acknowledgement(
    attempt: str, generation: str = "g1", inline: int = 0
) -> jobmanager_pb2.AcknowledgeCheckpointRequest:
    handle = common_pb2.StateHandle(data=b"x" * inline)
    operator = common_pb2.OperatorSnapshot(keyed=[common_pb2.SegmentHandle(handle=handle)])
    snapshot = common_pb2.SubtaskSnapshot(operators={"op": operator})
    one = common_pb2.Acknowledgement(attempt=attempt, checkpoint_id=1, snapshot=snapshot)
    return jobmanager_pb2.AcknowledgeCheckpointRequest(generation=generation, acknowledgements=[one])


def batches(outbox: JobManagerOutbox) -> list[str | list[str]]:
    taken: list[str | list[str]] = []
    while outbox:
        _, request = outbox.take()
        if isinstance(request, jobmanager_pb2.AcknowledgeCheckpointRequest):
            taken.append([one.attempt for one in request.acknowledgements])
        else:
            assert isinstance(request, jobmanager_pb2.DeclineCheckpointRequest | jobmanager_pb2.UpdateTaskStateRequest)
            taken.append(request.attempt)
    return taken


def test_acknowledgements_in_a_row_leave_together_and_nothing_overtakes() -> None:
    outbox = JobManagerOutbox()
    for attempt in ("a", "b", "c"):
        outbox.put(ACKNOWLEDGE, acknowledgement(attempt))
    outbox.put("DeclineCheckpoint", jobmanager_pb2.DeclineCheckpointRequest(attempt="d"))
    outbox.put(ACKNOWLEDGE, acknowledgement("e"))
    outbox.put("UpdateTaskState", jobmanager_pb2.UpdateTaskStateRequest(attempt="a"))
    assert batches(outbox) == [["a", "b", "c"], "d", ["e"], "a"]


def test_what_comes_after_a_message_was_taken_is_in_the_next() -> None:
    outbox = JobManagerOutbox()
    outbox.put(ACKNOWLEDGE, acknowledgement("a"))
    _, first = outbox.take()
    outbox.put(ACKNOWLEDGE, acknowledgement("b"))
    outbox.put(ACKNOWLEDGE, acknowledgement("c"))
    assert isinstance(first, jobmanager_pb2.AcknowledgeCheckpointRequest)
    assert [one.attempt for one in first.acknowledgements] == ["a"]
    assert batches(outbox) == [["b", "c"]]


def test_another_generation_is_another_message() -> None:
    outbox = JobManagerOutbox()
    outbox.put(ACKNOWLEDGE, acknowledgement("a", "g1"))
    outbox.put(ACKNOWLEDGE, acknowledgement("b", "g2"))
    assert batches(outbox) == [["a"], ["b"]]


def test_a_message_takes_no_more_once_it_is_large() -> None:
    outbox = JobManagerOutbox()
    for attempt in "abcde":
        outbox.put(ACKNOWLEDGE, acknowledgement(attempt, inline=BATCH_MAX_BYTES // 2))
    assert batches(outbox) == [["a", "b"], ["c", "d"], ["e"]]


def test_what_was_on_its_way_when_the_connection_broke_is_the_next_again() -> None:
    outbox = JobManagerOutbox()
    outbox.put("UpdateTaskState", jobmanager_pb2.UpdateTaskStateRequest(attempt="a"))
    outbox.put(ACKNOWLEDGE, acknowledgement("b"))
    outbox.take()
    outbox.take_back()
    outbox.take_back()
    assert outbox.unreported() == {"a"}
    assert batches(outbox) == ["a", ["b"]]
    outbox.answered()
    outbox.take_back()
    assert not outbox
