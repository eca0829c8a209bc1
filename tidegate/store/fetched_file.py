"""Reads parts of a state file in an object store: requests ranges of blocks, verifies them, and keeps them in an unnamed local file.

    need(ranges) ─▶ blocks that are not there ─▶ neighbours together: one request up to REQUEST_BYTES ─▶ several requests at once
                                                        │ each block compared with its checksum
    content: the local file, mapped  ◀──────────────────┘

Laws: as those of ``VerifiedFile``, and no block is asked for twice, as one that is on its way is waited for. The local file is sparse, so it takes what was
fetched, and it goes with the process.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import xxhash

from tidegate.model.checkpoint import StateHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData, StorageError
from tidegate.model.storage_errors import reason_of
from tidegate.store.locations import unreadable
from tidegate.store.verified_file import BLOCK_BYTES, DIGEST_BYTES

REQUEST_BYTES = 4 << 20
"""The most bytes of one request. Takes 20 ms at 200 MB/s, about a store's latency, and several requests at once still need little memory."""
REQUESTS = 8
"""How many requests run at once: stores give a client the full rate only over several connections."""
_MISSING, _ASKED_FOR, _THERE = 0, 1, 2
"""The state of a block, one byte for each."""


class RangedObject(Protocol):
    """An object of which ranges can be read. Thread-safe."""

    @property
    def size_bytes(self) -> int: ...

    def read_at(self, first: int, size_bytes: int) -> bytes:
        """Reads ``size_bytes`` bytes of the object from the offset ``first`` on; fewer when the response of the store ends early. Raises ``OSError``."""


@runtime_checkable
class RangedFiles(Protocol):
    """A file system of which ranges of files can be read."""

    def ranges(self, path: str) -> RangedObject:
        """Opens an object for reading ranges. Raises ``OSError``."""


class FetchedFile:
    """A state file of an object store that is fetched block by block. ``place``: the address, for messages. ``directory``: where fetched blocks are
    kept; empty: the system's for temporary files. ``pool``: makes the requests. Thread-safe, but not for use in the pool's own threads."""

    def __init__(
        self, reader: RangedObject, handle: StateHandle, place: str, directory: str, pool: ThreadPoolExecutor
    ) -> None:
        """Opens the object. Raises ``CorruptData`` when its size is not that of the handle, ``StorageError`` when the disk is too full for the local file."""
        self._reader = reader
        self._handle = handle
        self._place = place
        self._directory = directory or tempfile.gettempdir()
        self._pool = pool
        if reader.size_bytes != handle.size_bytes:
            raise CorruptData(
                f"state file {place} has {reader.size_bytes} bytes, expected {handle.size_bytes} bytes; {ON_DAMAGE}"
            )
        self._digests = handle.block_checksums or bytes.fromhex(handle.checksum)
        blocks = -(-handle.size_bytes // BLOCK_BYTES)
        if len(self._digests) != blocks * DIGEST_BYTES:
            raise CorruptData(
                f"state file {place}: its handle has {len(self._digests)} bytes of checksums for {blocks} blocks; {ON_DAMAGE}"
            )
        self._states = bytearray(blocks)
        self._changed = threading.Condition()
        self._descriptor = self._make_local()
        self._close = weakref.finalize(self, os.close, self._descriptor)
        self.content = memoryview(mmap.mmap(self._descriptor, handle.size_bytes, prot=mmap.PROT_READ))

    @property
    def is_whole(self) -> bool:
        """Whether all blocks were fetched."""
        return self._states.count(_THERE) == len(self._states)

    def need(self, first: int, end: int) -> None:
        """Fetches the bytes from ``first`` to before ``end``, as far as they are missing. Raises ``CorruptData`` or ``StorageError`` that names the
        address."""
        if end <= first:
            return
        blocks = range(first // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1)
        while any(self._states[block] != _THERE for block in blocks):
            with self._changed:
                wanted = [block for block in blocks if self._states[block] == _MISSING]
                if not wanted:
                    if any(self._states[block] == _ASKED_FOR for block in blocks):
                        self._changed.wait()
                    continue
                for block in wanted:
                    self._states[block] = _ASKED_FOR
            try:
                self._fetch_all(list(_runs(wanted)))
            finally:
                with self._changed:
                    for block in wanted:
                        if self._states[block] == _ASKED_FOR:
                            self._states[block] = _MISSING
                    self._changed.notify_all()

    def _fetch_all(self, runs: Sequence[range]) -> None:
        if len(runs) == 1:
            self._fetch(runs[0])
            return
        futures = [self._pool.submit(self._fetch, run) for run in runs]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise errors[0]

    def _fetch(self, run: range) -> None:
        """Makes one request. Keeps the blocks that are verified, also when others are damaged."""
        first, end = run.start * BLOCK_BYTES, min(run.stop * BLOCK_BYTES, self._handle.size_bytes)
        try:
            content = memoryview(self._reader.read_at(first, end - first))
        except OSError as error:
            raise unreadable(f"bytes {first} to {end} of the state file", self._place, error) from error
        for block in run:
            at = block * BLOCK_BYTES - first
            part = content[at : min(at + BLOCK_BYTES, end - first)]
            size_bytes = min(BLOCK_BYTES, end - first - at)
            if len(part) != size_bytes:
                raise CorruptData(
                    f"state file {self._place}: the store gave {len(content)} bytes from byte {first} on instead of {end - first}; {ON_DAMAGE}"
                )
            expected = self._digests[block * DIGEST_BYTES : (block + 1) * DIGEST_BYTES]
            found = xxhash.xxh3_64_digest(part)
            if found != expected:
                raise CorruptData(
                    f"state file {self._place} is damaged between its bytes {first + at} and {first + at + size_bytes}: their checksum is "
                    f"{found.hex()} instead of {expected.hex()}; {ON_DAMAGE}"
                )
            self._keep(part, first + at)
            self._states[block] = _THERE

    def _keep(self, part: memoryview, at: int) -> None:
        """Writes verified bytes to the local file; not through the mapping, where a full disk would end the process."""
        try:
            while part:
                written = os.pwrite(self._descriptor, part, at)
                part, at = part[written:], at + written
        except OSError as error:
            raise self._no_room(error) from error

    def _make_local(self) -> int:
        try:
            with tempfile.TemporaryFile(dir=self._directory) as file:
                os.truncate(file.fileno(), self._handle.size_bytes)
                return os.dup(file.fileno())
        except OSError as error:
            raise self._no_room(error) from error

    def _no_room(self, error: OSError) -> StorageError:
        return StorageError(
            f"cannot keep blocks of the state file {self._place}, of {self._handle.size_bytes} bytes, in {self._directory}: {reason_of(error)}"
        )


def _runs(blocks: Sequence[int]) -> Iterator[range]:
    """Joins adjacent blocks into runs of up to ``REQUEST_BYTES``."""
    most = REQUEST_BYTES // BLOCK_BYTES
    first = 0
    for at in range(1, len(blocks) + 1):
        if at == len(blocks) or blocks[at] != blocks[at - 1] + 1 or at - first == most:
            yield range(blocks[first], blocks[at - 1] + 1)
            first = at
