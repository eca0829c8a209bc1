"""Sensors that fall silent, and those that come back: timers of event time, and a side output.

    python examples/gallery/sensors_down.py

    readings ─▶ by sensor ─▶ silent for five minutes? ─▶ outages, when they are over ─▶ Parquet
                                     └─ side output ───▶ alarms, at once ─▶ JSON

The alarm is raised by a timer, so it needs no reading to come.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import KeyedProcessFunction, OutputTag, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor

SENSORS, MINUTES, START_MS, MINUTE_MS = 500, 240, 1_767_571_200_000, 60_000
SILENT_MS = 5 * MINUTE_MS
ALARM = OutputTag("alarms", Types.ROW_NAMED(["sensor", "since_ms"], [Types.LONG(), Types.LONG()]))
OUTAGE = Types.ROW_NAMED(["sensor", "from_ms", "to_ms"], [Types.LONG(), Types.LONG(), Types.LONG()])


class Watchdog(KeyedProcessFunction):
    """Remembers when a sensor was heard last, and whether there was an alarm since."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))
        self.is_down = runtime_context.get_state(ValueStateDescriptor("down", Types.BOOLEAN()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row | tuple[OutputTag, Row]]:
        at, last = ctx.timestamp(), self.last.value()
        assert at is not None, "the watermark strategy gives each reading its time"
        if last is not None:
            if at > last + SILENT_MS:
                if not self.is_down.value():  # this reading is here before the watermark
                    yield ALARM, Row(value["sensor"], last)
                yield Row(value["sensor"], last, at)
            ctx.timer_service().delete_event_time_timer(last + SILENT_MS)
        self.is_down.clear()
        self.last.update(at)
        ctx.timer_service().register_event_time_timer(at + SILENT_MS)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[tuple[OutputTag, Row]]:
        self.is_down.update(True)
        yield ALARM, Row(ctx.get_current_key(), timestamp - SILENT_MS)


def write_input(directory: Path) -> None:
    """Four hours of readings, one a minute of each sensor, without those of the times when it is broken."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(47)
    works = np.ones((MINUTES, SENSORS), bool)
    for sensor, begin, minutes in rng.integers([0, 1, 2], [SENSORS, MINUTES, 20], (600, 3)):
        works[begin : begin + minutes, sensor] = False
    minute, sensor = np.nonzero(works)
    at = START_MS + minute * MINUTE_MS + sensor * (MINUTE_MS // SENSORS)
    times = pa.array(at).cast(pa.timestamp("ms", "UTC"))
    table = pa.table({"sensor": sensor, "celsius": rng.normal(20, 3, len(at)), "at": times})
    pq.write_table(table, directory / "readings.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description="sensors that fall silent")
    parser.add_argument("--directory", type=Path, default=Path("out/gallery/sensors_down"), help="of input and output")
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the readings down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    measured = ThrottledSource(FileSource.for_parquet(str(directory / "readings.parquet")), arguments.rows_per_second)
    readings = env.from_source(measured, in_order, "readings").set_parallelism(1).key_by("sensor")
    outages = readings.process(Watchdog(), OUTAGE).name("watchdog").uid("watchdog")
    outages.sink_to(FileSink.for_parquet(str(directory / "outages"))).name("outages").uid("outages")
    alarms = outages.get_side_output(ALARM)
    alarms.sink_to(FileSink.for_json_lines(str(directory / "alarms"))).name("alarms").uid("alarms")
    env.execute("sensors down")


if __name__ == "__main__":
    main()
