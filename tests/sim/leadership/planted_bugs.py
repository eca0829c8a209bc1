"""Bugs on purpose, each with the laws that may catch it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from weakref import WeakSet

from tests.sim.laws import Law
from tests.sim.leadership.job_manager import PLAN, PROGRAM, SimJobManager, SimTerm
from tests.sim.leadership.store import RESULT, Store
from tests.sim.plant import Plant, patched
from tidegate.jobmanager.machines import fenced_writes as writes
from tidegate.jobmanager.machines.leadership import (
    Leadership,
    LeadershipCommand,
    LeadershipEvent,
    StartLeading,
    WaitForTurn,
)
from tidegate.jobmanager.programs.blob_names import BlobNames
from tidegate.model import fencing
from tidegate.model.ids import BlobKey, Generation
from tidegate.model.leadership import Suspended

_create = Store.create
_pointers = Store.pointers
_on_leadership = Leadership.on
_on = writes.FencedWrites.on
_fenced_off = fencing.fenced_off


def _confirms_first(self: SimTerm, number: int) -> None:
    self.store.files.add(f"pointer/{number}")
    self._committed(number)
    self.write(lambda: self.store.create(self.number, f"pointer/{number}", self.generation), lambda _: None)


def _each_on_its_own(
    self: writes.FencedWrites, event: writes.WritesEvent, now_ms: int
) -> Sequence[writes.WritesCommand]:
    if isinstance(event, writes.WriteRequested):
        event = writes.WriteRequested(str(event.number), event.number)
    return _on(self, event, now_ms)


def _equal_is_fine(generation: Generation, highest: Generation | None) -> str | None:
    if highest is not None and fencing.term_of(generation) == fencing.term_of(highest):
        return None
    return _fenced_off(generation, highest)


def _not_suspended(self: Leadership, event: LeadershipEvent, now_ms: int) -> Sequence[LeadershipCommand]:
    return () if isinstance(event, Suspended) else _on_leadership(self, event, now_ms)


def _goes_on(self: SimJobManager) -> None:
    self.term = None


def _as_before_the_lock(self: SimTerm) -> tuple[list[int], int]:
    return self.owner.early[0], int(self.store.entries.get("attempt", "0"))


def _discards_first(self: SimTerm, number: int) -> None:
    self.discard(f"pointer/{number}")
    self.write(lambda: self.store.delete(self.number, f"pointer/{number}"), lambda _: None)


def _removes_the_last_first(self: SimTerm) -> None:
    self.remove_last()
    self.write(lambda: self.store.put(self.number, RESULT, "FINISHED"), lambda _: self._clean())


def _whoever_asks(self: Store, term: int, name: str, value: str) -> bool:
    if name != PLAN:
        return _create(self, term, name, value)
    self.entries[name] = value
    return True


def _from_a_server_that_is_behind(self: Store) -> list[int]:
    """One pointer less, where there are two: the newest has not got there yet."""
    return _pointers(self)[:-1] or _pointers(self)


def _waits_in_no_line(self: Leadership, event: LeadershipEvent, now_ms: int) -> Sequence[LeadershipCommand]:
    """As one that led before and believes to be in line still."""
    commands = _on_leadership(self, event, now_ms)
    if any(isinstance(command, StartLeading) for command in commands):
        _have_led.add(self)
    return [command for command in commands if not (isinstance(command, WaitForTurn) and self in _have_led)]


_have_led: WeakSet[Leadership] = WeakSet()


def _looks_at_no_file(self: SimTerm) -> None:
    """Files that no entry names stay where they are."""


def _releases(self: SimTerm, number: int) -> None:
    del number
    if PROGRAM in self.needed:
        self.release()


def _plain(self: BlobNames, key: BlobKey) -> str:
    self.found([key])
    return key


def _whatever_the_term(self: BlobNames, name: str, needed: Container[BlobKey]) -> bool:
    return self.get(PROGRAM) != name or PROGRAM not in needed


PLANTS = (
    Plant(
        "confirmed before the pointer is swapped",
        frozenset({Law.OBEDIENCE, Law.POINTER}),
        patched(SimTerm, "seal", _confirms_first),
    ),
    Plant(
        "the pointer is read before the lock",
        frozenset({Law.OBEDIENCE}),
        patched(SimTerm, "found", _as_before_the_lock),
    ),
    Plant("a suspended connection is ignored", frozenset({Law.DEPOSED}), patched(Leadership, "on", _not_suspended)),
    Plant(
        "the old leader repeats a confirm after it lost",
        frozenset({Law.DEPOSED}),
        patched(SimJobManager, "depose", _goes_on),
    ),
    Plant(
        "an equal term of another leader is obeyed",
        frozenset({Law.OBEDIENCE}),
        patched(fencing, "fenced_off", _equal_is_fine),
    ),
    Plant(
        "a result is written after the clean-up",
        frozenset({Law.RESULT}),
        patched(writes.FencedWrites, "on", _each_on_its_own),
    ),
    Plant(
        "the last checkpoints are removed before the result is written",
        frozenset({Law.OBEDIENCE, Law.POINTER}),
        patched(SimTerm, "end", _removes_the_last_first),
    ),
    Plant(
        "a checkpoint is removed before the pointer moved",
        frozenset({Law.POINTER}),
        patched(SimTerm, "remove", _discards_first),
    ),
    Plant(
        "two clients submit one id at a failover",
        frozenset({Law.RESULT, Law.PROGRAM}),
        patched(Store, "create", _whoever_asks),
    ),
    Plant(
        "the pointer is read where it is old",
        frozenset({Law.OBEDIENCE, Law.POINTER}),
        patched(Store, "pointers", _from_a_server_that_is_behind),
    ),
    Plant("one that led never waits again", frozenset({Law.LEADERSHIP}), patched(Leadership, "on", _waits_in_no_line)),
    Plant(
        "submissions that nothing names stay",
        frozenset({Law.UNNAMED_FILES}),
        patched(SimTerm, "sweep", _looks_at_no_file),
    ),
    Plant(
        "a deposed leader takes the program of a job it was accepting",
        frozenset({Law.PROGRAM}),
        patched(SimTerm, "abandoned", _releases),
    ),
    Plant("leaders share the file of a program", frozenset({Law.PROGRAM}), patched(BlobNames, "add", _plain)),
    Plant(
        "a deposed leader removes programs of a later one",
        frozenset({Law.PROGRAM}),
        patched(BlobNames, "may_go", _whatever_the_term),
    ),
)
