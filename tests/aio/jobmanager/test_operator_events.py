"""Events of coordinators by gRPC: a reader asks by way of its TaskManager, and is answered there; the graph brings the splits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.aio.jobmanager.cluster import (
    JOB,
    FakeTaskManager,
    cluster,
    is_running,
    make_graph,
    put_blob,
    submit,
    watch_until,
)
from tidegate.model.coordinators.operator_events import OperatorEvent, RequestSplit, SourceSplit
from tidegate.model.graph import JobGraph
from tidegate.model.ids import OperatorId, parse_attempt_id
from tidegate.pb import common_pb2, jobmanager_pb2
from tidegate.wire.convert_events import operator_event_to_pb, split_from_pb
from tidegate.wire.manifest import METADATA_FILE, manifest_from_bytes

SPLITS = tuple(SourceSplit(f"file@{number}", bytes([number]), 100 << 20) for number in range(3))


def coordinated_graph(directory: Path) -> JobGraph:
    options = {"execution_checkpointing_interval": "10 min", "execution_checkpointing_dir": str(directory)}
    graph = make_graph(**options)
    source = graph.vertices[0]
    operators = (replace(source.operators[0], splits=SPLITS),)
    return replace(graph, vertices=(replace(source, operators=operators), *graph.vertices[1:]))


async def ask(task_manager: FakeTaskManager, attempt: str, number: int, operator: str) -> common_pb2.Ack:
    event = operator_event_to_pb(OperatorEvent(OperatorId(operator), number, RequestSplit()))
    answer: common_pb2.Ack = await task_manager.job_manager.SendOperatorEvent(
        common_pb2.OperatorEventRequest(generation=task_manager.generation, attempt=attempt, event=event)
    )
    return answer


async def test_a_reader_that_asks_is_sent_splits_and_a_checkpoint_keeps_the_others(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await put_blob(client)
        graph = coordinated_graph(tmp_path)
        assert not (await submit(client, graph)).HasField("error")
        await watch_until(client, JOB, is_running)
        operator = graph.vertices[0].operators[0].operator_id
        readers = [a for a in task_manager.deployments if parse_attempt_id(a).vertex_id == graph.vertices[0].vertex_id]
        reader = min(readers)
        assert not (await ask(task_manager, reader, 1, operator)).HasField("error")
        request = jobmanager_pb2.TriggerJobCheckpointRequest(job_id=JOB, wait_ms=10_000)
        taken = await client.TriggerCheckpoint(request)
        assert not taken.HasField("error"), taken.error
        (sent,) = task_manager.operator_events
        assert (sent.attempt, sent.event.number, sent.event.operator_id) == (reader, 1, operator)
        assert tuple(map(split_from_pb, sent.event.add_splits.splits)) == SPLITS[:1]
        (metadata,) = (tmp_path / JOB).glob(f"chk-*/{METADATA_FILE}")
        manifest = manifest_from_bytes(metadata.read_bytes(), "_metadata")
        (state,) = (state for state in manifest.operators if state.operator_id == operator)
        assert state.coordinator is not None
        assert state.coordinator.unassigned == SPLITS[1:]


async def test_an_event_of_another_attempt_or_kind_is_refused(tmp_path: Path) -> None:
    async with cluster("tm-1") as (client, [task_manager], _):
        await put_blob(client)
        graph = coordinated_graph(tmp_path)
        await submit(client, graph)
        await watch_until(client, JOB, is_running)
        operator = graph.vertices[0].operators[0].operator_id
        reader = min(task_manager.deployments)
        refused = await ask(task_manager, reader[:-1] + "7", 1, operator)
        assert refused.error.code == "unknown-attempt"
        nothing = common_pb2.OperatorEventRequest(
            generation=task_manager.generation, attempt=reader, event=common_pb2.OperatorEvent(number=1)
        )
        strange = await task_manager.job_manager.SendOperatorEvent(nothing)
        assert strange.error.code == "version-mismatch"
