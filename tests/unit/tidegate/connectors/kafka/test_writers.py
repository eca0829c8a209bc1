"""What the exactly-once writer gathers until the barrier, and in what form it votes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from tidegate.common.typeinfo import Types
from tidegate.connectors.base import SinkContext
from tidegate.connectors.formats.messages import ByteArraySchema, FunctionSerializationSchema
from tidegate.connectors.kafka import writers
from tidegate.connectors.kafka.publisher import Epoch
from tidegate.connectors.kafka.records import KafkaRecordSerializationSchema, check_sizes, from_bytes, messages
from tidegate.connectors.kafka.sending import message_limit
from tidegate.model.errors import UserError
from tidegate.records.batch import ArrowBatch

BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
CONTEXT = SinkContext(subtask_index=1, parallelism=2, job_id="j", attempt="a", operator_id="o")


def writer(schema: Any = None, **properties: str) -> writers.EpochWriter:
    builder = KafkaRecordSerializationSchema.builder().set_topic("out")
    made = builder.set_value_serialization_schema(schema or ByteArraySchema()).build()

    def check(records: pa.RecordBatch, first: int) -> None:
        check_sizes(records, message_limit(properties))

    return writers.EpochWriter(made, BYTES, CONTEXT, check, "prefix", "markers", lambda: 7.0)


def batch(values: Sequence[bytes], stamps: Sequence[int] | None = None) -> ArrowBatch:
    data = pa.record_batch([pa.array(values, pa.binary())], schema=BYTES.arrow_schema())
    return ArrowBatch(data, None if stamps is None else pa.array(stamps, pa.int64()))


def published(sealed: list[Any] | Callable[[], list[Any]]) -> list[tuple[bytes | None, int]]:
    """(value, timestamp) of each record of an epoch."""
    (committable,) = sealed() if callable(sealed) else sealed
    batches = from_bytes(Epoch.of(committable).records)
    return [(value, stamp) for records in batches for value, _, stamp, *_ in messages(records)]


def test_batches_that_trickle_in_are_one_epoch_in_their_order() -> None:
    made = writer()
    for n in range(0, 3 * writers.GATHERED_ROWS, 3):
        made.write(batch([b"%d" % (n + i) for i in range(3)]))
    assert published(made.seal(1)) == [(b"%d" % n, 0) for n in range(3 * writers.GATHERED_ROWS)]
    assert made.seal(2) == []


def test_records_with_and_without_a_time_keep_their_order() -> None:
    made = writer()
    made.write(batch([b"a"]))
    made.write(batch([b"b"], [5]))
    made.write(batch([b"c"], [6]))
    made.write(batch([b"d"]))
    assert published(made.seal(1)) == [(b"a", 0), (b"b", 5), (b"c", 6), (b"d", 0)]


def test_batches_are_serialized_together() -> None:
    """Each record once, and none before there are enough of them, or the barrier comes."""
    seen: list[int] = []

    def serialized(record: bytes) -> bytes:
        seen.append(int(record))
        return record

    made = writer(FunctionSerializationSchema(serialized))
    for n in range(writers.GATHERED_ROWS - 1):
        made.write(batch([b"%d" % n]))
    assert not seen
    made.write(batch([b"%d" % (writers.GATHERED_ROWS - 1)]))
    assert seen == list(range(writers.GATHERED_ROWS))
    made.write(batch([b"7777"]))
    made.flush(end_of_input=False)
    assert seen[-1] == 7777
    made.seal(1)
    assert len(seen) == writers.GATHERED_ROWS + 1


def test_a_record_that_is_too_large_fails_before_anybody_votes() -> None:
    made = writer(**{"message.max.bytes": "1000"})
    made.write(batch([b"x" * 2000]))
    with pytest.raises(UserError, match="'out' takes 2200 bytes; the limit is 1000"):
        made.flush(end_of_input=False)


def test_a_small_epoch_is_packed_at_the_barrier_and_a_large_one_behind_it() -> None:
    made = writer()
    made.write(batch([b"x" * 100] * 10))
    assert isinstance(made.seal(1), list)
    made.write(batch([b"x" * writers.SMALL_BYTES]))
    assert callable(made.seal(2))


def test_a_large_epoch_is_cut_off_at_the_barrier() -> None:
    made = writer()
    made.write(batch([b"x" * writers.SMALL_BYTES]))
    rest = made.seal(1)
    made.write(batch([b"later"]))
    assert published(rest) == [(b"x" * writers.SMALL_BYTES, 0)]
    assert published(made.seal(2)) == [(b"later", 0)]
