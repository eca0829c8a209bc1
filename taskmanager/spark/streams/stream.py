"""One source of a streaming query, in either of Spark's two interfaces: its offsets as JSON, and the plan that reads between two offsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce

from tidegate.connectors.spark.stream_plan import STREAM_V1, JavaObject, name_of
from tidegate.model.errors import ExternalError

_READ = "org.apache.spark.sql.connector.read.streaming"
_STREAMING = "org.apache.spark.sql.execution.streaming"
_V2 = "org.apache.spark.sql.execution.datasources.v2"


class SparkStream(ABC):
    """A stream source of Spark (``java``: its ``SparkDataStream``). Offsets are the source's JSON texts."""

    def __init__(self, jvm: JavaObject, java: JavaObject, leaf: JavaObject) -> None:
        self._jvm = jvm
        self.java = java
        self._leaf = leaf
        self._is_admitting = self._has(f"{_READ}.SupportsAdmissionControl")

    @abstractmethod
    def first(self) -> str | None:
        """Returns the offset at which a new job begins; ``None`` if the source has none before its first batch."""

    @abstractmethod
    def offset(self, json: str) -> JavaObject:
        """Returns the source's offset object for the JSON of an offset."""

    @abstractmethod
    def between(self, start: str | None, end: str | None) -> JavaObject:
        """Returns the plan that reads the rows between two offsets."""

    @abstractmethod
    def newest(self) -> JavaObject:
        """Returns the offset object of the newest data, for a source without read limits."""

    def resume(self, end: str | None) -> None:
        if end is not None and self._has(f"{_READ}.AcceptsLatestSeenOffset"):
            self.java.setLatestSeenOffset(self.offset(end))

    def latest(self, start: str | None) -> str | None:
        """Returns the end offset of the next batch after ``start``; ``start`` when there is no new data."""
        if self._is_admitting:
            begin = None if start is None else self.offset(start)
            found = self.java.latestOffset(begin, self.java.getDefaultReadLimit())
        else:
            found = self.newest()
        return start if found is None else str(found.json())

    def lags(self, end: str | None) -> dict[str, float]:
        """Returns the source's metrics of its lag at ``end``, by the source's names."""
        if end is None or not self._has(f"{_READ}.ReportsSourceMetrics"):
            return {}
        found = self.java.metrics(self._jvm.java.util.Optional.of(self.offset(end)))
        return {str(name): float(found.get(name)) for name in found.keySet()}

    def commit(self, end: str) -> None:
        self.java.commit(self.offset(end))

    def _has(self, name: str) -> bool:
        return bool(_class(self._jvm, name).isInstance(self.java))

    def _some(self, value: JavaObject) -> JavaObject:
        return self._jvm.scala.Option.apply(value)

    def _none(self) -> JavaObject:
        return self._jvm.scala.Option.empty()


class NewStream(SparkStream):
    """A source of DataSource V2 (``MicroBatchStream``)."""

    def __init__(self, jvm: JavaObject, leaf: JavaObject, directory: str) -> None:
        self._scan = leaf.table().newScanBuilder(leaf.extraOptions()).build()
        self._directory = directory
        super().__init__(jvm, self._scan.toMicroBatchStream(directory), leaf)
        self._relation = self._made_relation()

    def first(self) -> str | None:
        return str(self.java.initialOffset().json())

    def newest(self) -> JavaObject:
        return self.java.latestOffset()

    def offset(self, json: str) -> JavaObject:
        return self.java.deserializeOffset(json)

    def between(self, start: str | None, end: str | None) -> JavaObject:
        if start is None or end is None or start == end:
            return self._jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
                self._leaf.output(), sequence(self._jvm, []), False, self._none()
            )
        v2 = self._jvm.org.apache.spark.sql.execution.datasources.v2
        return v2.StreamingDataSourceV2ScanRelation(
            self._relation,
            self._scan,
            self._leaf.output(),
            self.java,
            self._some(self.offset(start)),
            self._some(self.offset(end)),
        )

    def _made_relation(self) -> JavaObject:
        leaf = self._leaf
        known = leaf.table(), leaf.output(), leaf.catalog(), leaf.identifier(), leaf.extraOptions(), self._directory
        name = "StreamingDataSourceV2Relation"
        (made,) = _class(self._jvm, f"{_V2}.{name}").getConstructors()
        match made.getParameterCount() - len(known):
            case 0:  # Spark 4.0
                newer: tuple[JavaObject, ...] = ()
            case 1:  # Spark 4.1
                newer = (self._none(),)
            case 2:  # Spark 4.2 and 4.3
                newer = (self._none(), leaf.sourceIdentifyingName())
            case _:
                raise ExternalError(
                    f"from_spark_stream does not support this version of Spark, in which {name} is different"
                )
        return self._jvm.org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2Relation(*known, *newer)


class OldStream(SparkStream):
    """A source of Spark's first streaming interface (``Source``), such as files and Delta."""

    def __init__(self, jvm: JavaObject, leaf: JavaObject, output: JavaObject, directory: str) -> None:
        super().__init__(jvm, leaf.dataSource().createSource(directory), leaf)
        self._output = output
        self._serialized = streaming_class(jvm, "runtime", "SerializedOffset")

    def first(self) -> str | None:
        return None

    def newest(self) -> JavaObject:
        found = self.java.getOffset()
        return found.get() if found.isDefined() else None

    def offset(self, json: str) -> JavaObject:
        return reduce(getattr, self._serialized.split("."), self._jvm)(json)

    def between(self, start: str | None, end: str | None) -> JavaObject:
        if end is None or start == end:
            return self._jvm.org.apache.spark.sql.catalyst.plans.logical.LocalRelation(
                self._output, sequence(self._jvm, []), False, self._none()
            )
        begin = self._none() if start is None else self._some(self.offset(start))
        rows = self.java.getBatch(begin, self.offset(end)).logicalPlan()
        given, made = self._output, rows.output()
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        named = []
        for i in range(given.size()):
            old, new = given.apply(i), made.apply(i)
            about = self._some(old.metadata())
            named.append(
                expressions.Alias(new, old.name(), old.exprId(), old.qualifier(), about, sequence(self._jvm, []))
            )
        return self._jvm.org.apache.spark.sql.catalyst.plans.logical.Project(sequence(self._jvm, named), rows)


def stream_of(jvm: JavaObject, leaf: JavaObject, directory: str) -> SparkStream:
    """Returns the stream of a source in the plan; ``directory`` is for that source alone. Raises ``ExternalError`` for a version of Spark that is not known, or
    a source that cannot be read in micro-batches.
    """
    if name_of(leaf) == STREAM_V1:
        return OldStream(jvm, leaf, leaf.output(), directory)
    capability = jvm.org.apache.spark.sql.connector.catalog.TableCapability.MICRO_BATCH_READ
    if bool(leaf.table().capabilities().contains(capability)):
        return NewStream(jvm, leaf, directory)
    old = leaf.v1Relation()
    if not old.isDefined():
        raise ExternalError(f"the source {leaf.sourceName()} cannot be read in micro-batches, as a stream is")
    return OldStream(jvm, old.get(), leaf.output(), directory)


def sequence(jvm: JavaObject, items: list[JavaObject]) -> JavaObject:
    """Returns a Scala ``Seq`` of the items."""
    return jvm.org.apache.spark.api.python.PythonUtils.toSeq(items)


def streaming_class(jvm: JavaObject, room: str, name: str) -> str:
    """Returns the full name of a class of Spark's streaming engine, in the package ``room`` or, as in Spark 4.0, in the one above it. Raises ``ExternalError``
    when there is none.
    """
    from py4j.protocol import Py4JJavaError

    for found in (
        f"{_STREAMING}.{room}.{name}",
        f"{_STREAMING}.{name}",
    ):  # newer ones keep stand-ins of some at the old place
        try:
            _class(jvm, found)
        except Py4JJavaError:
            continue
        return found
    raise ExternalError(f"from_spark_stream does not support this version of Spark, which has no {name}")


def _class(jvm: JavaObject, name: str) -> JavaObject:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)
