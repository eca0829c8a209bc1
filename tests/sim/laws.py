"""The laws that the simulators check, each with one number. Those of a checkpoint, 1 to 7, have theirs in docs/architecture."""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Law(IntEnum):
    """The laws of all simulators of ``tests/sim``. A planted bug names those that may catch it."""

    OUTPUT = 0
    """What the other laws are for: the output is exact in the end, and each value is committed once."""
    TRIGGER = 1
    """Only source subtasks are triggered; the others learn of a checkpoint from barriers."""
    CUT = 2
    """Nothing crosses a barrier."""
    FROZEN = 3
    """What is frozen never changes, and a subtask answers once."""
    COMPLETE = 4
    """A checkpoint is complete when all have acknowledged and its pointer is written; it is never aborted after that."""
    PUBLISHED = 5
    """Sinks publish on confirm alone."""
    FENCED = 6
    """Lost, late and doubled messages change nothing."""
    ABORTED = 7
    """A failed checkpoint changes nothing: tasks are notified, and its files are deleted."""
    SHARED = 8
    """No shared file is deleted that a checkpoint needs, and none is left that no checkpoint needs."""
    ENDING = 9
    """No checkpoint fails, or is declined, because a subtask of its plan finishes."""
    ADOPTION = 10
    """Where a JobManager goes on with the subtasks of another one, no TaskManager obeys two, and what is adopted lives, once."""
    SPLITS = 11
    """A checkpoint holds each split that a coordinator hands out once."""
    SHAPE = 12
    """A job is in one shape at a time: what is deployed has the numbers of subtasks that the job store has."""
    LINK = 13
    """A connection that breaks and comes back in time is no loss."""
    LIVENESS = 14
    """A world in which nothing fails any longer comes to its end."""
    EVENT_TIME = 15
    """Watermarks and timers follow the records."""
    EVENTS = 16
    """Events of functions arrive in their order, from the attempt that runs."""
    OVERTAKING = 17
    """A barrier that overtakes waits behind no data."""
    TRANSACTIONS = 18
    """A transaction ends once."""
    PARTS = 19
    """A record of one part of a source is emitted after all of the parts before it."""
    BACKLOG = 20
    """A source reports its backlog as it is, once each time that it changes."""

    TERMS = 21
    """Terms of successful changes never go down."""
    OBEDIENCE = 22
    """No TaskManager obeys a term lower than one that it has obeyed, or the same one of another leader; no sink commits what the next leader does not restore
    from, or from beyond."""
    POINTER = 23
    """The pointer is one register: it never goes back, what it names is there, and what leaders wrote and read has one order."""
    DEPOSED = 24
    """A leader that is paused or deposed confirms, deploys and removes nothing."""
    LEADERSHIP = 25
    """Soon after the last fault a JobManager leads, and goes on leading, and the job ends."""
    RESULT = 26
    """A job with a result never runs again, and nothing of it is left; a job id is accepted once."""
    UNNAMED_FILES = 27
    """No file of the store is left that nothing names, once another leader has looked through it."""
    PROGRAM = 28
    """The program of a job that has not ended is there, whichever leader runs the job next."""

    LEDGER = 31
    """An acknowledged change is in the ledger, of one writer, and stays; one that was refused is not."""
    ONE_LEADER = 32
    """One process leads in a term."""
    OWN_CHANGES = 33
    """A leader gets the answers to changes of its own term alone."""

    NEEDED = 41
    """A worker is started only when those that are there and those on their way are not enough."""
    IN_USE = 42
    """A worker with a slot in use is never stopped."""
    PAUSE = 43
    """After too many starts have failed none is made for the retry interval."""
    ENOUGH = 44
    """Once the provider keeps its promises every job ends, and then no worker is left but for the minimum."""

    REPORTED = 51
    """Records that are missing were reported as lost, and no others were."""
    NOTHING_OPEN = 52
    """The transactions that a crashed attempt left are aborted by the next one."""

    INVARIANT = 61
    """What a machine says of itself in ``check_invariants``."""


class LawBroken(AssertionError):
    """A law does not hold. ``text``: what happened."""

    def __init__(self, law: Law, text: str) -> None:
        super().__init__(f"law {law}, {law.name}: {text}")
        self.law = law


def require(law: Law, holds: bool, text: str) -> None:
    """Raises ``LawBroken`` unless ``holds``."""
    if not holds:
        raise LawBroken(law, text)
