"""Fencing tokens, which order the leaders whose messages processes obey.

A generation begins with the term of its leader, sixteen hexadecimal digits, of which a later leader has a higher one. Term 0 is that of
a JobManager without high availability: it is not compared, since nothing orders such processes (Flink: ``JobMasterId``, a
random fencing token, which does not order either).
"""

from __future__ import annotations

from tidegate.model.ids import Generation

_DIGITS = 16
"""The digits of a term, 64 bits; texts of equal length sort as their numbers."""
UNORDERED = 0
"""The term of a JobManager without high availability."""


def make_generation(term: int, suffix: str) -> Generation:
    """Makes a generation. ``suffix``: distinguishes two processes that claim the same term."""
    return Generation(f"{term:0{_DIGITS}x}{suffix}")


def term_of(generation: Generation) -> int:
    """Returns the term of a generation; 0 if it has none."""
    digits = generation[:_DIGITS]
    try:
        return int(digits, 16) if len(digits) == _DIGITS else UNORDERED
    except ValueError:
        return UNORDERED


def fenced_off(generation: Generation, highest: Generation | None) -> str | None:
    """Returns why a process that has obeyed ``highest`` must not obey ``generation``: its term is lower, or equal but another leader's; ``None``: it may."""
    term, seen = term_of(generation), UNORDERED if highest is None else term_of(highest)
    if seen == UNORDERED or generation == highest or term > seen:
        return None
    if term == UNORDERED:
        return f"it has no term (high-availability.type NONE), and this process has already obeyed a JobManager of term {seen}"
    if term == seen:
        return f"it claims term {term}, which another JobManager has"
    return f"its term is {term}, and a JobManager of term {seen} has led since"


def highest_of(generation: Generation, highest: Generation | None) -> Generation:
    """Returns the higher of two generations, to compare later ones with."""
    if highest is None or term_of(generation) > term_of(highest):
        return generation
    return highest
