"""The list of connectors' names and the modules from which programs import them: ``from tidegate.connectors.X import ...``.

``CONNECTORS`` is the one list of them. The modules in it find their names by it, and a name or module that is wrong is answered by it:

    from tidegate.connectors.kafka import KafkaSorce    ─▶  ... did you mean KafkaSource?
    from tidegate.connectors.kafka import FileSource    ─▶  ... say: from tidegate.connectors.files import FileSource
    from tidegate.connectors.kafak import KafkaSource   ─▶  ... say: from tidegate.connectors.kafka import KafkaSource
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["CONNECTORS", "ELSEWHERE", "ROOTS", "names_of", "suggest_module", "suggest_name"]

ROOTS = ("tidegate.connectors", "tidegate.datastream.connectors")
"""The packages of connectors: tidegate's, and PyFlink's ``pyflink.datastream.connectors``."""
_OWN = ROOTS[0]

CONNECTORS: Mapping[str, Mapping[str, str]] = {
    "base": {"base": "DeliveryGuarantee Sink Source"},
    "collection": {"collection": "CollectionSource"},
    "delta": {"spark.writes": "delta_writer"},
    "files": {
        "file_source": "BAD_LINE FileSource",
        "file_sink": "FileSink RollingPolicy",
        "files.buckets": "DateTimeBuckets",
    },
    "generators": {"number_sequence": "DataGeneratorSource NumberSequenceSource", "throttle": "ThrottledSource"},
    "hybrid": {"hybrid.source": "HybridSource HybridSourceBuilder", "hybrid.parts": "SourceSwitchContext"},
    "iceberg": {"spark.writes": "iceberg_writer"},
    "jdbc": {"spark.writes": "jdbc_writer"},
    "kafka": {
        "base": "DeliveryGuarantee",
        "kafka.offsets": "KafkaOffsetResetStrategy KafkaOffsetsInitializer KafkaTopicPartition",
        "kafka.open_transactions.naming": "TransactionNamingStrategy",
        "kafka.partition_records": "DEAD_LETTER",
        "kafka.records": "KafkaRecordSerializationSchema KafkaRecordSerializationSchemaBuilder KafkaTopicSelector",
        "kafka.sink": "KafkaSink KafkaSinkBuilder",
        "kafka.source": "KafkaSource KafkaSourceBuilder",
    },
    "postgres": {"postgres.sink": "PostgresSink"},
    "print_sink": {"print_sink": "PrintSink"},
    "source": {
        "source.enumerator": "ReaderInfo SplitEnumerator SplitEnumeratorContext SplitsAssignment",
        "source.reader": "MAIN_OUTPUT InputStatus ReaderOutput SourceOutput SourceReader SourceReaderContext",
        "source.serializers": "PickleSerializer SimpleVersionedSerializer",
        "source.source": "Boundedness Source",
        "source.splits": "SourceSplit",
    },
    "spark": {
        "spark.sink": "SparkEpoch",
        "spark.writes": "delta_writer iceberg_writer jdbc_writer",
    },
}
"""The names of each connector module (by its last part), by the module below ``tidegate.connectors`` that defines them."""

ELSEWHERE: Mapping[str, str] = {
    "JdbcSink": "for PostgreSQL, say: from tidegate.connectors.postgres import PostgresSink; for other databases, "
    "stream.to_spark(jdbc_writer(...)), from tidegate.connectors.jdbc; env.from_spark(...) reads them",
    "FlinkKafkaConsumer": "say: from tidegate.connectors.kafka import KafkaSource",
    "FlinkKafkaProducer": "say: from tidegate.connectors.kafka import KafkaSink",
    "SparkSource": "env.from_spark(...) and env.from_spark_stream(...) read by Spark",
    "SparkSink": "stream.to_spark(...) writes by Spark",
}
"""Names that tidegate does not have, with what to use instead."""
_OTHER_NAMES = {
    "datagen": "generators",
    "delta_lake": "delta",
    "deltalake": "delta",
    "file": "files",
    "file_system": "files",
    "filesystem": "files",
    "generator": "generators",
    "hybrid_source": "hybrid",
    "number_seq": "generators",
    "parquet": "files",
    "csv": "files",
    "postgresql": "postgres",
    "print": "print_sink",
    "psql": "postgres",
}
"""Other names of connector modules, among them PyFlink's."""


def names_of(module: str) -> dict[str, str]:
    """Returns the names that can be imported from the connector ``module``, each with the module that defines it, for imports and their error messages."""
    homes = CONNECTORS[module.removeprefix(f"{_OWN}.")]
    return {name: f"{_OWN}.{home}" for home, names in homes.items() for name in names.split()}


def suggest_name(module: str, name: str, names: Iterable[str]) -> str:
    """Returns the suggestion after "``module`` has no ``name``", where the module has ``names``; empty when no name is similar."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(names), 1, 0.75)
    if not module.startswith(ROOTS):
        return f"; did you mean {near[0]}?" if near else ""
    if name in ELSEWHERE:
        return f"; {ELSEWHERE[name]}"
    if (home := _module_with(name)) is not None:
        return f"; say: from {home} import {name}"
    if near:
        return f"; did you mean {near[0]}?"
    everywhere = [known for module_name in CONNECTORS for known in names_of(module_name)]
    if found := get_close_matches(name, everywhere, 1, 0.75):
        return f"; did you mean: from {_module_with(found[0])} import {found[0]}"
    return ""


def suggest_module(module: str) -> str:
    """Returns the suggestion after "there is no module ``module``"."""
    from difflib import get_close_matches

    root = next(root for root in ROOTS if module.startswith(f"{root}."))
    rest = module.removeprefix(f"{root}.")
    wrong = rest.split(".", maxsplit=1)[0]
    found = [wrong] if wrong in CONNECTORS else get_close_matches(wrong.lower(), [*CONNECTORS, *_OTHER_NAMES], 1)
    if not found:
        known = ", ".join(name for name in CONNECTORS if name not in ("base", "collection"))
        return f"; {_OWN} has {known}"
    right = _OTHER_NAMES.get(found[0], found[0])
    most_wanted = sorted(names_of(right), key=lambda name: (not name.endswith(("Source", "Sink", "writer")), name))
    return f"; say: from {_OWN}.{right} import {', '.join(most_wanted[:2])}" + (", ..." if len(most_wanted) > 2 else "")


def _module_with(name: str) -> str | None:
    """Returns the first module in the list from which a program can import ``name``."""
    modules = [f"{_OWN}.{module}" for module in CONNECTORS if name in names_of(module)]
    return modules[0] if modules else None
