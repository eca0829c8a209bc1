from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.functions import KeyedProcessFunction

VISITS = [("p1", "2024-05-01 10:00:00"), ("p2", "2024-05-01 10:00:07"), ("p1", "2024-05-01 09:59:58")]


class Visited(TimestampAssigner):
    def __init__(self, shift_ms=0):
        self.shift_ms = shift_ms

    def extract_timestamp(self, value, record_timestamp):
        import datetime

        at = datetime.datetime.strptime(value[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=datetime.timezone.utc)
        return int(at.timestamp() * 1000) + self.shift_ms


class Stamped(ProcessFunction):
    def process_element(self, value, ctx: ProcessFunction.Context):
        yield value[0], ctx.timestamp()


class AtTheEnd(KeyedProcessFunction):
    """Timers at each visit, which fire in the order of time when the input has ended: there is no other watermark before."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.get_config().set_auto_watermark_interval(3_600_000)
    visits = env.from_collection(VISITS, Types.TUPLE([Types.STRING(), Types.STRING()]))
    stamped = Types.TUPLE([Types.STRING(), Types.LONG()])
    strategies = {
        "monotonous": WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Visited()),
        "bounded": WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(10))
        .with_idleness(Duration.of_minutes(1))
        .with_timestamp_assigner(Visited(shift_ms=5)),
        "none": WatermarkStrategy.no_watermarks().with_timestamp_assigner(Visited(-1)),
    }
    for name, strategy in strategies.items():
        timed = visits.assign_timestamps_and_watermarks(strategy)
        timed.process(Stamped(), stamped).print(name)
        timed.key_by(lambda visit: visit[0], Types.STRING()).process(AtTheEnd(), stamped).print(f"{name} timers")
    env.execute("watermarks")


main()
