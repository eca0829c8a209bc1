"""The descriptor of a deployment, as TaskManager and subtask receive it (Flink: ``TaskDeploymentDescriptor.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.model.checkpoint import TaskRestore
from tidegate.model.graph import Partitioner, SlotResources
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, Generation


@dataclass(frozen=True, slots=True)
class InputDeployment:
    """One incoming edge. ``producers[i]`` is the attempt behind channel i of this edge; addresses follow in
    ``ConnectTask`` once the producers are up. Channels of all inputs are numbered through, in the order of ``inputs``."""

    edge_id: int
    input_index: int
    partitioner: Partitioner
    producers: tuple[AttemptId, ...]
    source_name: str = ""
    """The name of the producers' vertex; ``source_parallelism`` is its parallelism."""
    source_parallelism: int = 0


@dataclass(frozen=True, slots=True)
class OutputDeployment:
    """One outgoing edge. ``consumers[i]`` is the subtask index behind subpartition i."""

    edge_id: int
    partitioner: Partitioner
    consumers: tuple[int, ...]
    consumer_parallelism: int
    consumer_max_parallelism: int
    supports_unaligned: bool = False
    """Barriers may overtake data here (``JobGraph.supports_unaligned``)."""
    input_index: int = 0
    """The input of the consumers."""


@dataclass(frozen=True, slots=True)
class TaskDeployment:
    """One subtask attempt, complete but for the addresses of its producers."""

    attempt: AttemptId
    generation: Generation
    allocation_id: AllocationId
    job_name: str
    task_name: str
    """Name of the vertex; logs show ``<task_name> (<subtask + 1>/<parallelism>)#<attempt>``."""
    parallelism: int
    max_parallelism: int
    program: BlobKey
    inputs: tuple[InputDeployment, ...] = ()
    outputs: tuple[OutputDeployment, ...] = ()
    restore: TaskRestore | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    blobs: Mapping[str, BlobKey] = field(default_factory=dict)
    is_source: bool = False
    data_token: str = ""
    """Shared secret of the job: presented by consumers when they connect to a producer."""
    spark_query: BlobKey | None = None
    """Blob of the pickled source of ``from_spark``: partition i of its DataFrame feeds subtask i."""
    finished_on_restore: bool = False
    """Every operator had finished in the restored checkpoint: forward end of data, acknowledge nothing but that."""
    slot_resources: SlotResources | None = None
    """What its slot is to have; ``None``: an equal share of the TaskManager."""
    signature: str = ""
    """That of its vertex, which its TaskManager checks."""


@dataclass(frozen=True, slots=True)
class ProducerAddress:
    """Where the data of one producer attempt is to be fetched: ``host:port`` or ``unix:/path``."""

    attempt: AttemptId
    address: str
