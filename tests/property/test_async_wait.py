"""Asynchronous I/O, ordered and unordered, against its laws: whatever completes when."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tidegate.taskmanager.machines.async_wait import (
    AsyncWaitCommand,
    AsyncWaitQueue,
    EmitResults,
    Invoke,
    MarkArrived,
    PassMark,
    RecordArrived,
    RecordCompleted,
)


class Drive:
    """Feeds a queue, completes what it invoked, and checks each step."""

    def __init__(self, capacity: int, ordered: bool) -> None:
        self.queue = AsyncWaitQueue(capacity=capacity, ordered=ordered)
        self.capacity = capacity
        self.arrived: list[tuple[str, int]] = []
        self.left: list[tuple[str, int]] = []
        self.running: list[int] = []
        self.invoked: list[int] = []

    def obey(self, commands: list[AsyncWaitCommand]) -> None:
        for command in commands:
            match command:
                case Invoke(number):
                    self.invoked.append(number)
                    self.running.append(number)
                case EmitResults(number):
                    self.left.append(("record", number))
                case PassMark(number):
                    self.left.append(("mark", number))
        records = [n for kind, n in self.arrived if kind == "record"]
        emitted = {n for kind, n in self.left if kind == "record"}
        assert self.queue.in_flight == [n for n in records if n not in emitted]
        assert len(self.invoked) - len(emitted) <= self.capacity
        assert self.invoked == records[: len(self.invoked)]

    def step(self, choice: int) -> None:
        number = len(self.arrived)
        if choice % 4 == 0:
            self.arrived.append(("mark", number))
            self.obey(list(self.queue.on(MarkArrived(number))))
        elif choice % 2 or not self.running:
            self.arrived.append(("record", number))
            self.obey(list(self.queue.on(RecordArrived(number))))
        else:
            self.complete(choice)

    def complete(self, choice: int) -> None:
        number = self.running.pop(choice % len(self.running))
        self.obey(list(self.queue.on(RecordCompleted(number))))


def between_marks(items: list[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """What stands between marks, sorted, with the marks."""
    parts = [list(part) for _, part in itertools.groupby(items, key=lambda item: item[0])]
    return [sorted(part) if part[0][0] == "record" else part for part in parts]


@given(st.integers(1, 5), st.booleans(), st.lists(st.integers(0, 1000), max_size=60))
def test_everything_leaves_once_and_in_its_order(capacity: int, ordered: bool, choices: list[int]) -> None:
    drive = Drive(capacity, ordered)
    for choice in choices:
        drive.step(choice)
    for choice in itertools.chain(choices, itertools.repeat(0)):
        if not drive.running:
            break
        drive.complete(choice)
    assert drive.queue.is_empty
    if ordered:
        assert drive.left == drive.arrived
    else:
        assert between_marks(drive.left) == between_marks(drive.arrived)
