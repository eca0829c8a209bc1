"""Module alias of ``pyflink.datastream.connectors.number_seq``."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]

__getattr__ = finding(
    __name__,
    elsewhere("tidegate.datastream.connectors.base", "Source"),
)
