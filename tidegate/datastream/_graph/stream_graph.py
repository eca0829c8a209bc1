"""The stream graph: all operators of a program with their final settings, and the edges between them.

Virtual transformations dissolve into edges: a union into several, a partitioning into the edge's partitioner, a side output
into its tag. Follows Flink's ``StreamGraphGenerator.java``:

- An edge without a partitioning of its own is FORWARD between operators of equal parallelism, else REBALANCE.
- The slot sharing group is the operator's own, or that of its inputs if they agree, or ``default``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Source
from tidegate.datastream._graph.batch_execution import to_batch
from tidegate.datastream._graph.stream_node import StreamEdge, StreamNode
from tidegate.datastream._graph.transformation import (
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from tidegate.datastream.execution_mode import RuntimeExecutionMode
from tidegate.datastream.slot_sharing_group import SlotSharingGroup
from tidegate.functions.output_tag import OutputTag
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import DEFAULT_SLOT_SHARING_GROUP, Partitioner
from tidegate.model.ids import hex_id
from tidegate.model.program import KeySpec


@dataclass
class StreamGraph:
    """The operators of a program with their final settings, sources first (Flink: ``StreamGraph.java``)."""

    nodes: list[StreamNode]
    is_chaining_enabled: bool
    is_batch: bool = False
    groups: Mapping[str, SlotSharingGroup] = field(default_factory=dict)
    """Slot sharing groups with resources, by name."""


def make_stream_graph(
    transformations: Sequence[OperatorTransformation],
    parallelism: int,
    max_parallelism: int | None,
    is_chaining_enabled: bool,
    mode: RuntimeExecutionMode,
    groups: Mapping[str, SlotSharingGroup],
) -> StreamGraph:
    """Builds the stream graph of transformations. Raises ``InvalidJob`` for a program that cannot run."""
    wanted = _reachable([t for t in transformations if t.kind not in ("source", "enumerated_source")])
    if not wanted:
        raise InvalidJob("the program has no operators: nothing to execute (add a transformation or a sink)")
    is_batch = _is_batch(mode, wanted)
    maker = _GraphMaker(parallelism, max_parallelism, is_batch)
    for transformation in wanted:
        maker.add(transformation)
    _place_enumerators(maker.nodes)
    _name_local_windows(maker.nodes)
    _refuse_duplicate_uids(maker.nodes)
    return StreamGraph(maker.nodes, is_chaining_enabled, is_batch, _groups_of(wanted, groups))


class _GraphMaker:
    def __init__(self, parallelism: int, max_parallelism: int | None, is_batch: bool) -> None:
        self.nodes: list[StreamNode] = []
        self._ids: dict[int, int] = {}  # transformation id -> node id
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._is_batch = is_batch

    def add(self, transformation: OperatorTransformation) -> None:
        """Adds an operator, whose inputs were added before."""
        node_id = len(self.nodes)
        edges = [
            self._edge(origin, index, node_id)
            for index, virtual in enumerate(transformation.inputs)
            for origin in _origins(virtual)
        ]
        node = StreamNode(
            node_id=node_id,
            kind=transformation.kind,
            name=transformation.name,
            options=dict(transformation.options),
            output_type=transformation.output_type,
            parallelism=transformation.parallelism or self._inherited(transformation, edges) or self._parallelism,
            max_parallelism=transformation.max_parallelism or self._inherited_maximum(transformation, edges),
            slot_sharing_group=transformation.slot_sharing_group or self._group_of_inputs(edges),
            chaining=transformation.chaining,
            key=transformation.key,
            second_key=transformation.second_key,
            uid=transformation.uid,
            buffer_timeout_ms=transformation.buffer_timeout_ms,
            uid_hash=transformation.uid_hash,
            is_non_parallel=transformation.is_non_parallel,
            is_check=transformation.is_check,
        )
        if node.max_parallelism is not None and node.parallelism > node.max_parallelism:
            raise InvalidJob(
                f"operator {node.name!r}: parallelism {node.parallelism} is larger than the maximum {node.max_parallelism}"
            )
        if self._is_batch:
            to_batch(node)
        self.nodes.append(node)
        self._ids[transformation.transformation_id] = node_id
        for edge, forced in edges:
            final = replace(edge, partitioner=self._final_partitioner(edge, forced, node))
            node.inputs.append(final)
            self.nodes[final.source].outputs.append(final)

    def _edge(self, origin: _Origin, input_index: int, target: int) -> tuple[StreamEdge, Partitioner | None]:
        edge = StreamEdge(
            source=self._ids[origin.operator.transformation_id],
            target=target,
            partitioner=Partitioner.FORWARD,
            type_info=origin.type_info,
            input_index=input_index,
            key=origin.key,
            tag="" if origin.tag is None else origin.tag.tag_id,
            shown_as=origin.shown_as,
        )
        return edge, origin.partitioner

    def _final_partitioner(self, edge: StreamEdge, forced: Partitioner | None, target: StreamNode) -> Partitioner:
        source = self.nodes[edge.source]
        is_equal = source.parallelism == target.parallelism
        if forced is None:
            return Partitioner.FORWARD if is_equal else Partitioner.REBALANCE
        if forced is Partitioner.FORWARD and not is_equal:
            raise InvalidJob(
                f"forward() from {source.name!r} (parallelism {source.parallelism}) to {target.name!r} "
                f"(parallelism {target.parallelism}): forward needs equal parallelism; use rebalance() or rescale()"
            )
        return forced

    def _followed(
        self, transformation: OperatorTransformation, edges: list[tuple[StreamEdge, Partitioner | None]]
    ) -> list[StreamNode]:
        if not transformation.follows_input or any(forced is not None for _, forced in edges):
            return []
        return [self.nodes[edge.source] for edge, _ in edges]

    def _inherited(
        self, transformation: OperatorTransformation, edges: list[tuple[StreamEdge, Partitioner | None]]
    ) -> int | None:
        found = {node.parallelism for node in self._followed(transformation, edges)}
        return found.pop() if len(found) == 1 else None

    def _inherited_maximum(
        self, transformation: OperatorTransformation, edges: list[tuple[StreamEdge, Partitioner | None]]
    ) -> int | None:
        found = {node.max_parallelism for node in self._followed(transformation, edges)}
        return found.pop() if len(found) == 1 else self._max_parallelism

    def _group_of_inputs(self, edges: list[tuple[StreamEdge, Partitioner | None]]) -> str:
        groups = {self.nodes[edge.source].slot_sharing_group for edge, _ in edges}
        return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP


@dataclass(frozen=True)
class _Origin:
    """An operator after virtual transformations, with their settings."""

    operator: OperatorTransformation
    type_info: TypeInformation
    partitioner: Partitioner | None = None
    shown_as: str = ""
    key: KeySpec | None = None
    tag: OutputTag | None = None


def _origins(transformation: Transformation) -> list[_Origin]:
    match transformation:
        case OperatorTransformation():
            assert transformation.output_type is not None, "nothing reads a sink"
            return [_Origin(transformation, transformation.output_type)]
        case UnionTransformation(inputs=inputs):
            return [origin for member in inputs for origin in _origins(member)]
        case PartitionTransformation(input=before, partitioner=partitioner, key=key, shown_as=shown_as):
            # The partitioning nearest to the consumer wins, as in Flink.
            return [replace(o, partitioner=partitioner, key=key, shown_as=shown_as) for o in _origins(before)]
        case SideOutputTransformation(input=before, tag=tag):
            return [replace(origin, tag=tag, type_info=tag.type_info) for origin in _origins(before)]
    raise AssertionError(
        f"the stream graph does not know a transformation of the class {type(transformation).__name__}"
    )


def _reachable(ends: Sequence[OperatorTransformation]) -> list[OperatorTransformation]:
    """Returns these operators and all their inputs, in the order of the program. As in Flink, a source without consumers is not part of the job; one
    that an earlier execution read is part of this one again."""
    found: dict[int, OperatorTransformation] = {}
    waiting = list(ends)
    while waiting:
        operator = waiting.pop()
        if operator.transformation_id not in found:
            found[operator.transformation_id] = operator
            waiting += [origin.operator for virtual in operator.inputs for origin in _origins(virtual)]
    return [found[transformation_id] for transformation_id in sorted(found)]


def _is_batch(mode: RuntimeExecutionMode, transformations: Sequence[OperatorTransformation]) -> bool:
    unbounded = [t for t in transformations if t.kind == "source" and not _source_of(t).bounded]
    if mode is RuntimeExecutionMode.BATCH and unbounded:
        raise InvalidJob(f"BATCH execution mode needs bounded sources, but {unbounded[0].name!r} never ends")
    return mode is RuntimeExecutionMode.BATCH or (mode is RuntimeExecutionMode.AUTOMATIC and not unbounded)


def _source_of(transformation: OperatorTransformation) -> Source:
    source: Source = transformation.options["source"]
    return source


def _place_enumerators(nodes: Sequence[StreamNode]) -> None:
    """Copies settings of sources' readers to their enumerators."""
    for node in nodes:
        if node.kind == "enumerated_source":
            enumerator = nodes[node.inputs[0].source]
            enumerator.slot_sharing_group = node.slot_sharing_group
            enumerator.options["source"] = replace(enumerator.options["source"], readers=node.parallelism)
            if node.uid:
                enumerator.uid = f"{node.uid}-enumerator"


def _name_local_windows(nodes: Sequence[StreamNode]) -> None:
    """Derives the uid of a window's local aggregation from the window's, since a program cannot name it."""
    for node in nodes:
        if node.kind in ("columnar_window", "columnar_session") and node.options.get("input") == "partial":
            local = nodes[node.inputs[0].source]
            local.uid = f"{node.uid}-local" if node.uid else ""
            local.uid_hash = hex_id("uid", f"{node.uid_hash}-local") if node.uid_hash else ""


def _groups_of(
    transformations: Sequence[OperatorTransformation], registered: Mapping[str, SlotSharingGroup]
) -> dict[str, SlotSharingGroup]:
    """Returns the slot sharing groups with resources. Raises ``InvalidJob`` if two with the same name differ."""
    found = dict(registered)
    for group in (t.slot_resources for t in transformations if t.slot_resources is not None):
        if group.cpu_cores is not None and found.setdefault(group.name, group) != group:
            raise InvalidJob(
                f"slot sharing group {group.name!r} has two definitions with different resources; define it once, and use the object"
            )
    return {name: group for name, group in found.items() if group.cpu_cores is not None}


def _refuse_duplicate_uids(nodes: Sequence[StreamNode]) -> None:
    seen: dict[str, StreamNode] = {}
    for node in nodes:
        if node.uid and node.uid in seen:
            raise InvalidJob(
                f"uid {node.uid!r} is used twice, by {seen[node.uid].name!r} and {node.name!r}: it must be unique in the job"
            )
        seen[node.uid] = node
