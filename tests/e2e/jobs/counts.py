"""The job that is killed: two sources, a count and a sum per key and event-time window, files written exactly once.

    fast source ─▶ trace ─┐                            (records) KeyedProcessFunction, or
                          ├─ union ══ by key ══▶ windows (columns) agg              ─▶ trace ─▶ FileSink (Parquet)
    slow source ─▶ trace ─┘

``slow`` holds every barrier back (its chain pauses), so that alignment waits. Each row is counted in one window, so a row that
is lost or counted twice shows in the result, and a window that is emitted twice does too. ``trace`` tells, in files that
outlive ``kill -9``, which process saw which rows; and it carries the planned kills and the planted bug into the subtasks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.common import Duration, Row, Time, Types, WatermarkStrategy
from tidegate.connectors.base import Polled, ReaderContext, Source, SourceReader
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.file_source import FileSource
from tidegate.connectors.number_sequence import DataGeneratorSource
from tidegate.connectors.throttle import ThrottledReader, ThrottledSource
from tidegate.datastream import KeyedProcessFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.aggregates import count, sum
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.state import ValueStateDescriptor
from tidegate.records.batch import ArrowBatch

KEYS = 97
WINDOW_MS = 1_000
SPAN_MS = 40_000
"""Event time that every split covers, whatever its number of rows."""
SCHEMA = pa.schema([("row", pa.int64()), ("ts", pa.int64()), ("key", pa.int64()), ("value", pa.int64())])
RESULT = ["window_start", "key", "rows", "total"]
SLOW_PAUSE_S = 0.15
SLOW_ROWS_PER_SECOND = 5
"""Of each subtask, so that it keeps up in spite of its pause at every row."""
_SEEN = "<qqdd"


@dataclass(frozen=True)
class Rows:
    """Rows of one source, made from their numbers alone. ``first_row`` keeps the rows of two sources apart."""

    first_row: int
    rows: int
    splits: int

    def __call__(self, first: int, rows: int) -> pa.RecordBatch:
        number = np.arange(first, first + rows, dtype=np.int64)
        per_split = max(1, self.rows // self.splits)
        ts = (number % per_split) * SPAN_MS // per_split
        row = number + self.first_row
        return pa.record_batch([row, ts, row * 7919 % KEYS, row % 1000], schema=SCHEMA)


@dataclass
class Trace:
    """Passes batches on and notes the rows that this process saw. ``role`` is part of the file's name."""

    directory: str
    role: str
    pause_s: float = 0.0
    kills: list[dict[str, Any]] = field(default_factory=list)
    """What to kill, one after the other: {point, role, victim: subtask | taskmanager}. See ``Hooks``."""
    plant: str = ""

    def __setstate__(self, state: dict[str, Any]) -> None:
        """In the subtask's process, before the subtask is made."""
        self.__dict__.update(state)
        self._file: Any = None
        if "tidegate.taskmanager.spark.worker" in sys.modules:
            _install(self)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_rows:
            self._note(batch)
        if self.pause_s:
            threading.Event().wait(self.pause_s)
        return batch

    def _note(self, batch: pa.RecordBatch) -> None:
        first, last, now = batch.column(0)[0].as_py(), batch.column(0)[-1].as_py(), time.time()
        if self._file is None:
            begun = Path(self.directory) / f"{self.role}-{os.getpid()}.begun"
            self._file = os.open(begun, os.O_CREAT | os.O_RDWR, 0o644)
            os.pwrite(self._file, struct.pack(_SEEN, first, last, now, now), 0)
            begun.rename(begun.with_suffix(".seen"))  # a reader never finds half of it
        os.pwrite(self._file, struct.pack(_SEEN, first, last, now, now)[8:16], 8)
        os.pwrite(self._file, struct.pack("<d", now), 24)


@dataclass(frozen=True)
class Seen:
    """What one process saw of one source: row numbers, and when (Unix seconds)."""

    role: str
    pid: int
    first_row: int
    last_row: int
    first_at: float
    last_at: float


def read_trace(directory: Path) -> list[Seen]:
    """In the order in which the processes began."""
    found = []
    for file in directory.glob("*.seen"):
        role, pid = file.stem.rsplit("-", 1)
        found.append(Seen(role, int(pid), *struct.unpack(_SEEN, file.read_bytes())))
    return sorted(found, key=lambda seen: seen.first_at)


def _install(trace: Trace) -> None:
    """Put the probe, and the planted bug, into this subtask's process."""
    construction: Any = sys.modules["tidegate.taskmanager.runtime.construction"]
    worker: Any = sys.modules["tidegate.taskmanager.spark.worker"]
    if trace.kills:
        run = worker.SubtaskRun

        def probed(deployment: Any, program: Any, mailbox: Any, port: Any, environment: Any) -> Any:
            return run(deployment, program, mailbox, port, replace(environment, probe=Hooks(trace)))

        worker.SubtaskRun = probed
    if trace.plant == "no-alignment":
        construction.ExactlyOnceBarrierHandler = construction.TrackingHandler


class Hooks:
    """Carries out the planned kills: kill i at the first time that its point is reached after kill i - 1 was recovered from
    (two more checkpoints). ``<directory>/killed-<i>`` says that it was."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __call__(self, point: str, told: dict[str, Any]) -> None:
        directory = Path(self._trace.directory)
        done = sorted(directory.glob("killed-*"))
        if len(done) >= len(self._trace.kills):
            return
        plan = self._trace.kills[len(done)]
        after = json.loads(done[-1].read_text())["checkpoint_id"] if done else 0
        checkpoint_id = told.get("checkpoint_id", 0)
        if plan["point"] != point or plan["role"] != self._trace.role or checkpoint_id < after + 3:
            return
        note = {**plan, "checkpoint_id": checkpoint_id, "pid": os.getpid(), "at": time.time()}
        mine = directory / f".killing-{len(done)}-{os.getpid()}"
        mine.write_text(json.dumps(note))
        try:
            os.link(mine, directory / f"killed-{len(done)}")
        except FileExistsError:
            return
        finally:
            mine.unlink()
        if plan["victim"] == "taskmanager":
            os.kill(_task_manager_pid(), signal.SIGKILL)
            threading.Event().wait()  # until this process goes too, as it must
        os.kill(os.getpid(), signal.SIGKILL)


def _task_manager_pid() -> int:
    import psutil

    for parent in psutil.Process().parents():
        with contextlib.suppress(psutil.Error):
            if "taskmanager" in parent.cmdline() and "java" not in parent.name():
                return parent.pid
    raise AssertionError("no TaskManager among the parents of this process")


class HeldSource(ThrottledSource):
    """Waits in the middle of each split while the file ``hold`` is there: the job goes on, and does not end before a test has seen what it waits for,
    however long a machine takes for that."""

    def __init__(self, source: Source, rate: float, hold: str) -> None:
        super().__init__(source, rate)
        self._hold = hold

    def make_reader(self, context: ReaderContext) -> SourceReader:
        return HeldReader(self.inner.make_reader(context), self._rate, self._hold)


class HeldReader(ThrottledReader):
    def __init__(self, inner: SourceReader, rate: float, hold: str) -> None:
        super().__init__(inner, rate)
        self._hold = hold
        self._kept: Polled | None = None

    def poll(self) -> Polled | None:
        self._kept = self._kept or super().poll()
        if self._kept is None or (self._is_late(self._kept) and os.path.exists(self._hold)):
            return None
        polled, self._kept = self._kept, None
        return polled

    def is_finished(self) -> bool:
        return self._kept is None and super().is_finished()

    def _is_late(self, polled: Polled) -> bool:
        """Its event time, which goes from 0 to the end of the span in every split, is in the second half."""
        assert isinstance(polled.batch, ArrowBatch)
        return bool(polled.batch.data.column("ts")[-1].as_py() >= SPAN_MS // 2)


class CountInWindows(KeyedProcessFunction):
    """Rows and total per key and window, in keyed state, emitted by event-time timers."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._open: Any = runtime_context.get_state(ValueStateDescriptor("open windows", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: Row, ctx: Any) -> None:
        windows = self._open.value() or {}
        start = value.ts - value.ts % WINDOW_MS
        rows, total = windows.get(start, (0, 0))
        self._open.update({**windows, start: (rows + 1, total + value.value)})
        ctx.timer_service().register_event_time_timer(start + WINDOW_MS - 1)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Row]:
        windows = dict(self._open.value())
        start = timestamp + 1 - WINDOW_MS
        rows, total = windows.pop(start)
        self._open.update(windows)
        yield Row(start, ctx.get_current_key(), rows, total)


def sources(arguments: argparse.Namespace) -> tuple[Rows, Rows]:
    fast = Rows(0, arguments.rows, arguments.splits)
    slow = Rows(arguments.rows, int(SLOW_ROWS_PER_SECOND * arguments.seconds) * arguments.splits, arguments.splits)
    return fast, slow


def write_input(path: Path, rows: Rows) -> None:
    """The rows as Parquet, one file for each split."""
    import pyarrow.parquet as pq

    path.mkdir(parents=True, exist_ok=True)
    per_split = rows.rows // rows.splits
    for split in range(rows.splits):
        batch = rows(split * per_split, per_split)
        pq.write_table(pa.Table.from_batches([batch]), path / f"{split}.parquet", row_group_size=per_split)


def expected(fast: Rows, slow: Rows) -> list[tuple[int, ...]]:
    """The right result, by pyarrow, sorted."""
    table = pa.Table.from_batches([fast(0, fast.rows), slow(0, slow.rows)])
    start = pa.array(table["ts"].to_numpy() // WINDOW_MS * WINDOW_MS)
    table = table.append_column("window_start", start)
    sums = table.group_by(["window_start", "key"]).aggregate([("row", "count"), ("value", "sum")])
    columns = [sums[name].to_pylist() for name in ("window_start", "key", "row_count", "value_sum")]
    return sorted(zip(*columns, strict=True))


def build(env: StreamExecutionEnvironment, arguments: argparse.Namespace) -> None:
    fast, slow = sources(arguments)
    kills = json.loads(arguments.kills)
    in_order = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(arguments.disorder))
    in_order = in_order.with_timestamp_column("ts")

    def trace(role: str, pause_s: float = 0.0) -> Trace:
        return Trace(arguments.trace, role, pause_s, kills, arguments.plant)

    def stream(name: str, rows: Rows, pause_s: float) -> Any:
        rate = rows.rows / arguments.splits / arguments.seconds
        if arguments.input == "spark":
            path = str(Path(arguments.data) / name)
            made = env.from_spark(lambda spark: spark.read.parquet(path), in_order, name)
            paced = made.uid(name).map(Paced(rate), Types.SCHEMA(SCHEMA))
            traced = paced.map_batches(trace(name, pause_s), SCHEMA)
        else:
            inner = _source(arguments, name, rows)
            throttled = HeldSource(inner, rate, arguments.hold) if arguments.hold else ThrottledSource(inner, rate)
            made = env.from_source(throttled, in_order, name)
            traced = made.uid(name).map_batches(trace(name, pause_s), SCHEMA)
        return traced.name("trace")

    rows = stream("fast", fast, 0.0).union(stream("slow", slow, arguments.slow_pause))
    if arguments.style == "columns":
        windows = rows.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW_MS)))
        counted = windows.agg(count().alias("rows"), sum("value").alias("total")).uid("count").select(*RESULT)
    else:
        result = Types.ROW_NAMED(RESULT, [Types.LONG()] * 4)
        counted = rows.key_by(lambda row: row.key, Types.LONG()).process(CountInWindows(), result).uid("count")
    result_schema = pa.schema([(name, pa.int64()) for name in RESULT])
    counted.map_batches(trace("count"), result_schema).sink_to(FileSink.for_parquet(arguments.output)).uid("sink")


class Paced(MapFunction):
    """At most ``rate`` rows a second, for a source that ``ThrottledSource`` does not fit. Row by row, so that barriers need
    not wait for a whole batch."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free_at = 0.0

    def map(self, value: Any) -> Any:
        now = time.monotonic()
        if self._free_at > now:
            threading.Event().wait(self._free_at - now)
        self._free_at = max(now, self._free_at) + 1 / self._rate
        return value


def _source(arguments: argparse.Namespace, name: str, rows: Rows) -> Source:
    if arguments.input == "parquet":
        return FileSource.for_parquet(str(Path(arguments.data) / name), schema=SCHEMA)
    return DataGeneratorSource(rows, rows.rows, schema=SCHEMA, batch_rows=4096)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    made.add_argument("--output", required=True)
    made.add_argument("--trace", required=True)
    made.add_argument("--input", choices=["numbers", "parquet", "spark"], default="numbers")
    made.add_argument("--data", default="", help="directory of the Parquet input")
    made.add_argument("--style", choices=["records", "columns"], default="records")
    made.add_argument("--rows", type=int, default=100_000, help="of the fast source")
    made.add_argument("--splits", type=int, default=2)
    made.add_argument("--seconds", type=float, default=10, help="how long the sources take")
    made.add_argument("--disorder", type=int, default=0, help="ms; splits that one subtask reads in turn need SPAN_MS")
    made.add_argument("--slow-pause", type=float, default=SLOW_PAUSE_S)
    made.add_argument("--interval", type=int, default=500)
    made.add_argument("--hold", default="", help="a file: while it is there, sources wait in the middle")
    made.add_argument("--kills", default="[]", help="JSON")
    made.add_argument("--plant", default="")
    return made


def main() -> None:
    arguments = parser().parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(arguments.interval)
    build(env, arguments)
    env.execute("counts")


if __name__ == "__main__":
    main()
