"""Readers of a user that collect one object again and again: each record has the value that it had when it was collected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.enumerated_numbers import NumbersSource
from tidegate.common import Types
from tidegate.connectors import base
from tidegate.connectors.formats.messages import deserializer_of
from tidegate.connectors.source import InputStatus, ReaderOutput, SourceReader, SourceReaderContext, SourceSplit
from tidegate.connectors.source.reader_host import ReaderHost
from tidegate.datastream import StreamExecutionEnvironment
from tidegate.model.ids import JobId, OperatorId
from tidegate.records.batch import RecordsBatch

LONGS = Types.LIST(Types.LONG())


class Growing(SourceReader[SourceSplit]):
    def __init__(self) -> None:
        self.seen: list[int] = []

    def start(self) -> None: ...

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        self.seen.append(len(self.seen))
        output.collect(self.seen)
        output.create_output_for_split("s").collect(self.seen)
        return InputStatus.MORE_AVAILABLE if len(self.seen) < 3 else InputStatus.END_OF_INPUT

    def snapshot_state(self, checkpoint_id: int) -> Sequence[SourceSplit]:
        return []

    def add_splits(self, splits: Sequence[SourceSplit]) -> None: ...

    def notify_no_more_splits(self) -> None: ...

    def close(self) -> None: ...


class GrowingSource(NumbersSource):
    def __init__(self, kind: Any) -> None:
        super().__init__(1, 1)
        self.kind = kind

    def create_reader(self, context: SourceReaderContext) -> Any:
        return Growing()

    def get_produced_type(self) -> Any:
        return self.kind


def polled(kind: Any, configuration: dict[str, str]) -> list[Any]:
    context = base.ReaderContext(
        subtask_index=0,
        parallelism=1,
        max_parallelism=1,
        job_id=JobId("0" * 32),
        attempt="a",
        operator_id=OperatorId("1" * 32),
        configuration=configuration,
    )
    reader, records = ReaderHost(GrowingSource(kind), context, lambda: 0.0), list[Any]()
    reader.open([])
    while not reader.is_finished():
        found = reader.poll()
        assert found is not None
        assert isinstance(found.batch, RecordsBatch)
        records += found.batch.values
    return records


@pytest.mark.parametrize("kind", [LONGS, Types.PICKLED_BYTE_ARRAY()])
def test_a_reader_that_collects_one_list(kind: Any) -> None:
    assert polled(kind, {}) == [[0], [0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2]]


def test_with_object_reuse_it_is_the_readers_own_list() -> None:
    assert polled(LONGS, {"pipeline.object-reuse": "true"}) == 6 * [[0, 1, 2]]


def test_a_deserialization_schema_that_returns_one_object() -> None:
    seen: list[int] = []

    def more(content: bytes) -> list[int]:
        seen.append(len(content))
        return seen

    decoded = deserializer_of(more, LONGS).decode([b"", b"a", b"ab"])
    assert decoded.column(0).to_pylist() == [[0], [0, 1], [0, 1, 2]]


def test_a_collection_that_is_made_on_the_way() -> None:
    def growing() -> Iterator[list[int]]:
        seen: list[int] = []
        for number in range(3):
            seen.append(number)
            yield seen

    env = StreamExecutionEnvironment.get_execution_environment()
    stream: Any = env.from_collection(growing(), LONGS)
    source = stream._transformation.options["source"]
    reader = source.make_reader(None)
    reader.open([base.SplitState(split) for split in source.list_splits(1)])
    assert reader.poll().batch.data.column(0).to_pylist() == [[0], [0, 1], [0, 1, 2]]
