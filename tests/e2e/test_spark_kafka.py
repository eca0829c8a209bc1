"""A stream that Spark reads from Kafka, and from other sources beside it, in the Spark that a TaskManager starts itself."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.four_sources import FourSources, kafka_jars
from tests.e2e.test_spark_streams import kill_source, kill_task_manager, killed
from tests.servers.kafka_broker import KafkaBroker


def test_each_row_of_four_sources_is_there_once_although_reader_and_task_manager_die(
    broker: KafkaBroker, tmp_path: Path
) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        for _ in range(2):
            cluster.add_taskmanager(2, f"-Dspark.jars={kafka_jars()}")
        cluster.wait_slots(4)
        sources = FourSources(cluster, broker, tmp_path)
        killed(sources.run, sources.watch, kill_source)
        sources.go_on()
        killed(sources.run, sources.watch, kill_task_manager)
        sources.go_on()
        sources.assert_each_row_once()
