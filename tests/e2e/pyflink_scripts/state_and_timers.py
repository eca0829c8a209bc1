from pyflink.common import Duration, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import AggregateFunction, ReduceFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

# account, merchant, amount, second
PAYMENTS = [
    ("ann", "grocer", 12.5, 1),
    ("bob", "hotel", 310.0, 2),
    ("ann", "kiosk", 0.5, 3),
    ("ann", "jeweller", 900.0, 20),
    ("bob", "grocer", 7.25, 95),
    ("cid", "kiosk", 0.75, 100),
    ("cid", "jeweller", 501.0, 130),
    ("ann", "grocer", 15.0, 200),
]


class SecondAssigner(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp) -> int:
        return value[3] * 1000


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0.0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1] if accumulator[1] else 0.0

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


class Max(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2)


class FraudDetector(KeyedProcessFunction):
    """A small amount that is followed by a large one within a minute; and a summary when an account was silent for a minute."""

    SMALL, LARGE, MINUTE = 1.0, 500.0, 60 * 1000

    def open(self, runtime_context: RuntimeContext):
        ttl = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        flag = ValueStateDescriptor("flag", Types.BOOLEAN())
        flag.enable_time_to_live(ttl)
        self.flag = runtime_context.get_state(flag)
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))
        self.seconds = runtime_context.get_list_state(ListStateDescriptor("seconds", Types.INT()))
        self.merchants = runtime_context.get_map_state(MapStateDescriptor("merchants", Types.STRING(), Types.DOUBLE()))
        self.largest = runtime_context.get_reducing_state(ReducingStateDescriptor("largest", Max(), Types.DOUBLE()))
        self.mean = runtime_context.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        account, merchant, amount, second = value
        if self.flag.value() and amount > self.LARGE:
            yield f"ALERT {account} at {ctx.timestamp()}: {amount}"
        self.flag.clear()
        if amount < self.SMALL:
            self.flag.update(True)
        self.seconds.add(second)
        self.merchants.put(merchant, (self.merchants.get(merchant) or 0.0) + amount)
        self.largest.add(amount)
        self.mean.add(amount)
        if self.timer.value() is not None:
            ctx.timer_service().delete_event_time_timer(self.timer.value())
        due = ctx.timestamp() + self.MINUTE
        ctx.timer_service().register_event_time_timer(due)
        self.timer.update(due)

    def on_timer(self, timestamp: int, ctx: "KeyedProcessFunction.OnTimerContext"):
        merchants = {name: self.merchants[name] for name in sorted(self.merchants.keys())}
        yield f"{ctx.get_current_key()} silent at {timestamp}: {list(self.seconds)} {merchants}"
        yield f"{ctx.get_current_key()} largest {self.largest.get()} mean {self.mean.get()} grocer {'grocer' in self.merchants}"
        for state in (self.flag, self.timer, self.seconds, self.merchants, self.largest, self.mean):
            state.clear()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(
        3_600_000
    )  # on a busy machine one between two records would make some late
    types = Types.TUPLE([Types.STRING(), Types.STRING(), Types.DOUBLE(), Types.INT()])
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        SecondAssigner()
    )
    payments = env.from_collection(PAYMENTS, type_info=types).assign_timestamps_and_watermarks(strategy)
    payments.key_by(lambda payment: payment[0], key_type=Types.STRING()).process(
        FraudDetector(), output_type=Types.STRING()
    ).print()
    env.execute("state and timers")


main()
