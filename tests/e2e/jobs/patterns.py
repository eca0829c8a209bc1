"""Numbers as events of seven keys, 10 ms of event time apart, and a pattern in them.

    numbers ─▶ by the rest of 7 ─▶ first of five, followed by the fourth of ten, within 300 ms ─▶ matches and what timed out ─▶ file sink

Of two starts one is followed in time; the other times out.
"""

from __future__ import annotations

import argparse
from typing import Any

from tidegate.cep import CEP, Pattern
from tidegate.common import Time, Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import OutputTag, StreamExecutionEnvironment

KEYS, STEP_MS, WITHIN_MS = 7, 10, 300


def is_start(number: int) -> bool:
    return number // KEYS % 5 == 0


def is_end(number: int) -> bool:
    return number // KEYS % 10 == 3


def matched(match: dict[str, list[Any]]) -> str:
    return f"{match['start'][0]} {match['end'][0]}"


def timed_out(match: dict[str, list[Any]], at_ms: int) -> str:
    return f"{match['start'][0]} timed out at {at_ms}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--output", required=True)
    arguments = parser.parse_args()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(200)
    source = ThrottledSource(NumberSequenceSource(0, arguments.rows - 1), arguments.rate)
    times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda number, _: number * STEP_MS)
    numbers = env.from_source(source, times, "numbers").uid("numbers").set_parallelism(1)
    pattern = (
        Pattern.begin("start").where(is_start).followed_by("end").where(is_end).within(Time.milliseconds(WITHIN_MS))
    )
    late = OutputTag("timed out", Types.STRING())
    found = CEP.pattern(numbers.key_by(lambda number: number % KEYS, Types.LONG()), pattern).select(
        matched, Types.STRING(), timed_out_partial_matches_tag=late, pattern_timeout_function=timed_out
    )
    found.name("pattern").uid("pattern").set_parallelism(2)
    lines = found.union(found.get_side_output(late))
    lines.sink_to(FileSink.for_text(arguments.output)).uid("sink").set_parallelism(2)
    env.execute("patterns")


if __name__ == "__main__":
    main()
