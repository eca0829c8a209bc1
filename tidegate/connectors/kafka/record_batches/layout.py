"""The layout of record batches: the header, its bits, and records as columns."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEADER = Struct(">qiibIhiqqqhii")
"""The header: base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer's id, epoch and base
sequence, count of records."""
MAGIC = 2
MAGIC_AT = 16
LENGTH_ENDS_AT = 12
"""Where the bytes begin that the length counts."""
CHECKED_FROM = 21
"""Where the bytes begin that the checksum covers: the attributes and all that follows."""

COMPRESSION_BITS = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
"""These four are bits of a record batch's attributes in Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Records of one partition, in order of offset. Timestamps are in ms, -1: none; a null value is a tombstone."""

    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]
    keys: pa.BinaryArray | None
    """``None`` unless keys are wanted."""
    values: pa.BinaryArray


@dataclass(frozen=True, slots=True)
class Aborted:
    """An aborted transaction, as a fetch response reports it."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Producer:
    """The id and epoch of a producer, as the transaction coordinator assigned them."""

    id: int
    epoch: int
