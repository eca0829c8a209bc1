"""A large keyed state of functions: a value for each key, a map for some; sources wait in the middle while ``--hold`` is there.

Each key comes once in the first half of the rows and once in the second, so that nothing can be emitted for a key after
a restore without what was restored of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.e2e.jobs.large_windows import asked_for
from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.connectors.file_sink import FileSink
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.functions.state import MapStateDescriptor, ValueStateDescriptor

RESULT = ["key", "rows", "total"]
MAPPED = 16
"""Every so many keys have a map besides, which the second row takes the first one's value from."""


class SecondRow(KeyedProcessFunction):
    """Emits how many rows a key had, and their sum, with its second row."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._total: Any = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))
        self._values: Any = runtime_context.get_map_state(MapStateDescriptor("values", Types.LONG(), Types.LONG()))

    def process_element(self, value: Row, ctx: Any) -> Iterator[Row]:
        del ctx
        first = self._total.value()
        if first is None:
            self._total.update(value.value)
            if value.key % MAPPED == 0:
                self._values.put(0, value.value)
            return
        if value.key % MAPPED == 0:
            first = self._values.get(0)
            self._values.clear()
        self._total.clear()
        yield Row(key=value.key, rows=2, total=first + value.value)


def main() -> None:
    source, output = asked_for()
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(500)
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
        .key_by(lambda row: row.key, Types.LONG())
        .process(SecondRow(), Types.ROW_NAMED(RESULT, [Types.LONG()] * 3))
        .name("second row")
        .uid("second row")
        .sink_to(FileSink.for_parquet(output))
    )
    env.execute("large state")


if __name__ == "__main__":
    main()
