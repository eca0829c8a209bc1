"""`SlotSharingGroup`: operators that may share slots (PyFlink: ``pyflink.datastream.slot_sharing_group``)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SlotSharingGroup"]


@dataclass(frozen=True)
class SlotSharingGroup:
    """Only a name here: all slots of a TaskManager are alike."""

    name: str

    def get_name(self) -> str:
        return self.name

    @staticmethod
    def builder(name: str) -> SlotSharingGroupBuilder:
        return SlotSharingGroupBuilder(name)


@dataclass(frozen=True)
class SlotSharingGroupBuilder:
    name: str

    def build(self) -> SlotSharingGroup:
        return SlotSharingGroup(self.name)
