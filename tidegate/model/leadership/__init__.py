"""Values of leader election, shared by the machine, the drivers and clients that look up a leader."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contact:
    """The addresses of a JobManager. ``process``: the name of its process, for messages; ``rpc`` and ``rest``: ``host:port``, empty while the JobManager
    does not listen there.
    """

    process: str
    rpc: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader and its term."""

    term: int
    contact: Contact


# ---- what an election tells ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """The store is connected, in this session. A session that continues after a suspension keeps its number."""

    session: int


@dataclass(frozen=True, slots=True)
class Suspended:
    """The store does not answer; the session may continue or be over."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """The session is over: other processes may have taken its locks."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class LockAcquired:
    """This process holds the lock. ``term`` is higher than that of every earlier leader."""

    session: int
    term: int


@dataclass(frozen=True, slots=True)
class StoreRefused:
    """The store refused a change of this term: another process leads."""

    term: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResignationRequested:
    """The process is asked to end."""


ElectionEvent = Connected | Suspended | Lost | LockAcquired
