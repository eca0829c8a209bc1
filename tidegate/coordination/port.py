"""The port of high availability (Flink: ``HighAvailabilityServices``, ``LeaderElection``, ``LeaderRetrievalService``).

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
    """Another JobManager leads. What was asked for did not happen, and will not."""

    code = "deposed"


class Unavailable(StorageError):
    """The store did not answer. What was asked for may have happened; to ask again does no harm."""

    code = "store-unavailable"


class Entries(Protocol):
    """Values of some kilobytes under names such as ``jobs/<id>/attempt``. All methods block. They raise ``Unavailable``, and those that
    change something ``Deposed`` once another leads."""

    @property
    def excludes_others(self) -> bool:
        """While this process lives no other one leads, so that also its files elsewhere are its own."""

    def get(self, name: str) -> bytes | None: ...

    def names(self, below: str) -> list[str]:
        """The names of the entries and folders right below a folder, sorted; empty where there is none."""

    def create(self, name: str, value: bytes) -> bool:
        """Whether it is there with this value now: another value that was there stays."""

    def put(self, name: str, value: bytes) -> None:
        """It is durable when this returns."""

    def delete(self, name: str) -> None:
        """With all that is below it; it may be missing."""

    def check_lead(self) -> None:
        """Asks the store itself whether this term goes on, and changes nothing. Raises ``Deposed`` once another leads."""


class Election(Protocol):
    """One JobManager's side."""

    @property
    def lease_ms(self) -> int:
        """A process of which the store has heard nothing for so long may lead no more; 0: it leads as long as it lives."""

    def seek(self, contact: Contact, tell: Callable[[ElectionEvent], None]) -> None:
        """Connects, for good. ``tell`` is called from any thread. Raises ``TidegateError`` where it can never work."""

    def wait_for_turn(self, session: int) -> None:
        """Gets in line; ``LockAcquired`` follows when it is its turn."""

    def give_up(self) -> None:
        """Out of the line, or out of the lead: others may have it at once. Blocks for some seconds at most. Again: no-op."""

    def publish(self, term: int, contact: Contact) -> None:
        """Says where the leader is. Blocks. Raises ``Deposed`` or ``Unavailable``."""

    def entries(self, term: int) -> Entries:
        """As the leader of this term changes them."""

    def close(self) -> None:
        """Disconnects. Blocks for some seconds at most."""


class Retrieval(Protocol):
    """Finds the leader. All methods block, and raise ``Unavailable``."""

    def leader(self) -> Leader | None:
        """Returns ``None`` while there is no leader."""

    def standbys(self) -> list[Contact]:
        """Those that wait for their turn, the next one first."""

    def close(self) -> None:
        """Disconnects."""


def encode_leader(leader: Leader) -> bytes:
    return msgspec.json.encode(leader)


def decode_leader(content: bytes, place: str) -> Leader:
    """Raises ``CorruptData``."""
    try:
        return msgspec.json.decode(content, type=Leader)
    except UNREADABLE as error:
        raise CorruptData(f"{place} does not say who leads: {error}") from None


def encode_contact(contact: Contact) -> bytes:
    return msgspec.json.encode(contact)


def decode_contact(content: bytes, place: str) -> Contact:
    """Raises ``CorruptData``."""
    try:
        return msgspec.json.decode(content, type=Contact)
    except UNREADABLE as error:
        raise CorruptData(f"{place} does not say where a JobManager is: {error}") from None
