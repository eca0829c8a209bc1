"""Words of leadership that the machine, the drivers and those who look for a leader share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Contact:
    """Where a JobManager can be reached. ``process`` names it to people; ``rpc`` and ``rest`` are ``host:port``, empty where it does not
    listen (yet)."""

    process: str
    rpc: str = ""
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads, in which term."""

    term: int
    contact: Contact


# ---- what an election tells ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connected:
    """The store answers, in this session. One that went on after a suspension has its old number."""

    session: int


@dataclass(frozen=True, slots=True)
class Suspended:
    """The store does not answer just now; the session may go on, or be over."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """The session is over: what it held, others may have."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class LockAcquired:
    """It is this process's turn. ``term`` is higher than that of every leader before."""

    session: int
    term: int


@dataclass(frozen=True, slots=True)
class StoreRefused:
    """The store did not take a change of this term: another leads."""

    term: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ResignationAsked:
    """The process is to end."""


ElectionEvent = Connected | Suspended | Lost | LockAcquired
