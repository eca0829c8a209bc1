"""Jobs of functions of one record, written once for PyFlink and for tidegate: the first argument is the package to import.

Arguments: package (``tidegate`` or ``pyflink``), case, records, parallelism, output directory, checkpoint interval in ms
(0: off), settings (key=value). Every record counts in what is written, but little is: writing is not what is measured.
Functions note in files beside the output when they were opened: what comes before that is start-up.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any

KEYS = 10_000
SPAN = 1_000_000
"""Event time between two timers of a key, in records."""
END = 2**63 - 2

PACKAGE = sys.argv[1] if len(sys.argv) > 1 else "tidegate"
common: Any = importlib.import_module(f"{PACKAGE}.common")
datastream: Any = importlib.import_module(f"{PACKAGE}.datastream")
functions: Any = importlib.import_module(f"{PACKAGE}.datastream.functions")
assigners: Any = importlib.import_module(f"{PACKAGE}.datastream.window")
state: Any = importlib.import_module(f"{PACKAGE}.datastream.state")
numbers: Any = importlib.import_module(f"{PACKAGE}.datastream.connectors.number_seq")
files: Any = importlib.import_module(f"{PACKAGE}.datastream.connectors.file_system")
Types = common.Types
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def note_open(output: str) -> None:
    with open(f"{output}.opened-{os.getpid()}-{time.time_ns()}", "w") as file:
        file.write(str(time.time()))


class Kept(functions.FilterFunction):  # type: ignore[misc]
    def __init__(self, output: str, predicate: Any) -> None:
        self.output = output
        self.filter = predicate  # type: ignore[method-assign]

    def open(self, runtime_context: Any) -> None:
        note_open(self.output)

    def filter(self, value: Any) -> bool:
        """Replaced by the predicate: no call between it and the operator."""
        raise AssertionError


class Number(common.watermark_strategy.TimestampAssigner):  # type: ignore[misc]
    """Event time is the number itself."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value)


class CountAndRemind(functions.KeyedProcessFunction):  # type: ignore[misc]
    """Counts the records of each key, and is reminded of it every ``SPAN`` and at the end."""

    def __init__(self, output: str) -> None:
        self.output = output

    def open(self, runtime_context: Any) -> None:
        note_open(self.output)
        self.count = runtime_context.get_state(state.ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> None:
        count = self.count.value() or 0
        self.count.update(count + value[1])
        timers = ctx.timer_service()
        timers.register_event_time_timer((ctx.timestamp() // SPAN + 1) * SPAN - 1)
        if not count:
            timers.register_event_time_timer(END)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp == END:
            yield ctx.get_current_key(), self.count.value()
        else:
            yield ctx.get_current_key(), -timestamp


def map_case(stream: Any, output: str) -> Any:
    """One function: of a number, a pair. Nothing behind it but a filter that drops nearly all."""
    pairs = stream.map(lambda number: (number % KEYS, number & 1023), output_type=PAIR)
    return pairs.filter(Kept(output, lambda pair: pair[0] == pair[1] == 7))


def chain_case(stream: Any, output: str) -> Any:
    """map, filter, flat_map, map, filter in one chain."""
    pairs = stream.map(lambda number: (number % KEYS, number & 1023), output_type=PAIR)
    halved = pairs.filter(lambda pair: pair[1] & 1 == 0)
    doubled = halved.flat_map(lambda pair: [pair, (pair[1], pair[0])], output_type=PAIR)
    summed = doubled.map(lambda pair: (pair[0] + 1, pair[1] - pair[0]), output_type=PAIR)
    return summed.filter(Kept(output, lambda pair: pair[0] == 8 and pair[1] < 100))


def reduce_case(stream: Any, output: str) -> Any:
    """Records by key: emits how many there were so far, of which every hundredth is kept."""
    ones = stream.map(lambda number: (number % KEYS, 1), output_type=PAIR)
    counted = ones.key_by(lambda pair: pair[0], key_type=Types.LONG()).reduce(lambda a, b: (a[0], a[1] + b[1]))
    return counted.filter(Kept(output, lambda pair: pair[1] % 100 == 0))


def process_case(stream: Any, output: str) -> Any:
    """State and timers by key."""
    ones = stream.map(lambda number: (number % KEYS, 1), output_type=PAIR)
    return ones.key_by(lambda pair: pair[0], key_type=Types.LONG()).process(CountAndRemind(output), output_type=PAIR)


def window_case(stream: Any, output: str) -> Any:
    """Records of each key in tumbling windows of event time; every hundredth result is kept."""
    ones = stream.map(lambda number: (number % KEYS, 1), output_type=PAIR)
    windows = ones.key_by(lambda pair: pair[0], key_type=Types.LONG()).window(
        assigners.TumblingEventTimeWindows.of(common.Time.milliseconds(SPAN))
    )
    counted = windows.reduce(lambda a, b: (a[0], a[1] + b[1]))
    return counted.filter(Kept(output, lambda pair: pair[0] % 100 == 0))


CASES = {"map": map_case, "chain": chain_case, "reduce": reduce_case, "process": process_case, "window": window_case}


def main(case: str, records: int, parallelism: int, output: str, interval_ms: int, settings: list[str]) -> None:
    env = datastream.StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    if settings:
        configuration = common.Configuration()
        for setting in settings:
            key, _, value = setting.partition("=")
            configuration.set_string(key, value)
        env.configure(configuration)
    if interval_ms:
        env.enable_checkpointing(interval_ms)
    strategy = common.WatermarkStrategy.for_monotonous_timestamps()
    source = numbers.NumberSequenceSource(0, records - 1)
    stream = env.from_source(source, common.WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    if case in ("process", "window"):
        stream = stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Number()))
    texts = CASES[case](stream, output).map(str, output_type=Types.STRING())
    encoder = common.Encoder.simple_string_encoder()
    texts.sink_to(files.FileSink.for_row_format(output, encoder).build())
    result = env.execute_async(f"records: {case}") if PACKAGE == "pyflink" else env.execute(f"records: {case}")
    if PACKAGE == "pyflink":
        print("JOB", result.get_job_id())


if __name__ == "__main__":
    main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], int(sys.argv[6]), sys.argv[7:])
