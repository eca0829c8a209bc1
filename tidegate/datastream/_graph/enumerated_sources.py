"""Sources with an enumerator, as two operators: the enumerator, alone in a vertex of parallelism 1, and the readers.

EnumeratorSource ── CUSTOM: each record names its reader ──▶ enumerated_source
"""

from __future__ import annotations

from tidegate.common.typeinfo import TypeInformation
from tidegate.common.watermark_strategy import WatermarkStrategy, makes_watermarks
from tidegate.connectors.hybrid.source import HybridReaders, HybridSource
from tidegate.connectors.source.enumerator_host import EnumeratorSource, UserSource
from tidegate.connectors.source.protocol import as_named, reader_of
from tidegate.connectors.source.reader_host import ReadersSource
from tidegate.datastream._graph.program_builder import ProgramBuilder
from tidegate.datastream._graph.transformation import ChainingStrategy, OperatorTransformation, PartitionTransformation
from tidegate.functions.adapted.custom_partitioning import CustomTarget
from tidegate.model.graph import Partitioner
from tidegate.model.program import KeySpec


def add_enumerated_source(
    env: ProgramBuilder,
    source: UserSource,
    strategy: WatermarkStrategy | None,
    name: str,
    output_type: TypeInformation,
) -> OperatorTransformation:
    """Adds the enumerator and the readers of a source; returns the readers' operator, which programs refer to."""
    if isinstance(source, HybridSource):
        source = source.dealing_in_advance() if makes_watermarks(strategy) else source
    readers = HybridReaders(source) if isinstance(source, HybridSource) else ReadersSource(source)
    enumerator = EnumeratorSource(source, readers.bounded)
    options = {"source": enumerator, "watermark_strategy": None}
    made = env.add_operator("source", f"{name} (enumerator)", options, enumerator.produced_type())
    made.parallelism, made.max_parallelism, made.is_non_parallel = 1, 1, True
    made.chaining = ChainingStrategy.NEVER
    to_readers = PartitionTransformation(
        env.next_transformation_id(),
        made.output_type,
        input=made,
        partitioner=Partitioner.CUSTOM,
        key=KeySpec(selector=CustomTarget.of(as_named, reader_of)),
    )
    reading = {"source": readers, "watermark_strategy": strategy}
    found = env.add_operator("enumerated_source", name, reading, output_type, (to_readers,))
    found.chaining = ChainingStrategy.HEAD
    return found
