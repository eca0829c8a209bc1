"""The job graph: what a client submits, as plain values. User code is opaque here: a vertex names the blob that holds
its pickled program (``tidegate.model.program``), and the JobManager never opens it.

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
    """How records of an edge are dealt to the consumers (Flink: ``StreamPartitioner`` and its subclasses)."""

    FORWARD = "FORWARD"
    RESCALE = "RESCALE"
    REBALANCE = "REBALANCE"
    HASH = "HASH"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    CUSTOM = "CUSTOM"
    """By a function of the user."""

    @property
    def is_pointwise(self) -> bool:
        """Tells whether a subtask sends to few subtasks that its own index decides, not to all of them."""
        return self in (Partitioner.FORWARD, Partitioner.RESCALE)

    @property
    def forces_alignment(self) -> bool:
        """Tells whether barriers are aligned here in unaligned checkpoints, too, since data in flight could not be dealt out again."""
        return self.is_pointwise or self in (Partitioner.BROADCAST, Partitioner.CUSTOM)


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """What the control plane knows of one operator of a chain."""

    operator_id: OperatorId
    name: str
    uid: str = ""
    """Set by the user; empty when the id was generated from the graph."""
    uses_union_state: bool = False
    is_source: bool = False
    is_sink: bool = False
    splits: tuple[SourceSplit, ...] | None = None
    """The splits that the coordinator of a source hands out. ``None``: the operator has no coordinator."""
    discovers_splits: bool = False
    """One of its readers looks for new splits while the job runs, so that a coordinator without any has not come to an end."""


@dataclass(frozen=True, slots=True)
class SlotResources:
    """What a slot of a slot sharing group is to have, as its program said (Flink: ``SlotSharingGroup``). ``vertices``:
    as many have a subtask in such a slot, each a process of its own. ``external``: amounts by name, of GPUs for
    instance."""

    group: str
    vertices: int
    cpu_cores: float
    task_heap_bytes: int
    task_off_heap_bytes: int = 0
    managed_bytes: int = 0
    external: Mapping[str, float] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> int:
        """All processes in the slot have it together."""
        return self.task_heap_bytes + self.task_off_heap_bytes + self.managed_bytes

    @property
    def cpus_of_subtask(self) -> int:
        """Whole cores, as Spark counts them: an equal share of the slot's, at least one."""
        return max(1, math.ceil(self.cpu_cores / self.vertices))

    @property
    def external_of_subtask(self) -> dict[str, float]:
        """An equal share of the slot's."""
        return {name: amount / self.vertices for name, amount in self.external.items()}


@dataclass(frozen=True, slots=True)
class JobVertex:
    """A chain of operators that runs as ``parallelism`` subtasks. ``operators`` is in the order of the chain."""

    vertex_id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    operators: tuple[OperatorInfo, ...]
    program: BlobKey
    max_parallelism_is_explicit: bool = False
    slot_sharing_group: str = DEFAULT_SLOT_SHARING_GROUP
    spark_query: BlobKey | None = None
    """Blob of the pickled source of ``from_spark``, which a TaskManager's Spark driver opens; ``None`` elsewhere."""
    keeps_parallelism: bool = False
    """It cannot run with another one: an operator of it runs in one subtask only, or its source was cut for so many."""
    slot_resources: SlotResources | None = None
    """What a slot of its group is to have; ``None``: the program asks for nothing."""
    signature: str = ""
    """What its client says of its program, under a key that the cluster has (``tidegate.security.signing``); empty: it is not signed."""

    @property
    def is_source(self) -> bool:
        return any(op.is_source for op in self.operators)


@dataclass(frozen=True, slots=True)
class JobEdge:
    """``edge_id`` is the place in ``JobGraph.edges``. ``input_index`` is 0, or 1 for the second input of a
    two-input operator. The edges of one consumer with the same ``input_index`` form a union."""

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
    """A whole job. ``configuration`` holds the job's options as texts (Flink's keys), already checked by the client;
    the cluster's own configuration lies below it. ``blobs`` are further files to ship, by file name."""

    job_id: JobId
    name: str
    vertices: tuple[JobVertex, ...]
    edges: tuple[JobEdge, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)
    blobs: Mapping[str, BlobKey] = field(default_factory=dict)
    python_version: str = ""
    """Major and minor of the client's interpreter, such as ``3.11``: pickled programs run on no other."""

    @property
    def has_blocking_exchanges(self) -> bool:
        """Whether a subtask begins only when those that it reads from have finished. The client has decided it, and says both
        by name."""
        return blocks_exchanges(self.configuration)

    def blob_keys(self) -> list[BlobKey]:
        """Returns the keys of its programs, queries and files, each once."""
        programs = [vertex.program for vertex in self.vertices]
        queries = [vertex.spark_query for vertex in self.vertices if vertex.spark_query is not None]
        return list(dict.fromkeys([*programs, *queries, *self.blobs.values()]))

    def vertex(self, vertex_id: VertexId) -> JobVertex:
        return next(v for v in self.vertices if v.vertex_id == vertex_id)

    def inputs_of(self, vertex_id: VertexId) -> tuple[JobEdge, ...]:
        """Input edges of a vertex, in the order in which its input gate numbers them."""
        return tuple(e for e in self.edges if e.target == vertex_id)

    def outputs_of(self, vertex_id: VertexId) -> tuple[JobEdge, ...]:
        return tuple(e for e in self.edges if e.source == vertex_id)

    def supports_unaligned(self, vertex_id: VertexId) -> bool:
        """Whether barriers may overtake data on the inputs of a vertex: one input whose data in flight cannot be dealt
        anew (pointwise, broadcast) makes all of them aligned (Flink: ``StreamPartitioner.isSupportsUnalignedCheckpoint``)."""
        return not any(e.partitioner.forces_alignment for e in self.inputs_of(vertex_id))


def blocks_exchanges(configuration: Mapping[str, str]) -> bool:
    """Tells it of the configuration of a built job."""
    return (
        configuration.get("execution.runtime-mode") == "BATCH"
        and configuration.get("execution.batch-shuffle-mode") == "ALL_EXCHANGES_BLOCKING"
    )


def producers_of(partitioner: Partitioner, producers: int, consumers: int, consumer: int) -> range:
    """Indices of the producer subtasks that consumer subtask ``consumer`` reads from.

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
