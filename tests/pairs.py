"""Every event in every state of a machine, as a table in which people look something up and tests do.

    event   | IDLE             | WORKING
    Begun   | Work ▸ WORKING   | ·
    Ended   | ·                | Report, Rest ▸ IDLE

A row begins with the name of an event, the first one has the states. A cell has the commands, by their types or values, and the state that the
machine is in then, where it is another one; ``·`` stands for neither, and the name of an error for what the event must not do there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import UnionType
from typing import TypeVar

NOTHING = "·"
M = TypeVar("M")
E = TypeVar("E")


def cells(table: str) -> list[tuple[str, str, str]]:
    """Returns state, event and answer, for a parametrized test."""
    head, *rows = ([cell.strip() for cell in line.split("|")] for line in table.strip().splitlines())
    return [(state, event, answer) for event, *answers in rows for state, answer in zip(head[1:], answers, strict=True)]


def assert_every_pair(
    table: str, states: Mapping[str, Callable[[], M]], events: Mapping[str, E], kinds: UnionType | type
) -> None:
    """The table has each state with each event, once, and the events are of every kind there is."""
    pairs = [(state, event) for state, event, _ in cells(table)]
    assert sorted(pairs) == sorted((state, event) for state in states for event in events)
    assert {type(event) for event in events.values()} == set(getattr(kinds, "__args__", (kinds,)))


def answer(on: Callable[[], Iterable[object]], state: Callable[[], str]) -> str:
    """Returns what the cell has to say: ``on`` lets the event in, ``state`` names where the machine is."""
    before = state()
    try:
        said = ", ".join(_name(command) for command in on())
    except (AssertionError, KeyError) as error:
        return type(error).__name__
    after = state()
    return f"{said}{f' ▸ {after}' if after != before else ''}".strip() or NOTHING


def _name(command: object) -> str:
    return str(command.value) if isinstance(command, Enum) else type(command).__name__
