"""Queryable state (Flink: ``KvStateRegistry``): what a subtask registers, and where it is.

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
    """A queryable state of one subtask, as the subtask registers it."""

    name: str
    """The name by which clients query it; unique in the job."""
    operator_id: OperatorId
    operator: str
    """The operator's uid, or else its name, for messages."""
    state_name: str
    """The name of the state in a checkpoint."""
    key_groups: KeyGroupRange
    max_parallelism: int
    types: bytes
    """The pickled types of its keys and values. Subtasks make it and clients read it."""


@dataclass(frozen=True, slots=True)
class KvStatePlace:
    """The subtask that holds a range of key groups, and the server of its TaskManager (``host:port``)."""

    key_groups: KeyGroupRange
    attempt: AttemptId
    address: str


@dataclass(frozen=True, slots=True)
class KvStateLocation:
    """The current location of a job's queryable state. ``places`` may lack key groups whose subtasks are not running."""

    info: KvStateInfo
    places: tuple[KvStatePlace, ...]

    def by_group(self) -> Mapping[int, KvStatePlace]:
        """Returns the address of the server that has the state of each key group, for those that are known."""
        return {
            group: place for place in self.places for group in range(place.key_groups.start, place.key_groups.end + 1)
        }
