"""Jobs over tables of Kafka in Avro with a schema registry, each made of two queries.

write   numbers ─▶ orders (avro-confluent), and totals by key ─▶ changes (debezium-avro-confluent)
copy    orders ─▶ copies (avro-confluent), and changes ─▶ totals (upsert-kafka)
"""

from __future__ import annotations

import argparse

from tidegate.table import EnvironmentSettings, TableEnvironment

KEYS = 50
ORDERS = "id BIGINT, name STRING, price DECIMAL(10, 2), tags ARRAY<STRING>"
TOTALS = "k BIGINT, n BIGINT, total BIGINT"
QUERIES = {
    "write": (
        "INSERT INTO orders SELECT id, CASE WHEN MOD(id, 3) = 0 THEN CAST(NULL AS STRING) ELSE CONCAT('order ', CAST(id AS STRING)) END, "
        "CAST(id AS DECIMAL(10, 2)) / 4, ARRAY['a', CAST(id AS STRING)] FROM numbers",
        f"INSERT INTO changes SELECT MOD(id, {KEYS}), COUNT(*), SUM(id) FROM numbers GROUP BY MOD(id, {KEYS})",
    ),
    "copy": (
        "INSERT INTO copies SELECT * FROM orders",
        "INSERT INTO totals SELECT k, MAX(n), MAX(total) FROM changes GROUP BY k",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("queries", choices=QUERIES)
    parser.add_argument("--servers", required=True)
    parser.add_argument("--registry", required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    arguments = parser.parse_args()
    t_env = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    t_env.get_config().set("execution.checkpointing.interval", "300 ms")
    kafka = f"'properties.bootstrap.servers' = '{arguments.servers}'"
    scan = "'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'"

    def exactly_once(topic: str) -> str:
        return f"'topic' = '{topic}', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{topic}'"

    for table, columns, kind in (
        ("orders", ORDERS, "avro-confluent"),
        ("copies", ORDERS, "avro-confluent"),
        ("changes", TOTALS, "debezium-avro-confluent"),
    ):
        t_env.execute_sql(
            f"CREATE TABLE {table} ({columns}) WITH ('connector' = 'kafka', {kafka}, {scan}, {exactly_once(f'avro-{table}')}, "
            f"'format' = '{kind}', '{kind}.url' = '{arguments.registry}')"
        )
    t_env.execute_sql(
        f"CREATE TABLE totals ({TOTALS}, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', {kafka}, {exactly_once('avro-totals')}, "
        "'key.format' = 'json', 'value.format' = 'json')"
    )
    t_env.execute_sql(
        "CREATE TABLE numbers (id BIGINT) WITH ('connector' = 'datagen', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1', "
        f"'fields.id.end' = '{arguments.rows}', 'rows-per-second' = '{arguments.rate}')"
    )
    both = t_env.create_statement_set()
    for query in QUERIES[arguments.queries]:
        both.add_insert_sql(query)
    both.execute()


if __name__ == "__main__":
    main()
