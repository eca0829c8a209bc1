"""Starts one Python worker for each partition of a Spark job, as Spark does by itself: beside it ``benchmarks.starts`` measures ours.

Arguments: directory, number of partitions. Each worker leaves a file named ``worker-<partition>`` and waits until there is one named ``end``. The first line
of standard input begins the job; before, Spark is warm.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pyspark import SparkConf, SparkContext

POLL_S = 0.2


def main(directory: str, partitions: int) -> None:
    conf = SparkConf().setMaster(f"local[{partitions}]").set("spark.ui.enabled", "false")
    conf.set("spark.python.worker.reuse", "false").set("spark.ui.showConsoleProgress", "false")
    conf.set("spark.driver.extraJavaOptions", "-XX:+UseSerialGC")
    context = SparkContext(conf=conf)
    end = Path(directory, "end")

    def work(index: int, rows: Iterable[int]) -> Iterator[int]:
        Path(directory, f"worker-{index}").touch()
        while not end.exists():
            time.sleep(POLL_S)
        return iter(())

    context.parallelize([], 4).mapPartitionsWithIndex(lambda index, rows: iter(())).count()
    print("ready", flush=True)
    sys.stdin.readline()
    nothing: list[int] = []
    context.parallelize(nothing, partitions).mapPartitionsWithIndex(work).count()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
