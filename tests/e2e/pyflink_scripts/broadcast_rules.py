import dataclasses

from pyflink.common import Types
from pyflink.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from pyflink.datastream.state import ListStateDescriptor, MapStateDescriptor


@dataclasses.dataclass
class Rule:
    name: str
    least: int

    def holds(self, amount):
        return amount >= self.least


RULES = [Rule("high", 100), Rule("any", 0), Rule("mid", 50)]
AMOUNTS = [("x", 40, 1), ("y", 120, 2), ("x", 60, 3)]
BY_NAME = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2] * 1000


class Matches(KeyedBroadcastProcessFunction):
    """Amounts wait for the end of time, when every rule is there: which of the two streams is read first is open."""

    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.INT()))

    def process_element(self, value, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext):
        self.waiting.add(value[1])
        ctx.timer_service().register_event_time_timer(100_000)

    def process_broadcast_element(self, value, ctx: KeyedBroadcastProcessFunction.Context):
        ctx.get_broadcast_state(BY_NAME).put(value.name, value)

    def on_timer(self, timestamp, ctx: KeyedBroadcastProcessFunction.OnTimerContext):
        rules = ctx.get_broadcast_state(BY_NAME)
        for amount in self.waiting:
            names = [name for name, rule in sorted(rules.items()) if rule.holds(amount)]
            yield f"{ctx.get_current_key()} {amount}: {', '.join(names)}"


class Seen(BroadcastProcessFunction):
    def process_element(self, value, ctx: BroadcastProcessFunction.ReadOnlyContext):
        yield f"element {value[1]}"

    def process_broadcast_element(self, value, ctx: BroadcastProcessFunction.Context):
        state = ctx.get_broadcast_state(BY_NAME)
        if value.name not in state:
            state.put(value.name, value)
        yield f"rule {value.name} {type(state.get(value.name)).__name__}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    rules = env.from_collection(RULES).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second2())
    )
    amounts = env.from_collection(
        AMOUNTS, type_info=Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])
    ).assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second()))
    broadcast = rules.broadcast(BY_NAME)
    amounts.key_by(lambda amount: amount[0], Types.STRING()).connect(broadcast).process(
        Matches(), Types.STRING()
    ).print()
    amounts.connect(broadcast).process(Seen(), Types.STRING()).print()
    env.execute("broadcast rules")


class Second2(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return 0


main()
