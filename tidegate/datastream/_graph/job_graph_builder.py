"""The job graph builder: makes a ``JobGraph`` and its blobs of a stream graph.

    StreamGraph ──chaining──▶ Chain ──▶ JobVertex + pickled VertexProgram (a blob)
                └─ edges between chains ──▶ JobEdge

Here the client does its share: lists the splits of sources, validates sinks, pickles programs, ships modules.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.common.watermark_strategy import WatermarkStrategy, makes_watermarks
from tidegate.connectors.base import Sink, Source, Split
from tidegate.connectors.source.enumerator_host import EnumeratorSource
from tidegate.connectors.spark.frame_job import SparkFrameJob
from tidegate.connectors.spark.sink import SparkSink
from tidegate.connectors.spark.source import SparkSource
from tidegate.connectors.spark.stream_source import SparkStreamSource
from tidegate.connectors.split_discovery import source_split
from tidegate.connectors.throttle import ThrottledSource
from tidegate.datastream._graph.chaining import Chain, chain_name, make_chains, operator_ids
from tidegate.datastream._graph.dependencies import shipped_dependencies
from tidegate.datastream._graph.group_resources import slot_resources_of
from tidegate.datastream._graph.local_modules import shipped_files
from tidegate.datastream._graph.program_pickling import pickle_for_spark, pickle_program
from tidegate.datastream._graph.stream_graph import StreamGraph
from tidegate.datastream._graph.stream_node import StreamEdge, StreamNode
from tidegate.functions.adapters import user_function_of
from tidegate.functions.checkpointed_function import CheckpointedFunction, CheckpointListener
from tidegate.model.configuration import Configuration
from tidegate.model.coordinators.operator_events import SourceSplit
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo, SlotResources
from tidegate.model.ids import BlobKey, JobId, OperatorId, VertexId
from tidegate.model.keygroups import default_max_parallelism
from tidegate.model.program import ChainLink, InputSpec, OperatorSpec, OutputSpec, VertexProgram
from tidegate.model.values import UserObject
from tidegate.operator_options import make_options
from tidegate.wire.user_events import events_of_the_script


@dataclass(frozen=True)
class BuiltJob:
    """A job graph with its blobs. ``programs``: the contents of the vertices' blobs, for tests and plans."""

    graph: JobGraph
    blobs: Mapping[BlobKey, bytes]
    programs: Mapping[VertexId, VertexProgram]


def build_job_graph(
    graph: StreamGraph,
    job_id: JobId,
    name: str,
    configuration: Mapping[str, str],
    python_files: Mapping[str, Path],
) -> BuiltJob:
    """Builds the job graph. Raises ``InvalidJob`` and ``NotSerializable``, and what sources and sinks raise."""
    chains = make_chains(graph)
    resources = slot_resources_of(chains, graph.groups)
    builder = _Builder(chains, operator_ids(graph.nodes), Configuration.from_strings(configuration), resources)
    programs = {builder.vertex_ids[chain.head.node_id]: builder.program(chain) for chain in chains}
    blobs: dict[BlobKey, bytes] = {}
    vertices = []
    for chain in chains:
        vertex_id = builder.vertex_ids[chain.head.node_id]
        operators = builder.of_spark(chain)
        vertices.append(
            builder.vertex(
                chain,
                _stored(pickle_program(programs[vertex_id]), blobs),
                _stored(pickle_for_spark(operators), blobs) if operators else None,
            )
        )
    contents = shipped_files(python_files) | shipped_dependencies(configuration)
    files = {name: _stored(content, blobs) for name, content in contents.items()}
    job = JobGraph(
        job_id=job_id,
        name=name,
        vertices=tuple(vertices),
        edges=tuple(builder.edges),
        configuration=dict(configuration),
        blobs=files,
        python_version=f"{sys.version_info.major}.{sys.version_info.minor}",
    )
    return BuiltJob(job, blobs, programs)


class _Builder:
    def __init__(
        self,
        chains: Sequence[Chain],
        ids: Sequence[OperatorId],
        configuration: Configuration,
        resources: Mapping[str, SlotResources],
    ) -> None:
        self._resources = resources
        self._ids = ids
        self._configuration = configuration
        # As in Flink, a vertex has the id of the operator at its head.
        self._vertex_of = {node.node_id: VertexId(ids[chain.head.node_id]) for chain in chains for node in chain.nodes}
        self.vertex_ids = {chain.head.node_id: VertexId(ids[chain.head.node_id]) for chain in chains}
        crossing = [edge for chain in chains for edge in chain.head.inputs]
        self._edge_ids = {id(edge): edge_id for edge_id, edge in enumerate(crossing)}
        self._crossing = crossing
        self._listings: dict[int, tuple[Split, ...]] = {}
        self.edges = [
            JobEdge(
                edge_id,
                self._vertex_of[edge.source],
                self._vertex_of[edge.target],
                edge.partitioner,
                edge.input_index,
            )
            for edge_id, edge in enumerate(crossing)
        ]

    def of_spark(self, chain: Chain) -> dict[OperatorId, Source | Sink]:
        """Returns the chain's sources and sinks that a TaskManager's Spark driver runs, by operator."""
        found = {self._ids[node.node_id]: _for_spark(node) for node in chain.nodes}
        return {operator_id: operator for operator_id, operator in found.items() if operator is not None}

    def vertex(self, chain: Chain, program: BlobKey, spark_query: BlobKey | None) -> JobVertex:
        head = chain.head
        return JobVertex(
            vertex_id=self.vertex_ids[head.node_id],
            name=chain_name(chain),
            parallelism=head.parallelism,
            max_parallelism=head.max_parallelism or default_max_parallelism(head.parallelism),
            operators=tuple(self._info(node) for node in chain.nodes),
            program=program,
            max_parallelism_is_explicit=head.max_parallelism is not None,
            slot_sharing_group=head.slot_sharing_group,
            spark_query=spark_query,
            keeps_parallelism=any(_keeps_parallelism(node) for node in chain.nodes),
            slot_resources=self._resources.get(head.slot_sharing_group),
        )

    def program(self, chain: Chain) -> VertexProgram:
        links = [
            ChainLink(chain.position_of(edge.source), chain.position_of(edge.target), edge.tag) for edge in chain.links
        ]
        inside = {node.node_id for node in chain.nodes}
        outputs = [edge for edge in self._crossing if edge.source in inside]
        timeouts = [node.buffer_timeout_ms for node in chain.nodes if node.buffer_timeout_ms is not None]
        return VertexProgram(
            buffer_timeout_ms=min((t for t in timeouts if t >= 0), default=-1) if timeouts else None,
            operators=tuple(self._spec(node) for node in chain.nodes),
            links=tuple(links),
            events=events_of_the_script(),
            inputs=tuple(InputSpec(self._edge_id(e), e.input_index, e.type_info, e.key) for e in chain.head.inputs),
            outputs=tuple(
                OutputSpec(self._edge_id(e), chain.position_of(e.source), e.partitioner, e.type_info, e.key, e.tag)
                for e in outputs
            ),
        )

    def _edge_id(self, edge: StreamEdge) -> int:
        return self._edge_ids[id(edge)]

    def _info(self, node: StreamNode) -> OperatorInfo:
        return OperatorInfo(
            operator_id=self._ids[node.node_id],
            name=node.display_name,
            uid=node.uid,
            uses_union_state=_may_use_union_state(node),
            is_source=_reads(node),
            is_sink=node.kind == "sink",
            splits=self._handed_out(node),
            discovers_splits=node.kind == "source" and node.options["source"].discovery_ms is not None,
        )

    def _spec(self, node: StreamNode) -> OperatorSpec:
        _refuse_state_that_nobody_keeps(node)
        by_input = {edge.input_index: edge.type_info for edge in node.inputs}
        return OperatorSpec(
            kind=node.kind,
            operator_id=self._ids[node.node_id],
            name=node.display_name,
            input_types=tuple(by_input[index] for index in sorted(by_input)),
            output_type=node.output_type,
            key=node.key,
            second_key=node.second_key,
            options=make_options(node.kind, node.display_name, self._final_options(node)),
            uid=node.uid,
        )

    def _final_options(self, node: StreamNode) -> dict[str, UserObject]:
        """Returns the options of an operator, completed with what only the client knows."""
        if node.kind == "source":
            splits = self._listed(node) if _are_dealt_in_advance(node) else ()
            return {**node.options, "splits": splits, "is_coordinated": node.options["source"].takes_splits}
        if node.kind == "enumerated_source":
            return {**node.options, "enumerator": self._ids[node.inputs[0].source]}
        if node.kind == "sink":
            sink: Sink = node.options["sink"]
            sink.validate()
            sink.validate_input(node.inputs[0].type_info, self._configuration)
            sink.validate_configuration(self._configuration)
        return node.options

    def _handed_out(self, node: StreamNode) -> tuple[SourceSplit, ...] | None:
        """Returns the splits for an operator's coordinator; ``None`` for an operator without one."""
        if node.kind != "source" or not node.options["source"].takes_splits:
            return None
        source: Source = node.options["source"]
        splits = () if _are_dealt_in_advance(node) else self._listed(node)
        return tuple(source_split(source, split) for split in splits)

    def _listed(self, node: StreamNode) -> tuple[Split, ...]:
        if node.node_id not in self._listings:
            self._listings[node.node_id] = _listed(node.options["source"], node)
        return self._listings[node.node_id]


def _keeps_parallelism(node: StreamNode) -> bool:
    source = node.options.get("source")
    return node.is_non_parallel or (isinstance(source, Source) and source.keeps_parallelism)


def _reads(node: StreamNode) -> bool:
    """Returns whether the operator's records were read from outside; an enumerator only tells what is to be read."""
    is_enumerator = isinstance(node.options.get("source"), EnumeratorSource)
    return node.kind in ("source", "enumerated_source") and not is_enumerator


def _may_use_union_state(node: StreamNode) -> bool:
    """Returns whether an operator may have union state: a source finds its own splits among those of all subtasks, and a checkpointed function may
    request any state."""
    functions = [node.options.get("func"), *node.options.get("function", ())]
    return node.kind in ("source", "enumerated_source") or any(
        isinstance(user_function_of(f), CheckpointedFunction) for f in functions
    )


def _refuse_state_that_nobody_keeps(node: StreamNode) -> None:
    """Raises ``InvalidJob`` for key selectors and other inner functions that want operator state, which is kept for an operator's main function only."""
    selectors = [key.selector for key in (node.key, node.second_key) if key is not None]
    others = {
        "key selector": [getattr(selector, "selector", selector) for selector in selectors],
        "first function of a window": node.options.get("function", ())[1:-1],
    }
    for what, functions in others.items():
        for function in functions:
            if isinstance(function, (CheckpointedFunction, CheckpointListener)):
                raise InvalidJob(
                    f"operator {node.display_name!r}: its {what} {function!r} cannot have operator state or be notified of "
                    "checkpoints; put that into the function of the operator (of a window: into its process function)"
                )


def _are_dealt_in_advance(node: StreamNode) -> bool:
    """Returns whether a source's splits are assigned before the job starts. Where it makes watermarks, each subtask must know its splits from the
    start, since unread ones hold the watermark back (docs/adr/0105)."""
    source: Source = node.options["source"]
    strategy: WatermarkStrategy | None = node.options.get("watermark_strategy")
    return makes_watermarks(strategy) or source.deals_in_advance or not source.takes_splits


def _listed(source: Source, node: StreamNode) -> tuple[Split, ...]:
    splits = tuple(source.list_splits(node.parallelism))
    twice = _first_repeated(split.split_id for split in splits)
    if twice is not None:
        raise InvalidJob(f"operator {node.display_name!r}: its source lists two splits with the id {twice!r}")
    return splits


def _first_repeated(ids: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for found in ids:
        if found in seen:
            return found
        seen.add(found)
    return None


def _stored(content: bytes, blobs: dict[BlobKey, bytes]) -> BlobKey:
    key = BlobKey(hashlib.sha256(content).hexdigest())
    blobs[key] = content
    return key


def _for_spark(node: StreamNode) -> Source | Sink | None:
    """Returns the Spark source or sink of an operator, also of a throttled one; ``None`` for others."""
    found = node.options.get("source", node.options.get("sink"))
    while isinstance(found, ThrottledSource):
        found = found.inner
    return found if isinstance(found, (SparkSource, SparkStreamSource, SparkSink, SparkFrameJob)) else None
