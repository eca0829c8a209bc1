"""A column whose nanoseconds Spark cannot keep is reported once, and no other column is."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from tidegate.connectors.spark.nanoseconds import DroppedNanoseconds
from tidegate.connectors.spark.sink import _Waiting, _Writer
from tidegate.records.batch import ArrowBatch

NS = pa.timestamp("ns", "UTC")
KINDS: dict[str, tuple[pa.DataType, object, object]] = {
    "at": (NS, 1_000, 1_001),
    "local": (pa.timestamp("ns"), -2_000, -1),
    "time": (pa.time64("ns"), 3_000, 3_500),
    "duration": (pa.duration("ns"), 0, 7),
    "list": (pa.list_(NS), [1_000, None], [1_000, 1]),
    "struct": (pa.struct([("n", pa.int64()), ("at", NS)]), {"n": 1, "at": 1_000}, {"n": 1, "at": 1}),
    "map": (pa.map_(pa.string(), NS), [("a", 1_000)], [("a", 1_000), ("b", 1)]),
}


def batch(name: str, *values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, KINDS[name][0])], names=[name])


@pytest.mark.parametrize("name", KINDS)
def test_a_column_that_loses_nanoseconds_is_reported_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    _, kept, lost = KINDS[name]
    looked = DroppedNanoseconds(batch(name, kept).schema)
    looked.look(batch(name, kept, None))
    assert not caplog.records
    looked.look(batch(name, kept, None, lost))
    looked.look(batch(name, lost))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"column {name!r} has nanoseconds" in record.getMessage()


def test_the_writer_of_to_spark_looks(caplog: pytest.LogCaptureFixture) -> None:
    writer = _Writer(_Waiting(), "app", batch("at").schema)
    writer.write(ArrowBatch(batch("at", 1)))
    assert "to_spark: column 'at' has nanoseconds" in caplog.text
    caplog.clear()
    plain = pa.RecordBatch.from_pydict({"at": pa.array([1], pa.timestamp("us"))})
    _Writer(_Waiting(), "app", plain.schema).write(ArrowBatch(plain))
    assert not caplog.records
