"""Payments against fraud rules that change while the job runs: broadcast state, and timers that put payments and rules in the order of event time.

    python examples/gallery/fraud_rules.py

    payments ─▶ by card ──────┐
                              ├─▶ judged at their time, by the rules of that time ─▶ alerts, as Parquet
    rules ─▶ to all subtasks ─┘

A payment waits until the watermark has passed it. All rules of its time have come by then, so a replay, or another parallelism, gives the same alerts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.connectors.files import FileSink, FileSource
from tidegate.connectors.generators import ThrottledSource
from tidegate.datastream import KeyedBroadcastProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import MapStateDescriptor, ValueStateDescriptor

PAYMENTS, CARDS, CHANGES = 60_000, 3_000, 45
START_MS, DAY_MS, HOUR_MS = 1_767_571_200_000, 86_400_000, 3_600_000
WINDOWS_MS = {"one payment": 1, "an hour": HOUR_MS, "a day": DAY_MS}
RULES = MapStateDescriptor("rules", Types.STRING(), Types.PICKLED_BYTE_ARRAY())  # name -> [(since, window, limit)]
ALERT = Types.ROW_NAMED(["card", "rule", "at_ms", "cents"], [Types.LONG(), Types.STRING(), Types.LONG(), Types.LONG()])


class Judge(KeyedBroadcastProcessFunction[int, Row, Row, Row]):
    """Gives an alert for each rule that a payment breaks: the card has paid more than the limit within the rule's window."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_map_state(MapStateDescriptor("waiting", Types.LONG(), Types.LONG()))
        self.recent = runtime_context.get_state(ValueStateDescriptor("recent", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, payment: Row, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        at = ctx.timestamp()
        assert at is not None, "the watermark strategy gives each payment its time"
        self.waiting.put(at, payment["cents"])
        ctx.timer_service().register_event_time_timer(at)

    def process_broadcast_element(self, rule: Row, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        rules = ctx.get_broadcast_state(RULES)
        version = (ctx.timestamp(), WINDOWS_MS[rule["rule"]], rule["limit"])
        rules.put(rule["rule"], [*(rules.get(rule["rule"]) or []), version])

    def on_timer(self, at: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Row]:
        recent = [paid for paid in self.recent.value() or [] if paid[0] > at - DAY_MS]
        recent.append((at, self.waiting.get(at)))
        self.recent.update(recent)
        self.waiting.remove(at)
        for name, versions in ctx.get_broadcast_state(RULES).items():
            _, window_ms, limit = next((v for v in reversed(versions) if v[0] <= at), (0, 0, None))
            total = sum(cents for paid_at, cents in recent if paid_at > at - window_ms)
            if limit is not None and total > limit:  # a rule without a limit is out of force
                yield Row(ctx.get_current_key(), name, at, total)


def write_input(directory: Path) -> None:
    """Three days of payments, and of changes of the rules, which begin with one of each."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(41)
    steps = pa.array(START_MS + np.cumsum(rng.integers(1, 2 * 3 * DAY_MS // PAYMENTS, PAYMENTS)))
    cents = np.minimum(rng.lognormal(8.5, 1.1, PAYMENTS), 500_000).astype(np.int64)
    payments = {"card": rng.integers(0, CARDS, PAYMENTS), "cents": cents, "at": steps.cast(pa.timestamp("ms", "UTC"))}
    pq.write_table(pa.table(payments), directory / "payments.parquet")
    names = [*WINDOWS_MS, *rng.choice([*WINDOWS_MS], CHANGES - len(WINDOWS_MS))]
    limits = [
        int({"one payment": 60_000, "an hour": 80_000, "a day": 150_000}[n] * rng.uniform(0.8, 1.4)) for n in names
    ]
    since = pa.array([START_MS] * 3 + sorted(rng.integers(START_MS, START_MS + 3 * DAY_MS, CHANGES - 3).tolist()))
    given = pa.array(limits, mask=np.arange(CHANGES) % 8 == 7)
    rules = {"rule": names, "limit": given, "at": since.cast(pa.timestamp("ms", "UTC"))}
    pq.write_table(pa.table(rules), directory / "rules.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description="payments against fraud rules that change")
    parser.add_argument("--directory", type=Path, default=Path("out/gallery/fraud_rules"), help="of input and output")
    parser.add_argument("--rows-per-second", type=float, default=1e9, help="slows the payments down, to watch")
    arguments = parser.parse_args()
    write_input(directory := arguments.directory.absolute())

    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    env.enable_checkpointing(1000)
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_column("at")
    paid = ThrottledSource(FileSource.for_parquet(str(directory / "payments.parquet")), arguments.rows_per_second)
    payments = env.from_source(paid, in_order, "payments").set_parallelism(1).key_by("card")
    changes = FileSource.for_parquet(str(directory / "rules.parquet"))
    rules = env.from_source(changes, in_order, "rules").set_parallelism(1).broadcast(RULES)
    alerts = payments.connect(rules).process(Judge(), ALERT).name("judge").uid("judge")
    alerts.sink_to(FileSink.for_parquet(str(directory / "alerts"))).name("alerts").uid("alerts")
    env.execute("fraud rules")


if __name__ == "__main__":
    main()
