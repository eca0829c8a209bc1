"""Four kinds of Spark's sources as one stream, and the check that each of their rows is there once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.test_spark_streams import LIMIT_S, Run
from tests.e2e.waiting import wait_until
from tests.servers import spark_reading
from tests.servers.jars import fetched
from tests.servers.kafka_broker import KafkaBroker


class FourSources:
    """Files, Kafka, the rate and a DataSource in Python, as one stream that is being read. ``directory``: of the test, whose name is the topic's, too."""

    def __init__(self, cluster: Cluster, broker: KafkaBroker, directory: Path) -> None:
        name = directory.name
        self.run = Run(cluster, directory, source="every", servers=broker.servers, topic=name)
        self.run.add_files(3)
        self._topic = Topic(broker, name)
        self._topic.add(300)
        self.watch = self.run.submit(spark={"spark.jars": kafka_jars()})
        self.run.wait_rows(1)

    def go_on(self) -> None:
        """Rows come behind a kill, and some of them are read."""
        self._topic.add(300)
        self.run.add_files(5)
        self.run.wait_rows(len(self.run.ids()) + 500)

    def assert_each_row_once(self) -> None:
        total, numbers = self.run.add_files(5), self._topic.add(300)

        def wanted_are_there() -> bool:
            found = Counter(part for _, part in self.run.rows())
            return found[0] >= total and found[1] >= numbers and min(found[2], found[3]) >= 1000

        wait_until(wanted_are_there, LIMIT_S, "all sources have been read behind the kills")
        self.run.cluster.cancel(self.watch)
        by_part: dict[int, list[int]] = {}
        for number, part in sorted(self.run.rows()):
            by_part.setdefault(part, []).append(number)
        assert by_part[0] == list(range(total))
        assert by_part[1] == list(range(numbers))
        for part in (2, 3):  # they go on by the clock: the last batches may be there in part
            first = 0 if part == 2 else by_part[part][0]
            assert len(set(by_part[part])) == len(by_part[part])
            assert set(range(first, first + 900)) <= set(by_part[part])


class Topic:
    """Numbers that count, on three partitions."""

    def __init__(self, broker: KafkaBroker, name: str) -> None:
        from confluent_kafka import Producer

        broker.create_topic(name, 3)
        self._name = name
        self._producer = Producer({"bootstrap.servers": broker.servers})
        self._count = 0

    def add(self, count: int) -> int:
        """How many there are now."""
        for number in range(self._count, self._count + count):
            self._producer.produce(self._name, str(number), partition=number % 3)
        assert self._producer.flush(30) == 0
        self._count += count
        return self._count


def kafka_jars() -> str:
    jars = fetched(Path(spark_reading.__file__).parent / "spark_kafka" / "pom.xml", "spark-kafka").glob("*.jar")
    return ",".join(sorted(map(str, jars)))
