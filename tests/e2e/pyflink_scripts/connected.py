from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import CoFlatMapFunction, CoMapFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import CoProcessFunction, KeyedCoProcessFunction
from pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

ORDERS = [Row(order=1, item="tea", at=1000), Row(order=2, item="milk", at=2000), Row(order=3, item="salt", at=3000)]
PAID = [(1, 4.5, 5000), (3, 0.5, 4000), (4, 9.0, 6000)]


class OrderTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.at


class PaidTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Both(CoMapFunction):
    def map1(self, value):
        return f"order {value.order}"

    def map2(self, value):
        return f"payment {value[0]}"


class Items(CoFlatMapFunction):
    def flat_map1(self, value):
        for letter in value.item[:2]:
            yield letter

    def flat_map2(self, value):
        if value[1] > 1:
            yield str(value[1])


class Plain(CoProcessFunction):
    def process_element1(self, value, ctx: "CoProcessFunction.Context"):
        yield f"1 at {ctx.timestamp()}"

    def process_element2(self, value, ctx: "CoProcessFunction.Context"):
        yield f"2 at {ctx.timestamp()}"


class Join(KeyedCoProcessFunction):
    """Orders with their payment; at the end of time, what has no counterpart."""

    def open(self, runtime_context):
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.STRING()))
        self.paid = runtime_context.get_map_state(MapStateDescriptor("paid", Types.LONG(), Types.DOUBLE()))

    def process_element1(self, value, ctx):
        self.order.update(value.item)
        ctx.timer_service().register_event_time_timer(10_000)

    def process_element2(self, value, ctx):
        self.paid.put(value[2], value[1])
        ctx.timer_service().register_event_time_timer(10_000)

    def on_timer(self, timestamp, ctx):
        payments = sorted(self.paid.items())
        yield Row(
            ctx.get_current_key(), self.order.value() or "?", float(sum(amount for _, amount in payments)), timestamp
        )


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    orders = env.from_collection(
        ORDERS, type_info=Types.ROW_NAMED(["order", "item", "at"], [Types.INT(), Types.STRING(), Types.LONG()])
    ).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(OrderTime())
    )
    paid = env.from_collection(
        PAID, type_info=Types.TUPLE([Types.INT(), Types.DOUBLE(), Types.LONG()])
    ).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(PaidTime())
    )
    orders.connect(paid).map(Both(), Types.STRING()).print("map")
    orders.connect(paid).flat_map(Items(), Types.STRING()).print("flat map")
    orders.connect(paid).process(Plain(), Types.STRING()).print("process")
    joined = Types.ROW([Types.INT(), Types.STRING(), Types.DOUBLE(), Types.LONG()])
    orders.connect(paid).key_by(lambda order: order.order, lambda payment: payment[0], Types.INT()).process(
        Join(), joined
    ).print("join")
    orders.map(lambda order: order.item, Types.STRING()).union(
        paid.map(lambda payment: str(payment[0]), Types.STRING())
    ).key_by(len, Types.INT()).map(lambda text: text * 2, Types.STRING()).print("union")
    env.execute("connected")


if __name__ == "__main__":
    main()
