"""The job graph that a client submits, as plain values. User code is opaque here: a vertex names the blob of its pickled program
(``tidegate.model.program``), which the JobManager never opens.

Follows Flink's ``JobGraph.java``, ``JobVertex.java`` and ``JobEdge.java``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tidegate.model.coordinators.operator_events import SourceSplit
from tidegate.model.ids import BlobKey, JobId, OperatorId, VertexId

DEFAULT_SLOT_SHARING_GROUP = "default"


class Partitioner(Enum):
    """How records of an edge are distributed to the consumers (Flink: ``StreamPartitioner`` and its subclasses)."""

    FORWARD = "FORWARD"
    RESCALE = "RESCALE"
    REBALANCE = "REBALANCE"
    HASH = "HASH"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    CUSTOM = "CUSTOM"
    """By a user's function."""

    @property
    def is_pointwise(self) -> bool:
        """Returns whether a subtask sends only to a few subtasks determined by its own index."""
        return self in (Partitioner.FORWARD, Partitioner.RESCALE)

    @property
    def forces_alignment(self) -> bool:
        """Returns whether barriers are aligned on this edge in unaligned checkpoints too, since its in-flight data could not be redistributed."""
        return self.is_pointwise or self in (Partitioner.BROADCAST, Partitioner.CUSTOM)


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator of a chain, as far as the control plane knows it."""

    operator_id: OperatorId
    name: str
    uid: str = ""
    """The uid set by the user; empty when the id was generated from the graph."""
    uses_union_state: bool = False
    is_source: bool = False
    is_sink: bool = False
    splits: tuple[SourceSplit, ...] | None = None
    """The splits that a source's coordinator assigns; ``None``: the operator has no coordinator."""
    discovers_splits: bool = False
    """Whether one of its readers discovers new splits while the job runs, so that a coordinator without splits has not ended."""


@dataclass(frozen=True, slots=True)
class SlotResources:
    """The resources of a slot of a slot sharing group (Flink: ``SlotSharingGroup``). ``vertices``: how many have a subtask in such a slot, each a
    process of its own. ``external``: amounts by name, such as GPUs."""

    group: str
    vertices: int
    cpu_cores: float
    task_heap_bytes: int
    task_off_heap_bytes: int = 0
    managed_bytes: int = 0
    external: Mapping[str, float] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """Returns the memory that all processes in the slot have together."""
        return self.task_heap_bytes + self.task_off_heap_bytes + self.managed_bytes

    @property
    def cpus_of_subtask(self) -> int:
        """Returns the CPU cores of a subtask, whole ones as Spark counts them: an equal share of the slot's, at least one."""
        return max(1, math.ceil(self.cpu_cores / self.vertices))

    @property
    def external_of_subtask(self) -> dict[str, float]:
        """Returns the external resources of a subtask, an equal share of the slot's."""
        return {name: amount / self.vertices for name, amount in self.external.items()}


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain of operators that runs as ``parallelism`` subtasks. ``operators``: in the order of the chain."""

    vertex_id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorInfo, ...]
    program: BlobKey
    max_parallelism_is_explicit: bool = False
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    spark_query: BlobKey | None = None
    """The blob of the pickled source of ``from_spark``, which a TaskManager's Spark driver opens; ``None`` elsewhere."""
    keeps_parallelism: bool = False
    """Whether the parallelism cannot change: an operator is not parallel, or its source was split for this number of subtasks."""
    slot_resources: SlotResources | None = None
    """The slot resources of its group; ``None``: none were requested."""
    signature: str = ""
    """The client's signature of its program, with a key of the cluster (``tidegate.security.signing``); empty: it is not signed."""

    @property
    def is_source(self) -> bool:
        return any(op.is_source for op in self.operators)


@dataclass(frozen=True, slots=True)
class JobEdge:
    """An edge of a job graph. ``edge_id``: its index in ``JobGraph.edges``. ``input_index``: 0, or 1 for the second input of a two-input operator.
    Edges of one consumer with the same ``input_index`` form a union."""

    edge_id: int
    source: VertexId
    target: VertexId
    partitioner: Partitioner
    input_index: int = 0


class CheckpointingMode(Enum):
    """The guarantee of a job's checkpoints."""

    EXACTLY_ONCE = "EXACTLY_ONCE"
    AT_LEAST_ONCE = "AT_LEAST_ONCE"


@dataclass(frozen=True, slots=True)
class JobGraph:
    """A whole job. ``configuration``: the job's options as texts (Flink's keys), checked by the client; they override the cluster's configuration.
    ``blobs``: further files to ship, by file name."""

    job_id: JobId
    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)
    blobs: Mapping[str, BlobKey] = field(default_factory=dict)
    python_version: str = ""
    """The major and minor version of the client's interpreter, such as ``3.11``: pickled programs run on no other."""

    @property
    def has_blocking_exchanges(self) -> bool:
        """Returns whether subtasks start only when their producers have finished. The client decides it, and sets both options by name."""
        return blocks_exchanges(self.configuration)

    def blob_keys(self) -> list[BlobKey]:
        """Returns the keys in the blob store of the job's programs, queries and files, each once."""
        programs = [vertex.program for vertex in self.vertices]
        queries = [vertex.spark_query for vertex in self.vertices if vertex.spark_query is not None]
        return list(dict.fromkeys([*programs, *queries, *self.blobs.values()]))

    def vertex(self, vertex_id: VertexId) -> JobVertex:
        return next(v for v in self.vertices if v.vertex_id == vertex_id)

    def inputs_of(self, vertex_id: VertexId) -> tuple[JobEdge, ...]:
        """Returns the input edges of a vertex, in the order in which its input gate numbers them."""
        return tuple(e for e in self.edges if e.target == vertex_id)

    def outputs_of(self, vertex_id: VertexId) -> tuple[JobEdge, ...]:
        return tuple(e for e in self.edges if e.source == vertex_id)

    def supports_unaligned(self, vertex_id: VertexId) -> bool:
        """Returns whether barriers may overtake data on the inputs of a vertex: one input whose in-flight data cannot be redistributed (pointwise,
        broadcast) makes all of them aligned (Flink: ``StreamPartitioner.isSupportsUnalignedCheckpoint``)."""
        return not any(e.partitioner.forces_alignment for e in self.inputs_of(vertex_id))


def blocks_exchanges(configuration: Mapping[str, str]) -> bool:
    """Returns whether the configuration of a built job has blocking exchanges."""
    return (
        configuration.get("execution.runtime-mode") == "BATCH"
        and configuration.get("execution.batch-shuffle-mode") == "ALL_EXCHANGES_BLOCKING"
    )


def producers_of(partitioner: Partitioner, producers: int, consumers: int, consumer: int) -> range:
    """Returns the indices of the producer subtasks that consumer subtask ``consumer`` reads from.

    FORWARD needs equal parallelism. RESCALE follows ``VertexInputInfoComputationUtils.java`` (contiguous ranges);
    all other edges connect every producer with every consumer.
    """
    if not partitioner.is_pointwise:
        return range(producers)
    if partitioner is Partitioner.FORWARD:
        assert producers == consumers, (producers, consumers)
        return range(consumer, consumer + 1)
    if consumers >= producers:
        index = consumer * producers // consumers
        return range(index, index + 1)
    return range(consumer * producers // consumers, (consumer + 1) * producers // consumers)
