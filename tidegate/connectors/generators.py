"""Sources that generate their records: numbers, batches of a function, and any source with a limited rate."""

from __future__ import annotations

from tidegate.common.names.finding import connector
from tidegate.connectors.number_sequence import DataGeneratorSource, NumberSequenceSource
from tidegate.connectors.throttle import ThrottledSource

__all__ = ["DataGeneratorSource", "NumberSequenceSource", "ThrottledSource"]

__getattr__ = connector(__name__)
