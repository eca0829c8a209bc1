"""Outputs of finished attempts of BATCH jobs, stored in Spark's shuffle for as long as their job has a slot here.

    producers ─▶ ShuffledRDD of each ─▶ the consumer's partition of each ─▶ union ─▶ one partition ─▶ subtask ─┬─▶ nothing is stored
                                                                                                                └─▶ map stage of its own

Every attempt with consumers is a shuffle with one map task, so that each runs as one Spark job, like any other attempt. Spark writes, reads and checks the
files, and serves them to other executors. Spark never repeats a map task: the JobManager restarts the attempt (``OutputLost``).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.model.errors import OutputLost, StorageError
from tidegate.model.ids import AttemptId, JobId
from tidegate.taskmanager.exchange.blocking.endpoint import partition_of
from tidegate.taskmanager.exchange.blocking.store import NOT_AGAIN
from tidegate.taskmanager.machines.task_events import StoredEdges
from tidegate.taskmanager.spark.jvm import JavaObject, discard

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

_ONE_SET = "Set$Set1"
"""Name of Scala's class of one-element sets; such a set is the function that selects one partition."""
_LOST_WORDS = ("FetchFailed", "Missing an output location", NOT_AGAIN)
"""Words in Spark's error when a shuffle block is missing, or when Spark runs a producer again because it knows that already."""


@dataclass(frozen=True, slots=True)
class _Stored:
    shuffled: JavaObject
    """The ``JavaPairRDD`` over the ``ShuffledRDD`` of the attempt."""
    shuffle_id: int
    edges: StoredEdges


class StoredOutputs:
    """Runs attempts of BATCH jobs and keeps the outputs that they store. Thread-safe."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._by_attempt: dict[AttemptId, _Stored] = {}

    def inputs(self, edges: StoredEdges, attempt: AttemptId) -> RDD[bytes]:
        """Returns an RDD of one partition with all blocks that were stored for the attempt. Raises ``OutputLost`` when some are missing."""
        from pyspark import RDD
        from pyspark.serializers import NoOpSerializer

        jvm: JavaObject = self._context._jvm
        parts = list(self._parts(edges, attempt))
        if not parts:
            return self._context.parallelize([], 1)
        gateway: JavaObject = self._context._gateway
        array = gateway.new_array(jvm.org.apache.spark.api.java.JavaRDD, len(parts))
        for place, part in enumerate(parts):
            array[place] = part
        return RDD(self._context._jsc.union(array).coalesce(1), self._context, NoOpSerializer())

    def run(self, attempt: AttemptId, edges: StoredEdges, inputs: RDD[bytes], run: _OverBlocks) -> None:
        """Runs the attempt as one Spark job and keeps the output that it stores.

        Raises ``OutputLost`` when its inputs cannot be read, ``StorageError`` when its output could not be stored, and Spark's error for an attempt without
        output.
        """
        jvm: JavaObject = self._context._jvm
        keyed = inputs.mapPartitionsWithIndex(run, True)
        keyed._bypass_serializer = True  # type: ignore[attr-defined]  # of PySpark's PipelinedRDD, which its types do not name
        try:
            self._run(jvm, attempt, edges, keyed)
        except Exception as error:
            if any(words in str(error) for words in _LOST_WORDS):
                raise OutputLost(
                    f"{attempt} cannot read the output that earlier subtasks stored for it, since Spark has lost it",
                    details=str(error),
                ) from error
            if edges.partitions:
                raise StorageError(f"the output of {attempt} could not be stored: {error}") from error
            raise

    def drop(self, job_id: JobId) -> None:
        """Removes the stored outputs of a job that has no slot here."""
        with self._lock:
            dropped = [attempt for attempt in self._by_attempt if attempt.job_id == job_id]
            shuffles = [self._by_attempt.pop(attempt).shuffle_id for attempt in dropped]
        if shuffles:
            threading.Thread(target=self._clean, args=(shuffles,), name="shuffle removal", daemon=True).start()

    def _run(self, jvm: JavaObject, attempt: AttemptId, edges: StoredEdges, keyed: RDD[bytes]) -> None:
        spark = self._context._jsc.sc()
        if not edges.partitions:
            discard(jvm.PythonRDD.runJob(spark, keyed._jrdd, [0]))
            return
        pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()
        shuffled = pairs.partitionBy(jvm.PythonPartitioner(edges.partitions, 0))
        dependency = shuffled.rdd().dependencies().head()
        spark.submitMapStage(dependency).get()
        with self._lock:
            self._by_attempt[attempt] = _Stored(shuffled, int(dependency.shuffleId()), edges)

    def _parts(self, edges: StoredEdges, attempt: AttemptId) -> Iterator[JavaObject]:
        """Yields, for each producer, the partition that is for the attempt, as a ``JavaRDD`` with only that partition."""
        jvm: JavaObject = self._context._jvm
        one_set = getattr(jvm.scala.collection.immutable, _ONE_SET)
        for edge_id, producers in edges.inputs:
            for producer in producers:
                with self._lock:
                    stored = self._by_attempt.get(producer)
                if stored is None:
                    raise OutputLost(
                        f"{attempt} cannot read the output that {producer} stored for it, since it is gone"
                    )
                values = jvm.PythonRDD.valueOfPair(stored.shuffled)
                only = one_set(partition_of(stored.edges.outputs, edge_id, attempt.subtask))
                yield jvm.org.apache.spark.rdd.PartitionPruningRDD.create(values.rdd(), only).toJavaRDD()

    def _clean(self, shuffles: list[int]) -> None:
        """Removes the files of shuffles at once. Spark's own cleaner finds unused files only when the JVM collects garbage, which may be much later."""
        from py4j.protocol import Py4JError

        with contextlib.suppress(Py4JError, OSError):  # the JVM may be ending
            cleaner = self._context._jsc.sc().cleaner()
            if cleaner.isDefined():
                for shuffle_id in shuffles:
                    cleaner.get().doCleanupShuffle(shuffle_id, False)


_OverBlocks = Callable[[int, Iterable[bytes]], Iterable[bytes]]
