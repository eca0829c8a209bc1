"""Writes in-flight data of channels into a checkpoint, and reads it back.

    EncodedBatch · record batch · watermark · user event ... ─▶ Arrow IPC streams, one for each run of batches with one schema

A watermark is in the metadata of the next batch (``tidegate.watermark``), or of an empty last batch; a user event is an empty batch (``tidegate.event``), whose
metadata also holds a watermark directly before it. The schema's metadata holds the channel's description under ``tidegate`` (``ChannelDescription``). Written
in the snapshot thread.

Law: a channel's handles are in the order of its data; a channel without data has none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

import pyarrow as pa

from tidegate.model.channel_events import UserEvent, WatermarkEvent
from tidegate.model.checkpoint import ChannelStateHandle, OperatorSnapshot
from tidegate.model.errors import CorruptData
from tidegate.model.ids import OperatorId
from tidegate.taskmanager.exchange.ports import InFlightItem
from tidegate.taskmanager.state.ports import SegmentSource, SegmentStore
from tidegate.wire.frames import EncodedBatch

FORMAT_VERSION = 2
"""The version of files of channel state. A reader refuses a newer one. A file without user events is written as version 1, which has none, so that earlier
releases can read it.
"""
METADATA_KEY = b"tidegate"
WATERMARK_KEY = b"tidegate.watermark"
EVENT_KEY = b"tidegate.event"
IN_FLIGHT = "in_flight"

Item: TypeAlias = InFlightItem | pa.RecordBatch
"""An item in flight: one of ``InFlightItem``, or a record batch as it is sent."""


@dataclass(frozen=True, slots=True)
class ChannelDescription:
    """Identifies a channel of the job that writes. ``direction``: ``input`` for data that had reached the consumer, ``output`` for data that had not."""

    edge_id: int
    producer: int
    consumer: int
    producers: int
    consumers: int
    input_index: int
    direction: str

    def to_metadata(self, operator: str, version: int) -> dict[bytes, bytes]:
        content = {"version": version, "kind": IN_FLIGHT, "operator": operator, **asdict(self)}
        return {METADATA_KEY: json.dumps(content, sort_keys=True).encode()}


@dataclass(slots=True)
class ChannelContent:
    """The in-flight data of one channel, oldest first. ``operator_id``: the head (inputs) or tail (outputs) of the chain, to whose state it belongs."""

    operator_id: OperatorId
    operator: str
    about: ChannelDescription
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch that was read back from channel state. ``watermark``: it came before the rows, and before ``event``. A batch with an event has no rows."""

    data: pa.RecordBatch
    watermark: int | None = None
    event: UserEvent | None = None

    @property
    def metadata(self) -> dict[bytes, bytes] | None:
        found = {}
        if self.watermark is not None:
            found[WATERMARK_KEY] = str(self.watermark).encode()
        if self.event is not None:
            found[EVENT_KEY] = self.event.content
        return found or None


def write_channels(store: SegmentStore, contents: Iterable[ChannelContent]) -> dict[OperatorId, OperatorSnapshot]:
    """Writes the in-flight data of channels; returns the handles by operator. Runs in the snapshot thread. Raises ``StorageError`` or ``CorruptFrame``."""
    inputs: dict[OperatorId, list[ChannelStateHandle]] = {}
    outputs: dict[OperatorId, list[ChannelStateHandle]] = {}
    for content in contents:
        side = inputs if content.about.direction == "input" else outputs
        side.setdefault(content.operator_id, []).extend(_write(store, content))
    return {
        operator_id: OperatorSnapshot(
            input_channels=tuple(inputs.get(operator_id, ())), output_channels=tuple(outputs.get(operator_id, ()))
        )
        for operator_id in inputs | outputs
        if inputs.get(operator_id) or outputs.get(operator_id)
    }


def read_channel(
    source: SegmentSource, channel: ChannelStateHandle
) -> tuple[ChannelDescription | None, list[StoredBatch]]:
    """Reads the in-flight data of a channel. Returns the channel's description, if the file has one, and the batches. Raises ``CorruptData`` naming
    the file.
    """
    name = f"in-flight data of edge {channel.edge_id}, subtask {channel.producer} to {channel.consumer}"
    name = f"{name} ({channel.handle.path or 'inside _metadata'})"
    content = source.read(channel.handle)
    try:
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            about = _description_of(reader.schema)
            batches = list(_stored(reader))
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise CorruptData(f"{name} is not a readable Arrow stream ({error}); restore another checkpoint") from error
    stored = sum(batch.data.num_rows > 0 for batch in batches)
    if stored != channel.batches:
        raise CorruptData(f"{name} holds {stored} batches instead of {channel.batches}; restore another checkpoint")
    return about, batches


def _stored(reader: pa.ipc.RecordBatchStreamReader) -> Iterator[StoredBatch]:
    own = {key: value for key, value in (reader.schema.metadata or {}).items() if key != METADATA_KEY} or None
    while True:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        batch.validate(full=True)
        stored = {} if metadata is None else dict(metadata)
        mark, event = stored.get(WATERMARK_KEY), stored.get(EVENT_KEY)
        yield StoredBatch(
            batch.replace_schema_metadata(own),
            None if mark is None else int(mark),
            None if event is None else UserEvent(event),
        )


def _description_of(schema: pa.Schema) -> ChannelDescription | None:
    content = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if content.get("kind") != IN_FLIGHT:
        return None
    if content["version"] > FORMAT_VERSION:
        raise ValueError(
            f"its format has version {content['version']}; this version of tidegate reads up to {FORMAT_VERSION}"
        )
    return ChannelDescription(**{name: content[name] for name in ChannelDescription.__slots__})


def _write(store: SegmentStore, content: ChannelContent) -> Iterator[ChannelStateHandle]:
    about = content.about
    for batches in _runs(content.items):
        schema = batches[0].data.schema
        sink = pa.BufferOutputStream()
        version = FORMAT_VERSION if any(batch.event is not None for batch in batches) else 1
        metadata = {**(schema.metadata or {}), **about.to_metadata(content.operator, version)}
        with pa.ipc.new_stream(sink, schema.with_metadata(metadata)) as writer:
            for batch in batches:
                writer.write_batch(batch.data, custom_metadata=batch.metadata)
        hint = f"in-flight-{about.direction}-{about.edge_id}-{about.producer}-{about.consumer}"
        handle = store.write(hint, [memoryview(sink.getvalue())])
        rows = sum(batch.data.num_rows > 0 for batch in batches)
        yield ChannelStateHandle(about.edge_id, about.producer, about.consumer, rows, handle, about.input_index)


def _runs(items: Sequence[Item]) -> Iterator[list[StoredBatch]]:
    """Groups items into runs of batches with one schema. Each batch carries the watermark in front of it; an event, or a watermark at the end, gets an empty
    batch.
    """
    run: list[StoredBatch] = []
    mark: int | None = None
    for item in items:
        if isinstance(item, WatermarkEvent):
            mark = item.timestamp_ms
            continue
        if isinstance(item, UserEvent):
            run.append(StoredBatch(_empty_like(run), mark, item))
            mark = None
            continue
        data = item.decode() if isinstance(item, EncodedBatch) else item
        if run and not run[0].data.schema.equals(data.schema, check_metadata=True):
            yield run
            run = []
        run.append(StoredBatch(data, mark))
        mark = None
    if mark is not None:
        run.append(StoredBatch(_empty_like(run), mark))
    if run:
        yield run


def _empty_like(run: Sequence[StoredBatch]) -> pa.RecordBatch:
    return run[0].data.slice(0, 0) if run else pa.RecordBatch.from_arrays([], schema=pa.schema([]))
