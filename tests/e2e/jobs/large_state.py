"""State of more than the JobManager's memory takes: ``large_state.py <output>`` remembers 8 MiB, slowly enough for some checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor

KEYS, EACH_BYTES, PER_SECOND = 2_000, 4_096, 1_000


class Remembers(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._text = runtime_context.get_state(ValueStateDescriptor("text", Types.STRING()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[str]:
        self._text.update(f"{value:0{EACH_BYTES}}")
        yield str(value)


env = StreamExecutionEnvironment.get_execution_environment()
env.enable_checkpointing(200)
source = ThrottledSource(NumberSequenceSource(1, KEYS), PER_SECOND)
numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
keyed = numbers.key_by(lambda number: number, Types.LONG()).process(Remembers(), Types.STRING())
keyed.sink_to(FileSink.for_text(sys.argv[1]))
env.execute("large state")
