"""Small programs and looks into the graphs that they make."""

from __future__ import annotations

from typing import Any

from tidegate.common import Types, WatermarkStrategy
from tidegate.connectors.number_sequence import NumberSequenceSource
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream._graph.job_graph_builder import BuiltJob
from tidegate.model.graph import Partitioner
from tidegate.model.program import VertexProgram

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def make_env(parallelism: int = 2) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)


def numbers(env: StreamExecutionEnvironment) -> DataStream:
    return env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")


def same(value: Any) -> Any:
    return value


def names(job: BuiltJob) -> list[str]:
    return [vertex.name for vertex in job.graph.vertices]


def partitioners(job: BuiltJob) -> list[Partitioner]:
    return [edge.partitioner for edge in job.graph.edges]


def program_of(job: BuiltJob, index: int) -> VertexProgram:
    return job.programs[job.graph.vertices[index].vertex_id]
