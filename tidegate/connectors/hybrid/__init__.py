"""Several sources one after the other as one: files, then a topic from where they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.common.names.finding import connector

if TYPE_CHECKING:
    from tidegate.connectors.hybrid.parts import SourceSwitchContext
    from tidegate.connectors.hybrid.source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder", "SourceSwitchContext"]

__getattr__ = connector(__name__)
