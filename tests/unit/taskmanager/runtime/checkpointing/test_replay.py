"""What a restored consumer makes of the data in flight that it is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.unit.taskmanager.runtime.collecting_store import KeepingStore
from tests.unit.taskmanager.runtime.fakes import context_of
from tidegate.columnar.keys.hashing import hash_columns, key_groups, subtasks_of
from tidegate.common import Types
from tidegate.model.channel_events import UserEvent, WatermarkEvent
from tidegate.model.checkpoint import ChannelStateHandle
from tidegate.model.deployment import InputDeployment, TaskDeployment
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner
from tidegate.model.ids import AllocationId, AttemptId, BlobKey, Generation, JobId, OperatorId, VertexId
from tidegate.model.program import InputSpec, KeySpec
from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.runtime.checkpointing.in_flight import (
    ChannelContent,
    ChannelDescription,
    Item,
    write_channels,
)
from tidegate.taskmanager.runtime.checkpointing.replay import Replay
from tidegate.taskmanager.runtime.outputs import ChainOutput

JOB, SOURCE, TARGET = JobId("a" * 32), VertexId("b" * 32), VertexId("c" * 32)
MAX_PARALLELISM = 128


def deployment_of(
    producers: int, parallelism: int, subtask: int, partitioner: Partitioner, edge_ids: Sequence[int]
) -> TaskDeployment:
    attempts = tuple(AttemptId(JOB, SOURCE, i, 0) for i in range(producers))
    return TaskDeployment(
        attempt=AttemptId(JOB, TARGET, subtask, 0),
        generation=Generation("0" * 32),
        allocation_id=AllocationId("0" * 32),
        job_name="job",
        task_name="count",
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        program=BlobKey("0" * 64),
        inputs=tuple(InputDeployment(e, 0, partitioner, attempts, "source", producers) for e in edge_ids),
    )


class Restored:
    """A consumer that is given what edge 4 had in flight from ``producer`` to ``consumer`` of a job of 2 by 2 subtasks."""

    def __init__(self, items: list[Item], producer: int = 0, consumer: int = 0, input_index: int = 0) -> None:
        self.store = KeepingStore()
        about = ChannelDescription(4, producer, consumer, 2, 2, input_index, "input")
        content = ChannelContent(OperatorId("d" * 32), "count", about, items)
        (snapshot,) = write_channels(self.store, [content]).values()
        self.channels: tuple[ChannelStateHandle, ...] = snapshot.input_channels

    def replay(
        self,
        *,
        producers: int = 2,
        parallelism: int = 2,
        subtask: int = 0,
        partitioner: Partitioner = Partitioner.REBALANCE,
        edge_ids: Sequence[int] = (4,),
        key: KeySpec | None = None,
    ) -> Replay:
        deployment = deployment_of(producers, parallelism, subtask, partitioner, edge_ids)
        specs = [InputSpec(edge, 0, Types.ROW_NAMED(["k"], [Types.LONG()]), key) for edge in edge_ids]
        context = context_of(ChainOutput("op", Types.LONG()))
        return Replay(deployment, specs, self.store, self.channels, context)


def taken(replay: Replay) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    while (one := replay.next()) is not None:
        item = one.item
        found.append((one.channel, shown(item)))
    return found


def shown(item: ArrowBatch | WatermarkEvent | UserEvent) -> Any:
    match item:
        case ArrowBatch():
            return item.data["k"].to_pylist()
        case WatermarkEvent(timestamp_ms):
            return timestamp_ms
        case UserEvent(content):
            return content


def rows(*keys: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": pa.array(keys, pa.int64())})


ITEMS: list[Item] = [rows(1, 2), WatermarkEvent(7), rows(3), WatermarkEvent(9)]


def test_at_the_same_parallelism_everything_keeps_its_channel_and_order() -> None:
    assert taken(Restored(ITEMS, producer=1).replay()) == [(1, [1, 2]), (1, 7), (1, [3]), (1, 9)]


def test_events_keep_their_places_among_rows_and_watermarks() -> None:
    items: list[Item] = [
        UserEvent(b"first"),
        rows(1),
        WatermarkEvent(7),
        UserEvent(b"second"),
        WatermarkEvent(8),
        rows(2),
    ]
    items += [UserEvent(b"third"), UserEvent(b"fourth")]
    found = [what for _, what in taken(Restored(items).replay())]
    assert found == [b"first", [1], 7, b"second", 8, [2], b"third", b"fourth"]
    assert taken(Restored([UserEvent(b"alone")]).replay()) == [(0, b"alone")]


def test_after_a_rescale_an_event_comes_to_each_that_takes_rows_of_its_channel_over() -> None:
    items: list[Item] = [rows(1), UserEvent(b"between"), rows(2)]
    for subtask in range(3):
        replay = Restored(items).replay(
            parallelism=3, subtask=subtask, partitioner=Partitioner.HASH, key=KeySpec(("k",))
        )
        assert b"between" in [what for _, what in taken(replay)]


@pytest.mark.parametrize("changed", [{"producers": 3}, {"parallelism": 3}, {"edge_ids": (8,)}, {"subtask": 1}])
def test_watermarks_of_one_old_producer_mean_nothing_where_its_channel_is_no_longer_there(
    changed: dict[str, Any],
) -> None:
    assert taken(Restored(ITEMS, producer=1).replay(**changed)) == [(0, [1, 2]), (0, [3])]


def test_after_a_rescale_the_least_watermark_of_all_old_producers_counts_behind_the_rows() -> None:
    first, second = Restored(ITEMS), Restored([WatermarkEvent(5), rows(4), WatermarkEvent(8)], producer=1, consumer=1)
    first.channels += second.channels
    found = taken(first.replay(producers=3, parallelism=1))
    assert found == [(0, [1, 2]), (0, [3]), (0, [4]), (0, 8), (1, 8), (2, 8)]


def test_of_several_edges_into_one_input_the_same_one_is_found() -> None:
    assert taken(Restored(ITEMS[:1], producer=1).replay(edge_ids=(3, 4))) == [(3, [1, 2])]
    assert taken(Restored(ITEMS[:1], producer=1).replay(edge_ids=(3, 5))) == [(0, [1, 2])]


def test_each_row_of_a_keyed_edge_is_kept_by_the_owner_of_its_key_group_alone() -> None:
    keys = list(range(200))
    kept = {
        subtask: [key for _, found in taken(replay) for key in found]
        for subtask in range(3)
        for replay in [
            Restored([rows(*keys)]).replay(
                parallelism=3, subtask=subtask, partitioner=Partitioner.HASH, key=KeySpec(columns=("k",))
            )
        ]
    }
    owners = subtasks_of(key_groups(hash_columns([pa.array(keys)]), MAX_PARALLELISM), MAX_PARALLELISM, 3)
    assert kept == {subtask: [key for key in keys if owners[key] == subtask] for subtask in range(3)}
    by_function = Restored([rows(*keys)]).replay(
        parallelism=3, subtask=1, partitioner=Partitioner.HASH, key=KeySpec(selector=lambda row: row[0])
    )
    assert [key for _, found in taken(by_function) for key in found] == kept[1]


def test_what_was_not_replayed_stays_in_flight() -> None:
    replay = Restored(ITEMS).replay()
    replay.next()
    assert len(replay) == 3
    assert len(replay.rest()) == 3
    assert len(taken(replay)) == 3
    assert replay.rest() == []


def test_data_for_an_input_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidJob, match="count has no input 1, of which data was in flight"):
        Restored(ITEMS, input_index=1).replay()
