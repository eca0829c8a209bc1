"""Decoding of a partition's columns to records of the stream, and what is done with those that cannot be decoded."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.common.typeinfo import TypeInformation
from tidegate.connectors.base import Split
from tidegate.connectors.formats.messages import (
    Counts,
    DeserializationSchema,
    PoisonRecord,
    Values,
    decoded,
    decoded_rows,
    objects,
)
from tidegate.connectors.kafka.partition_records import PartitionRecords, PoisonAction, Tombstones, dead_letter
from tidegate.connectors.kafka.splits import KafkaSubscription
from tidegate.model.errors import CorruptData
from tidegate.model.values import Record
from tidegate.records.record_codec import encode

_LOG = logging.getLogger(__name__)


class KafkaRecordDeserializationSchema(DeserializationSchema):
    """Converts whole Kafka records to rows: keys, values, topics, offsets and timestamps (Flink's interface of that name)."""

    reads_tombstones = True

    @property
    def needs_keys(self) -> bool:
        """Returns whether the keys of records are needed."""
        return False

    @property
    def needs_attributes(self) -> bool:
        """Returns whether headers, leader epochs and timestamp types are needed."""
        return False

    """Whether it reads headers, leader epochs or timestamp types: records are then read one by one."""

    @abstractmethod
    def deserialize(self, records: PartitionRecords) -> tuple[pa.RecordBatch, Counts | None]:
        """Converts records to rows in their order, and returns how many rows each record has; ``None`` where each has one. Raises ``PoisonRecord``."""

    def decode(self, values: Values) -> pa.RecordBatch:
        """Raises ``TypeError``: a value alone is not a record."""
        raise TypeError(f"{type(self).__name__} reads whole records of Kafka, and cannot decode a value alone")


class _OfRecords(DeserializationSchema):
    """Decodes records by their indices, given as a ``range``."""

    def __init__(self, schema: KafkaRecordDeserializationSchema, records: PartitionRecords) -> None:
        self._schema = schema
        self._records = records

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()

    def decode(self, values: Values) -> pa.RecordBatch:
        return self.decode_rows(values)[0]

    def decode_rows(self, values: Values) -> tuple[pa.RecordBatch, Counts | None]:
        assert isinstance(values, range)
        return self._schema.deserialize(self._records.part(values.start, values.stop))


@dataclass(frozen=True, slots=True)
class Fetched:
    """Decoded records of one partition; ``data`` is ``None`` for a partition that was read to its end."""

    split_id: str
    data: pa.RecordBatch | None = None
    offsets: npt.NDArray[np.int64] | None = None
    timestamps: pa.Array | None = None
    next_offset: int = 0
    """The offset at which reading continues: skipped poison lies before it."""
    found: Split | None = None
    """A partition that was discovered."""
    side: str = ""
    """The tag of the side output that ``data`` is for: dead letters."""
    topic_id: str = ""
    """The id of the partition's topic, where the split had none."""
    left_out: int = 0
    """How many rows of the first record are left out of ``data``, since they were emitted before the restored checkpoint."""


@dataclass(frozen=True)
class ReaderSettings:
    """The settings of a reader: where to read, how to decode, and what to do with poison."""

    servers: str
    group_id: str
    properties: dict[str, str]
    subscription: KafkaSubscription
    decoder: DeserializationSchema
    poison: PoisonAction
    commits_offsets: bool
    discovery_s: float | None
    """The interval of partition discovery in seconds; ``None``: the reader does not look for partitions itself."""
    is_given_splits: bool = False
    """Whether the reader is assigned new partitions while it runs."""
    tombstones: Tombstones = None
    dead_letters: str = ""
    """The tag of the side output when ``poison`` is ``SIDE_OUTPUT``."""


class Decoding:
    """Decodes the messages of a partition to records, and handles poison as configured."""

    def __init__(self, settings: ReaderSettings) -> None:
        self._settings = settings

    def decoded(self, split_id: str, taken: PartitionRecords) -> Iterator[Fetched]:
        """Decodes records; poison that does not fail the job is left out, decoding around it in pieces. So are tombstones that count as poison."""
        if self._settings.tombstones in (None, "fail") and not self._reads_tombstones():
            yield from self._without_tombstones(split_id, taken)
        else:
            yield from self._without_poison(split_id, taken)

    def _reads_tombstones(self) -> bool:
        return self._settings.tombstones is None and self._settings.decoder.reads_tombstones

    def _without_tombstones(self, split_id: str, taken: PartitionRecords) -> Iterator[Fetched]:
        begin = 0
        for index in np.flatnonzero(tombstones_in(taken.values)):
            at = int(index)
            yield from self._without_poison(split_id, taken.part(begin, at))
            poison = PoisonRecord(
                at, "it is a tombstone: a message without a value, which stands for the deletion of its key"
            )
            if self._settings.tombstones == "fail":
                raise CorruptData(
                    f"the record at {_where(taken, at)} cannot be read: {poison.reason}; build the source with set_tombstones('skip'), or with a "
                    "function that makes a record of its key"
                )
            yield self._poisoned(split_id, taken, poison)
            begin = at + 1
        yield from self._without_poison(split_id, taken.part(begin, len(taken.values)))

    def _without_poison(self, split_id: str, taken: PartitionRecords) -> Iterator[Fetched]:
        while len(taken.values):
            try:
                yield self._batch(split_id, taken)
                return
            except PoisonRecord as poison:
                at = poison.index
                if at:
                    yield from self._without_poison(split_id, taken.part(0, at))  # in which there may be other poison
                yield self._poisoned(split_id, taken, poison)
                taken = taken.part(at + 1, len(taken.values))

    def _poisoned(self, split_id: str, taken: PartitionRecords, poison: PoisonRecord) -> Fetched:
        """Handles a poison record as configured. Raises ``CorruptData`` when it fails the job."""
        offset = int(taken.offsets[poison.index])
        where = _where(taken, poison.index)
        settings = self._settings
        if settings.poison is PoisonAction.SIDE_OUTPUT:
            letter = dead_letter(taken, poison)
            one = np.array([offset], np.int64)
            return Fetched(split_id, letter, one, None, offset + 1, side=settings.dead_letters)
        if settings.poison is PoisonAction.SKIP or settings.decoder.skips_poison:
            _LOG.warning("skipped the record at %s: %s", where, poison.reason)
            schema = settings.decoder.get_produced_type().arrow_schema()
            nothing = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
            return Fetched(split_id, nothing, next_offset=offset + 1)
        raise CorruptData(
            f"the record at {where} cannot be read: {poison.reason}; {_choices(taken, poison)}"
        ) from poison

    def _batch(self, split_id: str, taken: PartitionRecords) -> Fetched:
        next_offset, tombstones = int(taken.offsets[-1]) + 1, self._settings.tombstones
        gone = None if tombstones is None else tombstones_in(taken.values)
        if gone is None or not gone.any():
            data, counts = self._rows(taken)
            if counts is not None:
                taken = replace(taken, offsets=taken.offsets.repeat(counts), stamps=taken.stamps.repeat(counts))
        else:
            data = self._live(taken.values, gone)
            if callable(tombstones):
                data = self._with_deletions(data, taken, gone, tombstones)
            else:
                taken = replace(taken, offsets=taken.offsets[~gone], stamps=taken.stamps[~gone])
        stamps = pa.array(taken.stamps, mask=taken.stamps < 0)
        return Fetched(split_id, data, taken.offsets, stamps, next_offset)

    def _rows(self, taken: PartitionRecords) -> tuple[pa.RecordBatch, Counts | None]:
        decoder = self._settings.decoder
        if isinstance(decoder, KafkaRecordDeserializationSchema):
            return decoded_rows(_OfRecords(decoder, taken), range(len(taken.values)))
        return decoded_rows(decoder, taken.values)

    def _live(self, values: Values, gone: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        """Decodes the values that exist. Raises ``PoisonRecord`` with the index among all values."""
        places = np.flatnonzero(~gone)
        live = values.filter(pa.array(~gone)) if isinstance(values, pa.Array) else [values[int(at)] for at in places]
        try:
            return decoded(self._settings.decoder, live)
        except PoisonRecord as poison:
            raise PoisonRecord(int(places[poison.index]), poison.reason) from poison

    def _with_deletions(
        self,
        data: pa.RecordBatch,
        taken: PartitionRecords,
        gone: npt.NDArray[np.bool_],
        deletion: Callable[[bytes | None], Record],
    ) -> pa.RecordBatch:
        """Decodes records in their order, with tombstones replaced by what the user's function makes of their keys. Raises ``PoisonRecord``."""
        assert taken.keys is not None
        deletions = []
        for index in np.flatnonzero(gone):
            at = int(index)
            (key,) = objects(taken.keys[at : at + 1])
            try:
                deletions.append(deletion(key))
            except Exception as error:  # the function is the user's
                raise PoisonRecord(
                    at, f"set_tombstones: the function raised {type(error).__name__} for the key {key!r}: {error}"
                ) from error
        made = encode(self._settings.decoder.get_produced_type(), deletions, "set_tombstones")
        order = np.argsort(np.concatenate([np.flatnonzero(~gone), np.flatnonzero(gone)]), kind="stable")
        return pa.Table.from_batches([data, made]).combine_chunks().to_batches()[0].take(pa.array(order))


def tombstones_in(values: Values) -> npt.NDArray[np.bool_]:
    """Returns for each message whether it has no value."""
    if isinstance(values, pa.Array):
        found: npt.NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
        return found
    return np.array([value is None for value in values], bool)


def _where(taken: PartitionRecords, index: int) -> str:
    return f"offset {int(taken.offsets[index])} of partition {taken.partition} of topic {taken.topic!r}"


def _choices(taken: PartitionRecords, poison: PoisonRecord) -> str:
    if objects(taken.values[poison.index : poison.index + 1])[0] is None:
        return "build the source with set_tombstones('skip'), or with a function that makes a record of its key"
    return "remove it, or build the source with set_poison_records('skip') or with a side output for dead letters"
