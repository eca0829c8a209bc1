"""The interface of high availability (Flink: ``HighAvailabilityServices``, ``LeaderElection``, ``LeaderRetrievalService``).

A driver has two sides. An ``Election`` is for JobManagers, which want to lead; a ``Retrieval`` for those who look for the leader. What a leader
keeps are ``Entries``: small, linearizable, and changed under its token alone. What is large lies in files that an entry names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from tidegate.model.errors import CorruptData, StorageError
from tidegate.model.leadership import Contact, ElectionEvent, Leader
from tidegate.wire.unreadable import UNREADABLE


class Deposed(StorageError):
    """The error of a JobManager that does not lead: another one does. The requested change did not happen, and will not."""

    code = "deposed"


class Unavailable(StorageError):
    """The error of a store that did not answer. The requested change may have happened; repeating it is harmless."""

    code = "store-unavailable"


class Entries(Protocol):
    """Small values of some kilobytes by names such as ``jobs/<id>/attempt``. All methods block, and raise ``Unavailable``; those that change entries
    raise ``Deposed`` once another process leads."""

    @property
    def excludes_others(self) -> bool:
        """Whether no other process can lead while this one lives, so that its files elsewhere are its own too."""

    def get(self, name: str) -> bytes | None: ...

    def names(self, below: str) -> list[str]:
        """Returns the sorted names of the entries and folders in a folder; empty where there is none."""

    def create(self, name: str, value: bytes) -> bool:
        """Creates an entry; returns whether it now has this value: an existing one with another value stays."""

    def put(self, name: str, value: bytes) -> None:
        """Writes an entry, durable when this method returns."""

    def delete(self, name: str) -> None:
        """Removes an entry with all entries below it; it may be missing."""

    def check_lead(self) -> None:
        """Checks at the store that this term goes on, and changes nothing. Raises ``Deposed`` once another process leads."""


class Election(Protocol):
    """The leader election of one JobManager."""

    @property
    def lease_ms(self) -> int:
        """How long the store may hear nothing of a leader before another one may lead, in ms; 0: it leads as long as it lives."""

    def seek(self, contact: Contact, tell: Callable[[ElectionEvent], None]) -> None:
        """Connects permanently. ``tell`` is called from any thread. Raises ``TidegateError`` where the election can never work."""

    def wait_for_turn(self, session: int) -> None:
        """Starts to wait for the lead; ``LockAcquired`` follows when this process leads."""

    def give_up(self) -> None:
        """Stops waiting for the lead, or gives it up: others may lead at once. Blocks for some seconds at most. A second call does nothing."""

    def publish(self, term: int, contact: Contact) -> None:
        """Publishes the address of the leader. Blocks. Raises ``Deposed`` or ``Unavailable``."""

    def entries(self, term: int) -> Entries:
        """Returns the entries for the leader of this term."""

    def close(self) -> None:
        """Disconnects. Blocks for some seconds at most."""


class Retrieval(Protocol):
    """Finds the leader. All methods block, and raise ``Unavailable``."""

    def leader(self) -> Leader | None:
        """Returns the leader; ``None`` while there is none."""

    def standbys(self) -> list[Contact]:
        """Returns the standbys, the next leader first."""

    def close(self) -> None:
        """Disconnects."""


def encode_leader(leader: Leader) -> bytes:
    return msgspec.json.encode(leader)


def decode_leader(content: bytes, place: str) -> Leader:
    """Decodes the leader of an entry. Raises ``CorruptData``."""
    try:
        return msgspec.json.decode(content, type=Leader)
    except UNREADABLE as error:
        raise CorruptData(
            f"{place} is damaged, it does not name the leader of the cluster: {error}; a JobManager writes it anew when it becomes the leader"
        ) from None


def encode_contact(contact: Contact) -> bytes:
    return msgspec.json.encode(contact)


def decode_contact(content: bytes, place: str) -> Contact:
    """Decodes the address of a process. Raises ``CorruptData``."""
    try:
        return msgspec.json.decode(content, type=Contact)
    except UNREADABLE as error:
        raise CorruptData(
            f"{place} is damaged, it does not hold the address of a JobManager: {error}; restart that JobManager, which writes it anew"
        ) from None
