"""Columns of one partition become records of the stream; what becomes of those that cannot."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.connectors.base import Split
from tidegate.connectors.formats.messages import DeserializationSchema, PoisonRecord
from tidegate.connectors.kafka.partition_records import PartitionRecords, PoisonAction, dead_letter
from tidegate.connectors.kafka.splits import KafkaSubscription
from tidegate.model.errors import CorruptData

_LOG = logging.getLogger(__name__)


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
    dead_letters: str = ""
    """The tag of the side output, when ``poison`` is ``SIDE_OUTPUT``."""


class Decoding:
    """Decodes the messages of a partition into records, and applies the choice of what to do with poison."""

    def __init__(self, settings: ReaderSettings) -> None:
        self._settings = settings

    def decoded(self, split_id: str, taken: PartitionRecords) -> Iterator[Fetched]:
        """Poison is left out when it need not fail: what lies around it is decoded in pieces."""
        while len(taken.values):
            try:
                yield self._batch(split_id, taken)
                return
            except PoisonRecord as poison:
                at = poison.index
                if at:
                    yield self._batch(split_id, taken.part(0, at))
                yield self._poisoned(split_id, taken, poison)
                taken = taken.part(at + 1, len(taken.values))

    def _poisoned(self, split_id: str, taken: PartitionRecords, poison: PoisonRecord) -> Fetched:
        """What becomes of it. Raises ``CorruptData`` when it fails the job."""
        offset = int(taken.offsets[poison.index])
        where = f"offset {offset} of partition {taken.partition} of topic {taken.topic!r}"
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
            f"the record at {where} cannot be read: {poison.reason}; remove it, or build the source with "
            "set_poison_records('skip') or with a side output for dead letters"
        ) from poison

    def _batch(self, split_id: str, taken: PartitionRecords) -> Fetched:
        data = self._settings.decoder.decode(taken.values)
        stamps = pa.array(taken.stamps, mask=taken.stamps < 0)
        return Fetched(split_id, data, taken.offsets, stamps, int(taken.offsets[-1]) + 1)
