"""Records of one partition as columns, converted from messages; and dead letters of those that cannot be decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.common.typeinfo import Types
from tidegate.connectors.formats.messages import PoisonRecord, Values, objects
from tidegate.connectors.kafka.client import library
from tidegate.model.values import Record

DEAD_LETTER = Types.ROW_NAMED(
    ["topic", "partition", "offset", "timestamp", "key", "value", "error"],
    [
        Types.STRING(),
        Types.INT(),
        Types.LONG(),
        Types.LONG(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.STRING(),
    ],
)
"""The type of dead letters: a record that could not be decoded; ``timestamp`` is in ms since 1970, null when it has none."""


Tombstones: TypeAlias = Literal["fail", "skip"] | Callable[[bytes | None], Record] | None
"""The treatment of a message without a value: the job fails, it is skipped, or a function makes a record of its key. ``None``: it is poison, unless
the format decodes it."""


class PoisonAction(Enum):
    """The treatment of a record that cannot be decoded."""

    FAIL = "fail"
    SKIP = "skip"
    SIDE_OUTPUT = "side output"


Header: TypeAlias = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of Kafka records that are rarely used: headers, leader epochs and timestamp types."""

    headers: list[list[Header]] = field(default_factory=list)
    leader_epochs: list[int | None] = field(default_factory=list)
    stamp_types: list[int] = field(default_factory=list)
    """The types of timestamps by librdkafka's numbers: 0 none, 1 the producer's, 2 the broker's."""

    def part(self, cut: slice) -> Attributes:
        """Returns the attributes of some of the records."""
        return Attributes(self.headers[cut], self.leader_epochs[cut], self.stamp_types[cut])


@dataclass(frozen=True, slots=True)
class PartitionRecords:
    """Records of one partition, in order of offset: at least one."""

    topic: str
    partition: int
    values: Values
    offsets: npt.NDArray[np.int64]
    stamps: npt.NDArray[np.int64]
    """Timestamps in ms since 1970; -1: none."""
    keys: Values | None
    """``None`` unless keys are wanted."""
    attributes: Attributes | None = None
    """``None`` unless attributes are wanted."""

    def part(self, start: int, stop: int) -> PartitionRecords:
        """Returns the records from ``start`` up to ``stop``."""
        cut = slice(start, stop)
        keys = None if self.keys is None else self.keys[cut]
        more = None if self.attributes is None else self.attributes.part(cut)
        columns = self.values[cut], self.offsets[cut], self.stamps[cut], keys, more
        return PartitionRecords(self.topic, self.partition, *columns)


@dataclass(slots=True)
class PartitionMessages:
    """Gathers messages of one partition, to become ``PartitionRecords``."""

    topic: str
    partition: int
    values: list[bytes | None] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    attributes: Attributes = field(default_factory=Attributes)

    def add(self, messages: Sequence[Any], with_keys: bool, with_attributes: bool = False) -> None:
        """Converts messages of librdkafka to columns."""
        kind = library().Message
        self.values.extend(map(kind.value, messages))
        self.offsets.extend(map(kind.offset, messages))
        self.stamps.extend([stamp for _, stamp in map(kind.timestamp, messages)])
        if with_keys:
            self.keys.extend(map(kind.key, messages))
        if with_attributes:
            self.attributes.headers.extend([headers or [] for headers in map(kind.headers, messages)])
            self.attributes.leader_epochs.extend(map(kind.leader_epoch, messages))
            self.attributes.stamp_types.extend([stamp_type for stamp_type, _ in map(kind.timestamp, messages)])

    def taken(self) -> PartitionRecords:
        """Returns everything that was added, as columns."""
        offsets, stamps = np.array(self.offsets, np.int64), np.array(self.stamps, np.int64)
        more = self.attributes if self.attributes.headers else None
        return PartitionRecords(self.topic, self.partition, self.values, offsets, stamps, self.keys or None, more)


def runs(messages: Sequence[Any]) -> Iterator[tuple[tuple[str, int], Sequence[Any]]]:
    """Yields consecutive messages of the same topic and partition."""
    kind = library().Message
    places = list(zip(map(kind.topic, messages), map(kind.partition, messages), strict=True))
    if not places:
        return
    if places.count(places[0]) == len(places):
        yield places[0], messages
        return
    start = 0
    for place, group in groupby(places):
        stop = start + len(list(group))
        yield place, messages[start:stop]
        start = stop


def dead_letter(taken: PartitionRecords, poison: PoisonRecord) -> pa.RecordBatch:
    """Makes a row of ``DEAD_LETTER`` of a poison record."""
    at = poison.index
    assert taken.keys is not None
    stamp = int(taken.stamps[at]) if taken.stamps[at] >= 0 else None
    (key,), (value,) = objects(taken.keys[at : at + 1]), objects(taken.values[at : at + 1])
    row = [taken.topic, taken.partition, int(taken.offsets[at]), stamp, key, value, poison.reason]
    schema = DEAD_LETTER.arrow_schema()
    columns = [pa.array([value], field.type) for value, field in zip(row, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
