"""Files of state in memory, for tests."""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Iterable

import xxhash

from tidegate.model.checkpoint import StateHandle


class Store:
    """Files in memory. ``inline_bytes``: up to so many, they travel in their handle. ``maps``: what is read is mapped, as from a local disk."""

    def __init__(self, inline_bytes: int = 0, *, maps: bool = False, compresses: bool = False) -> None:
        self.files: dict[str, bytes] = {}
        self.compresses = compresses
        self.reads: Counter[str] = Counter()
        self._maps = maps
        self.written_bytes = 0
        self._inline_bytes = inline_bytes

    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        content = b"".join(bytes(part) for part in parts)
        self.written_bytes += len(content)
        checksum = xxhash.xxh3_64_hexdigest(content)
        if len(content) <= self._inline_bytes:
            return StateHandle(len(content), checksum, data=content)
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return StateHandle(len(content), checksum, path=name, is_shared=is_shared)

    def read(self, handle: StateHandle) -> memoryview:
        if handle.data is not None:
            return memoryview(handle.data)
        self.reads[handle.path] += 1
        content = self.files[handle.path]
        if not self._maps:
            return memoryview(content)
        mapped = mmap.mmap(-1, len(content))
        mapped.write(content)
        return memoryview(mapped)


class PartsStore(Store):
    """Its files can be read in parts, each of ``opened``; what was not asked for is zero."""

    def __init__(self, inline_bytes: int = 0, *, maps: bool = False, compresses: bool = False) -> None:
        super().__init__(inline_bytes, maps=maps, compresses=compresses)
        self.opened: list[Part] = []

    def open(self, handle: StateHandle, directory: str = "") -> Part:
        part = Part(self.files[handle.path])
        self.opened.append(part)
        return part


class Part:
    def __init__(self, content: bytes) -> None:
        self.asked_bytes = 0
        self._whole = content
        self._mapped = mmap.mmap(-1, len(content))
        self.content = memoryview(self._mapped)

    def need(self, first: int, end: int) -> None:
        self.asked_bytes += end - first
        self._mapped[first:end] = self._whole[first:end]
