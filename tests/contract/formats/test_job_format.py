"""What pickled programs name of tidegate. The job store keeps programs, and a later version runs them: what is named must stay where it is,
with the fields that it has.

To accept a change: raise ``JOB_FORMAT`` if a program of before cannot run after it, and write the file anew with
`python -m tests.contract.formats.test_job_format`.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidegate.common import Duration, Time, Types, WatermarkStrategy
from tidegate.common.serialization import Encoder
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.aggregates import count
from tidegate.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.wire.versions import JOB_FORMAT

GOLDEN = Path(__file__).with_name("job_format.txt")
SCHEMA = pa.schema([("key", pa.int64()), ("ts", pa.int64())])


class Globals(pickle.Unpickler):
    """Notes what is looked up."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self.found: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if module.startswith("tidegate."):
            self.found.add(f"{module}.{name}: {_fields_of(found)}")
        return found


def _fields_of(found: Any) -> str:
    if is_dataclass(found):
        return ", ".join(field.name for field in fields(found))
    return "a class" if isinstance(found, type) else "a function"


def programs() -> list[bytes]:
    """Those of a job with a source of files and one that is throttled, rows and columns, keys, state, windows and a sink."""
    env = StreamExecutionEnvironment.get_execution_environment()
    source = ThrottledSource(NumberSequenceSource(1, 9), 1.0)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.map(abs, Types.LONG()).filter(bool).key_by(abs, Types.LONG()).reduce(max).print()
    in_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_column("ts")
    rows = numbers.map_batches(_as_rows, SCHEMA).assign_timestamps_and_watermarks(in_order)
    windows = rows.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    windows.agg(count().alias("rows")).select("rows").print()
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(GOLDEN.parent)).build()
    lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "lines")
    lines.sink_to(FileSink.for_row_format("file:///nowhere", Encoder.simple_string_encoder()).build())
    return [bytes(content) for content in env.build("every kind").blobs.values()]


def _as_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def named() -> str:
    found: set[str] = set()
    for content in programs():
        unpickler = Globals(content)
        unpickler.load()
        found |= unpickler.found
    return "".join(f"{line}\n" for line in [f"form {JOB_FORMAT}", *sorted(found)])


def test_programs_name_what_they_named_before() -> None:
    assert named() == GOLDEN.read_text(encoding="utf-8")


if __name__ == "__main__":
    GOLDEN.write_text(named(), encoding="utf-8")
