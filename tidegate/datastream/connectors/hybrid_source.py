"""Module alias of ``pyflink.datastream.connectors.hybrid_source``."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.connectors.hybrid.parts import SourceSwitchContext
from tidegate.connectors.hybrid.source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]

__getattr__ = finding(
    __name__,
    elsewhere("tidegate.datastream.connectors.base", "Source"),
)
