from typing import Iterable, Tuple

from pyflink.common import Time, Types
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import AggregateFunction, ProcessAllWindowFunction, ProcessWindowFunction
from pyflink.datastream.window import (
    CountWindow,
    EventTimeSessionWindows,
    PurgingTrigger,
    CountTrigger,
    GlobalWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

READINGS = [
    ("a", 3, 1000),
    ("b", 7, 2500),
    ("a", 5, 4999),
    ("a", 2, 5000),
    ("b", 1, 11000),
    ("a", 9, 12500),
    ("b", 4, 12900),
]


class ReadingTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return int(value[2])


class Average(AggregateFunction):
    def create_accumulator(self) -> Tuple[int, int]:
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class WithBounds(ProcessWindowFunction[float, tuple, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[float]):
        window = context.window()
        for element in elements:
            yield key, window.start, window.end, element

    def clear(self, context: ProcessWindowFunction.Context):
        pass


class Listing(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [(key, context.window().start, context.window().end, float(len(list(elements))))]


class Total(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().max_timestamp(), sum(element[1] for element in elements)


class GapOfReading(SessionWindowTimeGapExtractor):
    def extract(self, element) -> int:
        return element[1] * 1000


class CountWindowSum(ProcessWindowFunction[tuple, tuple, str, CountWindow]):
    def process(self, key, context, elements):
        return [(key, sum(element[1] for element in elements))]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
reading = Types.TUPLE([Types.STRING(), Types.INT(), Types.LONG()])
bounds = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.DOUBLE()])
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ReadingTime())
readings = env.from_collection(READINGS, type_info=reading).assign_timestamps_and_watermarks(strategy)
by_name = readings.key_by(lambda r: r[0], key_type=Types.STRING())

by_name.window(TumblingEventTimeWindows.of(Time.seconds(5))).reduce(
    lambda a, b: (a[0], a[1] + b[1], max(a[2], b[2]))
).print("reduce")
by_name.window(TumblingEventTimeWindows.of(Time.seconds(5), Time.seconds(1))).aggregate(
    Average(),
    window_function=WithBounds(),
    accumulator_type=Types.TUPLE([Types.INT(), Types.INT()]),
    output_type=bounds,
).print("tumbling with offset")
by_name.window(SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))).process(Listing(), bounds).print(
    "sliding"
)
by_name.window(EventTimeSessionWindows.with_gap(Time.seconds(3))).aggregate(
    Average(), output_type=Types.DOUBLE()
).print("session")
by_name.window(EventTimeSessionWindows.with_dynamic_gap(GapOfReading())).process(Listing(), bounds).print("dynamic")
by_name.count_window(2).process(CountWindowSum(), Types.TUPLE([Types.STRING(), Types.INT()])).print("count")
by_name.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(3))).reduce(
    lambda a, b: (a[0], a[1] + b[1], b[2])
).print("global")
readings.window_all(TumblingEventTimeWindows.of(Time.seconds(10))).process(
    Total(), Types.TUPLE([Types.LONG(), Types.INT()])
).print("all")
env.execute("windows")
