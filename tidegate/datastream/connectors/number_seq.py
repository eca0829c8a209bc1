"""``pyflink.datastream.connectors.number_seq``: the same name from the same module path."""

from __future__ import annotations

from tidegate.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
