"""Whole files by way of their parts: those of an object store come by several requests at once, and lie in a local file then, mapped like those of the disk."""

from __future__ import annotations

from tidegate.model.checkpoint import StateHandle
from tidegate.taskmanager.state.base import PartialSource, SegmentSource


class InParts:
    """A ``SegmentSource``. ``directory``: what comes from an object store is kept there, in files without a name."""

    def __init__(self, source: SegmentSource, directory: str) -> None:
        self._source = source
        self._directory = directory

    def read(self, handle: StateHandle) -> memoryview:
        """As that of the source."""
        file = self._source.open(handle, self._directory) if isinstance(self._source, PartialSource) else None
        if file is None:
            return self._source.read(handle)
        file.need(0, handle.size_bytes)
        return file.content
