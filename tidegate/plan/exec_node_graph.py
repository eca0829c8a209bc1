"""Decodes and encodes a compiled plan of Flink's planner: its nodes and the edges between them.

Nothing is dropped: a field that a node's version does not have is an error that names the node and the field, and
``encode_plan(decode_plan(text))`` is the same JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidegate.plan.errors import MalformedPlan
from tidegate.plan.expressions import PlanPart
from tidegate.plan.logical_types import LogicalType, decode_type, encode_type
from tidegate.plan.nodes import NODES, BatchExchange1, Node
from tidegate.plan.specs import ExecEdge

SUPPORTED_VERSIONS = ("2.3",)
"""The supported versions of Flink: a plan keeps its meaning only within the minor version that compiled it."""


class ExecNodeGraph:
    """A decoded plan, streaming or batch. ``nodes``: in the order of the JSON, inputs first."""

    def __init__(self, flink_version: str, nodes: tuple[Node, ...], edges: tuple[ExecEdge, ...]) -> None:
        self.flink_version = flink_version
        self.nodes = nodes
        self.edges = edges
        self._by_id = {node.id: node for node in nodes}
        self._inputs = _inputs(nodes, edges)
        self._outputs: dict[int, list[int]] = {node.id: [] for node in nodes}
        for target, sources in self._inputs.items():
            for source in sources:
                self._outputs[source].append(target)

    def node(self, id: int) -> Node:
        return self._by_id[id]

    def inputs(self, id: int) -> tuple[Node, ...]:
        """Returns the inputs of a node in order."""
        return tuple(self._by_id[source] for source in self._inputs[id])

    def outputs(self, id: int) -> tuple[Node, ...]:
        return tuple(self._by_id[target] for target in self._outputs[id])

    @property
    def sinks(self) -> tuple[Node, ...]:
        """The nodes without a reader."""
        return tuple(node for node in self.nodes if not self._outputs[node.id])

    @property
    def is_batch(self) -> bool:
        return any(node.kind.startswith("batch-") for node in self.nodes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecNodeGraph) and (self.flink_version, self.nodes, self.edges) == (
            other.flink_version,
            other.nodes,
            other.edges,
        )

    __hash__ = None  # type: ignore[assignment]


def decode_plan(text: bytes | str) -> ExecNodeGraph:
    """Decodes the JSON of ``COMPILE PLAN``. Raises ``MalformedPlan``, naming node and field, for an invalid plan or one of another version of Flink,
    for unknown kinds of nodes and unknown fields."""
    try:
        written = msgspec.json.decode(text, type=_Written)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedPlan(f"this is not a compiled plan: {error}") from error
    if written.flinkVersion not in SUPPORTED_VERSIONS:
        raise MalformedPlan(
            f"the plan was compiled by Flink {written.flinkVersion}; plans of {', '.join(SUPPORTED_VERSIONS)} can be read: "
            "compile its statement again"
        )
    nodes = tuple(map(_decode_node, written.nodes))
    edges = _decode_edges(written.edges)
    _check_graph(nodes, edges)
    return ExecNodeGraph(written.flinkVersion, nodes, edges)


def encode_plan(plan: ExecNodeGraph) -> bytes:
    """Encodes a plan as the JSON from which it was decoded, without blanks."""
    written = _Written(
        plan.flink_version,
        [msgspec.Raw(_ENCODER.encode(node)) for node in plan.nodes],
        msgspec.Raw(_ENCODER.encode(plan.edges)),
    )
    return _ENCODER.encode(written)


class _Written(msgspec.Struct, forbid_unknown_fields=True):
    flinkVersion: str  # noqa: N815
    nodes: list[msgspec.Raw]
    edges: msgspec.Raw


class _Head(msgspec.Struct):
    type: str
    id: int


def _decode_hook(type: type, value: object) -> object:
    if type is LogicalType:
        try:
            return decode_type(value)
        except (KeyError, TypeError) as error:
            raise MalformedPlan(f"the type {json.dumps(value)} cannot be read") from error
    raise NotImplementedError(type)


def _encode_hook(value: object) -> object:
    if isinstance(value, LogicalType):
        return encode_type(value)
    raise NotImplementedError(type(value))


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_hook)
_DECODERS: dict[type[PlanPart], msgspec.json.Decoder[Any]] = {}


def _decode_node(text: msgspec.Raw) -> Node:
    try:
        head = msgspec.json.decode(text, type=_Head)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedPlan(f"a node of the plan cannot be read: {error}; compile the statement again") from error
    kind = NODES.get(head.type)
    if kind is None:
        raise MalformedPlan(f"node {head.id}: {head.type} is not supported{_other_versions(head.type)}")
    if kind not in _DECODERS:
        _DECODERS[kind] = msgspec.json.Decoder(kind, dec_hook=_decode_hook)
    try:
        node: Node = _DECODERS[kind].decode(text)
    except (msgspec.DecodeError, RecursionError, MalformedPlan) as error:
        raise MalformedPlan(
            f"node {head.id}, {head.type}: {error}; the compiled plan is of another version or was changed: compile the statement again"
        ) from error
    return node


def _other_versions(kind: str) -> str:
    name = kind.rpartition("_")[0]
    known = [other for other in NODES if other.rpartition("_")[0] == name]
    return f"; {', '.join(known)} is: compile the statement again with the current version" if known else ""


def _decode_edges(text: msgspec.Raw) -> tuple[ExecEdge, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[ExecEdge, ...])
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedPlan(f"the edges of the plan cannot be read: {error}; compile the statement again") from error


def _check_graph(nodes: tuple[Node, ...], edges: tuple[ExecEdge, ...]) -> None:
    by_id: dict[int, Node] = {}
    for node in nodes:
        if node.id in by_id:
            raise MalformedPlan(
                f"two nodes of the plan have the id {node.id}: {by_id[node.id].kind} and {node.kind}; compile the statement again"
            )
        by_id[node.id] = node
    for edge in edges:
        for end in (edge.source, edge.target):
            if end not in by_id:
                raise MalformedPlan(
                    f"an edge from {edge.source} to {edge.target} names node {end}, which the plan does not have; compile the statement again"
                )
    inputs = _inputs(nodes, edges)
    for id, sources in inputs.items():
        wanted = len(by_id[id].input_properties)
        if len(sources) != wanted:
            raise MalformedPlan(
                f"node {id}, {by_id[id].kind}, has {len(sources)} inputs in the plan, but takes {wanted}; compile the statement again"
            )
    _check_order(inputs)


def _inputs(nodes: tuple[Node, ...], edges: tuple[ExecEdge, ...]) -> dict[int, list[int]]:
    """Returns the sources of each node in order.

    Two exchanges of one node that deal alike, and differ in their mode alone, as batch mode makes them where a node is read twice, are
    written with both edges at one of them and none at the other: each gets its own.
    """
    inputs: dict[int, list[int]] = {node.id: [] for node in nodes}
    for edge in edges:
        inputs[edge.target].append(edge.source)
    exchanges = [node for node in nodes if isinstance(node, BatchExchange1)]
    for bare in exchanges:
        if inputs[bare.id]:
            continue
        for twin in exchanges:
            sources = inputs[twin.id]
            deals_the_same = (twin.output_type, twin.input_properties) == (bare.output_type, bare.input_properties)
            if deals_the_same and len(sources) > 1 and len(set(sources)) == 1:
                inputs[bare.id] = [sources.pop()]
                break
    return inputs


def _check_order(inputs: Mapping[int, Sequence[int]]) -> None:
    left = {id: set(sources) for id, sources in inputs.items()}
    while ready := [id for id, sources in left.items() if not sources]:
        for id in ready:
            del left[id]
        for sources in left.values():
            sources.difference_update(ready)
    if left:
        raise MalformedPlan(f"the plan goes round in a circle through the nodes {', '.join(map(str, sorted(left)))}")
