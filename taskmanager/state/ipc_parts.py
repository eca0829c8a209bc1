"""What Arrow writes, as the parts of a file: buffers of columns as they are, without a copy into a larger one."""

from __future__ import annotations

import io
from typing import Any

from tidegate.store.files import Part


class IpcParts(io.RawIOBase):
    """For ``pa.ipc.new_file``. What was written must not be changed before its parts are used."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Part] = []

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        part = content if isinstance(content, bytes) else memoryview(content)
        self._parts.append(part)
        return len(part)

    def drain(self) -> list[Part]:
        """The parts since the last call, in order."""
        parts, self._parts = self._parts, []
        return parts
