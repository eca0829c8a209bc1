from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction
from pyflink.datastream.window import TumblingEventTimeWindows

LATE = OutputTag("late", Types.TUPLE([Types.STRING(), Types.INT()]))
ODD = OutputTag("odd", Types.STRING())
RAW = OutputTag("raw")


class Split(ProcessFunction):
    def process_element(self, value, ctx: ProcessFunction.Context):
        if value[1] % 2:
            yield ODD, f"{value[0]}{value[1]}"
        else:
            yield value
        if value[1] > 20:
            yield RAW, {"value": value}


class Numbered(KeyedProcessFunction):
    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        yield value[1]
        yield ODD, f"{ctx.get_current_key()}/{ctx.timer_service().current_watermark() > 0}"


class SecondOfValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(
        3_600_000
    )  # on a busy machine one between two records would make some late
    pair = Types.TUPLE([Types.STRING(), Types.INT()])
    values = env.from_collection([("a", 1), ("b", 12), ("a", 30), ("b", 2), ("a", 31), ("a", 25)], pair)

    split = values.process(Split(), pair)
    split.print("even")
    split.get_side_output(ODD).print("odd")
    split.get_side_output(RAW).map(lambda found: found["value"][1], Types.INT()).print("raw")

    keyed = values.key_by(lambda value: value[0]).process(Numbered(), Types.INT())
    keyed.print("numbered")
    keyed.get_side_output(ODD).print("keys")

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0)).with_timestamp_assigner(
        SecondOfValue()
    )
    windows = (
        values.assign_timestamps_and_watermarks(strategy)
        .key_by(lambda value: value[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .allowed_lateness(0)
        .side_output_late_data(LATE)
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
    )
    windows.print("windows")
    env.execute("side outputs")


main()
