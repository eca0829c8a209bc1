"""A job of two vertices with an exchange by key between them, whose subtasks do nothing for a while once they run.

Arguments: parallelism.
"""

from __future__ import annotations

import sys
import time

from tidegate.common import Types, WatermarkStrategy
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.datastream.connectors.number_seq import NumberSequenceSource
from tidegate.datastream.functions import MapFunction

PERIOD_S = 20.0
ENDLESS = 10**12


class Slow(MapFunction):
    def map(self, value: int) -> int:
        time.sleep(PERIOD_S)
        return value


def main(parallelism: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(int(parallelism))
    source = NumberSequenceSource(0, ENDLESS)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    slow = numbers.map(Slow(), Types.LONG())
    slow.key_by(lambda number: number, Types.LONG()).map(lambda number: number, Types.LONG()).filter(
        lambda number: number < 0
    ).print()
    env.execute("starts")


if __name__ == "__main__":
    main(*sys.argv[1:])
