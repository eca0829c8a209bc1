"""Streams results back to the program that submitted the job (``DataStream.execute_and_collect``)."""

from __future__ import annotations

from tidegate.connectors.collect.client import CollectedResults, ResultSource
from tidegate.connectors.collect.sink import CollectSink

__all__ = ["CollectSink", "CollectedResults", "ResultSource"]
