"""Transformations: what the API records while a program is built.

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
    """Whether an operator may be chained to its input (Flink: ``ChainingStrategy.java``). ``HEAD`` starts a chain that others may join; ``NEVER`` is
    not chained at all."""

    ALWAYS = "ALWAYS"
    NEVER = "NEVER"
    HEAD = "HEAD"
    """May have successors in its chain, but no predecessor."""


@dataclass(eq=False)
class Transformation:
    """A step of a program. ``transformation_id`` counts from 1 in the order of the program."""

    transformation_id: int
    output_type: TypeInformation | None


@dataclass(eq=False)
class OperatorTransformation(Transformation):
    """An operator. ``inputs[i]``: what its input i reads. ``parallelism`` ``None``: the environment's."""

    kind: OperatorKind
    name: str
    options: dict[str, UserObject]
    inputs: tuple[Transformation, ...] = ()
    key: KeySpec | None = None
    second_key: KeySpec | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    follows_input: bool = False
    """Whether the operator has its input's parallelism unless its own is set, so that it is chained to it (as Flink does for timestamps and watermarks)."""
    is_check: bool = False
    """Whether it is a check: it has no state and does not influence the ids of the operators around it."""
    is_non_parallel: bool = False
    """Whether parallelism must be 1."""
    uid: str = ""
    uid_hash: str = ""
    """The operator's id, if it was set explicitly."""
    slot_sharing_group: str | None = None
    slot_resources: SlotSharingGroup | None = None
    """The slot sharing group with its resources, if the operator joined it by object."""
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
    """Its name in the execution plan, if that differs from the partitioner's."""
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
