"""What must hold, by number:

1  terms of successful changes never go down
2  no TaskManager obeys a term lower than one it has obeyed, or the same one of another leader; no sink commits what the next leader
   does not restore from, or from beyond
3  the pointer is one register: it never goes back, what it names is there, and what leaders wrote and read has one order
4  a leader that is paused or deposed confirms, deploys and removes nothing
5  soon after the last fault a JobManager leads, and goes on leading, and the job ends
6  a job with a result never runs again, and nothing of it is left; a job id is accepted once
8  no file of the store is left that nothing names, once another leader has looked through it
9  the program of a job that has not ended is there, whichever leader runs the job next

Law 7, that adopted subtasks go on as they are, is `ADOPTION` of the schedules with the whole protocol (`tests/sim/watch.py`).
"""

from __future__ import annotations


class LawBroken(AssertionError):
    """``law``: its number."""

    def __init__(self, law: int, what: str) -> None:
        super().__init__(f"law {law}: {what}")
        self.law = law


def require(law: int, holds: bool, what: str) -> None:
    if not holds:
        raise LawBroken(law, what)
