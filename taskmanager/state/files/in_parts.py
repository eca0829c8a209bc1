"""Reads whole state files in parts: files of an object store are fetched by several requests at once, into a local file that is mapped."""

from __future__ import annotations

from tidegate.model.checkpoint import StateHandle
from tidegate.taskmanager.state.ports import PartialSource, SegmentSource


class InParts:
    """A ``SegmentSource`` that fetches whole files in parts. ``directory``: where files from an object store are kept, without a name."""

    def __init__(self, source: SegmentSource, directory: str) -> None:
        self._source = source
        self._directory = directory

    def read(self, handle: StateHandle) -> memoryview:
        """Returns the content of a file, as the source would."""
        file = self._source.open(handle, self._directory) if isinstance(self._source, PartialSource) else None
        if file is None:
            return self._source.read(handle)
        file.need(0, handle.size_bytes)
        return file.content
