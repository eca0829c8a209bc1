"""What the API records while a program is built: operators, and the virtual steps between them.

    OperatorTransformation      becomes an operator: has a kind, options, parallelism, uid ...
    PartitionTransformation  ┐
    UnionTransformation      ├  virtual: only say how the records reach the next operator
    SideOutputTransformation ┘

Follows Flink's ``Transformation.java`` and its subclasses. Nothing is checked against other operators here: the stream
graph does that when the job is executed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tidegate.common.typeinfo import TypeInformation
from tidegate.datastream.slot_sharing_group import SlotSharingGroup
from tidegate.functions.output_tag import OutputTag
from tidegate.model.graph import Partitioner
from tidegate.model.program import KeySpec, OperatorKind
from tidegate.model.values import UserObject


class ChainingStrategy(Enum):
    """Says whether an operator may share a task with the operator before it (Flink: ``ChainingStrategy.java``). A
    ``HEAD`` begins a chain and lets others join it; ``NEVER`` stands alone."""

    ALWAYS = "ALWAYS"
    NEVER = "NEVER"
    HEAD = "HEAD"
    """May have successors in its chain, but no predecessor."""


@dataclass(eq=False)
class Transformation:
    """``transformation_id`` counts from 1 in the order of the program."""

    transformation_id: int
    output_type: TypeInformation | None


@dataclass(eq=False)
class OperatorTransformation(Transformation):
    """``inputs[i]`` is what input i of the operator reads. ``parallelism`` is ``None``: that of the environment."""

    kind: OperatorKind
    name: str
    options: dict[str, UserObject]
    inputs: tuple[Transformation, ...] = ()
    key: KeySpec | None = None
    second_key: KeySpec | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    follows_input: bool = False
    """Without a parallelism of its own it takes that of its input, so that it is chained to it (as Flink does for
    timestamps and watermarks)."""
    is_check: bool = False
    """It has no state, and the operators around it have the ids that they have without it."""
    is_non_parallel: bool = False
    """Parallelism is 1 and must stay so."""
    uid: str = ""
    uid_hash: str = ""
    """The operator's id itself."""
    slot_sharing_group: str | None = None
    slot_resources: SlotSharingGroup | None = None
    """The group with its resources, where the operator joined it so."""
    chaining: ChainingStrategy = ChainingStrategy.ALWAYS
    description: str = ""
    buffer_timeout_ms: int | None = None


@dataclass(eq=False)
class PartitionTransformation(Transformation):
    """A virtual step that says how records reach the subtasks of the next operator (Flink:
    ``PartitionTransformation.java``)."""

    input: Transformation = field(kw_only=True)
    partitioner: Partitioner = field(kw_only=True)
    shown_as: str = field(default="", kw_only=True)
    """In the execution plan, where that is another word than the partitioner's."""
    key: KeySpec | None = field(default=None, kw_only=True)


@dataclass(eq=False)
class UnionTransformation(Transformation):
    """A virtual step that joins several streams of one type into one (Flink: ``UnionTransformation.java``)."""

    inputs: tuple[Transformation, ...] = field(kw_only=True)


@dataclass(eq=False)
class SideOutputTransformation(Transformation):
    """A virtual step that selects what an operator emitted with a tag (Flink: ``SideOutputTransformation.java``)."""

    input: Transformation = field(kw_only=True)
    tag: OutputTag = field(kw_only=True)
