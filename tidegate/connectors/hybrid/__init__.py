"""Hybrid sources: several sources one after the other as one, such as files and then a topic from their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.common.names.finding import connector

if TYPE_CHECKING:
    from tidegate.connectors.hybrid.parts import SourceSwitchContext
    from tidegate.connectors.hybrid.source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]

__getattr__ = connector(__name__)
