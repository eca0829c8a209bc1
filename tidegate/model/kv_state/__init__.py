"""State that clients may ask for while its job runs (Flink: ``KvStateRegistry``): what a subtask says of it, and where it is.

StateDescriptor.set_queryable ─▶ subtask registers ─▶ TaskManager ─▶ JobManager
client ─▶ JobManager: location ─▶ TaskManager of the key's group ─▶ subtask, between two slices ─▶ value
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.model.ids import AttemptId, OperatorId
from tidegate.model.keygroups import KeyGroupRange


@dataclass(frozen=True, slots=True)
class KvStateInfo:
    """One state of one subtask, as the subtask registers it."""

    name: str
    """By which clients ask for it; unique in the job."""
    operator_id: OperatorId
    operator: str
    """For messages: its uid, or else its name."""
    state_name: str
    """As it is called in a checkpoint."""
    key_groups: KeyGroupRange
    max_parallelism: int
    types: bytes
    """Pickled: the types of its keys and values. Subtasks make it and clients read it; nothing between them does."""


@dataclass(frozen=True, slots=True)
class KvStatePlace:
    """Who holds one part of the key groups, and the server of its TaskManager (``host:port``)."""

    key_groups: KeyGroupRange
    attempt: AttemptId
    address: str


@dataclass(frozen=True, slots=True)
class KvStateLocation:
    """Where a state of a job is now. ``places`` may miss key groups whose subtasks are not up."""

    info: KvStateInfo
    places: tuple[KvStatePlace, ...]

    def by_group(self) -> Mapping[int, KvStatePlace]:
        """Returns the place of each key group that has one."""
        return {
            group: place for place in self.places for group in range(place.key_groups.start, place.key_groups.end + 1)
        }
