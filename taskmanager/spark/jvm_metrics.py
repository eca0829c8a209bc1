"""Reads metrics of the Spark session's JVM, under the names that Flink gives to the metrics of its own JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from tidegate.aio.process_metrics import CollectorRate, collector_metrics
from tidegate.taskmanager.spark.jvm import JavaObject

if TYPE_CHECKING:
    from pyspark import SparkContext

_POOLS = {"direct": "Direct", "mapped": "Mapped"}


def jvm_metrics(context: SparkContext) -> dict[str, float]:
    """Returns threads, classes and memory of the JVM (counts and bytes) by metric name. Empty when the JVM does not answer, since it is ending."""
    try:
        return _read(context._jvm)
    except (Py4JError, OSError):
        return {}


class JvmCollectors:
    """Metrics of the JVM's garbage collectors, one by one and in total."""

    def __init__(self) -> None:
        self._rates: dict[str, CollectorRate] = {}

    def look(self, jvm: JavaObject, now_ms: float) -> dict[str, float]:
        """Returns collections, time in ms, and ms per second since the last call, by metric name. Empty when the JVM does not answer."""
        try:
            beans = jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
            found = {
                bean.getName().replace(" ", "_"): (bean.getCollectionCount(), bean.getCollectionTime())
                for bean in beans
            }
        except (Py4JError, OSError):
            return {}
        counts, times = zip(*found.values(), strict=True)
        metrics: dict[str, float] = {}
        for name, (count, spent_ms) in {"All": (sum(counts), sum(times)), **found}.items():
            rate = self._rates.setdefault(name, CollectorRate())
            metrics |= collector_metrics(name, count, spent_ms, rate.per_second(spent_ms, now_ms))
        return metrics


def _read(jvm: JavaObject) -> dict[str, float]:
    factory = jvm.java.lang.management.ManagementFactory
    memory, loaded = factory.getMemoryMXBean(), factory.getClassLoadingMXBean()
    found = {
        "Status.JVM.Threads.Count": factory.getThreadMXBean().getThreadCount(),
        "Status.JVM.ClassLoader.ClassesLoaded": loaded.getTotalLoadedClassCount(),
        "Status.JVM.ClassLoader.ClassesUnloaded": loaded.getUnloadedClassCount(),
        **_memory("Heap", memory.getHeapMemoryUsage()),
        **_memory("NonHeap", memory.getNonHeapMemoryUsage()),
    }
    for pool in factory.getMemoryPoolMXBeans():
        if pool.getName() == "Metaspace":
            found |= _memory("Metaspace", pool.getUsage())
    buffers = jvm.java.lang.Class.forName("java.lang.management.BufferPoolMXBean")
    for pool in factory.getPlatformMXBeans(buffers):
        if (shown := _POOLS.get(pool.getName())) is not None:
            found |= {
                f"Status.JVM.Memory.{shown}.Count": pool.getCount(),
                f"Status.JVM.Memory.{shown}.MemoryUsed": pool.getMemoryUsed(),
                f"Status.JVM.Memory.{shown}.TotalCapacity": pool.getTotalCapacity(),
            }
    return {name: float(value) for name, value in found.items()}


def _memory(name: str, usage: JavaObject) -> dict[str, float]:
    return {
        f"Status.JVM.Memory.{name}.Used": usage.getUsed(),
        f"Status.JVM.Memory.{name}.Committed": usage.getCommitted(),
        f"Status.JVM.Memory.{name}.Max": usage.getMax(),
    }
