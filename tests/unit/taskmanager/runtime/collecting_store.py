"""State that is kept in its handles."""

from __future__ import annotations

from collections.abc import Iterable

from tests.unit.taskmanager.runtime.fakes import FakeStore
from tidegate.model.checkpoint import StateHandle


class KeepingStore(FakeStore):
    def write(self, name_hint: str, parts: Iterable[bytes | memoryview], *, is_shared: bool = False) -> StateHandle:
        content = b"".join(bytes(part) for part in parts)
        return StateHandle(len(content), "", data=content)

    def read(self, handle: StateHandle) -> memoryview:
        return memoryview(handle.data or b"")
