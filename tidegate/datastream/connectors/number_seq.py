"""``pyflink.datastream.connectors.number_seq``: the same name from the same module path."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]

__getattr__ = finding(
    __name__,
    elsewhere("tidegate.datastream.connectors.base", "Source"),
)
