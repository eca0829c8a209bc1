"""What was in flight of an unaligned checkpoint, as tables: with what the states hold, it is everything that was read."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import msgspec
import pyarrow as pa
import pytest
from click.testing import CliRunner

from tests.unit.taskmanager.runtime import test_unaligned as job
from tests.unit.taskmanager.runtime.fakes import FakeStore
from tests.unit.taskmanager.runtime.in_process import InProcessJob
from tests.unit.tidegate.state_reader.real_checkpoint import write_manifest
from tidegate.cli.main import main
from tidegate.model.channel_events import UserEvent, WatermarkEvent
from tidegate.model.checkpoint import Alignment, StateHandle
from tidegate.model.errors import CorruptData
from tidegate.model.ids import OperatorId
from tidegate.state_reader import compare, open_checkpoint
from tidegate.state_reader.channels import CHANNEL_COLUMNS, INPUT
from tidegate.state_reader.channels import read_channel as read_table
from tidegate.taskmanager.runtime.checkpointing import in_flight
from tidegate.taskmanager.runtime.checkpointing.in_flight import (
    ChannelContent,
    ChannelDescription,
    read_channel,
    write_channels,
)


@pytest.fixture(scope="module")
def location() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="tg-") as path:
        running = InProcessJob(job.build("read-in-flight", 2), Path(path), alignment=Alignment.UNALIGNED)
        running.start()
        running.checkpoint()
        yield write_manifest(running, running.checkpoint())
        job.PACES["read-in-flight"].released.set()
        running.cancel()


def test_states_and_data_in_flight_are_all_that_the_sources_read(location: str) -> None:
    checkpoint = open_checkpoint(location)
    counted = sum(checkpoint.table("count", "count")["value"].to_pylist())
    states = [(o, s) for o in checkpoint.operators for s in o.states if s.channels]
    tables = [checkpoint.table_of(state) for _, state in states]
    assert tables
    splits = [json.loads(text) for text in checkpoint.table("Source: rows", "splits")["element_json"].to_pylist()]
    read = sum(position - first for _, (first, _), position, _ in splits)
    records = sum(table.num_rows - table[table.schema.names[-1]].null_count for table in tables)
    assert counted + records == read, "a row of nulls is a watermark behind the last record"
    for (_, state), table in zip(states, tables, strict=True):
        assert tuple(table.schema.names[:7]) == CHANNEL_COLUMNS
        assert set(table["direction"].to_pylist()) == {state.name.rpartition(".")[2]}
        assert checkpoint.kind_of(state) == "in_flight"
        assert state.redistribution == "CHANNELS"
        assert checkpoint.rows_in(state) == table.num_rows


def test_the_command_line_lists_and_shows_it(location: str) -> None:
    checkpoint = open_checkpoint(location)
    operator, state = next((o, s) for o in checkpoint.operators for s in o.states if s.channels)
    listed = CliRunner().invoke(main, ["state", "list", location])
    assert listed.exit_code == 0, listed.output
    assert state.name in listed.output
    name = operator.described.operator_id
    shown = CliRunner().invoke(
        main, ["state", "show", location, "--operator", name, "--name", state.name, "--limit", "3"]
    )
    assert shown.exit_code == 0, shown.output
    assert "producer" in shown.output
    assert list(compare(checkpoint, checkpoint))


class _Source:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self, handle: StateHandle) -> memoryview:
        return memoryview(self.content)


class _Store(FakeStore):
    def __init__(self) -> None:
        self.contents: list[bytes] = []

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        self.contents.append(b"".join(bytes(part) for part in parts))
        return StateHandle(len(self.contents[-1]), "", data=self.contents[-1])


ABOUT = ChannelDescription(4, 0, 1, 2, 2, 0, "input")


def batch(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_watermarks_keep_their_places_and_schemas_may_change() -> None:
    items = [
        WatermarkEvent(5),
        batch(a=[1, 2]),
        WatermarkEvent(7),
        WatermarkEvent(8),
        batch(a=[3]),
        batch(b=["x"]),
        WatermarkEvent(9),
    ]
    store = _Store()
    content = ChannelContent(OperatorId("c" * 32), "count", ABOUT, items)
    (snapshot,) = write_channels(store, [content]).values()
    first, second = snapshot.input_channels
    assert (first.batches, second.batches) == (2, 1)
    about, batches = read_channel(_Source(store.contents[0]), first)
    assert about == ABOUT
    assert [(b.data.to_pydict(), b.watermark) for b in batches] == [({"a": [1, 2]}, 5), ({"a": [3]}, 8)]
    _, batches = read_channel(_Source(store.contents[1]), second)
    assert [(b.data.to_pydict(), b.watermark) for b in batches] == [({"b": ["x"]}, None), ({"b": []}, 9)]
    table = read_table(_Source(store.contents[0]), first, INPUT, "chk-1")
    assert table.select(["edge", "producer", "consumer", "direction", "batch", "watermark", "a"]).to_pydict() == {
        "edge": [4] * 3,
        "producer": [0] * 3,
        "consumer": [1] * 3,
        "direction": ["input"] * 3,
        "batch": [0, 0, 1],
        "watermark": [5, None, 8],
        "a": [1, 2, 3],
    }
    last = read_table(_Source(store.contents[1]), second, INPUT, "chk-1")
    assert (last["watermark"].to_pylist(), last["b"].to_pylist()) == ([None, 9], ["x", None])


def test_events_have_rows_of_their_own_and_only_their_files_the_newer_version() -> None:
    content = msgspec.msgpack.encode(("shop.price-list-changed", {"version": 7}))
    store = _Store()
    items = [batch(a=[1]), WatermarkEvent(5), UserEvent(content), batch(a=[2])]
    (snapshot,) = write_channels(store, [ChannelContent(OperatorId("c" * 32), "count", ABOUT, items)]).values()
    (channel,) = snapshot.input_channels
    assert channel.batches == 2
    table = read_table(_Source(store.contents[0]), channel, INPUT, "chk-1")
    assert table.select(["batch", "watermark", "event", "a"]).to_pydict() == {
        "batch": [0, 1, 1],
        "watermark": [None, 5, None],
        "event": [None, '["shop.price-list-changed",{"version":7}]', None],
        "a": [1, None, 2],
    }
    write_channels(store, [ChannelContent(OperatorId("c" * 32), "count", ABOUT, items[:1])])
    versions = [json.loads(pa.ipc.open_stream(c).schema.metadata[b"tidegate"])["version"] for c in store.contents]
    assert versions == [2, 1]


def test_a_file_of_a_later_version_is_refused() -> None:
    store = _Store()
    with mock.patch.object(in_flight, "FORMAT_VERSION", 3):
        event = UserEvent(msgspec.msgpack.encode(("a", {})))
        (snapshot,) = write_channels(store, [ChannelContent(OperatorId("c" * 32), "count", ABOUT, [event])]).values()
    (channel,) = snapshot.input_channels
    with pytest.raises(CorruptData, match="version 3; this version of tidegate reads up to 2"):
        read_channel(_Source(store.contents[0]), channel)


def test_only_a_watermark_in_flight_is_kept_and_nothing_leaves_no_file() -> None:
    store = _Store()
    content = ChannelContent(OperatorId("c" * 32), "count", ABOUT, [WatermarkEvent(5)])
    (snapshot,) = write_channels(store, [content]).values()
    (channel,) = snapshot.input_channels
    assert channel.batches == 0
    _, batches = read_channel(_Source(store.contents[0]), channel)
    assert [(b.data.num_rows, b.watermark) for b in batches] == [(0, 5)]
    assert read_table(_Source(store.contents[0]), channel, INPUT, "chk-1")["watermark"].to_pylist() == [5]
    assert write_channels(store, [ChannelContent(OperatorId("c" * 32), "count", ABOUT)]) == {}


def test_what_does_not_fit_is_corrupt_by_name() -> None:
    store = _Store()
    content = ChannelContent(OperatorId("c" * 32), "count", ABOUT, [batch(a=[1])])
    (snapshot,) = write_channels(store, [content]).values()
    (channel,) = snapshot.input_channels
    more = replace(channel, batches=2)
    for reading in (lambda c, s: read_channel(s, c), lambda c, s: read_table(s, c, INPUT, "chk-1")):
        with pytest.raises(CorruptData, match="1 batches"):
            reading(more, _Source(store.contents[0]))
        with pytest.raises(CorruptData, match="edge 4"):
            reading(channel, _Source(store.contents[0][:50]))
