"""What connectors share under PyFlink's names (``pyflink.datastream.connectors.base``)."""

from __future__ import annotations

from tidegate.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
