"""One JobManager's part in a leader election, as a machine.

                Connected                LockAcquired                 Suspended
    CONNECTING ───────────▶ STANDBY ─────────────────▶ LEADING ◀──────────────▶ PAUSED
        ▲                   │     ▲                       │       Connected        │
        └─ Suspended, Lost ─┘     └── Connected (new) ────┴── Lost, StoreRefused ──┘

Laws: it leads in one term at a time, and terms only grow; a lock acquired in a session counts in that session alone; while PAUSED nothing
is committed or confirmed, and leadership is kept; an ended term never resumes.

Flink ends leadership as soon as the connection is suspended (``tolerate-suspended-connections: false``). Here it pauses: the store refuses
writes of a deposed leader, whatever happens in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from tidegate.model.leadership import (
    Connected,
    ElectionEvent,
    LockAcquired,
    Lost,
    ResignationRequested,
    StoreRefused,
    Suspended,
)

LeadershipEvent = ElectionEvent | StoreRefused | ResignationRequested


class LeadershipState(Enum):
    """The states of a JobManager in the election; the diagram of the module shows the transitions."""

    CONNECTING = "CONNECTING"
    STANDBY = "STANDBY"
    LEADING = "LEADING"
    PAUSED = "PAUSED"
    ENDED = "ENDED"


@dataclass(frozen=True, slots=True)
class WaitForTurn:
    """Joins the queue for the leader lock, in this session."""

    session: int


@dataclass(frozen=True, slots=True)
class StartLeading:
    """Orders the start of the leader's services in a term."""

    term: int


@dataclass(frozen=True, slots=True)
class PauseCommits:
    """Holds back commits and confirms until ``ResumeCommits``."""


@dataclass(frozen=True, slots=True)
class ResumeCommits:
    """Resumes commits and confirms: the session and the term continue."""


@dataclass(frozen=True, slots=True)
class StopLeading:
    """Ends the term for good: none of its decisions may leave after this."""

    term: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUpLock:
    """Releases the leader lock, so that another JobManager can lead at once."""


LeadershipCommand = WaitForTurn | StartLeading | PauseCommits | ResumeCommits | StopLeading | GiveUpLock


class Leadership:
    """The state machine of one election candidate. ``term``: the term in which it leads; 0 when it does not lead."""

    def __init__(self) -> None:
        self.state = LeadershipState.CONNECTING
        self.term = 0
        self._session = 0
        self._waits_in = 0
        """The session in which it queues for the lock; 0: in none."""
        self._turn = 0
        """A term whose lock was acquired while the connection was suspended, to be led once it is back; 0: none."""
        self._highest = 0

    @property
    def leads(self) -> bool:
        return self.state in (LeadershipState.LEADING, LeadershipState.PAUSED)

    def on(self, event: LeadershipEvent, now_ms: int) -> Sequence[LeadershipCommand]:
        del now_ms  # nothing here depends on time: sessions do, and the store keeps those
        if self.state is LeadershipState.ENDED:
            return (GiveUpLock(),) if isinstance(event, LockAcquired) else ()
        match event:
            case Connected():
                return self._on_connected(event.session)
            case Suspended():
                return self._on_suspended()
            case Lost():
                return self._over(event.reason or "its session is over", LeadershipState.CONNECTING)
            case LockAcquired():
                return self._on_turn(event)
            case StoreRefused():
                if event.term != self.term or not self.leads:
                    return ()
                return [*self._over(event.reason, LeadershipState.STANDBY), GiveUpLock(), *self._get_in_line()]
            case ResignationRequested():
                return [*self._over("the process ends", LeadershipState.ENDED), GiveUpLock()]
            case _:
                assert_never(event)

    def _on_connected(self, session: int) -> Sequence[LeadershipCommand]:
        if self.leads and session == self._session:
            if self.state is LeadershipState.LEADING:
                return ()
            self.state = LeadershipState.LEADING
            return (ResumeCommits(),)
        over = self._over("its session is over", LeadershipState.STANDBY) if self.leads else ()
        if session != self._session:
            self._turn = 0
        self._session = session
        self.state = LeadershipState.STANDBY
        if self._turn:
            return self._lead(self._turn)
        return [*over, *self._get_in_line()]

    def _on_suspended(self) -> Sequence[LeadershipCommand]:
        if self.state is LeadershipState.STANDBY:
            self.state = LeadershipState.CONNECTING
        if self.state is not LeadershipState.LEADING:
            return ()
        self.state = LeadershipState.PAUSED
        return (PauseCommits(),)

    def _on_turn(self, event: LockAcquired) -> Sequence[LeadershipCommand]:
        if event.session != self._session or event.term <= self._highest or self.leads:
            return ()  # it came late: the session that it was acquired in is over
        if self.state is LeadershipState.STANDBY:
            return self._lead(event.term)
        self._turn = event.term
        return ()

    def _lead(self, term: int) -> Sequence[LeadershipCommand]:
        self.state, self.term, self._highest, self._turn = LeadershipState.LEADING, term, term, 0
        return (StartLeading(term),)

    def _over(self, reason: str, state: LeadershipState) -> Sequence[LeadershipCommand]:
        term, led = self.term, self.leads
        self.state, self.term, self._turn, self._waits_in = state, 0, 0, 0
        if state is LeadershipState.CONNECTING:
            self._session = 0
        return (StopLeading(term, reason),) if led else ()

    def _get_in_line(self) -> Sequence[LeadershipCommand]:
        if self._waits_in == self._session:
            return ()
        self._waits_in = self._session
        return (WaitForTurn(self._session),)

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when the machine contradicts itself. Called between events."""
        assert self.leads == (self.term != 0), f"{self.state} in term {self.term}"
        assert self.term in (0, self._highest), f"leads in term {self.term} after {self._highest}"
        assert not self.leads or self._session, "leads without a session"
        assert not (self.leads and self._turn), f"leads, and has the turn of term {self._turn}"
