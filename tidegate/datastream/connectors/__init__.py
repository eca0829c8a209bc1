"""Names of `pyflink.datastream.connectors`: PyFlink's builders over the connectors of `tidegate.connectors`."""

from __future__ import annotations

from tidegate.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
