"""The format of the blocks of frames that are stored in Spark's shuffle between a producer and its consumers.

    producer ─▶ frames for one consumer ─▶ block ─▶ Spark: partition of that consumer ─▶ blocks of all producers ─▶ consumer

A block begins with the edge and the producer's subtask, which identify a channel of the consumer; complete frames follow, encoded as on a connection. Blocks of
one channel keep their order; blocks of different channels arrive in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.model.errors import CorruptFrame

NOT_AGAIN = "is not run again by Spark, although its stored output is lost: the JobManager decides what restarts"
"""Message of an attempt that Spark begins a second time, which is not allowed. The TaskManager looks for it in the error of the Spark job."""
_ORIGIN = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """Encoded frames that one producer's subtask wrote for one consumer, with their origin."""

    edge_id: int
    producer: int
    """The producer's subtask index."""
    frames: memoryview

    @staticmethod
    def encode(edge_id: int, producer: int, frames: Sequence[bytes | memoryview]) -> bytes:
        return b"".join((_ORIGIN.pack(edge_id, producer), *frames))

    @staticmethod
    def decode(stored: bytes) -> StoredBlock:
        """Reads a block. Raises ``CorruptFrame``."""
        if len(stored) < _ORIGIN.size:
            raise CorruptFrame(
                f"a stored block of the exchange has {len(stored)} bytes, fewer than the {_ORIGIN.size} of its header"
            )
        edge_id, producer = _ORIGIN.unpack_from(stored)
        return StoredBlock(edge_id, producer, memoryview(stored)[_ORIGIN.size :])


class StoredExchange:
    """The stored data of one attempt: ``blocks``, which it reads, and the blocks that it writes, each with the number of its partition. The caller takes the
    latter out between two steps.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self.blocks: Iterator[bytes] = iter(blocks)
        self._stored: list[tuple[int, bytes]] = []

    def store(self, partition: int, block: bytes) -> None:
        self._stored.append((partition, block))

    def take(self) -> list[tuple[int, bytes]]:
        taken, self._stored = self._stored, []
        return taken
