"""External resources, such as GPUs (Flink: ``org.apache.flink.api.common.externalresource``).

A TaskManager asks a driver at its start what it has of each resource that its configuration names; functions get it from their runtime context
by ``get_external_resource_infos(name)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

__all__ = ["ExternalResourceDriver", "ExternalResourceInfo"]


class ExternalResourceInfo:
    """One unit of a resource, such as one GPU, with the properties that its driver reports. Equal by its properties."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)

    def get_property(self, key: str) -> str | None:
        """Returns the property with this key; ``None`` when there is none."""
        return self._properties.get(key)

    def get_keys(self) -> frozenset[str]:
        """Returns the keys of all properties."""
        return frozenset(self._properties)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExternalResourceInfo) and self._properties == other._properties

    def __hash__(self) -> int:
        return hash(frozenset(self._properties.items()))

    def __repr__(self) -> str:
        return f"ExternalResourceInfo({self._properties})"


class ExternalResourceDriver(ABC):
    """Finds the units of one resource on a machine. ``external-resource.<name>.driver-factory.class`` names its factory, ``module:callable``, which is
    called with the parameters ``external-resource.<name>.param.*`` as keyword arguments."""

    @abstractmethod
    def retrieve_resource_info(self, amount: int) -> set[ExternalResourceInfo]:
        """Returns ``amount`` units of the resource. May block; an exception fails the TaskManager's start."""
