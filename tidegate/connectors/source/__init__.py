"""Sources of your own, with the names of Flink's FLIP-27 (``org.apache.flink.api.connector.source``).

    SplitEnumerator ── assign_split, signal_no_more_splits, send_event_to_source_reader ──▶ SourceReader
          ▲                                                                                     │
          └──────────────── send_split_request, send_source_event_to_coordinator ◀──────────────┘

A ``Source`` creates the enumerator and the readers. There is one enumerator for a job, in a process of its own on a TaskManager, and one reader for
each subtask.
"""

from __future__ import annotations

from tidegate.common.names.finding import connector
from tidegate.connectors.source.enumerator import (
    ReaderInfo,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitsAssignment,
)
from tidegate.connectors.source.reader import (
    MAIN_OUTPUT,
    InputStatus,
    ReaderOutput,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from tidegate.connectors.source.serializers import PickleSerializer, SimpleVersionedSerializer
from tidegate.connectors.source.source import Boundedness, Source
from tidegate.connectors.source.splits import SourceSplit

__all__ = [
    "MAIN_OUTPUT",
    "Boundedness",
    "InputStatus",
    "PickleSerializer",
    "ReaderInfo",
    "ReaderOutput",
    "SimpleVersionedSerializer",
    "Source",
    "SourceOutput",
    "SourceReader",
    "SourceReaderContext",
    "SourceSplit",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "SplitsAssignment",
]

__getattr__ = connector(__name__)
