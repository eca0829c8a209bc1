"""`StreamNode` and `StreamEdge`: the operators of a stream graph, and the edges between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.common.typeinfo import TypeInformation
from tidegate.datastream._graph.transformation import ChainingStrategy
from tidegate.model.graph import Partitioner
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.values import UserObject


@dataclass(frozen=True)
class StreamEdge:
    """An edge of a stream graph. ``type_info``: of the records, which is that of the side output when ``tag`` is set."""

    source: int
    target: int
    partitioner: Partitioner
    type_info: TypeInformation
    input_index: int = 0
    key: KeySpec | None = None
    tag: str = ""
    shown_as: str = ""


@dataclass
class StreamNode:
    """An operator with final settings. ``node_id`` counts from 0 in the order of the program."""

    node_id: int
    kind: OperatorKind
    name: str
    options: dict[str, UserObject]
    output_type: TypeInformation | None
    parallelism: int
    max_parallelism: int | None
    slot_sharing_group: str
    chaining: ChainingStrategy
    key: KeySpec | None
    second_key: KeySpec | None
    uid: str
    uid_hash: str = ""
    buffer_timeout_ms: int | None = None
    is_non_parallel: bool = False
    """Whether it must run with parallelism 1."""
    is_check: bool = False
    """Whether it is a check, which does not influence the ids of the operators around it."""
    inputs: list[StreamEdge] = field(default_factory=list)
    outputs: list[StreamEdge] = field(default_factory=list)

    @property
    def display_name(self) -> str:
        """Returns the name that Flink shows."""
        prefix = {"source": "Source: ", "enumerated_source": "Source: ", "sink": "Sink: "}.get(self.kind, "")
        return prefix + self.name
