"""Converts the job graph between model values and protobuf messages."""

from __future__ import annotations

from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo, Partitioner
from tidegate.model.ids import BlobKey, JobId, OperatorId, VertexId
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.convert_deployment import slot_resources_from_pb, slot_resources_to_pb
from tidegate.wire.convert_errors import enum_from_text
from tidegate.wire.convert_events import split_from_pb, split_to_pb


def graph_to_pb(graph: JobGraph) -> pb.JobGraph:
    return pb.JobGraph(
        job_id=graph.job_id,
        name=graph.name,
        vertices=[_vertex_to_pb(vertex) for vertex in graph.vertices],
        edges=[
            pb.JobEdge(
                edge_id=edge.edge_id,
                source=edge.source,
                target=edge.target,
                partitioner=edge.partitioner.value,
                input_index=edge.input_index,
            )
            for edge in graph.edges
        ],
        configuration=dict(graph.configuration),
        blobs=dict(graph.blobs),
        python_version=graph.python_version,
    )


def graph_from_pb(message: pb.JobGraph) -> JobGraph:
    return JobGraph(
        job_id=JobId(message.job_id),
        name=message.name,
        vertices=tuple(_vertex_from_pb(vertex) for vertex in message.vertices),
        edges=tuple(
            JobEdge(
                edge.edge_id,
                VertexId(edge.source),
                VertexId(edge.target),
                enum_from_text(Partitioner, edge.partitioner),
                edge.input_index,
            )
            for edge in message.edges
        ),
        configuration=dict(message.configuration),
        blobs={name: BlobKey(key) for name, key in message.blobs.items()},
        python_version=message.python_version,
    )


def _vertex_to_pb(vertex: JobVertex) -> pb.JobVertex:
    return pb.JobVertex(
        vertex_id=vertex.vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        max_parallelism_is_explicit=vertex.max_parallelism_is_explicit,
        slot_sharing_group=vertex.slot_sharing_group,
        operators=[
            pb.OperatorInfo(
                operator_id=operator.operator_id,
                name=operator.name,
                uid=operator.uid,
                uses_union_state=operator.uses_union_state,
                is_source=operator.is_source,
                is_sink=operator.is_sink,
                has_coordinator=operator.splits is not None,
                splits=[split_to_pb(split) for split in operator.splits or ()],
                discovers_splits=operator.discovers_splits,
            )
            for operator in vertex.operators
        ],
        program=vertex.program,
        spark_query=vertex.spark_query,
        keeps_parallelism=vertex.keeps_parallelism,
        slot_resources=slot_resources_to_pb(vertex.slot_resources),
        signature=vertex.signature,
    )


def _vertex_from_pb(message: pb.JobVertex) -> JobVertex:
    return JobVertex(
        vertex_id=VertexId(message.vertex_id),
        name=message.name,
        parallelism=message.parallelism,
        max_parallelism=message.max_parallelism,
        operators=tuple(
            OperatorInfo(
                OperatorId(operator.operator_id),
                operator.name,
                operator.uid,
                operator.uses_union_state,
                operator.is_source,
                operator.is_sink,
                tuple(map(split_from_pb, operator.splits)) if operator.has_coordinator else None,
                operator.discovers_splits,
            )
            for operator in message.operators
        ),
        program=BlobKey(message.program),
        max_parallelism_is_explicit=message.max_parallelism_is_explicit,
        slot_sharing_group=message.slot_sharing_group,
        spark_query=BlobKey(message.spark_query) if message.HasField("spark_query") else None,
        keeps_parallelism=message.keeps_parallelism,
        slot_resources=slot_resources_from_pb(message.slot_resources) if message.HasField("slot_resources") else None,
        signature=message.signature,
    )
