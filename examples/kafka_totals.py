"""Orders in a topic become the total of each customer in another: keys, JSON, exactly once, and a topic that keeps the last total of each key.

    python examples/kafka_totals.py produce --orders 1000          # make some orders
    tidegate run --local -p 2 examples/kafka_totals.py             # the job; with --bounded it ends with what is there
    python examples/kafka_totals.py show                           # the newest total of each customer

Needs `pip install "tidegate[kafka]"` and a broker: `python examples/servers/run.py kafka`, or `docker compose up kafka` in `examples/servers`.

    topic orders ─▶ JSON rows ─▶ by customer ═▶ total ─▶ topic totals (key: the customer)
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator

from tidegate.common import Row, Types, WatermarkStrategy
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.connectors.base import DeliveryGuarantee
from tidegate.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from tidegate.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from tidegate.datastream.state import ValueStateDescriptor

ORDER = Types.ROW_NAMED(["customer", "amount"], [Types.STRING(), Types.DOUBLE()])
TOTAL = Types.ROW_NAMED(["customer", "orders", "amount"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
SO_FAR = Types.ROW_NAMED(["orders", "amount"], [Types.LONG(), Types.DOUBLE()])


class Total(KeyedProcessFunction):
    """One new total for each order."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.total = runtime_context.get_state(ValueStateDescriptor("total", SO_FAR))

    def process_element(self, order: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        so_far = self.total.value() or Row(orders=0, amount=0.0)
        now = Row(orders=so_far["orders"] + 1, amount=so_far["amount"] + order["amount"])
        self.total.update(now)
        yield Row(customer=order["customer"], orders=now["orders"], amount=now["amount"])


def main() -> None:
    parser = argparse.ArgumentParser(description="totals of orders, from topic to topic")
    parser.add_argument("command", nargs="?", choices=["job", "produce", "show"], default="job")
    parser.add_argument("--servers", default="localhost:9092")
    parser.add_argument("--orders", type=int, default=1000, help="of produce")
    parser.add_argument("--bounded", action="store_true", help="of the job: end with what is in the topic now")
    arguments = parser.parse_args()
    if arguments.command == "produce":
        produce(arguments.servers, arguments.orders)
    elif arguments.command == "show":
        show(arguments.servers)
    else:
        run(arguments.servers, arguments.bounded)


def run(servers: str, is_bounded: bool) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)

    orders = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics("orders")
        .set_group_id("totals")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(JsonRowDeserializationSchema.builder().type_info(ORDER).build())
    )
    if is_bounded:
        orders = orders.set_bounded(KafkaOffsetsInitializer.latest())

    record = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("totals")
        .set_key_serialization_schema(lambda total: total["customer"].encode())  # so a customer's totals stay in order
        .set_value_serialization_schema(JsonRowSerializationSchema.builder().with_type_info(TOTAL).build())
        .build()
    )
    totals = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(record)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("totals")
        .build()
    )

    (
        env.from_source(orders.build(), WatermarkStrategy.no_watermarks(), "orders")
        .uid("orders")
        .key_by(lambda order: order["customer"], Types.STRING())
        .process(Total(), TOTAL)
        .uid("totals")
        .sink_to(totals)
        .uid("topic")
    )
    env.execute("totals")


def produce(servers: str, orders: int) -> None:
    """The topics, and the same orders in every run; the customer is the key, so that the orders of one stay in order."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    missing = {"orders", "totals"} - admin.list_topics(timeout=10).topics.keys()
    for name in missing:
        kept = {"cleanup.policy": "compact"} if name == "totals" else {}
        admin.create_topics([NewTopic(name, 3, 1, config=kept)])[name].result(30)
    dice = random.Random(7)
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(orders):
        customer = f"customer-{dice.randrange(5)}"
        order = {"customer": customer, "amount": float(dice.randrange(1, 100))}
        producer.produce("orders", key=customer, value=json.dumps(order))
        producer.poll(0)
    producer.flush()
    print(f"{orders} orders")


def show(servers: str) -> None:
    """What a reader of a compacted topic would keep: the last total of each key."""
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": servers,
        "group.id": "show",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.subscribe(["totals"])
    newest: dict[str, str] = {}
    waiting_for: set[int] | None = None
    while waiting_for is None or waiting_for:
        message = consumer.poll(30)
        if message is None:
            raise SystemExit("nothing came for 30 s")
        if waiting_for is None:
            waiting_for = {partition.partition for partition in consumer.assignment()}
        if message.error():  # the end of a partition
            waiting_for.discard(message.partition() or 0)
        else:
            newest[(message.key() or b"").decode()] = (message.value() or b"").decode()
    consumer.close()
    for _, total in sorted(newest.items()):
        print(total)


if __name__ == "__main__":
    main()
