"""The descriptor of a deployment, as TaskManager and subtask get it (Flink: ``TaskDeploymentDescriptor.java``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.model.checkpoint import TaskRestore
from tidegate.model.graph import Partitioner, SlotResources
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, Generation


@dataclass(frozen=True, slots=True)
class InputDeployment:
    """An incoming edge of a subtask. ``producers[i]``: the attempt that feeds channel i of this edge; addresses follow in ``ConnectTask`` once the
    producers run. Channels of all inputs are numbered consecutively, in the order of ``inputs``."""

    edge_id: int
    input_index: int
    partitioner: Partitioner
    producers: tuple[AttemptId, ...]
    source_name: str = ""
    """The name of the producers' vertex; ``source_parallelism`` is its parallelism."""
    source_parallelism: int = 0


@dataclass(frozen=True, slots=True)
class OutputDeployment:
    """An outgoing edge of a subtask. ``consumers[i]``: the subtask index of the consumer of subpartition i."""

    edge_id: int
    partitioner: Partitioner
    consumers: tuple[int, ...]
    consumer_parallelism: int
    consumer_max_parallelism: int
    supports_unaligned: bool = False
    """Whether barriers may overtake data on this edge (``JobGraph.supports_unaligned``)."""
    input_index: int = 0
    """The input index of the consumers."""


@dataclass(frozen=True, slots=True)
class TaskDeployment:
    """The deployment of one subtask attempt, complete except for the addresses of its producers."""

    attempt: AttemptId
    generation: Generation
    allocation_id: AllocationId
    job_name: str
    task_name: str
    """The name of the vertex; logs show ``<task_name> (<subtask + 1>/<parallelism>)#<attempt>``."""
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
    """The shared secret of the job, which consumers present when they connect to a producer."""
    spark_query: BlobKey | None = None
    """The blob of the pickled source of ``from_spark``: partition i of its DataFrame feeds subtask i."""
    finished_on_restore: bool = False
    """Whether every operator had finished in the restored checkpoint: the subtask only forwards end of data and acknowledges that."""
    slot_resources: SlotResources | None = None
    """The resources of its slot; ``None``: an equal share of the TaskManager's."""
    signature: str = ""
    """The signature of its vertex, which its TaskManager verifies."""


@dataclass(frozen=True, slots=True)
class ProducerAddress:
    """The data address of one producer attempt: ``host:port`` or ``unix:/path``."""

    attempt: AttemptId
    address: str
