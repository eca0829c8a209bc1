"""Columns of one partition become records of the stream; what becomes of those that cannot."""

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
    """Makes rows of whole records: of their keys, values, places and times (Flink's interface of that name)."""

    reads_tombstones = True

    @property
    def needs_keys(self) -> bool:
        """Whether the keys of records are to be read."""
        return False

    @property
    def needs_attributes(self) -> bool:
        """Whether headers, leader epochs and types of timestamps are to be read."""
        return False

    """Whether it reads headers, leader epochs or the types of timestamps: then records are read one by one."""

    @abstractmethod
    def deserialize(self, records: PartitionRecords) -> tuple[pa.RecordBatch, Counts | None]:
        """Rows in the order of their records, and how many each record has: ``None`` where that is one. Raises ``PoisonRecord``."""

    def decode(self, values: Values) -> pa.RecordBatch:
        """Raises ``TypeError``: a value alone is no record."""
        raise TypeError(f"{type(self).__name__} reads whole records")


class _OfRecords(DeserializationSchema):
    """The rows of records by their places, a ``range``."""

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
    """Some records of one partition; ``data`` is ``None`` for a partition that is at its end."""

    split_id: str
    data: pa.RecordBatch | None = None
    offsets: npt.NDArray[np.int64] | None = None
    timestamps: pa.Array | None = None
    next_offset: int = 0
    """Where the records behind these begin: poison that was skipped lies before it."""
    found: Split | None = None
    """A partition that was discovered."""
    side: str = ""
    """``data`` is for this side output: dead letters."""
    topic_id: str = ""
    """The id of the partition's topic, where the split had none."""
    left_out: int = 0
    """So many rows of the first record stand before ``data``: they were emitted before the checkpoint that was restored."""


@dataclass(frozen=True)
class ReaderSettings:
    """What a reader needs of the source: where to read, how to decode, and what to do with poison."""

    servers: str
    group_id: str
    properties: dict[str, str]
    subscription: KafkaSubscription
    decoder: DeserializationSchema
    poison: PoisonAction
    commits_offsets: bool
    discovery_s: float | None
    """``None``: the reader does not look for new partitions itself."""
    is_given_splits: bool = False
    """It is given new partitions while it runs."""
    tombstones: Tombstones = None
    dead_letters: str = ""
    """The tag of the side output, when ``poison`` is ``SIDE_OUTPUT``."""


class Decoding:
    """Decodes the messages of a partition into records, and applies the choice of what to do with poison."""

    def __init__(self, settings: ReaderSettings) -> None:
        self._settings = settings

    def decoded(self, split_id: str, taken: PartitionRecords) -> Iterator[Fetched]:
        """Poison is left out when it need not fail: what lies around it is decoded in pieces. So are tombstones that are poison."""
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
        """What becomes of it. Raises ``CorruptData`` when it fails the job."""
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
        """The records of what has a value. Raises ``PoisonRecord`` by its place among all."""
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
        """The records in the order of the messages: of a tombstone what the function makes of its key. Raises ``PoisonRecord``."""
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
    """Tells of each message whether it has no value."""
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
