"""What was in hand when a function failed that has no single record: timers, batches, sinks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.functions.time_domain import TimeDomain
from tidegate.model.errors import StorageError, blame
from tidegate.model.options import ShownRecord
from tidegate.records.batch import ArrowBatch, Batch, RecordsBatch
from tidegate.taskmanager.keyed_state.timers import Timer
from tidegate.taskmanager.operators.user_code.boundary import batch_error, timer_error
from tidegate.taskmanager.runtime.failures import failure_info

ERROR = "operator 'x': ValueError: no"


def message(raised: BaseException, shown: ShownRecord = ShownRecord.VALUE) -> str:
    return failure_info(raised, "x (1/1)#0", shown).message.removeprefix(ERROR)


@pytest.mark.parametrize(
    ("domain", "namespace", "words"),
    [
        (TimeDomain.EVENT_TIME, None, "; it was called for a timer at 1000 in event time, with the key {}"),
        (
            TimeDomain.PROCESSING_TIME,
            (0, 5),
            "; it was called for a timer of a window at 1000 in processing time, with the key {}",
        ),
    ],
)
def test_a_timer_is_named_by_its_key_and_its_time(domain: TimeDomain, namespace: object, words: str) -> None:
    timer = Timer(1_000, "ann {}", 3, namespace)
    raised = timer_error("x", ValueError("no"), timer, domain)
    assert message(raised) == words.format("'ann {}'")
    assert message(raised, ShownRecord.SHAPE) == words.format("str")
    assert message(raised, ShownRecord.NONE) == ""


@pytest.mark.parametrize(
    "batch", [RecordsBatch([1, 2, 3]), ArrowBatch(pa.record_batch({"n": [1, 2, 3]}))], ids=["records", "columns"]
)
def test_a_batch_is_named_by_its_length_and_its_ends(batch: Batch) -> None:
    first, last = ("1", "3") if isinstance(batch, RecordsBatch) else ("{'n': 1}", "{'n': 3}")
    raised = batch_error("x", ValueError("no"), batch)
    assert message(raised) == f"; it was given 3 records together, the first {first}, the last {last}"
    alone = RecordsBatch(batch.values[:1]) if isinstance(batch, RecordsBatch) else ArrowBatch(batch.data.slice(0, 1))
    assert message(batch_error("x", ValueError("no"), alone)) == f"; the input record was {first}"


def test_the_record_that_a_sink_was_at_is_named_alone() -> None:
    error = ValueError("no")
    blame(error, 2)
    assert message(batch_error("x", error, RecordsBatch([1, 2, 3]))) == "; the input record was 2"


def test_our_own_errors_stay_as_they_are() -> None:
    error = StorageError("full")
    assert batch_error("x", error, RecordsBatch([1, 2])) is error
    assert timer_error("x", error, Timer(1, "k", 0, None), TimeDomain.EVENT_TIME) is error


def test_an_empty_batch_names_nothing() -> None:
    assert message(batch_error("x", ValueError("no"), RecordsBatch([]))) == ""
