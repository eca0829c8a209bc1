"""Reads parts of a local state file, each verified before use.

    content: all bytes, mapped      need(first, end) ─▶ blocks that were not read yet: read, compared with their checksums

Checksums are those of the handle: one for each ``BLOCK_BYTES`` of a file that has more, else the one of the whole file. The file is held
open, so it is there to the end also when its checkpoint is deleted meanwhile.

Laws: what ``need`` returned for is what was written. A block is read at most once by each ``VerifiedFile``.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol

import xxhash

from tidegate.model.checkpoint import StateHandle
from tidegate.model.errors import ON_DAMAGE, CorruptData
from tidegate.store.files import LocalFiles
from tidegate.store.locations import unreadable

BLOCK_BYTES = 128 << 10
"""The bytes of a block with a checksum. A handle has 8 bytes for each, 0.006 % of the state, and a store that gives 200 MB/s needs 0.7 ms for one."""
DIGEST_BYTES = 8
_CALL_BYTES = 4 << 20
"""The most bytes of one read: each takes the interpreter's lock again, for which a thread that reads ahead waits up to 5 ms beside one that decodes."""

Repair = Callable[[], memoryview]
"""Reads the verified content of the same file from elsewhere. Raises ``CorruptData``, ``StorageError``."""


class BlockChecksums:
    """Calculates the block checksums of a file while it is written."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()
        self._room = BLOCK_BYTES
        self._digests = bytearray()

    def add(self, part: bytes | memoryview) -> None:
        rest = memoryview(part).cast("B")
        while rest:
            taken = rest[: self._room]
            self._hash.update(taken)
            self._room -= len(taken)
            rest = rest[len(taken) :]
            if not self._room:
                self._digests += self._hash.digest()
                self._hash.reset()
                self._room = BLOCK_BYTES

    def digests(self) -> bytes:
        """Returns the checksums of the blocks; empty for a single block, whose checksum is that of the whole file."""
        if len(self._digests) + (self._room < BLOCK_BYTES) * DIGEST_BYTES <= DIGEST_BYTES:
            return b""
        return bytes(self._digests) + (self._hash.digest() if self._room < BLOCK_BYTES else b"")


class PartialFile(Protocol):
    """A file of which parts are read. Thread-safe."""

    @property
    def content(self) -> memoryview:
        """All bytes at their offsets; only those passed to ``need`` are valid."""

    def need(self, first: int, end: int) -> None:
        """Reads and verifies the bytes from ``first`` to before ``end``. Raises ``CorruptData`` that names the file, ``StorageError``."""


class VerifiedContent:
    """Verified bytes in memory as a ``PartialFile``."""

    def __init__(self, content: memoryview) -> None:
        self.content = content

    def need(self, first: int, end: int) -> None:
        """Does nothing: all bytes are verified."""


class VerifiedFile:
    """A local file whose blocks are verified when they are needed. ``what``: its name in messages. ``repair``: for a local copy, reads the original
    when a block is damaged. Thread-safe."""

    def __init__(self, path: str, handle: StateHandle, what: str, repair: Repair | None = None) -> None:
        """Opens the file. Raises ``CorruptData`` when its size is not that of the handle, and ``OSError``."""
        self._handle = handle
        self._what = what
        self._path = path
        self._repair = repair
        self._descriptor, size_bytes = LocalFiles().open_file(path)
        self._close = weakref.finalize(self, os.close, self._descriptor)
        if size_bytes != handle.size_bytes:
            self._close()
            raise CorruptData(f"{what} has {size_bytes} bytes, expected {handle.size_bytes} bytes; {ON_DAMAGE}")
        access = mmap.PROT_READ if repair is None else mmap.PROT_READ | mmap.PROT_WRITE
        # private: what is repaired is changed in memory alone
        mapped = mmap.mmap(self._descriptor, size_bytes, flags=mmap.MAP_PRIVATE, prot=access)
        self.content = memoryview(mapped)
        self._mapped = mapped
        self._block_bytes = BLOCK_BYTES if handle.block_checksums else size_bytes
        self._left = -(-size_bytes // self._block_bytes)
        self._is_there = bytearray(self._left)
        self._reading = threading.Lock()
        self._check_digests()

    @property
    def is_whole(self) -> bool:
        """Whether all blocks were read and verified."""
        return not self._left

    def need(self, first: int, end: int) -> None:
        """Reads and verifies the bytes from ``first`` to before ``end``. Raises ``CorruptData`` that names the file, ``StorageError``."""
        if not self._left or end <= first:
            return
        is_there, size = self._is_there, self._block_bytes
        last, most = (end - 1) // size + 1, max(_CALL_BYTES // size, 1)
        block = first // size
        while block < last:
            if is_there[block]:
                block += 1
                continue
            with self._reading:
                stop = block
                while stop < min(last, block + most) and not is_there[stop]:
                    stop += 1
                self._read(range(block, stop))
            block = stop

    def _read(self, blocks: range) -> None:
        """Reads and verifies adjacent blocks with one call, or one by one when one of them is damaged."""
        if len(blocks) < 2:
            for block in blocks:
                self._read_block(block)
            return
        first, end = blocks.start * BLOCK_BYTES, min(blocks.stop * BLOCK_BYTES, self._handle.size_bytes)
        try:
            content = memoryview(os.pread(self._descriptor, end - first, first))
        except OSError:
            content = memoryview(b"")  # the block that it comes from is found by itself
        for block in blocks:
            at = block * BLOCK_BYTES - first
            if xxhash.xxh3_64_digest(content[at : at + BLOCK_BYTES]) == self._expected(block):
                self._note(block)
            else:
                self._read_block(block)

    def _read_block(self, block: int) -> None:
        first = block * self._block_bytes
        end = min(first + self._block_bytes, self._handle.size_bytes)
        try:
            found = self._digest(first, end)
        except OSError as error:
            if self._repair is None:
                raise unreadable("state file", self._path, error) from error
            found = b""
        if found != self._expected(block):
            if self._repair is None:
                raise CorruptData(
                    f"{self._what} is damaged between its bytes {first} and {end}: their checksum is {found.hex()} instead of "
                    f"{self._expected(block).hex()}; {ON_DAMAGE}"
                )
            self._mapped[first:end] = bytes(self._repair()[first:end])
        self._note(block)

    def _note(self, block: int) -> None:
        """Marks a block as verified."""
        if not self._is_there[block]:
            self._is_there[block] = 1
            self._left = self._is_there.count(0)

    def _expected(self, block: int) -> bytes:
        digests = self._handle.block_checksums or bytes.fromhex(self._handle.checksum)
        return digests[block * DIGEST_BYTES : (block + 1) * DIGEST_BYTES]

    def _digest(self, first: int, end: int) -> bytes:
        """Reads a range and returns its checksum: a failing disk raises here, and not where the mapping is accessed."""
        found = xxhash.xxh3_64()
        while first < end:
            part = os.pread(self._descriptor, min(end - first, _CALL_BYTES), first)
            if not part:
                break  # cut off meanwhile
            found.update(part)
            first += len(part)
        return found.digest()

    def _check_digests(self) -> None:
        checksum_bytes = len(self._handle.block_checksums)
        if checksum_bytes not in (0, self._left * DIGEST_BYTES):
            self._close()
            raise CorruptData(
                f"{self._what}: its handle has {checksum_bytes} bytes of checksums for {self._left} blocks; {ON_DAMAGE}"
            )
