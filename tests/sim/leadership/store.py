"""A linearizable store with sessions, a lock and entries, as ZooKeeper is one; and the files beside it, which nothing fences.

Whatever arrives is carried out at once and completely. What goes wrong, on the way there, on the way back and with sessions, is the
world's part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.sim.laws import Law, require
from tidegate.high_availability.port import Deposed

RESULT = "result"


@dataclass
class Session:
    owner: str
    seen_ms: int
    is_alive: bool = True


@dataclass
class Store:
    session_ms: int
    sessions: dict[int, Session] = field(default_factory=dict)
    line: list[tuple[int, int]] = field(default_factory=list)
    """Session and term of those that wait for the lock; the first has it."""
    entries: dict[str, str] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    last_term: int = 0
    changed_by: int = 0
    """The highest term that changed an entry."""
    best_pointer: int = 0
    has_ended: bool = False
    """The job has had its result."""

    def is_over(self) -> bool:
        return self.has_ended or RESULT in self.entries

    def open(self, owner: str, now_ms: int) -> int:
        number = len(self.sessions) + 1
        self.sessions[number] = Session(owner, now_ms)
        return number

    def beat(self, session: int, now_ms: int) -> bool:
        """Whether the session goes on."""
        found = self.sessions[session]
        if found.is_alive:
            found.seen_ms = now_ms
        return found.is_alive

    def expire(self, now_ms: int) -> None:
        for number, session in self.sessions.items():
            if session.is_alive and now_ms - session.seen_ms > self.session_ms:
                self.end(number)

    def end(self, session: int) -> None:
        self.sessions[session].is_alive = False
        self.line = [(other, term) for other, term in self.line if other != session]

    def get_in_line(self, session: int) -> None:
        if self.sessions[session].is_alive and session not in (other for other, _ in self.line):
            self.last_term += 1
            self.line.append((session, self.last_term))

    def leave_line(self, session: int) -> None:
        self.line = [(other, term) for other, term in self.line if other != session]

    def first(self) -> tuple[int, int] | None:
        return self.line[0] if self.line else None

    # ---- entries -----------------------------------------------------------------------------------------------------

    def create(self, term: int, name: str, value: str) -> bool:
        self._fence(term, name)
        found = self.entries.setdefault(name, value)
        if name.startswith("pointer/") and found == value:
            number = int(name.partition("/")[2])
            require(Law.POINTER, number >= self.best_pointer, f"pointer {number} after {self.best_pointer}")
            require(Law.POINTER, name in self.files, f"{name} was committed, and its payload is not there")
            self.best_pointer = number
        return found == value

    def put(self, term: int, name: str, value: str) -> None:
        self._fence(term, name)
        self.entries[name] = value

    def delete(self, term: int, name: str) -> None:
        self._fence(term, name)
        self.entries.pop(name, None)

    def pointers(self) -> list[int]:
        return sorted(int(name.partition("/")[2]) for name in self.entries if name.startswith("pointer/"))

    def is_led_in(self, term: int) -> bool:
        return bool(self.line) and self.line[0][1] == term

    def _fence(self, term: int, name: str) -> None:
        if not self.is_led_in(term):
            raise Deposed(f"term {term} is over")
        require(Law.TERMS, term >= self.changed_by, f"term {term} changes {name} after term {self.changed_by}")
        self.changed_by = term
