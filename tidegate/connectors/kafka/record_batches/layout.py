"""What readers and writers of record batches share: the header's layout, its bits, and records as columns."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEADER = Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer's id,
epoch and base sequence, count of records."""
MAGIC = 2
MAGIC_AT = 16
LENGTH_ENDS_AT = 12
"""The length counts what comes behind itself."""
CHECKED_FROM = 21
"""The checksum is of what comes behind itself: attributes and all that follows."""

COMPRESSION_BITS = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
"""These four are bits of a record batch's attributes in Kafka's protocol."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Records of one partition, in order of their offsets. Timestamps are in ms, -1: none; a null value is no value."""

    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64]
    keys: pa.BinaryArray | None
    """None unless they were asked for."""
    values: pa.BinaryArray


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that was aborted, as a fetch response tells it."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Producer:
    """Who writes, as the transaction's coordinator named it."""

    id: int
    epoch: int
